"""Reading what lies below the root of an fsspec file system."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from knowledge_engine.fs.entries import file_info
from knowledge_engine.fs.paths import path_problem, printable
from knowledge_engine.models import FileInfo

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: Whether a folder or file, by its path, is left out of a walk.
Skip = Callable[[str], bool]


class Tree(Protocol):
    """Files below a root. Errors are those of the file system; paths are such as `check_path` takes."""

    def walk(self, path: str, skip: Skip) -> Iterator[FileInfo]:
        """Every file below a folder ("." for the root) in no order, and what is none as a problem."""
        ...

    def info(self, path: str) -> FileInfo:
        """One file; FileNotFoundError if there is none."""
        ...

    def read(self, info: FileInfo, start: int, end: int) -> bytes:
        """The bytes [start, end) of a file, fewer at its end."""
        ...


class PlainTree:
    """Below a folder or prefix of any file system.

    Its caches of listings are dropped before each look, so that a change shows.
    """

    def __init__(self, fs: AbstractFileSystem, root: str) -> None:
        self._fs = fs
        self._root = str(fs._strip_protocol(root)).rstrip("/")
        self._lists_all = _has_own_find(fs)

    def walk(self, path: str, skip: Skip) -> Iterator[FileInfo]:
        """See `Tree.walk`. A folder that may not be read is a problem; any other failure is one of the walk."""
        self._fs.invalidate_cache()
        folder = self._root if path == "." else self.full(path)
        if self._lists_all:
            found: Iterator[dict[str, Any]] = iter(self._fs.find(folder, detail=True).values())
        else:
            found = self._descend(folder, skip)
        for info in found:
            inner = self._relative(str(info["name"]))
            if inner in ("", path) or inner.endswith("/"):
                continue  # a file of the folder's own name, or the mark of an empty folder in an object store
            if path_problem(inner):
                yield FileInfo(printable(inner), problem="name-invalid")
            elif info["type"] == "unreadable":
                yield FileInfo(inner, problem="unreadable")
            elif info["type"] != "directory":
                yield file_info(inner, info)

    def info(self, path: str) -> FileInfo:
        """See `Tree.info`."""
        full = self.full(path)
        self._fs.invalidate_cache(self._fs._parent(full))
        info = self._fs.info(full)
        if info["type"] != "file":
            raise FileNotFoundError(path)
        return file_info(path, info)

    def read(self, info: FileInfo, start: int, end: int) -> bytes:
        """See `Tree.read`."""
        full = self.full(info.path)
        if info.size:
            return bytes(self._fs.cat_file(full, start=start, end=end))
        # Empty, or of a size that is not told: a range of it would be refused, or could not be taken.
        with self._fs.open(full, "rb") as file:
            return bytes(file.read(end))[start:]

    def write(self, path: str, data: bytes) -> None:
        """Stores a file as the file system stores a whole one, and the folders above it."""
        full = self.full(path)
        parent = self._fs._parent(full)
        self._fs.makedirs(parent, exist_ok=True)
        self._fs.pipe_file(full, data)
        self._fs.invalidate_cache(parent)

    def delete(self, path: str) -> None:
        """Removes a file."""
        full = self.full(path)
        self._fs.rm_file(full)
        self._fs.invalidate_cache(self._fs._parent(full))

    def is_folder(self, path: str) -> bool:
        """Whether a folder has that name."""
        return bool(self._fs.isdir(self.full(path)))

    def is_file(self, path: str) -> bool:
        """Whether a file has that name."""
        return bool(self._fs.isfile(self.full(path)))

    def full(self, path: str) -> str:
        """The file system's own name for a path; FileNotFoundError where it takes that for another one's."""
        folder = f"{self._root}/" if self._root else self._fs.root_marker
        full = str(self._fs._strip_protocol(folder + path))
        if self._relative(full) != path:
            raise FileNotFoundError(path)
        return full

    def _relative(self, name: str) -> str:
        root = self._root.removeprefix("/")
        name = name.removeprefix("/")
        return name[len(root) + 1 :] if root and name.startswith(f"{root}/") else "" if root else name

    def _descend(self, root: str, skip: Skip) -> Iterator[dict[str, Any]]:
        """As `find`, which would pass over folders whose listing fails as if they were empty."""
        folders = [root]
        while folders:
            folder = folders.pop()
            try:
                listed = self._fs.ls(folder, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError:
                if folder == root:
                    raise
                yield {"name": folder, "type": "unreadable"}
                continue
            for info in listed:
                name = str(info["name"])
                if info["type"] != "directory":
                    yield info
                elif name.rstrip("/") != folder.rstrip("/") and not skip(self._relative(name.rstrip("/"))):
                    folders.append(name.rstrip("/"))


def _has_own_find(fs: AbstractFileSystem) -> bool:
    """Whether one listing of everything is cheaper than one for each folder."""
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    kind = type(fs)
    if isinstance(fs, AsyncFileSystem):
        return kind._find is not AsyncFileSystem._find
    return kind.find is not AbstractFileSystem.find
