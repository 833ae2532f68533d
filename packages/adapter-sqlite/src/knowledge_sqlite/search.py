"""Ranking: exact BM25 over the passages that can be among the best, which FTS5 finds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from knowledge_engine.analysis import QueryWord
from knowledge_engine.answers import Candidate
from knowledge_engine.ranking import K1, bm25_term, length_norm, sort_key, term_weights
from knowledge_sqlite.codec import word

_FIRST_WANTED = 64
_GROWTH = 8
# Rounding may lift a score above what its terms can reach on paper.
_MARGIN = 1 + 1e-9
#: With more terms than this there are too many sets of them to name.
_MAX_NAMED = 8
_ROWS_AT_ONCE = 4_096
#: Passages that are looked at to learn how good the best are.
_PROBED = 512

_COLUMNS = "p.n, p.document, p.start, p.stop, p.length, p.is_first, p.term_ids, p.term_counts"


@dataclass(frozen=True)
class _Scored:
    """Passages with their scores; arrays of one length."""

    scores: npt.NDArray[np.float64]
    documents: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """All of the arrays."""
        return self.scores, self.documents, self.starts, self.stops, self.numbers


class Search:
    """One query in one state of the file.

    Args:
        connection: In a transaction, and used by nobody else until the ranking was read.
    """

    def __init__(self, connection: sqlite3.Connection, words: Iterable[QueryWord]) -> None:
        self._connection = connection
        passages, length = connection.execute("SELECT passages, length FROM state").fetchone()
        self._average = length / passages if passages else 0.0
        self._numbers: dict[str, int] = {}
        self._containing = cache(self._count)
        self._weights = term_weights(words, self._containing, passages) if passages else {}

    def ranked(self) -> Iterator[Candidate]:
        """Passages that hold a term, best first, ties by id and start byte; read only as far as needed.

        A passage that holds none in its own bytes, only in title or headings, counts only as its document's first.
        """
        given, wanted = 0, _FIRST_WANTED
        while self._weights:
            found, whole = self._best(wanted)
            candidates = self._candidates(found)
            yield from candidates[given:]
            if whole:
                return
            given, wanted = len(candidates), wanted * _GROWTH

    def _best(self, wanted: int) -> tuple[_Scored, bool]:
        """The `wanted` best passages with those that tie with the last; and whether no other one matches."""
        floor = self._floor(wanted)
        found = self._scored(self._could_reach(floor) if floor > 0 else self._any(self._weights))
        if len(found.scores) <= wanted:
            return found, floor <= 0
        least = np.partition(found.scores, len(found.scores) - wanted)[len(found.scores) - wanted]
        chosen = np.flatnonzero(found.scores >= least)
        return _Scored(*(each[chosen] for each in found.columns())), floor <= 0 and len(chosen) == len(found.scores)

    def _floor(self, wanted: int) -> float:
        """A score that the `wanted` best passages have at least; 0 where nobody knows."""
        terms = sorted(self._weights, key=lambda term: -self._weights[term])
        seen: dict[int, float] = {}
        for size in range(len(terms), 0, -1):
            # All of them, then the best of them: passages with many rare terms score high.
            expression = " AND ".join(self._quoted(term) for term in terms[:size])
            found = self._scored(expression, limit=max(_PROBED, 2 * wanted))
            seen |= dict(zip(found.numbers.tolist(), found.scores.tolist(), strict=True))
            if len(seen) >= wanted:
                return float(np.partition(list(seen.values()), len(seen) - wanted)[len(seen) - wanted])
        return 0.0

    def _could_reach(self, floor: float) -> str:
        """An expression for all passages whose terms could add up to `floor`."""
        most = {term: weight * (K1 + 1) * _MARGIN for term, weight in self._weights.items()}
        if len(most) <= _MAX_NAMED:
            chosen: list[frozenset[str]] = []
            for size in range(1, len(most) + 1):
                for terms in map(frozenset, combinations(most, size)):
                    if sum(most[term] for term in terms) >= floor and not any(other <= terms for other in chosen):
                        chosen.append(terms)
            return " OR ".join(f"({' AND '.join(map(self._quoted, sorted(terms)))})" for terms in chosen)
        # Terms that together stay below it need not be looked for: whoever reaches it holds one of the others.
        rest, needed = 0.0, []
        for term in sorted(most, key=lambda one: most[one]):
            rest += most[term]
            if rest >= floor:
                needed.append(term)
        return self._any(needed)

    def _any(self, terms: Iterable[str]) -> str:
        return " OR ".join(map(self._quoted, terms))

    def _scored(self, expression: str, limit: int = -1) -> _Scored:
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM found JOIN passages p ON p.n = found.rowid WHERE found MATCH ? LIMIT ?",  # noqa: S608
            (expression, limit),
        )
        parts = []
        while batch := rows.fetchmany(_ROWS_AT_ONCE):
            parts.append(_score(batch, self._weights, self._numbers, self._average))
        if not parts:
            parts = [_score([], self._weights, self._numbers, self._average)]
        return _Scored(*map(np.concatenate, zip(*(part.columns() for part in parts), strict=True)))

    def _candidates(self, found: _Scored) -> list[Candidate]:
        ids = self._ids(np.unique(found.documents).tolist())
        candidates = [
            Candidate(score, ids[document], start, stop)
            for score, document, start, stop in zip(
                found.scores.tolist(),
                found.documents.tolist(),
                found.starts.tolist(),
                found.stops.tolist(),
                strict=True,
            )
        ]
        candidates.sort(key=lambda one: sort_key(*one[:3]))
        return candidates

    def _ids(self, documents: Sequence[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        for at in range(0, len(documents), 500):
            some = documents[at : at + 500]
            marks = ",".join("?" * len(some))
            found |= dict(self._connection.execute(f"SELECT n, id FROM documents WHERE n IN ({marks})", some))  # noqa: S608
        return found

    def _count(self, term: str) -> int:
        """How many passages hold the term."""
        row = self._connection.execute("SELECT n FROM terms WHERE term = ?", (term,)).fetchone()
        if row is None:
            return 0
        self._numbers[term] = row[0]
        count = self._connection.execute("SELECT doc FROM found_words WHERE term = ?", (word(row[0]),)).fetchone()
        return 0 if count is None else int(count[0])

    def _quoted(self, term: str) -> str:
        return f'"{word(self._numbers[term])}"'


def _score(
    rows: Sequence[tuple[int, int, int, int, int, int, bytes, bytes]],
    weights: Mapping[str, float],
    numbers: Mapping[str, int],
    average: float,
) -> _Scored:
    """Terms are added up in the query's order, as the formula is: scores are the same in every backend."""
    ids = np.frombuffer(b"".join(row[6] for row in rows), "<u4")
    counts = np.frombuffer(b"".join(row[7] for row in rows), "<u2")
    owners = np.repeat(np.arange(len(rows)), [len(row[6]) // 4 for row in rows])
    numeric = np.array([row[:6] for row in rows], np.int64).reshape(len(rows), 6)
    norms = length_norm(numeric[:, 4].astype(np.float64), average) if rows else np.zeros(0)
    scores = np.zeros(len(rows))
    own = numeric[:, 5].astype(np.bool_)
    for term, weight in weights.items():
        places = np.flatnonzero(ids == numbers[term])
        mine, held = owners[places], counts[places]
        scores[mine] += bm25_term((held >> 1).astype(np.float64), norms[mine], weight)
        own[mine] |= (held & 1).astype(np.bool_)
    kept = np.flatnonzero((scores > 0) & own)
    return _Scored(scores[kept], numeric[kept, 1], numeric[kept, 2], numeric[kept, 3], numeric[kept, 0])
