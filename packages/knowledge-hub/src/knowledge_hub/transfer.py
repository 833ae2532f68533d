"""Entries with all that is known of them, as JSON: out of one hub and into another. Within the caller's transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import Field, JsonValue, model_validator

from knowledge_engine.errors import ConflictError
from knowledge_engine.models import Value
from knowledge_hub import rows
from knowledge_hub.entries import Case, CaseKind, Entry, Name, Score, Version
from knowledge_hub.store import Stamp
from knowledge_sqlite.errors import decoding


class CaseRecord(Value):
    """One feedback."""

    kind: CaseKind
    case: Case
    #: The version whose content it is about.
    content_of: int = Field(ge=1)
    at: str
    who: Name = ""


class RatingRecord(Value):
    """One rating."""

    score: Score
    at: str
    who: Name = ""


class Record(Value):
    """An entry as it is exported."""

    entry: Entry
    #: All but the last are earlier ones; the last is what the entry says. None: it never said anything else.
    versions: tuple[Version, ...] = ()
    #: None where only the entry is known: its own histories are taken for them.
    cases: tuple[CaseRecord, ...] | None = None
    ratings: tuple[RatingRecord, ...] = ()

    @model_validator(mode="after")
    def _one_history(self) -> Self:
        numbers = [one.version for one in self.versions]
        if numbers != sorted(set(numbers)):
            raise ValueError("the versions are not in order, or one comes twice")
        if self.versions and not self._ends_with_the_entry(self.versions[-1]):
            raise ValueError("the last version is not what the entry says")
        return self

    def _ends_with_the_entry(self, last: Version) -> bool:
        entry = self.entry
        said = (entry.version, entry.scenario, entry.content, entry.tags, entry.source.urls)
        return (last.version, last.scenario, last.content, last.tags, last.urls) == said


@decoding()
def record_of(connection: sqlite3.Connection, entry_id: str) -> dict[str, object]:
    """See `EntryStore.dump`.

    Raises:
        NotFoundError: When there is no such entry.
    """
    number = rows.number_of(connection, entry_id)
    entry = rows.read(connection, entry_id)
    cases = connection.execute(
        'SELECT kind, "case", content_of, at, who FROM hub_cases WHERE entry = ? ORDER BY n', (number,)
    ).fetchall()
    ratings = connection.execute(
        "SELECT score, at, who FROM hub_scores WHERE entry = ? ORDER BY n", (number,)
    ).fetchall()
    without = entry.model_copy(
        update={"eval": entry.eval.model_copy(update={"helpful_history": (), "harmful_history": ()})}
    )
    return {
        "entry": without.model_dump(mode="json"),
        "versions": [one.model_dump(mode="json", exclude={"diff"}) for one in rows.versions(connection, number)],
        "cases": [
            {"kind": kind, "case": json.loads(case), "content_of": content_of, "at": at, "who": who}
            for kind, case, content_of, at, who in cases
        ],
        "ratings": [{"score": score, "at": at, "who": who} for score, at, who in ratings],
    }


def load(connection: sqlite3.Connection, records: Iterable[dict[str, object]], stamp: Stamp) -> tuple[int, int]:
    """See `EntryStore.load`. Records were checked before."""
    added = same = 0
    for given in records:
        record = Record.model_validate(given)
        if not rows.some(connection, [record.entry.id]):
            _insert(connection, record, stamp)
            added += 1
        elif _same(record_of(connection, record.entry.id), record):
            same += 1
        else:
            raise ConflictError(
                f"There is another entry {record.entry.id!r}", mend="Delete one of them, or leave this line out."
            )
    return added, same


def _same(present: Mapping[str, object], record: Record) -> bool:
    mine, theirs = Record.model_validate(present), record
    if theirs.cases is None and not theirs.versions:  # the bare entry
        return _bare(mine.entry) == _bare(theirs.entry)
    return (_bare(mine.entry), mine.versions, mine.cases) == (_bare(theirs.entry), theirs.versions, theirs.cases)


def _bare(entry: Entry) -> Entry:
    return entry.model_copy(
        update={"eval": entry.eval.model_copy(update={"helpful_history": (), "harmful_history": ()})}
    )


def _insert(connection: sqlite3.Connection, record: Record, stamp: Stamp) -> None:
    entry = record.entry
    earlier, last = record.versions[:-1], record.versions[-1] if record.versions else None
    said = (last.at, last.who, last.why) if last else (entry.created_at or stamp.at, stamp.who, "imported")
    filled = entry.model_copy(
        update={"created_at": entry.created_at or stamp.at, "updated_at": entry.updated_at or stamp.at}
    )
    number = rows.insert(connection, filled, said, last.content_of if last else 0)
    connection.executemany(
        "INSERT INTO hub_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_version_row(number, one) for one in earlier],
    )
    cases = record.cases if record.cases is not None else _histories(entry, last.content_of if last else entry.version)
    connection.executemany(
        'INSERT INTO hub_cases(entry, kind, "case", content_of, at, who) VALUES (?, ?, ?, ?, ?, ?)',
        [
            (number, one.kind, json.dumps(one.case, ensure_ascii=False), one.content_of, one.at or stamp.at, one.who)
            for one in cases
        ],
    )
    connection.executemany(
        "INSERT INTO hub_scores(entry, score, at, who) VALUES (?, ?, ?, ?)",
        [(number, one.score, one.at, one.who) for one in record.ratings],
    )


def _version_row(number: int, one: Version) -> tuple[Any, ...]:
    return (
        number,
        one.version,
        one.at,
        one.who,
        one.why,
        json.dumps(one.tags.type),
        one.scenario,
        one.content,
        json.dumps(one.urls, ensure_ascii=False),
        one.status,
        one.superseded_by,
        one.content_of,
    )


def _histories(entry: Entry, content_of: int) -> list[CaseRecord]:
    """The feedback of an entry that comes alone, as other hubs give it."""
    histories: list[tuple[CaseKind, tuple[dict[str, JsonValue], ...]]] = [
        ("helpful", entry.eval.helpful_history),
        ("harmful", entry.eval.harmful_history),
    ]
    return [
        CaseRecord(kind=kind, case=case, content_of=content_of, at=entry.updated_at)
        for kind, history in histories
        for case in history
    ]
