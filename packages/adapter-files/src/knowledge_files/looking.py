"""Finding out which files there are, all of them or those at or below some paths."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from knowledge_engine.errors import NotFoundError, ProviderError
from knowledge_engine.fs import check_path
from knowledge_engine.models import FileInfo, Skipped
from knowledge_engine.ports import FsPort

if TYPE_CHECKING:
    # What it knows holds an index: libraries look for files without one.
    from knowledge_files.documents import Snapshot

_REASONS = {
    "symlink-escape": "The link leads out of the root.",
    "not-regular": "It is not a regular file.",
    "unreadable": "It may not be read.",
    "dangling-link": "The link leads nowhere.",
    "link-loop": "The link leads back to itself.",
    "name-encoding": "Its name is not UTF-8.",
    "duplicate-name": "Another entry has the same name.",
    "name-invalid": "Its name cannot be that of a document.",
}


@dataclass
class Look:
    """What was found."""

    files: dict[str, FileInfo] = field(default_factory=dict)
    problems: list[Skipped] = field(default_factory=list)
    #: Files that are no documents.
    others: int = 0
    #: Only what lies at or below these paths was looked at; None: everything.
    region: tuple[str, ...] | None = None


class Looker:
    """Looks at the files behind a port.

    Args:
        folder: The folder that is walked; "." for the root.
        wanted: Whether a path names a document.
    """

    def __init__(self, fs: FsPort, folder: str, wanted: Callable[[str], bool]) -> None:
        self._fs, self._folder, self._wanted = fs, folder, wanted

    def region(self, paths: Sequence[str]) -> tuple[str, ...] | None:
        """The part of the folder at or below some paths; None for all of it.

        Raises:
            InvalidIdError: For what cannot be a path.
        """
        found = []
        for given in paths:
            path = given if given == "." else check_path(given[:-1] if given.endswith("/") else given)
            if path in (".", self._folder) or self._folder.startswith(f"{path}/"):
                return None
            if self._folder == "." or path.startswith(f"{self._folder}/"):
                found.append(path)
        return tuple(dict.fromkeys(found))

    def stat(self, path: str) -> FileInfo | None:
        """One file; None if it is not there."""
        try:
            return self._fs.stat(path)
        except NotFoundError:
            return None
        except ProviderError:
            return FileInfo(path)  # reading it says what is wrong

    def walk(self) -> Look:
        """All there is."""
        look = Look()
        self._sort(self._fs.walk(self._folder), look)
        return look

    def look(self, region: tuple[str, ...] | None, known: Snapshot) -> Look:
        """What is there in a region; of the rest, what is known stays."""
        if region is None:
            return self.walk()
        problems = [one for one in known.problems if not _inside(one.path, region)]
        files = self._plain_files(region, known)
        if files is not None:
            return Look(files, problems, known.others, region)
        # Which of its names a linked file is listed under, only a walk of everything can tell.
        look = self.walk()
        files = {path: look.files[path] for path in _at_or_below(sorted(look.files), region)}
        found = [one for one in look.problems if _inside(one.path, region)]
        return Look(files, sorted([*problems, *found], key=lambda one: one.path), look.others, region)

    def _plain_files(self, region: tuple[str, ...], known: Snapshot) -> dict[str, FileInfo] | None:
        """The files of a region that names nothing else: no folder, no other name of a known file; else None."""
        files = {}
        for path in region:
            info = self.stat(path) if self._wanted(path) else None
            if info is not None:
                files[path] = info
                old = known.records.get(path)
                new = old is None or old.info.inode != info.inode
                if new and info.inode in known.inodes:
                    return None
            elif next(iter(self._fs.walk(path)), None) is not None:
                return None
        return files

    def _sort(self, found: Iterable[FileInfo], look: Look) -> None:
        for info in found:
            if info.problem:
                message = _REASONS.get(info.problem, "It cannot be read.")
                look.problems.append(Skipped(path=info.path, reason=info.problem, message=message))
            elif self._wanted(info.path):
                look.files[info.path] = info
            else:
                look.others += 1


def affected(known: Snapshot, look: Look) -> Iterable[str]:
    """Known paths that would have been found if they were still there."""
    return known.records if look.region is None else _at_or_below(sorted(known.records), look.region)


def _at_or_below(paths: Sequence[str], region: tuple[str, ...]) -> dict[str, None]:
    """Those of some ascending paths that lie in a region."""
    found = dict[str, None]()
    for one in region:
        # "0" follows "/"; what lies between `one` and `one/`, such as `one-b`, is not below it.
        at, left, right = (bisect_left(paths, text) for text in (one, f"{one}/", f"{one}0"))
        found.update(dict.fromkeys([*(path for path in paths[at : at + 1] if path == one), *paths[left:right]]))
    return found


def _inside(path: str, region: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in region)
