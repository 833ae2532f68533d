"""The same below `/mcp` of the HTTP server, on a real socket: the token says what a caller may do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from http_bench.servers import running
from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.service import KnowledgeService
from knowledge_http import HttpSettings
from knowledge_http.server import create_app
from knowledge_mcp.mounting import MAX_BODY_BYTES
from mcp_bench.serving import INITIALIZE, MODES, call, run, services

TOKENS = "rrr:read,www:write,aaa:admin,ra:read:a,wa:write:a"
DOCS = {"a.md": b"# A\n\nwater of a", "b/c d.md": "# Größe\n\nwater of ü".encode()}
READING = ["list", "get", "query", "status"]


@contextmanager
def served(given: Mapping[str, KnowledgeService], tokens: str = TOKENS, **environ: str) -> Iterator[str]:
    settings = HttpSettings.from_env({"KNOWLEDGE_HTTP_TOKENS": tokens, "KNOWLEDGE_HTTP_QUIET": "1"})
    with running(create_app(given, settings, environ=environ)) as url:
        yield f"{url}/mcp"


@asynccontextmanager
async def client(url: str, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as made,
    ):
        assert made.protocol_version == MODES[mode]
        yield made


async def names(made: Client) -> list[str]:
    return [each.name for each in (await made.list_tools()).tools]


@pytest.mark.parametrize("mode", MODES)
def test_answers_are_those_of_the_tools_in_python(mode: str) -> None:
    given = services(docs=DOCS)
    tools = AgentTools(given["docs"])

    async def main() -> None:
        with served(given) as url:
            async with client(url, "rrr", mode) as made:
                for name, arguments in (
                    ("query", {"query": "water"}),
                    ("list", {}),
                    ("get", {"doc_id": "b/c d.md"}),
                    ("get", {"doc_id": "none"}),
                ):
                    result = await made.call_tool(name, arguments)
                    assert result.structured_content == tools.call(name, arguments)
                    for link in result.content[1:]:
                        assert (await made.read_resource(link.uri)).contents  # type: ignore[union-attr]

    run(main)


@pytest.mark.parametrize("mode", MODES)
def test_only_tokens_that_may_write_see_the_tools_that_write(mode: str) -> None:
    async def main() -> None:
        with served(services(docs=DOCS)) as url:
            async with client(url, "rrr", mode) as made:
                assert await names(made) == READING
                refused = await made.call_tool("delete", {"doc_id": "a.md"})
                assert refused.structured_content["code"] == "read-only"
            for token in ("www", "aaa"):
                async with client(url, token, mode) as made:
                    assert await names(made) == [*READING, "ingest", "delete"]
                    stored = await made.call_tool("ingest", {"id": "n.md", "text": f"by {token}"})
                    assert stored.structured_content["stored"] is True

    run(main)


def test_a_token_for_one_backend_sees_and_changes_that_one_only() -> None:
    given = services(a=dict(DOCS), b=dict(DOCS))

    async def main() -> None:
        with served(given) as url:
            async with client(url, "ra") as made:
                assert await names(made) == READING
                docs = (await made.call_tool("list", {})).structured_content["docs"]
                assert sorted(each["id"] for each in docs) == ["a:a.md", "a:b/c d.md"]
                hidden = await made.call_tool("get", {"doc_id": "b:a.md"})
                assert hidden.structured_content["code"] == "not-found"
            async with client(url, "wa") as made:
                other = await made.call_tool("ingest", {"id": "b:n.md", "text": "x"})
                assert other.structured_content["code"] == "invalid-id"
                own = await made.call_tool("ingest", {"text": "x", "title": "T"})
                assert own.structured_content["id"].startswith("a:")
            async with client(url, "www") as made:
                assert (await made.call_tool("status", {})).structured_content["backends"] == ["a", "b"]

    run(main)
    assert (given["a"].list().total, given["b"].list().total) == (3, 2)


def test_who_may_read_all_and_write_one_has_to_say_where_a_document_goes() -> None:
    async def main() -> None:
        with served(services(a={}, b={}), "t:read,t:write:b") as url:
            async with client(url, "t") as made:
                unclear = (await made.call_tool("ingest", {"text": "x", "title": "T"})).structured_content
                assert (unclear["code"], unclear["mend"]) == ("invalid-argument", "Give an id b:ID.")
                refused = (await made.call_tool("ingest", {"id": "a:n.md", "text": "x"})).structured_content
                assert refused["code"] == "read-only"
                stored = (await made.call_tool("ingest", {"id": "b:n.md", "text": "x"})).structured_content
                assert stored["stored"] is True
                refused = (await made.call_tool("delete", {"doc_id": "a:none.md"})).structured_content
                assert refused["code"] in ("not-found", "read-only")

    run(main)


def test_the_connectors_pair_is_offered_where_the_environment_asks_for_it() -> None:
    async def main() -> None:
        with served(services(docs=DOCS), KNOWLEDGE_MCP_CONNECTOR="1") as url:
            async with client(url, "rrr") as made:
                assert await names(made) == [*READING, "search", "fetch"]

    run(main)


HEADERS = {
    "authorization": "Bearer rrr",
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}


def test_it_answers_at_the_path_itself_and_to_none_but_posts_with_a_token() -> None:
    with served(services(docs=DOCS)) as url, httpx2.Client(timeout=30) as http:
        for path in (url, f"{url}/"):
            answer = http.post(path, json=INITIALIZE, headers=HEADERS)
            assert (answer.status_code, answer.json()["id"]) == (200, 0)
        assert http.post(url, json=INITIALIZE).status_code == 401
        assert http.post(url, json=INITIALIZE, headers={**HEADERS, "host": "evil.example"}).status_code == 421
        assert http.post(url, json=INITIALIZE, headers={**HEADERS, "origin": "https://evil.example"}).status_code == 403
        for method in ("GET", "DELETE", "PUT"):
            answer = http.request(method, url, headers=HEADERS)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert http.post(f"{url}x", json=INITIALIZE, headers=HEADERS).status_code == 404


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"\xff", b'{"id":1}', b"[" * 50_000, b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'],
)
def test_what_is_no_message_is_refused_and_the_next_one_answered(body: bytes) -> None:
    with served(services(docs=DOCS)) as url, httpx2.Client(timeout=30) as http:
        answer = http.post(url, content=body, headers=HEADERS)
        assert answer.status_code < 500
        assert answer.status_code >= 400 or "error" in answer.json()
        answer = http.post(url, json=call(1, "query", query="water"), headers=HEADERS)
        assert answer.json()["result"]["structuredContent"]["count"] == 2


def test_a_body_that_is_too_long_is_refused() -> None:
    with served(services(docs=DOCS)) as url, httpx2.Client(timeout=60) as http:
        answer = http.post(url, content=b" " * (MAX_BODY_BYTES + 1), headers=HEADERS)
        assert answer.status_code == 413


def test_many_clients_at_once_get_answers_of_their_own() -> None:
    docs = {f"{number}.md": f"# D{number}\n\nword{number}".encode() for number in range(40)}

    async def main() -> None:
        import asyncio

        with served(services(docs=docs)) as url:
            async with httpx2.AsyncClient(headers=HEADERS, timeout=30) as http:

                async def one(number: int) -> Any:
                    answer = await http.post(url, json=call(number, "query", query=f"word{number}"))
                    return json.loads(answer.json()["result"]["content"][0]["text"])["hits"][0]["source_id"]

                found = await asyncio.gather(*map(one, range(40)))
        assert found == [f"{number}.md" for number in range(40)]

    run(main)
