"""`import` and `export` over any backend."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge, transfer
from knowledge_engine.errors import (
    ConflictError,
    KnowledgeError,
    NotFoundError,
    ReadOnlyError,
    StorageFullError,
)
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Health, IngestRequest, Source, SourcePage
from knowledge_engine.service import KnowledgeService


class Store(MemoryProvider):
    """In memory, and failing where it is told to."""

    def __init__(self) -> None:
        super().__init__({}, id="store")
        self.fail: dict[str, KnowledgeError] = {}
        self.written: list[str] = []
        self.hashes = True

    def ingest(self, request: IngestRequest) -> Source:
        if request.id in self.fail:
            raise self.fail[request.id]
        self.written.append(request.id or "")
        return super().ingest(request)

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        if source_id in self.fail:
            raise self.fail[source_id]
        super().delete_source(source_id, if_match=if_match)

    def read_source(self, source_id: str, span: Any = None) -> Any:
        if isinstance(self.fail.get(source_id), NotFoundError):
            raise self.fail[source_id]
        return super().read_source(source_id, span)

    def list_sources(self, **how: Any) -> SourcePage:
        page = super().list_sources(**{**how, "limit": 2})
        if self.hashes:
            return page
        return page.model_copy(
            update={"sources": tuple(each.model_copy(update={"content_hash": None}) for each in page.sources)}
        )

    def dispose(self) -> None:
        """Stays, so that a test can look into it."""


class BulkStore(Store):
    def ingest_many(self, requests: Iterable[IngestRequest], *, batch: int = 500) -> Iterator[Source]:
        for request in requests:
            try:
                yield self.ingest(request)
            except StorageFullError:
                raise
            except KnowledgeError as error:
                yield Source(
                    id=request.id or "", origin="text", uri="", title="", bytes=0,
                    status="failed", error=f"{error.code}: {error}",
                )  # fmt: skip


@pytest.fixture(params=[Store, BulkStore])
def store(request: pytest.FixtureRequest) -> Store:
    made: Store = request.param()
    return made


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    for name in ("a.md", "b.md", "sub/c.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    (folder / "picture.png").write_bytes(b"x")
    return folder


def run(store: Store, *args: str) -> Result:
    session = Session(environ={})
    session._service = KnowledgeService(store)
    return CliRunner().invoke(knowledge, args, obj=session)


def answer(store: Store, *args: str) -> Any:
    return json.loads(run(store, *args, "--json").stdout)


def ids(store: Store) -> list[str]:
    return [each.id for each in transfer._sources(store)]


# import


@pytest.mark.parametrize("hashes", [True, False])
def test_only_what_is_new_or_changed_is_stored(store: Store, docs: Path, hashes: bool) -> None:
    store.hashes = hashes
    result = run(store, "import", str(docs), "--into", "store")
    assert (result.stdout, result.stderr, result.exit_code) == (
        "3 new, 0 changed, 0 deleted, 0 unchanged\n",
        "",
        0,
    )
    (docs / "b.md").write_text("other")
    store.written.clear()
    result = run(store, "import", str(docs), "--into", "store")
    assert result.stdout == "0 new, 1 changed, 0 deleted, 2 unchanged\n"
    assert store.written == ["b.md"]
    assert store.read_source("b.md").content == b"other"


def test_what_an_import_brought_and_is_gone_is_deleted_and_what_came_otherwise_stays(store: Store, docs: Path) -> None:
    store.ingest(IngestRequest(id="own.md", content=b"mine"))
    store.ingest(IngestRequest(id="a.md", content=b"# a.md\n"))
    run(store, "import", str(docs), "--into", "store")
    for name in ("a.md", "b.md"):
        (docs / name).unlink()
    assert answer(store, "import", str(docs), "--into", "store", "--keep")["deleted"] == []
    assert answer(store, "import", str(docs), "--into", "store")["deleted"] == ["b.md"]
    assert ids(store) == ["a.md", "own.md", "sub/c.txt"], "the same bytes were there before the import"


def test_an_import_from_another_folder_deletes_nothing_of_the_first(store: Store, docs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "docs"
    other.mkdir(parents=True)
    (other / "d.md").write_text("d")
    run(store, "import", str(docs), "--into", "store")
    run(store, "import", str(other), "--into", "store")
    assert ids(store) == ["a.md", "b.md", "d.md", "sub/c.txt"]
    os.symlink(docs, tmp_path / "link")
    (docs / "a.md").unlink()
    assert answer(store, "import", f"{tmp_path}/link/", "--into", "store")["deleted"] == ["a.md"]


def test_a_folder_that_moved_is_known_by_its_label(store: Store, docs: Path, tmp_path: Path) -> None:
    run(store, "import", str(docs), "--into", "store", "--as", "handbook")
    assert store.get_source("a.md").uri == "import:handbook/a.md"
    docs.rename(tmp_path / "moved")
    (tmp_path / "moved" / "a.md").unlink()
    assert answer(store, "import", str(tmp_path / "moved"), "--into", "store", "--as", "hand")["deleted"] == []
    assert answer(store, "import", str(tmp_path / "moved"), "--into", "store", "--as", "handbook")["deleted"] == [
        "a.md"
    ]


def test_a_dry_run_shows_and_does_nothing(store: Store, docs: Path) -> None:
    run(store, "import", str(docs), "--into", "store")
    (docs / "a.md").unlink()
    (docs / "b.md").write_text("other")
    (docs / "new one.md").write_text("new")
    before = store.health_check().index.revision
    result = run(store, "import", str(docs), "--into", "store", "--dry-run")
    assert result.stdout.splitlines() == [
        "new: new one.md",
        "changed: b.md",
        "deleted: a.md",
        "1 new, 1 changed, 1 deleted, 1 unchanged (dry run)",
    ]
    assert store.health_check().index.revision == before


def test_a_document_that_is_refused_is_told_and_the_others_are_stored(store: Store, docs: Path) -> None:
    store.fail["b.md"] = ReadOnlyError("Not this one", mend="Leave it.")
    result = run(store, "import", str(docs), "--into", "store")
    assert (result.stdout, result.exit_code) == ("2 new, 0 changed, 0 deleted, 0 unchanged\n", 2)
    assert result.stderr == "knowledge: b.md: Not this one. Leave it.\n"
    told = answer(store, "import", str(docs), "--into", "store")["errors"]
    assert [(each["name"], each["code"]) for each in told] == [("b.md", "read-only")]


def test_a_store_that_is_full_ends_it_and_what_was_done_is_told(store: Store, docs: Path) -> None:
    run(store, "import", str(docs), "--into", "store")
    for name in ("a.md", "b.md"):
        (docs / name).unlink()
    for name in ("0.md", "1.md", "2.md"):
        (docs / name).write_text(name)
    store.fail["1.md"] = StorageFullError("Full", mend="Make room.")
    result = run(store, "import", str(docs), "--into", "store", "--json")
    told = json.loads(result.stdout)
    assert (told["new"], told["deleted"], result.exit_code) == (["0.md"], [], 2)
    assert [each["code"] for each in told["errors"]] == ["storage-full"]


def test_a_deletion_that_fails_is_told(store: Store, docs: Path) -> None:
    run(store, "import", str(docs), "--into", "store")
    for name in ("a.md", "b.md", "sub/c.txt"):
        (docs / name).unlink()
    store.fail = {"a.md": ConflictError("It changed", mend="Again."), "b.md": NotFoundError("Gone", mend="-")}
    result = run(store, "import", str(docs), "--into", "store", "--json")
    told = json.loads(result.stdout)
    assert (told["deleted"], [each["name"] for each in told["errors"]], result.exit_code) == (
        ["sub/c.txt"],
        ["a.md"],
        2,
    )
    store.fail = {"a.md": StorageFullError("Full", mend="Make room.")}
    assert run(store, "import", str(docs), "--into", "store").exit_code == 1


def test_what_someone_else_stored_meanwhile_is_not_lost(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    ingest = Store.ingest

    def later(self: Store, request: IngestRequest) -> Source:
        if request.id == "b.md" and not self.written.count("b.md"):
            ingest(self, IngestRequest(id="b.md", content=b"theirs"))
        return ingest(self, request)

    monkeypatch.setattr(Store, "ingest", later)
    result = run(store, "import", str(docs), "--into", "store")
    assert result.exit_code == 2
    assert store.read_source("b.md").content == b"theirs"


def test_documents_below_a_folder_that_cannot_be_seen_are_not_deleted(
    store: Store, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(store, "import", str(docs), "--into", "store")
    walk = transfer.LocalFs.walk

    def partly(self: transfer.LocalFs, path: str = ".") -> Iterator[Any]:
        from knowledge_engine.models import FileInfo

        yield from (each for each in walk(self, path) if not each.path.startswith("sub/"))
        yield FileInfo("sub", problem="unreadable")
        yield FileInfo("b.md", problem="dangling-link")

    monkeypatch.setattr(transfer.LocalFs, "walk", partly)
    (docs / "a.md").unlink()
    result = run(store, "import", str(docs), "--into", "store")
    assert (result.stdout, result.exit_code) == ("0 new, 0 changed, 1 deleted, 1 unchanged\n", 2)
    assert "skipped: b.md (dangling-link)" in result.stderr
    assert "sub: It may not be read" in result.stderr
    assert ids(store) == ["b.md", "sub/c.txt"]


def test_a_file_that_cannot_be_read_is_told_and_its_document_stays(
    store: Store, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(store, "import", str(docs), "--into", "store")
    read = transfer.LocalFs.read

    def refusing(self: transfer.LocalFs, path: str, span: Any = None) -> bytes:
        if path == "b.md":
            raise ReadOnlyError("It may not be read", mend="Ask.")
        return read(self, path, span)

    monkeypatch.setattr(transfer.LocalFs, "read", refusing)
    result = run(store, "import", str(docs), "--into", "store")
    assert (result.stdout, result.exit_code) == ("0 new, 0 changed, 0 deleted, 2 unchanged\n", 2)
    assert "b.md" in ids(store)


def test_what_is_no_folder_is_refused_before_anything_is_opened(store: Store, docs: Path) -> None:
    for path in (docs / "a.md", docs / "none"):
        result = run(store, "import", str(path), "--into", "store")
        assert result.exit_code == 1
        assert "is not a folder" in result.stderr
    assert run(store, "import", str(docs)).exit_code == 64


def test_a_backend_that_is_not_writable_is_refused(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    monkeypatch.setattr(Store, "capabilities", store.capabilities.model_copy(update={"writable": False}))
    result = run(store, "import", str(docs), "--into", "store")
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


# export


def test_documents_are_written_byte_for_byte_and_equal_files_are_left_alone(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for source_id, content in (("a.md", b"a\r\n"), ("b/c.md", b"\xff"), ("d.md", b"")):
        store.ingest(IngestRequest(id=source_id, content=content))
    assert run(store, "export", "store", str(out)).stdout == "3 written, 0 unchanged\n"
    assert [(out / each).read_bytes() for each in ("a.md", "b/c.md", "d.md")] == [b"a\r\n", b"\xff", b""]
    (out / "a.md").write_bytes(b"changed")
    (out / "other.md").write_bytes(b"not ours")
    before = (out / "d.md").stat()
    assert answer(store, "export", "store", str(out)) == {
        "written": ["a.md"],
        "unchanged": 2,
        "skipped": [],
        "errors": [],
    }
    assert (out / "d.md").stat() == before
    assert (out / "other.md").read_bytes() == b"not ours"


def test_nothing_is_written_outside_of_the_folder_nor_through_a_link(store: Store, tmp_path: Path) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside"
    out.mkdir()
    outside.mkdir()
    os.symlink(outside, out / "sub")
    (outside / "target.md").write_bytes(b"precious")
    os.symlink(outside / "target.md", out / "link.md")
    (out / "folder.md").mkdir()
    for source_id in ("sub/x.md", "link.md", "folder.md", ".hidden/x.md", "fine.md", "fine.md/below.md"):
        store.ingest(IngestRequest(id=source_id, content=b"new"))
    result = run(store, "export", "store", str(out), "--json")
    told = json.loads(result.stdout)
    assert (told["written"], result.exit_code) == (["fine.md"], 2)
    assert {each["name"] for each in told["errors"]} == {
        "sub/x.md", "link.md", "folder.md", ".hidden/x.md", "fine.md/below.md",
    }  # fmt: skip
    assert [each.name for each in outside.iterdir()] == ["target.md"]
    assert (outside / "target.md").read_bytes() == b"precious"


def test_an_export_to_what_is_no_folder_is_refused(store: Store, tmp_path: Path) -> None:
    store.ingest(IngestRequest(id="a.md", content=b"x"))
    (tmp_path / "file").write_bytes(b"x")
    result = run(store, "export", "store", str(tmp_path / "file"))
    assert result.exit_code == 1
    assert "not a folder" in result.stderr


def test_a_full_disk_ends_an_export(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source_id in ("a.md", "b.md"):
        store.ingest(IngestRequest(id=source_id, content=b"x"))

    def full(*_: object, **__: object) -> None:
        raise StorageFullError("Full", mend="Make room.")

    monkeypatch.setattr(transfer.LocalFs, "write", full)
    result = run(store, "export", "store", str(tmp_path / "out"), "--json")
    assert result.exit_code == 1
    assert [each["name"] for each in json.loads(result.stdout)["errors"]] == ["a.md"]


def test_a_document_that_is_deleted_meanwhile_is_not_missed(store: Store, tmp_path: Path) -> None:
    for source_id in ("a.md", "b.md"):
        store.ingest(IngestRequest(id=source_id, content=b"x"))
    store.fail["a.md"] = NotFoundError("Gone", mend="-")
    result = run(store, "export", "store", str(tmp_path / "out"))
    assert (result.stdout, result.exit_code) == ("1 written, 0 unchanged\n", 0)


def test_an_export_of_nothing_tells_why_nothing_can_be_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(store, "export", "store", str(tmp_path / "out")).exit_code == 0
    monkeypatch.setattr(Store, "health_check", lambda self: Health(details={"unreadable": "There is no such place."}))
    result = run(store, "export", "store", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "no such place" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("repeat", [lambda page: page, lambda page: page.model_copy(update={"sources": ()})])
def test_a_list_that_does_not_end_is_an_error(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeat: Callable[[SourcePage], SourcePage]
) -> None:
    for source_id in ("a.md", "b.md", "c.md"):
        store.ingest(IngestRequest(id=source_id, content=b"x"))
    first = store.list_sources(limit=2)
    monkeypatch.setattr(Store, "list_sources", lambda self, **how: repeat(first))
    result = run(store, "export", "store", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "does not end" in result.stderr
