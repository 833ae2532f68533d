"""Changing files below a root: whole or not at all, never through a link, one writer at a time.

The new bytes go to a hidden file in the same folder, are brought to the disk, and take the name in one step. Each
folder on the way is opened from the one above and refused if it is a link, so a swapped folder leads nowhere.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from knowledge_engine.errors import (
    BusyError,
    InvalidIdError,
    KnowledgeError,
    ProviderError,
    ReadOnlyError,
    StorageFullError,
)
from knowledge_engine.fs.paths import native
from knowledge_engine.fs.refusals import check_match, conflict, in_the_way, not_found
from knowledge_engine.fs.walking import info_of
from knowledge_engine.models import FileInfo

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PRESENT = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20

_TEMP_PREFIX = ".kpkit-"
_TEMP_SUFFIX = ".tmp"
#: No write takes so long: what is older was left by a process that died.
_STALE_S = 3600.0

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_NOT_A_FOLDER = frozenset({errno.ENOTDIR, errno.ELOOP})
# What file systems say that have no locks, or none on folders (NFS).
_NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


class Writer:
    """Writes and deletes below one root. Safe to use from several threads and processes.

    The lock between processes is `flock` on the root folder: it ends with the process that holds it. On file
    systems without it, only the threads of this object exclude each other.
    """

    def __init__(self, lock_timeout_s: float) -> None:
        self._lock = threading.Lock()
        self._timeout_s = lock_timeout_s
        # When the left-overs of each folder were last looked for.
        self._swept: dict[str, float] = {}

    def write(self, root: str, path: str, data: bytes, if_match: str | None) -> FileInfo:
        """See `WritableFsPort.write`; `root` exists and is free of links."""
        parent, name = path.rpartition("/")[0], native(path.rpartition("/")[2])
        # A file that must be there already needs no new folder.
        with self._change(root, path), _folder(root, path, create=not if_match) as folder:
            if folder is None:
                raise conflict(path, if_match or "", None)
            self._sweep(folder, parent)
            present = _present(folder, name, path)
            if if_match is not None:
                check_match(path, if_match, None if present is None else _hash(folder, name))
            if present is not None:
                # A file that may not be written is not replaced either.
                os.close(os.open(name, os.O_WRONLY | _PRESENT, dir_fd=folder))
            return _replace(folder, name, path, data, present)

    def delete(self, root: str, path: str, if_match: str | None) -> None:
        """See `WritableFsPort.delete`."""
        name = native(path.rpartition("/")[2])
        try:
            with self._change(root, path), _folder(root, path, create=False) as folder:
                if folder is None or _present(folder, name, path) is None:
                    raise not_found(path)
                if if_match is not None:
                    check_match(path, if_match, _hash(folder, name))
                os.unlink(name, dir_fd=folder)
                _sync_folder(folder)
        except InvalidIdError as error:
            # A folder has the name, or a file has the name of a folder above.
            raise not_found(path) from error

    @contextmanager
    def _change(self, root: str, path: str) -> Iterator[None]:
        """Holds the lock; errors of the operating system come out as this package's own."""
        deadline = time.monotonic() + self._timeout_s
        if not self._lock.acquire(timeout=self._timeout_s):
            raise _busy()
        try:
            descriptor = os.open(native(root), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _lock_folder(descriptor, deadline)
                yield
            finally:
                os.close(descriptor)
        except OSError as error:
            raise write_error(path, error) from error
        finally:
            self._lock.release()

    def _sweep(self, folder: int, parent: str) -> None:
        """Removes what killed writers left in a folder, once an hour for each."""
        now = time.monotonic()
        if now - self._swept.get(parent, -_STALE_S) < _STALE_S:
            return
        self._swept[parent] = now
        oldest = time.time() - _STALE_S
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(_TEMP_PREFIX) and entry.name.endswith(_TEMP_SUFFIX):
                    with suppress(OSError):
                        if entry.stat(follow_symlinks=False).st_mtime < oldest:
                            os.unlink(entry.name, dir_fd=folder)


def make_root(root: str) -> None:
    """Creates the root folder and those above it, unless something else has its name."""
    try:
        os.makedirs(native(root), exist_ok=True)  # noqa: PTH103
    except (FileExistsError, NotADirectoryError):
        return
    except OSError as error:
        raise write_error(".", error) from error


def write_error(path: str, error: OSError) -> KnowledgeError:
    """What an operating system's refusal to write means to the caller."""
    if error.errno in _FULL:
        return StorageFullError(f"No room to write {path!r}", mend="Free some space; the old content is untouched.")
    if error.errno in _FORBIDDEN:
        return ReadOnlyError(f"{path!r} may not be written", mend="Give this process the right to write there.")
    if error.errno == errno.ENAMETOOLONG:
        return InvalidIdError(f"{path!r} is too long for the disk", mend="Choose a shorter name.")
    if error.errno == errno.ENOENT:
        return not_found(path)
    return ProviderError(f"{path!r} cannot be written: {error.strerror}", mend="Check the disk that it lies on.")


def _busy() -> BusyError:
    return BusyError("Another writer holds the lock on these documents", mend="Try again in a moment.")


def _lock_folder(descriptor: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise _busy() from None
            time.sleep(0.005)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return
        else:
            return


@contextmanager
def _folder(root: str, path: str, *, create: bool) -> Iterator[int | None]:
    """A descriptor of the folder that holds `path`; None if it does not exist and is not to be created.

    Folders that were created go again if the block fails.
    """
    held = [os.open(native(root), _FOLDER)]
    created: list[tuple[int, str]] = []
    try:
        for name in path.split("/")[:-1]:
            inner = _enter(held[-1], native(name), path, created if create else None)
            if inner is None:
                break
            held.append(inner)
        yield held[-1] if len(held) == len(path.split("/")) else None
    except BaseException:
        for parent, name in reversed(created):
            with suppress(OSError):
                os.rmdir(name, dir_fd=parent)
        raise
    finally:
        for descriptor in held:
            os.close(descriptor)


def _enter(parent: int, name: str, path: str, created: list[tuple[int, str]] | None) -> int | None:
    """Opens a folder in a folder, and creates it first if `created`, the list to note it in, is given."""
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if created is None:
            return None
    except OSError as error:
        if error.errno in _NOT_A_FOLDER:
            raise _obstacle(parent, name, path) from error
        raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
        created.append((parent, name))
        _sync_folder(parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _obstacle(parent: int, name: str, path: str) -> KnowledgeError:
    """Why a name cannot be used: a link, whatever it leads to, or something else."""
    if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return ReadOnlyError(f"{path!r} is reached through a link", mend="Change the document that the link leads to.")
    return in_the_way(path)


def _present(folder: int, name: str, path: str) -> os.stat_result | None:
    """The regular file of that name; None if the name is free."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise _obstacle(folder, name, path)
    return found


def _hash(folder: int, name: str) -> str:
    digest = hashlib.sha256()
    descriptor = os.open(name, os.O_RDONLY | _PRESENT, dir_fd=folder)
    try:
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def _replace(folder: int, name: str, path: str, data: bytes, present: os.stat_result | None) -> FileInfo:
    temporary = f"{_TEMP_PREFIX}{secrets.token_hex(8)}{_TEMP_SUFFIX}"
    descriptor = os.open(temporary, _NEW, 0o666, dir_fd=folder)
    try:
        if present is not None:
            os.fchmod(descriptor, stat.S_IMODE(present.st_mode) & 0o777)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        _sync_folder(folder)
        return info_of(path, os.fstat(descriptor))
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)


def _sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        # Some file systems cannot sync a folder; their own rules apply then.
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP):
            raise
