"""The index: segments with deletions marked, and BM25 over them, exact whatever was added or removed since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from knowledge_engine.analysis import QueryWord
from knowledge_engine.answers import Candidate
from knowledge_engine.ranking import sort_key, term_weights
from knowledge_files.building import merge
from knowledge_files.pruning import Best, look_at_all
from knowledge_files.scoring import Part, Places, Scores, score_all, terms_of
from knowledge_files.segments import Segment

_MAX_SEGMENTS = 12
_MERGED_AT_ONCE = 8
# So many postings, or passages, at most in what is merged.
_MAX_MERGED = (1 << 31) - 1
_FIRST_CANDIDATES = 256
_SORTED_HERE = 4_096
#: For more hits than these all passages that match are scored.
_MOST_WANTED = 256
_MOST_REMEMBERED = 20_000


@dataclass(frozen=True, eq=False)
class Index:
    """An immutable state of the index: whoever reads it is not disturbed by changes, which make a new one."""

    parts: tuple[Part, ...] = ()
    _known: dict[str, int] = field(default_factory=dict, repr=False)

    @cached_property
    def passages(self) -> int:
        """How many there are."""
        return sum(part.count for part in self.parts)

    @cached_property
    def length(self) -> int:
        """Sum of the passages' lengths."""
        return sum(part.length for part in self.parts)

    def changed(self, removed: Collection[str], added: Sequence[Segment]) -> Index:
        """The index without the documents `removed`, and with the segments `added`."""
        gone = frozenset(removed)
        parts = [part.without(gone) if gone else part for part in self.parts]
        return _compacted([*parts, *map(Part.of, added)])

    def search(self, words: Iterable[QueryWord], *, wanted: int = 0, per_source: int = 1) -> Iterator[Candidate]:
        """Passages that hold a term of the words, best first, ties by id and start byte.

        A passage that holds none in its own bytes, only in title or headings, counts only as its document's first.

        Args:
            wanted: How many hits will be read, if that is known: then the others are hardly looked at until they are
                asked for. A document has at most `per_source` of them.
        """
        weights = term_weights(words, self._containing, self.passages)
        if not weights:
            return
        average = self.length / self.passages
        terms = [terms_of(part.segment, weights) for part in self.parts]
        below = np.inf
        if 0 < wanted <= _MOST_WANTED:
            best = Best(average, wanted, per_source)
            look_at_all(self.parts, terms, best)
            yield from self._ordered(*best.result())
            below = best.floor
        if below > 0:
            found = [score_all(part, mine, average) for part, mine in zip(self.parts, terms, strict=True)]
            scores = np.concatenate([scores for _, scores in found])
            places = np.concatenate([passages for passages, _ in found])
            owners = np.repeat(np.arange(len(found)), [len(passages) for passages, _ in found])
            yield from self._best(scores, places, owners, below)

    def _containing(self, term: str) -> int:
        count = self._known.get(term)
        if count is None:
            count = sum(part.containing(term) for part in self.parts)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[term] = count
        return count

    def _best(self, scores: Scores, places: Places, owners: Places, below: float) -> Iterator[Candidate]:
        """Sorts only as many as are asked for: the best few, then more, and so on."""
        wanted, low = _FIRST_CANDIDATES, below
        if below < np.inf:
            wanted += int(np.count_nonzero(scores >= below))
        while True:
            if wanted < len(scores):
                floor = np.partition(scores, len(scores) - wanted)[len(scores) - wanted]
            else:
                floor = -np.inf
            chosen = np.flatnonzero((scores >= floor) & (scores < low))
            yield from self._ordered(scores[chosen], places[chosen], owners[chosen])
            if wanted >= len(scores):
                return
            wanted, low = wanted * 4, floor

    def _ordered(self, scores: Scores, places: Places, owners: Places) -> Iterator[Candidate]:
        if len(scores) > _SORTED_HERE:
            order = self._order(scores, owners, places)
            yield from (self._candidate(float(scores[i]), int(owners[i]), int(places[i])) for i in order)
        else:
            columns = (scores.tolist(), owners.tolist(), places.tolist())
            yield from sorted(map(self._candidate, *columns), key=lambda one: sort_key(*one[:3]))

    def _order(self, scores: Scores, owners: Places, places: Places) -> npt.NDArray[np.intp]:
        """Where very many are equal: their order, with no object made for any of them."""
        ranks, starts = np.empty(len(scores), np.int64), np.empty(len(scores), np.int64)
        for owner, part in enumerate(self.parts):
            mine = owners == owner
            ranks[mine] = self._id_ranks[owner][part.segment.documents[places[mine]]]
            starts[mine] = part.segment.starts[places[mine]]
        return np.lexsort((starts, ranks, -scores))

    @cached_property
    def _id_ranks(self) -> list[npt.NDArray[np.int64]]:
        """Of each segment's documents, the place of their ids among all ids."""
        ids = [source_id for part in self.parts for source_id in part.segment.ids]
        places = {source_id: place for place, source_id in enumerate(sorted(set(ids)))}
        return [np.array([places[one] for one in part.segment.ids], np.int64) for part in self.parts]

    def _candidate(self, score: float, owner: int, place: int) -> Candidate:
        segment = self.parts[owner].segment
        source_id = segment.ids[segment.documents[place]]
        return Candidate(score, source_id, int(segment.starts[place]), int(segment.ends[place]))


def _compacted(parts: list[Part]) -> Index:
    """Drops what is empty, and merges the smallest segments when there are many: each costs every query."""
    parts = sorted((part for part in parts if part.count), key=lambda part: len(part.segment.passages))
    small = parts[:_MERGED_AT_ONCE] if len(parts) > _MAX_SEGMENTS else []
    sparse = [part for part in parts if 2 * part.count < len(part.live)]
    chosen, room = list[Part](), _MAX_MERGED
    for part in parts:
        if any(part is one for one in [*small, *sparse]):
            room -= max(len(part.segment.passages), len(part.live))
            chosen += [part] if room >= 0 else []
    if len(chosen) > 1 or any(part is one for part in chosen for one in sparse):
        merged = merge([(part.segment, part.live) for part in chosen])
        parts = [part for part in parts if not any(part is one for one in chosen)]
        parts.append(Part.of(merged))
    return Index(tuple(parts))
