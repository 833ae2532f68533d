"""How many passages hold a term, and how much it counts in them."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from knowledge_sqlite.codec import LEVELS, level_of, word

#: Bounds what is kept for one state of the file.
_MAX_KNOWN = 20_000


class Held(NamedTuple):
    """A term of the database."""

    number: int
    #: How many passages hold it at each level where any does; the highest level first.
    levels: tuple[tuple[int, int], ...]

    @property
    def passages(self) -> int:
        """How many passages hold it."""
        return sum(count for _, count in self.levels)


_NOWHERE = Held(0, ())


class Counts:
    """Remembers counts for as long as the index is what it was: FTS5 has to read all postings to count them."""

    def __init__(self) -> None:
        self._state: tuple[object, ...] = ()
        self._known: dict[str, Held] = {}

    def at(self, state: tuple[object, ...]) -> dict[str, Held]:
        """What is known of one state of the file. Readers of another one do not disturb each other."""
        if state != self._state or len(self._known) > _MAX_KNOWN:
            self._state, self._known = state, {}
        return self._known


def held(connection: sqlite3.Connection, term: str, known: dict[str, Held]) -> Held:
    """The postings of a term; `known` is what `Counts.at` gave for this state."""
    if term not in known:
        row = connection.execute("SELECT n FROM terms WHERE term = ?", (term,)).fetchone()
        known[term] = _NOWHERE if row is None else _counted(connection, row[0])
    return known[term]


def _counted(connection: sqlite3.Connection, number: int) -> Held:
    rows = connection.execute(
        "SELECT term, doc FROM found_words WHERE term BETWEEN ? AND ? ORDER BY term DESC",
        (word(number, 0), word(number, LEVELS - 1)),
    )
    return Held(number, tuple((level_of(one), count) for one, count in rows if count))
