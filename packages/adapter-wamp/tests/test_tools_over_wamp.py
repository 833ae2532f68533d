"""The agent tools through a real router: the same answers on every way, whatever is in the documents and the calls."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.fs import MemoryFs
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Query, QueryResult
from knowledge_engine.service import KnowledgeService
from knowledge_files import KnowledgeLibrary
from knowledge_wamp import WampSettings, register_knowledge_tools
from knowledge_wamp.handlers import ToolHandlers, find_tools, make_lane
from knowledge_wamp.wire import clean
from wamp_bench.js_client import js_session
from wamp_bench.node_config import SERIALIZERS, SMALL_LIMIT
from wamp_bench.python_client import connect, wamp_call, wamp_calls
from wamp_bench.router import Router
from wamp_bench.servers import DOCS, Gated, new_prefix, serving

SECONDS = 30.0
UNICODE_ID = "gerät/ünï code/😀/漢字"
#: Documents that some transport or other is known to change.
ODD = {
    "dates.md": b"---\nid: guide.dates\ntitle: Dates\nkind: guide\nsummary: S.\nupdated: 2024-05-01\n"
    b"at: 2024-05-01T10:00:00Z\nw: .inf\nn: .nan\nbig: 9007199254740993\nhuge: 123456789012345678901234567890\n"
    b"small: 42\nyes: yes\nhalf: 1.5\nwhole: 2.0\nflag: true\nnothing: null\n---\n## Use\n\nText of dates.\n",
    "a/b.md": f"---\nid: {UNICODE_ID}\ntitle: Größe 😀\nkind: device\nsummary: S\n---\n## Über\n\nTe\u0301xt".encode(),
    "nul.md": b'---\nid: nul\ntitle: "\\0Begins"\nkind: guide\nsummary: "\\0 too"\nnote: ["\\0", "\\u2400a"]\n---\n'
    b"\0## Use\n\n\0text\n",
    "broken.md": b"---\nid: broken\ntitle: Broken\nkind: guide\nsummary: S.\n---\n## Use\n\nText \xff\xfe\xc3( here.\n",
    "mark.md": "---\nid: ␀mark\ntitle: ␀Marked\nkind: guide\nsummary: ␀␀+5\n---\n␀ text\n".encode(),
}
IDS = ("guide.dates", UNICODE_ID, "nul", "broken", "␀mark", "␀none")
CALLS: Sequence[tuple[str, Mapping[str, Any]]] = [
    ("list", {}),
    ("list", {"kind": "guide", "limit": 2}),
    ("list", {"query": "größe", "kind": "any"}),
    ("list", {"half": 1.5}),
    *(("get", {"doc_id": doc_id}) for doc_id in IDS),
    ("get", {"doc_id": UNICODE_ID, "section": "über"}),
    ("query", {"query": "text", "top_k": 5, "filter": {"kind": {"in": ["guide", "device"]}}}),
]


def library(docs: Mapping[str, bytes] = ODD) -> KnowledgeLibrary:
    made = KnowledgeLibrary(MemoryFs(dict(docs)))
    made.load()
    return made


def typed(value: Any) -> Any:
    """With the types said, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, value


def as_javascript(value: Any) -> Any:
    """`typed`, for a language with one kind of number."""
    if isinstance(value, dict):
        return {key: as_javascript(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_javascript(item) for item in value]
    return (type(value).__name__, value) if isinstance(value, bool | str) or value is None else ("number", float(value))


@asynccontextmanager
async def registered(router: Router, given: object, serializer: str, url: str | None = None) -> AsyncIterator[Any]:
    """A session with the tools of `given`, and what makes a topic of a tool's name."""
    prefix = new_prefix()
    topics = {tool: f"{prefix}.{tool}" for tool in ("list", "get", "query")}
    async with connect(url or router.url, router.realm, serializer=serializer) as session:
        assert await register_knowledge_tools(session, given, topics=topics) == []
        yield session, topics


def test_every_way_gives_the_same_answers_from_python_and_javascript(router: Router) -> None:
    given = library()
    expected = [clean(getattr(given.tools, tool)(**kwargs)) for tool, kwargs in CALLS]

    async def everywhere() -> None:
        async with AsyncExitStack() as stack:
            sessions, asked = [], []
            for serializer, url in zip(SERIALIZERS, (router.url, router.rawsocket_url, router.url), strict=True):
                session, topics = await stack.enter_async_context(registered(router, given, serializer, url))
                sessions.append(session)
                asked += [(topics[tool], [], kwargs) for tool, kwargs in CALLS]
            for serializer in SERIALIZERS:
                for url in (router.url, router.rawsocket_url):
                    outcomes = await wamp_calls(url, router.realm, asked, serializer=serializer)
                    got = [outcome["result"] for outcome in outcomes]
                    assert typed(got) == typed(expected * len(SERIALIZERS))
                ended = asyncio.to_thread(js_session, router.url, router.realm, asked, serializer=serializer)
                got = [outcome["result"] for outcome in await ended]
                assert as_javascript(got) == as_javascript(expected * len(SERIALIZERS))
            assert all(session.is_attached() for session in sessions)

    asyncio.run(everywhere())


def test_dates_infinities_and_great_numbers_are_text_everywhere() -> None:
    metadata: Any = clean(library().tools.get("guide.dates"))["metadata"]  # type: ignore[call-overload,index]
    assert (metadata["updated"], metadata["w"], metadata["big"]) == ("2024-05-01", ".inf", "9007199254740993")
    assert (metadata["small"], metadata["half"], metadata["flag"]) == (42, 1.5, True)


TRAVERSALS = [
    "../outside/secret", "../outside/secret.md", "sub/../../outside/secret.md", "./../outside/secret.md", "..", "../",
    "in/../../outside/secret.md", "/etc/passwd", "..\\outside\\secret.md", "%2e%2e/outside/secret.md", "in.md/../../x",
]  # fmt: skip


def test_ids_that_leave_the_folder_get_one_answer_whatever_is_there(router: Router, tmp_path: Any) -> None:
    document = "---\nid: {0}\ntitle: T\nkind: guide\nsummary: S.\n---\n## Use\n\n{1}\n"
    for path, name, text in (
        ("kb/in.md", "in", "inside"),
        ("outside/secret.md", "secret", "LEAKED"),
        ("kb-b/h.md", "h", "LEAKED"),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(document.format(name, text), encoding="utf-8")
    given = KnowledgeLibrary(tmp_path / "kb")
    given.load()

    async def ask() -> list[Any]:
        async with registered(router, given, "msgpack") as (_, topics):
            asked = [
                (topics["get"], [], {"doc_id": doc_id}) for doc_id in [*TRAVERSALS, *(f"{x}.none" for x in TRAVERSALS)]
            ]
            return [outcome["result"] for outcome in await wamp_calls(router.url, router.realm, asked)]

    answers = asyncio.run(ask())
    assert {(answer["found"], answer["code"]) for answer in answers} == {(False, "not-found")}
    assert "LEAKED" not in str(answers)
    assert str(tmp_path) not in str(answers)


# Hostile calls


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value} if levels % 2 else [value]
    return value


HOSTILE: Sequence[tuple[str, Sequence[Any], Mapping[str, Any]]] = [
    ("list", [], {"unknown": 1}),
    ("list", [], {"kind": {"nested": 1}}),
    ("list", [], {"kind": nested(101)}),
    ("list", [], {"filter": nested(100)}),
    ("list", [], {"filter": "{"}),
    ("list", [], {"limit": float("nan")}),
    ("list", [], {"kind": float("nan")}),
    ("list", [], {"limit": float("inf")}),
    ("list", [], {"limit": -1}),
    ("list", [], {"cursor": "none"}),
    ("list", [], {"kind": b"\xff\x00"}),
    ("list", [], {"query": "x" * 10_000_000}),
    ("list", [], {"x" * 100_000: "y"}),
    ("list", [], {f"k{number}": number for number in range(500)}),
    ("list", [], {"name": 1, "tool": 2, "fun": 3, "args": 4, "kwargs": 5}),
    ("list", [[1, 2]], {}),
    ("list", [1, 2, 3, 4, 5, 6], {}),
    ("get", [], {}),
    ("get", [], {"doc_id": None}),
    ("get", [], {"doc_id": ["a"]}),
    ("get", [], {"doc_id": "x" * 10_000_000}),
    ("get", [], {"doc_id": "a", "id": "b"}),
    ("get", [], {"doc_id": "none", "other": 1}),
    ("get", [{"doc_id": "none"}], {}),
    ("get", [b"bytes"], {}),
    ("get", [float("inf")], {}),
    ("query", [], {"query": ""}),
    ("query", [], {"query": "x", "top_k": "many"}),
    ("query", [], {"query": "x", "filter": {"kind": {"$where": "1"}}}),
    ("query", [{"query": {"a": 1}}], {}),
    ("query", ["x"], {"query": "y"}),
]
SHAPES = {"list": {"count", "docs"}, "get": {"found", "suggestions", "available_ids"}, "query": {"count", "hits"}}


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_hostile_arguments_get_an_answer_and_leave_the_session_attached(router: Router, serializer: str) -> None:
    async def ask() -> list[Any]:
        async with registered(router, library(), serializer) as (session, topics):
            asked = [(topics[tool], args, kwargs) for tool, args, kwargs in HOSTILE]
            outcomes = await wamp_calls(router.url, router.realm, asked, serializer="msgpack")
            assert session.is_attached()
            return outcomes

    for (tool, _, kwargs), outcome in zip(HOSTILE, asyncio.run(ask()), strict=True):
        answer = outcome["result"]
        assert SHAPES[tool] <= set(answer), kwargs
        assert answer.get("count", 0) == 0
        assert answer.get("found", False) is False
        if "error" in answer:
            assert all(isinstance(answer[key], str) and answer[key] for key in ("error", "code", "mend"))
            assert answer["code"] != "internal"
        else:  # asked in order, and nothing was found
            assert answer["hint"]
        assert len(json.dumps(answer)) < 20_000


def test_one_object_in_place_of_keywords_is_taken_for_them(router: Router) -> None:
    async def ask() -> tuple[Any, Any]:
        async with registered(router, library(), "msgpack") as (_, topics):
            named = wamp_call(router.url, router.realm, topics["get"], kwargs={"doc_id": UNICODE_ID, "section": "Über"})
            as_one = wamp_call(router.url, router.realm, topics["get"], [{"doc_id": UNICODE_ID, "section": "Über"}])
            return await named, await as_one

    named, as_one = asyncio.run(ask())
    assert named == as_one
    assert named["found"] is True


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_what_only_javascript_sends_is_answered(router: Router, serializer: str) -> None:
    """Python's client has arguments of those names itself; and lone surrogates it does not send at all."""
    asked: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("list", [], {"self": 1, "procedure": 2, "fun": 3}),
        ("get", [{"docId": UNICODE_ID}], {}),
        ("list", [], {"kind": None}),
    ]

    async def ask() -> list[dict[str, Any]]:
        async with registered(router, library(), serializer) as (session, topics):
            named = [(topics[tool], args, kwargs) for tool, args, kwargs in asked]
            outcomes = await asyncio.to_thread(js_session, router.url, router.realm, named, serializer=serializer)
            assert session.is_attached()
            return outcomes

    reserved, found, everything = asyncio.run(ask())
    assert reserved["result"]["count"] == 0
    assert "'self'" in reserved["result"]["hint"]
    assert found["result"]["found"] is True
    assert everything["result"]["count"] == len(ODD)


def test_half_a_surrogate_pair_in_json_harms_nobody(router: Router) -> None:
    """It is valid JSON of which no other transport can hold the text: the router has nothing to pass on."""

    async def ask() -> Any:
        async with (
            registered(router, library(), "json") as (callee, topics),
            connect(router.url, router.realm, serializer="json") as caller,
        ):
            raw = json.dumps([48, 7_000_000, {}, topics["list"], [], {"kind": "\ud800"}])
            caller._transport.sendMessage(raw.encode(), False)
            async with connect(router.url, router.realm) as other:
                answer = await asyncio.wait_for(other.call(topics["list"]), SECONDS)
            assert callee.is_attached()
            return answer

    assert asyncio.run(ask())["count"] == len(ODD)


def test_half_a_surrogate_pair_in_an_answer_is_replaced_on_every_way(router: Router) -> None:
    class Odd(AgentTools):
        def list(self, /, *_: Any, **__: Any) -> Any:
            return {"\ud800": "\udfff", "\0": ["\0a", "a\0"], "pair": "\ud83d\ude00", 5: {None: 2**70}, "raw": b"\xff"}

    async def ask() -> list[Any]:
        got = []
        for serializer in SERIALIZERS:
            async with registered(router, Odd(KnowledgeService(MemoryProvider({}))), serializer) as (session, topics):
                got.append(await wamp_call(router.url, router.realm, topics["list"], serializer=serializer))
                assert session.is_attached()
        return got

    expected = {"\ufffd": ["\ufffda", "a\0"], "pair": "😀", "5": {"null": str(2**70)}, "raw": "\ufffd"}
    assert asyncio.run(ask()) == [expected] * 3


# Failures


class Broken(MemoryProvider):
    """Fails, and says what nobody may read."""

    def query(self, query: Query) -> QueryResult:
        raise RuntimeError("/srv/kb/secret path SELECT * FROM docs")


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_a_tool_that_fails_tells_callers_an_id_and_the_log_the_rest(
    router: Router, serializer: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask() -> Any:
        async with registered(router, Broken(DOCS), serializer) as (session, topics):
            answer = await wamp_call(router.url, router.realm, topics["query"], kwargs={"query": "pump"})
            assert (await wamp_call(router.url, router.realm, topics["list"]))["count"] == 1
            assert session.is_attached()
            return answer

    with caplog.at_level(logging.DEBUG):
        answer = asyncio.run(ask())
    assert (answer["code"], answer["count"], answer["hits"]) == ("internal", 0, [])
    assert not any(word in str(answer) for word in ("/srv", "SELECT", "Traceback", "RuntimeError"))
    told = [record for record in caplog.records if "SELECT" in f"{record.getMessage()} {record.exc_info}"]
    assert len(told) == 1
    assert answer["error_id"] in told[0].getMessage()
    assert told[0].exc_info is not None


def test_a_tool_that_hangs_is_answered_for_and_the_session_goes_on(router: Router) -> None:
    provider = Gated()

    async def ask() -> tuple[Any, Any]:
        lane = make_lane("test")
        handlers = ToolHandlers(find_tools(provider), lane, timeout_s=0.1)
        prefix = new_prefix()
        async with connect(router.url, router.realm) as session:
            for tool in ("query", "list"):
                await session.register(handlers.handler(tool), f"{prefix}.{tool}")
            hung = await wamp_call(router.url, router.realm, f"{prefix}.query", kwargs={"query": "pump"})
            listed = await wamp_call(router.url, router.realm, f"{prefix}.list")
            provider.gate.set()
            lane.close(SECONDS)
            return hung, listed

    hung, listed = asyncio.run(ask())
    assert (hung["code"], hung["hits"], listed["count"]) == ("unavailable", [], 1)
    assert hung["mend"]


def test_a_call_that_is_cancelled_gives_its_place_back(router: Router) -> None:
    provider = Gated()

    async def ask() -> int:
        lane = make_lane("test")
        topic = f"{new_prefix()}.query"
        async with connect(router.url, router.realm) as callee, connect(router.url, router.realm) as caller:
            await callee.register(ToolHandlers(find_tools(provider), lane).handler("query"), topic)
            call = asyncio.ensure_future(caller.call(topic, query="pump"))
            await asyncio.to_thread(provider.entered.acquire, timeout=SECONDS)
            call.cancel()
            async with asyncio.timeout(SECONDS):
                while lane.running:
                    await asyncio.sleep(0.005)
            assert callee.is_attached()
        provider.gate.set()
        lane.close(SECONDS)
        return lane.running

    assert asyncio.run(ask()) == 0


def test_a_procedure_that_nobody_registered_is_told_as_wamp_says(router: Router) -> None:
    asked: list[tuple[str, list[Any], dict[str, Any]]] = [(f"{new_prefix()}.app_knowledge.list", [], {})]
    (outcome,) = asyncio.run(wamp_calls(router.url, router.realm, asked))
    assert outcome["error"] == "wamp.error.no_such_procedure"
    (outcome,) = js_session(router.url, router.realm, asked)
    assert outcome["error"] == "wamp.error.no_such_procedure"


# Answers that are too long


def long_library(count: int) -> KnowledgeLibrary:
    text = "---\nid: guide.n{0:03}\ntitle: Guide {0}\nkind: guide\nsummary: {1}\n---\n## Use\n\n{2}\n\n## More\n\nOk.\n"
    return library({f"n{n:03}.md": text.format(n, "😀" * 240, "漢字" * 4_000).encode() for n in range(count)})


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_a_server_for_a_narrow_transport_cuts_its_answers_to_it(router: Router, serializer: str) -> None:
    settings = WampSettings(url=router.small_url, prefix=new_prefix(), max_payload=20_000, serializers=(serializer,))
    given = long_library(60)

    async def ask() -> None:
        async with serving(settings, given.provider) as server, connect(router.small_url, router.realm) as caller:
            session = server.health["session"]
            found: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                page = await asyncio.wait_for(
                    caller.call(settings.procedure("app_knowledge.list"), limit=200, **cursor), SECONDS
                )
                assert len(json.dumps(page, ensure_ascii=False).encode()) < SMALL_LIMIT
                found += [entry["id"] for entry in page["docs"]]
                if page["next_cursor"] is None:
                    break
                cursor = {"cursor": page["next_cursor"]}
            assert sorted(found) == [f"guide.n{number:03}" for number in range(60)]
            get = settings.procedure("app_knowledge.get")
            whole = await asyncio.wait_for(caller.call(get, doc_id=found[0]), SECONDS)
            assert (whole["code"], whole["found"]) == ("too-large", False)
            part = await asyncio.wait_for(caller.call(get, doc_id=found[0], section="More"), SECONDS)
            assert (part["found"], part["content"]) == (True, "## More\n\nOk.\n")
            assert (server.health["state"], server.health["session"]) == ("ready", session)

    asyncio.run(ask())


def test_the_usual_limit_of_an_answer_holds_the_longest_documents_and_pages(router: Router) -> None:
    given = long_library(150)

    async def ask() -> tuple[Any, Any]:
        async with registered(router, given, "json") as (session, topics):
            page = await wamp_call(router.url, router.realm, topics["list"], kwargs={"limit": 200})
            document = await wamp_call(router.url, router.realm, topics["get"], kwargs={"doc_id": "guide.n000"})
            assert session.is_attached()
            return page, document

    page, document = asyncio.run(ask())
    assert (page["count"], page["truncated"]) == (150, False)
    assert (document["found"], document["truncated"]) == (True, False)
