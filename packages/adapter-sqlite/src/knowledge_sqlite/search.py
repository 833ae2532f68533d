"""Ranking: exact BM25, with no more postings read than can matter.

Postings are read level by level (see `codec`), those that can count most first. What was not read yet can add so much
and no more: as soon as that is too little for a passage to be among the best, only passages that were seen are left,
and those that could still be among the best are scored exactly.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

from knowledge_engine.analysis import QueryWord
from knowledge_engine.answers import Candidate, Loaded
from knowledge_engine.ranking import bm25_term, length_norm, sort_key, term_weights
from knowledge_sqlite import codec
from knowledge_sqlite.codec import BLOCK, Blocks, Numbers, Row
from knowledge_sqlite.counts import Held, held

_GROWTH = 4
# Rounding may lift a score above what its terms can reach on paper.
_MARGIN = 1 + 1e-9
_AT_ONCE = 500
#: Blocks that are scored for a first guess how good the best are.
_PROBED = 32
#: What a look-up in FTS5 and what scoring a block cost, in postings read.
_LOOK_UP, _SCORING = 250, 40
#: Postings that are read before anything is scored anew.
_LEAST_READ = 1_000
#: Of so few documents all passages are scored.
_FEW = 1_000


@dataclass
class _Term:
    """One term of the query."""

    number: int
    #: Its levels, the highest first: level, postings, and the most that one of them adds to a score.
    levels: list[tuple[int, int, float]]
    read: int = 0

    @property
    def rest(self) -> float:
        """The most that a posting adds which was not read."""
        return self.levels[self.read][2] if self.read < len(self.levels) else 0.0

    @property
    def gain(self) -> float:
        """How much less the rest can add when the next level is read, for each posting that this costs."""
        if self.read == len(self.levels):
            return 0.0
        after = self.levels[self.read + 1][2] if self.read + 1 < len(self.levels) else 0.0
        return (self.rest - after) / self.cost

    @property
    def cost(self) -> float:
        """Of reading the next level."""
        return _LOOK_UP + self.levels[self.read][1]


@dataclass
class _Scored:
    """Passages with their scores; columns of one length."""

    scores: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    #: Of the passages, and of their documents.
    numbers: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    documents: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    starts: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    stops: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))

    def chosen(self, places: Numbers) -> _Scored:
        """Some of them."""
        return _Scored(
            self.scores[places], self.numbers[places], self.documents[places], self.starts[places], self.stops[places]
        )

    def __add__(self, other: _Scored) -> _Scored:
        return _Scored(
            np.concatenate((self.scores, other.scores)),
            np.concatenate((self.numbers, other.numbers)),
            np.concatenate((self.documents, other.documents)),
            np.concatenate((self.starts, other.starts)),
            np.concatenate((self.stops, other.stops)),
        )


class Search:
    """One query in one state of the file.

    Args:
        connection: In a transaction, and used by nobody else until the ranking was read.
        known: What `Counts` knows of this state.
        allowed: Numbers of the documents that may be found, ascending; None for all.
        wanted: How many hits the caller will read, about.
        per_source: How many of a document count as hits.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        words: Iterable[QueryWord],
        known: dict[str, Held],
        *,
        allowed: Numbers | None = None,
        wanted: int = 11,
        per_source: int = 1,
    ) -> None:
        self._connection, self._allowed, self._wanted, self._per_source = connection, allowed, wanted, per_source
        passages, length, reference = connection.execute("SELECT passages, length, reference FROM state").fetchone()
        self._average = length / passages if passages else 0.0
        weights = term_weights(words, lambda term: held(connection, term, known).passages, passages) if passages else {}
        #: Numbers of terms and their weights, in the query's order.
        self._weights = {known[term].number: weight for term, weight in weights.items()}
        most = [codec.most(level, self._average, reference) * _MARGIN for level in range(codec.LEVELS)]
        self._terms = [
            _Term(known[term].number, [(level, count, weight * most[level]) for level, count in known[term].levels])
            for term, weight in weights.items()
        ]
        self._read: list[tuple[_Term, float, Numbers]] = []
        self._done: set[int] = set()
        self._scored = _Scored()
        #: Of candidates: the numbers of their documents and of themselves.
        self._places: dict[tuple[str, int], tuple[int, int]] = {}

    def ranked(self) -> Iterator[Candidate]:
        """Passages that hold a term, best first, ties by id and start byte; read only as far as needed.

        A passage that holds none in its own bytes, only in title or headings, counts only as its document's first.
        """
        if not self._terms:
            return
        if self._allowed is not None and len(self._allowed) <= _FEW:
            self._score(self._blocks_of(self._allowed.tolist()))
            yield from self._candidates(0.0, np.inf)
            return
        below, wanted = np.inf, self._wanted
        while below > 0:
            floor = self._find(wanted)
            yield from self._candidates(floor, below)
            below, wanted = floor, wanted * _GROWTH

    def _find(self, wanted: int) -> float:
        """A score; all passages that have as much are scored now, and they are `wanted` hits. 0: so is every one."""
        while True:
            floor = self._floor(wanted)
            unread = sum(term.rest for term in self._terms)
            numbers, most = self._seen()
            if unread < floor or not unread:
                left = np.unique(numbers[most >= floor] // BLOCK)
                if not unread or len(left) * _SCORING <= max(self._terms, key=lambda term: term.gain).cost:
                    self._score(left.tolist())
                    return floor
            best = numbers[np.argsort(-most, kind="stable")[: 4 * max(_PROBED, wanted)]] // BLOCK
            probed = list(dict.fromkeys(best.tolist()))[: max(_PROBED, wanted)]
            if probed:
                self._score(probed)
                floor = self._floor(wanted)
            self._read_more(floor)

    def _floor(self, wanted: int) -> float:
        """The score of the last of the `wanted` best that are known; 0 if they are fewer."""
        order = np.argsort(-self._scored.scores, kind="stable")
        taken, hits = Counter[int](), 0
        for document, score in zip(self._scored.documents[order].tolist(), self._scored.scores[order], strict=True):
            taken[document] += 1
            if taken[document] <= self._per_source:
                hits += 1
                if hits == wanted:
                    return float(score)
        return 0.0

    def _read_more(self, floor: float) -> None:
        """Reads postings: those by which the rest becomes small soonest."""
        read = 0
        budget = max(_LEAST_READ, sum(len(numbers) for _, _, numbers in self._read))
        while read < budget and (rest := sum(term.rest for term in self._terms)) and rest >= floor:
            term = max(self._terms, key=lambda one: one.gain)
            level, count, most = term.levels[term.read]
            rows = self._connection.execute(
                "SELECT rowid FROM found WHERE found MATCH ?", (f'"{codec.word(term.number, level)}"',)
            )
            numbers = np.fromiter(chain.from_iterable(rows), np.int64)
            term.read += 1
            read += count
            self._read.append((term, most, numbers))

    def _seen(self) -> tuple[Numbers, npt.NDArray[np.float64]]:
        """Passages of which postings were read and that are not scored, with the most that they could score."""
        if not self._read:
            return np.zeros(0, np.int64), np.zeros(0)
        numbers = np.concatenate([each for _, _, each in self._read])
        more = np.repeat([most - term.rest for term, most, _ in self._read], [len(each) for _, _, each in self._read])
        places: Numbers
        numbers, places = np.unique(numbers, return_inverse=True)
        most = np.bincount(places, more).astype(np.float64) + sum(term.rest for term in self._terms)
        if self._done:
            left = ~np.isin(numbers // BLOCK, np.fromiter(self._done, np.int64))
            numbers, most = numbers[left], most[left]
        return numbers, most

    # Exact scores

    def _score(self, blocks: Sequence[int]) -> None:
        self._done.update(blocks)
        for at in range(0, len(blocks), _AT_ONCE):
            some = blocks[at : at + _AT_ONCE]
            marks = ",".join("?" * len(some))
            query = "SELECT block, document, ordinal, layout, term_ids, term_counts FROM passages WHERE block IN"
            rows = self._connection.execute(f"{query} ({marks})", some).fetchall()
            if rows:
                read = codec.read([row[0] for row in rows], [Row(*row[3:]) for row in rows])
                found = _score(read, np.array([row[1:3] for row in rows], np.int64), self._weights, self._average)
                if self._allowed is not None:
                    found = found.chosen(np.flatnonzero(np.isin(found.documents, self._allowed)))
                self._scored += found

    def _blocks_of(self, documents: Sequence[int]) -> list[int]:
        marks = ",".join("?" * len(documents))
        rows = self._connection.execute(f"SELECT block FROM passages WHERE document IN ({marks})", documents)  # noqa: S608
        return [row[0] for row in rows]

    def _candidates(self, floor: float, below: float) -> list[Candidate]:
        """The scored ones of [floor, below)."""
        scores = self._scored.scores
        some = self._scored.chosen(np.flatnonzero((scores >= floor) & (scores < below)))
        documents = some.documents.tolist()
        ids = self._ids(sorted(set(documents)))
        found = [
            Candidate(score, ids[document], start, stop)
            for score, document, start, stop in zip(
                some.scores.tolist(), documents, some.starts.tolist(), some.stops.tolist(), strict=True
            )
        ]
        self._places |= {
            (one.source_id, one.start): (document, number)
            for one, document, number in zip(found, documents, some.numbers.tolist(), strict=True)
        }
        found.sort(key=lambda one: sort_key(*one[:3]))
        return found

    def load(self, candidate: Candidate) -> Loaded:
        """What one of `ranked` is."""
        document, number = self._places[candidate.source_id, candidate.start]
        title, metadata = self._connection.execute(
            "SELECT title, metadata FROM documents WHERE n = ?", (document,)
        ).fetchone()
        (headings,) = self._connection.execute(
            "SELECT headings FROM passages WHERE block = ?", (number // BLOCK,)
        ).fetchone()
        (data,) = self._connection.execute(
            "SELECT substr(content, ?, ?) FROM contents WHERE n = ?",
            (candidate.start + 1, candidate.end - candidate.start, document),
        ).fetchone()
        return Loaded(data, title, tuple(json.loads(headings)[number % BLOCK]), json.loads(metadata))

    def _ids(self, documents: Sequence[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        for at in range(0, len(documents), _AT_ONCE):
            some = documents[at : at + _AT_ONCE]
            marks = ",".join("?" * len(some))
            found |= dict(self._connection.execute(f"SELECT n, id FROM documents WHERE n IN ({marks})", some))  # noqa: S608
        return found


def _score(blocks: Blocks, owners: Numbers, weights: Mapping[int, float], average: float) -> _Scored:
    """Terms are added up in the query's order, as the formula is: scores are the same in every backend.

    Args:
        owners: Document and ordinal of each block.
    """
    postings = blocks.postings
    passages = np.repeat(np.arange(len(postings.sizes)), postings.sizes)
    norms = length_norm(postings.lengths.astype(np.float64), average)
    scores = np.zeros(len(norms))
    own = (blocks.numbers % BLOCK == 0) & (owners[blocks.owners, 1] == 0)
    for number, weight in weights.items():
        places = np.flatnonzero(postings.ids == number)
        mine, counts = passages[places], postings.counts[places]
        scores[mine] += bm25_term((counts >> 1).astype(np.float64), norms[mine], weight)
        own[mine] |= (counts & 1).astype(np.bool_)
    kept = np.flatnonzero((scores > 0) & own)
    documents = owners[blocks.owners, 0]
    return _Scored(scores, blocks.numbers, documents, blocks.starts, blocks.stops).chosen(kept)
