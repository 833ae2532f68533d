"""The file port over any fsspec file system but the local one."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from knowledge_engine.errors import (
    InvalidIdError,
    KnowledgeError,
    ProviderError,
    ReadOnlyError,
    TooLargeError,
    UnavailableError,
)
from knowledge_engine.fs.globs import Globs
from knowledge_engine.fs.mounting import Mount
from knowledge_engine.fs.paths import above, check_path, is_hidden, path_problem
from knowledge_engine.fs.refusals import check_match, in_the_way, not_found, refuse_hidden
from knowledge_engine.fs.trees import PlainTree, Tree
from knowledge_engine.fs.writing import write_error
from knowledge_engine.models import ByteSpan, FileInfo

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class RemoteFiles:
    """See `FsspecFs`."""

    def __init__(self, mount: Mount, exclude: Sequence[str], max_bytes: int) -> None:
        self._mount, self._globs, self._max_bytes = mount, Globs(exclude), max_bytes
        self._writing = threading.Lock()

    def walk(self, path: str = ".") -> Iterator[FileInfo]:
        """See `FsPort.walk`."""
        if path != "." and self._left_out(check_path(path), folder=True):
            return iter(())
        with told("The files cannot be listed"):
            try:
                found = list(self._mount.tree(look=True).walk(path, lambda name: self._left_out(name, folder=True)))
            except _ABSENT:
                return iter(())
        prefix = "" if path == "." else f"{path}/"
        shown = [
            info
            for info in found
            if info.path.startswith(prefix)
            # A name that is no path is never hidden: `..` begins with a dot.
            and (not self._left_out(info.path) or (info.problem and path_problem(info.path)))
        ]
        return iter(sorted(shown, key=lambda info: (bool(info.problem), info.path)))

    def stat(self, path: str) -> FileInfo:
        """See `FsPort.stat`."""
        return self._find(path)[1]

    def read(self, path: str, span: ByteSpan | None = None) -> bytes:
        """See `FsPort.read`."""
        tree, info = self._find(path)
        start, end = 0, self._max_bytes + 1
        if span is not None:
            # A size that is not told is 0, as that of an empty file.
            start, end = (min(place, info.size) if info.size else place for place in (span.start, span.end))
        if (info.size if span is None else end - start) > self._max_bytes:
            raise self._too_large(path)
        if span is not None and start == end:
            return b""
        with told(f"{path!r} cannot be read"):
            try:
                data = tree.read(info, start, end)
            except _ABSENT:
                raise not_found(path) from None
        if len(data) > end - start:
            raise ProviderError(f"Of {path!r} more was sent than was asked for", mend="Read it from another server.")
        # What is told of a size may be wrong, and the file may have grown.
        if len(data) > self._max_bytes:
            raise self._too_large(path)
        return data

    def write(self, path: str, data: bytes, *, if_match: str | None = None) -> FileInfo:
        """See `WritableFsPort.write`."""
        refuse_hidden(check_path(path))
        if self._globs.covers(path):
            raise InvalidIdError(f"{path!r} is excluded by a setting", mend="Choose another name, or change `exclude`.")
        if len(data) > self._max_bytes:
            raise self._too_large(path)
        with self._writing, _told_writing(path):
            tree = self._plain()
            if tree.is_folder(path) or any(map(tree.is_file, above(path))):
                raise in_the_way(path)
            if if_match is not None:
                check_match(path, if_match, self._stored_hash(path))
            tree.write(path, bytes(data))
            return self.stat(path)

    def delete(self, path: str, *, if_match: str | None = None) -> None:
        """See `WritableFsPort.delete`."""
        with self._writing:
            self._find(path)
            if if_match is not None:
                check_match(path, if_match, self._stored_hash(path))
            with _told_writing(path):
                self._plain().delete(path)

    def _find(self, path: str) -> tuple[Tree, FileInfo]:
        if self._left_out(check_path(path)):
            raise not_found(path)
        with told(f"{path!r} cannot be looked at"):
            try:
                tree = self._mount.tree(look=True)
                info = tree.info(path)
            except _ABSENT:
                raise not_found(path) from None
        if info.problem:
            raise not_found(path)
        return tree, info

    def _plain(self) -> PlainTree:
        tree = self._mount.tree(look=False)
        assert isinstance(tree, PlainTree), "no archive is written"
        return tree

    def _stored_hash(self, path: str) -> str | None:
        try:
            return hashlib.sha256(self.read(path)).hexdigest()
        except KnowledgeError as error:
            if error.code != "not-found":
                raise
            return None

    def _left_out(self, path: str, *, folder: bool = False) -> bool:
        return is_hidden(path) or self._globs.covers(path, folder=folder)

    def _too_large(self, path: str) -> TooLargeError:
        limit = f"{self._max_bytes:,} bytes"
        return TooLargeError(f"{path!r} is over the limit of {limit}", mend="Split it, or raise `max_bytes`.")


@contextmanager
def told(problem: str) -> Iterator[None]:
    """Errors come out as this package's own. Their texts stay inside: they may hold addresses and keys."""
    try:
        yield
    except KnowledgeError:
        raise
    except (TimeoutError, ConnectionError) as error:
        raise UnavailableError(
            f"{problem}: the place where it lies cannot be reached", mend="Try again later."
        ) from error
    except Exception as error:  # a file system is a plugin: S3, HTTP and zip have errors of their own kinds
        raise ProviderError(f"{problem}: {type(error).__name__}", mend="Check the place where it lies.") from error


@contextmanager
def _told_writing(path: str) -> Iterator[None]:
    with told(f"{path!r} cannot be written"):
        try:
            yield
        except (PermissionError, NotImplementedError) as error:
            raise ReadOnlyError(f"{path!r} may not be written", mend="Give this process the right to.") from error
        except FileNotFoundError as error:
            raise InvalidIdError(f"{path!r} cannot be the name of a document there", mend="Choose another.") from error
        except OSError as error:
            if error.errno is None:
                raise
            raise write_error(path, error) from error
