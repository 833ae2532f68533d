"""The tables, and how a file of an earlier version becomes one of this: numbered migrations, in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from knowledge_engine.errors import ConfigurationError
from knowledge_sqlite.errors import DamagedError

#: "kpkt": tells a knowledge database from those of other programs.
APPLICATION_ID = 0x6B706B74

#: Version n is made from n - 1 by the statements at n - 1. They never change: files of every version exist.
MIGRATIONS: Sequence[Sequence[str]] = (
    (
        # `n` numbers never come back, so that what one process remembers is not another document in the next.
        """CREATE TABLE documents(
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            content BLOB NOT NULL,
            content_hash TEXT NOT NULL,
            title TEXT NOT NULL,
            metadata TEXT NOT NULL,
            issues TEXT NOT NULL,
            origin TEXT NOT NULL,
            uri TEXT NOT NULL,
            stored_at TEXT NOT NULL,
            superseded_by INTEGER REFERENCES documents(n) ON DELETE SET NULL
        ) STRICT""",
        "CREATE INDEX documents_superseded ON documents(superseded_by) WHERE superseded_by IS NOT NULL",
        # What is searched. `term_ids` are ascending uint32, `term_counts` uint16 beside them: twice the weighted number
        # of times, plus one if the term stands in the passage's own bytes. Little-endian.
        """CREATE TABLE passages(
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            document INTEGER NOT NULL REFERENCES documents(n) ON DELETE CASCADE,
            start INTEGER NOT NULL,
            stop INTEGER NOT NULL,
            headings TEXT NOT NULL,
            length INTEGER NOT NULL,
            is_first INTEGER NOT NULL,
            term_ids BLOB NOT NULL,
            term_counts BLOB NOT NULL
        ) STRICT""",
        "CREATE INDEX passages_document ON passages(document)",
        "CREATE TABLE terms(n INTEGER PRIMARY KEY AUTOINCREMENT, term TEXT NOT NULL UNIQUE) STRICT",
        # Its rows are passages, its words the numbers of their terms in hexadecimal: no text is stored twice.
        "CREATE VIRTUAL TABLE found USING fts5(words, content='', columnsize=0, detail=none, tokenize='ascii')",
        "CREATE VIRTUAL TABLE found_words USING fts5vocab(found, row)",
        """CREATE TABLE state(
            one INTEGER PRIMARY KEY CHECK (one = 1),
            analyzer TEXT NOT NULL,
            documents INTEGER NOT NULL,
            passages INTEGER NOT NULL,
            length INTEGER NOT NULL,
            revision TEXT NOT NULL
        ) STRICT""",
        # How many documents have each metadata key, nested ones by their dotted path.
        "CREATE TABLE keys(key TEXT PRIMARY KEY, documents INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    ),
    (
        # What is read of many documents at once is small; their bytes are read one by one.
        """CREATE TABLE contents(
            n INTEGER PRIMARY KEY REFERENCES documents(n) ON DELETE CASCADE,
            content BLOB NOT NULL
        ) STRICT""",
        "INSERT INTO contents SELECT n, content FROM documents",
        "ALTER TABLE documents ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
        "UPDATE documents SET size = length(content)",
        "ALTER TABLE documents DROP COLUMN content",
        # Up to 32 passages of a document, see `codec`. Numbers never come back.
        "DROP TABLE passages",
        """CREATE TABLE passages(
            block INTEGER PRIMARY KEY AUTOINCREMENT,
            document INTEGER NOT NULL REFERENCES documents(n) ON DELETE CASCADE,
            ordinal INTEGER NOT NULL,
            layout BLOB NOT NULL,
            headings TEXT NOT NULL,
            term_ids BLOB NOT NULL,
            term_counts BLOB NOT NULL
        ) STRICT""",
        "CREATE INDEX passages_document ON passages(document)",
        # `reference`: see `codec.levels`. `removals`: how often passages were taken out.
        "ALTER TABLE state ADD COLUMN reference INTEGER NOT NULL DEFAULT 128",
        "ALTER TABLE state ADD COLUMN removals INTEGER NOT NULL DEFAULT 0",
        # The index of version 1 is of another form: it is built anew, as that of another analyzer is.
        "INSERT INTO found(found) VALUES ('delete-all')",
        # Its parts are put together eight at a time: half the work of four, and queries are as fast.
        "INSERT INTO found(found, rank) VALUES ('automerge', 8)",
        "DELETE FROM terms",
        "CREATE VIRTUAL TABLE found_postings USING fts5vocab(found, instance)",
        "UPDATE state SET analyzer = '' WHERE documents > 0",
    ),
)
VERSION = len(MIGRATIONS)


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a file's tables; 0 for an empty file.

    Raises:
        ConfigurationError: For the database of another program, or of a later version of this one.
    """
    inside = connection.in_transaction
    if not inside:
        connection.execute("BEGIN")  # all of it from one state: another process may be making the file
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    finally:
        if not inside:
            with suppress(sqlite3.Error):  # some failures end it themselves
                connection.execute("ROLLBACK")
    if application != APPLICATION_ID and (tables or application):
        raise other_program()
    if version > VERSION:
        raise newer_version(version)
    return int(version) if tables else 0


def state_row(connection: sqlite3.Connection, columns: str) -> tuple[Any, ...]:
    """Some columns of the one row of `state`.

    Raises:
        DamagedError: When it is not there.
    """
    row: tuple[Any, ...] | None = connection.execute(f"SELECT {columns} FROM state").fetchone()  # noqa: S608
    if row is None:
        raise DamagedError("The database lacks its counts", mend="Open it once for writing: they are made anew.")
    return row


def other_program() -> ConfigurationError:
    """The file is not ours."""
    return ConfigurationError("The file is the database of another program", mend="Name another file.")


def newer_version(version: int) -> ConfigurationError:
    """The file is ours, and was made by a later version."""
    return ConfigurationError(
        f"The database has version {version}, and this program knows those up to {VERSION}",
        mend="Install a later version of kpkit-sqlite.",
    )


def migrate(connection: sqlite3.Connection, analyzer: str) -> None:
    """Brings an open file up to the present version. The caller's connection is in no transaction.

    Raises:
        ConfigurationError: As `version_of`.
    """
    if version_of(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it meanwhile.
        for number in range(version_of(connection), VERSION):
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
            if number == 0:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(
                    "INSERT INTO state(one, analyzer, documents, passages, length, revision)"
                    " VALUES (1, ?, 0, 0, 0, '0')",
                    (analyzer,),
                )
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
