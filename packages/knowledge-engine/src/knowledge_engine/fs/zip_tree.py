"""Reading a zip archive: what it says of itself is checked before it is believed."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from knowledge_engine.errors import ProviderError
from knowledge_engine.fs.entries import identity
from knowledge_engine.fs.paths import path_problem, printable
from knowledge_engine.fs.trees import Skip
from knowledge_engine.models import FileInfo

if TYPE_CHECKING:
    import zipfile

    from fsspec.implementations.zip import ZipFileSystem

_ENCRYPTED = 0x1
_UNIX = 3
_LOCAL_HEADER = 30


class ZipTree:
    """Below a folder of an archive. One thread reads at a time.

    No path has an entry whose name leads anywhere (absolute, `..`, backslashes, NUL), whose name another entry has
    too, that is a link or a device, that is encrypted, or that shares its bytes with another one, as the entries of
    an archive that is made to grow beyond all measure do. Each is a problem.
    """

    def __init__(self, fs: ZipFileSystem, root: str) -> None:
        self._fs = fs  # which closes the archive when nobody holds it any more
        self._zip: zipfile.ZipFile = fs.zip
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[FileInfo, zipfile.ZipInfo]] = {}
        self._problems: list[FileInfo] = []
        self._unreadable: set[str] = set()
        self._sort(f"{root.strip('/')}/" if root.strip("/") else "")

    def walk(self, path: str, skip: Skip) -> Iterator[FileInfo]:
        """See `Tree.walk`."""
        del skip  # listing costs nothing here
        prefix = "" if path == "." else f"{path}/"
        for name, (info, _) in self._entries.items():
            if name.startswith(prefix):
                yield FileInfo(name, problem="unreadable") if name in self._unreadable else info
        yield from (one for one in self._problems if one.path.startswith(prefix))

    def info(self, path: str) -> FileInfo:
        """See `Tree.info`."""
        if path not in self._entries:
            raise FileNotFoundError(path)
        return self._entries[path][0]

    def read(self, info: FileInfo, start: int, end: int) -> bytes:
        """See `Tree.read`. No more is unpacked than the archive declares, or than is asked for."""
        if info.path in self._unreadable:
            raise ProviderError(
                f"{info.path!r} is encrypted, or shares its bytes with another entry", mend="Pack it anew."
            )
        with self._lock, self._zip.open(self._entries[info.path][1]) as file:
            file.seek(start)
            return file.read(end - start)

    def _sort(self, prefix: str) -> None:
        entries = self._zip.infolist()
        shared = _sharing(entries)
        doubled: set[str] = set()
        for entry in entries:
            # As it is in the archive: `filename` ends before a NUL.
            name = entry.orig_filename
            while name.startswith("./"):
                name = name[2:]
            if name.endswith("/") or not name.startswith(prefix):
                continue
            name = name[len(prefix) :]
            mode = entry.external_attr >> 16 if entry.create_system == _UNIX else 0
            if path_problem(name):
                self._problem(name, "name-invalid")
            elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                self._problem(name, "not-regular")
            elif name in self._entries:
                doubled.add(name)
            else:
                self._entries[name] = _info(name, entry), entry
                if entry.flag_bits & _ENCRYPTED or entry.header_offset in shared:
                    self._unreadable.add(name)
        for name in doubled:
            del self._entries[name]
            self._problem(name, "duplicate-name")

    def _problem(self, name: str, problem: str) -> None:
        self._problems.append(FileInfo(printable(name), problem=problem))


def _sharing(entries: list[zipfile.ZipInfo]) -> set[int]:
    """Where the entries begin that have bytes in common with another one."""
    shared: set[int] = set()
    end, reaching = 0, 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            shared |= {reaching, entry.header_offset}
        if (own_end := entry.header_offset + _LOCAL_HEADER + entry.compress_size) > end:
            end, reaching = own_end, entry.header_offset
    return shared


def _info(path: str, entry: zipfile.ZipInfo) -> FileInfo:
    try:
        written = int(datetime(*entry.date_time, tzinfo=UTC).timestamp())
    except ValueError:
        written = 0
    number = identity(path, entry.CRC, entry.header_offset, entry.compress_size)
    return FileInfo(path, entry.file_size, mtime_ns=written * 10**9, inode=number)
