"""Several backends behind one server, some of which hang."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from http_bench.clients import DOCS, client
from http_bench.servers import services
from knowledge_engine.errors import InvalidArgumentError, UnavailableError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Health, Query, QueryResult, SourcePage
from knowledge_http import HttpSettings, create_app

NOTES = {"n.md": b"---\nid: note\n---\n# Note\n\nA valve. See [other](o.md).\n", "o.md": b"# Other"}


@pytest.fixture
def both() -> TestClient:
    return client(HttpSettings(writable=True, quiet=True), docs=DOCS, notes=NOTES)


def test_ids_begin_with_the_backends_name_everywhere(both: TestClient) -> None:
    listed = [each["id"] for each in both.get("/v1/sources").json()["sources"]]
    assert listed == ["docs:guides/start.md", "docs:pump.md", "notes:n.md", "notes:o.md"]
    found = {each["source_id"] for each in both.get("/v1/query?q=valve").json()["hits"]}
    assert found == {"docs:guides/start.md", "docs:pump.md", "notes:n.md"}
    detail = both.get("/v1/sources/notes:n.md").json()
    assert (detail["source"]["id"], detail["links"][0]["source_id"]) == ("notes:n.md", "notes:o.md")
    assert both.get("/v1/sources/notes%3Anote").json()["source"]["id"] == "notes:n.md"
    assert both.get("/v1/sources/notes:n.md/content").headers["knowledge-source-id"] == "notes:n.md"
    assert both.get("/v1/sources/notes:n.md/provenance").json()["source_id"] == "notes:n.md"
    assert both.get("/v1/status").json()["backends"] == ["docs", "notes"]
    hit = both.get("/v1/query?q=valve&backend=notes").json()["hits"][0]
    assert hit["source_id"] == "n.md"
    outer = {**hit, "source_id": "notes:n.md"}
    assert both.post("/v1/verify", json=outer).json() == {
        "status": "ok",
        "source_id": "notes:n.md",
        "span": hit["span"],
    }
    assert both.post("/v1/verify", json=hit).json()["status"] == "gone"
    assert both.post("/v1/verify?backend=notes", json=hit).json()["status"] == "ok"


def test_what_is_written_goes_to_the_backend_that_the_id_names(both: TestClient) -> None:
    assert both.put("/v1/sources/notes:new.md", content=b"# New").json()["id"] == "notes:new.md"
    assert both.get("/v1/sources/new.md/content?backend=notes").text == "# New"
    assert both.put("/v1/sources/new.md", content=b"x").status_code == 404
    assert both.post("/v1/sources", json={"text": "words"}).status_code == 400
    assert both.post("/v1/sources?backend=docs", json={"text": "words"}).status_code == 201
    assert both.delete("/v1/sources/notes:new.md").status_code == 204


def test_one_that_may_be_written_takes_what_names_none() -> None:
    class Fixed(MemoryProvider):
        pass

    from knowledge_http.grants import parse_tokens

    docs = client(HttpSettings(tokens=parse_tokens("t:read,t:write:notes"), quiet=True), docs=DOCS, notes=NOTES)
    made = docs.post("/v1/sources", json={"text": "words"}, headers={"Authorization": "Bearer t"})
    assert made.json()["id"].startswith("notes:")


def test_a_server_of_nothing_or_of_a_name_that_ids_cannot_hold_is_not_made() -> None:
    with pytest.raises(InvalidArgumentError, match="nothing to serve"):
        create_app({}, environ={})
    docs = client(**{"1x": DOCS, "docs": DOCS})
    assert docs.get("/v1/sources").status_code == 500


# One hangs


class Hanging(MemoryProvider):
    """Answers nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__(NOTES)
        self.going_on = threading.Event()

    def query(self, query: Query) -> QueryResult:
        self.going_on.wait(60)
        return super().query(query)

    def list_sources(self, **given: object) -> SourcePage:  # type: ignore[override]
        self.going_on.wait(60)
        return super().list_sources(**given)  # type: ignore[arg-type]

    def health_check(self) -> Health:
        self.going_on.wait(60)
        return super().health_check()


@contextmanager
def one_hangs(**more: object) -> Iterator[tuple[TestClient, Hanging]]:
    hanging = Hanging()
    settings = HttpSettings(quiet=True, **{"timeout_s": 0.4, "max_concurrent": 2, **more})  # type: ignore[arg-type]
    try:
        yield client(settings, docs=DOCS, slow=hanging), hanging
    finally:
        hanging.going_on.set()


def test_a_backend_that_hangs_is_503_and_the_others_answer() -> None:
    with one_hangs() as (docs, hanging):
        for _ in range(6):
            answer = docs.get("/v1/query?q=valve&backend=slow")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            assert answer.json()["error"]["code"] in ("unavailable", "busy")
            assert docs.get("/v1/query?q=valve&backend=docs").json()["hits"]
            assert docs.get("/v1/sources/docs:pump.md").status_code == 200
        # Too many hang now: it is refused at once.
        assert docs.get("/v1/query?q=valve&backend=slow").json()["error"]["code"] == "busy"
        hanging.going_on.set()


def test_all_together_are_answered_by_those_that_can() -> None:
    with one_hangs(timeout_s=5.0) as (docs, _):
        answer = docs.get("/v1/query?q=valve").json()
        assert {each["backend"] for each in answer["hits"]} == {"docs"}
        assert any("slow" in warning for warning in answer["warnings"])
        assert docs.get("/readyz").json() == {"status": "ready"}
        text = docs.get("/metrics").text
        assert 'knowledge_backend_up{backend="docs"} 1.0' in text
        assert 'knowledge_backend_up{backend="slow"} 0.0' in text


def test_too_many_that_wait_are_refused_at_once() -> None:
    hanging = Hanging()
    app = create_app(services(slow=hanging), HttpSettings(quiet=True, max_concurrent=1), environ={})
    room = app.state.knowledge.served.rooms["slow"]
    room._held = 33
    docs = TestClient(app, base_url="http://127.0.0.1")
    assert docs.get("/v1/query?q=valve").json()["error"]["code"] == "busy"
    hanging.going_on.set()


class Dead(MemoryProvider):
    def __init__(self) -> None:
        super().__init__({})

    def query(self, query: Query) -> QueryResult:
        raise UnavailableError("The disk is gone", mend="Look at it.")

    def health_check(self) -> Health:
        return Health(status="down", message="The disk is gone.")


def test_a_server_whose_backends_are_all_down_is_not_ready() -> None:
    docs = client(dead=Dead())
    assert (docs.get("/readyz").status_code, docs.get("/healthz").status_code) == (503, 200)
    answer = docs.get("/v1/query?q=valve")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert docs.get("/v1/status").json()["status"] == "down"
