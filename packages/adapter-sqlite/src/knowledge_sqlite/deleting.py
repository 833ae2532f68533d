"""Deleting so that nothing stays: no passage, no word, no page of the text, in the file or in its log."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from knowledge_engine.errors import KnowledgeError
from knowledge_sqlite.codec import number_of
from knowledge_sqlite.database import Database
from knowledge_sqlite.place import Identity, Place
from knowledge_sqlite.store import content

_WINDOWS, _WINDOW_BYTES = 24, 24
_TERMS, _LEAST_TERM_BYTES = 24, 6
_CHUNK = 16 << 20

# Where bytes may rightly stand that a deleted text held too.
_ELSEWHERE = (
    "SELECT 1 FROM contents WHERE instr(content, :it)",
    "SELECT 1 FROM documents WHERE instr(CAST(id || char(10) || title || char(10) || metadata || char(10) || issues"
    " || char(10) || uri AS BLOB), :it)",
    "SELECT 1 FROM passages WHERE instr(CAST(headings AS BLOB), :it)",
    "SELECT 1 FROM terms WHERE instr(CAST(term AS BLOB), :it)",
    "SELECT 1 FROM keys WHERE instr(CAST(key AS BLOB), :it)",
    "SELECT 1 FROM sqlite_schema WHERE instr(CAST(sql AS BLOB), :it)",
)

#: Descriptors of databases, by file. Closing one would take away every lock that this process has on it (POSIX).
_KEPT: dict[Identity, int] = {}


def traces(connection: sqlite3.Connection, source_id: str) -> list[bytes]:
    """Pieces of a stored document by which it would be known again: of its text, and words of its index."""
    raw = content(connection, source_id) or b""
    step = max(1, (len(raw) - _WINDOW_BYTES) // _WINDOWS)
    windows = (raw[at : at + _WINDOW_BYTES].strip() for at in range(0, max(1, len(raw) - _WINDOW_BYTES + 1), step))
    numbers: set[int] = set()
    for (ids,) in connection.execute(
        "SELECT term_ids FROM passages JOIN documents d ON d.n = document WHERE d.id = ?", (source_id,)
    ):
        numbers.update(np.frombuffer(ids[: len(ids) // 4 * 4], "<u4").tolist())
    names = [
        row[0].encode()
        for number in numbers
        for row in connection.execute("SELECT term FROM terms WHERE n = ?", (number,))
    ]
    words = sorted(names, key=lambda name: (-len(name), name))[:_TERMS]
    return [trace for trace in (*windows, *words) if len(trace) >= _LEAST_TERM_BYTES]


def sweep(connection: sqlite3.Connection) -> None:
    """Takes out the terms that no passage holds, and all that FTS5 keeps of rows that are gone. Writes much."""
    connection.execute("INSERT INTO found(found) VALUES ('optimize')")
    held = {number_of(row[0]) for row in connection.execute("SELECT term FROM found_words")}
    unused = [row for row in connection.execute("SELECT n FROM terms") if row[0] not in held]
    connection.executemany("DELETE FROM terms WHERE n = ?", unused)


def pending(database: Database, left: Sequence[bytes], forget: Callable[[], None]) -> tuple[str, ...]:
    """Does all that is to be done after a document was deleted; what could not be done, and why.

    Args:
        left: Its `traces`.
        forget: Called when terms are not what they were.
    """
    try:
        return tuple(_pending(database, left, forget))
    except KnowledgeError as error:
        return (f"The text is deleted, and bytes of it may be left in the file. {error}",)


def _pending(database: Database, left: Sequence[bytes], forget: Callable[[], None]) -> Iterator[str]:
    with database.writing(forget) as connection:
        sweep(connection)
        forget()
    if not truncate(database):
        yield (
            "The log of the database still holds the text: someone reads a state of before."
            " When they have ended, `knowledge check BACKEND --repair` takes it over."
        )
        return
    # Pages keep copies in their gaps of what SQLite has moved within them.
    with database.alone() as connection:
        connection.execute("VACUUM")
    if not truncate(database) or _found(database, left):
        yield "Bytes of the text are left in the file. Close what has it open, then `knowledge check BACKEND --repair`."


def tidy(database: Database) -> None:
    """Writes the file anew without gaps, and empties its log; both as far as there is room and nobody is in the way."""
    with suppress(KnowledgeError), database.alone() as connection:
        connection.execute("VACUUM")
    truncate(database)


def truncate(database: Database) -> bool:
    """Takes the log over into the file and empties it; False when a reader or writer is in the way for too long."""
    return database.place.memory or database.patiently(lambda: _truncated(database))


def _truncated(database: Database) -> bool:
    with database.alone() as connection:
        (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
        # SQLite's own waiting would keep everyone from writing.
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {patience}")
        return not busy


def _found(database: Database, left: Iterable[bytes]) -> list[bytes]:
    """Those that stand in the database's files, and not as parts of what is still stored."""
    if database.place.memory:
        return []
    there = present(database.place, left)
    if not there:
        return []
    with database.reading() as connection:
        return [it for it in there if not any(connection.execute(query, {"it": it}).fetchone() for query in _ELSEWHERE)]


def present(place: Place, left: Iterable[bytes]) -> list[bytes]:
    """Which of some short pieces of bytes stand anywhere in the file or its log."""
    wanted, found = set(left), set[bytes]()
    for chunk in _chunks(place):
        found |= {it for it in wanted - found if it in chunk}
    return sorted(found)


def _chunks(place: Place) -> Iterator[bytes]:
    """All bytes, in pieces that overlap."""
    overlap = 256
    identity = place.identity()
    if identity is not None:
        if identity not in _KEPT:
            _KEPT[identity] = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
        at = 0
        while chunk := os.pread(_KEPT[identity], _CHUNK + overlap, at):
            yield chunk
            at += _CHUNK
    log = Path(f"{place.path}-wal")
    if log.exists():
        with closing(log.open("rb")) as file:
            yield file.read()
