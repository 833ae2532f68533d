from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    ConflictError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    ProviderError,
    ReadOnlyError,
    StorageFullError,
    TooLargeError,
)
from knowledge_engine.fs import LocalFs
from knowledge_engine.fs.opening import real_path
from knowledge_engine.fs.writing import write_error
from knowledge_engine.models import ByteSpan
from knowledge_engine.ports import FsPort, WritableFsPort

SECRET = b"TOP SECRET"


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """A root with one document, and a secret beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_bytes(SECRET)
    (tmp_path / "kb-private").mkdir()
    (tmp_path / "kb-private" / "hidden.md").write_bytes(SECRET)
    root = tmp_path / "kb"
    root.mkdir()
    (root / "in.md").write_bytes(b"inside")
    return root


def put(root: Path, *paths: str, data: bytes = b"x") -> None:
    for path in paths:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def link(root: Path, path: str, target: str | Path) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).symlink_to(target)


def listed(fs: LocalFs, path: str = ".") -> list[str]:
    return [info.path for info in fs.walk(path) if not info.problem]


def problems(fs: LocalFs, path: str = ".") -> dict[str, str]:
    return {info.path: info.problem for info in fs.walk(path) if info.problem}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def ordinary_user() -> Iterator[Path]:
    """A scratch folder and the rights of an ordinary user, who may not do everything as root may."""
    folder = Path(tempfile.mkdtemp())
    user = os.geteuid()
    try:
        if user == 0:
            os.chown(folder, 65534, -1)
            os.seteuid(65534)
        yield folder
    finally:
        os.seteuid(user)
        for parent, folders, _ in os.walk(folder):
            for name in folders:
                (Path(parent) / name).chmod(0o700)
        shutil.rmtree(folder)


# Listing


def test_it_is_a_port_that_can_be_written(kb: Path) -> None:
    assert isinstance(LocalFs(kb), FsPort)
    assert isinstance(LocalFs(kb), WritableFsPort)


def test_files_come_in_order_of_path_with_the_identity_that_stat_gives(kb: Path) -> None:
    put(kb, "b/c.md", "b.md", "B.md", "a/é.md", data=b"abc")
    fs = LocalFs(kb)
    infos = list(fs.walk())
    assert [info.path for info in infos] == ["B.md", "a/é.md", "b.md", "b/c.md", "in.md"]
    found = os.stat(kb / "b.md")
    assert infos[2] == ("b.md", 3, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, "")
    assert [fs.stat(info.path) for info in infos] == infos


def test_a_walk_of_a_folder_gives_what_is_in_it_and_no_more(kb: Path) -> None:
    put(kb, "a/x.md", "a/b/y.md", "ab/z.md")
    assert listed(LocalFs(kb), "a") == ["a/b/y.md", "a/x.md"]
    assert list(LocalFs(kb).walk("missing")) == []
    assert list(LocalFs(kb).walk("in.md")) == []


def test_hidden_version_control_and_dependency_folders_are_out(kb: Path) -> None:
    put(kb, ".git/x.md", "a/.obsidian/x.md", "node_modules/p/README.md", "venv/lib/x.md", ".hidden.md", "vendor/x.md")
    fs = LocalFs(kb)
    assert listed(fs) == ["in.md", "vendor/x.md"]
    assert list(fs.walk(".git")) == []
    for verb in (fs.stat, fs.read, fs.delete):
        with pytest.raises(NotFoundError):
            verb(".git/x.md")
    with pytest.raises(InvalidIdError):
        fs.write(".git/x.md", b"")


def test_excluded_paths_are_neither_listed_nor_read_nor_written(kb: Path) -> None:
    put(kb, "drafts/a.md", "x/drafts/b.md", "x/c.tmp", "x/d.md")
    fs = LocalFs(kb, exclude=["drafts/", "*.tmp", "in.*"])
    assert listed(fs) == ["x/d.md"]
    assert list(fs.walk("drafts")) == []
    assert list(fs.walk("x/drafts")) == []
    with pytest.raises(NotFoundError):
        fs.read("drafts/a.md")
    with pytest.raises(InvalidIdError, match="excluded"):
        fs.write("drafts/new.md", b"")


def test_the_root_may_be_a_link_and_may_appear_later(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    fs = LocalFs(tmp_path / "link")
    assert list(fs.walk()) == []
    with pytest.raises(NotFoundError):
        fs.stat("in.md")
    put(tmp_path / "real", "in.md")
    assert listed(fs) == ["in.md"]
    assert fs.read("in.md") == b"x"


def test_a_root_that_is_deleted_and_made_again_is_seen_again(kb: Path) -> None:
    fs = LocalFs(kb)
    assert listed(fs) == ["in.md"]
    shutil.rmtree(kb)
    assert list(fs.walk()) == []
    with pytest.raises(NotFoundError):
        fs.read("in.md")
    with pytest.raises(NotFoundError):
        fs.delete("in.md")
    fs.write("new.md", b"")
    assert listed(fs) == ["new.md"]


def test_a_root_that_is_a_file_has_no_documents_and_takes_none(kb: Path) -> None:
    for root in (kb / "in.md", kb / "in.md" / "below"):
        fs = LocalFs(root)
        assert list(fs.walk()) == []
        with pytest.raises(ConfigurationError) as caught:
            fs.write("a.md", b"")
        assert str(kb) not in str(caught.value)


def test_the_root_of_the_disk_can_be_a_root(kb: Path) -> None:
    inside = str(kb.resolve()).lstrip("/")
    fs = LocalFs("/")
    assert fs.read(f"{inside}/in.md") == b"inside"
    assert listed(fs, inside) == [f"{inside}/in.md"]


def test_names_keep_their_normal_form(kb: Path) -> None:
    put(kb, "caf\u00e9.md", "cafe\u0301.md")
    assert listed(LocalFs(kb)) == ["cafe\u0301.md", "caf\u00e9.md", "in.md"]


def test_names_that_are_no_text_or_no_path_are_problems_and_show_without_surrogates(kb: Path) -> None:
    for name in (b"bad\xff.md", b"new\nline.md", b"back\\slash.md", b"~home.md", b"c:drive.md"):
        Path(os.fsdecode(bytes(kb) + b"/" + name)).write_bytes(b"")
    Path(os.fsdecode(bytes(kb) + b"/dir\xfe")).mkdir()
    put(kb, "fine: yes~.md")
    fs = LocalFs(kb)
    assert listed(fs) == ["fine: yes~.md", "in.md"]
    assert problems(fs) == {
        "bad\\xff.md": "name-encoding",
        "dir\\xfe": "name-encoding",
        "new\\x0aline.md": "name-invalid",
        "back\\slash.md": "name-invalid",
        "~home.md": "name-invalid",
        "c:drive.md": "name-invalid",
    }


def test_long_names_and_deep_folders_are_listed_as_far_as_they_can_be_opened(kb: Path) -> None:
    put(kb, "水" * 85, "é" * 100)
    descriptor = os.open(kb, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 200, dir_fd=descriptor)
        os.close(os.open("f", os.O_CREAT, dir_fd=descriptor))
        os.close(os.open("e" * 250, os.O_CREAT, dir_fd=descriptor))
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    fs = LocalFs(kb)
    paths = listed(fs)
    assert len(paths) > 30
    assert all(fs.read(path) is not None for path in paths)
    assert set(problems(fs).values()) == {"name-invalid"}


def test_many_nested_folders_need_no_recursion(kb: Path) -> None:
    folder = str(kb)
    for _ in range(1500):
        folder += "/d"
        os.mkdir(folder)
    put(Path(folder), "deep.md")
    try:
        assert listed(LocalFs(kb))[0].endswith("deep.md")
    finally:
        # Python's own removal is recursive.
        subprocess.run(["rm", "-r", kb / "d"], check=True)


def test_fifos_sockets_and_devices_are_problems_and_never_block(kb: Path) -> None:
    os.mkfifo(kb / "pipe.md")
    os.mknod(kb / "socket.md", stat.S_IFSOCK | 0o600)
    link(kb, "zero.md", "/dev/zero")
    link(kb, "tty.md", "/dev/tty")
    put(kb, ".h/x")
    os.mkfifo(kb / ".h" / "pipe")
    link(kb, "via.md", ".h/pipe")
    fs = LocalFs(kb)
    assert listed(fs) == ["in.md"]
    assert problems(fs) == {
        "pipe.md": "not-regular",
        "socket.md": "not-regular",
        "via.md": "not-regular",
        "zero.md": "symlink-escape",
        "tty.md": "symlink-escape",
    }
    for path in problems(fs):
        for verb in (fs.read, fs.stat):
            with pytest.raises(NotFoundError):
                verb(path)
    for path in ("pipe.md", "socket.md"):
        with pytest.raises(InvalidIdError):
            fs.write(path, b"")
        with pytest.raises(NotFoundError):
            fs.delete(path)


# Links


def test_links_that_leave_the_root_are_problems_and_give_nothing(kb: Path) -> None:
    link(kb, "d", "../outside")
    link(kb, "s.md", "../outside/secret.md")
    link(kb, "p", "../kb-private")
    link(kb, "absolute.md", kb.parent / "outside" / "secret.md")
    link(kb, "absent.md", "../outside/absent.md")
    fs = LocalFs(kb)
    assert listed(fs) == ["in.md"]
    assert problems(fs) == dict.fromkeys(["absent.md", "absolute.md", "d", "p", "s.md"], "symlink-escape")
    assert problems(fs, "d") == {"d": "symlink-escape"}
    answers = set()
    for path in ("d/secret.md", "s.md", "d/absent.md", "p/hidden.md", "absolute.md", "absent.md"):
        for verb in (fs.read, fs.stat):
            with pytest.raises(NotFoundError) as caught:
                verb(path)
            answers.add(str(caught.value).replace(path, "PATH"))
        with pytest.raises(ReadOnlyError):
            fs.write(path, b"overwritten")
        with pytest.raises(ReadOnlyError):
            fs.delete(path)
    assert len(answers) == 1
    assert (kb.parent / "outside" / "secret.md").read_bytes() == SECRET


def test_a_link_to_a_listed_document_is_left_out_but_can_be_read(kb: Path) -> None:
    put(kb, "a/b.md")
    link(kb, "ok.md", "in.md")
    link(kb, "z", "a")
    fs = LocalFs(kb)
    assert [info.path for info in fs.walk()] == ["a/b.md", "in.md"]
    assert fs.read("ok.md") == b"inside"
    assert fs.read("z/b.md") == b"x"
    with pytest.raises(NotFoundError):
        fs.read("z/.hidden")


def test_a_mounted_configmap_is_listed_under_its_own_names(kb: Path) -> None:
    put(kb, "..2024_01/one.md", "..2024_01/sub/two.md", data=b"v1")
    link(kb, "..data", "..2024_01")
    link(kb, "one.md", "..data/one.md")
    link(kb, "sub", "..data/sub")
    fs = LocalFs(kb)
    before = list(fs.walk())
    assert [info.path for info in before] == ["in.md", "one.md", "sub/two.md"]
    assert [fs.stat(info.path) for info in before] == before
    put(kb, "..2024_02/one.md", "..2024_02/sub/two.md", data=b"v2")
    link(kb, "..new", "..2024_02")
    (kb / "..new").replace(kb / "..data")
    assert fs.read("one.md") == b"v2"
    assert list(fs.walk())[1:] != before[1:]
    with pytest.raises(ReadOnlyError, match="through a link"):
        fs.write("one.md", b"")
    with pytest.raises(ReadOnlyError, match="through a link"):
        fs.write("sub/two.md", b"")


def test_cycles_and_self_links_end_and_everything_is_listed_once(kb: Path) -> None:
    put(kb, "loop/a.md", ".h/x.md", ".h/sub/y.md", ".g/z.md")
    link(kb, "loop/up", "..")
    link(kb, "self", "self")
    link(kb, "p1", "p2")
    link(kb, "p2", "p1")
    link(kb, "here", ".")
    link(kb, ".h/me", ".")
    link(kb, ".h/back", "../loop")
    link(kb, ".h/g", "../.g")
    link(kb, ".g/h", "../.h")
    link(kb, "a-file.md", ".h/sub/y.md")
    link(kb, "h1", ".h")
    link(kb, "h2", ".h")
    link(kb, "h3", ".h/sub")
    link(kb, "z-file.md", ".h/x.md")
    fs = LocalFs(kb)
    assert listed(fs) == ["a-file.md", "h1/g/z.md", "h1/x.md", "in.md", "loop/a.md"]
    assert problems(fs) == {"p1": "link-loop", "p2": "link-loop", "self": "link-loop"}
    with pytest.raises(NotFoundError):
        fs.read("self")


def test_a_folder_below_one_that_was_reached_already_is_not_listed_again(kb: Path) -> None:
    put(kb, ".h/x.md", ".h/sub/y.md")
    link(kb, "a", ".h/sub")
    link(kb, "b", ".h")
    assert listed(LocalFs(kb)) == ["a/y.md", "b/x.md", "in.md"]


def test_dangling_links_are_problems(kb: Path) -> None:
    link(kb, "gone.md", "nowhere.md")
    link(kb, "below.md", "in.md/x")
    link(kb, ".ignored.md", "nowhere.md")
    assert problems(LocalFs(kb)) == {"gone.md": "dangling-link", "below.md": "dangling-link"}


def test_excluded_links_are_not_followed_but_links_into_excluded_folders_are(kb: Path) -> None:
    put(kb, ".h/a.md", "drafts/b.md")
    link(kb, "no.md", ".h/a.md")
    link(kb, "no2", ".h")
    link(kb, "yes.md", "drafts/b.md")
    fs = LocalFs(kb, exclude=["no*", "drafts"])
    assert listed(fs) == ["in.md", "yes.md"]
    assert problems(fs) == {}


def test_a_link_to_a_file_whose_name_cannot_be_listed_is_followed(kb: Path) -> None:
    put(kb, "back\\slash.md")
    link(kb, "good.md", "back\\slash.md")
    assert listed(LocalFs(kb)) == ["good.md", "in.md"]


def test_the_walked_folder_may_be_a_link_and_bounds_its_links(kb: Path) -> None:
    put(kb, "real/a.md", "other/b.md", ".data/c.md")
    link(kb, "knowledge", "real")
    link(kb, "real/out.md", "../other/b.md")
    link(kb, "real/up", "..")
    link(kb, "volume", ".data")
    link(kb, ".data/again", ".")
    fs = LocalFs(kb)
    assert listed(fs, "knowledge") == ["knowledge/a.md"]
    assert problems(fs, "knowledge") == {"knowledge/out.md": "symlink-escape", "knowledge/up": "symlink-escape"}
    assert listed(fs, "volume") == ["volume/c.md"]
    assert fs.read("knowledge/a.md") == b"x"


# Reading


def test_a_span_is_clipped_and_only_its_bytes_are_read(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(kb, "big.md", data=b"0123456789" * 1000)
    asked = []
    pread = os.pread

    def counting(descriptor: int, count: int, at: int) -> bytes:
        asked.append(count)
        return pread(descriptor, count, at)

    monkeypatch.setattr(os, "pread", counting)
    fs = LocalFs(kb, max_bytes=100)
    assert fs.read("big.md", ByteSpan(start=5001, end=5004)) == b"123"
    assert asked == [3]
    assert fs.read("big.md", ByteSpan(start=9998, end=10**30)) == b"89"
    assert fs.read("big.md", ByteSpan(start=10**30, end=10**30)) == b""
    assert fs.read("in.md", ByteSpan(start=3, end=3)) == b""


def test_short_reads_are_continued(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: pread(fd, min(count, 2), at))
    assert LocalFs(kb).read("in.md") == b"inside"
    assert LocalFs(kb).read("in.md", ByteSpan(start=1, end=5)) == b"nsid"


def test_a_file_that_grows_or_shrinks_while_it_is_read_is_read_to_its_end(
    kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pread = os.pread

    def resizing(descriptor: int, count: int, at: int) -> bytes:
        (kb / "in.md").write_bytes(content)
        return pread(descriptor, count, at)

    monkeypatch.setattr(os, "pread", resizing)
    content = b"in"
    assert LocalFs(kb).read("in.md", ByteSpan(start=0, end=6)) == b"in"
    content = b"longer than before" * 1000
    assert LocalFs(kb).read("in.md") == content
    content += b"and longer"
    with pytest.raises(TooLargeError):
        LocalFs(kb, max_bytes=len(content) - 1).read("in.md")


def test_files_and_spans_over_the_limit_are_refused(kb: Path) -> None:
    fs = LocalFs(kb, max_bytes=5)
    with pytest.raises(TooLargeError, match="5 bytes"):
        fs.read("in.md")
    with pytest.raises(TooLargeError):
        fs.read("in.md", ByteSpan(start=0, end=6))
    with pytest.raises(TooLargeError):
        fs.write("new.md", b"123456")
    assert listed(fs) == ["in.md"]


def test_a_file_deleted_or_replaced_after_the_walk_is_not_found(kb: Path) -> None:
    put(kb, "x.md", "y.md", "d/z.md")
    fs = LocalFs(kb)
    assert len(listed(fs)) == 4
    (kb / "x.md").unlink()
    (kb / "y.md").unlink()
    (kb / "y.md").mkdir()
    shutil.rmtree(kb / "d")
    put(kb, "d")
    for path in ("x.md", "y.md", "d/z.md"):
        for verb in (fs.read, fs.stat):
            with pytest.raises(NotFoundError):
                verb(path)


@pytest.mark.parametrize("verb", ["read", "stat"])
def test_a_file_swapped_for_a_link_before_it_is_opened_gives_nothing(
    kb: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    fs = LocalFs(kb)
    assert listed(fs) == ["in.md"]
    real_open = os.open

    def swapping(path: Any, flags: int, *args: Any, **options: Any) -> int:
        (kb / "in.md").unlink(missing_ok=True)
        (kb / "in.md").symlink_to("../outside/secret.md")
        return real_open(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", swapping)
    with pytest.raises(NotFoundError):
        getattr(fs, verb)("in.md")


def test_an_error_of_the_disk_is_a_provider_error_without_the_root(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int, count: int, at: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", broken)
    with pytest.raises(ProviderError, match=r"'in\.md'") as caught:
        LocalFs(kb).read("in.md")
    assert str(kb) not in str(caught.value)


def test_what_may_not_be_read_is_a_problem_of_that_file_alone() -> None:
    with ordinary_user() as root:
        put(root, "in.md", "locked/a.md", "sealed.md", "closed/b.md", ".h/deep/c.md")
        link(root, "via.md", ".h/deep/c.md")
        (root / "locked").chmod(0o300)
        (root / "closed").chmod(0o600)
        (root / ".h/deep").chmod(0)
        (root / "sealed.md").chmod(0)
        fs = LocalFs(root)
        assert listed(fs) == ["in.md", "sealed.md"]
        assert problems(fs) == {"locked": "unreadable", "closed/b.md": "unreadable", "via.md": "unreadable"}
        for path in ("sealed.md", "closed/b.md"):
            with pytest.raises(ProviderError, match="may not be read") as caught:
                fs.read(path)
            assert str(root) not in str(caught.value)
        assert fs.stat("sealed.md").size == 1


def test_a_locked_folder_outside_is_no_oracle() -> None:
    with ordinary_user() as folder:
        put(folder, "outside/locked/secret.md", "kb/in.md")
        (folder / "outside/locked").chmod(0)
        link(folder, "kb/d", "../outside/locked")
        fs = LocalFs(folder / "kb")
        with pytest.raises(NotFoundError):
            fs.read("d/secret.md")
        assert problems(fs) == {"d": "symlink-escape"}


def test_what_vanishes_during_a_walk_is_left_out_without_a_problem(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(kb, "x.md", "sub/y.md")
    link(kb, "l.md", ".h/z.md")
    put(kb, ".h/z.md")
    scandir = os.scandir

    @contextmanager
    def racing(folder: int) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(folder) as entries:
            names = list(entries)
        for name in ("x.md", "l.md"):
            (kb / name).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            (kb / "sub/y.md").unlink()
            (kb / "sub").rmdir()
        yield iter(names)

    monkeypatch.setattr(os, "scandir", racing)
    assert [info.path for info in LocalFs(kb).walk()] == ["in.md"]


def test_a_folder_swapped_for_a_link_during_a_walk_gives_nothing(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(kb, "sub/y.md")
    scandir = os.scandir

    @contextmanager
    def racing(folder: int) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(folder) as entries:
            names = list(entries)
        (kb / "sub/y.md").unlink()
        (kb / "sub").rmdir()
        (kb / "sub").symlink_to("../outside")
        yield iter(names)

    monkeypatch.setattr(os, "scandir", racing)
    assert [info.path for info in LocalFs(kb).walk()] == ["in.md"]


def test_a_folder_that_breaks_off_is_unreadable(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: int) -> Iterator[os.DirEntry[str]]:
        raise OSError(errno.EIO, "I/O")

    monkeypatch.setattr(os, "scandir", broken)
    assert problems(LocalFs(kb)) == {".": "unreadable"}


# Other systems' ways to tell where a descriptor leads


def no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    readlink = os.readlink

    def blind(path: Any, *args: Any, **options: Any) -> Any:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, "no /proc")
        return readlink(path, *args, **options)

    monkeypatch.setattr(os, "readlink", blind)


def test_without_proc_the_root_still_cannot_be_left(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_proc(monkeypatch)
    link(kb, "d", "../outside")
    put(kb, "a/b.md")
    fs = LocalFs(kb)
    assert listed(fs) == ["a/b.md", "in.md"]
    assert fs.read("a/b.md") == b"x"
    with pytest.raises(NotFoundError):
        fs.read("d/secret.md")
    descriptor = os.open(kb / "in.md", os.O_RDONLY)
    try:
        assert real_path(descriptor, str(kb / "a")) == ""
        assert real_path(descriptor, str(kb / "missing")) == ""
    finally:
        os.close(descriptor)


def test_macos_is_asked_for_the_path_of_the_descriptor(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readlink, control = os.readlink, fcntl.fcntl

    def get_path(descriptor: int, command: int, argument: Any = 0) -> Any:
        if command == 50:
            return os.fsencode(readlink(f"/proc/self/fd/{descriptor}")).ljust(len(argument), b"\0")
        return control(descriptor, command, argument)

    no_proc(monkeypatch)
    monkeypatch.setattr(fcntl, "F_GETPATH", 50, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", get_path)
    link(kb, "d", "../outside")
    fs = LocalFs(kb)
    assert fs.read("in.md") == b"inside"
    with pytest.raises(NotFoundError):
        fs.read("d/secret.md")


# Writing


def test_a_write_creates_folders_and_gives_the_identity_that_stat_gives(kb: Path) -> None:
    fs = LocalFs(kb)
    info = fs.write("a/b/new.md", b"text")
    assert info == fs.stat("a/b/new.md")
    assert info.size == 4
    assert fs.read("a/b/new.md") == b"text"
    assert [path.name for path in (kb / "a/b").iterdir()] == ["new.md"]
    assert fs.write("empty.md", b"").size == 0


def test_the_first_write_creates_the_root(tmp_path: Path) -> None:
    fs = LocalFs(tmp_path / "not" / "yet")
    fs.write("a.md", b"1")
    assert listed(fs) == ["a.md"]


def test_a_new_file_follows_the_umask_and_a_replaced_one_keeps_its_mode(kb: Path) -> None:
    (kb / "in.md").chmod(0o640)
    fs = LocalFs(kb)
    before = os.umask(0o027)
    try:
        fs.write("new.md", b"")
        fs.write("in.md", b"changed")
    finally:
        os.umask(before)
    assert stat.S_IMODE((kb / "new.md").stat().st_mode) == 0o640
    assert stat.S_IMODE((kb / "in.md").stat().st_mode) == 0o640
    (kb / "new.md").chmod(0o604)
    fs.write("new.md", b"x")
    assert stat.S_IMODE((kb / "new.md").stat().st_mode) == 0o604


def test_a_write_never_takes_the_place_of_a_folder(kb: Path) -> None:
    put(kb, "a/b.md")
    fs = LocalFs(kb)
    with pytest.raises(InvalidIdError):
        fs.write("a", b"")
    with pytest.raises(InvalidIdError):
        fs.write("in.md/x.md", b"")
    with pytest.raises(NotFoundError):
        fs.delete("a")
    with pytest.raises(NotFoundError):
        fs.delete("in.md/x.md")
    assert listed(fs) == ["a/b.md", "in.md"]


def test_a_conditional_write_needs_the_present_version(kb: Path) -> None:
    fs = LocalFs(kb)
    with pytest.raises(ConflictError, match="already exists"):
        fs.write("in.md", b"2", if_match="")
    with pytest.raises(ConflictError, match="has changed"):
        fs.write("in.md", b"2", if_match=sha(b"other"))
    with pytest.raises(ConflictError, match="not there"):
        fs.write("no/folder.md", b"2", if_match=sha(b"other"))
    assert not (kb / "no").exists()
    fs.write("in.md", b"2", if_match=sha(b"inside"))
    fs.write("no/folder.md", b"3", if_match="")
    with pytest.raises(ConflictError):
        fs.delete("in.md", if_match=sha(b"inside"))
    fs.delete("in.md", if_match=sha(b"2"))
    assert listed(fs) == ["no/folder.md"]


def test_a_delete_removes_the_file_and_leaves_the_folder(kb: Path) -> None:
    fs = LocalFs(kb)
    fs.write("a/b.md", b"")
    fs.delete("a/b.md")
    assert (kb / "a").is_dir()
    for path in ("a/b.md", "missing/b.md"):
        with pytest.raises(NotFoundError):
            fs.delete(path)


def test_a_write_that_fails_half_way_changes_nothing(kb: Path) -> None:
    fs = LocalFs(kb)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        for path in ("in.md", "new/folder/x.md"):
            with pytest.raises(StorageFullError) as caught:
                fs.write(path, b"x" * 5000)
            assert str(kb) not in str(caught.value)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in kb.iterdir()] == ["in.md"]
    assert (kb / "in.md").read_bytes() == b"inside"


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFullError),
        (errno.EDQUOT, StorageFullError),
        (errno.EROFS, ReadOnlyError),
        (errno.EACCES, ReadOnlyError),
        (errno.EPERM, ReadOnlyError),
        (errno.ENAMETOOLONG, InvalidIdError),
        (errno.ENOENT, NotFoundError),
        (errno.EIO, ProviderError),
    ],
)
def test_refusals_of_the_system_have_codes_and_leak_no_path(number: int, kind: type[KnowledgeError]) -> None:
    error = write_error("a.md", OSError(number, os.strerror(number), "/srv/secret/a.md"))
    assert type(error) is kind
    assert "/srv" not in str(error)


def test_where_writing_is_forbidden_it_says_read_only() -> None:
    with ordinary_user() as folder:
        put(folder, "kb/in.md", "kb/a/b.md", "kb/fixed.md")
        (folder / "kb/fixed.md").chmod(0o444)
        (folder / "kb/a").chmod(0o500)
        fs = LocalFs(folder / "kb")
        put(folder, "kb/sealed/c.md")
        (folder / "kb/sealed").chmod(0o300)
        for path in ("a/new.md", "a/sub/new.md", "sealed/new.md", "fixed.md"):
            with pytest.raises(ReadOnlyError):
                fs.write(path, b"2")
        with pytest.raises(ReadOnlyError):
            fs.delete("a/b.md")
        with pytest.raises(ReadOnlyError):
            LocalFs(folder / "kb/a/root").write("x.md", b"")
        assert (folder / "kb/fixed.md").read_bytes() == b"x"
        (folder / "kb/a").chmod(0o700)


def failing_fsync(number: int, *, folders: bool) -> Callable[[int], None]:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) == folders:
            raise OSError(number, os.strerror(number))

    return fsync


def test_a_file_that_cannot_be_brought_to_disk_is_not_put_in_place(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing_fsync(errno.EIO, folders=False))
    with pytest.raises(ProviderError):
        LocalFs(kb).write("in.md", b"new")
    assert (kb / "in.md").read_bytes() == b"inside"
    assert [path.name for path in kb.iterdir()] == ["in.md"]


def test_file_systems_that_cannot_sync_folders_can_be_written(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing_fsync(errno.EINVAL, folders=True))
    LocalFs(kb).write("a/new.md", b"new")
    monkeypatch.setattr(os, "fsync", failing_fsync(errno.EIO, folders=True))
    with pytest.raises(ProviderError):
        LocalFs(kb).write("in.md", b"new")


def run_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], text=True, stdout=subprocess.PIPE
    )


def test_a_killed_writer_leaves_the_old_bytes_no_document_and_no_lock(kb: Path) -> None:
    killed = run_python(
        """
        import os, sys
        from knowledge_engine.fs import LocalFs
        os.replace = lambda *a, **k: os.kill(os.getpid(), 9)
        LocalFs(sys.argv[1]).write("in.md", b"half")
        """,
        str(kb),
    )
    killed.communicate(timeout=60)
    assert killed.returncode == -9
    assert len(list(kb.iterdir())) == 2
    left = next(path for path in kb.iterdir() if path.name != "in.md")
    fs = LocalFs(kb, lock_timeout_s=0)
    assert [info.path for info in fs.walk()] == ["in.md"]
    assert fs.read("in.md") == b"inside"
    fs.write("in.md", b"next")
    assert left.exists()
    old = time.time() - 2 * 3600
    os.utime(left, (old, old))
    fs.write("in.md", b"a folder is looked through once an hour")
    assert left.exists()
    put(kb, ".other.tmp", ".kpkit-notes")
    for name in (".other.tmp", ".kpkit-notes"):
        os.utime(kb / name, (old, old))
    LocalFs(kb).write("in.md", b"after")
    assert sorted(path.name for path in kb.iterdir()) == [".kpkit-notes", ".other.tmp", "in.md"]


COUNT = """
    import hashlib, sys
    from knowledge_engine.errors import ConflictError
    from knowledge_engine.fs import LocalFs
    fs, done = LocalFs(sys.argv[1]), 0
    while done < 25:
        seen = fs.read("n")
        try:
            fs.write("n", str(int(seen) + 1).encode(), if_match=hashlib.sha256(seen).hexdigest())
            done += 1
        except ConflictError:
            pass
"""


def test_conditional_writes_from_processes_and_threads_lose_nothing(kb: Path) -> None:
    put(kb, "n", data=b"0")
    fs = LocalFs(kb)
    program = compile(textwrap.dedent(COUNT).replace("LocalFs(sys.argv[1])", "shared"), "count", "exec")
    processes = [run_python(COUNT, str(kb)) for _ in range(2)]
    threads = [threading.Thread(target=exec, args=(program, {"shared": fs})) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert fs.read("n") == b"100"


def test_readers_see_the_old_bytes_or_the_new_and_nothing_else(kb: Path) -> None:
    fs = LocalFs(kb)
    contents = [b"a" * 50_000, b"b" * 70_000]
    fs.write("in.md", contents[0])
    stop = threading.Event()
    torn = []

    def read() -> None:
        while not stop.is_set():
            data = fs.read("in.md")
            if data not in contents:
                torn.append(data)

    thread = threading.Thread(target=read)
    thread.start()
    for turn in range(100):
        fs.write("in.md", contents[turn % 2])
    stop.set()
    thread.join()
    assert torn == []


def test_a_lock_that_is_kept_too_long_is_busy(kb: Path) -> None:
    fs = LocalFs(kb, lock_timeout_s=0.02)
    descriptor = os.open(kb, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(BusyError):
            fs.write("in.md", b"2")
        with pytest.raises(BusyError):
            fs.delete("in.md")
    finally:
        os.close(descriptor)
    fs.write("in.md", b"2")


def test_a_thread_that_waits_too_long_for_another_is_told_busy(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = LocalFs(kb, lock_timeout_s=0.02)
    inside, leave = threading.Event(), threading.Event()
    replace = os.replace

    def slow(*args: Any, **options: Any) -> None:
        inside.set()
        leave.wait(30)
        replace(*args, **options)

    monkeypatch.setattr(os, "replace", slow)
    thread = threading.Thread(target=fs.write, args=("in.md", b"2"))
    thread.start()
    assert inside.wait(30)
    try:
        with pytest.raises(BusyError):
            fs.write("in.md", b"3")
    finally:
        leave.set()
        thread.join()
    assert fs.read("in.md") == b"2"


def test_file_systems_without_locks_can_be_written(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = errno.ENOLCK

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    fs = LocalFs(kb)
    fs.write("in.md", b"2", if_match=sha(b"inside"))
    assert fs.read("in.md") == b"2"
    number = errno.EIO
    with pytest.raises(ProviderError):
        fs.write("in.md", b"3")


def test_no_descriptor_is_left_open(kb: Path) -> None:
    fs = LocalFs(kb)
    link(kb, "d", "../outside")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("in.md", "a/b.md", "d/x.md", "in.md/y.md", "missing.md"):
        for verb in (fs.read, fs.stat, fs.delete, lambda path: fs.write(path, b"x")):
            try:
                verb(path)
            except KnowledgeError:
                continue
    list(fs.walk())
    assert len(os.listdir("/proc/self/fd")) == before


_UNDER_ASCII = """
import sys
from knowledge_engine.fs import LocalFs
assert sys.getfilesystemencoding() != "utf-8", sys.getfilesystemencoding()
fs = LocalFs(sys.argv[1])
fs.write("gr\\u00f6\\u00dfe/\\u6c34\\u6e29.md", b"new")
assert [info.path for info in fs.walk()] == ["gr\\u00f6\\u00dfe/\\u6c34\\u6e29.md", "stra\\u00dfe.md"], list(fs.walk())
assert fs.read("stra\\u00dfe.md") == b"old" and fs.stat("stra\\u00dfe.md").size == 3
fs.delete("stra\\u00dfe.md")
assert [info.path for info in fs.walk("gr\\u00f6\\u00dfe")] == ["gr\\u00f6\\u00dfe/\\u6c34\\u6e29.md"]
"""


def test_names_are_utf8_under_an_ascii_locale(tmp_path: Path) -> None:
    root = tmp_path / "wörter"
    root.mkdir()
    (root / "straße.md").write_bytes(b"old")
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", _UNDER_ASCII, str(root)], env=environ, check=True)
    assert (root / "größe" / "水温.md").read_bytes() == b"new"
    assert not (root / "straße.md").exists()


@pytest.mark.parametrize("root", ["", "a\0b"])
def test_a_root_that_can_be_no_folder_is_refused(root: str) -> None:
    with pytest.raises(ConfigurationError, match="folder"):
        LocalFs(root)
