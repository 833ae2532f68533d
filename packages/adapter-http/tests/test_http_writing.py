"""Storing and deleting over HTTP: conditions, who may, and what becomes of kept answers."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from http_bench.clients import DOCS, client, writable
from knowledge_engine.fs import LocalFs
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Query, QueryResult
from knowledge_engine.passages import not_text
from knowledge_engine.service import KnowledgeService
from knowledge_files import FilesKnowledgeAdapter
from knowledge_http import HttpSettings, create_app


def tag(data: bytes) -> str:
    return f'"{sha256(data).hexdigest()}"'


def put(docs: TestClient, where: str, data: bytes, **headers: str) -> tuple[int, str]:
    answer = docs.put(
        f"/v1/sources/{where}", content=data, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )
    return answer.status_code, (answer.json().get("error") or {}).get("code", "")


@given(st.binary(max_size=300).filter(lambda data: not not_text(data)))
def test_a_document_is_stored_byte_for_byte(data: bytes) -> None:
    docs = writable(docs={})
    made = docs.put("/v1/sources/a/new.md", content=data)
    assert (made.status_code, made.headers["etag"], made.json()["id"]) == (201, tag(data), "a/new.md")
    assert docs.put("/v1/sources/a%2Fnew.md", content=data).status_code == 200
    assert docs.get("/v1/sources/a/new.md/content").content == data


def test_a_version_is_replaced_only_by_who_knows_it() -> None:
    docs = writable()
    old, new = DOCS["pump.md"], b"# New"
    for header in ('"other"', f"W/{tag(old)}", '"a", "b"'):
        assert put(docs, "pump.md", new, If_Match=header) == (412, "conflict")
    assert put(docs, "pump.md", new, If_None_Match="*") == (412, "conflict")
    assert docs.get("/v1/sources/pump.md/content").content == old
    assert put(docs, "pump.md", new, If_Match=f'"other", {tag(old)}') == (200, "")
    assert put(docs, "pump.md", old, If_Match="*") == (200, "")
    assert put(docs, "other.md", new, If_Match="*") == (412, "conflict")
    assert put(docs, "other.md", new, If_Match='"x"') == (412, "conflict")
    assert put(docs, "other.md", new, If_None_Match="*") == (201, "")


@pytest.mark.parametrize(
    "headers", [{"If_Match": "x"}, {"If_Match": ""}, {"If_None_Match": '"x"'}, {"If_Match": "*", "If_None_Match": "*"}]
)
def test_a_condition_that_cannot_be_read_stores_nothing(headers: dict[str, str]) -> None:
    docs = writable()
    assert put(docs, "pump.md", b"new", **headers) == (400, "invalid-argument")
    assert docs.get("/v1/sources/pump.md/content").content == DOCS["pump.md"]


def test_deleting_needs_the_id_itself_and_the_version_where_one_is_named() -> None:
    docs = writable()
    assert docs.delete("/v1/sources/start").status_code == 404
    assert docs.delete("/v1/sources/pump.md", headers={"If-Match": '"other"'}).status_code == 412
    gone = docs.delete("/v1/sources/pump.md", headers={"If-Match": tag(DOCS["pump.md"])})
    assert (gone.status_code, gone.content) == (204, b"")
    assert docs.delete("/v1/sources/pump.md").status_code == 404
    assert docs.get("/v1/sources").json()["total"] == 1


def test_a_document_is_stored_by_its_parts_and_its_metadata_changed() -> None:
    docs = writable(docs={})
    content = {"id": "raw.md", "content": base64.b64encode(b"\xff# raw").decode()}
    assert docs.post("/v1/sources", json=content).status_code == 201
    assert docs.get("/v1/sources/raw.md/content").content == b"\xff# raw"
    text = {"text": "words", "title": "Some: title", "metadata": {"kind": "note"}}
    made = docs.post("/v1/sources", json=text)
    assert (made.status_code, made.json()["title"]) == (201, "Some: title")
    again = docs.post("/v1/sources", json={"id": made.json()["id"], "metadata": {"kind": "guide"}})
    assert (again.status_code, again.json()["metadata"]["kind"]) == (200, "guide")
    conflict = docs.post("/v1/sources", json={**content, "text": None}, headers={"If-None-Match": "*"})
    assert conflict.status_code == 412


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"content": "%%"}, 400),
        ({"content": "YQ==", "text": "a"}, 400),
        ({"id": "a.md", "text": "x", "more": 1}, 400),
        ({"id": 5, "text": "x"}, 400),
        ({"kind": "video", "text": "x"}, 422),
        ({"id": "../a.md", "text": "x"}, 404),
        ({"id": "missing.md", "metadata": {"a": 1}}, 404),
        ("text", 400),
    ],
)
def test_what_is_no_document_is_refused(body: object, status: int) -> None:
    docs = writable(docs={})
    answer = docs.post("/v1/sources", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert docs.get("/v1/sources").json()["total"] == 0


def test_half_a_surrogate_pair_is_not_stored() -> None:
    docs = writable(docs={})
    body = b'{"id": "a.md", "text": "bad \\udcff"}'
    assert docs.post("/v1/sources", content=body, headers={"Content-Type": "application/json"}).status_code == 400


def test_a_form_is_no_document() -> None:
    assert put(writable(), "a.md", b"--x", Content_Type="multipart/form-data; boundary=x")[0] == 415


def test_who_may_only_read_writes_nothing() -> None:
    docs = client()
    for method, where in (
        ("PUT", "/v1/sources/pump.md"),
        ("DELETE", "/v1/sources/pump.md"),
        ("POST", "/v1/sources"),
        ("POST", "/v1/supersede"),
    ):
        answer = docs.request(method, where, json={"id": "x.md", "text": "x"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read-only")
    assert docs.post("/v1/refresh", json={}).json()["error"]["code"] == "forbidden"
    assert docs.get("/v1/status").json()["capabilities"]["writable"] is False
    assert docs.get("/v1/sources/pump.md/content").content == DOCS["pump.md"]


class Fixed(MemoryProvider):
    """It cannot be written."""

    @property
    def capabilities(self):  # type: ignore[no-untyped-def]
        return super().capabilities.model_copy(update={"writable": False})


def test_a_backend_that_cannot_be_written_says_so() -> None:
    docs = writable(docs=Fixed(DOCS))
    assert put(docs, "pump.md", b"x") == (422, "not-supported")
    assert docs.get("/v1/status").json()["capabilities"]["writable"] is False


class Superseding(MemoryProvider):
    def __init__(self, docs: dict[str, bytes]) -> None:
        super().__init__(docs)
        self.superseded: list[tuple[str, str]] = []

    def supersede(self, source_id: str, by: str) -> None:
        self.superseded.append((source_id, by))


def test_one_document_may_stand_for_another_of_its_backend(tmp_path: Path) -> None:
    backend = Superseding({"a.md": b"a", "b.md": b"b"})
    (tmp_path / "c.md").write_text("# C")
    docs = writable(notes=backend, docs=FilesKnowledgeAdapter(LocalFs(str(tmp_path)), "."))
    body = {"source_id": "notes:a.md", "by": "notes:b.md"}
    assert docs.post("/v1/supersede", json=body).status_code == 204
    assert backend.superseded == [("a.md", "b.md")]
    for wrong in ({**body, "by": "docs:c.md"}, {"source_id": "docs:c.md", "by": "docs:d.md"}):
        assert docs.post("/v1/supersede", json=wrong).json()["error"]["code"] == "not-supported"


def test_refreshing_takes_in_what_changed_and_forgetting_builds_anew(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Heron")
    docs = writable(docs=FilesKnowledgeAdapter(LocalFs(str(tmp_path)), "."))
    assert docs.get("/v1/query?q=heron").json()["hits"]
    assert docs.post("/v1/refresh", json={}).json() == {"changed": False}
    (tmp_path / "b.md").write_text("# Stork")
    assert docs.post("/v1/refresh", json={"paths": ["b.md"]}).json() == {"changed": True}
    assert docs.get("/v1/query?q=stork").json()["hits"]
    assert docs.post("/v1/refresh", json={"forget": True}).json() == {"changed": False}
    assert docs.get("/v1/query?q=stork").json()["hits"]
    assert writable().post("/v1/refresh", json={}).json() == {"changed": False}


# Kept answers


class Counting(MemoryProvider):
    """Counts questions, and can be changed behind the server's back."""

    asked = 0

    def query(self, query: Query) -> QueryResult:
        self.asked += 1
        return super().query(query)


def kept_client(backend: MemoryProvider, fresh_for_s: float = 1e6) -> TestClient:
    service = KnowledgeService(backend, refresh_before_answer=True, fresh_for_s=fresh_for_s)
    app = create_app({"docs": service}, HttpSettings(writable=True, quiet=True), environ={})
    return TestClient(app, base_url="http://127.0.0.1")


def hits(docs: TestClient, query: str = "valve") -> list[str]:
    return [each["source_id"] for each in docs.post("/v1/query", json={"query": query}).json()["hits"]]


def test_the_same_question_is_answered_once_until_something_is_written() -> None:
    backend = Counting(DOCS)
    with kept_client(backend) as docs:
        hits(docs)  # the first is asked for while it is looked at what there is
        first = hits(docs)
        asked = backend.asked
        assert [hits(docs) for _ in range(5)] == [first] * 5
        assert backend.asked == asked
        assert hits(docs, "seal") == ["pump.md"]
        docs.put("/v1/sources/new.md", content=b"# valve valve valve")
        assert "new.md" in hits(docs)
        docs.delete("/v1/sources/new.md")
        assert "new.md" not in hits(docs)


def test_what_changes_elsewhere_is_told_as_soon_as_it_is_looked_for() -> None:
    backend = Counting(DOCS)
    with kept_client(backend, fresh_for_s=1e-9) as docs:
        assert [hits(docs), hits(docs)]
        backend.delete_source("pump.md")
        # Each answer begins a look at what there is, so the next but one is of what there is.
        for _ in range(3):
            last = hits(docs)
        assert "pump.md" not in last


def test_nothing_is_kept_for_a_service_that_must_not_be_stale() -> None:
    backend = Counting(DOCS)
    with kept_client(backend, fresh_for_s=0.0) as docs:
        for _ in range(3):
            hits(docs)
    assert backend.asked == 3


class Warning_(Counting):
    def query(self, query: Query) -> QueryResult:
        return super().query(query).model_copy(update={"warnings": ("one is left out",)})


def test_an_answer_with_a_warning_is_not_given_again() -> None:
    backend = Warning_(DOCS)
    with kept_client(backend) as docs:
        for _ in range(4):
            hits(docs)
    assert backend.asked == 4
