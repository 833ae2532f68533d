from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    KnowledgeError,
    ProviderError,
    ReadOnlyError,
    UnavailableError,
)
from knowledge_engine.models import IngestRequest, Query
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings
from knowledge_sqlite.place import Place
from knowledge_sqlite.schema import APPLICATION_ID, VERSION

Open = Callable[..., SqliteKnowledgeAdapter]
BODY = b"# Pump\n\nThe impeller turns.\n"


def put(adapter: SqliteKnowledgeAdapter, source_id: str = "a.md", content: bytes = BODY) -> None:
    adapter.ingest(IngestRequest(id=source_id, content=content))


def found(adapter: SqliteKnowledgeAdapter, words: str = "impeller") -> list[str]:
    return [hit.source_id for hit in adapter.query(Query(query=words)).hits]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture
def filled(folder: Path, open_db: Open) -> Path:
    adapter = open_db()
    put(adapter)
    adapter.dispose()
    assert names(folder) == ["kb.db"], "closing leaves one file"
    return folder / "kb.db"


def all_calls(adapter: SqliteKnowledgeAdapter) -> list[Callable[[], Any]]:
    return [
        lambda: put(adapter, "new.md"),
        lambda: found(adapter),
        lambda: adapter.list_sources(),
        lambda: adapter.get_source("a.md"),
        lambda: adapter.delete_source("a.md"),
        lambda: adapter.repair(),
    ]


def refused(path: Path, open_db: Open, kind: type[KnowledgeError], match: str) -> None:
    """Every call, in a new provider and in one that was refused before, raises it; the file stays as it is."""
    before = digest(path) if path.is_file() else ""
    adapter = open_db(path)
    for call in all_calls(adapter):
        with pytest.raises(kind, match=match) as caught:
            call()
        assert caught.value.mend
        assert str(path.parent) not in str(caught.value)
    health = adapter.health_check()
    assert health.status == "down"
    assert health.message
    adapter.dispose()
    if before:
        assert digest(path) == before
        assert not [name for name in names(path.parent) if name.endswith(("-wal", "-shm", "-journal"))]


# What is no database of ours


@pytest.mark.parametrize("content", [b"hello world, this is no database", b"SQLite format 3", b"x" * 5000])
def test_a_file_that_is_no_database_is_refused_and_untouched(folder: Path, open_db: Open, content: bytes) -> None:
    path = folder / "notes.txt"
    path.write_bytes(content)
    refused(path, open_db, ConfigurationError, "no SQLite database")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_another_programs_database_is_refused_and_untouched(folder: Path, open_db: Open, mode: str) -> None:
    path = folder / "app.db"
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA journal_mode = {mode}")
        other.execute("CREATE TABLE t(x)")
    other.close()
    refused_with_tables(path, open_db)


def refused_with_tables(path: Path, open_db: Open) -> None:
    before = digest(path)
    adapter = open_db(path)
    for call in all_calls(adapter):
        with pytest.raises(ConfigurationError, match="another program"):
            call()
    adapter.dispose()
    assert digest(path) == before


def test_another_programs_mark_is_seen_without_opening_the_file(folder: Path, open_db: Open) -> None:
    path = folder / "app.db"
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA application_id = 77")
        other.execute("CREATE TABLE t(x)")
    other.close()
    refused(path, open_db, ConfigurationError, "another program")


def test_the_log_of_another_programs_database_that_is_in_use_is_not_taken_over(folder: Path, open_db: Open) -> None:
    path = folder / "app.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = wal")
    other.execute("CREATE TABLE t(x)")
    before, log = digest(path), digest(folder / "app.db-wal")
    with pytest.raises(ConfigurationError, match="another program"):
        put(open_db(path))
    assert (digest(path), digest(folder / "app.db-wal")) == (before, log)
    other.close()


def test_a_database_of_a_later_version_is_refused_and_untouched(filled: Path, open_db: Open) -> None:
    with sqlite3.connect(filled) as later:
        later.execute(f"PRAGMA user_version = {VERSION + 7}")
    later.close()
    with sqlite3.connect(filled) as later:
        later.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    later.close()
    refused(filled, open_db, ConfigurationError, f"version {VERSION + 7}")


def test_a_later_version_is_seen_in_the_log_too(filled: Path, open_db: Open) -> None:
    later = sqlite3.connect(filled, isolation_level=None)
    later.execute(f"PRAGMA user_version = {VERSION + 7}")
    with pytest.raises(ConfigurationError, match=f"version {VERSION + 7}"):
        put(open_db(), "b.md")
    later.close()


def test_a_folder_is_refused(folder: Path, open_db: Open) -> None:
    (folder / "sub").mkdir()
    refused(folder / "sub", open_db, ConfigurationError, "is a folder")


def test_a_fifo_is_refused_and_not_waited_for(folder: Path, open_db: Open) -> None:
    os.mkfifo(folder / "pipe")
    refused(folder / "pipe", open_db, ConfigurationError, "no regular file")


@pytest.mark.parametrize("path", ["", "a\0b", "a\ud800"])
def test_a_path_that_no_file_has_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="names no file"):
        SqliteKnowledgeAdapter(SqliteSettings(path=path))


# Cut files


@pytest.mark.parametrize("kept", [1, 40, 99])
def test_a_file_cut_in_its_header_is_refused_and_untouched(filled: Path, open_db: Open, kept: int) -> None:
    filled.write_bytes(filled.read_bytes()[:kept])
    refused(filled, open_db, ConfigurationError, "cut off")


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.95])
def test_a_cut_file_is_refused_and_untouched(filled: Path, open_db: Open, kept: float) -> None:
    whole = filled.read_bytes()
    filled.write_bytes(whole[: int(len(whole) * kept)])
    before = digest(filled)
    adapter = open_db()
    for call in all_calls(adapter):
        with pytest.raises(ProviderError, match="damaged") as caught:
            call()
        assert "backup" in caught.value.mend
    assert [each.code for each in adapter.check()] == ["damaged"]
    adapter.dispose()
    assert digest(filled) == before


def test_a_file_cut_to_nothing_is_a_database_without_documents(filled: Path, open_db: Open) -> None:
    filled.write_bytes(b"")
    adapter = open_db()
    assert found(adapter) == []
    assert filled.read_bytes() == b""
    put(adapter)
    assert found(adapter) == ["a.md"]


# What is not there


def test_reading_makes_no_file_and_says_that_there_is_none(folder: Path, open_db: Open) -> None:
    adapter = open_db()
    assert found(adapter) == []
    assert adapter.list_sources().total == 0
    health = adapter.health_check()
    assert health.status == "ok"
    assert "no database yet" in str(health.details["unreadable"])
    assert names(folder) == []
    put(adapter)
    assert found(adapter) == ["a.md"]
    assert "unreadable" not in adapter.health_check().details


def test_a_missing_folder_is_told_and_not_made(folder: Path, open_db: Open) -> None:
    adapter = open_db(folder / "no" / "kb.db")
    with pytest.raises(UnavailableError, match="its folder is there"):
        put(adapter)
    assert found(adapter) == []
    assert names(folder) == []


def test_a_path_through_a_file_is_told(folder: Path, open_db: Open) -> None:
    (folder / "file").write_bytes(b"x")
    refused(folder / "file" / "kb.db", open_db, UnavailableError, "Not a directory")


def test_to_read_only_what_is_not_there_is_refused(folder: Path, open_db: Open) -> None:
    for content in (None, b""):
        if content is not None:
            (folder / "kb.db").write_bytes(content)
        adapter = open_db(read_only=True)
        with pytest.raises(ConfigurationError, match="no such database"):
            found(adapter)
        assert adapter.health_check().status == "down"


# Paths


@pytest.mark.parametrize(
    "name", ["a?b.db", "a#b.db", "a%20b.db", "with blank.db", "größe 水.db", "a'b\".db", "a\\b.db"]
)
def test_signs_in_a_path_are_only_signs(folder: Path, open_db: Open, name: str) -> None:
    adapter = open_db(folder / name)
    put(adapter)
    assert found(adapter) == ["a.md"]
    adapter.dispose()
    assert names(folder) == [name]
    assert found(open_db(folder / name, read_only=True)) == ["a.md"]


def test_a_path_that_is_not_utf8_is_opened(folder: Path, open_db: Open) -> None:
    path = os.fsdecode(os.fsencode(folder) + b"/\xff.db")
    put(open_db(path))
    assert found(open_db(path)) == ["a.md"]


def test_a_path_that_begins_with_two_slashes_is_one(filled: Path, open_db: Open) -> None:
    assert found(open_db(f"/{filled}")) == ["a.md"]


def test_a_relative_path_stays_where_it_was_named(folder: Path, monkeypatch: pytest.MonkeyPatch, open_db: Open) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder)
    adapter = open_db("kb.db")
    monkeypatch.chdir(folder / "elsewhere")
    put(adapter)
    assert found(adapter) == ["a.md"]
    adapter.dispose()
    assert names(folder / "elsewhere") == []
    assert (folder / "kb.db").exists()


def test_a_database_in_memory_is_one_providers_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, open_db: Open
) -> None:
    monkeypatch.chdir(folder)
    first, second = open_db(":memory:"), open_db(":memory:")
    put(first)
    assert (found(first), found(second)) == (["a.md"], [])
    assert first.check() == ()
    assert first.erase_source("a.md") == ()
    first.dispose()
    assert names(folder) == []


# Read only


@pytest.mark.parametrize("live", [False, True])
def test_read_only_refuses_every_write_and_makes_no_file(filled: Path, open_db: Open, live: bool) -> None:
    writer = open_db()
    if live:
        put(writer, "b.md")
    before = names(filled.parent)
    adapter = open_db(read_only=True)
    assert adapter.capabilities.writable is False
    assert sorted(found(adapter)) == (["a.md", "b.md"] if live else ["a.md"])
    assert adapter.check() == ()
    for write in (
        lambda: put(adapter, "c.md"),
        lambda: adapter.delete_source("a.md"),
        lambda: adapter.supersede("a.md", "b.md"),
        lambda: adapter.erase_source("a.md"),
        lambda: list(adapter.ingest_many([IngestRequest(id="c.md", content=b"x")])),
        adapter.repair,
    ):
        with pytest.raises(ReadOnlyError, match="reading only"):
            write()
    adapter.dispose()
    assert names(filled.parent) == before


@pytest.mark.parametrize("settings", [{"read_only": True}, {}])
def test_a_file_and_folder_without_the_right_to_write_can_be_read(
    filled: Path, open_db: Open, unprivileged: Any, settings: dict[str, Any]
) -> None:
    filled.chmod(0o444)
    filled.parent.chmod(0o555)
    before = digest(filled)
    adapter = open_db(**settings)
    with unprivileged():
        assert found(adapter) == ["a.md"]
        assert adapter.check() == ()
        assert adapter.health_check().status == "ok"
        for write in (lambda: put(adapter, "b.md"), lambda: adapter.delete_source("a.md")):
            with pytest.raises(ReadOnlyError) as caught:
                write()
            assert caught.value.code == "read-only"
        adapter.dispose()
    assert names(filled.parent) == ["kb.db"]
    assert digest(filled) == before


def test_a_new_file_in_a_folder_without_the_right_to_write_is_refused(
    folder: Path, open_db: Open, unprivileged: Any
) -> None:
    folder.chmod(0o555)
    adapter = open_db()
    with unprivileged(), pytest.raises(UnavailableError, match="may be written"):
        put(adapter)
    assert names(folder) == []


def test_a_file_that_may_not_be_read_is_refused(filled: Path, open_db: Open, unprivileged: Any) -> None:
    filled.chmod(0o000)
    adapter = open_db()
    with unprivileged(), pytest.raises(UnavailableError, match="cannot be opened"):
        found(adapter)


def test_a_folder_that_may_not_be_entered_is_refused(filled: Path, open_db: Open, unprivileged: Any) -> None:
    adapter = open_db()
    filled.parent.chmod(0o000)
    with unprivileged(), pytest.raises(UnavailableError, match="cannot be opened"):
        found(adapter)
    filled.parent.chmod(0o755)


def test_a_reader_without_locks_sees_what_is_written_later(filled: Path, open_db: Open) -> None:
    reader = open_db(read_only=True)
    assert found(reader) == ["a.md"]
    writer = open_db()
    put(writer, "b.md")
    assert sorted(found(reader)) == ["a.md", "b.md"]
    writer.delete_source("a.md")
    writer.dispose()
    assert found(reader) == ["b.md"]


def test_a_reader_without_locks_says_so_when_the_file_changes_under_it(filled: Path, open_db: Open) -> None:
    reader, writer = open_db(read_only=True), open_db()

    def read(after: Callable[[], Any]) -> None:
        with reader._database.reading() as connection:
            connection.execute("SELECT count(*) FROM documents").fetchone()
            after()

    def fail() -> None:
        writer.dispose()  # takes the log over
        raise sqlite3.DatabaseError("half of a change")

    with pytest.raises(BusyError, match="while it was read"):
        read(lambda: put(writer, "b.md"))
    writer.dispose()
    writer = open_db()
    assert sorted(found(reader)) == ["a.md", "b.md"]
    with pytest.raises(BusyError, match="while it was read"):
        read(lambda: (put(writer, "c.md"), fail()))
    assert sorted(found(reader)) == ["a.md", "b.md", "c.md"]


# Other files, other processes


def test_a_file_that_takes_the_place_of_another_is_opened_anew(filled: Path, folder: Path, open_db: Open) -> None:
    other = open_db(folder / "other.db")
    put(other, "other.md")
    other.dispose()
    adapter = open_db()
    put(adapter, "b.md")
    shutil.copy(folder / "other.db", folder / "copy.db")
    for suffix in ("-wal", "-shm"):
        (folder / f"kb.db{suffix}").unlink(missing_ok=True)
    os.replace(folder / "copy.db", filled)
    assert found(adapter) == ["other.md"]
    put(adapter, "c.md")
    assert sorted(found(open_db())) == ["c.md", "other.md"]
    assert adapter.check() == ()


def test_after_a_fork_each_process_has_connections_of_its_own(filled: Path, open_db: Open) -> None:
    adapter = open_db()
    put(adapter, "parent.md")
    pid = os.fork()
    if not pid:
        try:
            put(adapter, "child.md")
            adapter.dispose()
            adapter.dispose()
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    put(adapter, "after.md")
    assert sorted(found(adapter)) == ["a.md", "after.md", "child.md", "parent.md"]
    assert adapter.check() == ()


def test_a_fork_that_only_ends_touches_nothing(filled: Path, open_db: Open) -> None:
    adapter = open_db()
    put(adapter, "b.md")
    pid = os.fork()
    if not pid:
        adapter.dispose()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    put(adapter, "c.md")
    assert sorted(found(adapter)) == ["a.md", "b.md", "c.md"]


def test_a_provider_that_was_disposed_of_says_so(filled: Path, open_db: Open) -> None:
    adapter = open_db()
    found(adapter)
    with adapter._database.reading():
        adapter.dispose()
    for call in all_calls(adapter):
        with pytest.raises(UnavailableError, match="disposed"):
            call()
    adapter.dispose()


def test_many_readers_at_once_leave_few_connections(filled: Path, open_db: Open) -> None:
    from contextlib import ExitStack

    adapter = open_db()
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(adapter._database.reading())
    assert len(adapter._database._idle) == 8


def test_a_place_tells_what_lies_there(folder: Path) -> None:
    place = Place(os.fspath(folder / "kb.db"))
    assert (place.identity(), place.stamp(), place.is_void()) == (None, None, True)
    place.check()
    (folder / "kb.db-wal").write_bytes(b"x")
    assert place.is_void() is False
    assert Place(":memory:").uri("rwc") == "file::memory:"


def test_a_new_file_has_our_mark(filled: Path) -> None:
    assert int.from_bytes(filled.read_bytes()[68:72]) == APPLICATION_ID
