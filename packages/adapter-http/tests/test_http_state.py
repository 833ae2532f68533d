"""What the server says of itself: status, probes, metrics, the list for agents, the OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from http_bench.clients import DOCS, client, writable
from knowledge_engine.memory import MemoryProvider
from knowledge_http import HttpSettings
from knowledge_http.grants import parse_tokens
from knowledge_http.server.schemas import WHERE
from knowledge_http.server.state import ServerStatus
from knowledge_http.server.table import OPERATIONS


@pytest.fixture(scope="module")
def docs() -> TestClient:
    return client(docs={**DOCS, "broken.md": b"---\na: [\n---\n# Broken"})


def test_the_status_has_the_documents_issues(docs: TestClient) -> None:
    docs.get("/v1/query?q=valve")
    found = ServerStatus.model_validate_json(docs.get("/v1/status").content)
    assert [issue.path for issue in found.issues] == ["broken.md"]
    assert (found.backends, found.index.documents, found.capabilities.writable) == (("docs",), 3, False)
    assert writable().get("/v1/status").json()["capabilities"]["writable"] is True


def test_asking_how_it_is_does_not_begin_an_index() -> None:
    class Unindexed(MemoryProvider):
        asked = False

        def health_check(self):  # type: ignore[no-untyped-def]
            found = super().health_check()
            return found if self.asked else found.model_copy(update={"index": type(found.index)()})

        def list_sources(self, **given: Any):  # type: ignore[no-untyped-def]
            self.asked = True
            return super().list_sources(**given)

    backend = Unindexed(DOCS)
    assert client(docs=backend).get("/v1/status").json()["index"]["revision"] == ""
    assert not backend.asked


def test_probes_say_how_it_is(docs: TestClient) -> None:
    assert docs.get("/healthz").json() == {"status": "ok"}
    assert docs.get("/readyz").json() == {"status": "ready"}
    docs.app.state.knowledge.draining = True  # type: ignore[attr-defined]
    ending = docs.get("/readyz")
    assert (ending.status_code, ending.json()) == (503, {"status": "not-ready"})
    docs.app.state.knowledge.draining = False  # type: ignore[attr-defined]


def test_metrics_count_by_route_and_not_by_what_was_asked() -> None:
    docs = client()
    for where in (
        "/v1/sources/secret-id",
        "/v1/sources/other/content",
        "/v1/query?q=secret-question",
        "/secret-path",
    ):
        docs.get(where)
    docs.request("ODD", "/v1/query")
    text = docs.get("/metrics").text
    assert "secret" not in text
    assert 'knowledge_http_requests_total{method="GET",route="/v1/sources/{id}",status="404"} 1.0' in text
    assert 'knowledge_http_requests_total{method="other",route="/v1/query",status="405"} 1.0' in text
    assert 'route="other",status="404"' in text
    assert 'knowledge_backend_documents{backend="docs"} 2.0' in text
    assert "knowledge_http_requests_under_way 1.0" in text


def test_the_list_for_agents_names_the_documents_and_links_to_them() -> None:
    hostile = {f"{number:04}.md": b"# Words" for number in range(600)} | {
        "! a b](x).md": b"---\ntitle: \"Evil](http://x) [click](y)\\n## Heading\"\nsummary: 'a\\n\\n# b'\n---\n# T"
    }
    docs = client(docs=hostile)
    text = docs.get("/llms.txt").text
    assert text.startswith("# Knowledge server\n")
    assert "and 101 more" in text
    listed = docs.get("/llms.txt?backend=docs").text
    line = next(line for line in listed.splitlines() if "a%20b" in line)
    found = re.fullmatch(r"- \[([^\[\]]*)\]\((\S+)\)(: .*)?", line)
    assert found is not None
    assert docs.get(found[2]).content == hostile["! a b](x).md"]
    assert docs.get("/llms.txt").headers["content-type"] == "text/plain; charset=utf-8"


# The OpenAPI document


def test_every_operation_is_described_and_every_reference_leads_somewhere(docs: TestClient) -> None:
    document = writable().get("/openapi.json").json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(operation.method, operation.path) for operation in OPERATIONS}
    names = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names)
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', writable().get("/openapi.json").text))
    assert references == set(document["components"]["schemas"]) & references
    assert {"Filter", "Condition", "Operators", "Query", "QueryResult", "Problem"} <= references


def test_what_no_backend_can_do_is_not_described() -> None:
    class Reading:
        """Only what every backend has."""

        def __init__(self) -> None:
            inner = MemoryProvider(DOCS)
            for name in ("list_sources", "get_source", "read_source", "query", "health_check", "dispose"):
                setattr(self, name, getattr(inner, name))
            self.id, self.capabilities = "reading", inner.capabilities.model_copy(update={"writable": False})

    from knowledge_engine.service import KnowledgeService
    from knowledge_http import create_app

    app = create_app({"docs": KnowledgeService(Reading())}, environ={})  # type: ignore[arg-type]
    paths = app.openapi()["paths"]
    assert set(paths["/v1/sources/{id}"]) == {"get"}
    assert "/v1/supersede" not in paths


def test_the_document_tells_of_tokens_where_there_are_some() -> None:
    document = client(HttpSettings(tokens=parse_tokens("a:read"), quiet=True)).get("/openapi.json").json()
    assert document["paths"]["/v1/query"]["post"]["security"] == [{"token": []}]
    assert "401" in document["paths"]["/v1/query"]["post"]["responses"]
    assert "security" not in document["paths"]["/healthz"]["get"]
    assert "securitySchemes" not in client().get("/openapi.json").json()["components"]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        *(
            (good, True)
            for good in ("kind=device", "kind", "!kind", "year>=2020", "a.b!=", " kind = x ", "a^=x", "a~=b")
        ),
        *((bad, False) for bad in ("", "=x", "a>", "!", "a^", "a~b")),
    ],
)
def test_conditions_are_described_as_they_are_read(docs: TestClient, text: str, good: bool) -> None:
    assert bool(re.search(WHERE, text)) is good
    assert docs.get("/v1/sources", params={"where": text}).status_code == (200 if good else 400)
