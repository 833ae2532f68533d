"""Streamable HTTP below `/mcp`: the host says who asks, each request stands for itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from http_bench.servers import running
from knowledge_engine.agent_tools import AgentTools
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


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")])
def test_the_client_of_the_sdk_is_answered_as_the_python_tools_answer(mode: Any, version: str) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("list", {}),
        ("get", {"doc_id": "a/ü.md"}),
        ("get", {"doc_id": "zzz"}),
        ("query", {"query": "valve", "top_k": 1}),
        ("query", {"query": "valve", "filter": {"kind": {"near": 1}}}),
    ]
    expected = [AgentTools(services()["docs"]).call(name, arguments) for name, arguments in asked]

    async def run(url: str) -> list[Any]:
        headers = {"Authorization": "Bearer rrr"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
        ):
            assert client.protocol_version == version
            read = await client.read_resource("knowledge://a/%C3%BC.md")
            assert read.contents[0].text == "# Pump\n\nvalve"  # type: ignore[union-attr]
            return [(await client.call_tool(name, arguments)).structured_content for name, arguments in asked]

    app = create_app(services(), HttpSettings(quiet=True, tokens=TOKENS), environ={})
    with running(app) as url:
        assert asyncio.run(run(url)) == expected


@pytest.mark.parametrize(("token", "offered"), [("rrr", READING), ("www", WRITING), ("one", READING)])
def test_what_is_offered_is_what_the_token_allows(token: str, offered: list[str]) -> None:
    with web() as client:
        listed = post(client, token, "tools/list").json()
    assert [each["name"] for each in listed["result"]["tools"]] == offered


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


def test_of_several_backends_a_token_sees_and_writes_only_its_own() -> None:
    with web("docs", "notes") as client:
        found = {hit["source_id"] for hit in call(client, "one", "query", query="valve", top_k=9)["hits"]}
        assert found == {"docs:a/ü.md", "docs:b.md"}
        assert call(client, "one", "get", doc_id="notes:b.md")["found"] is False
        assert call(client, "one", "ingest", text="x", id="docs:n.md")["code"] == "read-only"
        assert call(client, "two", "ingest", text="# New", id="notes:n.md")["id"] == "notes:n.md"
        assert "code" in call(client, "two", "ingest", text="# New", id="docs:n.md")
        assert call(client, "rrr", "get", doc_id="notes:n.md")["found"] is True
        assert call(client, "rrr", "get", doc_id="docs:n.md")["found"] is False


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


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b"{}", b"\xff", b'{"jsonrpc":"2.0","id":1,"method":7}', b"[" * 50_000]
)
def test_what_is_no_message_is_refused_and_the_next_is_answered(body: bytes) -> None:
    headers = {
        "Authorization": "Bearer rrr",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    with web() as client:
        refused = client.post("/mcp", content=body, headers=headers)
        assert 400 <= refused.status_code < 500
        json.loads(refused.text)
        assert call(client, "rrr", "list")["count"] == 2


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
