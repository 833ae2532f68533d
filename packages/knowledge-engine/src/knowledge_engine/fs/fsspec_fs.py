"""Files wherever fsspec reaches: archives, object stores, servers, memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from knowledge_engine.fs.local import LocalFs
from knowledge_engine.fs.mounting import Mount, Mounted, can_write, locate, unwrapped
from knowledge_engine.fs.remote import RemoteFiles, told
from knowledge_engine.models import ByteSpan, FileInfo

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_MAX_BYTES = 256 << 20


class FsspecFs:
    """Files below a folder of an fsspec file system; needs the extra `fsspec`. Safe to use from several threads.

    What `is_hidden` or `exclude` leaves out, and what is no path, is treated as by `LocalFs`. A change shows by
    version, checksum, size and time, as far as the file system tells them; where it tells none, each look finds one.

    Where the file system can write, what is made is a `WritableFsPort` too. A write is as atomic as the file system
    stores a whole file: so it is in memory and in object stores, but not over FTP or SFTP. `if_match` holds between
    the threads of this object only. A local file system is read and written by a `LocalFs`.

    Of an archive no more than its own words are believed, see `ZipTree`.

    Args:
        fs: Such as `fsspec.filesystem("memory")`.
        root: The folder in it; "" for all.
        exclude: Patterns, see `Globs`.
        max_bytes: Files that are larger, or are said to be, are not read or written whole.
        writable: False where nothing shall be written though the file system could; None asks the file system.
    """

    def __new__(cls, fs: AbstractFileSystem, root: str = "", **options: Any) -> FsspecFs:
        """Makes one that has `write` and `delete` where the file system has."""
        writable = options.get("writable")
        if writable is None:
            writable = can_write(unwrapped(Mounted(fs, root)).fs)
        return object.__new__(_WritableFsspecFs if writable else FsspecFs)

    def __init__(
        self,
        fs: AbstractFileSystem,
        root: str = "",
        *,
        exclude: Sequence[str] = (),
        max_bytes: int = _MAX_BYTES,
        writable: bool | None = None,
    ) -> None:
        from fsspec.implementations.local import LocalFileSystem

        del writable  # `__new__` has seen to it
        inner, root = unwrapped(Mounted(fs, root))
        self._files: LocalFs | RemoteFiles
        if isinstance(inner, LocalFileSystem):
            self._files = LocalFs(inner._strip_protocol(root), exclude=exclude, max_bytes=max_bytes)
        else:
            self._files = RemoteFiles(Mount(lambda: Mounted(inner, root)), exclude, max_bytes)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        exclude: Sequence[str] = (),
        max_bytes: int = _MAX_BYTES,
        writable: bool | None = None,
        **options: Any,
    ) -> FsspecFs:
        """Files at a URL such as `zip://docs.zip`, `s3://bucket/docs` or `memory://docs`; see `locate` for archives.

        An archive is opened at the first use, and again when it was replaced. `options` go to fsspec.

        Raises:
            ConfigurationError: When fsspec, or what it needs for that scheme, is not installed; for an unknown scheme.
            KnowledgeError: When the place cannot be opened.
        """
        location = locate(url, options)
        if not location.is_archive:
            with told("The place of these documents cannot be opened"):
                mounted = location.open()
            return cls(*mounted, exclude=exclude, max_bytes=max_bytes, writable=writable)
        made = object.__new__(FsspecFs)
        made._files = RemoteFiles(Mount(location.open, location.stamp), exclude, max_bytes)
        return made

    def walk(self, path: str = ".") -> Iterator[FileInfo]:
        """See `FsPort.walk`.

        Problems: `name-invalid`, `not-regular`, `unreadable`, and in archives `duplicate-name`.
        """
        return self._files.walk(path)

    def stat(self, path: str) -> FileInfo:
        """See `FsPort.stat`. `inode` stands for version, checksum and the like; see `file_info`."""
        return self._files.stat(path)

    def read(self, path: str, span: ByteSpan | None = None) -> bytes:
        """See `FsPort.read`. Of a span, only its bytes are read where the file system can.

        Raises:
            TooLargeError: When that is more than `max_bytes`.
        """
        return self._files.read(path, span)


class _WritableFsspecFs(FsspecFs):
    """One that can be written."""

    def write(self, path: str, data: bytes, *, if_match: str | None = None) -> FileInfo:
        """See `WritableFsPort.write`."""
        return self._files.write(path, data, if_match=if_match)

    def delete(self, path: str, *, if_match: str | None = None) -> None:
        """See `WritableFsPort.delete`."""
        self._files.delete(path, if_match=if_match)
