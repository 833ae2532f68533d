"""Files that every earlier version made are opened, with all that they hold."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from knowledge_engine.analysis import Analyzer
from knowledge_engine.errors import KnowledgeError, ReadOnlyError
from knowledge_engine.models import IngestRequest, Query
from knowledge_sqlite import SqliteKnowledgeAdapter, schema
from knowledge_sqlite.schema import MIGRATIONS, VERSION, migrate, version_of

Open = Callable[..., SqliteKnowledgeAdapter]
FILES = Path(__file__).parent / "versions"


@pytest.fixture(params=range(1, VERSION + 1))
def old(request: pytest.FixtureRequest, folder: Path) -> Path:
    """A file of that version."""
    path = folder / "kb.db"
    made = (FILES / f"{request.param}.sql").read_text(encoding="utf-8")
    with sqlite3.connect(path) as connection:
        connection.executescript(made.replace("'ANALYZER'", f"'{Analyzer().version}'"))
    connection.close()
    return path


def found(adapter: SqliteKnowledgeAdapter, words: str) -> list[str]:
    return [hit.source_id for hit in adapter.query(Query(query=words)).hits]


def test_every_version_has_a_file_here() -> None:
    assert sorted(each.name for each in FILES.iterdir()) == [f"{number}.sql" for number in range(1, VERSION + 1)]


def test_a_file_of_an_earlier_version_is_opened_with_all_that_it_holds(old: Path, open_db: Open) -> None:
    adapter = open_db()
    assert [each.id for each in adapter.list_sources().sources] == ["guides/pump.md", "old.md", "valve.md"]
    assert adapter.read_source("valve.md").content == "# Ventil größe\n\n水温が高い。\n".encode()
    assert adapter.get_source("valve.md").uri == "import:docs/valve.md"
    assert adapter.get_source("valve.md").indexed_at == "2025-01-02T03:04:05+00:00"
    assert (found(adapter, "impeller"), found(adapter, "水温")) == (["guides/pump.md"], ["valve.md"])
    told = adapter.explain("old.md")
    assert told is not None
    assert told.details == {"superseded_by": "guides/pump.md"}
    assert adapter.check() == ()
    adapter.ingest(IngestRequest(id="new.md", content=b"a new impeller"))
    adapter.delete_source("guides/pump.md")
    assert sorted(found(adapter, "impeller")) == ["new.md", "old.md"]
    assert adapter.check() == ()


def test_a_migrated_file_has_the_tables_of_a_new_one(old: Path, open_db: Open, folder: Path) -> None:
    def tables(path: Path) -> list[tuple[str, str]]:
        with sqlite3.connect(path) as connection:
            rows = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        connection.close()
        return [(name, " ".join((sql or "").split())) for name, sql in rows]

    open_db().check()
    open_db(folder / "new.db").ingest(IngestRequest(id="a.md", content=b"x"))
    assert tables(old) == tables(folder / "new.db")


# Migrations to come


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there was one more."""
    from knowledge_sqlite import database, place

    more = ("ALTER TABLE documents ADD COLUMN note TEXT", "CREATE TABLE extra(x ANY) STRICT")
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, more))
    for module in (schema, database, place):
        monkeypatch.setattr(module, "VERSION", VERSION + 1)


def test_a_migration_keeps_everything_and_is_done_once(
    open_db: Open, folder: Path, request: pytest.FixtureRequest
) -> None:
    adapter = open_db()
    adapter.ingest(IngestRequest(id="a.md", content=b"impeller"))
    adapter.dispose()
    before = hashlib.sha256((folder / "kb.db").read_bytes()).hexdigest()
    request.getfixturevalue("next_version")
    with pytest.raises(ReadOnlyError, match="earlier version"):
        open_db(read_only=True).list_sources()
    assert hashlib.sha256((folder / "kb.db").read_bytes()).hexdigest() == before
    for _ in range(2):
        migrated = open_db()
        assert found(migrated, "impeller") == ["a.md"]
        assert migrated.check() == ()
        migrated.dispose()
    assert open_db(read_only=True).list_sources().total == 1


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    open_db: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = open_db()
    adapter.ingest(IngestRequest(id="a.md", content=b"impeller"))
    adapter.dispose()
    from knowledge_sqlite import database

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE extra(x ANY) STRICT", "CREATE NONSENSE")))
        for module in (schema, database):
            patch.setattr(module, "VERSION", VERSION + 1)
        with pytest.raises(KnowledgeError):
            open_db().list_sources()
    with sqlite3.connect(folder / "kb.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'extra'").fetchone() is None
    connection.close()
    assert found(open_db(), "impeller") == ["a.md"]


def test_a_file_that_another_process_has_just_made_is_not_made_again() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for _ in range(2):
        migrate(connection, "some analyzer")
        assert version_of(connection) == VERSION
    assert connection.execute("SELECT count(*) FROM state").fetchone() == (1,)
    connection.close()
