"""A folder of documents on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from knowledge_engine.errors import ConfigurationError, InvalidIdError, TooLargeError
from knowledge_engine.fs.globs import Globs
from knowledge_engine.fs.opening import opened, resolve_root
from knowledge_engine.fs.paths import can_be_path, check_path, is_hidden
from knowledge_engine.fs.refusals import not_found, refuse_hidden
from knowledge_engine.fs.walking import info_of, walk
from knowledge_engine.fs.writing import Writer, make_root
from knowledge_engine.models import ByteSpan, FileInfo

_CHUNK = 1 << 20


class LocalFs:
    """Files below a folder, which no path and no link leads out of. POSIX systems; safe to use from several threads.

    Left out everywhere: paths that are hidden, see `is_hidden`, and those that a pattern in `exclude` covers, see
    `Globs`. What a walk does with links is told in `knowledge_engine.fs.walking`; `stat` and `read` follow any link
    that stays inside the root, so the other names of a listed document can be read too. Nothing is ever written or
    deleted through a link.

    The root may be a link; it is resolved once, at the first use that finds it. Until it exists there are no
    documents; the first write creates it. Files larger than `max_bytes` are not read or written whole.

    Raises:
        ConfigurationError: For a root that no folder can have as its name.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        exclude: Sequence[str] = (),
        max_bytes: int = 256 << 20,
        lock_timeout_s: float = 30.0,
    ) -> None:
        self._given = os.fspath(root)
        if not can_be_path(self._given):
            raise ConfigurationError(f"{self._given!r} cannot be a folder", mend="Name a folder.")
        self._globs = Globs(exclude)
        self._max_bytes = max_bytes
        self._writer = Writer(lock_timeout_s)
        self._resolved: str | None = None

    def walk(self, path: str = ".") -> Iterator[FileInfo]:
        """See `FsPort.walk`. Links that lead out of `path` are problems, as are those that lead nowhere.

        Problems: `symlink-escape`, `dangling-link`, `link-loop`, `not-regular`, `unreadable`, `name-encoding` (not
        UTF-8), `name-invalid` (not a path that `check_path` takes). Names that are not text show with escapes.
        """
        if path != "." and self._left_out(check_path(path), folder=True):
            return iter(())
        root = self._root()
        if root is None:
            return iter(())
        return walk(root, path, self._globs)

    def stat(self, path: str) -> FileInfo:
        """See `FsPort.stat`; the same numbers that `walk` gives."""
        with opened(self._root_of(path), path, to_read=False) as descriptor:
            return info_of(path, os.fstat(descriptor))

    def read(self, path: str, span: ByteSpan | None = None) -> bytes:
        """See `FsPort.read`. Of a span, only its bytes are read.

        Raises:
            TooLargeError: When that is more than `max_bytes`.
        """
        with opened(self._root_of(path), path, to_read=True) as descriptor:
            size = os.fstat(descriptor).st_size
            start = 0 if span is None else min(span.start, size)
            # A file that grows meanwhile is read to its new end, if it is read whole.
            length = min(span.end, size) - start if span is not None else self._max_bytes + 1
            if (size if span is None else length) > self._max_bytes:
                raise self._too_large(path)
            data = _read(descriptor, start, max(length, 0), hint=size)
        if len(data) > self._max_bytes:
            raise self._too_large(path)
        return data

    def read_unchanged(self, info: FileInfo, span: ByteSpan) -> bytes | None:
        """See `ComparingFsPort.read_unchanged`. The file is opened once."""
        with opened(self._root_of(info.path), info.path, to_read=True) as descriptor:
            if info_of(info.path, os.fstat(descriptor)) != info:
                return None
            start, length = min(span.start, info.size), min(span.end, info.size) - min(span.start, info.size)
            if length > self._max_bytes:
                raise self._too_large(info.path)
            data = _read(descriptor, start, length, hint=info.size)
            return data if info_of(info.path, os.fstat(descriptor)) == info else None

    def write(self, path: str, data: bytes, *, if_match: str | None = None) -> FileInfo:
        """See `WritableFsPort.write`. A new file has the mode that the umask gives; a replaced one keeps its own.

        Raises:
            TooLargeError: Over `max_bytes`.
            BusyError: When another process keeps the lock for longer than `lock_timeout_s`.
        """
        refuse_hidden(check_path(path))
        if self._globs.covers(path):
            raise InvalidIdError(f"{path!r} is excluded by a setting", mend="Choose another name, or change `exclude`.")
        if len(data) > self._max_bytes:
            raise self._too_large(path)
        make_root(self._root() or self._given)
        root = self._root()
        if root is None:
            raise ConfigurationError("The root of the documents is not a folder", mend="Set it to a folder.")
        return self._writer.write(root, path, data, if_match)

    def delete(self, path: str, *, if_match: str | None = None) -> None:
        """See `WritableFsPort.delete`. Folders stay, empty ones too."""
        self._writer.delete(self._root_of(path), path, if_match)

    def _root(self) -> str | None:
        if self._resolved is None:
            self._resolved = resolve_root(self._given)
        return self._resolved

    def _root_of(self, path: str) -> str:
        root = self._root()
        if self._left_out(check_path(path)) or root is None:
            raise not_found(path)
        return root

    def _left_out(self, path: str, *, folder: bool = False) -> bool:
        return is_hidden(path) or self._globs.covers(path, folder=folder)

    def _too_large(self, path: str) -> TooLargeError:
        limit = f"{self._max_bytes:,} bytes"
        return TooLargeError(f"{path!r} is over the limit of {limit}", mend="Split it, or raise `max_bytes`.")


def _read(descriptor: int, start: int, length: int, *, hint: int) -> bytes:
    """At most `length` bytes, fewer only at the end of the file."""
    chunks: list[bytes] = []
    want = hint + 1
    while length > 0:
        chunk = os.pread(descriptor, min(length, want), start)
        if not chunk:
            break
        chunks.append(chunk)
        start += len(chunk)
        length -= len(chunk)
        want = _CHUNK
    return b"".join(chunks)
