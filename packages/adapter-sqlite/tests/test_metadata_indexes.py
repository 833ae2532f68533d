"""Indexes on the metadata keys that the host names: made, kept, dropped, and never needed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.errors import InvalidCursorError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import IngestRequest, Query
from knowledge_sqlite import SqliteKnowledgeAdapter
from knowledge_sqlite.metadata_indexes import indexed, literal_value

OpenDb = Callable[..., SqliteKnowledgeAdapter]

TEXT = "---\nkind: {kind}\nyear: 20{number:02}\ntags: [{kind}, n{number}]\n---\nvalve {kind}\n"
DOCUMENTS = {
    f"{number:02}.md": TEXT.format(kind=kind, number=number).encode()
    for number, kind in enumerate(["device", "guide", "Caf\u00e9", "device", "guide", "device", "Cafe\u0301"])
}
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"kind": "device"},
    {"kind": ["guide", "caf\u00e9"]},
    {"kind": "Caf\u00e9"},
    {"tags": "device", "year": {"gte": 2003}},
    {"not": {"kind": "device"}},
    {"knid": "device"},
]


def fill(provider: SqliteKnowledgeAdapter) -> SqliteKnowledgeAdapter:
    for source_id, raw in DOCUMENTS.items():
        provider.ingest(IngestRequest(id=source_id, content=raw))
    return provider


def keys_of(path: Path, keys: Iterable[str] = ("kind", "year", "tags", "owner.name")) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return set(indexed(connection, keys))


def count_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'metadata%'").fetchone()
        return int(count)


def test_indexes_are_made_when_a_file_is_made_and_when_it_is_opened_later(open_db: OpenDb, folder: Path) -> None:
    fill(open_db(indexed_keys=("kind",)))
    assert keys_of(folder / "kb.db") == {"kind"}
    open_db(indexed_keys=("kind", "owner.name", "kind")).list_sources()
    assert keys_of(folder / "kb.db") == {"kind", "owner.name"}
    assert count_of(folder / "kb.db") == 2


def test_whoever_opens_it_with_other_keys_leaves_the_indexes_of_others(open_db: OpenDb, folder: Path) -> None:
    fill(open_db(indexed_keys=("kind",)))
    for keys in (("year",), None, (), ("tags", "kind")):
        open_db(indexed_keys=keys).list_sources()
    assert keys_of(folder / "kb.db") == {"kind", "year", "tags"}
    assert count_of(folder / "kb.db") == 3


@pytest.mark.parametrize(
    ("keys", "left"), [(("year",), {"year"}), ((), set()), (None, {"kind", "tags"}), (("kind",), {"kind"})]
)
def test_a_repair_makes_the_indexes_those_of_the_setting(
    open_db: OpenDb, folder: Path, keys: tuple[str, ...] | None, left: set[str]
) -> None:
    fill(open_db(indexed_keys=("kind", "tags")))
    provider = open_db(indexed_keys=keys)
    provider.repair()
    assert keys_of(folder / "kb.db") == left
    assert count_of(folder / "kb.db") == len(left)
    assert provider.check() == ()
    assert provider.list_sources(filter={"kind": "device"}).total == 3


def test_an_index_of_our_name_on_something_else_is_not_trusted(open_db: OpenDb, folder: Path) -> None:
    fill(open_db())
    path = folder / "kb.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE INDEX metadata_kind ON documents(title)")
        connection.commit()
    assert keys_of(path) == set()
    open_db(indexed_keys=()).repair()
    assert count_of(path) == 1


def test_the_file_is_not_written_when_nothing_is_missing(open_db: OpenDb, folder: Path) -> None:
    fill(open_db(indexed_keys=("kind",))).dispose()
    before = (folder / "kb.db").read_bytes()
    provider = open_db(indexed_keys=("kind",))
    provider.list_sources()
    provider.dispose()
    assert (folder / "kb.db").read_bytes() == before


def test_a_file_in_use_is_read_without_the_index_that_cannot_be_made_now(open_db: OpenDb, folder: Path) -> None:
    fill(open_db())
    provider = open_db(indexed_keys=("kind",), busy_timeout_s=0.05)
    with closing(sqlite3.connect(folder / "kb.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert provider.list_sources(filter={"kind": "device"}).total == 3
        other.execute("ROLLBACK")
    assert keys_of(folder / "kb.db") == set()
    open_db(indexed_keys=("kind",)).list_sources()
    assert keys_of(folder / "kb.db") == {"kind"}


def test_a_file_open_for_reading_only_answers_with_and_without_the_index(open_db: OpenDb, folder: Path) -> None:
    fill(open_db()).dispose()
    provider = open_db(indexed_keys=("kind",), read_only=True)
    assert provider.list_sources(filter={"kind": "device"}).total == 3
    provider.dispose()
    assert keys_of(folder / "kb.db") == set()
    open_db(indexed_keys=("kind",)).list_sources()
    assert open_db(read_only=True).list_sources(filter={"kind": "device"}).total == 3


def test_programs_with_different_keys_open_one_file_at_once(open_db: OpenDb, folder: Path) -> None:
    fill(open_db())
    keys = ["kind", "year", "tags", "owner.name"]
    providers = [open_db(indexed_keys=(key,), busy_timeout_s=60) for key in keys]
    totals: list[int] = []
    threads = [
        threading.Thread(target=lambda one=one: totals.append(one.list_sources(filter={"kind": "device"}).total or 0))
        for one in providers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [3] * 4
    assert keys_of(folder / "kb.db") == set(keys)


def test_changed_documents_are_found_by_their_new_values(open_db: OpenDb) -> None:
    provider = fill(open_db(indexed_keys=("kind",)))
    provider.ingest(IngestRequest(id="00.md", content=b"---\nkind: guide\n---\nvalve\n"))
    provider.delete_source("03.md")
    assert [one.id for one in provider.list_sources(filter={"kind": "device"}).sources] == ["05.md"]
    assert provider.list_sources(filter={"kind": "guide"}).total == 3
    assert provider.check() == ()


def test_a_query_asked_again_sees_what_was_changed_meanwhile_here_and_elsewhere(open_db: OpenDb) -> None:
    provider, other = fill(open_db()), open_db()
    query = Query(query="valve", filter={"kind": "device"}, top_k=20)

    def found() -> list[str]:
        return sorted(hit.source_id for hit in provider.query(query).hits)

    assert found() == found() == ["00.md", "03.md", "05.md"]
    provider.ingest(IngestRequest(id="00.md", content=b"---\nkind: guide\n---\nvalve device\n"))
    assert found() == ["03.md", "05.md"]
    other.delete_source("03.md")
    assert found() == ["05.md"]
    other.ingest(IngestRequest(id="03.md", content=DOCUMENTS["03.md"]))
    assert found() == ["03.md", "05.md"]


def test_every_key_has_an_index_of_its_own() -> None:
    keys = ["a", "a.b", "b", "", ".", "it's", "its", "\u00e9", "e", "source_id", "A"]
    assert len({literal_value(key) for key in keys}) == len(keys)


# --- answers are those of the reference --------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [None, ("kind", "year", "tags")])
@pytest.mark.parametrize("filter", FILTERS)
def test_pages_of_a_listing_are_those_of_the_provider_in_memory(
    open_db: OpenDb, filter: dict[str, Any] | None, keys: tuple[str, ...] | None
) -> None:
    reference = MemoryProvider(DOCUMENTS)
    provider = fill(open_db(indexed_keys=keys))
    cursor = None
    for _ in DOCUMENTS:
        mine = provider.list_sources(filter=filter, limit=2, cursor=cursor)
        theirs = reference.list_sources(filter=filter, limit=2, cursor=cursor)
        assert (mine.total, mine.warnings, mine.next_cursor) == (theirs.total, theirs.warnings, theirs.next_cursor)
        assert [one.id for one in mine.sources] == [one.id for one in theirs.sources]
        cursor = mine.next_cursor
        if cursor is None:
            return
        with pytest.raises(InvalidCursorError):
            provider.list_sources(filter={"other": 1}, cursor=cursor)
    pytest.fail("the pages do not end")


@pytest.mark.parametrize("keys", [None, ("kind", "year", "tags")])
@pytest.mark.parametrize("filter", FILTERS)
def test_queries_find_what_the_provider_in_memory_finds(
    open_db: OpenDb, filter: dict[str, Any] | None, keys: tuple[str, ...] | None
) -> None:
    query = Query(query="valve", filter=filter, top_k=20)
    mine = fill(open_db(indexed_keys=keys)).query(query)
    theirs = MemoryProvider(DOCUMENTS).query(query)
    assert [hit.source_id for hit in mine.hits] == [hit.source_id for hit in theirs.hits]
    assert mine.warnings == theirs.warnings


def test_a_listing_without_a_file_is_empty(open_db: OpenDb) -> None:
    for filter in (None, {"kind": "device"}):
        page = open_db(indexed_keys=("kind",)).list_sources(filter=filter)
        assert (page.total, page.sources, page.next_cursor) == (0, (), None)


def test_an_erased_document_is_in_no_index_either(open_db: OpenDb, folder: Path) -> None:
    provider = fill(open_db(indexed_keys=("kind", "tags")))
    secret = "Zaphod-Unseen-Vendor"
    provider.ingest(
        IngestRequest(id="x.md", content=f"---\nkind: {secret}\ntags: [{secret}, y]\n---\nvalve\n".encode())
    )
    assert provider.list_sources(filter={"kind": secret}).total == 1
    assert provider.erase_source("x.md") == ()
    assert all(secret.encode() not in path.read_bytes() for path in folder.iterdir())
    assert provider.list_sources(filter={"kind": secret}).total == 0
