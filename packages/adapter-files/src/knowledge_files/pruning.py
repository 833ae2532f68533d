"""The best passages of an index, found without scoring all that match; their scores are exact.

The score of the last of the best that are known is a floor. What cannot reach it by the bounds that segments have is
not looked at: postings of common terms in whole blocks, and terms that all together add too little. What may reach it
is scored exactly, which lifts the floor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from knowledge_files.scoring import Part, Places, Scores, Term, contribution_to, contributions, score
from knowledge_files.segments import BLOCK

# Rounding may lift a score above what its terms can reach on paper.
_MARGIN = 1 + 1e-6
#: So few postings are all scored.
_FEW = 1_500
#: Blocks, and passages, that are scored for a first guess how good the best are.
_PROBED_BLOCKS, _PROBED = 12, 256
#: Of more passages than these, terms are added one by one, as each leaves fewer.
_MANY = 1_000


class Best:
    """The best passages of several segments.

    Args:
        wanted: How many hits the caller will read.
        per_source: How many of a document count as hits.
    """

    def __init__(self, average: float, wanted: int, per_source: int) -> None:
        self._average, self._wanted, self._per_source = average, wanted, per_source
        #: All passages that score that much are found, and they are `wanted` hits; 0: all that match are.
        self.floor = 0.0
        self._found: list[tuple[int, Part, Places, Scores]] = []
        self._known = 0
        self._whole = True

    def look(self, owner: int, part: Part, terms: list[Term]) -> None:
        """Finds what a segment has."""
        if not terms:
            return
        segment = part.segment
        if sum(term.high - term.low for term in terms) <= _FEW:
            passages = [segment.passages[term.low : term.high] for term in terms]
            self._score(owner, part, terms, np.unique(np.concatenate(passages)) if len(terms) > 1 else passages[0])
            return
        _Scan(self, owner, part, terms, self._average).run()

    def result(self) -> tuple[Scores, Places, Places]:
        """Scores, passages and owners of all that score `floor` or more."""
        if not self._found:
            nothing = np.zeros(0, np.int64)
            return np.zeros(0), nothing, nothing
        scores = np.concatenate([one[3] for one in self._found])
        places = np.concatenate([one[2] for one in self._found]).astype(np.int64)
        owners = np.repeat([one[0] for one in self._found], [len(one[2]) for one in self._found])
        if self._whole:
            self.floor = 0.0
            return scores, places, owners
        kept = (scores >= self.floor).nonzero()[0]
        return scores[kept], places[kept], owners[kept]

    def leave_out(self) -> None:
        """Something that matches is not looked at."""
        self._whole = False

    def _score(self, owner: int, part: Part, terms: list[Term], passages: Places) -> None:
        passages, scores = score(part, terms, passages, self._average)
        if len(scores):
            self._found.append((owner, part, passages, scores))
            self._known += len(scores)
            self._lift()

    score = _score

    def _lift(self) -> None:
        if self._known < self._wanted:
            return
        scores = np.concatenate([one[3] for one in self._found]) if len(self._found) > 1 else self._found[0][3]
        most = len(scores)
        tried = min(most, 2 * self._wanted)
        while True:
            chosen = scores.argpartition(most - tried)[most - tried :] if tried < most else np.arange(most)
            chosen = chosen[(-scores[chosen]).argsort()]
            floor = self._last(chosen, scores)
            if floor or tried == most:
                self.floor = max(self.floor, floor)
                return
            tried = min(most, tried * 8)

    def _last(self, chosen: Places, scores: Scores) -> float:
        """The score of the last hit among these, best first; 0 if they are too few."""
        taken, hits = Counter[tuple[int, int]](), 0
        edges = np.cumsum([len(one[3]) for one in self._found])
        parts = np.searchsorted(edges, chosen, side="right").tolist()
        for place, number in zip(chosen.tolist(), parts, strict=True):
            owner, part, passages, mine = self._found[number]
            document = int(part.segment.documents[passages[place - int(edges[number]) + len(mine)]])
            taken[owner, document] += 1
            hits += taken[owner, document] <= self._per_source
            if hits == self._wanted:
                return float(scores[place])
        return 0.0


class _Bounded(NamedTuple):
    """A term with the most that each of its blocks can add; for a rare one, what each of its postings adds."""

    term: Term
    most: Scores
    bound: float

    @property
    def is_rare(self) -> bool:
        """Whether it has no blocks."""
        return len(self.most) == self.term.high - self.term.low


class _Scan:
    """The search in one segment."""

    def __init__(self, best: Best, owner: int, part: Part, terms: list[Term], average: float) -> None:
        self._best, self._owner, self._part, self._terms, self._average = best, owner, part, terms, average
        self._done = np.zeros(len(part.live), np.bool_)

    def run(self) -> None:
        """Looks at terms from that on which can add most; then only at what the others can add to these."""
        bounded = sorted(map(self._bounded, self._terms), key=lambda one: -one.bound)
        rest, skipped = sum(one.bound for one in bounded), 0.0
        for number, one in enumerate(bounded):
            # What was left out of terms before may come with what is left now.
            if (rest + skipped) * _MARGIN < self._best.floor:
                self._best.leave_out()
                return
            rest -= one.bound
            later = bounded[number + 1 :]
            if one.is_rare:
                passages = self._part.segment.passages[one.term.low : one.term.high]
                self._take(passages, one.most, rest + skipped, later)
            else:
                skipped += self._blocks(one, rest + skipped, later)

    def _bounded(self, term: Term) -> _Bounded:
        segment = self._part.segment
        most = segment.block_bounds(term.number, self._average)
        if most is None:
            most = contributions(segment, term, slice(term.low, term.high), self._average)
        else:
            most *= term.weight
        return _Bounded(term, most, float(most.max()))

    def _blocks(self, one: _Bounded, others: float, later: Sequence[_Bounded]) -> float:
        """Looks at the blocks of a common term that matter; the most that a posting of the rest can add."""
        term, most = one.term, one.most
        if not self._best.floor and len(most) > 2 * _PROBED_BLOCKS:
            top = most.argpartition(len(most) - _PROBED_BLOCKS)[len(most) - _PROBED_BLOCKS :]
            top.sort()
            places = _postings(term, top)
            passages, scores = self._part.segment.passages[places], self._contributions(term, places)
            self._probe(passages, scores)
        kept = ((most + others) * _MARGIN >= self._best.floor).nonzero()[0]
        if len(kept) == len(most):
            span = slice(term.low, term.high)
            self._take(self._part.segment.passages[span], self._contributions(term, span), others, later)
            return 0.0
        self._best.leave_out()
        if len(kept):
            places = _postings(term, kept)
            self._take(self._part.segment.passages[places], self._contributions(term, places), others, later)
        left = most.copy()
        left[kept] = 0.0
        return float(left.max())

    def _contributions(self, term: Term, places: Places | slice) -> Scores:
        return contributions(self._part.segment, term, places, self._average)

    def _probe(self, passages: Places, scores: Scores) -> None:
        top = scores.argpartition(len(scores) - _PROBED)[len(scores) - _PROBED :]
        found = passages[top]
        found.sort()
        self._score(found)

    def _take(self, passages: Places, scores: Scores, others: float, later: Sequence[_Bounded]) -> None:
        """Scores passages that may be among the best: of very many, those that still may be with the terms to come."""
        if not self._best.floor and len(passages) > 2 * _PROBED:
            self._probe(passages, scores)
        passages, scores = self._hopeful(passages, scores, others)
        for one in later:
            if len(passages) <= _MANY:
                break
            scores = scores + contribution_to(self._part.segment, one.term, passages, self._average)
            others -= one.bound
            passages, scores = self._hopeful(passages, scores, others)
        self._score(passages)

    def _hopeful(self, passages: Places, scores: Scores, others: float) -> tuple[Places, Scores]:
        """Those that may be among the best if they get as much as the others can add, and are not scored yet."""
        kept = ((scores + others) * _MARGIN >= self._best.floor).nonzero()[0]
        if len(kept) < len(passages):
            self._best.leave_out()
            passages, scores = passages[kept], scores[kept]
        return passages, scores

    def _score(self, passages: Places) -> None:
        passages = passages[~self._done[passages]]
        self._done[passages] = True
        if len(passages):
            self._best.score(self._owner, self._part, self._terms, passages)


def _postings(term: Term, blocks: Places) -> Places:
    """Where the postings of some blocks, ascending, stand."""
    places = (term.low + blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    return places[: places.searchsorted(term.high)]


def look_at_all(parts: Sequence[Part], terms: Sequence[list[Term]], best: Best) -> None:
    """Looks at all segments, the largest first: it is there that the floor is lifted most."""
    order = sorted(range(len(parts)), key=lambda owner: -parts[owner].count)
    for owner in order:
        best.look(owner, parts[owner], terms[owner])
