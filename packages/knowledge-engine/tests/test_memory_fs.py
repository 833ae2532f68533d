from __future__ import annotations

import hashlib
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import ConflictError, InvalidIdError, KnowledgeError, NotFoundError
from knowledge_engine.fs import LocalFs, MemoryFs
from knowledge_engine.models import ByteSpan
from knowledge_engine.ports import FsPort, WritableFsPort


def test_it_is_a_port_that_can_be_written() -> None:
    assert isinstance(MemoryFs(), FsPort)
    assert isinstance(MemoryFs(), WritableFsPort)


def test_files_come_in_order_of_code_points() -> None:
    fs = MemoryFs({"b.md": b"", "a/z.md": b"", "Z.md": b"", "a.md": b"", "é.md": b""})
    assert [info.path for info in fs.walk()] == ["Z.md", "a.md", "a/z.md", "b.md", "é.md"]


def test_a_walk_of_a_folder_gives_what_is_in_it_and_no_more() -> None:
    fs = MemoryFs({"a/x.md": b"", "ab/y.md": b"", "a.md": b""})
    assert [info.path for info in fs.walk("a")] == ["a/x.md"]
    assert list(fs.walk("missing")) == []
    assert list(fs.walk("a.md")) == []
    with pytest.raises(InvalidIdError):
        fs.walk("..")


def test_hidden_files_are_neither_listed_nor_read_nor_written() -> None:
    fs = MemoryFs({".git/config": b"x", "node_modules/a.md": b"x", "in.md": b"x"})
    assert [info.path for info in fs.walk()] == ["in.md"]
    assert list(fs.walk(".git")) == []
    with pytest.raises(NotFoundError):
        fs.read(".git/config")
    with pytest.raises(NotFoundError):
        fs.delete(".git/config")
    with pytest.raises(InvalidIdError):
        fs.write(".git/config", b"")


def test_a_span_is_clipped_to_the_end_of_the_file() -> None:
    fs = MemoryFs({"a.md": b"0123456789"})
    assert fs.read("a.md", ByteSpan(start=2, end=4)) == b"23"
    assert fs.read("a.md", ByteSpan(start=8, end=10**30)) == b"89"
    assert fs.read("a.md", ByteSpan(start=10**30, end=10**30)) == b""


def test_each_write_changes_the_identity_and_runs_are_equal() -> None:
    def run() -> list[object]:
        fs = MemoryFs({"a.md": b"1"})
        return [fs.stat("a.md"), fs.write("a.md", b"2"), fs.stat("a.md"), *fs.walk()]

    first, second, third, fourth = run()
    assert first != second == third == fourth
    assert run() == [first, second, third, fourth]


def test_later_changes_of_the_given_bytes_do_not_reach_the_file() -> None:
    data: Any = bytearray(b"one")
    fs = MemoryFs()
    fs.write("a.md", data)
    data[:] = b"two"
    assert fs.read("a.md") == b"one"


def test_a_conditional_write_needs_the_present_version() -> None:
    fs = MemoryFs()
    fs.write("a.md", b"1", if_match="")
    with pytest.raises(ConflictError, match="already exists"):
        fs.write("a.md", b"2", if_match="")
    with pytest.raises(ConflictError, match="has changed"):
        fs.write("a.md", b"2", if_match=hashlib.sha256(b"0").hexdigest())
    fs.write("a.md", b"2", if_match=hashlib.sha256(b"1").hexdigest())
    with pytest.raises(ConflictError):
        fs.delete("a.md", if_match=hashlib.sha256(b"1").hexdigest())
    fs.delete("a.md", if_match=hashlib.sha256(b"2").hexdigest())
    with pytest.raises(ConflictError, match="not there"):
        fs.write("a.md", b"2", if_match=hashlib.sha256(b"2").hexdigest())
    with pytest.raises(NotFoundError):
        fs.delete("a.md")


def test_a_mapping_that_no_folder_could_hold_is_refused() -> None:
    with pytest.raises(InvalidIdError):
        MemoryFs({"a": b"", "a/b": b""})
    with pytest.raises(InvalidIdError):
        MemoryFs({"../a": b""})


def test_conditional_writes_from_many_threads_lose_nothing() -> None:
    fs = MemoryFs({"n": b"0"})

    def count() -> None:
        done = 0
        while done < 50:
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
    assert fs.read("n") == b"200"


_PATHS = st.sampled_from(["a", "b.md", "a/b", "a/c.md", "d/e/f", "d", "d/e", ".h", "d/.h/x", "x/../y"])
_DATA = st.sampled_from([b"", b"one", b"two"])
_MATCH = st.sampled_from([None, "", hashlib.sha256(b"one").hexdigest()])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), _PATHS, _DATA, _MATCH),
        st.tuples(st.just("delete"), _PATHS, st.just(b""), _MATCH),
        st.tuples(st.sampled_from(["read", "stat", "walk"]), _PATHS, st.just(b""), st.none()),
    ),
    max_size=12,
)


def _do(fs: MemoryFs | LocalFs, step: tuple[str, str, bytes, str | None]) -> object:
    verb, path, data, if_match = step
    try:
        if verb == "write":
            return fs.write(path, data, if_match=if_match)[:2]
        if verb == "delete":
            return fs.delete(path, if_match=if_match)
        if verb == "walk":
            return [info[:2] for info in fs.walk(path)]
        return fs.read(path) if verb == "read" else fs.stat(path)[:2]
    except KnowledgeError as error:
        return type(error), str(error)


@settings(deadline=None)
@given(_STEPS)
def test_memory_and_disk_answer_alike(steps: list[tuple[str, str, bytes, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory, disk = MemoryFs(), LocalFs(Path(folder) / "root")
        for step in steps:
            assert _do(memory, step) == _do(disk, step)
        assert [info[:2] for info in memory.walk()] == [info[:2] for info in disk.walk()]
