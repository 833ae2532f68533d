"""Looking whether a file is whole, building its index anew, and copying it while it is in use."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from knowledge_engine.cursors import Revision
from knowledge_engine.filters import metadata_keys
from knowledge_sqlite.codec import Numbers, Row, read, words
from knowledge_sqlite.store import Change, Writer

_SHOWN = 20
_AT_ONCE, _MAX_BYTES = 500, 4 << 20
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
        "INSERT INTO state(one, analyzer, documents, passages, length, revision, removals)"
        " VALUES (1, ?, 0, 0, 0, '0', ?)",
        # Terms have other numbers now: no reader takes this index for the one that was.
        (analyzer, secrets.randbits(48)),
    )
    connection.execute("UPDATE documents SET superseded_by = NULL WHERE superseded_by NOT IN (SELECT n FROM documents)")
    connection.execute("DELETE FROM contents WHERE n NOT IN (SELECT n FROM documents)")
    connection.execute("UPDATE documents SET size = (SELECT length(content) FROM contents c WHERE c.n = documents.n)")
    numbers: list[int] = []
    size = 0
    for number, more in connection.execute("SELECT n, size FROM documents ORDER BY n").fetchall():
        if numbers and (size + more > _MAX_BYTES or len(numbers) == _AT_ONCE):
            _rebuild_documents(connection, writer, numbers)
            numbers, size = [], 0
        numbers.append(number)
        size += more
    if numbers:
        _rebuild_documents(connection, writer, numbers)


def _rebuild_documents(connection: sqlite3.Connection, writer: Writer, numbers: Sequence[int]) -> None:
    marks = ",".join("?" * len(numbers))
    query = "SELECT n, id, content_hash, superseded_by, content FROM documents JOIN contents USING (n) WHERE n IN"
    rows = connection.execute(f"{query} ({marks}) ORDER BY n", numbers).fetchall()
    batch = writer.prepare((source_id, raw) for _, source_id, _, _, raw in rows)
    change = Change(connection)
    for document, (number, source_id, stored_hash, _, _) in zip(batch.work.documents, rows, strict=True):
        connection.execute(
            "UPDATE documents SET title = ?, metadata = ?, issues = ? WHERE n = ?",
            (document.title, document.metadata, document.issues, number),
        )
        # The hash stays what it was: bytes that are others now are still told of.
        change.count(source_id, stored_hash, document.keys, 1)
    change.write()
    parts = zip(batch.parts(connection), rows, strict=True)
    writer.index(connection, ((part, row[0]) for part, row in parts if row[3] is None))


def _document_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    for source_id, raw, stored_hash in connection.execute(
        "SELECT id, content, content_hash FROM documents JOIN contents USING (n)"
    ):
        if hashlib.sha256(raw).hexdigest() != stored_hash:
            yield Problem(
                "content-changed", f"The bytes of {source_id!r} are not those that were stored", "Store it again."
            )


def _passage_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    queries = {
        "{} documents lack their bytes, or have a wrong size": "SELECT count(*) FROM documents LEFT JOIN contents"
        " USING (n) WHERE size IS NOT length(content)",
        "{} passages are of documents that others stand for": "SELECT count(*) FROM passages p JOIN documents d"
        " ON d.n = p.document WHERE d.superseded_by IS NOT NULL",
        "{} documents lack their first passages, or have some twice": "SELECT count(*) FROM (SELECT document FROM"
        " passages GROUP BY document HAVING min(ordinal) <> 0 OR max(ordinal) + 1 <> count(DISTINCT ordinal)"
        " OR count(*) <> count(DISTINCT ordinal))",
        "{} passages lie outside of their document": "",
        "{} passages have terms without counts": "",
    }
    wrong = Counter[str]()
    for message, query in queries.items():
        if query:
            wrong[message] = connection.execute(query).fetchone()[0]
    outside, uncounted = list(queries)[-2:]
    rows = connection.execute("SELECT size, layout, term_ids, term_counts FROM passages JOIN documents ON n = document")
    for size, layout, ids, counts in rows:
        table = np.frombuffer(layout[: len(layout) // 16 * 16], "<u4").astype(np.int64).reshape(-1, 4)
        wrong[outside] += int(np.count_nonzero((table[:, 0] >= table[:, 1]) | (table[:, 1] > size)))
        wrong[uncounted] += not len(ids) == 2 * len(counts) == 4 * int(table[:, 3].sum()) or len(layout) % 16 != 0
    for message, count in wrong.items():
        if count:
            yield Problem("passages", message.format(count), _REPAIR)


def _index_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    """FTS5's words against the terms of the passages: how many hold each, at each level."""
    wanted: Counter[str] = Counter()
    reference = connection.execute("SELECT coalesce(max(reference), 128) FROM state").fetchone()[0]
    rows = connection.execute("SELECT block, layout, term_ids, term_counts FROM passages")
    numbers = set[int]()
    while some := rows.fetchmany(512):
        try:
            blocks = read([row[0] for row in some], [Row(*row[1:]) for row in some])
            for text in words(blocks.postings, reference):
                wanted.update(text.split())
        except ValueError:
            yield Problem("passages", "Passages cannot be read", _REPAIR)
            return
        numbers.update(blocks.postings.ids.tolist())
    known = {number for (number,) in connection.execute("SELECT n FROM terms")}
    if unknown := numbers - known:
        yield Problem("index", f"{len(unknown)} terms of passages have no name", _REPAIR)
    try:
        indexed = dict(connection.execute("SELECT term, doc FROM found_words"))
    except sqlite3.DatabaseError:
        yield Problem("index-damaged", "The index cannot be read", _REPAIR)
        return
    if wanted != indexed:
        differing = len(dict(wanted.items() ^ indexed.items()))
        yield Problem("index", f"Passages and index differ in {differing} words", _REPAIR)


def _state_problems(connection: sqlite3.Connection, analyzer: str) -> Iterator[Problem]:
    row = connection.execute("SELECT documents, passages, length, revision, analyzer FROM state").fetchone()
    table = _layouts(connection)
    passages = (len(table), int(table[:, 2].sum()))
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


def _layouts(connection: sqlite3.Connection) -> Numbers:
    """The layouts of all passages, as far as they are whole."""
    layouts = b"".join(row[0][: len(row[0]) // 16 * 16] for row in connection.execute("SELECT layout FROM passages"))
    return np.frombuffer(layouts, "<u4").astype(np.int64).reshape(-1, 4)
