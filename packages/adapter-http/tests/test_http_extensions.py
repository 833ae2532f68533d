"""What plugins bring: applications, tools; none of them can open or break what is not theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from http_bench.clients import DOCS
from http_bench.servers import services
from knowledge_engine import extensions
from knowledge_engine.errors import BrokenPluginError
from knowledge_engine.extensions import AgentTool, Extensions, Mount
from knowledge_http import HttpSettings
from knowledge_http.grants import parse_tokens
from knowledge_http.server import app as app_module

ADMIN = {"Authorization": "Bearer chief"}
READER = {"Authorization": "Bearer reader"}
HOST = {"Host": "127.0.0.1"}


class Small:
    """An application that says what it sees."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for what in ("startup", "shutdown"):
                self.events.append((await receive())["type"])
                await send({"type": f"lifespan.{what}.complete"})
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "text": "hello"})
            await send({"type": "websocket.close"})
            return
        self.events.append(f"{scope['method']} {scope['path']}")
        if scope["path"].endswith("boom"):
            raise RuntimeError("/secret/path")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-frame-options", b"SAMEORIGIN")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        if scope["path"].endswith("torn"):
            raise RuntimeError("/secret/path")
        await send({"type": "http.response.body", "body": b" and half"})


async def knows_no_lifespan(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def fails_to_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no"})


def broken() -> Any:
    raise RuntimeError("no application today")


def with_extensions(monkeypatch: pytest.MonkeyPatch, found: Extensions) -> TestClient:
    asked: list[Mapping[str, str]] = []

    def collect(services: Any, *, environ: Mapping[str, str], reserved: Any) -> Extensions:
        asked.append(environ)
        assert {"/v1", "/page", "list"} <= set(reserved)
        return found

    monkeypatch.setattr(app_module, "collect_extensions", collect)
    settings = HttpSettings(tokens=parse_tokens("chief:admin,reader:read"), quiet=True)
    app = app_module.create_app(services(docs=DOCS), settings, environ={"A": "b"})
    assert asked == [{"A": "b"}]
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


def test_an_application_is_seen_by_those_who_may(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Small()
    mounts = {"/api/things": Mount("/api/things", "admin", lambda: small)}
    with with_extensions(monkeypatch, Extensions(mounts=mounts)) as docs:
        assert docs.get("/api/things/x").status_code == 401
        assert docs.get("/api/things/x", headers=READER).json()["error"]["code"] == "forbidden"
        answer = docs.get("/api/things/x", headers=ADMIN)
        assert (answer.text, answer.headers["x-frame-options"]) == ("half and half", "SAMEORIGIN")
        assert docs.get("/v1/sources", headers=READER).status_code == 200
        boom = docs.get("/api/things/boom", headers=ADMIN)
        assert (boom.status_code, "/secret" in boom.text) == (500, False)
        with (
            pytest.raises(WebSocketDisconnect) as closed,
            docs.websocket_connect("/api/things/ws", headers=READER | HOST),
        ):
            pass
        assert closed.value.code == 1008
        with docs.websocket_connect("/api/things/ws", headers=ADMIN | HOST) as made:
            assert made.receive_text() == "hello"
        assert 'route="/api/things",status="200"' in docs.get("/metrics", headers=READER).text
    assert small.events[0] == "lifespan.startup"
    assert small.events[-1] == "lifespan.shutdown"


def test_an_answer_that_is_torn_is_not_taken_for_a_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = {"/api": Mount("/api", "read", Small)}
    docs = with_extensions(monkeypatch, Extensions(mounts=mounts))
    docs = TestClient(docs.app, base_url="http://127.0.0.1")
    with pytest.raises(RuntimeError):
        docs.get("/api/torn", headers=READER)


def test_an_application_that_fails_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mounts = {
        "/broken": Mount("/broken", "read", broken),
        "/simple": Mount("/simple", "read", lambda: knows_no_lifespan),
        "/failing": Mount("/failing", "read", lambda: fails_to_start),
    }
    problems = (BrokenPluginError("The plugin x is broken", mend="Update it."),)
    with with_extensions(monkeypatch, Extensions(mounts=mounts, problems=problems)) as docs:
        assert docs.get("/simple/x", headers=READER).status_code == 204
        assert docs.get("/broken/x", headers=READER).status_code == 404
        assert docs.get("/v1/sources", headers=READER).status_code == 200
    said = [record.getMessage() for record in caplog.records if record.name == "knowledge_http"]
    assert said == ["an extension is left out", "not mounted", "an extension failed to start"]


def test_a_tool_is_listed_and_called_by_those_who_may(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def call(arguments: dict[str, Any]) -> dict[str, Any]:
        calls.append(arguments)
        return {"said": len(calls)}

    tool = AgentTool("remember", "Keeps it.", {"type": "object"}, "write", call)
    docs = with_extensions(monkeypatch, Extensions(agent_tools={"remember": tool}))
    assert [len(docs.get("/v1/tools", headers=who).json()["tools"]) for who in (READER, ADMIN)] == [3, 4]
    assert docs.post("/v1/tools/remember", json={}, headers=READER).json()["error"]["code"] == "read-only"
    for number in (1, 2):  # never answered from what is kept
        assert docs.post("/v1/tools/remember", json={"a": 1}, headers=ADMIN).json() == {"said": number}
    assert calls == [{"a": 1}, {"a": 1}]


def test_extensions_are_asked_with_the_environment_that_is_given() -> None:
    assert extensions.collect_extensions({}, environ={}).mounts is not None


def test_routes_of_a_host_are_behind_the_same_tokens() -> None:
    from fastapi import APIRouter

    settings = HttpSettings(tokens=parse_tokens("reader:read"), quiet=True)
    app = app_module.create_app(services(docs=DOCS), settings, environ={})
    router = APIRouter()

    @router.get("/own")
    def own() -> dict[str, str]:
        return {"own": "route"}

    app.include_router(router)
    docs = TestClient(app, base_url="http://127.0.0.1")
    assert docs.get("/own").status_code == 401
    assert docs.get("/own", headers=READER).json() == {"own": "route"}


def test_an_application_in_another_one_is_found_below_its_path() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount as Below

    inner = app_module.create_app(services(docs=DOCS), HttpSettings(quiet=True), environ={})
    docs = TestClient(Starlette(routes=[Below("/kb", app=inner)]), base_url="http://127.0.0.1")
    assert docs.get("/kb/v1/sources/guides%2Fstart.md/content").content == DOCS["guides/start.md"]
    assert docs.get("/kb/healthz").json() == {"status": "ok"}
