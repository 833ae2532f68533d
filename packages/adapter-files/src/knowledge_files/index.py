"""The index: segments with deletions marked, and BM25 over them, exact whatever was added or removed since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from knowledge_engine.analysis import QueryWord
from knowledge_engine.answers import Candidate
from knowledge_engine.ranking import bm25_term, length_norm, sort_key, term_weights
from knowledge_files.segments import Segment, merge

_MAX_SEGMENTS = 12
_MERGED_AT_ONCE = 8
# So many postings at most: a segment numbers its terms and passages with 24 bits.
_MAX_MERGED = (1 << 24) - 1
_FIRST_CANDIDATES = 256
_SORTED_HERE = 4_096

Live = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Index:
    """An immutable state of the index: whoever reads it is not disturbed by changes, which make a new one."""

    segments: tuple[Segment, ...] = ()
    #: Of each segment, which passages are still there.
    live: tuple[Live, ...] = ()
    passages: int = 0
    #: Sum of the passages' lengths.
    length: int = 0

    def changed(self, removed: Collection[str], added: Sequence[Segment]) -> Index:
        """The index without the documents `removed`, and with the segments `added`."""
        live = tuple(map(_without, self.segments, self.live, [frozenset(removed)] * len(self.segments)))
        live += tuple(np.ones(len(segment.lengths), np.bool_) for segment in added)
        return _compacted([*zip((*self.segments, *added), live, strict=True)])

    def search(self, words: Iterable[QueryWord]) -> Iterator[Candidate]:
        """Passages that hold a term of the words, best first, ties by id and start byte.

        A passage that holds none in its own bytes, only in title or headings, counts only as its document's first.
        """
        weights = term_weights(words, cache(self._containing), self.passages)
        if not weights:
            return
        average = self.length / self.passages
        found = [_score(*part, weights, average) for part in zip(self.segments, self.live, strict=True)]
        scores = np.concatenate([scores for _, scores in found])
        places = np.concatenate([passages for passages, _ in found])
        owners = np.repeat(np.arange(len(found)), [len(passages) for passages, _ in found])
        yield from self._best(scores, places, owners)

    def _containing(self, term: str) -> int:
        count = 0
        for segment, live in zip(self.segments, self.live, strict=True):
            postings = segment.postings(term)
            if postings is not None:
                count += int(np.count_nonzero(live[postings[0]]))
        return count

    def _best(
        self, scores: npt.NDArray[np.float64], places: npt.NDArray[np.intp], owners: npt.NDArray[np.intp]
    ) -> Iterator[Candidate]:
        """Sorts only as many as are asked for: the best few, then twice as many, and so on."""
        wanted, low = _FIRST_CANDIDATES, np.inf
        while True:
            if wanted < len(scores):
                floor = np.partition(scores, len(scores) - wanted)[len(scores) - wanted]
            else:
                floor = -np.inf
            chosen = np.flatnonzero((scores >= floor) & (scores < low))
            if len(chosen) > _SORTED_HERE:
                chosen = chosen[self._order(scores[chosen], owners[chosen], places[chosen])]
                yield from (self._candidate(scores[i], int(owners[i]), int(places[i])) for i in chosen)
            else:
                batch = [self._candidate(scores[i], int(owners[i]), int(places[i])) for i in chosen]
                yield from sorted(batch, key=lambda one: sort_key(*one[:3]))
            if wanted >= len(scores):
                return
            wanted, low = wanted * 4, floor

    def _order(
        self, scores: npt.NDArray[np.float64], owners: npt.NDArray[np.intp], places: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.intp]:
        """Where very many are equal: their order, with no object made for any of them."""
        ranks, starts = np.empty(len(scores), np.int64), np.empty(len(scores), np.int64)
        for owner, segment in enumerate(self.segments):
            mine = owners == owner
            ranks[mine] = self._id_ranks[owner][segment.documents[places[mine]]]
            starts[mine] = segment.starts[places[mine]]
        return np.lexsort((starts, ranks, -scores))

    @cached_property
    def _id_ranks(self) -> list[npt.NDArray[np.int64]]:
        """Of each segment's documents, the place of their ids among all ids."""
        ids = [source_id for segment in self.segments for source_id in segment.ids]
        places = {source_id: place for place, source_id in enumerate(sorted(set(ids)))}
        return [np.array([places[one] for one in segment.ids], np.int64) for segment in self.segments]

    def _candidate(self, score: np.float64, owner: int, place: int) -> Candidate:
        segment = self.segments[owner]
        source_id = segment.ids[segment.documents[place]]
        return Candidate(float(score), source_id, int(segment.starts[place]), int(segment.ends[place]))


def _score(
    segment: Segment, live: Live, weights: dict[str, float], average: float
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Passages of one segment that match, and their scores: terms added up in the query's order, as the formula is."""
    scores = np.zeros(len(segment.lengths))
    own = segment.first.copy()
    for term, weight in weights.items():
        postings = segment.postings(term)
        if postings is None:
            continue
        passages, frequencies = postings
        norm = length_norm(segment.lengths[passages].astype(np.float64), average)
        scores[passages] += bm25_term((frequencies >> 1).astype(np.float64), norm, weight)
        own[passages] |= (frequencies & 1).astype(np.bool_)
    found = np.flatnonzero((scores > 0) & own & live)
    return found, scores[found]


def _without(segment: Segment, live: Live, removed: frozenset[str]) -> Live:
    gone = [number for number, source_id in enumerate(segment.ids) if source_id in removed] if removed else []
    if not gone:
        return live
    return live & ~np.isin(segment.documents, gone)


def _compacted(parts: list[tuple[Segment, Live]]) -> Index:
    """Drops what is empty, and merges the smallest segments when there are many: each costs every query."""
    parts = sorted(((segment, live) for segment, live in parts if live.any()), key=lambda part: len(part[0].passages))
    small = parts[:_MERGED_AT_ONCE] if len(parts) > _MAX_SEGMENTS else []
    sparse = [part for part in parts if 2 * np.count_nonzero(part[1]) < len(part[1])]
    chosen, room = list[tuple[Segment, Live]](), _MAX_MERGED
    for part in parts:
        if any(part is one for one in [*small, *sparse]):
            room -= max(len(part[0].passages), len(part[0].lengths))
            chosen += [part] if room >= 0 else []
    if len(chosen) > 1 or any(part is one for part in chosen for one in sparse):
        merged = merge(chosen)
        parts = [part for part in parts if not any(part is one for one in chosen)]
        parts.append((merged, np.ones(len(merged.lengths), np.bool_)))
    return Index(
        segments=tuple(segment for segment, _ in parts),
        live=tuple(live for _, live in parts),
        passages=sum(int(np.count_nonzero(live)) for _, live in parts),
        length=sum(int(segment.lengths[live].sum(dtype=np.int64)) for segment, live in parts),
    )
