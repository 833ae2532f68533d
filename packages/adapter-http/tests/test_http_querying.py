"""Questions over HTTP, as bodies and links, for programs and agents; and what is no question."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from http_bench.clients import DOCS, client
from http_bench.servers import services
from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Query, QueryResult


@pytest.fixture(scope="module")
def docs() -> TestClient:
    return client()


def post(docs: TestClient, data: bytes | str, where: str = "/v1/query", **headers: str) -> Any:
    return docs.post(where, content=data, headers={"Content-Type": "application/json", **headers})


def test_a_question_is_answered_as_the_backend_does(docs: TestClient) -> None:
    asked = Query(query="valve", top_k=1, filter={"kind": "device"}, max_chars=50)
    answer = QueryResult.model_validate_json(post(docs, asked.model_dump_json()).content)
    expected = MemoryProvider(DOCS).query(asked)
    assert answer.model_copy(update={"took_ms": 0.0}) == expected.model_copy(update={"took_ms": 0.0})


def test_the_same_question_as_a_link(docs: TestClient) -> None:
    asked = {
        "query": "valve",
        "top_k": 1,
        "filter": {"kind": "device"},
        "per_source": 2,
        "max_chars": 9,
        "min_score": 0.0,
    }
    link = {**asked, "q": "valve", "filter": json.dumps(asked["filter"]), "wait_s": "1.5", "mode": "keyword"}
    del link["query"]
    by_link = docs.get("/v1/query", params=link).json()
    assert by_link["hits"] == post(docs, json.dumps(asked)).json()["hits"]
    assert by_link["hits"][0]["source_id"] == "pump.md"
    assert docs.get("/v1/query?q=valve&where=kind%3Dguide").json()["hits"][0]["source_id"] == "guides/start.md"


@pytest.mark.parametrize(
    "body",
    [
        "not json",
        "",
        "[]",
        '"valve"',
        "null",
        '{"query":',
        "[" * 200_000,
        '{"query":"v","top_k":' + "9" * 5000 + "}",
        '{"query":"v","top_k":true}',
        '{"query":"v","top_k":"5"}',
        '{"query":"v","top_k":1.5}',
        '{"query":["v"]}',
        '{"query":{"a":1}}',
        '{"query":null}',
        '{"query":5}',
        "{}",
        '{"query":"v","more":1}',
        '{"query":"v \\ud83d"}',
        b'{"query":"\xff"}',
        b"\xff\xfe{\x00",
        '{"query":"v","min_score":NaN}',
        '{"query":"v","min_score":1e999}',
        '{"query":"v","top_k":0}',
        '{"query":"v","top_k":-1}',
        '{"query":"v","filter":{"kind":{"like":"x"}}}',
        '{"query":""}',
        '{"query":"  \\n"}',
        '{"query":"v","filter":[]}',
        '{"query":"v","mode":"magic"}',
        '{"query":"' + "x" * 10_001 + '"}',
        '{"query":"v","top_k":1e400}',
        '{"query":"v","top_k":1.5,"per_source":2.0}',
    ],
)
def test_what_is_no_question_is_refused_in_json(docs: TestClient, body: str | bytes) -> None:
    answer = post(docs, body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error["mend"]
    assert "Traceback" not in answer.text
    assert len(answer.content) < 2000


def test_more_hits_than_there_may_be_are_as_many_as_there_may_be(docs: TestClient) -> None:
    assert post(docs, '{"query":"valve","top_k":1000000000}').json()["hits"]


def test_a_whole_number_may_be_written_with_a_point(docs: TestClient) -> None:
    assert len(post(docs, '{"query":"valve","top_k":1.0,"per_source":2.0}').json()["hits"]) == 1


def test_an_empty_question_has_no_hits_for_a_backend_that_asks_so(docs: TestClient) -> None:
    answer = post(docs, '{"query":" "}', "/v1/query?blank=true")
    assert (answer.status_code, answer.json()["hits"]) == (200, [])
    assert post(docs, '{"query":"valve"}', "/v1/query?blank=true").json()["hits"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "invalid-argument"),
        ("q=", "invalid-query"),
        ("q=valve&top_k=0", "invalid-argument"),
        ("q=a&q=b", "invalid-argument"),
        ("q=valve&min_score=nan", "invalid-argument"),
        ("q=valve&min_score=1e999", "invalid-argument"),
        ("query=valve", "invalid-argument"),
        ("q=valve&wait_s=-1", "invalid-argument"),
        ("q=valve&mode=magic", "invalid-argument"),
        ("q=%ED%A0%80", "invalid-argument"),
    ],
)
def test_a_link_that_is_no_question_is_refused(docs: TestClient, query: str, code: str) -> None:
    answer = docs.get(f"/v1/query?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("application/ld+json", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/json; charset=latin-1", 415),
        ("multipart/form-data; boundary=x", 415),
        ("", 415),
        ("application/xml", 415),
    ],
)
def test_a_body_that_says_that_it_is_something_else_is_not_read(docs: TestClient, kind: str, status: int) -> None:
    assert docs.post("/v1/query", content='{"query":"valve"}', headers={"Content-Type": kind}).status_code == status


def test_a_body_without_a_type_is_taken_for_json(docs: TestClient) -> None:
    request = docs.build_request("POST", "/v1/query", content=b'{"query":"valve"}')
    request.headers.pop("content-type", None)
    assert docs.send(request).status_code == 200


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "gzip, gzip", "nonsense"])
def test_a_packed_body_is_not_unpacked(docs: TestClient, encoding: str) -> None:
    answer = post(docs, b"\x1f\x8b" + b"\0" * 100, **{"Content-Encoding": encoding})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported-media-type")


def test_a_body_over_the_limit_is_refused_whether_it_says_so_or_not() -> None:
    from knowledge_http import HttpSettings

    docs = client(HttpSettings(max_body=10_000, quiet=True))
    long = b'{"query":"' + b"x" * 10_000 + b'"}'
    assert post(docs, long).status_code == 413

    def parts() -> Any:
        yield long[:9_000]
        yield long[9_000:]

    chunked = docs.post("/v1/query", content=parts(), headers={"Content-Type": "application/json"})
    assert (chunked.status_code, chunked.headers["connection"]) == (413, "close")


# Citations


def test_a_hit_is_verified_as_it_came_and_many_at_once(docs: TestClient) -> None:
    hit = post(docs, '{"query":"valve"}').json()["hits"][0]
    assert docs.post("/v1/verify", json=hit).json()["status"] == "ok"
    gone = {**hit, "source_id": "gone.md"}
    changed = {**hit, "content_hash": "0" * 64}
    backwards = {**hit, "span": {"start": 9, "end": 3}}
    answer = docs.post("/v1/verify", json={"citations": [hit, gone, changed, backwards]}).json()
    assert [each["status"] for each in answer["verifications"]] == ["ok", "gone", "changed", "changed"]


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"citations":1}', '{"citations":[{}]}', '{"citations":[],"x":1}', "[" * 99_999]
)
def test_what_is_no_citation_is_refused(docs: TestClient, body: str) -> None:
    assert post(docs, body, "/v1/verify").status_code == 400


# Tools


def test_tools_answer_what_they_answer_in_python(docs: TestClient) -> None:
    tools = AgentTools(services(docs=DOCS)["docs"])
    for name, arguments in (
        ("list", {"kind": "device"}), ("get", {"doc_id": "start"}), ("get", {"doc_id": "strat"}),
        ("query", {"query": "valve"}),
        ("query", {"query": ""}), ("get", {}), ("query", {"query": "valve", "filter": {"a": {"like": 1}}}),
    ):  # fmt: skip
        answer = docs.post(f"/v1/tools/{name}", json=arguments)
        assert answer.status_code == 200
        assert answer.json() == json.loads(json.dumps(tools.call(name, arguments)))


def test_the_tools_are_described_under_the_names_that_they_are_called_by(docs: TestClient) -> None:
    found = docs.get("/v1/tools").json()["tools"]
    assert [each["name"] for each in found] == ["list", "get", "query"]
    assert all(each["description"] and each["parameters"]["type"] == "object" for each in found)


def test_a_tool_without_arguments_needs_no_body(docs: TestClient) -> None:
    assert docs.post("/v1/tools/list").json()["total"] == 2


@pytest.mark.parametrize(
    ("name", "body", "status"), [("other", "{}", 404), ("list", "[]", 400), ("list", "{", 400), ("a%2Fb", "{}", 404)]
)
def test_a_tool_that_is_not_there_or_not_called_so_is_an_error(
    docs: TestClient, name: str, body: str, status: int
) -> None:
    assert post(docs, body, f"/v1/tools/{name}").status_code == status


class Failing(MemoryProvider):
    def query(self, query: Query) -> QueryResult:
        raise RuntimeError("/srv/kb/secret path SELECT * FROM docs")


def test_what_was_not_foreseen_shows_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    answer = post(client(docs=Failing(DOCS)), '{"query":"valve"}')
    assert answer.status_code == 500
    assert "/srv" not in answer.text
    assert "SELECT" not in answer.text
    error_id = answer.json()["error"]["id"]
    logged = [record for record in caplog.records if error_id in record.getMessage()]
    assert [record.exc_info is not None for record in logged] == [True]
