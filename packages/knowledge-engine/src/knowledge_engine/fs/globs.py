"""Patterns for paths to leave out."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from knowledge_engine.fs.paths import above


class Globs:
    """Shell patterns over root-relative paths, in the manner of ignore files.

    - Without a slash (`drafts`, `*.tmp`) a pattern is compared with each component of a path.
    - With a slash inside or in front (`a/*.md`, `/drafts`) it is compared with the path from the root; `**` stands
      for any number of folders, none too.
    - A slash at the end (`drafts/`) takes folders only.
    - What lies below a matching folder is left out with it.

    `*`, `?` and `[...]` never match a slash. Letters' case counts. There is no negation, no escape character.
    Matching takes time proportional to pattern times path at most, whatever the pattern.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self._names: list[tuple[re.Pattern[str], bool]] = []
        self._paths: list[tuple[list[re.Pattern[str] | None], bool]] = []
        for pattern in patterns:
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        folders_only = pattern.endswith("/")
        anchored = "/" in pattern.rstrip("/")
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if not parts:
            return
        if parts[-1] == "**":
            # As a matching folder takes all below it, "something in there" is enough.
            parts[-1] = "*"
        if anchored:
            self._paths.append(([None if part == "**" else _compile(part) for part in parts], folders_only))
        else:
            self._names.append((_compile(parts[0]), folders_only))

    def __bool__(self) -> bool:
        return bool(self._names or self._paths)

    def match(self, path: str, *, folder: bool) -> bool:
        """Whether this file or folder itself is named by a pattern; the folders above are not asked."""
        name = path.rpartition("/")[2]
        for regex, folders_only in self._names:
            if (folder or not folders_only) and regex.match(name):
                return True
        if not self._paths:
            return False
        parts = path.split("/")
        return any((folder or not folders_only) and _match(pattern, parts) for pattern, folders_only in self._paths)

    def covers(self, path: str, *, folder: bool = False) -> bool:
        """Whether a pattern names the path or a folder above it."""
        if not self:
            return False
        return self.match(path, folder=folder) or any(self.match(parent, folder=True) for parent in above(path))


_NOTHING = re.compile("(?!)")


def _compile(component: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(component))


def _match(pattern: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Matches all of `parts`; None in the pattern stands for any number of them.

    On a mismatch only the last None takes one part more: what the ones before it took need never be revisited, so
    there is no exponential search.
    """
    at = part = 0
    star, resume = -1, 0
    while part < len(parts):
        here = pattern[at] if at < len(pattern) else _NOTHING
        if here is None:
            star, resume = at, part
            at += 1
        elif here.match(parts[part]):
            at += 1
            part += 1
        elif star >= 0:
            resume += 1
            at, part = star + 1, resume
        else:
            return False
    # The last of a pattern is never None.
    return at == len(pattern)
