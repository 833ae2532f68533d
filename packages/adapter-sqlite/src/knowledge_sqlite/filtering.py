"""Which documents a filter lets through, decided where they are stored."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from knowledge_engine.answers import Listed
from knowledge_engine.filters import Filter
from knowledge_sqlite.conditions import Condition, condition_of
from knowledge_sqlite.metadata_indexes import indexed

#: Of so many documents each is looked at by itself before all are, and of this part of all.
_LEAST_ALONE, _PART_ALONE = 500, 16

Numbers = npt.NDArray[np.int64]


class Passing:
    """What one filter lets through in one state of the file, found out as far as somebody asks.

    A search asks for the documents of its best passages. If they pass, the others need not be looked at; if too few
    do, all are: that costs at most a little more than having looked at all of them at once.
    """

    def __init__(self, connection: sqlite3.Connection, wanted: Filter) -> None:
        """The connection runs no statement of another filter meanwhile."""
        self._connection = connection
        self._condition = _prepared(connection, wanted)
        self._all: Numbers | None = None
        self._asked = self._passed = np.zeros(0, np.int64)
        (last,) = connection.execute("SELECT coalesce(max(n), 0) FROM documents").fetchone()
        self._patience = max(_LEAST_ALONE, last // _PART_ALONE)

    def all(self) -> Numbers:
        """`documents.n` of all that it lets through, ascending."""
        if self._all is None:
            rows = self._connection.execute(self._select(), self._condition.parameters)
            self._all = np.fromiter(chain.from_iterable(rows), np.int64)
        return self._all

    def known(self) -> Numbers | None:
        """As `all`, if that was found out already, or an index tells it; else None."""
        if self._all is None and self._is_indexed:
            return self.all()
        return self._all

    def among(self, documents: Numbers) -> npt.NDArray[np.bool_]:
        """Of each of some documents, given by their numbers, whether it is let through."""
        if self.known() is None:
            new = np.setdiff1d(documents, self._asked)
            if len(self._asked) + len(new) <= self._patience:
                self._look_at(new)
                return np.isin(documents, self._passed)
        return np.isin(documents, self.all())

    @cached_property
    def _is_indexed(self) -> bool:
        rows = self._connection.execute(f"EXPLAIN QUERY PLAN {self._select()}", self._condition.parameters)
        return not any(row[3].startswith("SCAN") and "documents" in row[3] for row in rows)

    def _select(self) -> str:
        return f"SELECT n FROM documents WHERE {self._condition.sql} ORDER BY n"  # noqa: S608

    def _look_at(self, documents: Numbers) -> None:
        rows = self._connection.execute(
            "SELECT n FROM (SELECT value AS asked FROM json_each(:asked)) CROSS JOIN documents ON n = asked"  # noqa: S608
            f" WHERE {self._condition.sql}",
            {**self._condition.parameters, "asked": json.dumps(documents.tolist())},
        )
        self._passed = np.concatenate((self._passed, np.fromiter(chain.from_iterable(rows), np.int64)))
        self._asked = np.concatenate((self._asked, documents))


def matching(connection: sqlite3.Connection, wanted: Filter) -> Numbers:
    """`documents.n` of all that a filter lets through, ascending."""
    return Passing(connection, wanted).all()


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
