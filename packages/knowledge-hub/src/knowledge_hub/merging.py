"""What an entry says, changed: rewritten, merged, and both undone. Within the caller's transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from knowledge_engine.errors import ConflictError, NotFoundError
from knowledge_hub import rows
from knowledge_hub.entries import Merge, Merged
from knowledge_hub.store import Said, Stamp
from knowledge_sqlite.errors import decoding

_STATE = "version, content_of, helpful, harmful, score, status, superseded_by, all_helpful, all_harmful"
_AGAIN = "Read the entry again, and repeat the change on what it says now."


def rewrite(
    connection: sqlite3.Connection, entry_id: str, version: int, said: Said, stamp: Stamp, *, content_of: int = 0
) -> None:
    """See `EntryStore.rewritten`."""
    number = rows.number_of(connection, entry_id)
    (present,) = connection.execute("SELECT version FROM hub_entries WHERE n = ?", (number,)).fetchone()
    if present != version:
        raise ConflictError(f"Entry {entry_id!r} has version {present} by now, not {version}", mend=_AGAIN)
    rows.keep_version(connection, number)
    connection.execute(
        "UPDATE hub_entries SET scenario = ?, content = ?, kinds = ?, source = json_set(source, '$.urls', json(?)),"
        " version = version + 1, content_of = ?, helpful = 0, harmful = 0, updated_at = max(updated_at, ?),"
        " said_at = ?, said_by = ?, said_why = ?, pending = 1 WHERE n = ?",
        (
            said.scenario,
            said.content,
            json.dumps(said.tags.type),
            json.dumps(said.urls, ensure_ascii=False),
            content_of or version + 1,
            stamp.at,
            *stamp,
            number,
        ),
    )
    if content_of:
        _count_again(connection, number, content_of)


def _count_again(connection: sqlite3.Connection, number: int, content_of: int) -> None:
    """The counts of a content that is back are those of the feedback which it got."""
    connection.execute(
        "UPDATE hub_entries SET"
        " helpful = (SELECT count(*) FROM hub_cases c WHERE c.entry = ? AND c.content_of = ? AND c.kind = 'helpful'),"
        " harmful = (SELECT count(*) FROM hub_cases c WHERE c.entry = ? AND c.content_of = ? AND c.kind = 'harmful')"
        " WHERE n = ?",
        (number, content_of, number, content_of, number),
    )


def retire(connection: sqlite3.Connection, entry_id: str, stamp: Stamp, *, back: bool) -> None:
    """See `EntryStore.retired`."""
    number = rows.number_of(connection, entry_id)
    before, after = ("retired", "active") if back else ("active", "retired")
    (present,) = connection.execute("SELECT status FROM hub_entries WHERE n = ?", (number,)).fetchone()
    if present != before:
        raise ConflictError(f"Entry {entry_id!r} is {present}, not {before}", mend="Look at what it is now.")
    rows.keep_version(connection, number)
    connection.execute(
        "UPDATE hub_entries SET status = ?, version = version + 1, updated_at = max(updated_at, ?), said_at = ?,"
        " said_by = ?, said_why = ?, pending = 1 WHERE n = ?",
        (after, stamp.at, *stamp, number),
    )


def apply(connection: sqlite3.Connection, merge: Merge, versions: Mapping[str, int], stamp: Stamp) -> Merged:
    """See `EntryStore.merged`."""
    states = {one: _state(connection, one) for one in (merge.keep, *merge.merged)}
    for one, state in states.items():
        if state["version"] != versions.get(one) or state["status"] != "active":
            raise ConflictError(f"Entry {one!r} has changed since the plan was made", mend="Make a new plan.")
    kept = rows.read(connection, merge.keep)
    others = [rows.read(connection, one) for one in merge.merged]
    urls = tuple(dict.fromkeys(url for one in (kept, *others) for url in one.source.urls))
    rewrite(connection, merge.keep, kept.version, Said(merge.scenario, merge.content, merge.tags, urls), stamp)
    # The feedback on what was merged is feedback on what came of it: it all says the same.
    _sum_counts(connection, merge, states)
    number = rows.number_of(connection, merge.keep)
    cases = []
    for one in merge.merged:
        other = rows.number_of(connection, one)
        cases += _move_cases(connection, other, number)
        connection.execute(
            "UPDATE hub_entries SET status = 'superseded', superseded_by = ?, pending = 1,"
            " updated_at = max(updated_at, ?) WHERE n = ?",
            (merge.keep, stamp.at, other),
        )
    cursor = connection.execute(
        "INSERT INTO hub_merges(keep, merged, before, at, who) VALUES (?, ?, ?, ?, ?)",
        (
            merge.keep,
            json.dumps(merge.merged),
            json.dumps({"states": states, "cases": cases}),
            stamp.at,
            stamp.who,
        ),
    )
    return Merged(merge_id=int(cursor.lastrowid or 0), keep=merge.keep, merged=merge.merged, at=stamp.at, who=stamp.who)


def _state(connection: sqlite3.Connection, entry_id: str) -> dict[str, Any]:
    number = rows.number_of(connection, entry_id)
    row = connection.execute(f"SELECT {_STATE} FROM hub_entries WHERE n = ?", (number,)).fetchone()  # noqa: S608
    return dict(zip(_STATE.split(", "), row, strict=True))


def _sum_counts(connection: sqlite3.Connection, merge: Merge, states: Mapping[str, Mapping[str, int]]) -> None:
    others = [states[one] for one in merge.merged]
    everyone = [states[merge.keep], *others]
    connection.execute(
        "UPDATE hub_entries SET helpful = ?, harmful = ?, score = ?, all_helpful = all_helpful + ?,"
        " all_harmful = all_harmful + ? WHERE id = ?",
        (
            sum(one["helpful"] for one in everyone),
            sum(one["harmful"] for one in everyone),
            max(one["score"] for one in everyone),
            sum(one["all_helpful"] for one in others),
            sum(one["all_harmful"] for one in others),
            merge.keep,
        ),
    )


def _move_cases(connection: sqlite3.Connection, other: int, kept: int) -> list[tuple[int, int, int]]:
    """Cases go with what they say; their numbers, and what they belonged to."""
    found = connection.execute("SELECT n, entry, content_of FROM hub_cases WHERE entry = ?", (other,)).fetchall()
    connection.execute(
        "UPDATE hub_cases SET entry = ?, content_of = (SELECT content_of FROM hub_entries WHERE n = ?) WHERE entry = ?",
        (kept, kept, other),
    )
    return [tuple(row) for row in found]


@decoding()
def undo(connection: sqlite3.Connection, merge_id: int, stamp: Stamp) -> str:
    """See `EntryStore.unmerged`; the id of the entry that was kept."""
    row = connection.execute("SELECT keep, merged, before, undone FROM hub_merges WHERE n = ?", (merge_id,)).fetchone()
    if row is None:
        raise NotFoundError(f"There is no merge {merge_id}", mend="List the merges for its number.")
    keep, merged, before = row[0], json.loads(row[1]), json.loads(row[2])
    if row[3]:
        raise ConflictError(f"Merge {merge_id} was undone already", mend="Nothing is left to do.")
    state = before["states"][keep]
    number = rows.number_of(connection, keep)
    present = rows.read(connection, keep)
    if present.version != state["version"] + 1:
        raise ConflictError(
            f"Entry {keep!r} was changed after the merge", mend="Revert it to the version of the merge first."
        )
    earlier = next(one for one in rows.versions(connection, number) if one.version == state["version"])
    said = Said(earlier.scenario, earlier.content, earlier.tags, earlier.urls)
    rewrite(connection, keep, present.version, said, stamp, content_of=state["content_of"])
    _give_back(connection, merge_id, keep, before["cases"], stamp.at)
    _take_back(connection, keep, [before["states"][one] for one in merged], state)
    return str(keep)


@decoding()
def let_go(connection: sqlite3.Connection, entry_id: str, at: str) -> None:
    """Gives what was merged into an entry back to where it came from: the entry is about to be deleted."""
    found = connection.execute(
        "SELECT n, before FROM hub_merges WHERE keep = ? AND NOT undone ORDER BY n DESC", (entry_id,)
    ).fetchall()
    for merge_id, before in found:
        _give_back(connection, merge_id, entry_id, json.loads(before)["cases"], at)
    connection.execute(
        "UPDATE hub_entries SET status = 'active', superseded_by = '', pending = 1 WHERE superseded_by = ?",
        (entry_id,),
    )


def _give_back(
    connection: sqlite3.Connection, merge_id: int, keep: str, cases: Sequence[Sequence[int]], at: str
) -> None:
    for case, entry, content_of in cases:
        connection.execute(
            "UPDATE hub_cases SET entry = ?, content_of = ? WHERE n = ? AND EXISTS"
            " (SELECT 1 FROM hub_entries e WHERE e.n = ?)",
            (entry, content_of, case, entry),
        )
    connection.execute(
        "UPDATE hub_entries SET status = 'active', superseded_by = '', pending = 1, updated_at = max(updated_at, ?)"
        " WHERE superseded_by = ? AND id IN (SELECT value FROM json_each((SELECT merged FROM hub_merges WHERE n = ?)))",
        (at, keep, merge_id),
    )
    connection.execute("UPDATE hub_merges SET undone = 1 WHERE n = ?", (merge_id,))


def _take_back(
    connection: sqlite3.Connection, keep: str, others: list[dict[str, Any]], state: Mapping[str, Any]
) -> None:
    """The counts that came with the merge; what was counted since stays in the totals."""
    connection.execute(
        "UPDATE hub_entries SET helpful = ?, harmful = ?, score = ?, all_helpful = all_helpful - ?,"
        " all_harmful = all_harmful - ? WHERE id = ?",
        (
            state["helpful"],
            state["harmful"],
            state["score"],
            sum(one["all_helpful"] for one in others),
            sum(one["all_harmful"] for one in others),
            keep,
        ),
    )


@decoding()
def applied(connection: sqlite3.Connection) -> tuple[Merged, ...]:
    """See `EntryStore.merges`."""
    found = connection.execute("SELECT n, keep, merged, at, who, undone FROM hub_merges ORDER BY n DESC").fetchall()
    return tuple(
        Merged(merge_id=n, keep=keep, merged=tuple(json.loads(merged)), at=at, who=who, undone=bool(undone))
        for n, keep, merged, at, who, undone in found
    )
