"""Exact scores of passages of one segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from knowledge_engine.ranking import bm25_term, length_norm
from knowledge_files.segments import Segment

Scores = npt.NDArray[np.float64]
Places = npt.NDArray[Any]
Live = npt.NDArray[np.bool_]

# Where so many times more postings than passages are there, looking up each passage costs less.
_SPARSE = 12


@dataclass(frozen=True, eq=False)
class Part:
    """A segment in an index: which of its passages are still there, how many that are, and the sum of their lengths."""

    segment: Segment
    live: Live
    count: int
    length: int

    @classmethod
    def of(cls, segment: Segment, live: Live | None = None) -> Part:
        """A segment of whose passages these are there; all by default."""
        if live is None:
            live = np.ones(len(segment.lengths), np.bool_)
            return cls(segment, live, len(live), int(segment.lengths.sum(dtype=np.int64)))
        return cls(segment, live, int(np.count_nonzero(live)), int(segment.lengths[live].sum(dtype=np.int64)))

    @property
    def whole(self) -> bool:
        """Whether nothing was taken out."""
        return self.count == len(self.live)

    def without(self, source_ids: frozenset[str]) -> Part:
        """The part without those documents."""
        numbers = [number for one in source_ids if (number := self.segment.document(one)) >= 0]
        if not numbers:
            return self
        gone = np.zeros(len(self.segment.ids), np.bool_)
        gone[numbers] = True
        passages = np.flatnonzero(gone[self.segment.documents] & self.live)
        live = self.live.copy()
        live[passages] = False
        lost = int(self.segment.lengths[passages].sum(dtype=np.int64))
        return Part(self.segment, live, self.count - len(passages), self.length - lost)

    def containing(self, term: str) -> int:
        """How many passages hold a term."""
        _, low, high = self.segment.span(term)
        if self.whole or low == high:
            return high - low
        return int(np.count_nonzero(self.live[self.segment.passages[low:high]]))


class Term(NamedTuple):
    """A term of the query in one segment."""

    weight: float
    number: int
    low: int
    high: int


def terms_of(segment: Segment, weights: Mapping[str, float]) -> list[Term]:
    """Those terms that the segment has, in the query's order."""
    found = [Term(weight, *segment.span(term)) for term, weight in weights.items()]
    return [term for term in found if term.low < term.high]


def contributions(segment: Segment, term: Term, places: Any, average: float) -> Scores:
    """What one term adds to the scores of passages, given by its postings: a slice, or places."""
    norms = length_norm(segment.lengths[segment.passages[places]].astype(np.float64), average)
    scores: Scores = bm25_term((segment.counts_at(places) >> 1).astype(np.float64), norms, term.weight)
    return scores


def contribution_to(segment: Segment, term: Term, passages: Places, average: float) -> Scores:
    """What one term adds to the scores of some passages, ascending; 0 where it does not stand."""
    scores = np.zeros(len(passages))
    mine, places = _common(segment.passages[term.low : term.high], passages, len(segment.lengths))
    scores[mine] = contributions(segment, term, places + term.low, average)
    return scores


def score(part: Part, terms: list[Term], passages: Places, average: float) -> tuple[Places, Scores]:
    """Of some passages, ascending, those that match, and their scores: terms are added up in the query's order.

    A passage that holds none in its own bytes, only in title or headings, counts only as its document's first.
    """
    segment = part.segment
    scores = np.zeros(len(passages))
    norms = length_norm(segment.lengths[passages].astype(np.float64), average)
    own = segment.first[passages]
    for term in terms:
        mine, places = _common(segment.passages[term.low : term.high], passages, len(segment.lengths))
        counts = segment.counts_at(places + term.low)
        scores[mine] += bm25_term((counts >> 1).astype(np.float64), norms[mine], term.weight)
        own[mine] |= (counts & 1).astype(np.bool_)
    own &= scores > 0
    if not part.whole:
        own &= part.live[passages]
    found = own.nonzero()[0]
    return passages[found], scores[found]


def score_all(part: Part, terms: list[Term], average: float) -> tuple[Places, Scores]:
    """As `score`, for all passages."""
    segment = part.segment
    scores = np.zeros(len(segment.lengths))
    own = segment.first.copy()
    for term in terms:
        span = slice(term.low, term.high)
        passages = segment.passages[span]
        scores[passages] += contributions(segment, term, span, average)
        own[passages] |= (segment.counts_at(span) & 1).astype(np.bool_)
    found = np.flatnonzero((scores > 0) & own & part.live)
    return found, scores[found]


def _common(postings: Places, passages: Places, room: int) -> tuple[Places, Places]:
    """Which of `passages` are among `postings`, and where; both ascend. `room`: above all passages."""
    if len(postings) > _SPARSE * len(passages):
        places = postings.searchsorted(passages)
        places[places == len(postings)] = 0
    else:
        # Not set where nothing is written: the comparison below tells what is meant.
        table = np.empty(room, np.uint32)
        table[postings] = np.arange(len(postings), dtype=np.uint32)
        places = np.minimum(table[passages], len(postings) - 1).astype(np.int64)
    mine = (postings[places] == passages).nonzero()[0]
    return mine, places[mine]
