"""A folder replaced as a whole: the new one is written beside it and takes its name in one step.

What stays as it was is a second name of the same file (a hard link), so nothing is copied, and foreign files come
along. Links are taken over as links, never followed. Until the last step the old folder is whole; a process that dies
leaves at most a folder beside it, which the next change sweeps away.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from knowledge_engine.errors import (
    BusyError,
    ConflictError,
    KnowledgeError,
    ProviderError,
    ReadOnlyError,
    StorageFullError,
)

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_LOCK_TIMEOUT_S = 30.0
_MANY: Final = 64
_NEW, _OLD = ".new-", ".old-"
#: What was at each path: (inode, size, time of change), or what a link says.
State = Mapping[str, tuple[object, ...]]


def state_of(root: Path, most: int | None = None) -> dict[str, tuple[object, ...]]:
    """What lies below a folder, to tell later whether anything changed; empty for none.

    Raises:
        ConflictError: When it is more than `most` files and folders.
    """
    found: dict[str, tuple[object, ...]] = {}
    for path in _walk(root):
        if len(found) == most:
            raise ConflictError(
                f"{root.name!r} holds many other files", mend="Name a folder of its own for the bundle."
            )
        status = path.lstat()
        name = os.fspath(path.relative_to(root))
        if stat.S_ISDIR(status.st_mode):
            found[name] = ("folder",)
        else:
            found[name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def _walk(root: Path) -> Iterator[Path]:
    """All below a folder, folders before what is in them; links to folders are not entered."""
    waiting = [root]
    while waiting:
        try:
            inside = sorted(waiting.pop().iterdir())
        except FileNotFoundError:
            continue
        for path in inside:
            yield path
            if path.is_dir() and not path.is_symlink():
                waiting.append(path)


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """One change of the folders in one place at a time, also by other processes; what dead ones left is put right.

    Raises:
        BusyError: When another change does not end.
        ReadOnlyError, StorageFullError, ProviderError: When the folder that it is in cannot be used.
    """
    with _told(root):
        root.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _lock(descriptor)
            _recover(root)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise BusyError("Another process changes a bundle in that folder", mend="Try again later.") from None
            time.sleep(0.02)
        except OSError:
            return  # no locks on this file system
        else:
            return


def _recover(root: Path) -> None:
    """Takes up what a process left that died: without the name there is the old folder, whole, under another."""
    left = sorted(root.parent.glob(f".{_plain(root.name)}{_OLD}*"))
    if left and not os.path.lexists(root):
        left.pop().rename(root)
    for path in [*left, *root.parent.glob(f".{_plain(root.name)}{_NEW}*")]:
        shutil.rmtree(path, ignore_errors=True)


def _plain(name: str) -> str:
    """A name in which no sign stands for others."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def replace_folder(root: Path, files: Mapping[str, bytes | None], before: State) -> None:
    """Makes the folder hold `files` and all else that it held; to be called while it is `locked`.

    Args:
        root: The folder; need not exist. Not a link.
        files: By path below it: new bytes, or None for a file that goes.
        before: Its `state_of` when the change was thought out.

    Raises:
        ConflictError: When it has changed since; nothing was done.
        ReadOnlyError, StorageFullError, ProviderError: For what their names say; nothing was changed.
    """
    if state_of(root) != dict(before):
        raise _changed()
    new = root.parent / f".{root.name}{_NEW}{secrets.token_hex(6)}"
    try:
        with _told(root):
            if root.exists() and not os.access(root, os.W_OK):
                raise PermissionError(errno.EACCES, "read-only")
            new.mkdir()
            _fill(new, root, files)
            _exchange(new, root, before)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _changed() -> ConflictError:
    return ConflictError("The bundle was changed meanwhile", mend="Do it again: what is finished is not done twice.")


def _fill(new: Path, root: Path, files: Mapping[str, bytes | None]) -> None:
    folders = [new]
    emptied = {os.path.dirname(path) for path, data in files.items() if data is None}  # noqa: PTH120 - not a file
    for path in _walk(root):
        name = os.fspath(path.relative_to(root))
        if name in files:
            if files[name] is not None and (path.is_symlink() or not path.is_file()):
                raise ConflictError(f"{name!r} is in the way: it is a link or a folder", mend="Move it elsewhere.")
            continue
        target = new / name
        if path.is_dir() and not path.is_symlink():
            target.mkdir()
            folders.append(target)
        elif path.is_symlink():
            target.symlink_to(path.readlink())
        else:
            _link(path, target)
    for name, data in files.items():
        if data is not None:
            _write(new / name, data, folders)
            with suppress(FileNotFoundError):
                (new / name).chmod(stat.S_IMODE((root / name).lstat().st_mode))
    _bring_to_disk(new, [new / name for name, data in files.items() if data is not None])
    for name in sorted(emptied, key=len, reverse=True):
        _drop_empty(new, name)
    for folder in filter(Path.exists, folders):
        _sync(folder)
    if root.exists():
        _copy_modes(root, new)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError as error:
        # Some file systems have no hard links, and some allow none to files of others.
        if error.errno not in (errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES):
            raise
        shutil.copy2(path, target, follow_symlinks=False)


def _write(target: Path, data: bytes, folders: list[Path]) -> None:
    missing = []
    folder = target.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir()
        folders.append(each)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _bring_to_disk(new: Path, written: list[Path]) -> None:
    """So that no name stands for bytes that a failing machine loses; for many files at once, which is much faster."""
    whole = getattr(ctypes.CDLL(None), "syncfs", None)
    paths = [new] if whole is not None and len(written) > _MANY else written
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if paths is written:
                os.fsync(descriptor)
            elif whole is not None:
                whole(descriptor)
        finally:
            os.close(descriptor)


def _drop_empty(new: Path, name: str) -> None:
    """Removes a folder that lost its files, and those above that hold nothing else."""
    while name:
        try:
            (new / name).rmdir()
        except OSError:
            return
        name = os.path.dirname(name)  # noqa: PTH120 - not a file


def _copy_modes(root: Path, new: Path) -> None:
    for path in [root, *(each for each in _walk(root) if each.is_dir() and not each.is_symlink())]:
        target = new / path.relative_to(root)
        with suppress(FileNotFoundError):
            target.chmod(stat.S_IMODE(path.stat().st_mode))


def _exchange(new: Path, root: Path, before: State) -> None:
    if not os.path.lexists(root):
        new.rename(root)
        _sync(root.parent)
        return
    if _swapped(new, root):
        if state_of(new) != dict(before):
            # Somebody saved a file in the last moment.
            _swapped(new, root)
            raise _changed()
        _sync(root.parent)
        shutil.rmtree(new, ignore_errors=True)
        return
    # Where two names cannot be exchanged there is a moment without the name, which `_recover` knows of.
    old = root.parent / f".{root.name}{_OLD}{secrets.token_hex(6)}"
    root.rename(old)
    try:
        new.rename(root)
    except BaseException:
        old.rename(root)
        raise
    _sync(root.parent)
    shutil.rmtree(old, ignore_errors=True)


def _swapped(one: Path, other: Path) -> bool:
    """Exchanges two names in one step; False where the system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(code, os.strerror(code))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)


@contextmanager
def _told(root: Path) -> Iterator[None]:
    """What the operating system says, as errors of ours."""
    try:
        yield
    except OSError as error:
        raise _error(root, error) from error


def _error(root: Path, error: OSError) -> KnowledgeError:
    name = root.name
    if error.errno in _FULL:
        return StorageFullError(f"No space is left to write {name!r}; it is as it was", mend="Make room, then repeat.")
    if error.errno in _FORBIDDEN:
        return ReadOnlyError(
            f"{name!r} and the folder that it is in may not be written", mend="Allow it, or name another folder."
        )
    if error.errno == errno.EBUSY:
        return ReadOnlyError(f"{name!r} is mounted, so it cannot be replaced", mend="Use a folder inside of it.")
    return ProviderError(
        f"{name!r} cannot be written ({errno.errorcode.get(error.errno or 0, 'error')})", mend="Look at the disk."
    )
