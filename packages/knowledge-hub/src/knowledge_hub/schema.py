"""The hub's tables, beside those of the documents in one SQLite file."""

from __future__ import annotations

import sqlite3

#: Version n is made from n - 1 by the statements at n - 1. They never change: files of every version exist.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # Counts stand in columns, so that adding one is one statement, whoever adds another one at the same time.
        # `content_of`: the version whose content it has; `helpful` and `harmful` count the feedback on that content.
        # `said_*`: when, by whom and why the present version came to be.
        """CREATE TABLE hub_entries(
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            message_id TEXT NOT NULL,
            kinds TEXT NOT NULL,
            scenario TEXT NOT NULL,
            content TEXT NOT NULL,
            source TEXT NOT NULL,
            score INTEGER NOT NULL CHECK (score BETWEEN 1 AND 5),
            helpful INTEGER NOT NULL DEFAULT 0,
            harmful INTEGER NOT NULL DEFAULT 0,
            all_helpful INTEGER NOT NULL DEFAULT 0,
            all_harmful INTEGER NOT NULL DEFAULT 0,
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL,
            version INTEGER NOT NULL DEFAULT 1,
            content_of INTEGER NOT NULL DEFAULT 1,
            said_at TEXT NOT NULL,
            said_by TEXT NOT NULL,
            said_why TEXT NOT NULL,
            status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'superseded', 'retired')),
            superseded_by TEXT NOT NULL DEFAULT '',
            pending INTEGER NOT NULL DEFAULT 1
        ) STRICT""",
        # What the index of words does not know yet.
        "CREATE INDEX hub_pending ON hub_entries(n) WHERE pending = 1",
        "CREATE INDEX hub_status ON hub_entries(status, n)",
        "CREATE INDEX hub_superseded ON hub_entries(superseded_by) WHERE superseded_by <> ''",
        """CREATE TABLE hub_cases(
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            entry INTEGER NOT NULL REFERENCES hub_entries(n) ON DELETE CASCADE,
            kind TEXT NOT NULL CHECK (kind IN ('helpful', 'harmful')),
            "case" TEXT NOT NULL,
            content_of INTEGER NOT NULL,
            at TEXT NOT NULL,
            who TEXT NOT NULL
        ) STRICT""",
        "CREATE INDEX hub_cases_entry ON hub_cases(entry, n)",
        # Earlier versions; the present one stands in `hub_entries`.
        """CREATE TABLE hub_versions(
            entry INTEGER NOT NULL REFERENCES hub_entries(n) ON DELETE CASCADE,
            version INTEGER NOT NULL,
            at TEXT NOT NULL,
            who TEXT NOT NULL,
            why TEXT NOT NULL,
            kinds TEXT NOT NULL,
            scenario TEXT NOT NULL,
            content TEXT NOT NULL,
            urls TEXT NOT NULL,
            status TEXT NOT NULL,
            superseded_by TEXT NOT NULL,
            content_of INTEGER NOT NULL,
            PRIMARY KEY (entry, version)
        ) STRICT, WITHOUT ROWID""",
        # Ratings over time, once there are two; the first is that of the entry when it was saved.
        """CREATE TABLE hub_scores(
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            entry INTEGER NOT NULL REFERENCES hub_entries(n) ON DELETE CASCADE,
            score INTEGER NOT NULL,
            at TEXT NOT NULL,
            who TEXT NOT NULL
        ) STRICT""",
        "CREATE INDEX hub_scores_entry ON hub_scores(entry, n)",
        # What was done under a key that a caller gave: doing it again does nothing.
        """CREATE TABLE hub_keys(
            key TEXT PRIMARY KEY,
            asked TEXT NOT NULL,
            answer TEXT NOT NULL,
            at TEXT NOT NULL
        ) STRICT, WITHOUT ROWID""",
        # `before`: what each entry was, so that the merge can be undone.
        "CREATE INDEX hub_keys_at ON hub_keys(at)",
        """CREATE TABLE hub_merges(
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            keep TEXT NOT NULL,
            merged TEXT NOT NULL,
            before TEXT NOT NULL,
            at TEXT NOT NULL,
            who TEXT NOT NULL,
            undone INTEGER NOT NULL DEFAULT 0
        ) STRICT""",
        "CREATE TABLE hub_state(one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT",
        "INSERT INTO hub_state VALUES (1, 0)",
    ),
)
VERSION = len(MIGRATIONS)


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the hub's tables; 0 where there are none."""
    there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'hub_state'").fetchone()
    if there is None:
        return 0
    row = connection.execute("SELECT version FROM hub_state").fetchone()
    return int(row[0]) if row else 0


def migrate(connection: sqlite3.Connection) -> None:
    """Brings the tables up to the present version, within the caller's transaction."""
    present = version_of(connection)
    for number in range(present, VERSION):
        for statement in MIGRATIONS[number]:
            connection.execute(statement)
    if present < VERSION:
        connection.execute("UPDATE hub_state SET version = ?", (VERSION,))
