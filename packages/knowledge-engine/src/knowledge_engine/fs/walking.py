"""Listing a folder of any size, with its links, without leaving the root.

Links. A link inside the walked folder is followed, and its target listed under the link's own path, only when the
target would not be listed under its real path: it lies in a hidden or an excluded folder, or has a name that cannot
be a document's. (That is how Kubernetes mounts a ConfigMap: `in.md -> ..data/in.md`, `..data -> ..2024_01`.) A link
to something that is listed anyway is left out without a word: the target is the document. Below a followed link, its
target counts as not hidden. Whatever several links lead to is listed once, under the first in order of path; so no
cycle of links goes on.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from operator import itemgetter

from knowledge_engine.fs.globs import Globs
from knowledge_engine.fs.opening import FOLDER, LOOK, below, real_path
from knowledge_engine.fs.paths import HIDDEN_NAMES, as_text, full_path, is_hidden, path_problem, printable
from knowledge_engine.models import FileInfo

# One search a name; only what it finds (and long names) goes through the full check.
_odd = re.compile("[\x00-\x1f\x7f-\x9f\\\\:~\ud800-\udfff]").search
_SURROGATE = re.compile("[\ud800-\udfff]")
#: The kernel takes no longer path, its closing NUL included.
_MAX_FULL_BYTES = 4095
_by_path = itemgetter(0)


def walk(root: str, start: str, globs: Globs) -> Iterator[FileInfo]:
    """Files below `start` (a path, or "."), then problems, each in order of path. `root` is free of links."""
    job = _Walk(root, globs)
    job.run(start)
    job.files.sort(key=_by_path)
    job.problems.sort(key=_by_path)
    yield from job.files
    yield from job.problems


def info_of(path: str, found: os.stat_result) -> FileInfo:
    """A file's identity; the same whether it comes from a walk or a single look."""
    return FileInfo(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


class _Walk:
    """State of one walk."""

    def __init__(self, root: str, globs: Globs) -> None:
        self.files: list[FileInfo] = []
        self.problems: list[FileInfo] = []
        self._root = root
        self._globs = globs
        self._scope = root
        self._links: list[str] = []
        # Real paths of what links led to.
        self._reached: set[str] = set()

    def run(self, start: str) -> None:
        scope = self._look(start)
        if scope is None:
            return
        real, found = scope
        if below(self._root, real) is None:
            self._problem(start, "symlink-escape")
        elif stat.S_ISDIR(found.st_mode):
            self._scope = real
            prefix = "" if start == "." else start + "/"
            self._scan(prefix, linked=False)
            while self._links:
                links, self._links = sorted(self._links), []
                for path in links:
                    self._follow(path, prefix)

    def _scan(self, prefix: str, *, linked: bool) -> None:
        """Lists a folder and those below it; `linked`: reached through a link."""
        stack = [prefix]
        while stack:
            prefix = stack.pop()
            name = full_path(self._root, prefix[:-1] or ".")
            try:
                descriptor = os.open(name, FOLDER)
            except OSError as error:
                self._unreadable(prefix[:-1] or ".", error)
                continue
            try:
                real = real_path(descriptor, name)
                # A folder can be swapped for a link between its listing and now.
                if below(self._scope, real) is None or (linked and not self._first_visit(real)):
                    continue
                count = len(self.files)
                self._entries(descriptor, prefix, stack)
                if linked:
                    self._only_first(count, real, prefix)
            except OSError as error:
                self._unreadable(prefix[:-1] or ".", error)
            finally:
                os.close(descriptor)

    def _entries(self, descriptor: int, prefix: str, stack: list[str]) -> None:
        """Takes in one folder. The hot loop: a few microseconds a file, most of them in the kernel."""
        excluded = self._globs.match if self._globs else None
        add, new, regular = self.files.append, FileInfo._make, stat.S_ISREG
        # Names of so many characters need no look at their bytes.
        room = _MAX_FULL_BYTES - len(os.fsencode(full_path(self._root, prefix)))
        short = min(255, room) // 4
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = as_text(entry.name)
                if name[0] == "." or name in HIDDEN_NAMES:
                    continue
                path = prefix + name
                if (len(name) > short or _odd(name)) and not self._good_name(path, name, room):
                    continue
                try:
                    if entry.is_symlink():
                        self._links.append(path)
                        continue
                    folder = entry.is_dir(follow_symlinks=False)
                    if excluded is not None and excluded(path, folder=folder):
                        continue
                    if folder:
                        stack.append(path + "/")
                        continue
                    found = entry.stat(follow_symlinks=False)
                except OSError as error:
                    self._unreadable(path, error)
                    continue
                if regular(found.st_mode):
                    add(new((path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, "")))
                else:
                    self._problem(path, "not-regular")

    def _good_name(self, path: str, name: str, room: int) -> bool:
        if _SURROGATE.search(name):
            self._problem(path, "name-encoding")
        elif path_problem(path) or len(name.encode()) > room:
            self._problem(path, "name-invalid")
        else:
            return True
        return False

    def _follow(self, path: str, prefix: str) -> None:
        """Takes in what a link leads to, if nothing else does."""
        target = self._look(path)
        if target is None:
            return
        real, found = target
        folder = stat.S_ISDIR(found.st_mode)
        inner = below(self._scope, real)
        if inner is None:
            self._problem(path, "symlink-escape")
        elif self._globs.match(path, folder=folder) or self._listed_anyway(prefix, inner, folder=folder):
            return
        elif folder:
            self._scan(path + "/", linked=True)
        elif not stat.S_ISREG(found.st_mode):
            self._problem(path, "not-regular")
        elif self._first_visit(real):
            self.files.append(info_of(path, found))

    def _listed_anyway(self, prefix: str, inner: str, *, folder: bool) -> bool:
        """Whether the walk comes to `inner`, a real path below its start, without any link."""
        path = prefix + inner
        hidden = is_hidden(inner) or self._globs.covers(path, folder=folder) or path_problem(path)
        return inner == "." or not hidden

    def _look(self, path: str) -> tuple[str, os.stat_result] | None:
        """Where a path leads and what is there; None, and the reason noted, if nothing can be seen there."""
        name = full_path(self._root, path)
        try:
            descriptor = os.open(name, LOOK)
        except OSError as error:
            inner = below(self._scope, as_text(os.path.realpath(name)))
            if inner is None:
                self._problem(path, "symlink-escape")
            elif error.errno in (errno.ENOENT, errno.ENOTDIR):
                # Without a link the name has vanished, which is no problem.
                if os.path.islink(name):  # noqa: PTH114
                    self._problem(path, "dangling-link")
            else:
                self._problem(path, "link-loop" if error.errno == errno.ELOOP else "unreadable")
            return None
        try:
            return real_path(descriptor, name), os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def _first_visit(self, real: str) -> bool:
        seen = real in self._reached
        self._reached.add(real)
        return not seen

    def _only_first(self, count: int, real: str, prefix: str) -> None:
        """Drops files that another link led to, from those added since there were `count`."""
        added = self.files[count:]
        self.files[count:] = [info for info in added if self._first_visit(f"{real}/{info.path[len(prefix) :]}")]

    def _unreadable(self, path: str, error: OSError) -> None:
        # Deleted or replaced since its name was listed: not there, which is no problem.
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            self._problem(path, "unreadable")

    def _problem(self, path: str, problem: str) -> None:
        self.problems.append(FileInfo(printable(path), problem=problem))
