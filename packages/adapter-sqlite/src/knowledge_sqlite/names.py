"""Which numbers a database gives to terms."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from knowledge_sqlite.codec import LEVELS, Ids, distinct, word

_AT_ONCE = 500


class Names:
    """The database's numbers for the terms of one `Numbering`, which has its own."""

    def __init__(self, terms: list[str]) -> None:
        """`terms`: in the order of their numbers; it may grow."""
        self.terms = terms
        # 0 where it was not looked up yet: a database begins with 1.
        self._numbers = np.zeros(0, np.uint32)

    def forget(self) -> None:
        """To be called when another one may have changed the database's terms, or a transaction was undone."""
        self._numbers = np.zeros(0, np.uint32)

    def numbers(self, connection: sqlite3.Connection, ids: Ids) -> Ids:
        """The database's numbers for terms; those that it does not have are put in."""
        if len(self._numbers) < len(self.terms):
            self._numbers = np.concatenate((self._numbers, np.zeros(len(self.terms) - len(self._numbers), np.uint32)))
        found = self._numbers[ids]
        if not found.all():
            self._look_up(connection, distinct(ids[found == 0]).tolist())
            found = self._numbers[ids]
        return found

    def _look_up(self, connection: sqlite3.Connection, unknown: Sequence[int]) -> None:
        known = look_up(connection, [self.terms[number] for number in unknown])
        new = sorted(term for term in (self.terms[number] for number in unknown) if term not in known)
        if new:
            row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'terms'").fetchone()
            rows = list(enumerate(new, 1 + (row[0] if row else 0)))
            connection.executemany("INSERT INTO terms(n, term) VALUES (?, ?)", rows)
            known |= {term: number for number, term in rows}
        self._numbers[unknown] = [known[self.terms[number]] for number in unknown]


def look_up(connection: sqlite3.Connection, terms: Sequence[str]) -> dict[str, int]:
    """The numbers of those terms that the database has."""
    known: dict[str, int] = {}
    for some in _portions(terms):
        marks = ",".join("?" * len(some))
        known |= dict(connection.execute(f"SELECT term, n FROM terms WHERE term IN ({marks})", some))  # noqa: S608
    return known


def drop_unused(connection: sqlite3.Connection, numbers: Iterable[int]) -> bool:
    """Takes out those terms that no passage holds; whether there were any."""
    unused = [
        (number,)
        for number in numbers
        if connection.execute(
            "SELECT 1 FROM found_words WHERE term BETWEEN ? AND ?", (word(number, 0), word(number, LEVELS - 1))
        ).fetchone()
        is None
    ]
    connection.executemany("DELETE FROM terms WHERE n = ?", unused)
    return bool(unused)


def _portions(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(items), _AT_ONCE):
        yield items[at : at + _AT_ONCE]
