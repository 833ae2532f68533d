"""Opening what lies below a root, and nothing else.

A path is text; what it leads to can change between a look and an open. So the decision is made about the descriptor
that was opened: where does the kernel say that this file lies? Names are opened without ever waiting for a FIFO or
a device.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from knowledge_engine.errors import KnowledgeError, ProviderError
from knowledge_engine.fs.paths import as_text, full_path, native
from knowledge_engine.fs.refusals import not_found

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Enough for fstat. Where there is O_PATH (Linux), not even a device notices, and no read permission is needed.
LOOK = getattr(os, "O_PATH", _READ) | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG})
_DENIED = frozenset({errno.EACCES, errno.EPERM})


def real_path(descriptor: int, name: str) -> str:
    """Where an open file lies, free of links; `name` is what was opened. Empty when that cannot be told."""
    try:
        return as_text(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
    except OSError:
        pass  # No /proc: another system, or a sandbox.
    get_path = getattr(fcntl, "F_GETPATH", None)
    if get_path is not None:
        return as_text(os.fsdecode(fcntl.fcntl(descriptor, get_path, bytes(1024)).rstrip(b"\0")))
    real = os.path.realpath(name)
    try:
        same = os.path.samestat(os.stat(real), os.fstat(descriptor))  # noqa: PTH116
    except OSError:
        same = False
    return as_text(real) if same else ""


def resolve_root(root: str) -> str | None:
    """The root free of links, as `real_path` spells it; None when there is no such folder."""
    try:
        descriptor = os.open(native(root), LOOK | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        return real_path(descriptor, native(root)) or None
    finally:
        os.close(descriptor)


def below(root: str, real: str) -> str | None:
    """The part of a real path below the root: "." for the root itself, None outside."""
    if real == root:
        return "."
    prefix = root if root.endswith("/") else root + "/"
    return real[len(prefix) :] if real.startswith(prefix) else None


@contextmanager
def opened(root: str, path: str, *, to_read: bool) -> Iterator[int]:
    """A descriptor of the regular file at `path` below `root`; closed in the end.

    Errors of the operating system, inside the block too, come out as this package's own.

    Raises:
        NotFoundError: When there is none, or it does not lie below the root: the same answer.
        ProviderError: When it is there and cannot be opened or read.
    """
    name = full_path(root, path)
    try:
        # Opening a device can have effects of its own, so the first look is at the name.
        if to_read and not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116
            raise not_found(path)
        descriptor = os.open(name, _READ if to_read else LOOK)
        try:
            inside = below(root, real_path(descriptor, name)) is not None
            if not inside or not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise not_found(path)
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _read_error(root, path, error) from error


def _read_error(root: str, path: str, error: OSError) -> KnowledgeError:
    outside = below(root, as_text(os.path.realpath(full_path(root, path)))) is None
    if error.errno in _ABSENT or outside:
        return not_found(path)
    if error.errno in _DENIED:
        return ProviderError(f"{path!r} may not be read", mend="Give this process the right to read it.")
    return ProviderError(f"{path!r} cannot be read: {error.strerror}", mend="Check the disk that it lies on.")
