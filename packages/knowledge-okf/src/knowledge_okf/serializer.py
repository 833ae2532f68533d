"""A graph as the files of a bundle."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from knowledge_okf.concept_files import Finder, Target, render
from knowledge_okf.indexes import Listed, log_entry, render_indexes
from knowledge_okf.kept import KEPT, Kept, render_kept, sha256
from knowledge_okf.models import Concept, KnowledgeGraph
from knowledge_okf.reading import INDEX, LOG, root_of
from knowledge_okf.swapping import locked, replace_folder, state_of

Clock = Callable[[], datetime]


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


class BundleSerializer:
    """Writes graphs as bundles of version 0.2."""

    def __init__(self, *, clock: Clock = now) -> None:
        self._clock = clock

    def files(self, graph: KnowledgeGraph, *, sections: Iterable[str] = (), log: bytes = b"") -> dict[str, bytes]:
        """Each file of the graph's bundle, by path.

        Args:
            graph: What to write.
            sections: Hashes of the source's sections, for the next update.
            log: As it is so far.

        Raises:
            InvalidArgumentError: For a concept that no frontmatter can hold.
        """
        find = finder(graph.concepts)
        out = {concept.path: render(concept, find) for concept in graph.concepts}
        indexes = render_indexes(graph.title, map(listed, graph.concepts))
        day = self._clock().astimezone(UTC).date().isoformat()
        out |= indexes
        out[LOG] = log_entry(log, day, "Creation", _count(len(graph)))
        order = tuple(concept.id for concept in graph.concepts)
        out[KEPT] = render_kept(Kept(graph.title, order, frozenset(sections), hashes(indexes)))
        return out

    def serialize(self, graph: KnowledgeGraph, output: str | os.PathLike[str]) -> int:
        """Writes the bundle, or replaces the one that is there; gives the number of concepts.

        Of what was there, `.md` files go where they lie in folders that hold concepts made here; all else stays.

        Raises:
            InvalidArgumentError, ReadOnlyError, StorageFullError, BusyError, ConflictError: For what their names say;
                the folder is as it was.
        """
        root = Path(os.path.realpath(root_of(output)))
        with locked(root):
            before = state_of(root)
            files = self.files(graph)
            replace_folder(root, files | gone(before, files), before)
        return len(graph)


def gone(before: Iterable[str], files: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """What a bundle that is written anew takes away: `.md` files and proposals, in folders that are its own."""
    before = list(before)
    indexed = {os.path.dirname(path) for path in before if path.endswith(f"/{INDEX}")}  # noqa: PTH120 - not a file
    own = {os.path.dirname(path) for path in files} | indexed  # noqa: PTH120
    return {
        path: None
        for path in before
        if path not in files and path.endswith((".md", ".md.proposed")) and os.path.dirname(path) in own  # noqa: PTH120
    }


def finder(concepts: Iterable[Concept]) -> Finder:
    """Finds what links need, by id."""
    targets = {concept.id: Target(concept.title, concept.path) for concept in concepts}
    return targets.get


def listed(concept: Concept) -> Listed:
    """What an index says of it."""
    return Listed(concept.path, concept.title, concept.description, concept.status)


def hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    """The SHA-256 of each."""
    return {path: sha256(data) for path, data in files.items()}


def _count(number: int) -> str:
    return f"{number} concept{'' if number == 1 else 's'}"
