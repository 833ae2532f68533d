"""Ranking by the classes of the rank-bm25 library, for small corpora: every passage is scored in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge_engine.analysis import Analyzer
from knowledge_engine.answers import Candidate
from knowledge_engine.errors import ConfigurationError, KnowledgeError
from knowledge_engine.passages import parse_document, passage_terms
from knowledge_engine.ports import FsPort
from knowledge_engine.ranking import K1, B, sort_key
from knowledge_files.documents import Snapshot

_CLASSES = {"okapi": "BM25Okapi", "l": "BM25L", "plus": "BM25Plus"}


class RankBm25:
    """A ranking of one snapshot by one class of rank-bm25, with our k1 and b and the class's own idf.

    Raises:
        ConfigurationError: When the library is not installed.
    """

    def __init__(self, ranking: str, fs: FsPort, snapshot: Snapshot, analyzer: Analyzer) -> None:
        try:
            import rank_bm25
        except ImportError as error:
            raise ConfigurationError(
                f"Ranking {ranking!r} needs the rank-bm25 library", mend="Install kpkit-files[rank-bm25]."
            ) from error
        self.revision = snapshot.revision.value
        self._places: list[tuple[str, int, int]] = []
        self._own: list[frozenset[str]] = []
        self._first: list[bool] = []
        bags: list[list[str]] = []
        for path in snapshot.paths:
            try:
                raw = fs.read(path)
            except KnowledgeError:
                continue  # gone or not to be read any more; the next refresh says so
            document = parse_document(path, raw)
            for number, terms in enumerate(passage_terms(document, raw, analyzer)):
                passage = document.passages[number]
                self._places.append((path, passage.start, passage.end))
                self._own.append(frozenset(terms.own))
                self._first.append(number == 0)
                bags.append([*terms.own.elements(), *terms.context.elements()])
        self._held = [frozenset(bag) for bag in bags]
        # The classes divide by the number of passages and by their average length.
        self._model = getattr(rank_bm25, _CLASSES[ranking])(bags, k1=K1, b=B) if any(bags) else None

    def search(self, terms: Sequence[str]) -> Iterator[Candidate]:
        """Passages that hold a term, best first; as `Index.search`, but for the scores."""
        wanted = frozenset(terms)
        if self._model is None or not wanted:
            return
        scores = self._model.get_scores(list(terms))
        found = [
            Candidate(float(scores[number]), *place)
            for number, place in enumerate(self._places)
            if wanted & (self._held[number] if self._first[number] else self._own[number])
        ]
        yield from sorted(found, key=lambda one: sort_key(*one[:3]))
