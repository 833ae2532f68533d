"""Looking whether a file is whole, building its index anew, and copying it while it is in use."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from knowledge_engine.cursors import Revision
from knowledge_engine.filters import metadata_keys
from knowledge_engine.passages import parse_document
from knowledge_sqlite.codec import word
from knowledge_sqlite.store import Writer

_SHOWN = 20
_REPAIR = "`knowledge check BACKEND --repair` builds the index anew."
_RESTORE = "Restore the file from a backup."


class Problem(NamedTuple):
    """Something that is not as it has to be."""

    code: str
    message: str
    mend: str


def problems(connection: sqlite3.Connection, analyzer: str) -> Iterator[Problem]:
    """All but what only FTS5 knows of itself, see `fts_problems`. The connection is in a transaction."""
    damage = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_SHOWN})")]
    if damage != ["ok"]:
        yield Problem("damaged", f"SQLite finds the file damaged: {'; '.join(damage)[:1000]}", _RESTORE)
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(_SHOWN):
        yield Problem("dangling", f"Row {row} of {table} points to a row of {parent} that is not there", _REPAIR)
    yield from _document_problems(connection)
    yield from _passage_problems(connection)
    yield from _index_problems(connection)
    yield from _state_problems(connection, analyzer)


def fts_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    """What FTS5 finds in its own tables. The connection may write."""
    try:
        connection.execute("INSERT INTO found(found) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        yield Problem("index-damaged", "FTS5 finds its index damaged", _REPAIR)


def rebuild(connection: sqlite3.Connection, writer: Writer, analyzer: str) -> None:
    """Makes passages, terms, index and counts anew from the documents, in the caller's transaction."""
    writer.forget()
    connection.execute("INSERT INTO found(found) VALUES ('delete-all')")
    for table in ("passages", "terms", "keys", "state"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
    connection.execute(
        "INSERT INTO state(one, analyzer, documents, passages, length, revision) VALUES (1, ?, 0, 0, 0, '0')",
        (analyzer,),
    )
    connection.execute("UPDATE documents SET superseded_by = NULL WHERE superseded_by NOT IN (SELECT n FROM documents)")
    for (number,) in connection.execute("SELECT n FROM documents ORDER BY n").fetchall():
        _rebuild_document(connection, writer, number)


def _rebuild_document(connection: sqlite3.Connection, writer: Writer, number: int) -> None:
    source_id, raw, stored_hash, superseded_by = connection.execute(
        "SELECT id, content, content_hash, superseded_by FROM documents WHERE n = ?", (number,)
    ).fetchone()
    document = parse_document(source_id, raw)
    connection.execute(
        "UPDATE documents SET title = ?, metadata = ?, issues = ? WHERE n = ?",
        (
            document.title,
            json.dumps(document.metadata, ensure_ascii=False),
            json.dumps([each.model_dump(mode="json") for each in document.issues], ensure_ascii=False),
            number,
        ),
    )
    # The hash stays what it was: bytes that are others now are still told of.
    writer.count(connection, source_id, stored_hash, document.metadata, 1)
    if superseded_by is None:
        writer.index(connection, number, document, raw)


def _document_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    for source_id, raw, stored_hash in connection.execute("SELECT id, content, content_hash FROM documents"):
        if hashlib.sha256(raw).hexdigest() != stored_hash:
            yield Problem(
                "content-changed", f"The bytes of {source_id!r} are not those that were stored", "Store it again."
            )


def _passage_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    queries = {
        "{} passages lie outside of their document": "SELECT count(*) FROM passages p JOIN documents d"
        " ON d.n = p.document WHERE NOT (0 <= p.start AND p.start < p.stop AND p.stop <= length(d.content))",
        "{} passages are of documents that others stand for": "SELECT count(*) FROM passages p JOIN documents d"
        " ON d.n = p.document WHERE d.superseded_by IS NOT NULL",
        "{} documents lack their first passage, or have several": "SELECT count(*) FROM (SELECT document,"
        " sum(is_first) AS firsts FROM passages GROUP BY document) WHERE firsts <> 1",
        "{} passages have terms without counts": "SELECT count(*) FROM passages"
        " WHERE length(term_ids) <> 2 * length(term_counts)",
    }
    for message, query in queries.items():
        if count := connection.execute(query).fetchone()[0]:
            yield Problem("passages", message.format(count), _REPAIR)


def _index_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    """FTS5's words against the terms of the passages: how many hold each."""
    held: Counter[int] = Counter()
    rows = connection.execute("SELECT term_ids FROM passages")
    while batch := rows.fetchmany(4096):
        numbers, counts = np.unique(np.frombuffer(b"".join(row[0] for row in batch), "<u4"), return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            held[number] += count
    known = {number for (number,) in connection.execute("SELECT n FROM terms")}
    if unknown := held.keys() - known:
        yield Problem("index", f"{len(unknown)} terms of passages have no name", _REPAIR)
    wanted = {word(number): count for number, count in held.items()}
    try:
        indexed = dict(connection.execute("SELECT term, doc FROM found_words"))
    except sqlite3.DatabaseError:
        yield Problem("index-damaged", "The index cannot be read", _REPAIR)
        return
    if wanted != indexed:
        differing = len(dict(wanted.items() ^ indexed.items()))
        yield Problem("index", f"Passages and index differ in {differing} terms", _REPAIR)


def _state_problems(connection: sqlite3.Connection, analyzer: str) -> Iterator[Problem]:
    row = connection.execute("SELECT documents, passages, length, revision, analyzer FROM state").fetchone()
    passages = connection.execute("SELECT count(*), coalesce(sum(length), 0) FROM passages").fetchone()
    documents, revision, keys = 0, Revision(), Counter[str]()
    for source_id, stored_hash, metadata in connection.execute("SELECT id, content_hash, metadata FROM documents"):
        documents += 1
        revision.add(source_id, stored_hash)
        keys.update(set(metadata_keys(json.loads(metadata))))
    if row is None or row[:3] != (documents, *passages) or Revision.of(row[3]).value != revision.value:
        yield Problem("state", "The counts of documents and passages are not those of the tables", _REPAIR)
    if dict(connection.execute("SELECT key, documents FROM keys")) != dict(keys):
        yield Problem("state", "The counts of metadata keys are not those of the documents", _REPAIR)
    if row is not None and row[4] != analyzer:
        yield Problem(
            "stale", "The words were cut by another version of the analyzer", "Open it once for writing, or --repair."
        )
