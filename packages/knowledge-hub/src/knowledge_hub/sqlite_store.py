"""The store: one SQLite file, with the entries in tables of the hub's own and their words in the index beside them.

An entry is kept in one short transaction. Its words are put into the index by whoever searches next, many at once, so
that saving takes no longer than writing a row: what was saved is always found.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from pydantic import JsonValue

from knowledge_engine.errors import BusyError, ConfigurationError, ConflictError, ReadOnlyError, StorageFullError
from knowledge_engine.models import Query
from knowledge_hub import merging, rows, transfer
from knowledge_hub.entries import (
    ROUTED_CHARS,
    CaseKind,
    Entry,
    Kind,
    Merge,
    Merged,
    Status,
    Version,
    quality_score,
)
from knowledge_hub.provider import HubProvider
from knowledge_hub.rendering import document_of
from knowledge_hub.schema import VERSION as SCHEMA
from knowledge_hub.schema import migrate, version_of
from knowledge_hub.store import Once, Overview, Ranked, Rating, Said, Stamp
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings
from knowledge_sqlite.transactions import Transaction

#: So many entries get into the index in one transaction.
_INDEXED_AT_ONCE = 200
#: How long a key is remembered, in days.
_KEY_DAYS = 7
_MOST_AT_ONCE = 1_000
#: Of an entry that was not rated anew: the rating with which it was saved, and by whom.
_FIRST_RATING = (
    "score, created_at, coalesce(nullif(json_extract(source, '$.token_agent'), ''), json_extract(source, '$.agent_id'))"
)


class SqliteEntryStore:
    """See `EntryStore`."""

    def __init__(self, path: str, *, busy_timeout_s: float = 30.0, read_only: bool = False) -> None:
        self._adapter = SqliteKnowledgeAdapter(
            SqliteSettings(path=path, busy_timeout_s=busy_timeout_s, read_only=read_only), id="hub"
        )
        self._provider = HubProvider(self._adapter, self.index)
        self._made: sqlite3.Connection | None = None

    @property
    def provider(self) -> HubProvider:
        """See `EntryStore.provider`."""
        return self._provider

    # Entries

    def add(self, entry: Entry, stamp: Stamp, once: Once | None = None) -> Entry:
        """See `EntryStore.add`."""
        with self._changing() as change:
            connection = change.connection
            if once and (known := _known(connection, once)):
                return rows.read(connection, known)
            try:
                rows.insert(connection, entry, stamp)
            except sqlite3.IntegrityError as error:
                raise ConflictError(f"There is an entry {entry.id!r} already", mend="Save it again.") from error
            if once:
                _remember(connection, once, entry.id, stamp)
        return entry

    def get(self, entry_id: str) -> Entry:
        """See `EntryStore.get`."""
        with self._reading() as connection:
            if connection is None:
                raise rows.missing(entry_id)
            return rows.read(connection, entry_id)

    def some(self, ids: Sequence[str]) -> dict[str, Entry]:
        """See `EntryStore.some`."""
        with self._reading() as connection:
            return rows.some(connection, ids) if connection else {}

    def listed(self, limit: int, kinds: Sequence[Kind], status: Status | None, after: str) -> tuple[Entry, ...]:
        """See `EntryStore.listed`."""
        with self._reading() as connection:
            if connection is None:
                return ()
            conditions, values = _conditions(kinds, status)
            if after:
                conditions.append("n < ?")
                values.append(rows.number_of(connection, after))
            query = f"SELECT {rows.COLUMNS} FROM hub_entries {_where(conditions)} ORDER BY n DESC LIMIT ?"  # noqa: S608
            return tuple(map(rows.entry_of, connection.execute(query, (*values, limit)).fetchall()))

    def counted(
        self,
        entry_id: str,
        cases: Sequence[tuple[CaseKind, str]],
        score: int | None,
        stamp: Stamp,
        once: Once | None = None,
    ) -> None:
        """See `EntryStore.counted`."""
        with self._changing() as change:
            connection = change.connection
            if once:
                if _known(connection, once):
                    return
                _remember(connection, once, entry_id, stamp)
            helpful = sum(kind == "helpful" for kind, _ in cases)
            harmful = len(cases) - helpful
            row = connection.execute(
                "UPDATE hub_entries SET helpful = helpful + ?, harmful = harmful + ?, all_helpful = all_helpful + ?,"
                " all_harmful = all_harmful + ?, updated_at = max(updated_at, ?) WHERE id = ? RETURNING n, content_of",
                (helpful, harmful, helpful, harmful, stamp.at, entry_id),
            ).fetchone()
            if row is None:
                raise rows.missing(entry_id)
            number, content_of = row
            if score is not None:
                _rate(connection, number, score, stamp)
            connection.executemany(
                'INSERT INTO hub_cases(entry, kind, "case", content_of, at, who) VALUES (?, ?, ?, ?, ?, ?)',
                [(number, kind, case, content_of, stamp.at, stamp.who) for kind, case in cases],
            )

    def was_done(self, once: Once) -> bool:
        """See `EntryStore.was_done`."""
        with self._reading() as connection:
            return connection is not None and bool(_known(connection, once))

    def rewritten(
        self,
        entry_id: str,
        version: int,
        said: Said,
        stamp: Stamp,
        *,
        content_of: int = 0,
        once: Once | None = None,
    ) -> Entry:
        """See `EntryStore.rewritten`."""
        with self._changing() as change:
            merging.rewrite(change.connection, entry_id, version, said, stamp, content_of=content_of)
            if once:
                _remember(change.connection, once, entry_id, stamp)
            return rows.read(change.connection, entry_id)

    def retired(self, entry_id: str, stamp: Stamp, *, back: bool = False) -> Entry:
        """See `EntryStore.retired`."""
        with self._changing() as change:
            merging.retire(change.connection, entry_id, stamp, back=back)
            return rows.read(change.connection, entry_id)

    def versions(self, entry_id: str) -> tuple[Version, ...]:
        """See `EntryStore.versions`."""
        with self._reading() as connection:
            if connection is None:
                raise rows.missing(entry_id)
            return rows.versions(connection, rows.number_of(connection, entry_id))

    def ratings(self, entry_id: str) -> tuple[Rating, ...]:
        """See `EntryStore.ratings`."""
        with self._reading() as connection:
            if connection is None:
                raise rows.missing(entry_id)
            number = rows.number_of(connection, entry_id)
            found = connection.execute("SELECT score, at, who FROM hub_scores WHERE entry = ? ORDER BY n", (number,))
            if ratings := tuple(Rating(*row) for row in found):
                return ratings
            row = connection.execute(f"SELECT {_FIRST_RATING} FROM hub_entries WHERE n = ?", (number,))  # noqa: S608
            return (Rating(*row.fetchone()),)

    def deleted(self, entry_id: str, stamp: Stamp) -> None:
        """See `EntryStore.deleted`."""
        with self._changing(documents=True) as change:
            connection = change.connection
            number = rows.number_of(connection, entry_id)
            change.remove(entry_id)
            merging.let_go(connection, entry_id, stamp.at)
            connection.execute("DELETE FROM hub_keys WHERE answer = ?", (entry_id,))
            connection.execute("DELETE FROM hub_entries WHERE n = ?", (number,))

    # Looking

    def ranked(self, words: str, kinds: Sequence[Kind], at_once: int) -> Iterator[Ranked]:
        """See `EntryStore.ranked`."""
        filter: dict[str, JsonValue] | None = {"type": {"in": list(kinds)}} if kinds else None
        cursor = None
        while True:
            page = self._provider.query(
                Query(query=words, top_k=min(at_once, _MOST_AT_ONCE), filter=filter, cursor=cursor)
            )
            for hit in page.hits:
                yield Ranked(hit.source_id, hit.score)
            cursor, at_once = page.next_cursor, at_once * 4
            if cursor is None:
                return

    def overviews(self, kinds: Sequence[Kind]) -> Iterator[Overview]:
        """See `EntryStore.overviews`."""
        conditions, values = _conditions(kinds, "active")
        query = (
            f"SELECT id, kinds, substr(scenario, 1, {ROUTED_CHARS}), score, helpful, harmful, updated_at"  # noqa: S608
            f" FROM hub_entries {_where(conditions)} ORDER BY id"
        )
        with self._reading() as connection:
            found = connection.execute(query, values).fetchall() if connection else []
        for entry_id, kinds_text, scenario, score, helpful, harmful, updated_at in found:
            quality = quality_score(score, helpful, harmful)
            yield Overview(entry_id, tuple(json.loads(kinds_text)), scenario, quality, updated_at)

    def size(self) -> tuple[int, int]:
        """See `EntryStore.size`."""
        with self._reading() as connection:
            if connection is None:
                return 0, 0
            (everything,) = connection.execute("SELECT count(*) FROM hub_entries").fetchone()
            (active,) = connection.execute("SELECT count(*) FROM hub_entries WHERE status = 'active'").fetchone()
            return everything, active

    def texts(self, at_once: int = _MOST_AT_ONCE) -> Iterator[Entry]:
        """See `EntryStore.texts`."""
        query = (
            f"SELECT {rows.COLUMNS} FROM hub_entries"  # noqa: S608
            " WHERE status = 'active' AND id > ? ORDER BY id LIMIT ?"
        )
        last = ""
        while True:
            with self._reading() as connection:
                found = connection.execute(query, (last, at_once)).fetchall() if connection else []
            yield from map(rows.entry_of, found)
            if len(found) < at_once:
                return
            last = found[-1][0]

    # Merges

    def merged(self, merge: Merge, versions: dict[str, int], stamp: Stamp) -> Merged:
        """See `EntryStore.merged`."""
        with self._changing() as change:
            return merging.apply(change.connection, merge, versions, stamp)

    def unmerged(self, merge_id: int, stamp: Stamp) -> Entry:
        """See `EntryStore.unmerged`."""
        with self._changing() as change:
            return rows.read(change.connection, merging.undo(change.connection, merge_id, stamp))

    def merges(self) -> tuple[Merged, ...]:
        """See `EntryStore.merges`."""
        with self._reading() as connection:
            return merging.applied(connection) if connection else ()

    # All of it

    def dump(self) -> Iterator[dict[str, object]]:
        """See `EntryStore.dump`."""
        # All of one state: what a merge moves from one entry to another must not come twice, nor be missing.
        with self._reading() as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM hub_entries ORDER BY id")] if connection else []
            for entry_id in ids:
                assert connection is not None
                yield transfer.record_of(connection, entry_id)

    def load(self, records: Iterable[dict[str, object]], stamp: Stamp) -> tuple[int, int]:
        """See `EntryStore.load`."""
        with self._changing() as change:
            return transfer.load(change.connection, records, stamp)

    def backup(self, path: str) -> None:
        """See `EntryStore.backup`."""
        self._adapter.backup(path)

    def close(self) -> None:
        """See `EntryStore.close`."""
        self._adapter.dispose()

    # The index of words

    def index(self) -> str:
        """Puts what was saved meanwhile into the index; why that could not be done, or nothing."""
        try:
            while self._waiting():
                with self._changing(documents=True) as change:
                    _index(change)
        except (BusyError, ReadOnlyError, StorageFullError) as error:
            return f"What was saved lately may be missing: {error.problem}"
        return ""

    def _waiting(self) -> bool:
        with self._reading() as connection:
            if connection is None:
                return False
            return connection.execute("SELECT 1 FROM hub_entries WHERE pending = 1 LIMIT 1").fetchone() is not None

    # The file

    @contextmanager
    def _changing(self, *, documents: bool = False) -> Iterator[Transaction]:
        with self._adapter.transaction(documents=documents) as change:
            if change.connection is not self._made:
                _check_version(version_of(change.connection))
                migrate(change.connection)
            yield change
        self._made = change.connection  # not before it is stored that they were made

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection; None while there are no tables of the hub."""
        with self._adapter.snapshot() as connection:
            version = version_of(connection)
            _check_version(version)
            yield connection if version else None


def _index(change: Transaction) -> None:
    connection = change.connection
    query = f"SELECT {rows.COLUMNS} FROM hub_entries WHERE pending = 1 ORDER BY n LIMIT ?"  # noqa: S608
    some = [rows.entry_of(row) for row in connection.execute(query, (_INDEXED_AT_ONCE,)).fetchall()]
    for entry in some:
        if entry.status != "active":
            change.remove(entry.id)
    change.put({entry.id: document_of(entry) for entry in some if entry.status == "active"})
    connection.executemany("UPDATE hub_entries SET pending = 0 WHERE id = ?", [(entry.id,) for entry in some])


def _check_version(version: int) -> None:
    if version > SCHEMA:
        raise ConfigurationError(
            f"The hub has version {version}, and this program knows those up to {SCHEMA}",
            mend="Install a later version of kpkit-hub.",
        )


def _conditions(kinds: Sequence[Kind], status: Status | None) -> tuple[list[str], list[str | int]]:
    conditions, values = list[str](), list[str | int]()
    if status is not None:
        conditions.append("status = ?")
        values.append(status)
    if kinds:
        conditions.append("EXISTS (SELECT 1 FROM json_each(kinds) k WHERE k.value IN (SELECT value FROM json_each(?)))")
        values.append(json.dumps(list(kinds)))
    return conditions, values


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _rate(connection: sqlite3.Connection, number: int, score: int, stamp: Stamp) -> None:
    connection.execute(
        f"INSERT INTO hub_scores(entry, score, at, who) SELECT n, {_FIRST_RATING} FROM hub_entries"  # noqa: S608
        " WHERE n = ? AND NOT EXISTS (SELECT 1 FROM hub_scores s WHERE s.entry = hub_entries.n)",
        (number,),
    )
    connection.execute(
        "INSERT INTO hub_scores(entry, score, at, who) VALUES (?, ?, ?, ?)", (number, score, stamp.at, stamp.who)
    )
    connection.execute("UPDATE hub_entries SET score = ? WHERE n = ?", (score, number))


# Keys


def _known(connection: sqlite3.Connection, once: Once) -> str:
    """What was done under a key; nothing if nothing was."""
    row = connection.execute("SELECT asked, answer FROM hub_keys WHERE key = ?", (once.key,)).fetchone()
    if row is None:
        return ""
    if row[0] != once.asked:
        raise ConflictError("That idempotency key stands for something else", mend="Use a new key for each request.")
    return str(row[1])


def _remember(connection: sqlite3.Connection, once: Once, answer: str, stamp: Stamp) -> None:
    connection.execute("DELETE FROM hub_keys WHERE at < datetime(?, ?)", (stamp.at, f"-{_KEY_DAYS} days"))
    connection.execute("INSERT INTO hub_keys VALUES (?, ?, ?, ?)", (once.key, once.asked, answer, stamp.at))
