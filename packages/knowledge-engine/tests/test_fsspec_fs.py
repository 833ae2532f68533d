from __future__ import annotations

import errno
import hashlib
import io
import struct
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import (
    ConfigurationError,
    ConflictError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    ProviderError,
    ReadOnlyError,
    StorageFullError,
    TooLargeError,
    UnavailableError,
)
from knowledge_engine.fs import FsspecFs, MemoryFs
from knowledge_engine.fs.entries import file_info
from knowledge_engine.models import ByteSpan, FileInfo
from knowledge_engine.ports import FsPort, WritableFsPort

LIMIT_S = 10


def memory() -> MemoryFileSystem:
    """A memory file system of its own."""
    return MemoryFileSystem(global_store=False, skip_instance_cache=True)


def zipped(files: Mapping[str, bytes] | list[tuple[str, bytes]], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    raw = io.BytesIO()
    entries = files.items() if isinstance(files, Mapping) else files
    with zipfile.ZipFile(raw, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name, (2024, 5, 1, 12, 0, 0)), data, compression)
    return raw.getvalue()


@pytest.fixture
def over_zip(tmp_path: Path) -> Callable[..., FsspecFs]:
    def make(files: Any, **options: Any) -> FsspecFs:
        path = tmp_path / "docs.zip"
        path.write_bytes(files if isinstance(files, bytes) else zipped(files))
        return FsspecFs.from_url(f"zip://{path}", **options)

    return make


class Store(AbstractFileSystem):
    """An object store: keys and no folders; what it tells of a key, and how it fails, is up to the test."""

    protocol = "teststore"
    cachable = False

    def __init__(self, **objects: Any) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.told: dict[str, Any] = {}
        self.failing: dict[str, BaseException] = {}
        self.requests: list[tuple[str, Any, Any]] = []
        self.ignores_ranges = False

    def _check(self, path: str) -> None:
        if path in self.failing:
            raise self.failing[path]

    def _info(self, key: str) -> dict[str, Any]:
        data = self.objects[key]
        known = {"ETag": hashlib.md5(data).hexdigest()} if not self.told else self.told
        return {"name": key, "size": len(data), "type": "file", **known}

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        self._check(path)
        if path in self.objects:
            return self._info(path)
        if any(key.startswith(f"{path}/") for key in self.objects):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        self.requests.append(("ls", path, None))
        self._check(path)
        prefix = f"{path}/" if path else ""
        found: dict[str, dict[str, Any]] = {}
        for key in self.objects:
            if key.startswith(prefix):
                name, slash, _ = key[len(prefix) :].partition("/")
                folder = {"name": prefix + name, "size": 0, "type": "directory"}
                found[prefix + name + slash] = folder if slash else self._info(key)
        if not found:
            raise FileNotFoundError(path)
        return list(found.values())

    def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        self.requests.append((path, start, end))
        self._check(path)
        data = self.objects[path]
        return data if self.ignores_ranges else data[start:end]

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        self._check(path)
        return io.BytesIO(self.objects[path])

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        self._check(path)
        self.objects[path] = value

    def rm_file(self, path: str) -> None:
        self._check(path)
        del self.objects[path]


class Sealed(Store):
    """One that cannot delete, as an HTTP server."""

    rm_file = AbstractFileSystem.rm_file


class AsyncStore(AsyncFileSystem):
    """The same for event loops, which fsspec runs in a thread of its own."""

    protocol = "testasyncstore"
    cachable = False

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    async def _info(self, path: str, **kwargs: Any) -> Any:
        return self.store.info(path)

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        return self.store.ls(path)

    async def _cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        return self.store.cat_file(path, start, end)

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        return self.store._open(path)


class WritableAsyncStore(AsyncStore):
    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        self.store.pipe_file(path, value)

    async def _rm_file(self, path: str, **kwargs: Any) -> None:
        self.store.rm_file(path)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        pass

    async def _find(self, path: str, maxdepth: Any = None, withdirs: bool = False, **kwargs: Any) -> Any:
        inside = (key for key in self.store.objects if key.startswith(f"{path}/"))
        return {key: self.store._info(key) for key in inside}


def over_store(files: Mapping[str, bytes], root: str = "bucket/docs", **options: Any) -> tuple[Store, FsspecFs]:
    store = Store()
    store.objects = {f"{root}/{path}": data for path, data in files.items()}
    return store, FsspecFs(store, root, **options)


def paths(fs: FsPort, path: str = ".") -> list[str]:
    return [info.path for info in fs.walk(path) if not info.problem]


def problems(fs: FsPort, path: str = ".") -> dict[str, str]:
    return {info.path: info.problem for info in fs.walk(path) if info.problem}


# Which port it is


def test_it_can_be_written_exactly_where_the_file_system_can(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped({"a.md": b"x"}))
    writable = [
        FsspecFs(memory()),
        FsspecFs(Store()),
        FsspecFs(fsspec.filesystem("file"), str(tmp_path)),
        FsspecFs(DirFileSystem("docs", memory())),
        FsspecFs(AsyncFileSystemWrapper(memory())),
        FsspecFs(WritableAsyncStore(Store())),
        FsspecFs.from_url("memory://kpkit-test"),
    ]
    fixed = [
        FsspecFs(Sealed()),
        FsspecFs(AsyncStore(Store())),
        FsspecFs(memory(), writable=False),
        FsspecFs(fsspec.filesystem("file"), str(tmp_path), writable=False),
        FsspecFs(fsspec.filesystem("zip", fo=str(tmp_path / "a.zip"))),
        FsspecFs.from_url(f"zip://{tmp_path}/a.zip"),
    ]
    for fs in writable:
        assert isinstance(fs, FsPort)
        assert isinstance(fs, WritableFsPort)
    for fs in fixed:
        assert isinstance(fs, FsPort)
        assert not isinstance(fs, WritableFsPort)
        assert isinstance(fs, FsspecFs)


# The same answers as any other files


_PATHS = st.sampled_from(
    ["a.md", "b/c.md", "b/d/e.md", "é/f.md", "e\u0301.md", "ww::x.md", "s p/g[1]*.md", ".h/i.md", "venv/j.md", "k"]
)
_FILES = st.dictionaries(_PATHS, st.sampled_from([b"", b"one", b"0123456789", b"\xff\xfe"]), max_size=7)
_ASKED = st.sampled_from(
    ["a.md", "b", "b/c.md", "b/d", ".h", "é", "ww::x.md", "none", "../x", "/a.md", "", "a\0", "s p/g[1]*.md"]
)
_SPANS = st.one_of(
    st.none(),
    st.builds(lambda start, size: ByteSpan(start=start, end=start + size), st.integers(0, 12), st.integers(0, 12)),
)


def _over_memory(files: Mapping[str, bytes], folder: Path) -> FsspecFs:
    fs = memory()
    for path, data in files.items():
        fs.pipe_file(f"/kb/docs/{path}", data)
    fs.pipe_file("kb/other.md", b"outside")
    fs.pipe_file("kb/docs-too/x.md", b"outside")
    return FsspecFs(fs, "kb/docs")


def _over_everything(files: Mapping[str, bytes], folder: Path) -> FsspecFs:
    fs = memory()
    for path, data in files.items():
        fs.pipe_file(f"/{path}", data)
    return FsspecFs(fs)


def _over_dir(files: Mapping[str, bytes], folder: Path) -> FsspecFs:
    fs = memory()
    for path, data in files.items():
        fs.pipe_file(f"/kb/docs/{path}", data)
    return FsspecFs(DirFileSystem("kb", fs), "docs")


def _over_store(files: Mapping[str, bytes], folder: Path) -> FsspecFs:
    store, fs = over_store(files)
    store.objects["bucket/docs-too/x.md"] = b"outside"
    return fs


def _over_async(files: Mapping[str, bytes], folder: Path) -> FsspecFs:
    return FsspecFs(AsyncStore(over_store(files)[0]), "bucket/docs")


def _over_writable_async(files: Mapping[str, bytes], folder: Path) -> FsspecFs:
    return FsspecFs(WritableAsyncStore(over_store(files)[0]), "bucket/docs")


def _over_wrapped(files: Mapping[str, bytes], folder: Path) -> FsspecFs:
    fs = memory()
    for path, data in files.items():
        fs.pipe_file(f"/kb/docs/{path}", data)
    return FsspecFs(AsyncFileSystemWrapper(fs), "kb/docs")


def _over_zip(files: Mapping[str, bytes], folder: Path) -> FsspecFs:
    (folder / "docs.zip").write_bytes(
        zipped({f"inner/{path}": data for path, data in files.items()} | {"x.md": b"outside"})
    )
    return FsspecFs.from_url(f"zip://inner::{folder}/docs.zip")


def _over_local(files: Mapping[str, bytes], folder: Path) -> FsspecFs:
    for path, data in files.items():
        (folder / "docs" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "docs" / path).write_bytes(data)
    return FsspecFs.from_url(f"file://{folder}/docs")


_MAKERS = [
    _over_memory,
    _over_everything,
    _over_dir,
    _over_store,
    _over_async,
    _over_writable_async,
    _over_wrapped,
    _over_zip,
    _over_local,
]


def _answer(call: Callable[[], object]) -> object:
    try:
        return call()
    except KnowledgeError as error:
        return type(error), str(error)


@pytest.mark.parametrize("make", _MAKERS)
@settings(deadline=None, max_examples=40)
@given(files=_FILES, asked=_ASKED, span=_SPANS)
def test_files_are_listed_and_read_as_those_in_memory(
    make: Callable[[Mapping[str, bytes], Path], FsspecFs], files: dict[str, bytes], asked: str, span: ByteSpan | None
) -> None:
    plain = MemoryFs(files)
    with tempfile.TemporaryDirectory() as folder:
        fs = make(files, Path(folder))
        assert [info[:2] for info in fs.walk()] == [info[:2] for info in plain.walk()]
        assert _answer(lambda: [info[:2] for info in fs.walk(asked)]) == _answer(
            lambda: [info[:2] for info in plain.walk(asked)]
        )
        for path in {asked, *files}:
            assert _answer(lambda path=path: fs.stat(path)[:2]) == _answer(lambda path=path: plain.stat(path)[:2])
            assert _answer(lambda path=path: fs.read(path, span)) == _answer(lambda path=path: plain.read(path, span))
        assert list(fs.walk()) == list(fs.walk())
        for info in fs.walk():
            assert fs.stat(info.path) == info


def test_excluded_files_are_left_out_everywhere() -> None:
    store, fs = over_store({"a.md": b"x", "drafts/b.md": b"x", "c.tmp": b"x"}, exclude=("drafts", "*.tmp"))
    assert paths(fs) == ["a.md"]
    assert paths(fs, "drafts") == []
    assert ("ls", "bucket/docs/drafts", None) not in store.requests
    for path in ("drafts/b.md", "c.tmp"):
        with pytest.raises(NotFoundError):
            fs.read(path)
    assert isinstance(fs, WritableFsPort)
    with pytest.raises(InvalidIdError, match="excluded"):
        fs.write("new.tmp", b"")


def test_hidden_folders_are_not_even_listed() -> None:
    store, fs = over_store({"a.md": b"x", "node_modules/p/b.md": b"x", ".git/c": b"x"})
    assert paths(fs) == ["a.md"]
    assert [path for kind, path, _ in store.requests if kind == "ls"] == ["bucket/docs"]


# How a change shows


def test_a_version_tells_files_apart_even_of_one_size() -> None:
    store, fs = over_store({"a.md": b"one", "b.md": b"one"})
    before, twin = fs.stat("a.md"), fs.stat("b.md")
    assert before.inode != twin.inode
    assert before == fs.stat("a.md")
    store.objects["bucket/docs/a.md"] = b"two"
    assert fs.stat("a.md") != before
    store.objects["bucket/docs/a.md"] = b"one"
    assert fs.stat("a.md") == before


def test_where_nothing_tells_versions_apart_each_look_finds_another() -> None:
    store, fs = over_store({"a.md": b"one"})
    store.told = {"owner": "me"}
    assert len({fs.stat("a.md") for _ in range(3)}) == 3


def test_writing_the_same_size_again_shows_in_memory() -> None:
    fs = FsspecFs(memory())
    assert isinstance(fs, WritableFsPort)
    before = fs.write("a.md", b"one")
    assert fs.stat("a.md") == before == next(fs.walk())
    assert fs.write("a.md", b"two") != before


def test_one_moment_is_the_same_however_it_is_told() -> None:
    moment = datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    for told in (
        moment,
        moment.replace(tzinfo=None),
        moment.astimezone(timezone(timedelta(hours=2))),
        moment.isoformat(),
        moment.timestamp(),
    ):
        info = file_info("a.md", {"type": "file", "size": 1, "LastModified": told})
        assert info == FileInfo("a.md", 1, 1_714_564_800_250_000_000)
    assert file_info("a", {"type": "file", "created": moment}) == file_info(
        "a", {"type": "file", "created": moment.timestamp()}
    )
    vague = file_info("a", {"type": "file", "mtime": "yesterday", "ETag": "e", "updated": -5})
    assert (vague.mtime_ns, vague.size) == (0, 0)
    assert vague.inode


# File systems that fail or lie


def test_what_is_no_regular_file_is_a_problem_and_cannot_be_read() -> None:
    store, fs = over_store({"a.md": b"x", "b.md": b"x"})
    store.told = {"type": "link"}
    assert problems(fs) == {"a.md": "not-regular", "b.md": "not-regular"}
    store.told = {"islink": True}
    with pytest.raises(NotFoundError):
        fs.read("a.md")


def test_keys_that_are_no_paths_are_problems() -> None:
    store, fs = over_store({"a.md": b"x"})
    store.objects |= {f"bucket/docs/{key}": b"x" for key in ("b\\c.md", "d\ne.md", "f\x00.md")}
    assert paths(fs) == ["a.md"]
    assert set(problems(fs).values()) == {"name-invalid"}
    assert list(problems(fs)) == ["b\\c.md", "d\\x0ae.md", "f\\x00.md"]


def test_the_mark_of_an_empty_folder_is_no_file() -> None:
    class Marked(Store):
        def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
            return [
                {"name": f"{path}/", "size": 0, "type": "file"},
                {"name": path, "size": 0, "type": "directory"},
                {"name": f"{path}/a.md", "size": 1, "type": "file", "ETag": "e"},
            ]

    assert [info.path for info in FsspecFs(Marked(), "bucket").walk()] == ["a.md"]


def test_a_folder_that_may_not_be_read_is_a_problem_and_the_rest_is_there() -> None:
    store, fs = over_store({"a.md": b"x", "b/c.md": b"x", "gone/d.md": b"x"})
    store.failing = {"bucket/docs/b": PermissionError("no"), "bucket/docs/gone": FileNotFoundError("just now")}
    assert paths(fs) == ["a.md"]
    assert problems(fs) == {"b": "unreadable"}
    store.failing = {"bucket/docs": PermissionError("secret-key")}
    with pytest.raises(ProviderError, match="cannot be listed: PermissionError"):
        fs.walk()


def test_a_listing_that_breaks_off_is_an_error_and_not_an_empty_folder() -> None:
    store, fs = over_store({"a.md": b"x", "b/c.md": b"x"})
    store.failing = {"bucket/docs/b": OSError("secret-key")}
    with pytest.raises(ProviderError) as caught:
        fs.walk()
    assert "secret" not in str(caught.value)


def test_errors_of_any_kind_become_ours_and_keep_their_texts_to_themselves() -> None:
    class Strange(Exception):
        pass

    store, fs = over_store({"a.md": b"one"})
    for raised, expected in (
        (Strange("secret-key"), ProviderError),
        (PermissionError("secret-key"), ProviderError),
        (TimeoutError("secret-key"), UnavailableError),
        (ConnectionResetError("secret-key"), UnavailableError),
        (FileNotFoundError("secret-key"), NotFoundError),
        (IsADirectoryError("secret-key"), NotFoundError),
    ):
        store.failing = {"bucket/docs/a.md": raised}
        with pytest.raises(expected) as caught:
            fs.read("a.md")
        assert "secret" not in str(caught.value)


def test_a_file_that_vanishes_before_it_is_read_is_not_found() -> None:
    class Vanishing(Store):
        def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
            raise FileNotFoundError(path)

    store = Vanishing()
    store.objects = {"b/a.md": b"x"}
    with pytest.raises(NotFoundError):
        FsspecFs(store, "b").read("a.md")


def test_of_a_span_only_its_bytes_are_asked_for() -> None:
    store, fs = over_store({"a.md": b"0123456789"})
    assert fs.read("a.md", ByteSpan(start=8, end=20)) == b"89"
    assert store.requests == [("bucket/docs/a.md", 8, 10)]
    assert fs.read("a.md", ByteSpan(start=10, end=20)) == b""
    assert len(store.requests) == 1
    store.ignores_ranges = True
    with pytest.raises(ProviderError, match="more was sent"):
        fs.read("a.md", ByteSpan(start=8, end=20))
    assert fs.read("a.md") == b"0123456789"


def test_a_file_of_unknown_size_is_read_to_its_end() -> None:
    store, fs = over_store({"a.md": b"0123456789"}, max_bytes=10)
    store.told = {"size": None}
    assert fs.stat("a.md").size == 0
    assert fs.read("a.md") == b"0123456789"
    assert fs.read("a.md", ByteSpan(start=3, end=5)) == b"34"
    store.objects["bucket/docs/a.md"] += b"!"
    with pytest.raises(TooLargeError):
        fs.read("a.md")


def test_the_limit_holds_for_what_is_declared_and_for_what_comes() -> None:
    store, fs = over_store({"a.md": b"0123456789"}, max_bytes=9)
    with pytest.raises(TooLargeError, match="limit of 9 bytes"):
        fs.read("a.md")
    assert store.requests == []
    assert fs.read("a.md", ByteSpan(start=1, end=10)) == b"123456789"
    with pytest.raises(TooLargeError):
        fs.read("a.md", ByteSpan(start=0, end=10))
    store.told = {"size": 5, "ETag": "e"}
    with pytest.raises(TooLargeError):
        fs.read("a.md")


# Writing


def test_files_are_written_and_deleted_on_condition() -> None:
    for fs in (FsspecFs(memory(), "kb"), over_store({})[1], FsspecFs(WritableAsyncStore(Store()), "b")):
        assert isinstance(fs, WritableFsPort)
        info = fs.write("a/b.md", b"one", if_match="")
        assert (info.path, info.size, fs.read("a/b.md")) == ("a/b.md", 3, b"one")
        one = hashlib.sha256(b"one").hexdigest()
        with pytest.raises(ConflictError, match="already exists"):
            fs.write("a/b.md", b"two", if_match="")
        fs.write("a/b.md", b"two", if_match=one)
        with pytest.raises(ConflictError, match="has changed"):
            fs.write("a/b.md", b"x", if_match=one)
        with pytest.raises(ConflictError, match="has changed"):
            fs.delete("a/b.md", if_match=one)
        with pytest.raises(ConflictError, match="not there"):
            fs.write("a/c.md", b"x", if_match=one)
        fs.delete("a/b.md", if_match=hashlib.sha256(b"two").hexdigest())
        assert paths(fs) == []
        with pytest.raises(NotFoundError):
            fs.delete("a/b.md")


def test_only_the_named_file_is_deleted_whatever_it_is_called() -> None:
    fs = FsspecFs(memory())
    assert isinstance(fs, WritableFsPort)
    for path in ("a[1]*.md", "a1.md", "a1b.md", "b?.md", "bc.md"):
        fs.write(path, b"x")
    fs.delete("a[1]*.md")
    fs.delete("b?.md")
    assert paths(fs) == ["a1.md", "a1b.md", "bc.md"]


def test_a_name_that_is_taken_or_hidden_or_no_path_is_refused_for_writing() -> None:
    fs = FsspecFs(memory())
    assert isinstance(fs, WritableFsPort)
    fs.write("a/b.md", b"x")
    for path in ("a", "a/b.md/c.md", ".git/x.md", "../x.md", "/x.md", ""):
        with pytest.raises(InvalidIdError):
            fs.write(path, b"x")
    assert paths(fs) == ["a/b.md"]


def test_what_is_too_large_is_not_written() -> None:
    fs = FsspecFs(memory(), max_bytes=3)
    assert isinstance(fs, WritableFsPort)
    fs.write("a.md", b"123")
    with pytest.raises(TooLargeError):
        fs.write("a.md", b"1234")
    assert fs.read("a.md") == b"123"


def test_refusals_to_write_have_their_own_errors() -> None:
    class Refusing(Store):
        refusal: BaseException

        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
            raise self.refusal

        def rm_file(self, path: str) -> None:
            raise self.refusal

    store = Refusing()
    store.objects = {"b/a.md": b"one"}
    fs = FsspecFs(store, "b")
    assert isinstance(fs, WritableFsPort)
    for refusal, expected in (
        (PermissionError("secret"), ReadOnlyError),
        (NotImplementedError(), ReadOnlyError),
        (OSError(errno.ENOSPC, "secret"), StorageFullError),
        (OSError(errno.EROFS, "secret"), ReadOnlyError),
        (OSError("secret"), ProviderError),
        (ValueError("secret"), ProviderError),
        (ConnectionError("secret"), UnavailableError),
        (FileNotFoundError("secret"), InvalidIdError),
    ):
        store.refusal = refusal
        for change in (lambda: fs.write("a.md", b"two"), lambda: fs.delete("a.md")):
            with pytest.raises(expected) as caught:
                change()
            assert "secret" not in str(caught.value)
    assert fs.read("a.md") == b"one"


def test_a_condition_on_a_file_that_cannot_be_read_is_no_conflict() -> None:
    store, fs = over_store({"a.md": b"one"})
    assert isinstance(fs, WritableFsPort)
    store.failing = {"bucket/docs/a.md": TimeoutError()}
    with pytest.raises(UnavailableError):
        fs.write("a.md", b"two", if_match="")


def test_conditional_writes_from_many_threads_lose_nothing() -> None:
    fs = FsspecFs(memory())
    assert isinstance(fs, WritableFsPort)
    fs.write("n", b"0")

    def count() -> None:
        done = 0
        while done < 20:
            seen = fs.read("n")
            try:
                fs.write("n", str(int(seen) + 1).encode(), if_match=hashlib.sha256(seen).hexdigest())
                done += 1
            except ConflictError:
                continue

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fs.read("n") == b"80"


def test_a_local_folder_is_guarded_as_ever(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret.md").write_bytes(b"secret")
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "docs" / "out").symlink_to(tmp_path)
    for fs in (
        FsspecFs(fsspec.filesystem("file"), f"{tmp_path}/docs"),
        FsspecFs(DirFileSystem(f"{tmp_path}/docs", fsspec.filesystem("file"))),
        FsspecFs.from_url(f"{tmp_path}/docs"),
        FsspecFs.from_url(f"dir::file://{tmp_path}/docs"),
    ):
        assert problems(fs) == {"link.md": "symlink-escape", "out": "symlink-escape"}
        for path in ("link.md", "out/secret.md"):
            with pytest.raises(NotFoundError):
                fs.read(path)
        assert isinstance(fs, WritableFsPort)
        fs.write("new.md", b"new")
        assert (tmp_path / "docs" / "new.md").read_bytes() == b"new"
        fs.delete("new.md")
        assert paths(fs) == []


# Archives


def _patched(raw: bytes, central: Callable[[bytearray, int], None] | None = None, local: Any = None) -> bytes:
    """The archive with changes made at each header."""
    out = bytearray(raw)
    for mark, change in ((b"PK\x01\x02", central), (b"PK\x03\x04", local)):
        at = out.find(mark)
        while change is not None and at >= 0:
            change(out, at)
            at = out.find(mark, at + 4)
    return bytes(out)


def test_entries_whose_names_lead_anywhere_are_problems_and_never_paths(over_zip: Callable[..., FsspecFs]) -> None:
    names = [
        "/etc/passwd",
        "../up.md",
        "a/../../up.md",
        "b\\c.md",
        "C:/d.md",
        "~/e.md",
        "f//g.md",
        "h/./i.md",
        "nXl.md",
    ]
    raw = zipped([(name, b"x") for name in [*names, "ok.md", "./too.md"]]).replace(b"nXl.md", b"n\0l.md")
    fs = over_zip(raw)
    assert paths(fs) == ["ok.md", "too.md"]
    assert fs.read("too.md") == b"x"
    assert problems(fs) == dict.fromkeys([*sorted(names[:-1]), "n\\x00l.md"], "name-invalid")
    for name in [*names[:-1], "n\0l.md"]:
        with pytest.raises(InvalidIdError):
            fs.read(name)
    for name in ("etc/passwd", "up.md", "n", "b/c.md"):
        with pytest.raises(NotFoundError):
            fs.read(name)


def test_a_name_that_two_entries_have_is_a_problem_and_no_path(over_zip: Callable[..., FsspecFs]) -> None:
    fs = over_zip([("a.md", b"one"), ("b.md", b"x"), ("a.md", b"two"), ("./a.md", b"three")])
    assert paths(fs) == ["b.md"]
    assert problems(fs) == {"a.md": "duplicate-name"}
    with pytest.raises(NotFoundError):
        fs.read("a.md")


def test_folders_hidden_entries_and_links_of_an_archive(over_zip: Callable[..., FsspecFs]) -> None:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        link = zipfile.ZipInfo("link.md")
        link.external_attr = 0o120777 << 16
        link.create_system = 3
        archive.writestr(link, "/etc/passwd")
        for name in ("empty/", "__MACOSX/a.md", ".git/config", "docs/a.md"):
            archive.writestr(name, b"")
    fs = over_zip(raw.getvalue())
    assert paths(fs) == ["docs/a.md"]
    assert problems(fs) == {"link.md": "not-regular"}
    assert (paths(fs, "docs"), problems(fs, "docs")) == (["docs/a.md"], {})
    with pytest.raises(NotFoundError):
        fs.read("link.md")


def test_an_encrypted_entry_is_unreadable_and_the_others_are_not(over_zip: Callable[..., FsspecFs]) -> None:
    seen: list[int] = []

    def encrypt(out: bytearray, at: int) -> None:
        seen.append(at)
        if len(seen) == 1:
            out[at + 8] |= 1

    fs = over_zip(_patched(zipped({"a.md": b"secret", "b.md": b"open"}), central=encrypt))
    assert paths(fs) == ["b.md"]
    assert problems(fs) == {"a.md": "unreadable"}
    assert fs.read("b.md") == b"open"
    assert fs.stat("a.md").size == 6
    with pytest.raises(ProviderError, match="encrypted"):
        fs.read("a.md")


def test_a_bomb_is_not_unpacked(over_zip: Callable[..., FsspecFs]) -> None:
    fs = over_zip({"bomb.md": b"\0" * (4 << 20), "ok.md": b"x"}, max_bytes=1 << 20)
    assert paths(fs) == ["bomb.md", "ok.md"]
    with pytest.raises(TooLargeError):
        fs.read("bomb.md")
    assert fs.read("bomb.md", ByteSpan(start=(4 << 20) - 3, end=4 << 20)) == b"\0\0\0"


def test_an_entry_that_is_larger_than_it_says_is_not_read_further(over_zip: Callable[..., FsspecFs]) -> None:
    def lie(out: bytearray, at: int) -> None:
        struct.pack_into("<I", out, at + 24, 10)

    fs = over_zip(_patched(zipped({"bomb.md": b"a" * (4 << 20)}), central=lie), max_bytes=100)
    assert fs.stat("bomb.md").size == 10
    with pytest.raises(ProviderError, match="BadZipFile"):
        fs.read("bomb.md")


def test_entries_that_share_their_bytes_are_unreadable(over_zip: Callable[..., FsspecFs]) -> None:
    seen: list[int] = []

    def overlap(out: bytearray, at: int) -> None:
        seen.append(at)
        if len(seen) == 2:
            struct.pack_into("<I", out, at + 42, 0)  # begins where the first one does

    raw = zipped({"a.md": b"one", "b.md": b"one", "c.md": b"one"})
    fs = over_zip(_patched(raw, central=overlap))
    assert paths(fs) == ["c.md"]
    assert problems(fs) == {"a.md": "unreadable", "b.md": "unreadable"}
    seen.clear()

    def spread(out: bytearray, at: int) -> None:
        seen.append(at)
        if len(seen) == 1:
            struct.pack_into("<I", out, at + 20, 90)  # reaches over the second into the third

    fs = over_zip(_patched(raw, central=spread))
    assert set(problems(fs)) == {"a.md", "b.md", "c.md"}


def test_a_moment_that_is_none_is_no_time(over_zip: Callable[..., FsspecFs]) -> None:
    def zero(out: bytearray, at: int) -> None:
        struct.pack_into("<H", out, at + 14, 0)

    fs = over_zip(_patched(zipped({"a.md": b"one"}), central=zero))
    (info,) = fs.walk()
    assert info.mtime_ns == 0
    assert info.inode


def test_what_is_no_archive_is_an_error(over_zip: Callable[..., FsspecFs], tmp_path: Path) -> None:
    fs = over_zip(b"no archive at all")
    for ask in (fs.walk, lambda: fs.read("a.md")):
        with pytest.raises(ProviderError, match="BadZipFile"):
            ask()
    (tmp_path / "docs.zip").unlink()
    for ask in (fs.walk, lambda: fs.read("a.md")):
        with pytest.raises(ProviderError, match="not there"):
            ask()


def test_an_archive_that_is_replaced_is_opened_again(over_zip: Callable[..., FsspecFs], tmp_path: Path) -> None:
    fs = over_zip({"a.md": b"one", "b.md": b"same"})
    before = {info.path: info for info in fs.walk()}
    assert before["a.md"].mtime_ns == 1_714_564_800_000_000_000
    (tmp_path / "new.zip").write_bytes(zipped({"a.md": b"two", "b.md": b"same", "c.md": b"new"}))
    (tmp_path / "new.zip").replace(tmp_path / "docs.zip")
    assert fs.stat("a.md") != before["a.md"]
    assert fs.read("a.md") == b"two"
    assert paths(fs) == ["a.md", "b.md", "c.md"]


def test_an_archive_may_lie_in_another_file_system() -> None:
    inner = fsspec.filesystem("memory")
    inner.pipe_file("/kpkit-archives/docs.zip", zipped({"x/a.md": b"one"}))
    try:
        assert FsspecFs.from_url("zip://::memory://kpkit-archives/docs.zip").read("x/a.md") == b"one"
        fs = FsspecFs.from_url("zip://x::memory://kpkit-archives/docs.zip")
        assert paths(fs) == ["a.md"]
        inner.pipe_file("/kpkit-archives/docs.zip", zipped({"x/b.md": b"two"}))
        assert paths(fs) == ["b.md"]
    finally:
        inner.rm("/kpkit-archives", recursive=True)


def test_many_threads_read_one_archive(over_zip: Callable[..., FsspecFs]) -> None:
    files = {f"{at}.md": bytes([at]) * (1000 + at) for at in range(20)}
    fs = over_zip(files)
    wrong: list[str] = []

    def read() -> None:
        for path, data in files.items():
            if fs.read(path) != data or fs.read(path, ByteSpan(start=990, end=1000)) != data[990:1000]:
                wrong.append(path)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# URLs


@pytest.mark.parametrize("url", ["nope://x", "zip://::nope://x", "", "::x", "://x"])
def test_a_url_of_no_file_system_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        FsspecFs.from_url(url)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("faraway", "no_such_module.Fs", clobber=True, errtxt="Install faraway-fs for it")
    for url in ("faraway://bucket/docs", "zip://::faraway://bucket/docs.zip"):
        with pytest.raises(ConfigurationError, match=r"'faraway'.*Install faraway-fs for it"):
            FsspecFs.from_url(url)
    for name in [name for name in sys.modules if name.partition(".")[0] == "fsspec"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ConfigurationError, match=r"kpkit-engine\[fsspec\]"):
        FsspecFs.from_url("memory://x")


def test_a_place_that_cannot_be_reached_is_told_without_its_address() -> None:
    class Unreachable(Store):
        def __init__(self, **options: Any) -> None:
            raise ConnectionRefusedError("secret-host")

    fsspec.register_implementation("kpkit-unreachable", Unreachable, clobber=True)
    with pytest.raises(UnavailableError) as caught:
        FsspecFs.from_url("kpkit-unreachable://secret-host/docs")
    assert "secret" not in str(caught.value)


def test_a_file_system_of_a_running_loop_is_refused() -> None:
    class Waiting(Store):
        asynchronous = True

    with pytest.raises(ConfigurationError, match="event loop"):
        FsspecFs(Waiting())


def test_a_path_that_the_file_system_takes_for_another_names_no_file() -> None:
    store = Store()
    store.objects = {"a.md": b"one"}
    fs = FsspecFs(store)
    assert isinstance(fs, WritableFsPort)
    assert fs.read("a.md") == b"one"
    for call in (fs.read, fs.stat, fs.delete):
        with pytest.raises(NotFoundError):
            call("teststore::a.md")
    assert paths(fs, "teststore::a") == []
    with pytest.raises(InvalidIdError):
        fs.write("teststore::a.md", b"two")
    assert store.objects == {"a.md": b"one"}


def test_a_listing_at_once_may_name_folders_and_may_find_nothing() -> None:
    class Listing(Store):
        def find(self, path: str, *args: Any, **kwargs: Any) -> Any:
            if not self.objects:
                raise FileNotFoundError(path)
            folder = {"name": f"{path}/sub", "size": 0, "type": "directory"}
            return {"sub": folder} | {key: self._info(key) for key in self.objects}

    store = Listing()
    fs = FsspecFs(store, "b")
    assert list(fs.walk()) == []
    store.objects = {"b/sub/a.md": b"x", "elsewhere.md": b"x"}
    assert [info.path for info in fs.walk()] == ["sub/a.md"]


@pytest.mark.parametrize("cache", ["simplecache", "filecache"])
def test_a_cache_that_would_hide_changes_is_refused(cache: str) -> None:
    with pytest.raises(ConfigurationError, match="hide changes"):
        FsspecFs.from_url(f"{cache}::memory://kpkit-cached")
