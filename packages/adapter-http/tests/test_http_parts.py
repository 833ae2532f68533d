"""Parts of the server and the client by themselves, where the whole seldom gets to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from starlette.routing import NoMatchFound
from starlette.testclient import TestClient

from http_bench.clients import DOCS, client
from http_bench.servers import services
from knowledge_engine.errors import BusyError, ConfigurationError, ProviderError, ReadOnlyError, UnavailableError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Query
from knowledge_http import HttpSettings, create_app
from knowledge_http.client.transport import Transport
from knowledge_http.grants import Grant, parse_tokens
from knowledge_http.server import app as app_module
from knowledge_http.server import serving
from knowledge_http.server.backends import Served
from knowledge_http.server.calls import BodyBudget
from knowledge_http.server.kept import MAX_ANSWERS, KeptAnswers
from knowledge_http.server.rendering import Answer, json_bytes


def test_half_a_surrogate_pair_of_a_backend_does_not_get_out() -> None:
    assert "\\ud83d" not in json_bytes({"a": "x\ud83d"}).decode().lower()
    assert json.loads(json_bytes(Query.model_construct(query="x\ud83d")))["query"].startswith("x")
    assert json.loads(json_bytes({"a": float("nan")}))


def test_a_token_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no UTF-8"):
        parse_tokens("a\udcff:read")


def test_bodies_that_are_too_much_together_are_refused_until_others_are_done() -> None:
    budget = BodyBudget(10)
    budget.take(7)
    with pytest.raises(BusyError):
        budget.take(4)
    budget.give(7)
    budget.take(10)


def test_what_was_sent_is_let_go_when_it_is_answered() -> None:
    docs = client()
    budget = docs.app.state.knowledge.budget  # type: ignore[attr-defined]
    before = budget._left
    for body in (b'{"query":"valve"}', b"x" * 1000):
        docs.post("/v1/query", content=body, headers={"Content-Type": "application/json"})
    assert budget._left == before


def test_tokens_that_come_and_go_leave_no_views_behind() -> None:
    served = Served(services(**{f"b{number}": DOCS for number in range(80)}), HttpSettings())
    for number in range(80):
        view = served.view(Grant(None, {f"b{number}": "read"}), None)
        assert [*view.rooms] == [f"b{number}"]
        with pytest.raises(ReadOnlyError):
            view.check(Grant("read"), "write", view.place(f"b{number}:pump.md"))
    assert len(served._views) <= 64


def test_without_the_page_there_is_a_list_of_where_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "find_spec", lambda _: None)
    docs = TestClient(create_app(services(docs=DOCS), environ={}), base_url="http://127.0.0.1")
    assert docs.get("/").json()["api"] == "/openapi.json"


def test_operations_have_no_names_to_make_urls_of() -> None:
    app = create_app(services(docs=DOCS), environ={})
    with pytest.raises(NoMatchFound):
        app.url_path_for("query")


def test_a_backend_that_does_not_explain_is_explained_by_its_sources() -> None:
    class Silent:
        """Only what every backend has."""

        def __init__(self) -> None:
            inner = MemoryProvider(DOCS)
            for name in ("list_sources", "get_source", "read_source", "query", "health_check", "dispose"):
                setattr(self, name, getattr(inner, name))
            self.id, self.capabilities = "silent", inner.capabilities.model_copy(update={"writable": False})

    docs = client(docs=Silent())
    found = docs.get("/v1/sources/pump.md/provenance").json()
    assert (found["source_id"], len(found["content_hash"])) == ("pump.md", 64)
    assert docs.get("/v1/sources/missing.md/provenance").status_code == 404


# Kept answers


def run(test: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return await test()

    return asyncio.run(main())


class Revision:
    """Names what there is."""

    def __init__(self) -> None:
        self.now, self.asked = "1", 0

    async def __call__(self) -> str:
        self.asked += 1
        if self.now == "broken":
            raise UnavailableError("gone", mend="wait")
        return self.now


def test_answers_go_when_there_are_too_many_or_they_are_too_long() -> None:
    async def test() -> None:
        kept = KeptAnswers(Revision(), 1e6)
        assert kept.find("a") is None
        await asyncio.sleep(0)
        for number in range(MAX_ANSWERS + 5):
            kept.put(number, Answer(200, b"x"), kept.generation)
        assert [kept.find(number) is None for number in (0, 4, 5, MAX_ANSWERS + 4)] == [True, True, False, False]
        kept.put("long", Answer(200, b"x" * 5_000_000), kept.generation)
        kept.put("error", Answer(404, b"x"), kept.generation)
        kept.put("old", Answer(200, b"x"), kept.generation - 1)
        kept.put("odd", Answer(200, b"x", keep=False), kept.generation)
        assert [kept.find(key) for key in ("long", "error", "old", "odd")] == [None] * 4
        for number in range(12):
            kept.put(f"wide {number}", Answer(200, b"x" * 3_000_000), kept.generation)
        assert kept.find("wide 0") is None
        assert kept.find("wide 11") is not None

    run(test)


def test_a_change_that_is_seen_and_a_backend_that_fails_end_what_is_kept() -> None:
    async def test() -> None:
        revision = Revision()
        kept = KeptAnswers(revision, 1e-9)
        kept.find("a")
        await asyncio.sleep(0)
        kept.put("a", Answer(200, b"x"), kept.generation)
        assert kept.find("a") is not None  # while it is looked again
        await asyncio.sleep(0)
        revision.now = "2"
        kept.find("a")
        await asyncio.sleep(0)
        assert kept.find("a") is None
        revision.now = "broken"
        await asyncio.sleep(0)
        kept.find("a")
        await asyncio.sleep(0)
        assert kept.find("a") is None
        assert revision.asked >= 3

    run(test)


def test_what_was_written_during_a_look_is_not_taken_for_what_it_saw() -> None:
    async def test() -> None:
        going_on = asyncio.Event()

        async def revision() -> str:
            await going_on.wait()
            return "1"

        kept = KeptAnswers(revision, 1e6)
        kept.find("a")
        await asyncio.sleep(0)  # now it looks
        kept.forget()
        going_on.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        kept.put("a", Answer(200, b"x"), kept.generation)
        assert kept.find("a") is None

    run(test)


# The client


def transport(**more: Any) -> Transport:
    return Transport(HttpSettings(url="http://127.0.0.1:9", **more))


def test_a_call_after_its_time_is_not_made() -> None:
    with pytest.raises(UnavailableError, match="in time"):
        transport()._sent("GET", httpx2.URL("http://127.0.0.1:9/"), None, None, 0.0)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (httpx2.ReadTimeout("x"), UnavailableError),
        (httpx2.ConnectError("x"), UnavailableError),
        (httpx2.InvalidURL("x"), ProviderError),
        (httpx2.DecodingError("x"), ProviderError),
        (RuntimeError("closed"), UnavailableError),
    ],
)
def test_each_failure_of_the_library_is_one_of_ours(raised: Exception, kind: type[Exception]) -> None:
    class Failing:
        def stream(self, *_: object, **__: object) -> object:
            raise raised

    made = transport()
    made._client = Failing()  # type: ignore[assignment]
    with pytest.raises(kind):
        made._sent("GET", httpx2.URL("http://127.0.0.1:9/"), None, None, float("inf"))


def test_who_is_disposed_of_while_waiting_to_ask_again_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    made = transport()
    calls: list[int] = []

    def once(*_: object) -> object:
        calls.append(1)
        made.close()
        raise UnavailableError("away", mend="wait")

    monkeypatch.setattr(made, "_once", once)
    with pytest.raises(UnavailableError, match="disposed"):
        made.call("GET", "/", reads=True)
    assert calls == [1]


# Serving


def test_as_many_files_are_asked_for_as_connections_need(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = [(1_024, 4_096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[0])
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limits.__setitem__(0, wanted))
    assert serving._room_for_connections() == 4_096 - 256
    limits[0] = (1_024, resource.RLIM_INFINITY)
    assert serving._room_for_connections() == 10_000
    limits[0] = (100, 100)
    assert serving._room_for_connections() == 16
