"""A folder of documents that lives in memory."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from knowledge_engine.fs.paths import above, check_path, is_hidden
from knowledge_engine.fs.refusals import check_match, in_the_way, not_found, refuse_hidden
from knowledge_engine.models import ByteSpan, FileInfo


class MemoryFs:
    """Files as a mapping of path to bytes. For tests, for examples and for programs that hold their documents.

    Behaves as `LocalFs` does on an empty folder into which `files` were written, except that each write is one tick
    of its own clock: times and inodes are the same in every run. Safe to use from several threads.
    """

    def __init__(self, files: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[bytes, FileInfo]] = {}
        self._folders: set[str] = set()
        self._ticks = 0
        for path, data in files.items():
            self._refuse_clash(check_path(path))
            self._put(path, data)

    def walk(self, path: str = ".") -> Iterator[FileInfo]:
        """See `FsPort.walk`. Hidden files, see `is_hidden`, are left out."""
        prefix = "" if path == "." else check_path(path) + "/"
        with self._lock:
            infos = [info for _, info in self._files.values()]
        # A hidden folder cannot be asked for either, hence no look at the part below `path` alone.
        return iter(sorted(info for info in infos if info.path.startswith(prefix) and not is_hidden(info.path)))

    def stat(self, path: str) -> FileInfo:
        """See `FsPort.stat`."""
        return self._get(path)[1]

    def read(self, path: str, span: ByteSpan | None = None) -> bytes:
        """See `FsPort.read`."""
        data = self._get(path)[0]
        return data if span is None else data[span.start : span.end]

    def write(self, path: str, data: bytes, *, if_match: str | None = None) -> FileInfo:
        """See `WritableFsPort.write`."""
        refuse_hidden(check_path(path))
        with self._lock:
            self._refuse_clash(path)
            held = self._files.get(path)
            check_match(path, if_match, None if held is None else hashlib.sha256(held[0]).hexdigest())
            return self._put(path, data)

    def delete(self, path: str, *, if_match: str | None = None) -> None:
        """See `WritableFsPort.delete`."""
        check_path(path)
        with self._lock:
            held = self._files.get(path)
            if held is None or is_hidden(path):
                raise not_found(path)
            check_match(path, if_match, hashlib.sha256(held[0]).hexdigest())
            del self._files[path]

    def _get(self, path: str) -> tuple[bytes, FileInfo]:
        check_path(path)
        with self._lock:
            held = self._files.get(path)
        if held is None or is_hidden(path):
            raise not_found(path)
        return held

    def _refuse_clash(self, path: str) -> None:
        if path in self._folders or any(folder in self._files for folder in above(path)):
            raise in_the_way(path)

    def _put(self, path: str, data: bytes) -> FileInfo:
        self._folders.update(above(path))
        self._ticks += 1
        info = FileInfo(path, len(data), self._ticks, self._ticks, self._ticks)
        self._files[path] = (bytes(data), info)
        return info
