"""Entries as rows of the hub's tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from knowledge_engine.errors import NotFoundError
from knowledge_hub.entries import Entry, EntrySource, Eval, Metrics, Tags, Version
from knowledge_sqlite.errors import decoding

COLUMNS = (
    "id, message_id, kinds, scenario, content, source, score, helpful, harmful, all_helpful, all_harmful, created_at,"
    " updated_at, version, status, superseded_by"
)
_VERSION = "version, said_at, said_by, said_why, scenario, content, kinds, source, status, superseded_by, content_of"
_EARLIER = "version, at, who, why, scenario, content, kinds, urls, status, superseded_by, content_of"
#: So many cases of a kind come with an entry, the latest.
MAX_CASES = 1_000


def missing(entry_id: str) -> NotFoundError:
    """The error where there is no such entry."""
    return NotFoundError(f"There is no entry {entry_id[:200]!r}", mend="List or search the hub for its id.")


@decoding()
def entry_of(row: Sequence[Any], cases: dict[str, list[Any]] | None = None) -> Entry:
    """An entry from its row; histories where they are given.

    Raises:
        DamagedError: When the row is none that was written here.
    """
    kinds, source = json.loads(row[2]), json.loads(row[5])
    cases = cases or {}
    # What was written was checked; checking it again would take longer than reading it.
    return Entry.model_construct(
        id=row[0],
        message_id=row[1],
        tags=Tags.model_construct(type=tuple(kinds)),
        scenario=row[3],
        content=row[4],
        source=EntrySource.model_construct(
            urls=tuple(source["urls"]),
            agent_id=source["agent_id"],
            timestamp=source["timestamp"],
            token_agent=source["token_agent"],
        ),
        eval=Eval.model_construct(
            score=row[6],
            helpful=row[7],
            harmful=row[8],
            helpful_history=tuple(cases.get("helpful", ())),
            harmful_history=tuple(cases.get("harmful", ())),
        ),
        metrics=Metrics.model_construct(helpful=row[9], harmful=row[10]),
        created_at=row[11],
        updated_at=row[12],
        version=row[13],
        status=row[14],
        superseded_by=row[15],
    )


def number_of(connection: sqlite3.Connection, entry_id: str) -> int:
    """The row of an entry.

    Raises:
        NotFoundError: When there is none.
    """
    row = connection.execute("SELECT n FROM hub_entries WHERE id = ?", (entry_id,)).fetchone()
    if row is None:
        raise missing(entry_id)
    return int(row[0])


def read(connection: sqlite3.Connection, entry_id: str) -> Entry:
    """An entry with its histories.

    Raises:
        NotFoundError: When there is none.
    """
    row = connection.execute(f"SELECT {COLUMNS}, n FROM hub_entries WHERE id = ?", (entry_id,)).fetchone()  # noqa: S608
    if row is None:
        raise missing(entry_id)
    cases: dict[str, list[Any]] = {}
    for kind in ("helpful", "harmful"):
        found = connection.execute(
            'SELECT "case" FROM hub_cases WHERE entry = ? AND kind = ? ORDER BY n DESC LIMIT ?',
            (row[-1], kind, MAX_CASES),
        ).fetchall()
        with decoding():
            cases[kind] = [json.loads(text) for (text,) in reversed(found)]
    return entry_of(row, cases)


def some(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Entry]:
    """Those of some entries that there are, without histories."""
    query = f"SELECT {COLUMNS} FROM hub_entries WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608
    return {row[0]: entry_of(row) for row in connection.execute(query, (json.dumps(list(ids)),))}


def insert(connection: sqlite3.Connection, entry: Entry, said: tuple[str, str, str], content_of: int = 0) -> int:
    """Puts an entry's row in; its number.

    Args:
        said: When, by whom and why it says what it says.
    """
    cursor = connection.execute(
        f"INSERT INTO hub_entries({COLUMNS}, content_of, said_at, said_by, said_why)"  # noqa: S608
        f" VALUES ({', '.join('?' * 20)})",
        (
            entry.id,
            entry.message_id,
            _json(entry.tags.type),
            entry.scenario,
            entry.content,
            source_json(entry.source),
            entry.eval.score,
            entry.eval.helpful,
            entry.eval.harmful,
            entry.metrics.helpful,
            entry.metrics.harmful,
            entry.created_at,
            entry.updated_at,
            entry.version,
            entry.status,
            entry.superseded_by,
            content_of or entry.version,
            *said,
        ),
    )
    return int(cursor.lastrowid or 0)


def source_json(source: EntrySource) -> str:
    """A source as it is stored."""
    return _json(
        {
            "urls": source.urls,
            "agent_id": source.agent_id,
            "timestamp": source.timestamp,
            "token_agent": source.token_agent,
        }
    )


def keep_version(connection: sqlite3.Connection, number: int) -> None:
    """Makes a version of what an entry says now, before it says something else."""
    connection.execute(
        "INSERT INTO hub_versions(entry, version, at, who, why, kinds, scenario, content, urls, status, superseded_by,"
        " content_of) SELECT n, version, said_at, said_by, said_why, kinds, scenario, content,"
        " json_extract(source, '$.urls'), status, superseded_by, content_of FROM hub_entries WHERE n = ?",
        (number,),
    )


@decoding()
def versions(connection: sqlite3.Connection, number: int) -> tuple[Version, ...]:
    """All that an entry said, the present last."""
    query = f"SELECT {_EARLIER} FROM hub_versions WHERE entry = ? ORDER BY version"  # noqa: S608
    rows = connection.execute(query, (number,)).fetchall()
    present = connection.execute(f"SELECT {_VERSION} FROM hub_entries WHERE n = ?", (number,)).fetchone()  # noqa: S608
    present = (*present[:7], json.dumps(json.loads(present[7])["urls"]), *present[8:])
    return tuple(
        Version(
            version=row[0],
            at=row[1],
            who=row[2],
            why=row[3],
            scenario=row[4],
            content=row[5],
            tags=Tags(type=tuple(json.loads(row[6]))),
            urls=tuple(json.loads(row[7])),
            status=row[8],
            superseded_by=row[9],
            content_of=row[10],
        )
        for row in (*rows, present)
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
