"""Which passages hold a term, and how much it counts in them: what FTS5 says, remembered while it is so."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from knowledge_sqlite.codec import LEVELS, Numbers, level_of, word

#: Bounds what is kept for one state of the file.
_MAX_KNOWN, _MAX_POSTINGS = 20_000, 6_000_000
#: Fewer numbers are not packed: it would take longer than it saves.
_PACKED = 64
#: So many postings of one term are read at once, those of the highest levels.
_FEW = 400


class Held(NamedTuple):
    """A term of the database."""

    number: int
    #: How many passages hold it at each level where any does; the highest level first.
    levels: tuple[tuple[int, int], ...]

    @property
    def passages(self) -> int:
        """How many passages hold it."""
        return sum(count for _, count in self.levels)

    def head(self, most: int) -> int:
        """The lowest level with which all levels from it on have no more than so many postings; `LEVELS` for none."""
        lowest, postings = LEVELS, 0
        for level, count in self.levels:
            postings += count
            if postings > most:
                break
            lowest = level
        return lowest


_NOWHERE = Held(0, ())


class Known:
    """What was read of one state of the file."""

    def __init__(self, state: tuple[object, ...]) -> None:
        self.state = state
        self._held: dict[str, Held] = {}
        self._postings: dict[tuple[int, int], _Packed] = {}
        self._room = _MAX_POSTINGS

    def held(self, connection: sqlite3.Connection, term: str) -> Held:
        """How many passages hold a term. FTS5 reads all of its postings to count them."""
        if term not in self._held:
            if len(self._held) >= _MAX_KNOWN:
                self._held.clear()
            row = connection.execute("SELECT n FROM terms WHERE term = ?", (term,)).fetchone()
            self._held[term] = _NOWHERE if row is None else _counted(connection, row[0])
        return self._held[term]

    def postings(self, connection: sqlite3.Connection, held: Held, level: int) -> Numbers:
        """The numbers of the passages that hold a term at a level, ascending."""
        if (held.number, level) not in self._postings:
            lowest = held.head(_FEW)
            if level >= lowest:
                found = _best_postings(connection, held.number, lowest)
            else:
                found = {level: _postings(connection, held.number, level)}
            size = sum(map(len, found.values()))
            if self._room < size:
                self._postings.clear()
                self._room = _MAX_POSTINGS
            self._room -= size
            self._postings |= {(held.number, at): _Packed.of(numbers) for at, numbers in found.items()}
        return self._postings[held.number, level].numbers()


class Counts:
    """Keeps what is known for as long as the file is what it was."""

    def __init__(self) -> None:
        self._known = Known(())

    def at(self, state: tuple[object, ...]) -> Known:
        """What is known of one state. Readers of another one do not disturb each other."""
        known = self._known
        if known.state != state:
            self._known = known = Known(state)
        return known


def _counted(connection: sqlite3.Connection, number: int) -> Held:
    rows = connection.execute(
        "SELECT term, doc FROM found_words WHERE term BETWEEN ? AND ?", (word(number, 0), word(number, LEVELS - 1))
    ).fetchall()
    return Held(number, tuple((level_of(one), count) for one, count in reversed(rows) if count))


# To make one text of many numbers and read that is several times faster than to take them row by row.
def _postings(connection: sqlite3.Connection, number: int, level: int) -> Numbers:
    query = "SELECT group_concat(rowid) FROM found WHERE found MATCH ?"
    return _numbers(connection.execute(query, (f'"{word(number, level)}"',)).fetchone()[0])


def _best_postings(connection: sqlite3.Connection, number: int, lowest: int) -> dict[int, Numbers]:
    """By level, those of `lowest` and above: one look-up for all, which costs more for each posting."""
    query = "SELECT term, group_concat(doc) FROM found_postings WHERE term BETWEEN ? AND ? GROUP BY term"
    rows = connection.execute(query, (word(number, lowest), word(number, LEVELS - 1)))
    return {level_of(one): _numbers(numbers) for one, numbers in rows}


def _numbers(text: str | None) -> Numbers:
    return np.fromstring(text or "", np.int64, sep=",")


class _Packed(NamedTuple):
    """Ascending numbers, kept as what each adds to the one before."""

    first: int
    #: The numbers themselves where there are few, or they are too far apart.
    steps: npt.NDArray[Any]
    packed: bool

    @classmethod
    def of(cls, numbers: Numbers) -> _Packed:
        """Packs."""
        if len(numbers) < _PACKED:
            return cls(0, numbers, packed=False)
        steps = numbers[1:] - numbers[:-1]
        small = steps.min() >= 0 and steps.max() < 1 << 16
        return cls(int(numbers[0]), steps.astype(np.uint16) if small else numbers, packed=bool(small))

    def numbers(self) -> Numbers:
        """Unpacks."""
        if not self.packed:
            return self.steps
        found = np.empty(len(self.steps) + 1, np.int64)
        found[0] = self.first
        self.steps.cumsum(out=found[1:])
        found[1:] += self.first
        return found
