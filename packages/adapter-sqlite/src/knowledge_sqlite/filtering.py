"""Which documents a filter lets through, decided where they are stored."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from itertools import chain

import numpy as np

from knowledge_engine.answers import Listed
from knowledge_engine.filters import Filter
from knowledge_sqlite.codec import Numbers
from knowledge_sqlite.conditions import Condition, condition_of
from knowledge_sqlite.metadata_indexes import indexed

#: Bounds what is remembered: numbers of documents of all filters together, but for the last one, and filters.
_MAX_NUMBERS, _MAX_FILTERS = 500_000, 64


class Matches:
    """Remembers what filters let through, for as long as the documents are what they were."""

    def __init__(self) -> None:
        # One value, so that threads which see different states of the file do not mix them.
        self._known: tuple[object, dict[bytes, Numbers]] = (None, {})

    def of(self, connection: sqlite3.Connection, wanted: Filter, state: object) -> Numbers:
        """As `matching`. `state` differs when the documents that `connection` sees are others than before."""
        known_state, known = self._known
        full = len(known) >= _MAX_FILTERS or sum(map(len, list(known.values()))) > _MAX_NUMBERS
        if state != known_state or full:
            known = {}
            self._known = (state, known)
        key = hashlib.blake2b(wanted.canonical.encode(), digest_size=16).digest()
        if key not in known:
            known[key] = matching(connection, wanted)
        return known[key]


def matching(connection: sqlite3.Connection, wanted: Filter) -> Numbers:
    """`documents.n` of all that a filter lets through, ascending."""
    condition = _prepared(connection, wanted)
    rows = connection.execute(
        f"SELECT n FROM documents WHERE {condition.sql} ORDER BY n",  # noqa: S608
        condition.parameters,
    )
    return np.fromiter(chain.from_iterable(rows), np.int64)


def listed(connection: sqlite3.Connection, wanted: Filter, after: str | None, count: int) -> Listed:
    """The first `count` ids, ascending, behind `after`, of documents that it lets through, and how many those are."""
    condition = _prepared(connection, wanted)
    # As bytes: a cursor may hold half a character, which has a place in the order and cannot be handed over as text.
    parameters = {**condition.parameters, "count": count, "after": (after or "").encode("utf-8", "surrogatepass")}
    behind = "" if after is None else "WHERE id > CAST(:after AS TEXT)"
    if condition.sql == "1":
        (total,) = connection.execute("SELECT count(*) FROM documents").fetchone()
        ids = connection.execute(f"SELECT id FROM documents {behind} ORDER BY id LIMIT :count", parameters)  # noqa: S608
        return Listed([row[0] for row in ids], total)
    rows = connection.execute(
        f"WITH chosen AS MATERIALIZED (SELECT id FROM documents WHERE {condition.sql})"  # noqa: S608
        f" SELECT total, id FROM (SELECT count(*) AS total FROM chosen)"
        f" LEFT JOIN (SELECT id FROM chosen {behind} ORDER BY id LIMIT :count) ON 1",
        parameters,
    ).fetchall()
    return Listed(sorted(row[1] for row in rows if row[1] is not None), rows[0][0])


def _prepared(connection: sqlite3.Connection, wanted: Filter) -> Condition:
    """The condition, with the functions that it calls."""
    condition = condition_of(wanted, indexed(connection, wanted.keys))
    tests: Sequence[Filter] = condition.tests

    def value(number: int, text: str | None) -> bool:
        return text is not None and tests[number].matches({"": json.loads(text)})

    def document(number: int, metadata: str, source_id: str) -> bool:
        return tests[number].matches(json.loads(metadata), source_id)

    if tests:
        connection.create_function("knowledge_value", 2, value)
        connection.create_function("knowledge_document", 3, document)
    return condition
