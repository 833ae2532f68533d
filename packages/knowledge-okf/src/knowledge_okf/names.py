"""Ids of concepts, and the folders that they are put into."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.fs import can_be_path, is_hidden

#: Files of these names are no concepts, at any level.
RESERVED: Final = frozenset({"index", "log"})
MAX_ID_CHARS: Final = 80
_ID = re.compile(r"[a-z][a-z0-9-]*")
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")
_MAX_FOLDER_BYTES = 200
_FOLDER_MEND = "Write it as a folder inside the bundle, such as guides/devices."
# What one system or another takes for something else in a name.
_ODD = re.compile(r'[\x00-\x1f\x7f-\x9f\\:*?"<>|]')

PathMap = Mapping[str, str]
NO_PATHS: Final[PathMap] = MappingProxyType({})


def is_concept_id(text: str) -> bool:
    """Whether a concept made here can have that id: `^[a-z][a-z0-9-]*$`, and not the name of a reserved file."""
    return _ID.fullmatch(text) is not None and text not in RESERVED and len(text) <= MAX_ID_CHARS


def slug(title: str) -> str:
    """An id for a title. Letters of other scripts have no place in ids: a title without any other is named by its hash.

    >>> slug("Über die 2. Düse!"), slug("24 V supply"), slug("水温")
    ('uber-die-2-duse', 'n-24-v-supply', 'c-cd9faaee')
    """
    # Accents go; of everything else that is no letter or digit a hyphen stays.
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    text = _NOT_IN_SLUG.sub("-", plain).strip("-")[:MAX_ID_CHARS].rstrip("-")
    if not text:
        return f"c-{hashlib.sha256(title.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return text if text[0].isalpha() else f"n-{text}"[:MAX_ID_CHARS].rstrip("-")


class Names:
    """Gives ids out, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*RESERVED, *taken}
        self._next: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def take(self, wanted: str) -> str:
        """`wanted`, a slug, or the first of `wanted-1`, `wanted-2`, ... that is free."""
        name = wanted
        while name in self._taken:
            number = self._next[wanted] = self._next.get(wanted, 0) + 1
            name = f"{wanted[: MAX_ID_CHARS - 8]}-{number}"
        self._taken.add(name)
        return name


def check_path_map(path_map: Mapping[str, str]) -> PathMap:
    """A copy of a mapping of tags to folders, each folder checked.

    Raises:
        ConfigurationError: Naming the tag whose folder is absolute, hidden, leaves the bundle, has an empty
            component, or cannot be a folder's name everywhere.
    """
    for tag, folder in path_map.items():
        problem = folder_problem(folder)
        if problem:
            raise ConfigurationError(f"path_map gives {tag[:60]!r} a folder that {problem}", mend=_FOLDER_MEND)
    return MappingProxyType(dict(path_map))


def folder_problem(folder: object) -> str:
    """What is wrong with a folder of concepts, as the rest of a sentence; empty when nothing is."""
    if not isinstance(folder, str) or not can_be_path(folder) or _surrogate(folder):
        return "is no name"
    if folder.startswith(("/", "~")):
        return "is absolute"
    parts = folder.split("/")
    if not all(part.strip() for part in parts):
        return "has an empty component"
    if "." in parts or ".." in parts:
        return "has a '.' or '..' component"
    if _ODD.search(folder) or any(part != part.strip() or part.endswith(".") for part in parts):
        return "holds a sign that is none in a name"
    if is_hidden(folder):
        return "is hidden"
    # A folder of a concept's file name could not stand beside it.
    if any(part.lower().endswith(".md") for part in parts):
        return "is named as a file"
    return "is too long" if len(folder.encode()) > _MAX_FOLDER_BYTES else ""


def _surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def folder_of(tags: Iterable[str], path_map: PathMap) -> str:
    """The folder of the first tag that has one; empty for the bundle's root."""
    return next((path_map[tag] for tag in tags if tag in path_map), "")
