"""A folder over HTTP: nothing outside it is served, whatever lies in it and however it changes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from knowledge_engine.bootstrap import open_services
from knowledge_http import HttpSettings, create_app

SECRET = "TOPHUSH-MARKER"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of documents with secrets beside it and every odd thing in it."""
    inside, outside, beside = tmp_path / "kb", tmp_path / "outside", tmp_path / "kb-private"
    for folder in (inside / "sub", inside / "loop", outside, beside):
        folder.mkdir(parents=True)
    (inside / "in.md").write_text("---\nid: in\n---\n# In\n\ninside heron\n")
    (inside / "sub" / "deep.md").write_text("# Deep\n\nheron below\n")
    (inside / "A.md").write_text("# Upper")
    (inside / "a.md").write_text("# Lower")
    for folder in (outside, beside):
        (folder / "secret.md").write_text(f"# Secret\n\n{SECRET}\n")
    (inside / "link.md").symlink_to(outside / "secret.md")
    (inside / "dir").symlink_to("../outside")
    (inside / "loop" / "up").symlink_to("..")
    (inside / "self").symlink_to("self")
    (inside / "zero.md").symlink_to("/dev/zero")
    os.mkfifo(inside / "pipe.md")
    (inside / "broken.md").write_bytes(b"---\na: [\n---\n\xff\xfe heron")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(inside / "s.md"))
    return inside


@pytest.fixture
def docs(root: Path) -> Iterator[TestClient]:
    with open_services([f"docs=files:{root}"], environ={}, fresh_for_s=0.0) as services:
        app = create_app(services, HttpSettings(writable=True, quiet=True), environ={})
        yield TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


OUTSIDE = [
    "../outside/secret.md",
    "../outside/secret",
    "sub/../../outside/secret.md",
    "./../outside/secret.md",
    "..",
    "../",
    "in/../../outside/secret.md",
    "link.md",
    "dir/secret.md",
    "loop/up/in.md",
    "self",
    "zero.md",
    "pipe.md",
    "s.md",
    "/etc/passwd",
    "//etc/passwd",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "C:\\Windows\\win.ini",
    "..\\outside\\secret.md",
    "\\\\host\\share\\x",
    "%2e%2e/outside/secret.md",
    "．．/outside/secret.md",
    "..∕outside",
    "../kb-private/secret.md",
    "a" * 5000,
    "in.md\0.md",
    "in.md/",
    "sub",
    "sub/",
    ".",
    "",
]


def test_only_what_is_in_the_folder_is_there(docs: TestClient, root: Path) -> None:
    listed = [each["id"] for each in docs.get("/v1/sources").json()["sources"]]
    assert listed == ["A.md", "a.md", "broken.md", "in.md", "sub/deep.md"]
    for source_id in OUTSIDE:
        for written in (quote(source_id, safe=""), quote(source_id)):
            for part in ("", "/content", "/provenance"):
                answer = docs.get(f"http://127.0.0.1/v1/sources/{written}{part}")
                if answer.status_code == 200 and not source_id.strip("./"):
                    continue  # a client takes dots out by itself: this is the list
                assert answer.status_code in (400, 404), (source_id, part)
                assert SECRET not in answer.text
                assert str(root.parent) not in answer.text
    for where in (
        "/v1/query?q=tophush+marker+secret",
        "/v1/status",
        "/llms.txt",
        "/v1/changes",
        "/v1/sources?facets=true",
    ):
        assert SECRET not in docs.get(where).text
        assert str(root.parent) not in docs.get(where).text
    status = docs.get("/v1/status").json()
    assert {each["path"] for each in status["skipped"]} >= {"link.md", "dir"}
    assert "broken.md" in {each["path"] for each in status["issues"]}


@pytest.mark.parametrize(
    "source_id",
    ["../outside/new.md", "/tmp/new.md", "dir/new.md", "loop/up/new.md", "link.md", "..", "x\0.md", "new.exe"],
)
def test_nothing_is_written_outside(docs: TestClient, root: Path, source_id: str) -> None:
    before = sorted(str(path) for path in root.parent.rglob("*"))
    answer = docs.put(f"/v1/sources/{quote(source_id, safe='')}", content=b"# x")
    assert 400 <= answer.status_code < 500
    assert sorted(str(path) for path in root.parent.rglob("*")) == before
    assert SECRET in (root.parent / "outside" / "secret.md").read_text()
    assert docs.delete(f"/v1/sources/{quote(source_id, safe='')}").status_code in (400, 403, 404)


def found(docs: TestClient, words: str) -> list[str]:
    return [each["source_id"] for each in docs.get("/v1/query", params={"q": words}).json()["hits"]]


def test_changes_of_every_kind_are_taken_in(docs: TestClient, root: Path) -> None:
    assert found(docs, "inside") == ["in.md"]
    (root / "in.md.tmp").write_text("# In\n\nosprey\n")
    (root / "in.md.tmp").replace(root / "in.md")
    assert (found(docs, "osprey"), found(docs, "inside")) == (["in.md"], [])
    old = root / "old.md"
    old.write_text("# Old\n\nkestrel\n")
    os.utime(old, (0, 0))
    old.replace(root / "in.md")
    assert found(docs, "kestrel") == ["in.md"]
    (root / "sub").rename(root / "sub2")
    assert found(docs, "below") == ["sub2/deep.md"]
    (root / "sub2" / "deep.md").unlink()
    assert found(docs, "below") == []
    assert docs.get("/v1/sources/sub2%2Fdeep.md").status_code == 404
    assert docs.get("/v1/sources/sub2%2Fdeep.md/content").status_code == 404


def test_bytes_that_are_no_text_are_served_as_they_are(docs: TestClient, root: Path) -> None:
    assert docs.get("/v1/sources/broken.md/content").content == (root / "broken.md").read_bytes()
    assert docs.get("/v1/sources/broken.md").json()["issues"]
    assert docs.post("/v1/tools/get", json={"doc_id": "broken.md"}).json()["found"]
