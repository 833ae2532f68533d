"""After a delete that was verified, no byte of the text is left."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import ConflictError, NotFoundError
from knowledge_engine.models import IngestRequest, Query
from knowledge_engine.passages import not_text
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings, deleting

Open = Callable[..., SqliteKnowledgeAdapter]
SECRET = "Flibbertigibbet"


def put(adapter: SqliteKnowledgeAdapter, source_id: str, text: str) -> None:
    adapter.ingest(IngestRequest(id=source_id, content=text.encode()))


def filled(adapter: SqliteKnowledgeAdapter, count: int = 30) -> None:
    list(
        adapter.ingest_many(
            IngestRequest(
                id=f"{number}.md",
                content=(f"# Pump {number}\n\n" + f"common{number % 7} words of document{number} here. " * 80).encode(),
            )
            for number in range(count)
        )
    )


def everywhere(folder: Path) -> bytes:
    return b"\n".join(each.read_bytes() for each in sorted(folder.iterdir()) if not each.name.endswith("-shm")).lower()


@pytest.mark.parametrize("closed", [False, True])
def test_no_byte_of_an_erased_document_is_left(open_db: Open, folder: Path, closed: bool) -> None:
    adapter = open_db()
    filled(adapter)
    put(
        adapter, f"{SECRET}/doc.md", f"---\nowner: {SECRET}\n---\n# {SECRET} heading\n\n" + f"The {SECRET} runs. " * 900
    )
    filled(adapter)
    if closed:
        adapter.dispose()
        adapter = open_db()
    assert SECRET.lower().encode() in everywhere(folder)
    assert adapter.erase_source(f"{SECRET}/doc.md") == ()
    assert SECRET.lower().encode() not in everywhere(folder)
    assert SECRET.lower()[:-1].encode() not in everywhere(folder), "nor its stem"
    assert adapter.check() == ()
    assert adapter.list_sources().total == 30
    assert [hit.source_id for hit in adapter.query(Query(query="document7")).hits] == ["7.md"]


def test_words_of_versions_before_are_erased_too(open_db: Open, folder: Path) -> None:
    adapter = open_db()
    filled(adapter, 5)
    put(adapter, "a.md", f"{SECRET} was here")
    put(adapter, "a.md", "quite another text")
    assert adapter.erase_source("a.md") == ()
    assert SECRET.lower()[:-1].encode() not in everywhere(folder)


def test_words_that_others_hold_stay(open_db: Open) -> None:
    adapter = open_db()
    put(adapter, "a.md", "shared zanzibar kumquats")
    put(adapter, "b.md", "shared kumquats alone")
    assert adapter.erase_source("a.md") == ()
    with adapter._database.reading() as connection:
        terms = {term for (term,) in connection.execute("SELECT term FROM terms")}
    assert "zanzibar" not in terms
    assert {"share", "kumquat", "alon"} <= terms
    assert [hit.source_id for hit in adapter.query(Query(query="kumquats")).hits] == ["b.md"]
    assert adapter.check() == ()


def test_an_open_reader_is_told_of_as_what_is_pending(open_db: Open, folder: Path) -> None:
    adapter = open_db(busy_timeout_s=0)
    put(adapter, "a.md", SECRET)
    reader = sqlite3.connect(folder / "kb.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM documents").fetchone()
    left = adapter.erase_source("a.md")
    assert len(left) == 1
    assert "someone reads a state of before" in left[0]
    assert adapter.list_sources().total == 0
    reader.execute("COMMIT")
    adapter.repair()
    assert SECRET.lower().encode() not in everywhere(folder)
    reader.close()


def test_whoever_waits_for_a_reader_keeps_nobody_from_writing(open_db: Open, folder: Path) -> None:
    adapter, other = open_db(busy_timeout_s=60), open_db(busy_timeout_s=60)
    put(adapter, "a.md", SECRET)
    reader = sqlite3.connect(folder / "kb.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM documents").fetchone()
    left: list[tuple[str, ...]] = []
    erasing = threading.Thread(target=lambda: left.append(adapter.erase_source("a.md")))
    erasing.start()
    for number in range(20):
        put(other, f"{number}.md", f"written meanwhile {number}")
        put(adapter, f"more{number}.md", f"by the same process {number}")
    assert left == []
    reader.execute("COMMIT")
    erasing.join()
    reader.close()
    assert left == [()]
    assert SECRET.lower()[:-1].encode() not in everywhere(folder)
    assert (adapter.list_sources().total, adapter.check()) == (40, ())


def test_short_words_do_not_stay_in_the_gaps_of_the_dictionary(open_db: Open, folder: Path) -> None:
    adapter = open_db()
    filled(adapter, 40)
    words = [f"q{number:x}z" for number in range(400)]
    for number in range(0, 400, 4):  # pages of the dictionary are split while they are put in
        put(adapter, f"s{number}.md", " ".join(words[number : number + 4]) + " of a longer text, quite unremarkable")
    for number in range(0, 400, 4):
        adapter.delete_source(f"s{number}.md")
    put(adapter, "last.md", " ".join(words))
    assert adapter.erase_source("last.md") == ()
    text = everywhere(folder)
    assert [word for word in words if word.encode() in text] == []


def test_what_others_hold_too_is_no_trace(open_db: Open) -> None:
    adapter = open_db()
    text = "the very same sentence stands in both of the documents"
    put(adapter, "a.md", text)
    put(adapter, "b.md", f"Copied: {text}")
    assert adapter.erase_source("a.md") == ()


def test_copies_in_the_gaps_of_pages_are_found_and_removed(open_db: Open, folder: Path) -> None:
    adapter = open_db()
    filled(adapter, 40)
    put(adapter, "a.md", SECRET * 3)
    with adapter._database.alone() as connection:
        connection.execute("PRAGMA secure_delete = 0")  # as if the pages were left as they are
    assert adapter.erase_source("a.md") == ()
    assert SECRET.encode() * 2 not in b"".join(each.read_bytes() for each in folder.iterdir())


def test_bytes_that_stay_are_told_of(open_db: Open, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = open_db()
    put(adapter, "a.md", SECRET)
    monkeypatch.setattr(deleting, "present", lambda place, left: [b"still here"])
    assert "Bytes of the text are left" in adapter.erase_source("a.md")[0]


def test_a_failure_after_the_deletion_is_told_and_does_not_hide_it(
    open_db: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = open_db()
    put(adapter, "a.md", SECRET)

    def full(connection: object) -> None:
        error = sqlite3.OperationalError("full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(deleting, "sweep", full)
    assert "disk is full" in adapter.erase_source("a.md")[0]
    assert adapter.list_sources().total == 0


def test_only_what_is_there_and_as_named_is_erased(open_db: Open) -> None:
    adapter = open_db()
    put(adapter, "a.md", "x")
    with pytest.raises(NotFoundError):
        adapter.erase_source("b.md")
    with pytest.raises(ConflictError):
        adapter.erase_source("a.md", if_match="0" * 64)
    assert adapter.list_sources().total == 1


def test_pieces_at_every_place_of_a_file_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "_CHUNK", 1000)
    path = folder / "kb.db"
    path.write_bytes(b"." * 990 + b"over the edge" + b"." * 3000 + b"at the end")
    (folder / "kb.db-wal").write_bytes(b"in the log")
    place = deleting.Place(str(path))
    wanted = [b"over the edge", b"at the end", b"in the log", b"nowhere"]
    assert deleting.present(place, wanted) == sorted(wanted[:3])
    path.unlink()
    assert deleting.present(place, wanted) == [b"in the log"]


@settings(max_examples=40)
@given(st.text(min_size=1, max_size=400))
def test_a_document_of_any_text_can_be_erased(text: str) -> None:
    adapter = SqliteKnowledgeAdapter(SqliteSettings(path=":memory:"))
    if not not_text(text.encode()):
        put(adapter, "a.md", text)
        assert adapter.erase_source("a.md") == ()
        assert adapter.check() == ()
    adapter.dispose()
