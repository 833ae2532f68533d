"""Building the index of a file anew from its documents, and whatever else can be made from them."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import closing

from knowledge_engine.analysis import Analyzer
from knowledge_sqlite.checking import IN_CIRCLES, groups, is_id
from knowledge_sqlite.schema import migrate
from knowledge_sqlite.store import Change, Writer

#: Tables that hold nothing which cannot be made from the documents. What reads another one comes behind it.
_MADE = ("passages", "terms", "keys", "state", "found", "found_words", "found_postings")


def rebuild(connection: sqlite3.Connection, writer: Writer, analyzer: Analyzer) -> None:
    """Makes passages, terms, index and counts anew from the documents, in the caller's transaction.

    A document whose bytes are lost stays, and is not found. One with an id that no document can have gets another.
    """
    writer.forget()
    _make_tables(connection, analyzer)
    connection.execute(
        "INSERT INTO state(one, analyzer, documents, passages, length, revision, removals)"
        " VALUES (1, ?, 0, 0, 0, '0', ?)",
        # Terms have other numbers now: no reader takes this index for the one that was.
        (analyzer.version, secrets.randbits(48)),
    )
    _mend_documents(connection)
    for numbers in groups(connection):
        _rebuild_documents(connection, writer, numbers)
    lost = connection.execute(
        "SELECT id, content_hash FROM documents LEFT JOIN contents USING (n) WHERE content IS NULL"
    ).fetchall()
    change = Change(connection)
    for source_id, stored_hash in lost:
        change.count(source_id, stored_hash, (), 1)
    change.write()


def _make_tables(connection: sqlite3.Connection, analyzer: Analyzer) -> None:
    """Empties them; those that are not as they should be are made anew."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        migrate(model, analyzer.version)
        wanted = model.execute("SELECT name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    there = dict(connection.execute("SELECT name, sql FROM sqlite_schema"))
    statements = {name: sql for name, _, sql in wanted}
    for table in _MADE:
        if there.get(table) == statements[table] and _emptied(connection, table):
            continue
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(statements[table])
        if table == "found":
            connection.execute("INSERT INTO found(found, rank) VALUES ('automerge', 8)")
    there = dict(connection.execute("SELECT name, sql FROM sqlite_schema"))
    for name, table, sql in wanted:
        if name not in there and table in ("documents", *_MADE):
            connection.execute(sql)  # an index


def _emptied(connection: sqlite3.Connection, table: str) -> bool:
    if table.startswith("found_"):
        return True  # a view of another one
    try:
        if table == "found":
            connection.execute("INSERT INTO found(found) VALUES ('delete-all')")
        else:
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
    except sqlite3.DatabaseError:
        return False
    return True


def _mend_documents(connection: sqlite3.Connection) -> None:
    connection.execute(f"UPDATE documents SET superseded_by = NULL WHERE n IN ({IN_CIRCLES})")  # noqa: S608
    connection.execute("DELETE FROM contents WHERE n NOT IN (SELECT n FROM documents)")
    connection.execute("UPDATE documents SET size = length(content) FROM contents c WHERE c.n = documents.n")
    for number, source_id in connection.execute("SELECT n, id FROM documents").fetchall():
        if not is_id(source_id):
            # Behind the number comes what no one else has.
            free = f"recovered/{number}-{secrets.token_hex(4)}.md"
            connection.execute("UPDATE documents SET id = ? WHERE n = ?", (free, number))
    # What its bytes do not say either.
    connection.execute("UPDATE documents SET metadata = '{}', issues = '[]' WHERE n NOT IN (SELECT n FROM contents)")


def _rebuild_documents(connection: sqlite3.Connection, writer: Writer, numbers: Sequence[int]) -> None:
    rows = connection.execute(
        "SELECT n, id, content_hash, superseded_by, content FROM documents JOIN contents USING (n)"
        " WHERE n IN (SELECT value FROM json_each(?)) ORDER BY n",
        (json.dumps(numbers),),
    ).fetchall()
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
