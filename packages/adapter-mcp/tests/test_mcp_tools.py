"""Tools and resources over the SDK's client, at both versions of the protocol, against the same tools in Python."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from itertools import chain
from typing import Any, TypeVar

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.extensions import AgentTool
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Health, Query, QueryResult, Source
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.service import KnowledgeService
from knowledge_mcp import McpSettings, create_server
from knowledge_mcp.schemas import OUTPUTS
from knowledge_mcp.uris import ids_of, uri_of
from knowledge_mcp.views import HostAccess

T = TypeVar("T")
MODES = ("legacy", "2026-07-28")
DOCS: Mapping[str, bytes] = {
    "guides/käse 100% #1?.md": "---\nid: cheese\ntitle: Käse\nkind: guide\n---\n# Käse\n\nReife im Keller.\n".encode(),
    "pump.md": b"---\ntitle: The pump\nkind: device\nsummary: Moves water\n---\n# Pump\n\nA pump has a valve.\n\n"
    b"## Seal\n\nThe seal wears.\n",
    "日本/語.md": "# 見出し\n\nポンプの説明。\n".encode(),
    "raw.txt": b"pump \xff\xfe bytes\n",
}
BOTH = pytest.mark.parametrize("mode", MODES)


def services(**providers: IKnowledgeProvider | Mapping[str, bytes]) -> dict[str, KnowledgeService]:
    return {
        name: KnowledgeService(MemoryProvider(each) if isinstance(each, Mapping) else each)
        for name, each in (providers or {"docs": DOCS}).items()
    }


def ask(
    call: Callable[[Client], Awaitable[T]],
    given: Mapping[str, KnowledgeService] | None = None,
    *,
    mode: Any = MODES[1],
    write: bool = False,
    extensions: Mapping[str, AgentTool] | None = None,
    **chosen: Any,
) -> T:
    """What one client is answered by a server in this process."""

    async def run() -> T:
        access = HostAccess(write=write)
        server = create_server(given or services(), McpSettings(**chosen), lambda _: access, extensions)
        async with Client(server, mode=mode) as client:
            return await call(client)

    return asyncio.run(run())


def tool(name: str, arguments: dict[str, Any] | None = None, **chosen: Any) -> dict[str, Any]:
    """The structured answer of a tool; its text says the same, and it fits its schema."""
    result = ask(lambda client: client.call_tool(name, arguments or {}), **chosen)
    answer = result.structured_content
    assert isinstance(answer, dict)
    assert json.loads(result.content[0].text) == answer  # type: ignore[union-attr]
    assert result.is_error is ("error" in answer)
    if name in OUTPUTS:
        jsonschema.validate(answer, OUTPUTS[name])
    return answer


def offered(**chosen: Any) -> dict[str, Any]:
    return {each.name: each for each in ask(lambda client: client.list_tools(), **chosen).tools}


def refusal(uri: str, made: Mapping[str, KnowledgeService] | None = None) -> Any:
    """The error of the protocol that reading a resource ends with."""

    async def read(client: Client) -> Any:
        with pytest.raises(MCPError) as raised:
            await client.read_resource(uri)
        return raised.value.error

    return ask(read, made)


@BOTH
def test_each_version_of_the_protocol_is_the_one_that_was_asked_for(mode: str) -> None:
    async def version(client: Client) -> str:
        return client.protocol_version

    assert ask(version, mode=mode) == ("2026-07-28" if mode != "legacy" else "2025-11-25")


@BOTH
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list", {}),
        ("list", {"query": "pump", "limit": 1}),
        ("list", {"kind": "device"}),
        ("list", {"limit": "many"}),
        ("list", {"cursor": "nonsense"}),
        ("get", {"doc_id": "cheese"}),
        ("get", {"doc_id": "guides/käse 100% #1?.md"}),
        ("get", {"doc_id": "pump.md", "section": "seal"}),
        ("get", {"doc_id": "pmup.md"}),
        ("get", {}),
        ("query", {"query": "valve"}),
        ("query", {"query": "ポンプ", "top_k": 1, "max_chars": 3}),
        ("query", {"query": "pump", "filter": {"kind": {"nonsense": 1}}}),
        ("query", {"query": ["a"]}),
        ("query", {"query": "a\x00b\x1b[31m", "top_k": 10**30}),
    ],
)
def test_answers_are_those_of_the_python_tools(mode: str, name: str, arguments: dict[str, Any]) -> None:
    expected = AgentTools(services()["docs"]).call(name, arguments)
    assert tool(name, arguments, mode=mode) == expected


def test_without_leave_to_write_no_tool_writes_and_all_hints_are_said() -> None:
    tools = offered()
    assert [*tools] == ["list", "get", "query", "status"]
    for each in tools.values():
        hints = each.annotations
        assert (hints.read_only_hint, hints.destructive_hint) == (True, False)
        assert (hints.idempotent_hint, hints.open_world_hint) == (True, False)
        assert "knowledge_" not in each.description
        jsonschema.Draft202012Validator.check_schema(each.input_schema)
        jsonschema.Draft202012Validator.check_schema(each.output_schema)


def test_tools_that_write_are_offered_with_leave_and_say_that_they_destroy() -> None:
    tools = offered(write=True, connector=True)
    assert [*tools] == ["list", "get", "query", "status", "ingest", "delete", "search", "fetch"]
    for name in ("ingest", "delete"):
        hints = tools[name].annotations
        assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
    assert tools["ingest"].annotations.open_world_hint


@pytest.mark.parametrize("name", ["ingest", "delete"])
def test_a_tool_that_is_not_offered_is_refused_when_called_all_the_same(name: str) -> None:
    made = services()
    answer = tool(name, {"doc_id": "pump.md", "text": "x"}, given=made)
    assert answer["code"] == "read-only"
    assert "--allow-write" in answer["mend"]
    assert made["docs"].source("pump.md").bytes == len(DOCS["pump.md"])


def test_an_unknown_tool_is_refused_with_the_names_of_those_there_are() -> None:
    answer = tool("explode")
    assert answer["code"] == "invalid-argument"
    assert "list, get, query, status" in answer["mend"]


def test_what_is_stored_is_found_until_it_is_deleted() -> None:
    made = services()
    stored = tool("ingest", {"text": "# Quokka\n\nSmiles.", "id": "a/q.md"}, given=made, write=True)
    assert (stored["stored"], stored["id"]) == (True, "a/q.md")
    assert tool("query", {"query": "quokka"}, given=made)["hits"][0]["source_id"] == "a/q.md"
    stale = tool("delete", {"doc_id": "a/q.md", "if_match": "0" * 64}, given=made, write=True)
    assert (stale["deleted"], "code" in stale) == (False, True)
    gone = tool("delete", {"doc_id": "a/q.md", "ifMatch": stored["content_hash"]}, given=made, write=True)
    assert gone == {"deleted": True, "id": "a/q.md"}
    assert tool("query", {"query": "quokka"}, given=made)["count"] == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid-argument"),
        ({"metadata": {"a": 1}, "id": ""}, "invalid-argument"),
        ({"text": "x", "metadata": "text"}, "invalid-argument"),
        ({"text": "x", "kind": "nonsense"}, "not-supported"),
        ({"text": "x", "id": "../../etc/passwd"}, "invalid-id"),
        ({"text": "x", "id": "none.md", "if_match": "0"}, "conflict"),
        ({"text": "x" * 8_000_001}, "too-large"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_a_mend(arguments: dict[str, Any], code: str) -> None:
    answer = tool("ingest", arguments, write=True)
    assert (answer["stored"], answer["code"]) == (False, code)
    assert answer["mend"]


def test_delete_and_fetch_ask_for_the_id_that_is_missing() -> None:
    for name, argument in (("delete", "doc_id"), ("fetch", "id")):
        for given_id in ({}, {argument: ""}, {argument: None}):
            answer = tool(name, given_id, write=True, connector=True)
            assert answer["code"] == "invalid-argument"
            assert argument in answer["error"]


def test_status_tells_whether_it_can_be_written_and_what_is_indexed() -> None:
    made = services()
    assert tool("status", given=made)["writable"] is False
    tool("query", {"query": "pump"}, given=made)
    answer = tool("status", given=made, write=True)
    assert (answer["status"], answer["writable"], answer["backends"]) == ("ok", True, [])
    assert answer["index"]["documents"] == len(DOCS)


def test_the_pair_for_connectors_links_to_what_it_found() -> None:
    found = tool("search", {"query": "valve"}, connector=True)
    assert found == {"results": [{"id": "pump.md", "title": "The pump", "url": "knowledge://pump.md"}]}
    there = tool("search", {"query": "Keller"}, connector=True, public_url="https://kb.example/x")
    assert there["results"][0]["url"] == (
        "https://kb.example/x/v1/sources/guides%2Fk%C3%A4se%20100%25%20%231%3F.md/content"
    )
    read = tool("fetch", {"id": "pump.md"}, connector=True)
    assert read["text"].endswith("# Pump\n\nA pump has a valve.\n\n## Seal\n\nThe seal wears.\n")
    assert read["metadata"]["untrusted"] is True
    assert tool("fetch", {"id": "nothing.md"}, connector=True)["code"] == "not-found"


def test_a_long_document_is_cut_and_said_to_be() -> None:
    read = tool("fetch", {"id": "a.md"}, given=services(docs={"a.md": b"word " * 50_000}), connector=True)
    assert (len(read["text"]), read["metadata"]["truncated"]) == (200_000, True)


@BOTH
def test_every_hit_has_a_link_that_reads_the_document_as_it_is_stored(mode: str) -> None:
    async def follow(client: Client) -> dict[str, Any]:
        found = await client.call_tool("query", {"query": "pump Keller ポンプ bytes"})
        links = [each.uri for each in found.content if each.type == "resource_link"]
        return {uri: (await client.read_resource(uri)).contents[0] for uri in links}

    read = ask(follow, mode=mode)
    assert set(read) == {uri_of(name) for name in DOCS}
    for name in set(DOCS) - {"raw.txt"}:
        assert read[uri_of(name)].text.encode() == DOCS[name]
        assert read[uri_of(name)].mime_type == "text/markdown"
        assert read[uri_of(name)].meta["untrusted"] is True
    assert read[uri_of("raw.txt")].mime_type == "application/octet-stream"


@BOTH
def test_resources_are_all_documents_a_page_at_a_time(mode: str) -> None:
    made = services(docs={f"n{number:03}.md": b"# T\n\nx" for number in range(450)})

    async def all_of(client: Client) -> list[list[str]]:
        pages, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            pages.append([each.uri for each in page.resources])
            cursor = page.next_cursor
            if cursor is None:
                return pages

    pages = ask(all_of, made, mode=mode)
    assert [len(page) for page in pages] == [200, 200, 50]
    assert [*chain(*pages)] == [f"knowledge://n{number:03}.md" for number in range(450)]


def test_the_template_names_the_id_with_its_slashes() -> None:
    (template,) = ask(lambda client: client.list_resource_templates()).resource_templates
    assert template.uri_template == "knowledge://{+id}"


@pytest.mark.parametrize(
    "uri", ["knowledge://none.md", "knowledge://", "file:///etc/passwd", "knowledge://" + "a" * 70_000]
)
def test_a_resource_that_is_not_there_is_an_error_with_a_mend(uri: str) -> None:
    error = refusal(uri)
    assert "No document has the URI" in error.message
    assert len(error.message) < 400
    assert (error.code, error.data["code"]) == (-32602, "not-found")
    assert error.data["mend"]


def test_a_document_too_large_for_a_resource_is_to_be_read_by_sections() -> None:
    made = services(docs={"big.md": b"word " * 500_000})
    assert "get" in refusal("knowledge://big.md", made).data["mend"]


def test_a_resource_of_a_backend_that_fails_tells_nothing_of_the_inside() -> None:
    error = refusal("knowledge://pump.md", services(docs=Broken(DOCS)))
    assert error.code == -32603
    assert "secret" not in error.message


def test_hosts_are_told_how_long_they_may_keep_what_they_read() -> None:
    listed = ask(lambda client: client.list_tools())
    assert listed.ttl_ms == 300_000
    assert ask(lambda client: client.read_resource("knowledge://pump.md")).ttl_ms == 1_000


class Hanging(MemoryProvider):
    """Never answers a question before it is let go."""

    def __init__(self) -> None:
        super().__init__(DOCS)
        self.go, self.asked = threading.Event(), threading.Event()

    def query(self, query: Query) -> QueryResult:
        self.asked.set()
        self.go.wait(30)
        return super().query(query)


@BOTH
def test_while_a_backend_hangs_others_are_answered_and_the_call_ends_in_time(mode: str) -> None:
    hanging = Hanging()

    async def both(client: Client) -> tuple[Any, Any]:
        slow = asyncio.ensure_future(client.call_tool("query", {"query": "pump"}))
        while not hanging.asked.is_set():
            await asyncio.sleep(0.001)
        tools = await client.list_tools()
        read = await client.call_tool("get", {"doc_id": "pump.md"})
        assert not slow.done()
        if mode == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.send_ping()
        assert tools.tools
        return await slow, read

    try:
        slow, read = ask(both, services(docs=hanging), mode=mode, timeout_s=0.5)
    finally:
        hanging.go.set()
    assert slow.structured_content["code"] == "unavailable"
    assert slow.structured_content["hits"] == []
    assert read.structured_content["found"] is True


class Broken(MemoryProvider):
    """Fails as no one foresaw."""

    def query(self, query: Query) -> QueryResult:
        raise RuntimeError("/secret/path SELECT")

    def get_source(self, source_id: str) -> Source:
        raise RuntimeError("/secret/path SELECT")

    def health_check(self) -> Health:
        raise SystemExit(3)


def test_a_failure_that_nobody_foresaw_tells_an_id_and_nothing_of_the_inside() -> None:
    for name in ("query", "status"):
        answer = tool(name, {"query": "x"} if name == "query" else {}, given=services(docs=Broken(DOCS)))
        assert answer["code"] in ("internal", "provider")
        assert "secret" not in json.dumps(answer)


def test_several_backends_are_one_with_their_names_before_the_ids() -> None:
    made = services(a={"x.md": b"# Pump\n\nvalve"}, b={"x.md": b"# Seal\n\nvalve"})
    found = tool("query", {"query": "valve"}, given=made)
    assert sorted(hit["source_id"] for hit in found["hits"]) == ["a:x.md", "b:x.md"]
    assert tool("status", given=made)["backends"] == ["a", "b"]
    stored = tool("ingest", {"text": "# New", "id": "b:new.md"}, given=made, write=True)
    assert stored["id"] == "b:new.md"
    assert made["b"].source("new.md").title == "New"
    read = ask(lambda client: client.read_resource("knowledge://a:x.md"), made)
    assert read.contents[0].text == "# Pump\n\nvalve"  # type: ignore[union-attr]


def test_tools_of_extensions_are_offered_to_whom_their_scope_allows() -> None:
    brought = {
        "echo": AgentTool("echo", "Echoes.", {"type": "object"}, "read", lambda given: {"got": given}),
        "wipe": AgentTool("wipe", "Wipes.", {"type": "object"}, "write", lambda _: {"done": True}),
        "bad": AgentTool("bad", "Fails.", {"type": "object"}, "read", lambda _: {"n": float("nan")}),
    }
    assert {"echo", "bad"} == set(offered(extensions=brought)) - {"list", "get", "query", "status"}
    assert tool("echo", {"a": "ü"}, extensions=brought) == {"got": {"a": "ü"}}
    assert tool("wipe", extensions=brought)["code"] == "invalid-argument"
    assert tool("wipe", extensions=brought, write=True) == {"done": True}
    json.dumps(tool("bad", extensions=brought), allow_nan=False)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from(("query", "doc_id", "id", "text", "limit", "filter", "cursor", "top_k", "metadata", "section"))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(("list", "get", "query", "status", "ingest", "delete", "search", "fetch")),
    st.dictionaries(_NAMES | st.text(max_size=8), _JSON, max_size=4),
)
def test_whatever_the_arguments_are_there_is_an_answer_of_the_stated_form(name: str, arguments: dict[str, Any]) -> None:
    tool(name, arguments, write=True, connector=True)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_the_uri_of_a_document_leads_back_to_it(source_id: str) -> None:
    uri = uri_of(source_id)
    assert uri.isascii()
    assert ids_of(uri)[0] == source_id
