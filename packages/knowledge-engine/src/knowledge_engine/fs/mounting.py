"""Opening fsspec file systems: from an object, or from a URL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from knowledge_engine.errors import ConfigurationError, ProviderError
from knowledge_engine.fs.entries import file_info
from knowledge_engine.fs.trees import PlainTree, Tree
from knowledge_engine.fs.zip_tree import ZipTree

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


class Mounted(NamedTuple):
    """A file system and the folder in it that is the root."""

    fs: AbstractFileSystem
    root: str


class Mount:
    """Opened at the first use, and again when what it was opened from is another one by now.

    Args:
        stamp: A value that is another one when that is so; None: it never is.
    """

    def __init__(self, opener: Callable[[], Mounted], stamp: Callable[[], object] | None = None) -> None:
        self._open, self._stamp = opener, stamp
        self._lock = threading.Lock()
        self._tree: Tree | None = None
        self._stamped: object = None

    def tree(self, *, look: bool) -> Tree:
        """The files. With `look`, what they come from is looked at first; else what is open stays."""
        with self._lock:
            try:
                if self._stamp is not None and (look or self._tree is None):
                    stamp = self._stamp()
                    if stamp != self._stamped:
                        self._tree = None
                    self._stamped = stamp
                if self._tree is None:
                    self._tree = _tree(self._open())
            except FileNotFoundError as error:
                raise ProviderError("The archive of these documents is not there", mend="Check its name.") from error
            return self._tree


def unwrapped(mounted: Mounted) -> Mounted:
    """The same folder, without what fsspec can put around a file system: `dir::`, and methods for event loops.

    Raises:
        ConfigurationError: For a cache, which gives old bytes for a new version; for methods of an event loop alone.
    """
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
    from fsspec.implementations.cached import CachingFileSystem
    from fsspec.implementations.dirfs import DirFileSystem

    fs, root = mounted
    while isinstance(fs, DirFileSystem | AsyncFileSystemWrapper):
        if isinstance(fs, AsyncFileSystemWrapper):
            fs = fs.sync_fs
            continue
        # In a URL such as `dir::memory://docs`, fsspec names the folder twice.
        root = "" if root == fs.path else root
        fs, root = fs.fs, f"{fs.path}/{root}" if root.strip("/") else str(fs.path)
    if isinstance(fs, CachingFileSystem):
        raise ConfigurationError("A cache would hide changes of the documents", mend="Name the place without it.")
    if getattr(fs, "asynchronous", False):
        raise ConfigurationError("The file system is one for a running event loop", mend="Make it not asynchronous.")
    return Mounted(fs, root)


def can_write(fs: AbstractFileSystem) -> bool:
    """Whether that kind of file system can delete, and so write; fsspec does not say it in any other way."""
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    base = AsyncFileSystem if isinstance(fs, AsyncFileSystem) else AbstractFileSystem
    names = ("_rm_file", "_rm") if base is AsyncFileSystem else ("rm_file", "_rm", "rm")
    return any(getattr(type(fs), name, None) is not getattr(base, name, None) for name in names)


class Location(NamedTuple):
    """What a URL names."""

    url: str
    #: Read from one file, which may be replaced: it is opened late, and again.
    is_archive: bool
    options: Mapping[str, Any]

    def open(self) -> Mounted:
        """The file system, opened now."""
        from fsspec.core import url_to_fs

        return unwrapped(Mounted(*url_to_fs(self.url, **self.options)))

    def stamp(self) -> object:
        """What tells versions of the archive's file apart."""
        from fsspec.core import url_to_fs

        others = {name: value for name, value in self.options.items() if isinstance(value, Mapping)}
        fs, path = url_to_fs(self.url.partition("::")[2], **others)
        fs.invalidate_cache(fs._parent(path))
        # Of a link, these are the numbers of what it leads to.
        return file_info(path, {**fs.info(path), "islink": False})


def locate(url: str, options: Mapping[str, Any]) -> Location:
    """Looks at a URL, opens nothing.

    `zip://docs.zip` is all of that archive; `zip://folder::docs.zip` is how fsspec writes a folder in one, and
    `zip://::s3://bucket/docs.zip` an archive that lies elsewhere.

    Raises:
        ConfigurationError: When fsspec, or what it needs for a scheme, is not installed, and for an unknown scheme.
    """
    try:
        from fsspec.archive import AbstractArchiveFileSystem
    except ImportError as error:
        raise ConfigurationError(
            "Files that are not in a local folder are read with fsspec", mend="Install kpkit-engine[fsspec]."
        ) from error
    first, *others = url.split("::")
    if not first:
        raise ConfigurationError("The URL names no file system", mend="Write SCHEME://PLACE, such as zip://docs.zip.")
    kinds = [_kind(part) for part in (first, *others) if part]
    is_archive = issubclass(kinds[0], AbstractArchiveFileSystem)
    if is_archive and not others:
        scheme, _, place = url.partition("://")
        url = f"{scheme}://::{place}"
    return Location(url, is_archive, options)


def _kind(part: str) -> type[AbstractFileSystem]:
    """The class for one part of a chain: `scheme://path`, a scheme alone, or a local path."""
    from fsspec import available_protocols, get_filesystem_class

    scheme, colon, _ = part.partition("://")
    name = scheme if colon or scheme in available_protocols() else "file"
    try:
        kind: type[AbstractFileSystem] = get_filesystem_class(name or "?")
    except ValueError as error:
        raise ConfigurationError(f"There is no file system {name[:60]!r}", mend="Use one that fsspec knows.") from error
    except ImportError as error:
        raise ConfigurationError(f"The file system {name!r} needs another package", mend=f"{error}.") from error
    return kind


def _tree(mounted: Mounted) -> Tree:
    from fsspec.implementations.zip import ZipFileSystem

    return ZipTree(*mounted) if isinstance(mounted.fs, ZipFileSystem) else PlainTree(*mounted)
