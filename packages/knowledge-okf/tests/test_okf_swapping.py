"""Folders replaced as a whole, also when the process is killed at any moment, and where the system lacks a call."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.errors import BusyError, ProviderError, ReadOnlyError, StorageFullError
from knowledge_okf import swapping
from knowledge_okf.swapping import locked, replace_folder, state_of

# `folder seed`. Writes one version after another, each file of a version alike, until it is killed.
WRITER = """
import sys
from pathlib import Path
from knowledge_okf.swapping import locked, replace_folder, state_of
root = Path(sys.argv[1])
version = int(sys.argv[2])
print("ready", flush=True)
while True:
    version += 1
    with locked(root):
        files = {f"{n % 3}/{n}.md": str(version).encode() for n in range(30)}
        replace_folder(root, files, state_of(root) if root.exists() else {})
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "in" / "bundle [x]*"


def put(root: Path, **files: bytes | None) -> None:
    with locked(root):
        replace_folder(
            root, {f"{name}.md": data for name, data in files.items()}, state_of(root) if root.exists() else {}
        )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_not_named_stays_the_same_file(root: Path) -> None:
    put(root, a=b"1", b=b"2")
    inode = (root / "a.md").stat().st_ino
    put(root, b=None, c=b"3")
    assert names(root) == ["a.md", "c.md"]
    assert (root / "a.md").stat().st_ino == inode
    assert names(root.parent) == [root.name]


@pytest.mark.parametrize("rounds", [12])
def test_a_killed_writer_leaves_one_version_whole(root: Path, rounds: int) -> None:
    for number in range(rounds):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root), str(number * 1000)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        # It is killed while it writes: some rounds earlier, some later, as many spins as the round says.
        for _ in range(number * 40):
            root.exists()
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        with locked(root):
            if root.exists():
                found = {path.read_bytes() for path in root.rglob("*.md")}
                assert len(found) == 1
                assert len(list(root.rglob("*.md"))) == 30
        assert names(root.parent) in ([root.name], [])


def test_without_an_exchange_of_names_two_steps_do(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, a=b"1")
    monkeypatch.setattr(swapping, "_swapped", lambda one, other: False)
    put(root, a=b"2")
    assert (root / "a.md").read_bytes() == b"2"
    assert names(root.parent) == [root.name]


def test_a_process_that_died_between_the_two_steps_lost_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, a=b"1")
    monkeypatch.setattr(swapping, "_swapped", lambda one, other: False)
    steps: list[Path] = []
    rename = Path.rename

    def dying(path: Path, target: Path) -> Path:
        steps.append(path)
        if len(steps) > 1:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", dying)
    monkeypatch.setattr(swapping.shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        put(root, a=b"2")
    monkeypatch.undo()
    assert not root.exists()
    with locked(root):
        pass
    assert (root / "a.md").read_bytes() == b"1"
    assert names(root.parent) == [root.name]


def test_a_second_step_that_fails_is_taken_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, a=b"1")
    monkeypatch.setattr(swapping, "_swapped", lambda one, other: False)
    rename = Path.rename
    steps: list[Path] = []

    def failing(path: Path, target: Path) -> Path:
        steps.append(path)
        if len(steps) == 2:
            raise OSError(errno.EIO, "broken")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ProviderError, match="EIO"):
        put(root, a=b"2")
    monkeypatch.undo()
    assert (root / "a.md").read_bytes() == b"1"


def test_a_file_saved_in_the_last_moment_is_not_lost(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, a=b"1")
    swapped = swapping._swapped
    calls: list[int] = []

    def late(one: Path, other: Path) -> bool:
        calls.append(1)
        if len(calls) == 1:
            (root / "late.md").write_bytes(b"mine")
        return swapped(one, other)

    monkeypatch.setattr(swapping, "_swapped", late)
    with pytest.raises(swapping.ConflictError):
        put(root, a=b"2")
    assert (root / "late.md").read_bytes() == b"mine"
    assert (root / "a.md").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, StorageFullError),
        (errno.EROFS, ReadOnlyError),
        (errno.EACCES, ReadOnlyError),
        (errno.EBUSY, ReadOnlyError),
        (errno.EIO, ProviderError),
    ],
)
def test_what_the_system_says_is_told_and_nothing_is_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    put(root, a=b"1")

    def failing(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(swapping, "_fill", failing)
    with pytest.raises(kind) as told:
        put(root, a=b"2")
    assert str(root.parent) not in str(told.value)
    monkeypatch.undo()
    assert (root / "a.md").read_bytes() == b"1"
    assert names(root.parent) == [root.name]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV])
def test_where_files_have_one_name_only_they_are_copied(root: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    put(root, a=b"1")

    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", no_links)
    put(root, b=b"2")
    assert names(root) == ["a.md", "b.md"]


def test_a_link_that_fails_for_another_reason_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, a=b"1")

    def broken(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "link", broken)
    with pytest.raises(ProviderError):
        put(root, b=b"2")
    assert names(root) == ["a.md"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EBUSY])
def test_an_exchange_that_the_system_does_not_know_is_told_from_one_that_fails(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    class Library:
        def renameat2(self, *_: Any) -> int:
            return -1

    monkeypatch.setattr(swapping.ctypes, "CDLL", lambda *_, **__: Library())
    monkeypatch.setattr(swapping.ctypes, "get_errno", lambda: code)
    if code == errno.EBUSY:
        with pytest.raises(OSError, match="busy"):
            swapping._swapped(root, root)
    else:
        assert not swapping._swapped(root, root)
    monkeypatch.setattr(swapping.ctypes, "CDLL", lambda *_, **__: object())
    assert not swapping._swapped(root, root)


def test_a_lock_that_is_held_is_busy(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.parent.mkdir()
    monkeypatch.setattr(swapping, "_LOCK_TIMEOUT_S", 0.05)
    descriptor = os.open(root.parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(BusyError), locked(root):
            raise AssertionError
    finally:
        os.close(descriptor)


def test_a_file_system_without_locks_is_used_without(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    put(root, a=b"1")
    assert names(root) == ["a.md"]


@pytest.mark.parametrize(("code", "told"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_synced_is_no_fault(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int, told: bool
) -> None:
    put(root, a=b"1")

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", failing)
    if told:
        with pytest.raises(ProviderError):
            put(root, a=None)
    else:
        put(root, a=None, b=b"2")
        assert names(root) == ["b.md"]


def test_a_file_that_is_written_anew_keeps_its_mode(root: Path) -> None:
    put(root, a=b"1")
    (root / "a.md").chmod(0o600)
    put(root, a=b"2")
    assert stat.S_IMODE((root / "a.md").stat().st_mode) == 0o600


def test_many_files_are_brought_to_the_disk_at_once(root: Path) -> None:
    put(root, **{f"f{n}": b"x" for n in range(200)})
    assert len(names(root)) == 200
