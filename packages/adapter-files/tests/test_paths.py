"""Ids are paths that are compared letter by letter, and none of them leads out of the folder."""

from __future__ import annotations

import os
import socket
import unicodedata
from pathlib import Path

import pytest

from knowledge_engine.errors import InvalidIdError, KnowledgeError, NotFoundError
from knowledge_engine.fs import LocalFs
from knowledge_engine.models import IngestRequest, Query
from knowledge_files import FilesKnowledgeAdapter

SECRET = b"TOPSECRET quokka"


@pytest.fixture
def fenced(folder, tmp_path: Path):
    """A folder with one document, and secrets around it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_bytes(SECRET)
    (tmp_path / "docs-private").mkdir()
    (tmp_path / "docs-private" / "hidden.md").write_bytes(SECRET)
    folder.put("in.md", "inside")
    return folder


HOSTILE = [
    *(
        "../outside/secret",
        "../outside/secret.md",
        "sub/../../outside/secret.md",
        "./../outside/secret.md",
        "..",
        "../",
    ),
    *("in/../../outside/secret.md", "../docs-private/hidden.md", "/etc/passwd", "//etc/passwd", "file:///etc/passwd"),
    *("~/.ssh/id_rsa", "~root/x.md", "C:\\Windows\\win.ini", "..\\outside\\secret.md", "\\\\host\\share\\x", "C:x.md"),
    *("%2e%2e%2foutside%2fsecret.md", "..%2foutside/secret.md", "%252e%252e/outside/secret.md"),
    *("．．/outside/secret.md", "..∕outside/secret.md", "..%c0%afoutside/secret.md", "", ".", "/", "in.md/", "/in.md"),
    *(
        "./in.md",
        "sub//in.md",
        "in.md\0",
        "in.md\n",
        "in.md\0.md",
        "\ud800.md",
        "a" * 300 + ".md",
        "a/" * 3000 + "b.md",
    ),
    *("IN.md", "in.MD", "in", "in.md/x.md", ".hidden.md", "in.md ", " in.md"),
]


@pytest.mark.parametrize("indexed", [False, True])
def test_nothing_outside_is_given_under_any_id(fenced, indexed: bool) -> None:
    (fenced.root / "sub").mkdir()
    adapter = fenced.adapter
    if indexed:
        adapter.refresh()
    for wrong in HOSTILE:
        for call in (adapter.get_source, adapter.read_source, adapter.delete_source):
            with pytest.raises((NotFoundError, InvalidIdError)) as caught:
                call(wrong)
            assert str(fenced.root) not in str(caught.value)
            assert "TOPSECRET" not in str(caught.value)
        assert adapter.explain(wrong) is None
    assert adapter.get_source("in.md").id == "in.md"
    assert fenced.tree() == {"in.md": b"inside"}


def test_the_answer_is_the_same_whether_or_not_something_lies_there(fenced, tmp_path: Path) -> None:
    os.symlink(tmp_path / "outside" / "secret.md", fenced.root / "there.md")
    fenced.put(".git/there.md", "x")
    fenced.put("there.png", "x")
    answers = set()
    for indexed in (False, True):
        for path in ("there.md", "missing.md", ".git/there.md", ".git/missing.md", "there.png", "missing.png"):
            with pytest.raises(NotFoundError) as caught:
                fenced.adapter.get_source(path)
            answers.add(str(caught.value).replace(path, "PATH"))
        if not indexed:
            fenced.adapter.refresh()
    assert len(answers) == 1


@pytest.mark.parametrize(
    "path", ["../outside/new.md", "/tmp/new.md", ".git/hooks.md", "a.exe", "noext", "..", "x\0.md", "d"]
)
def test_nothing_is_written_where_no_document_can_be(fenced, path: str, tmp_path: Path) -> None:
    for request in (IngestRequest(id=path, text="x"), IngestRequest(id=path, content=b"x")):
        with pytest.raises(InvalidIdError):
            fenced.adapter.ingest(request)
    with pytest.raises((InvalidIdError, NotFoundError)):
        fenced.adapter.ingest(IngestRequest(id=path, metadata={"a": 1}))
    assert fenced.tree() == {"in.md": b"inside"}
    assert sorted(one.name for one in (tmp_path / "outside").iterdir()) == ["secret.md"]


def test_links_out_of_the_folder_are_skipped_with_a_reason(fenced, tmp_path: Path) -> None:
    os.symlink("../outside", fenced.root / "d")
    os.symlink("../outside/secret.md", fenced.root / "s.md")
    os.symlink("../docs-private/hidden.md", fenced.root / "h.md")
    os.symlink("in.md", fenced.root / "ok.md")
    assert fenced.ids() == ["in.md"]
    assert fenced.skipped() == {"d": "symlink-escape", "h.md": "symlink-escape", "s.md": "symlink-escape"}
    assert fenced.found("quokka") == []
    for path in ("d/secret.md", "s.md", "h.md"):
        with pytest.raises(NotFoundError):
            fenced.adapter.read_source(path)


@pytest.mark.parametrize("indexed", [False, True])
def test_what_is_not_listed_cannot_be_had(fenced, indexed: bool) -> None:
    """Another name of a document can be opened; but as a source it would be one that no list and no query knows."""
    fenced.put(".data/real.md", "valve behind a link")
    os.symlink("in.md", fenced.root / "ok.md")
    os.symlink(".", fenced.root / "loop")
    os.symlink(".data/real.md", fenced.root / "mounted.md")
    os.symlink(".data/real.md", fenced.root / "mounted-too.md")
    if indexed:
        fenced.adapter.refresh()
    known = [
        path
        for path in ("in.md", "ok.md", "loop/in.md", "mounted.md", "mounted-too.md", ".data/real.md")
        if _has(fenced, path)
    ]
    assert known == ["in.md", "mounted-too.md"] == sorted(fenced.ids())


def _has(folder, path: str) -> bool:
    try:
        return folder.adapter.get_source(path).id == path
    except NotFoundError:
        return False


def test_cycles_of_links_end(folder) -> None:
    folder.put("in.md", "inside")
    folder.put("loop/a.md", "valve")
    for name, target in {"loop/up": "..", "self": "self", "p1": "p2", "p2": "p1", "self.md": "self.md"}.items():
        os.symlink(target, folder.root / name)
    assert folder.ids() == ["in.md", "loop/a.md"]
    assert set(folder.skipped().values()) == {"link-loop"}
    assert folder.adapter.refresh() is False


def test_devices_pipes_and_sockets_are_not_opened(fenced, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("zero", "urandom", "tty"):
        os.symlink(f"/dev/{name}", fenced.root / f"{name}.md")
    os.mkfifo(fenced.root / "pipe.md")
    monkeypatch.chdir(fenced.root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.md")
        os.mkdir(fenced.root / "folder.md")
        assert fenced.ids() == ["in.md"]
        assert set(fenced.skipped().values()) == {"symlink-escape", "not-regular"}
        assert len(fenced.skipped()) == 5
        for name in (*fenced.skipped(), "folder.md"):
            with pytest.raises(NotFoundError):
                fenced.adapter.get_source(name)


def test_the_root_may_be_a_link(fenced, tmp_path: Path) -> None:
    os.symlink("docs", tmp_path / "link")
    adapter = FilesKnowledgeAdapter(LocalFs(tmp_path / "link"), ".")
    assert [source.id for source in adapter.list_sources().sources] == ["in.md"]
    assert adapter.read_source("in.md").content == b"inside"


def test_letter_case_makes_another_document_and_a_remark(folder) -> None:
    folder.put("A.md", "upper")
    folder.put("a.md", "lower")
    assert folder.ids() == ["A.md", "a.md"]
    assert folder.adapter.read_source("A.md").content == b"upper"
    assert folder.adapter.read_source("a.md").content == b"lower"
    issues = [(one.code, one.path) for one in folder.adapter.health_check().issues]
    assert [issue for issue in issues if "case" in issue[0]] == [("id-case-collision", "a.md")]


def test_ways_to_write_a_letter_make_other_documents(folder) -> None:
    composed = "café.md"
    decomposed = unicodedata.normalize("NFD", composed)
    folder.put(composed, "one")
    folder.put(decomposed, "two")
    assert folder.ids() == sorted([composed, decomposed])
    assert folder.adapter.read_source(composed).content == b"one"
    assert folder.adapter.read_source(decomposed).content == b"two"
    os.remove(folder.root / decomposed)
    folder.adapter.refresh()
    with pytest.raises(NotFoundError):
        folder.adapter.get_source(decomposed)


def test_names_that_are_no_text_are_skipped_and_can_be_told(folder) -> None:
    folder.put("good.md", "valve")
    (folder.root / os.fsdecode(b"\xff.md")).write_bytes(b"valve")
    (folder.root / "back\\slash.md").write_bytes(b"valve")
    assert folder.found("valve") == ["good.md"]
    health = folder.adapter.health_check()
    assert {one.reason for one in health.skipped} == {"name-encoding", "name-invalid"}
    assert all(one.message for one in health.skipped)
    health.model_dump_json()


def test_only_documents_kinds_and_places_are_listed(folder, tmp_path: Path) -> None:
    names = ["a.md", "b.MARKDOWN", "c.Txt", "d.yaml", "e.yml", "f.json"]
    for name in names:
        folder.put(name, "valve")
    for name in (
        "g.html",
        "h.md.bak",
        "i",
        "md",
        ".md",
        ".hidden/j.md",
        "node_modules/k.md",
        ".git/l.md",
        "m.md/n.png",
    ):
        folder.put(name, "valve")
    assert folder.ids() == names
    assert sorted(folder.found("valve")) == names
    assert folder.adapter.health_check().details["other_files"] == 5
    left_out = FilesKnowledgeAdapter(LocalFs(folder.root, exclude=["*.json", "b*"]), ".")
    assert [source.id for source in left_out.list_sources().sources] == ["a.md", "c.Txt", "d.yaml", "e.yml"]
    with pytest.raises(NotFoundError):
        left_out.get_source("f.json")
    with pytest.raises(InvalidIdError):
        left_out.ingest(IngestRequest(id="new.json", text="{}"))


def test_ids_are_relative_to_the_root_and_stay_in_the_folder(tmp_path: Path) -> None:
    for path in ("knowledge/a.md", "knowledge/b/c.md", "other/d.md", "knowledge-b/e.md", "f.md"):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"valve")
    adapter = FilesKnowledgeAdapter(LocalFs(tmp_path))
    for _ in range(2):
        for outside in ("other/d.md", "knowledge-b/e.md", "f.md"):
            with pytest.raises(NotFoundError):
                adapter.get_source(outside)
            with pytest.raises(InvalidIdError, match="below 'knowledge'"):
                adapter.ingest(IngestRequest(id=outside, text="x"))
        assert [hit.source_id for hit in adapter.query(Query(query="valve")).hits] == [
            "knowledge/a.md",
            "knowledge/b/c.md",
        ]
    assert adapter.health_check().details["folder"] == "knowledge"
    assert FilesKnowledgeAdapter(LocalFs(tmp_path), "knowledge/").list_sources().total == 2
    assert FilesKnowledgeAdapter(LocalFs(tmp_path), "").list_sources().total == 5


@pytest.mark.parametrize("indexed", [False, True])
def test_what_cannot_be_read_as_text_is_skipped_with_a_reason(tmp_path: Path, indexed: bool) -> None:
    fs = LocalFs(tmp_path, max_bytes=100)
    (tmp_path / "wide.md").write_bytes("---\ntitle: Wide\n---\ntext".encode("utf-16"))
    (tmp_path / "large.md").write_bytes(b"valve " * 50)
    (tmp_path / "good.md").write_bytes(b"kestrel")
    adapter = FilesKnowledgeAdapter(fs, ".")
    if indexed:
        adapter.refresh()
    for path in ("wide.md", "large.md"):
        for call in (adapter.get_source, adapter.read_source):
            with pytest.raises(NotFoundError):
                call(path)
    assert [source.id for source in adapter.list_sources().sources] == ["good.md"]
    skipped = {one.path: one for one in adapter.health_check().skipped}
    assert {path: one.reason for path, one in skipped.items()} == {
        "wide.md": "encoding-invalid",
        "large.md": "too-large",
    }
    assert "UTF-16" in skipped["wide.md"].message
    index = adapter.query(Query(query="kestrel")).index
    assert (index.documents, index.skipped) == (1, 2)


def test_a_folder_without_documents_is_remarked_on(tmp_path: Path) -> None:
    adapter = FilesKnowledgeAdapter(LocalFs(tmp_path / "typo"), ".")
    for warnings in (adapter.query(Query(query="x")).warnings, adapter.list_sources().warnings):
        assert [warning for warning in warnings if "does not exist" in warning and "root folder" in warning] == list(
            warnings
        )
        assert warnings
        assert str(tmp_path) not in warnings[0]
    health = adapter.health_check()
    assert (health.status, health.message) == ("degraded", warnings[0])
    (tmp_path / "typo" / "kb").mkdir(parents=True)
    (tmp_path / "typo" / "kb" / "wide.md").write_bytes("wide".encode("utf-16"))
    [warning] = FilesKnowledgeAdapter(LocalFs(tmp_path / "typo"), "kb").list_sources().warnings
    assert "'kb'" in warning
    assert "status" in warning
    (tmp_path / "typo" / "a.md").write_bytes(b"")
    adapter.refresh()
    assert adapter.query(Query(query="x")).warnings == ()
    assert adapter.health_check().status == "ok"


def test_a_change_of_metadata_under_any_id_has_a_coded_answer(fenced) -> None:
    for wrong in HOSTILE:
        with pytest.raises(KnowledgeError) as caught:
            fenced.adapter.ingest(IngestRequest(id=wrong, metadata={"a": "b"}))
        assert caught.value.code in {"invalid-id", "not-found"}
    assert fenced.tree() == {"in.md": b"inside"}
