"""Which numbers a database gives to terms."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np

from knowledge_sqlite.codec import LEVELS, Ids, distinct, word


class PackedText(Sequence[str]):
    """Very many short strings, in few bytes. It grows."""

    def __init__(self) -> None:
        self._bytes, self._ends = bytearray(), array("Q", [0])

    def extend(self, texts: Iterable[str]) -> None:
        """Adds some."""
        for text in texts:
            self._bytes += text.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._bytes[self._ends[index] : self._ends[index + 1]].decode("utf-8", "surrogatepass")


class Names:
    """The database's numbers for the terms of one `Numbering`, which has its own."""

    def __init__(self, terms: Sequence[str]) -> None:
        """`terms`: in the order of their numbers; it may grow."""
        self.terms = terms
        # 0 where it was not looked up yet: a database begins with 1.
        self._numbers = np.zeros(0, np.uint32)

    def forget(self) -> None:
        """To be called when another one may have changed the database's terms, or a transaction was undone."""
        self._numbers = np.zeros(0, np.uint32)

    def numbers(self, connection: sqlite3.Connection, ids: Ids) -> Ids:
        """The database's numbers for terms; those that it does not have are put in."""
        return self._found(connection, ids, add=True)

    def known(self, connection: sqlite3.Connection, ids: Ids) -> Ids:
        """The database's numbers for terms; 0 for those that it does not have."""
        return self._found(connection, ids, add=False)

    def _found(self, connection: sqlite3.Connection, ids: Ids, *, add: bool) -> Ids:
        if len(self._numbers) < len(self.terms):
            self._numbers = np.concatenate((self._numbers, np.zeros(len(self.terms) - len(self._numbers), np.uint32)))
        found = self._numbers[ids]
        if not found.all():
            self._look_up(connection, distinct(ids[found == 0]).tolist(), add=add)
            found = self._numbers[ids]
        return found

    def _look_up(self, connection: sqlite3.Connection, unknown: Sequence[int], *, add: bool) -> None:
        terms = [self.terms[number] for number in unknown]
        known = look_up(connection, terms)
        new = sorted(set(terms).difference(known))
        if new and add:
            row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'terms'").fetchone()
            rows = list(enumerate(new, 1 + (row[0] if row else 0)))
            connection.executemany("INSERT INTO terms(n, term) VALUES (?, ?)", rows)
            known |= {term: number for number, term in rows}
        self._numbers[unknown] = [known.get(term, 0) for term in terms]


def look_up(connection: sqlite3.Connection, terms: Sequence[str]) -> dict[str, int]:
    """The numbers of those terms that the database has."""
    query = "SELECT term, n FROM terms WHERE term IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(query, (json.dumps(terms, ensure_ascii=False),)))


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
