"""Streamable HTTP below `/mcp`: the host says who asks, each request stands for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from knowledge_engine.memory import MemoryProvider
from knowledge_engine.service import KnowledgeService
from knowledge_http import HttpSettings, create_app
from knowledge_http.grants import parse_tokens
from knowledge_mcp import create_app as create_mcp_app

DOCS: Mapping[str, bytes] = {"a/ü.md": b"# Pump\n\nvalve", "b.md": b"---\nkind: note\n---\n# Seal\n\nvalve"}
TOKENS = parse_tokens("rrr:read,www:write,one:read:docs,two:write:notes")
READING = ["list", "get", "query", "status"]
WRITING = [*READING, "ingest", "delete"]


def services(*names: str) -> dict[str, KnowledgeService]:
    return {name: KnowledgeService(MemoryProvider(DOCS)) for name in names or ("docs",)}


@contextmanager
def web(*names: str) -> Iterator[TestClient]:
    app = create_app(services(*names), HttpSettings(quiet=True, tokens=TOKENS), environ={})
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


def post(client: TestClient, token: str | None, method: str, **params: Any) -> Any:
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return client.post("/mcp", json=message, headers=headers)


def call(client: TestClient, token: str, name: str, **arguments: Any) -> dict[str, Any]:
    answered = post(client, token, "tools/call", name=name, arguments=arguments)
    assert answered.status_code == 200, answered.text
    answer: dict[str, Any] = answered.json()["result"]["structuredContent"]
    return answer


@pytest.mark.parametrize("token", [None, "wrong"])
def test_nobody_is_answered_without_a_token(token: str | None) -> None:
    with web() as client:
        answered = post(client, token, "tools/list")
    assert answered.status_code == 401
    assert "valve" not in answered.text


def test_a_reader_cannot_write_and_a_writer_can() -> None:
    with web() as client:
        refused = call(client, "rrr", "ingest", text="# New", id="n.md")
        assert (refused["stored"], refused["code"]) == (False, "read-only")
        assert call(client, "rrr", "get", doc_id="n.md")["found"] is False
        assert call(client, "www", "ingest", text="# New", id="n.md")["stored"] is True
        assert call(client, "rrr", "get", doc_id="n.md")["found"] is True
        assert call(client, "rrr", "delete", doc_id="n.md")["code"] == "read-only"
        assert call(client, "www", "delete", doc_id="n.md") == {"deleted": True, "id": "n.md"}
        assert call(client, "rrr", "get", doc_id="n.md")["found"] is False


def test_only_posts_are_taken() -> None:
    with web() as client:
        for method in ("GET", "DELETE", "PUT"):
            answered = client.request(method, "/mcp", headers={"Authorization": "Bearer rrr"})
            assert answered.status_code == 405
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect("/mcp", headers={"Authorization": "Bearer rrr"}),
        ):
            pass


def test_it_can_be_mounted_by_another_host_that_says_what_a_caller_may() -> None:
    inner = create_mcp_app(services(), environ={})

    class All:
        def allows(self, scope: str, backend: str | None = None) -> bool:
            return True

        def visible(self, names: Any) -> tuple[str, ...]:
            return tuple(names)

    async def host(scope: Any, receive: Any, send: Any) -> None:
        await inner({**scope, "knowledge.grant": All()}, receive, send)

    with TestClient(host, base_url="http://127.0.0.1") as client:
        listed = post(client, None, "tools/list").json()
    assert [each["name"] for each in listed["result"]["tools"]] == WRITING
