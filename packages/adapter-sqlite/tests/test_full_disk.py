"""A disk that takes no more: nothing is half written, and what was there stays."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knowledge_engine.errors import KnowledgeError, StorageFullError
from knowledge_engine.models import IngestRequest, Query
from knowledge_sqlite import SqliteKnowledgeAdapter

Open = Callable[..., SqliteKnowledgeAdapter]
BIG = " ".join(f"word{number}" for number in range(30_000)).encode()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def found(adapter: SqliteKnowledgeAdapter, words: str) -> list[str]:
    return [hit.source_id for hit in adapter.query(Query(query=words)).hits]


@pytest.fixture
def adapter(open_db: Open) -> SqliteKnowledgeAdapter:
    adapter = open_db()
    adapter.ingest(IngestRequest(id="a.md", content=b"the old impeller"))
    return adapter


def as_before(adapter: SqliteKnowledgeAdapter) -> None:
    assert adapter.read_source("a.md").content == b"the old impeller"
    assert (found(adapter, "impeller"), found(adapter, "word7")) == (["a.md"], [])
    assert adapter.check() == ()


def test_a_database_that_may_not_grow_keeps_the_old_version_and_goes_on_when_it_may(
    adapter: SqliteKnowledgeAdapter,
) -> None:
    with adapter._database.alone() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    for _ in range(2):
        with pytest.raises(StorageFullError) as caught:
            adapter.ingest(IngestRequest(id="a.md", content=BIG))
        assert caught.value.code == "storage-full"
        as_before(adapter)
    with adapter._database.alone() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    adapter.ingest(IngestRequest(id="a.md", content=BIG))
    assert (found(adapter, "impeller"), found(adapter, "word7")) == ([], ["a.md"])
    assert adapter.check() == ()


def test_a_disk_that_takes_no_more_of_any_write_keeps_what_was_there(
    adapter: SqliteKnowledgeAdapter, folder: Path
) -> None:
    size = max(each.stat().st_size for each in folder.iterdir())
    with file_size_limit(size + 50_000):
        with pytest.raises(StorageFullError):
            adapter.ingest(IngestRequest(id="a.md", content=BIG))
        with pytest.raises(StorageFullError):
            list(adapter.ingest_many(IngestRequest(id=f"{number}.md", content=BIG) for number in range(3)))
        assert found(adapter, "impeller") == ["a.md"]
    as_before(adapter)
    adapter.ingest(IngestRequest(id="b.md", content=BIG))
    assert found(adapter, "word7") == ["b.md"]
    assert adapter.check() == ()


@pytest.mark.parametrize("size", [0, 100, 4096, 20_000, 60_000])
def test_a_new_database_on_a_full_disk_is_refused_and_made_later(open_db: Open, folder: Path, size: int) -> None:
    adapter = open_db()
    with file_size_limit(size), pytest.raises(KnowledgeError) as caught:
        adapter.ingest(IngestRequest(id="a.md", content=BIG))
    assert caught.value.code == "storage-full"
    adapter.ingest(IngestRequest(id="a.md", content=b"the old impeller"))
    as_before(adapter)
    adapter.dispose()
    as_before(open_db())


def test_a_repair_on_a_full_disk_changes_nothing(adapter: SqliteKnowledgeAdapter, folder: Path) -> None:
    adapter.ingest(IngestRequest(id="b.md", content=BIG))
    adapter.dispose()
    again = SqliteKnowledgeAdapter(adapter._settings)
    with file_size_limit(50_000), pytest.raises(StorageFullError):
        again.repair()
    assert (found(again, "impeller"), found(again, "word7")) == (["a.md"], ["b.md"])
    assert again.check() == ()
    again.repair()
    assert again.check() == ()
    again.dispose()


def test_a_backup_on_a_full_disk_leaves_no_half_of_one(adapter: SqliteKnowledgeAdapter, folder: Path) -> None:
    adapter.ingest(IngestRequest(id="b.md", content=BIG))
    before = sorted(each.name for each in folder.iterdir())
    with file_size_limit(50_000), pytest.raises(StorageFullError):
        adapter.backup(str(folder / "copy.db"))
    assert sorted(each.name for each in folder.iterdir()) == before
