"""The commands over databases: check, backup, delete --verify, import, export."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.analysis import Analyzer
from knowledge_engine.cli import Session, knowledge
from knowledge_engine.errors import BusyError, ConfigurationError, NotFoundError, ReadOnlyError, UnavailableError
from knowledge_engine.models import IngestRequest, Query
from knowledge_sqlite import SqliteKnowledgeAdapter
from knowledge_sqlite.errors import DamagedError

CONTENTS = "SELECT id, content FROM documents JOIN contents USING (n) ORDER BY id"
Open = Callable[..., SqliteKnowledgeAdapter]


def run(*args: str) -> Result:
    return CliRunner().invoke(knowledge, args, obj=Session(environ={}))


@pytest.fixture
def url(folder: Path) -> str:
    return f"sqlite:///{folder}/kb.db"


@pytest.fixture
def filled(open_db: Open) -> SqliteKnowledgeAdapter:
    adapter = open_db()
    for name in ("a", "b", "c"):
        adapter.ingest(IngestRequest(id=f"{name}.md", content=f"---\nkind: {name}\n---\n# {name}\n\nimpeller".encode()))
    return adapter


def change(adapter: SqliteKnowledgeAdapter, *statements: str) -> None:
    with adapter._database.alone() as connection:
        connection.execute("PRAGMA foreign_keys = 0")
        for statement in statements:
            connection.execute(statement)
        connection.execute("PRAGMA foreign_keys = 1")


# check


def test_a_whole_database_is_ok(filled: SqliteKnowledgeAdapter, url: str) -> None:
    result = run("check", url)
    assert (result.stdout, result.stderr, result.exit_code) == ("ok\n", "", 0)
    assert json.loads(run("check", url, "--json").stdout) == {"problems": [], "repaired": False, "left": []}


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM documents WHERE id = 'b.md'", "dangling"),
        ("UPDATE passages SET layout = CAST(layout || layout AS BLOB)", "passages"),
        ("UPDATE passages SET layout = CAST(x'00000000ffff0000' || substr(layout, 9) AS BLOB)", "passages"),
        ("UPDATE passages SET layout = x'01'", "passages"),
        ("UPDATE passages SET ordinal = 1", "passages"),
        ("UPDATE passages SET term_counts = x''", "passages"),
        ("UPDATE documents SET size = 1 WHERE n = 2", "passages"),
        ("UPDATE documents SET superseded_by = 1 WHERE n = 2", "passages"),
        ("UPDATE documents SET superseded_by = 99 WHERE n = 2", "dangling"),
        ("DELETE FROM passages WHERE block = 1", "index"),
        ("DELETE FROM terms", "index"),
        ("INSERT INTO found(rowid, words) VALUES (99, '1 2')", "index"),
        ("INSERT INTO found(found) VALUES ('delete-all')", "index"),
        ("DELETE FROM found_data WHERE id > 10", "index-damaged"),
        ("UPDATE state SET documents = 9", "state"),
        ("UPDATE state SET length = 9", "state"),
        ("UPDATE state SET revision = '12'", "state"),
        ("DELETE FROM state", "state"),
        ("DELETE FROM keys", "state"),
        ("UPDATE state SET analyzer = 'other'", "stale"),
        ("UPDATE state SET passages = -5", "state"),
        ("UPDATE state SET revision = 'none'", "state"),
        ("UPDATE documents SET metadata = '{'", "damaged"),
        ("UPDATE documents SET metadata = '[]'", "index"),
        ('UPDATE documents SET metadata = \'{"kind": "z"}\'', "index"),
        ("UPDATE documents SET title = 'other'", "index"),
        ("UPDATE documents SET issues = 'none'", "index"),
        ("UPDATE passages SET headings = '[]'", "index"),
        ("UPDATE passages SET term_ids = x'0000'", "passages"),
        ("UPDATE passages SET term_counts = x'00000000' WHERE length(term_counts) = 4", "index"),
        ("UPDATE terms SET term = 'x' || term", "index"),
        ("UPDATE documents SET superseded_by = n", "superseded"),
        ("UPDATE documents SET superseded_by = 3 - n WHERE n < 3", "superseded"),
        ("DELETE FROM found_data", "damaged"),
        ("DROP TABLE found", "damaged"),
        ("DROP TABLE found_words", "damaged"),
        ("DROP TABLE terms", "damaged"),
        ("DROP TABLE passages", "damaged"),
        ("DROP TABLE keys", "damaged"),
        ("DROP TABLE state", "damaged"),
        ("ALTER TABLE terms RENAME COLUMN term TO word", "damaged"),
    ],
)
def test_what_is_wrong_is_told_and_repaired_without_losing_a_document(
    filled: SqliteKnowledgeAdapter, url: str, statement: str, code: str
) -> None:
    change(filled, statement)
    with filled._database.reading() as connection:
        kept = connection.execute(CONTENTS).fetchall()
    _ask_everything(filled)
    told = filled.check()
    assert code in [each.code for each in told]
    assert all(each.message and each.mend for each in told)
    filled.repair()
    assert filled.check() == ()
    assert run("check", url).exit_code == 0
    with filled._database.reading() as connection:
        assert connection.execute(CONTENTS).fetchall() == kept
    wanted = [name for name, _ in kept if "superseded_by = 1" not in statement or name != "b.md"]
    assert sorted(hit.source_id for hit in filled.query(Query(query="impeller")).hits) == wanted


def _ask_everything(adapter: SqliteKnowledgeAdapter) -> None:
    """Whatever is wrong with the rows, there is an answer, or an error that says what to do."""
    calls: list[Callable[[], object]] = [
        adapter.list_sources,
        lambda: adapter.list_sources(filter={"kind": {"ne": "a"}}),
        lambda: adapter.get_source("a.md"),
        lambda: adapter.read_source("a.md"),
        lambda: adapter.query(Query(query="impeller")),
        lambda: adapter.query(Query(query="impeller", filter={"kind": ["a", "b"]})),
        lambda: adapter.explain("a.md"),
    ]
    for call in calls:
        with suppress(DamagedError, NotFoundError):
            call()
    assert adapter.health_check().status in ("ok", "down")


@pytest.mark.parametrize("source_id", ["../../evil", "/a", "a//b", "a\nb\0", ""])
def test_a_document_of_an_id_that_none_can_have_gets_another_one(
    filled: SqliteKnowledgeAdapter, source_id: str
) -> None:
    with filled._database.alone() as connection:
        connection.execute("UPDATE documents SET id = ? WHERE n = 2", (source_id,))
    assert "id" in [each.code for each in filled.check()]
    filled.repair()
    assert filled.check() == ()
    ids = [source.id for source in filled.list_sources().sources]
    assert [each.startswith("recovered/2-") for each in ids] == [False, False, True]
    assert b"# b" in filled.read_source(ids[2]).content


def test_a_document_that_lost_its_bytes_is_told_of_and_stays_until_it_is_stored_again(
    filled: SqliteKnowledgeAdapter, url: str
) -> None:
    change(filled, "DELETE FROM contents WHERE n = 2", "UPDATE documents SET metadata = 'x' WHERE n = 2")
    assert "content-lost" in [each.code for each in filled.check()]
    with pytest.raises(DamagedError):
        filled.read_source("b.md")
    result = run("check", url, "--repair")
    assert (result.exit_code, "'b.md'" in result.stderr) == (1, True)
    assert [each.code for each in filled.check()] == ["content-lost"]
    assert filled.list_sources().total == 3
    assert [hit.source_id for hit in filled.query(Query(query="impeller")).hits] == ["a.md", "c.md"]
    filled.ingest(IngestRequest(id="b.md", content=b"---\nkind: b\n---\n# b\n\nimpeller"))
    assert filled.check() == ()
    assert len(filled.query(Query(query="impeller")).hits) == 3


def test_the_command_tells_what_is_wrong_and_repairs_it(filled: SqliteKnowledgeAdapter, url: str) -> None:
    change(filled, "DELETE FROM keys")
    result = run("check", url)
    assert result.exit_code == 1
    assert result.stdout == "state: The counts of metadata keys are not those of the documents\n"
    assert "--repair" in result.stderr
    repaired = run("check", url, "--repair")
    assert (repaired.stdout.splitlines()[-1], repaired.stderr, repaired.exit_code) == ("repaired", "", 0)
    assert run("check", url).exit_code == 0


def test_a_database_without_its_counts_is_repaired_when_it_is_opened(
    filled: SqliteKnowledgeAdapter, open_db: Open
) -> None:
    change(filled, "DELETE FROM state")
    filled.dispose()
    again = open_db()
    assert again.check() == ()
    assert len(again.query(Query(query="impeller")).hits) == 3


def test_a_database_without_its_counts_says_so_to_whoever_only_reads(
    filled: SqliteKnowledgeAdapter, open_db: Open
) -> None:
    change(filled, "DELETE FROM state")
    filled.dispose()
    reader = open_db(read_only=True)
    assert (reader.health_check().status, "Open it once for writing" in reader.health_check().message) == ("down", True)
    with pytest.raises(DamagedError, match="lacks its counts"):
        reader.query(Query(query="impeller"))


def test_a_document_of_a_broken_index_can_be_erased(filled: SqliteKnowledgeAdapter) -> None:
    change(filled, "DELETE FROM terms")
    assert filled.erase_source("a.md") == ()
    filled.repair()
    assert filled.check() == ()


def test_bytes_that_changed_are_told_of_even_after_a_repair(filled: SqliteKnowledgeAdapter, url: str) -> None:
    change(filled, "UPDATE contents SET content = CAST('# b\n\nbitrot' AS BLOB) WHERE n = 2")
    result = run("check", url, "--repair")
    assert result.exit_code == 1
    assert "repaired, 1 left" in result.stdout
    assert "'b.md'" in result.stderr
    answer = json.loads(run("check", url, "--json", "--repair").stdout)
    assert [each["code"] for each in answer["left"]] == ["content-changed"]
    filled.ingest(IngestRequest(id="b.md", content=b"---\nkind: b\n---\n# b\n\nimpeller"))  # as it was
    assert filled.check() == ()
    change(filled, "UPDATE contents SET content = x'00' WHERE n = 1")
    again = IngestRequest(id="a.md", content=b"---\nkind: a\n---\n# a\n\nimpeller")
    assert [source.status for source in filled.ingest_many([again])] == ["ready"]
    assert filled.check() == ()


def test_a_damaged_page_is_told_of_and_a_repair_that_cannot_be_changes_nothing(
    filled: SqliteKnowledgeAdapter, folder: Path, url: str
) -> None:
    filled.ingest(IngestRequest(id="big.md", content=b"word " * 40_000))
    with filled._database.reading() as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'documents'").fetchone()
    filled.dispose()
    path = folder / "kb.db"
    data = bytearray(path.read_bytes())
    data[(root - 1) * 4096 : (root - 1) * 4096 + 200] = b"\xff" * 200
    path.write_bytes(data)
    result = run("check", url)
    assert result.exit_code == 1
    assert "damaged" in result.stdout
    assert "backup" in result.stderr
    assert run("check", url, "--repair").exit_code == 1
    assert path.read_bytes() == bytes(data)


def test_only_a_sqlite_database_is_checked_and_saved(folder: Path, url: str) -> None:
    for args in (["check", f"files:{folder}"], ["backup", f"files:{folder}", str(folder / "x.db")]):
        result = run(*args)
        assert result.exit_code == 1
        assert "is no SQLite database" in result.stderr
    for args in (["check", url], ["backup", url, str(folder / "x.db")]):
        result = run(*args)
        assert result.exit_code == 1
        assert "no database yet" in result.stderr
    assert list(folder.iterdir()) == []


# backup


def test_a_backup_is_whole_and_one_file_and_replaces_the_one_before(
    filled: SqliteKnowledgeAdapter, open_db: Open, folder: Path, url: str
) -> None:
    copy = folder / "copy.db"
    assert run("backup", url, str(copy)).stdout == f"saved: {copy}\n"
    filled.ingest(IngestRequest(id="d.md", content=b"impeller four"))
    assert json.loads(run("backup", url, str(copy), "--json").stdout) == {"saved": str(copy)}
    assert sorted(each.name for each in folder.iterdir() if each.name.startswith("copy")) == ["copy.db"]
    saved = open_db(copy)
    assert (saved.list_sources().total, saved.check()) == (4, ())
    assert saved.health_check().index == filled.health_check().index


def test_a_backup_is_of_one_state_while_others_write(
    filled: SqliteKnowledgeAdapter, open_db: Open, folder: Path
) -> None:
    for number in range(5):
        filled.ingest(IngestRequest(id=f"{number}.md", content=b"x " * 1000))
        open_db(read_only=True).backup(str(folder / "copy.db"))
        saved = open_db(folder / "copy.db")
        assert (saved.list_sources().total, saved.check()) == (4 + number, ())
        saved.dispose()


def test_a_backup_replaces_nothing_else(filled: SqliteKnowledgeAdapter, open_db: Open, folder: Path) -> None:
    notes, app, live = folder / "notes.txt", folder / "app.db", folder / "live.db"
    notes.write_text("my notes, which are no database at all")
    with sqlite3.connect(app) as other:
        other.execute("PRAGMA application_id = 9")
        other.execute("CREATE TABLE t(x)")
    other.close()
    open_db(live).ingest(IngestRequest(id="live.md", content=b"x"))
    before = {each: each.read_bytes() for each in (notes, app, live)}
    for path, match in (
        (folder / "kb.db", "database itself"),
        (notes, "no SQLite database"),
        (app, "another program"),
        (live, "in use"),
        (folder, "folder"),
        (":memory:", "is a file"),
        ("", "names no file"),
    ):
        with pytest.raises(ConfigurationError, match=match):
            filled.backup(str(path))
    os.symlink(folder / "kb.db", folder / "link.db")
    with pytest.raises(ConfigurationError, match="database itself"):
        filled.backup(str(folder / "link.db"))
    assert {each: each.read_bytes() for each in (notes, app, live)} == before
    assert filled.check() == ()


def test_where_a_backup_cannot_lie_is_told(filled: SqliteKnowledgeAdapter, folder: Path, unprivileged: Any) -> None:
    with pytest.raises(UnavailableError, match="folder of the backup"):
        filled.backup(str(folder / "no" / "copy.db"))
    (folder / "locked").mkdir(mode=0o555)
    filled.list_sources()
    with unprivileged(), pytest.raises(ReadOnlyError, match="may not be written"):
        filled.backup(str(folder / "locked" / "copy.db"))
    (folder / "locked").chmod(0o755)


def test_a_database_in_memory_can_be_saved(open_db: Open, folder: Path) -> None:
    adapter = open_db(":memory:")
    adapter.ingest(IngestRequest(id="a.md", content=b"impeller"))
    adapter.backup(str(folder / "copy.db"))
    assert open_db(folder / "copy.db").read_source("a.md").content == b"impeller"


# restore


def test_a_restored_backup_takes_the_place_of_everything(
    filled: SqliteKnowledgeAdapter, open_db: Open, folder: Path, url: str
) -> None:
    copy = folder / "copy.db"
    filled.backup(str(copy))
    before = copy.read_bytes()
    other = open_db()
    filled.ingest(IngestRequest(id="d.md", content=b"turbine after the backup"))
    filled.delete_source("a.md")
    assert [hit.source_id for hit in other.query(Query(query="turbine")).hits] == ["d.md"]
    result = run("restore", url, str(copy))
    assert (result.stdout, result.exit_code) == ("restored: 3 documents\n", 0)
    for each in (filled, other, open_db()):
        assert [hit.source_id for hit in each.query(Query(query="impeller turbine")).hits] == ["a.md", "b.md", "c.md"]
    # Its numbers of terms are those of the file as it is now, not those that were remembered.
    filled.ingest(IngestRequest(id="e.md", content=b"valve turbine"))
    other.ingest(IngestRequest(id="f.md", content=b"turbine gasket impeller"))
    assert [hit.source_id for hit in filled.query(Query(query="gasket")).hits] == ["f.md"]
    assert filled.check() == other.check() == ()
    assert copy.read_bytes() == before
    assert json.loads(run("restore", url, str(copy), "--json").stdout) == {"restored": str(copy), "documents": 3}


def test_a_backup_of_another_analyzer_is_restored_and_indexed_anew(open_db: Open, folder: Path) -> None:
    german = open_db(analyzer=Analyzer("german"))
    german.ingest(IngestRequest(id="a.md", content=b"Pumpen laufen"))
    german.backup(str(folder / "copy.db"))
    english = open_db(folder / "other.db")
    english.restore(str(folder / "copy.db"))
    assert english.check() == ()
    assert len(english.query(Query(query="Pumpen")).hits) == 1


def test_what_is_no_backup_is_not_restored(filled: SqliteKnowledgeAdapter, open_db: Open, folder: Path) -> None:
    notes, live, cut = folder / "notes.txt", folder / "live.db", folder / "cut.db"
    notes.write_text("my notes, which are no database at all")
    open_db(live).ingest(IngestRequest(id="live.md", content=b"x"))
    filled.backup(str(cut))
    cut.write_bytes(cut.read_bytes()[:-4096])
    for path, error in (
        (notes, ConfigurationError),
        (live, ConfigurationError),
        (folder / "kb.db", ConfigurationError),
        (folder / "none.db", ConfigurationError),
        (":memory:", ConfigurationError),
        (cut, DamagedError),
    ):
        with pytest.raises(error) as caught:
            filled.restore(str(path))
        assert caught.value.mend
    assert filled.list_sources().total == 3
    assert filled.check() == ()


def test_a_backup_is_not_restored_while_another_process_writes(
    filled: SqliteKnowledgeAdapter, open_db: Open, folder: Path
) -> None:
    filled.backup(str(folder / "copy.db"))
    writer = sqlite3.connect(folder / "kb.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(BusyError):
        open_db(busy_timeout_s=0).restore(str(folder / "copy.db"))
    with pytest.raises(ReadOnlyError):
        open_db(read_only=True).restore(str(folder / "copy.db"))
    writer.execute("ROLLBACK")
    writer.close()
    assert filled.check() == ()


# delete --verify


def test_a_verified_delete_leaves_no_byte_and_says_so_by_its_code(
    filled: SqliteKnowledgeAdapter, folder: Path, url: str
) -> None:
    filled.ingest(IngestRequest(id="x.md", content=b"---\nid: x-doc\n---\nflibbertigibbet"))
    filled.dispose()
    result = run("delete", "x-doc", "--verify", "--backend", url, "--json")
    assert json.loads(result.stdout) == {"deleted": ["x.md"], "errors": [], "left": []}
    assert result.exit_code == 0
    assert not any(b"flibbert" in each.read_bytes() for each in folder.iterdir())


def test_a_delete_that_left_something_is_exit_2(filled: SqliteKnowledgeAdapter, url: str, folder: Path) -> None:
    reader = sqlite3.connect(folder / "kb.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM documents").fetchone()
    environ = {"KNOWLEDGE_SQLITE_BUSY_TIMEOUT_S": "0"}
    args = ["delete", "a.md", "--verify", "--backend", url]
    result = CliRunner().invoke(knowledge, args, obj=Session(environ=environ))
    assert (result.stdout, result.exit_code) == ("deleted: a.md\n", 2)
    assert "someone reads" in result.stderr
    assert run("delete", "a.md", "--verify", "--backend", url).exit_code == 1
    reader.close()


def test_a_backend_that_cannot_tell_deletes_nothing(folder: Path) -> None:
    (folder / "a.md").write_text("x")
    result = run("delete", "a.md", "--verify", "--backend", f"files:{folder}")
    assert result.exit_code == 1
    assert "without --verify" in result.stderr
    assert (folder / "a.md").exists()


# import, export


def test_a_folder_goes_in_and_out_byte_for_byte(folder: Path, url: str) -> None:
    docs = folder / "docs"
    files = {
        "a.md": b"# A\r\n\r\nimpeller\r\n",
        "sub/b.txt": b"plain \xff text",
        "sub/deep/c.yaml": b"a: 1\n",
        "größe 水.md": b"\xef\xbb\xbf# BOM\n",
        "empty.md": b"",
    }
    for name, content in files.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_bytes(content)
    (docs / "picture.png").write_bytes(b"\x89PNG")
    result = run("import", str(docs), "--into", url)
    assert (result.stdout, result.exit_code) == ("5 new, 0 changed, 0 deleted, 0 unchanged\n", 0)
    assert run("export", url, str(folder / "out")).stdout == "5 written, 0 unchanged\n"
    out = folder / "out"
    assert {each.relative_to(out).as_posix(): each.read_bytes() for each in out.rglob("*") if each.is_file()} == files
    assert run("export", url, str(out)).stdout == "0 written, 5 unchanged\n"


def test_an_import_into_a_database_is_incremental_with_deletions(
    filled: SqliteKnowledgeAdapter, folder: Path, url: str
) -> None:
    docs = folder / "docs"
    docs.mkdir()
    for name in ("one.md", "two.md", "three.md"):
        (docs / name).write_text(f"# {name}")
    run("import", str(docs), "--into", url)
    (docs / "one.md").unlink()
    (docs / "two.md").write_text("other")
    (docs / "four.md").write_text("four")
    answer = json.loads(run("import", str(docs), "--into", url, "--json").stdout)
    assert answer == {
        "new": ["four.md"],
        "changed": ["two.md"],
        "deleted": ["one.md"],
        "unchanged": 1,
        "skipped": [],
        "errors": [],
    }
    ids = [each.id for each in filled.list_sources().sources]
    assert ids == ["a.md", "b.md", "c.md", "four.md", "three.md", "two.md"]
    assert filled.get_source("two.md").uri.startswith("import:docs-")
    assert str(folder) not in filled.get_source("two.md").uri
    assert filled.check() == ()


def test_a_document_that_cannot_be_stored_is_told_and_the_others_are(folder: Path, url: str) -> None:
    docs = folder / "docs"
    docs.mkdir()
    (docs / "bad.md").write_bytes(b"\xff\xfeu\0t\0f\0")
    (docs / "good.md").write_text("good")
    result = run("import", str(docs), "--into", url, "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["new"]) == (2, ["good.md"])
    assert [(each["name"], each["code"]) for each in answer["errors"]] == [("bad.md", "invalid-argument")]
    (docs / "good.md").unlink()
    assert run("import", str(docs), "--into", f"sqlite:///{folder}/other.db").exit_code == 1


def test_an_import_that_ends_half_way_tells_what_it_did(folder: Path, url: str, open_db: Open) -> None:
    docs = folder / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("a")
    open_db().ingest(IngestRequest(id="x.md", content=b"x"))
    other = sqlite3.connect(folder / "kb.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    session = Session(environ={"KNOWLEDGE_SQLITE_BUSY_TIMEOUT_S": "0"})
    result = CliRunner().invoke(knowledge, ["import", str(docs), "--into", url], obj=session)
    assert (result.stdout, result.exit_code) == ("0 new, 0 changed, 0 deleted, 0 unchanged\n", 1)
    assert "being written by another process" in result.stderr
    other.close()
