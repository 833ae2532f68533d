"""Tables of a host's own beside the documents: both change together, or neither does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge_engine.errors import InvalidArgumentError, InvalidIdError, NotFoundError
from knowledge_engine.models import Query
from knowledge_sqlite import SqliteKnowledgeAdapter

Open = Callable[..., SqliteKnowledgeAdapter]


def notes(adapter: SqliteKnowledgeAdapter) -> list[str]:
    with adapter.snapshot() as connection:
        return [row[0] for row in connection.execute("SELECT said FROM notes ORDER BY n")]


@pytest.fixture
def adapter(open_db: Open) -> SqliteKnowledgeAdapter:
    """A database with a table of the host's own."""
    opened = open_db()
    with opened.transaction(documents=False) as change:
        change.connection.execute("CREATE TABLE notes(n INTEGER PRIMARY KEY, said TEXT)")
    return opened


def test_documents_and_rows_are_there_together(adapter: SqliteKnowledgeAdapter, open_db: Open) -> None:
    with adapter.transaction() as change:
        change.put({"a.md": b"# Valve\n", "b.md": b"# Pump\n"}, uri="note:1")
        change.connection.execute("INSERT INTO notes(said) VALUES ('two')")
    other = open_db()
    assert [hit.source_id for hit in other.query(Query(query="pump")).hits] == ["b.md"]
    assert notes(other) == ["two"]
    with adapter.transaction() as change:
        change.put({"a.md": b"# Boiler\n"})
        assert change.remove("b.md")
        assert not change.remove("c.md")
    assert [source.id for source in other.list_sources().sources] == ["a.md"]
    assert other.read_source("a.md").content == b"# Boiler\n"
    assert other.check() == ()


@pytest.mark.parametrize(
    ("documents", "error"),
    [({"a.md": b"# A\n", "../b": b""}, InvalidIdError), ({"a.md": b"\0" * 50}, InvalidArgumentError), (None, KeyError)],
)
def test_a_failure_undoes_both(
    adapter: SqliteKnowledgeAdapter, documents: dict[str, bytes] | None, error: type[Exception]
) -> None:
    def fail() -> None:
        with adapter.transaction() as change:
            change.connection.execute("INSERT INTO notes(said) VALUES ('never')")
            change.put({"z.md": b"# Z\n"})
            if documents is None:
                raise KeyError
            change.put(documents)

    with pytest.raises(error):
        fail()
    assert notes(adapter) == []
    with pytest.raises(NotFoundError):
        adapter.get_source("z.md")
    assert adapter.check() == ()


def test_where_no_document_was_to_change_none_does(adapter: SqliteKnowledgeAdapter) -> None:
    with pytest.raises(InvalidArgumentError, match="documents=True"), adapter.transaction(documents=False) as change:
        change.put({"a.md": b"# A\n"})
    assert adapter.list_sources().total == 0
