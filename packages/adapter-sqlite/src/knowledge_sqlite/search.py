"""Ranking: exact BM25, with no more postings read than can matter.

Postings are read level by level (see `codec`), those that can count most first. What was not read yet can add so much
and no more: as soon as that is too little for a passage to be among the best, only passages that were seen are left,
and those that could still be among the best are scored exactly.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from knowledge_engine.analysis import QueryWord
from knowledge_engine.answers import Candidate, Loaded
from knowledge_engine.ranking import bm25_term, length_norm, term_weights
from knowledge_sqlite import codec
from knowledge_sqlite.codec import BLOCK, Blocks, Numbers, Row, distinct
from knowledge_sqlite.counts import Held, Known
from knowledge_sqlite.errors import decoding
from knowledge_sqlite.schema import state_row
from knowledge_sqlite.store import metadata_of

_GROWTH = 4
# Rounding may lift a score above what its terms can reach on paper.
_MARGIN = 1 + 1e-6
_AT_ONCE = 500
#: Passages that are scored for a first guess how good the best are.
_PROBED = 32
#: What a look-up in FTS5 and what scoring a block cost, in postings read.
_LOOK_UP, _SCORING = 400, 60
#: Postings that are read before anything is scored.
_LEAST_READ = 2_000
#: Of so few documents all passages are scored.
_FEW = 1_000
#: Of more documents with equal scores only the first ids are looked up, as far as they are asked for.
_MANY = 300
#: Terms that are told apart in what was seen of a passage: bits of a number.
_TOLD_APART = 63

_GAIN = attrgetter("gain")
_BLOCKS = """SELECT block, document, ordinal, layout, term_ids, term_counts FROM passages
    WHERE block IN (SELECT value FROM json_each(?))"""


@dataclass(eq=False)
class _Term:
    """One term of the query."""

    held: Held
    #: Its levels, the highest first: level, postings, and the most that one of them adds to a score.
    levels: list[tuple[int, int, float]]
    #: How many of the levels were read.
    read: int = 0
    #: The most that a posting adds which was not read.
    rest: float = 0.0
    #: How much less that is when the next level is read, for each posting that this costs.
    gain: float = 0.0

    def __post_init__(self) -> None:
        self._look()

    def go_on(self) -> None:
        """Says that a level was read."""
        self.read += 1
        self._look()

    def _look(self) -> None:
        left = self.levels[self.read : self.read + 2]
        self.rest = left[0][2] if left else 0.0
        self.gain = (self.rest - (left[1][2] if len(left) > 1 else 0.0)) / self.cost if left else 0.0

    @property
    def cost(self) -> float:
        """Of reading the next level."""
        return _LOOK_UP + self.levels[self.read][1]


class _Seen:
    """Of each passage: what the postings add that were read of it. Columns by passage number."""

    def __init__(self, connection: sqlite3.Connection, terms: Sequence[_Term], known: Known) -> None:
        self._connection, self._terms, self._known = connection, terms, known
        blocks = 1 + (connection.execute("SELECT max(block) FROM passages").fetchone()[0] or 0)
        self._most = np.zeros(blocks * BLOCK, np.float32)
        #: A bit for each term that it holds, once that was read; terms that weigh least share the last one. None, also
        #: when it is done.
        self._held: npt.NDArray[Any] = np.zeros(blocks * BLOCK, np.uint16 if len(terms) <= 16 else np.uint64)
        self._done = np.zeros(blocks, np.bool_)
        self.postings = 0
        ranked = sorted(terms, key=lambda term: -term.rest)
        self._bits = {id(term): min(place, _TOLD_APART) for place, term in enumerate(ranked)}
        self._ranked = ranked
        self._look()

    def _look(self) -> None:
        #: The most that a passage can score of which nothing was read.
        self.rest = sum([term.rest for term in self._terms])
        #: The term whose next level makes that small soonest.
        self.next = max(self._terms, key=_GAIN)

    def read(self) -> None:
        """Reads that level."""
        term = self.next
        level, count, most = term.levels[term.read]
        numbers = self._known.postings(self._connection, term.held, level)
        if len(numbers) and not 0 <= numbers[0] <= numbers[-1] < len(self._most):  # the file is damaged
            numbers = numbers[(numbers >= 0) & (numbers < len(self._most))]
        self._most[numbers] += np.float32(most)
        self._held[numbers] |= self._held.dtype.type(1 << self._bits[id(term)])
        self.postings += count
        term.go_on()
        self._look()

    def open(self, floor: float) -> tuple[Numbers, npt.NDArray[np.float32]]:
        """Passages that were seen, are not done and could score `floor`, with the most that they could."""
        numbers = (self._held != 0).nonzero()[0]  # of truth values it is found much faster than of numbers
        held, most = self._held[numbers], self._most[numbers]
        for term in self._ranked:
            if term.rest:
                bit = self._bits[id(term)]
                # Of terms that share a bit nobody knows which was seen.
                unseen = held & held.dtype.type(1 << bit) == 0 if bit < _TOLD_APART else np.True_
                most += np.float32(term.rest) * unseen
        kept = most >= floor
        return numbers[kept], most[kept]

    def take(self, numbers: Numbers) -> list[int]:
        """The blocks of passages, which are done from now on."""
        blocks = distinct(numbers // BLOCK)
        blocks = blocks[~self._done[blocks]]
        self._done[blocks] = True
        self._held.reshape(-1, BLOCK)[blocks] = 0
        found: list[int] = blocks.tolist()
        return found


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

    @decoding()
    def __init__(
        self,
        connection: sqlite3.Connection,
        words: Iterable[QueryWord],
        known: Known,
        *,
        allowed: Numbers | None = None,
        wanted: int = 11,
        per_source: int = 1,
    ) -> None:
        self._connection, self._known = connection, known
        self._allowed, self._wanted, self._per_source = allowed, wanted, per_source
        passages, length, reference = state_row(connection, "passages, length, reference")
        if passages < 0 or length < 0:
            raise ValueError("counts below 0")
        self._average = length / passages if passages else 0.0
        weights = term_weights(words, lambda term: known.held(connection, term).passages, passages) if passages else {}
        held = {term: known.held(connection, term) for term in weights}
        #: Numbers of terms and their weights, in the query's order.
        self._weights = {held[term].number: weight for term, weight in weights.items()}
        most = [codec.most(level, self._average, reference) * _MARGIN for level in range(codec.LEVELS)]
        self._terms = [
            _Term(held[term], [(level, count, weight * most[level]) for level, count in held[term].levels])
            for term, weight in weights.items()
        ]
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
        seen = _Seen(self._connection, self._terms, self._known)
        below, wanted = np.inf, self._wanted
        while below > 0:
            floor = self._find(seen, wanted)
            yield from self._candidates(floor, below)
            below, wanted = floor, wanted * _GROWTH

    def _find(self, seen: _Seen, wanted: int) -> float:
        """A score; all passages that have as much are scored now, and they are `wanted` hits. 0: so is every one."""
        probes, floor = max(_PROBED, wanted), self._floor(wanted)
        while True:
            start = seen.postings
            while seen.rest and seen.rest >= floor and seen.postings < max(_LEAST_READ, 2 * start):
                seen.read()
            numbers, most = seen.open(floor)
            if (seen.rest < floor or not seen.rest) and (floor or len(numbers) <= probes):
                cost = len(distinct(numbers // BLOCK)) * _SCORING
                if not seen.rest or cost <= 2 * seen.next.cost:
                    self._score(seen.take(numbers))
                    return floor
                start = seen.postings
                while seen.rest and seen.postings < start + cost / 4:
                    seen.read()
            if len(numbers) > probes:
                numbers = numbers[np.argpartition(most, len(most) - probes)[len(most) - probes :]]
            self._score(seen.take(numbers))
            floor = max(floor, self._floor(wanted))
            probes *= 2

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

    # Exact scores

    def _score(self, blocks: Sequence[int]) -> None:
        for at in range(0, len(blocks), _AT_ONCE):
            # One statement, however many they are: it is prepared once.
            rows = self._connection.execute(_BLOCKS, (json.dumps(blocks[at : at + _AT_ONCE]),)).fetchall()
            if rows:
                read = codec.read([row[0] for row in rows], [Row(*row[3:]) for row in rows])
                found = _score(read, np.array([row[1:3] for row in rows], np.int64), self._weights, self._average)
                if self._allowed is not None:
                    found = found.chosen(np.flatnonzero(np.isin(found.documents, self._allowed)))
                self._scored += found

    def _blocks_of(self, documents: Sequence[int]) -> list[int]:
        query = "SELECT block FROM passages WHERE document IN (SELECT value FROM json_each(?))"
        return [row[0] for row in self._connection.execute(query, (json.dumps(documents),))]

    def _candidates(self, floor: float, below: float) -> Iterator[Candidate]:
        """The scored ones of [floor, below), best first. Of very many that are equal, few may be asked for."""
        scores = self._scored.scores
        some = self._scored.chosen(np.flatnonzero((scores >= floor) & (scores < below)))
        some = some.chosen(np.argsort(-some.scores, kind="stable"))
        firsts = np.flatnonzero(np.diff(some.scores, prepend=-1.0)).tolist()
        for first, last in pairwise((*firsts, len(some.scores))):
            yield from self._equal(some.chosen(np.arange(first, last)))

    def _equal(self, equal: _Scored) -> Iterator[Candidate]:
        """Those of one score, by id and place."""
        by_document: dict[int, list[tuple[int, int, int]]] = {}
        columns = (equal.starts.tolist(), equal.stops.tolist(), equal.numbers.tolist())
        for document, *passage in zip(equal.documents.tolist(), *columns, strict=True):
            by_document.setdefault(document, []).append((passage[0], passage[1], passage[2]))
        for source_id, document in self._ids(by_document):
            for start, stop, number in sorted(by_document[document]):
                self._places[source_id, start] = (document, number)
                yield Candidate(float(equal.scores[0]), source_id, start, stop)

    @decoding()
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
        return Loaded(data, title, tuple(json.loads(headings)[number % BLOCK]), metadata_of(metadata))

    def _ids(self, documents: Collection[int]) -> Iterator[tuple[str, int]]:
        """Ids of documents, ascending, with their numbers."""
        if len(documents) > _MANY:
            # The first of them are found soon on the way through all ids, which stand in order.
            everything = self._connection.execute("SELECT id, n FROM documents ORDER BY id")
            left = len(documents)
            for row in everything:
                if row[1] in documents:
                    left -= 1
                    yield row
        else:
            query = "SELECT id, n FROM documents WHERE n IN (SELECT value FROM json_each(?))"
            found = self._connection.execute(query, (json.dumps(list(documents)),)).fetchall()
            left = len(documents) - len(found)
            yield from sorted(found)
        with decoding():
            if left:
                raise LookupError("passages of no document")


def _score(blocks: Blocks, owners: Numbers, weights: Mapping[int, float], average: float) -> _Scored:
    """Terms are added up in the query's order, as the formula is: scores are the same in every backend.

    Args:
        owners: Document and ordinal of each block.
    """
    postings = blocks.postings
    ends = np.cumsum(postings.sizes)
    norms = length_norm(postings.lengths.astype(np.float64), average)
    scores = np.zeros(len(norms))
    own = (blocks.numbers % BLOCK == 0) & (owners[blocks.owners, 1] == 0)
    for number, weight in weights.items():
        places = np.flatnonzero(postings.ids == number)
        mine, counts = np.searchsorted(ends, places, side="right"), postings.counts[places]
        scores[mine] += bm25_term((counts >> 1).astype(np.float64), norms[mine], weight)
        own[mine] |= (counts & 1).astype(np.bool_)
    kept = np.flatnonzero((scores > 0) & own)
    documents = owners[blocks.owners, 0]
    return _Scored(scores, blocks.numbers, documents, blocks.starts, blocks.stops).chosen(kept)
