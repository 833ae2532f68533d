"""Storing one and many: rows, passages and index change together."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer
from knowledge_engine.errors import (
    ConfigurationError,
    ConflictError,
    InvalidArgumentError,
    KnowledgeError,
    NotFoundError,
)
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import IngestRequest, Query
from knowledge_engine.ports import BulkIngestingProvider, ErasingProvider
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings, bulk

Open = Callable[..., SqliteKnowledgeAdapter]


def put(adapter: Any, source_id: str, text: str | bytes, **more: Any) -> None:
    adapter.ingest(IngestRequest(id=source_id, content=text.encode() if isinstance(text, str) else text, **more))


def found(adapter: Any, words: str, **more: Any) -> list[str]:
    return [hit.source_id for hit in adapter.query(Query(query=words, **more)).hits]


# One


def test_a_replaced_document_is_found_by_its_new_words_only(open_db: Open) -> None:
    adapter = open_db()
    put(adapter, "x.md", "## Use\nalpha-old\n")
    put(adapter, "x.md", "## Use\nbeta-new\n")
    assert (found(adapter, "old"), found(adapter, "beta-new")) == ([], ["x.md"])
    assert adapter.check() == ()


@pytest.mark.parametrize(
    "words",
    [
        "AND",
        "OR NOT",
        "valve OR",
        "NEAR(",
        "NEAR(a b, 3",
        '"open',
        '"valve" "',
        'valve"',
        '""',
        "()",
        "+",
        "a + b",
        "'",
        "; DROP TABLE documents;--",
        "*",
        "^valve",
        "words:valve",
    ],
)
def test_operators_are_words_that_people_type(open_db: Open, words: str) -> None:
    adapter = open_db(":memory:")
    put(adapter, "a.md", "# A\n\nnear and or not the valve\n")
    reference = MemoryProvider({"a.md": b"# A\n\nnear and or not the valve\n"})
    assert found(adapter, words) == found(reference, words)
    assert adapter.check() == ()


def test_a_nul_only_separates_words(open_db: Open) -> None:
    adapter = open_db(":memory:")
    put(adapter, "a.md", "valve open")
    assert found(adapter, "valve\0open") == ["a.md"]


def test_what_has_no_index_row_any_more_is_not_found_and_repair_finds_it_again(open_db: Open) -> None:
    adapter = open_db()
    put(adapter, "a.md", "alpha")
    put(adapter, "b.md", "bravo gone")
    with adapter._database.writing() as connection:
        connection.execute("PRAGMA defer_foreign_keys = 1")
        connection.execute("DELETE FROM documents WHERE id = 'b.md'")
    assert found(adapter, "bravo") == []
    assert adapter.check() != ()
    adapter.repair()
    assert adapter.check() == ()
    assert (found(adapter, "alpha"), found(adapter, "bravo")) == (["a.md"], [])


def test_a_filter_of_any_length_is_answered_or_refused_with_a_code(open_db: Open) -> None:
    adapter = open_db(":memory:")
    put(adapter, "a.md", "---\ntag: x\n---\nbody")
    for value in ("a" * 60_000, ["a" * 100] * 2_000, "%" * 60_000):
        with suppress(KnowledgeError):
            assert adapter.list_sources(filter={"tag": value}).sources == ()
            assert found(adapter, "body", filter={"tag": value}) == []


TEXTS = {
    "a.md": "# A\n\nS7-1200 and C++ on node.js at 38.101\n",
    "b.md": "# B\n\nmodbus_tcp straße 先检查冷却\n",
    "c.md": "# C\n\nreadCoilStatus don't\n",
}


@pytest.mark.parametrize(
    "words", ["S7-1200", "C++", "node.js", "38.101", "modbus tcp", "strasse", "冷却", "冷", "coil", "don't"]
)
def test_identifiers_and_scripts_are_found_as_everywhere(open_db: Open, words: str) -> None:
    adapter, reference = open_db(":memory:"), MemoryProvider({name: text.encode() for name, text in TEXTS.items()})
    for name, text in TEXTS.items():
        put(adapter, name, text)
    assert found(adapter, words) == found(reference, words) != []


def test_a_failed_write_leaves_other_threads_words_alone(open_db: Open) -> None:
    adapter = open_db()
    put(adapter, "taken.md", "taken")
    errors: list[BaseException] = []

    def run(work: Callable[[int], None]) -> None:
        try:
            for number in range(60):
                work(number)
        except BaseException as error:
            errors.append(error)

    def refused(number: int) -> None:
        with pytest.raises(ConflictError):
            put(adapter, "taken.md", "other", if_match="")

    def stored(number: int) -> None:
        put(adapter, f"{number}.md", " ".join(f"w{number}x{each}" for each in range(30)))

    threads = [threading.Thread(target=run, args=(work,)) for work in (refused, stored, refused)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert adapter.check() == ()
    assert found(adapter, "w59x29") == ["59.md"]


# Many


def requests(count: int, **bad: IngestRequest) -> Iterator[IngestRequest]:
    for number in range(count):
        yield bad.get(f"n{number}") or IngestRequest(
            id=f"{number:03}.md", content=f"# N{number}\n\nword{number}".encode()
        )


def test_a_file_that_takes_the_place_of_another_has_its_own_numbers_of_terms(open_db: Open, folder: Path) -> None:
    adapter, other = open_db(), open_db(folder / "other.db")
    for number in range(20):
        put(adapter, f"{number}.md", f"alpha{number} beta{number}")
        put(other, f"{number}.md", f"gamma{number} alpha{number} delta")
    other.backup(str(folder / "copy.db"))
    adapter.dispose()
    adapter = open_db()
    put(adapter, "new.md", "alpha3 alpha7 beta9")
    with adapter._database.alone() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for suffix in ("-wal", "-shm"):
        (folder / f"kb.db{suffix}").unlink(missing_ok=True)
    (folder / "copy.db").replace(folder / "kb.db")
    put(adapter, "later.md", "alpha3 beta9 gamma7")
    assert adapter.check() == ()
    assert sorted(found(adapter, "alpha3 gamma7")) == ["3.md", "7.md", "later.md"]
    assert found(adapter, "beta9") == ["later.md"]


@pytest.mark.parametrize("way", ["erase", "delete", "repair", "restore"])
def test_terms_that_another_one_took_out_get_new_numbers(open_db: Open, folder: Path, way: str) -> None:
    adapter, other = open_db(), open_db()
    put(adapter, "a.md", "alpha beta")
    other.backup(str(folder / "copy.db"))
    put(adapter, "b.md", "gamma delta")
    put(adapter, "b.md", "")  # the words of before stay named
    if way == "erase":
        other.erase_source("b.md")
    elif way == "delete":
        other.delete_source("a.md")
    elif way == "repair":
        other.repair()
    else:
        other.restore(str(folder / "copy.db"))
    put(other, "c.md", "omega")
    put(adapter, "d.md", "alpha gamma delta")
    assert adapter.check() == ()
    assert found(other, "gamma") == ["d.md"]
    assert found(other, "omega") == ["c.md"]


def test_documents_that_are_indexed_as_others_read_are_told_of(open_db: Open) -> None:
    adapter = open_db()
    for number in range(40):
        put(adapter, f"{number}.md", f"# N\n\nalpha{number} beta")
    with adapter._database.alone() as connection:  # passages, index and counts agree, and all are wrong
        connection.execute("UPDATE terms SET term = 'swap' WHERE term = 'alpha3'")
        connection.execute("UPDATE terms SET term = 'alpha3' WHERE term = 'alpha7'")
        connection.execute("UPDATE terms SET term = 'alpha7' WHERE term = 'swap'")
    assert found(adapter, "alpha3") == ["7.md"]
    [problem] = adapter.check()
    assert "2 documents are indexed as others read, such as '3.md'" in problem.message
    adapter.repair()
    assert adapter.check() == ()
    assert found(adapter, "alpha3") == ["3.md"]


def test_it_has_the_powers_that_commands_look_for(open_db: Open) -> None:
    adapter = open_db(":memory:")
    assert isinstance(adapter, BulkIngestingProvider)
    assert isinstance(adapter, ErasingProvider)


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_many_documents_are_stored_in_order_and_found(open_db: Open, batch: int) -> None:
    adapter = open_db()
    sources = list(adapter.ingest_many(requests(20), batch=batch))
    assert [source.id for source in sources] == [f"{number:03}.md" for number in range(20)]
    assert {source.status for source in sources} == {"ready"}
    assert found(adapter, "word13") == ["013.md"]
    assert adapter.check() == ()
    assert list(adapter.ingest_many(requests(20))) == sources, "the same bytes once more change nothing"


def test_a_bad_document_is_told_and_does_not_undo_the_others(open_db: Open) -> None:
    adapter = open_db()
    put(adapter, "003.md", "there already")
    sources = list(
        adapter.ingest_many(
            requests(
                6,
                n0=IngestRequest(id="../x.md", content=b"x"),
                n1=IngestRequest(id="utf16.md", content=b"\xff\xfex\0"),
                n3=IngestRequest(id="003.md", text="y", title="T", if_match=""),
                n4=IngestRequest(kind="url", uri="https://example.org/"),
                n5=IngestRequest(id="empty.md"),
            )
        )
    )
    assert [source.status for source in sources] == ["failed", "failed", "ready", "failed", "failed", "failed"]
    codes = [(source.error or "").partition(": ")[0] for source in sources]
    assert codes == ["invalid-id", "invalid-argument", "", "conflict", "not-supported", "invalid-argument"]
    assert (sources[3].id, sources[3].title, sources[3].bytes) == ("003.md", "T", 1)
    assert adapter.list_sources().total == 2
    assert adapter.check() == ()


def test_what_sqlite_itself_refuses_does_not_undo_the_others(open_db: Open) -> None:
    adapter = open_db()
    with adapter._database.alone() as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
    big = IngestRequest(id="big.md", content=b"x " * 100_000)
    sources = list(adapter.ingest_many(requests(5, n2=big, n4=big)))
    assert [source.status for source in sources] == ["ready", "ready", "failed", "ready", "failed"]
    assert (sources[2].error or "").startswith("too-large: ")
    assert [each.id for each in adapter.list_sources().sources] == ["000.md", "001.md", "003.md"]
    assert adapter.check() == ()


def test_documents_are_stored_when_they_are_given_and_taken_while_nothing_is_locked(open_db: Open) -> None:
    adapter, other = open_db(), open_db(busy_timeout_s=0)

    def taken() -> Iterator[IngestRequest]:
        for request in requests(4):
            put(other, f"other-{request.id}", "written meanwhile")
            yield request

    stored = adapter.ingest_many(taken(), batch=2)
    assert next(stored).id == "000.md"
    assert found(other, "word1") == ["001.md"]
    assert found(other, "word2") == []
    stored.close()  # type: ignore[attr-defined]
    assert other.list_sources().total == 4


def test_a_batch_of_long_documents_is_a_smaller_one(open_db: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_MAX_BATCH_BYTES", 100)
    adapter = open_db()
    stored = adapter.ingest_many(IngestRequest(id=f"{number}.md", text="x" * 60) for number in range(4))
    next(stored)
    assert adapter.list_sources().total == 2
    assert len(list(stored)) == 3


def test_a_batch_of_nothing_is_refused_and_no_documents_are_none(open_db: Open) -> None:
    adapter = open_db(":memory:")
    with pytest.raises(InvalidArgumentError, match="at least one"):
        list(adapter.ingest_many(requests(1), batch=0))
    assert list(adapter.ingest_many([])) == []


def test_what_the_caller_raises_undoes_only_what_was_not_given_yet(open_db: Open) -> None:
    adapter = open_db()

    def broken() -> Iterator[IngestRequest]:
        yield from requests(5)
        raise LookupError("the source of them broke")

    with pytest.raises(LookupError):
        list(adapter.ingest_many(broken(), batch=2))
    assert adapter.list_sources().total == 4
    assert adapter.check() == ()


# Whatever is done


IDS = st.sampled_from(["a.md", "b.md", "c/d.md"])
WORDS = st.lists(st.sampled_from(["pump", "valve", "水温", "S7-1200", "running", "café", "'x"]), max_size=8).map(
    " ".join
)
STEP = st.one_of(
    st.tuples(st.just("put"), IDS, WORDS),
    st.tuples(st.just("delete"), IDS, st.just("")),
    st.tuples(st.just("erase"), IDS, st.just("")),
    st.tuples(st.just("supersede"), IDS, IDS),
    st.tuples(st.just("repair"), st.just(""), st.just("")),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=12))
def test_whatever_is_done_file_and_index_agree(steps: list[tuple[str, str, str]]) -> None:
    adapter = SqliteKnowledgeAdapter(SqliteSettings(path=":memory:"))
    calls: dict[str, Callable[[str, str], object]] = {
        "put": lambda one, text: put(adapter, one, text),
        "delete": lambda one, _: adapter.delete_source(one),
        "erase": lambda one, _: adapter.erase_source(one),
        "supersede": adapter.supersede,
        "repair": lambda *_: adapter.repair(),
    }
    for name, one, other in steps:
        with suppress(NotFoundError, InvalidArgumentError):
            calls[name](one, other)
        assert adapter.check() == ()
    before = [found(adapter, word) for word in ("pump", "水温", "S7-1200", "run")]
    adapter.repair()
    assert [found(adapter, word) for word in ("pump", "水温", "S7-1200", "run")] == before
    adapter.dispose()


# Another analyzer


def test_an_index_of_another_analyzer_is_built_anew_when_it_is_opened_for_writing(open_db: Open) -> None:
    german = open_db(analyzer=Analyzer("german"))
    put(german, "a.md", "the pumps are running")
    assert found(german, "run") == []
    reader = open_db(read_only=True)
    assert reader.health_check().index.state == "stale"
    assert [each.code for each in reader.check()] == ["stale"]
    assert reader.query(Query(query="pumps")).index.state == "stale"
    english = open_db()
    assert found(english, "run") == ["a.md"]
    assert english.health_check().index.state == "ready"
    assert reader.health_check().index.state == "ready"
    assert english.check() == ()
    assert german.health_check().index.state == "stale"
    with pytest.raises(ConfigurationError, match="another analyzer"):
        put(german, "b.md", "x")
    german.repair()
    assert (german.check(), found(german, "run")) == ((), [])


def test_a_file_that_cannot_be_rebuilt_is_not_opened_half_way(open_db: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    put(open_db(analyzer=Analyzer("german")), "a.md", "the pumps are running")
    from knowledge_sqlite import adapter as module

    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("no")

    english = open_db()
    with monkeypatch.context() as patch:
        patch.setattr(module, "rebuild", broken)
        with pytest.raises(KnowledgeError):
            put(english, "b.md", "x")
    put(english, "b.md", "x")
    assert found(english, "run") == ["a.md"]
    assert english.check() == ()
