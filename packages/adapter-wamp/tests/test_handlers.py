"""Handlers answer whatever is asked of them, in bounded time and size, and raise nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.fs import MemoryFs
from knowledge_engine.lanes import Lane
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import IngestRequest, Query, QueryResult, Source
from knowledge_engine.service import KnowledgeService
from knowledge_files import KnowledgeLibrary
from knowledge_wamp.handlers import TOOLS, Handler, ToolHandlers, find_tools, make_lane
from wamp_bench.servers import DOCS, Gated

SECONDS = 30.0
ID = "device.pump"
SECRETS = "/srv/kb/secret path SELECT * FROM docs"
#: Of each tool's answer without findings.
SHAPES = {
    "list": {"count", "docs", "hint"},
    "get": {"found", "suggestions", "available_ids", "available_total", "hint"},
    "query": {"count", "hits", "warnings", "truncated", "hint"},
}


@asynccontextmanager
async def handlers_of(given: object, **more: Any) -> AsyncIterator[Mapping[str, Handler]]:
    lane = make_lane("test")
    try:
        made = ToolHandlers(find_tools(given), lane, **more)
        yield {name: made.handler(name) for name in TOOLS}
    finally:
        lane.close()


def ask(given: object, name: str, /, *args: object, **kwargs: object) -> dict[str, Any]:
    """One call of one handler."""

    async def call() -> Any:
        async with handlers_of(given) as handlers:
            return await asyncio.wait_for(handlers[name](*args, **kwargs), SECONDS)

    return asyncio.run(call())  # type: ignore[no-any-return]


def library(docs: Mapping[str, bytes] = DOCS) -> KnowledgeLibrary:
    made = KnowledgeLibrary(
        MemoryFs({path: raw.replace(b"\n---\n", b"\nsummary: S.\n---\n", 1) for path, raw in docs.items()})
    )
    made.load()
    return made


SOURCES: Mapping[str, Callable[[], object]] = {
    "library": library,
    "provider": lambda: MemoryProvider(DOCS),
    "service": lambda: KnowledgeService(MemoryProvider(DOCS)),
    "tools": lambda: AgentTools(KnowledgeService(MemoryProvider(DOCS))),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_whatever_holds_documents_has_tools(kind: str) -> None:
    given = SOURCES[kind]()
    assert ask(given, "list")["count"] == 1
    assert ask(given, "get", doc_id=ID)["content"].endswith("A pump talks modbus.\n")
    assert ask(given, "query", query="modbus")["hits"][0]["source_id"] == "pump.md"


@pytest.mark.parametrize("given", [None, 5, "docs", object(), {"tools": 1}, type("T", (), {"tools": 1})()])
def test_what_holds_no_documents_is_named_by_its_type(given: object) -> None:
    with pytest.raises(TypeError, match=f"{type(given).__name__} is no library and no provider"):
        find_tools(given)


def test_arguments_come_by_name_in_order_or_as_one_object() -> None:
    tools = SOURCES["provider"]()
    expected = ask(tools, "get", doc_id=ID, section="Pump")
    assert expected["found"] is True
    assert ask(tools, "get", ID, "Pump") == expected
    assert ask(tools, "get", {"doc_id": ID, "section": "Pump"}) == expected
    assert ask(tools, "get", {"doc_id": ID}, section="Pump") == expected
    assert ask(tools, "get", {"doc_id": "other"}, doc_id=ID, section="Pump") == expected
    assert ask(tools, "get", {1: 2})["code"] == "invalid-argument"


arguments = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.binary(max_size=5),
        st.text(alphabet=st.characters(), max_size=5),
        st.just("x" * 100_000),
        st.just(object()),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=5,
)
NAMES = [
    "query",
    "doc_id",
    "docId",
    "section",
    "limit",
    "top_k",
    "filter",
    "cursor",
    "self",
    "name",
    "tool",
    "args",
    "fun",
]


@settings(max_examples=60, deadline=None)
@given(
    tool=st.sampled_from(TOOLS),
    args=st.lists(arguments, max_size=3),
    kwargs=st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), arguments, max_size=3),
)
def test_any_arguments_get_an_answer_of_the_usual_shape(tool: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    answer = ask(MemoryProvider(DOCS), tool, *args, **kwargs)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    if "error" in answer and answer.get("found") is not True:
        assert SHAPES[tool] | {"code", "mend"} <= set(answer)
        assert answer["code"] != "internal"


class Broken(MemoryProvider):
    """Fails, and says what nobody may read."""

    def get_source(self, source_id: str) -> Source:
        raise RuntimeError(SECRETS)

    def query(self, query: Query) -> QueryResult:
        raise RuntimeError(SECRETS)

    def list_sources(self, **_: Any) -> Any:
        raise RuntimeError(SECRETS)


@pytest.mark.parametrize(("tool", "kwargs"), [("list", {}), ("get", {"doc_id": ID}), ("query", {"query": "pump"})])
def test_a_tool_that_fails_answers_with_an_id_that_is_in_the_log_once(
    tool: str, kwargs: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    answer = ask(Broken(DOCS), tool, **kwargs)
    assert SHAPES[tool] | {"error", "code", "mend", "error_id"} <= set(answer)
    assert answer["code"] == "internal"
    assert answer["error_id"] in answer["mend"]
    assert "/srv" not in str(answer)
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert answer["error_id"] in record.getMessage()
    assert "SELECT" in str(record.exc_info)


def test_a_version_that_fails_is_told_like_any_other_failure(caplog: pytest.LogCaptureFixture) -> None:
    class Sick(MemoryProvider):
        def health_check(self) -> Any:
            raise RuntimeError(SECRETS)

    for tool in TOOLS:
        answer = ask(Sick(DOCS), tool, ID)
        assert SHAPES[tool] | {"error", "code", "mend", "error_id"} <= set(answer)
        assert "/srv" not in str(answer)
    assert len(caplog.records) == len(TOOLS)


class Strange(AgentTools):
    """Answers with what no transport takes."""

    def list(self, /, **_: Any) -> Any:
        return {
            1: "number",
            None: b"\xff",
            "deep": self.deep(600),
            "\0": ("\0", "\ud800"),
            "n": float("nan"),
            "o": object(),
        }

    def get(self, /, *_: Any, **__: Any) -> Any:
        return [1, 2]

    def query(self, /, *_: Any, **__: Any) -> Any:
        raise SystemExit(3)

    @staticmethod
    def deep(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return value


def test_keys_that_are_no_text_and_bottomless_lists_of_somebody_else_are_made_plain() -> None:
    class Numbered(AgentTools):
        def list(self, /, **_: Any) -> Any:
            return {1: {2: 3}, "deep": Strange.deep(600)}

    answer = ask(Numbered(KnowledgeService(MemoryProvider(DOCS))), "list")
    assert answer["1"] == {"2": 3}
    assert json.dumps(answer).count("[") < 40


def test_tools_of_somebody_else_may_answer_with_anything() -> None:
    tools = Strange(KnowledgeService(MemoryProvider(DOCS)))
    assert json.dumps(ask(tools, "list")).count("[") < 40
    assert {"1": "number", "null": "\ufffd", "\ufffd": ["\ufffd", "\ufffd"], "n": "nan", "o": "<object>"}.items() <= (
        ask(tools, "list").items()
    )
    assert "answered with a list" in ask(tools, "get")["error"]
    assert ask(tools, "query")["code"] == "provider"


def test_a_tool_that_hangs_is_given_up_and_the_next_call_is_answered() -> None:
    provider = Gated()

    async def calls() -> Any:
        async with handlers_of(provider, timeout_s=0.05) as handlers:
            hung = await asyncio.wait_for(handlers["query"](query="pump"), SECONDS)
            return hung, await asyncio.wait_for(handlers["list"](), SECONDS)

    hung, listed = asyncio.run(calls())
    provider.gate.set()
    assert (hung["code"], hung["count"]) == ("unavailable", 0)
    assert SHAPES["query"] | {"error", "mend"} <= set(hung)
    assert listed["count"] == 1


def test_when_too_many_calls_hang_further_ones_are_refused_at_once() -> None:
    provider = Gated()

    async def calls() -> Any:
        async with handlers_of(provider, timeout_s=0.05) as handlers:
            await asyncio.gather(*(handlers["query"](query="pump", top_k=number) for number in range(1, 9)))
            refused = await handlers["query"](query="pump", top_k=9)
            provider.gate.set()
            return refused

    refused = asyncio.run(calls())
    assert refused["code"] == "busy"
    assert refused["mend"]


def test_cancelling_a_call_reaches_its_handler_and_frees_its_place() -> None:
    provider = Gated()

    async def cancel() -> tuple[bool, int]:
        lane = make_lane("test")
        handler = ToolHandlers(find_tools(provider), lane).handler("query")
        call = asyncio.ensure_future(handler(query="pump"))
        await asyncio.to_thread(provider.entered.acquire, timeout=SECONDS)
        call.cancel()
        await asyncio.wait({call}, timeout=SECONDS)
        running = lane.running
        provider.gate.set()
        lane.close(SECONDS)
        return call.cancelled(), running

    assert asyncio.run(cancel()) == (True, 0)


def test_a_closed_lane_is_told_to_the_caller() -> None:
    async def call() -> Any:
        lane = Lane("test", max_concurrent=1, max_abandoned=1)
        lane.close()
        return await ToolHandlers(find_tools(MemoryProvider(DOCS)), lane).handler("list")()

    assert asyncio.run(call())["code"] == "unavailable"


class Counting(MemoryProvider):
    """Counts how often it is asked a question."""

    def __init__(self, docs: Mapping[str, bytes] = DOCS) -> None:
        super().__init__(docs)
        self.questions = 0

    def query(self, query: Query) -> QueryResult:
        self.questions += 1
        return super().query(query)


def test_the_same_question_is_answered_once_until_a_document_changes() -> None:
    provider = Counting()

    async def calls() -> None:
        async with handlers_of(provider) as handlers:
            first = await handlers["query"](query="modbus")
            assert await handlers["query"](query="modbus") == first
            assert provider.questions == 1
            await handlers["query"](query="modbus", top_k=3)
            assert provider.questions == 2
            provider.delete_source("pump.md")
            assert (await handlers["query"](query="modbus"))["count"] == 0

    asyncio.run(calls())


def test_a_failure_is_not_kept() -> None:
    answers: list[Any] = []

    class Once(Counting):
        def query(self, query: Query) -> QueryResult:
            result = super().query(query)
            if self.questions == 1:
                raise RuntimeError("only now")
            return result

    async def calls() -> None:
        async with handlers_of(Once()) as handlers:
            answers.extend([await handlers["query"](query="modbus") for _ in range(2)])

    asyncio.run(calls())
    assert (answers[0]["code"], answers[1]["count"]) == ("internal", 1)


def test_an_answer_from_before_a_library_was_loaded_anew_is_not_given_after() -> None:
    docs = {"pump.md": DOCS["pump.md"].replace(b"\n---\n", b"\nsummary: S.\n---\n", 1)}
    fs = MemoryFs(docs)
    given = KnowledgeLibrary(fs)
    given.load()
    threads: list[str] = []
    inner = given.tools.service.load

    def load(source_id: str) -> Any:
        threads.append(threading.current_thread().name)
        return inner(source_id)

    given.tools.service.load = load  # type: ignore[method-assign]

    async def calls() -> None:
        async with handlers_of(given) as handlers:
            first = await handlers["get"](doc_id=ID)
            assert await handlers["get"](doc_id=ID) is first
            assert len(threads) == 1
            fs.write("pump.md", docs["pump.md"].replace(b"modbus", b"profinet"))
            given.load()
            assert "profinet" in (await handlers["get"](doc_id=ID))["content"]

    asyncio.run(calls())
    assert threading.current_thread().name not in threads


def many(count: int) -> MemoryProvider:
    text = "---\nid: guide.n{0:03}\ntitle: Guide {0}\nkind: guide\nsummary: {1}\n---\n## Use\n\nPump {0}. {2}\n"
    docs = {f"n{n:03}.md": text.format(n, "😀" * 200, f"pump {'word ' * (n % 7)}").encode() for n in range(count)}
    return MemoryProvider(docs)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((), {"limit": 150}),
        ((None, None, 150), {}),
        (({"limit": 150, "query": "guide"},), {}),
        ((), {"query": "guide", "limit": 150}),
        ((), {"kind": "guide"}),
    ],
    ids=str,
)
def test_a_list_that_is_too_long_is_cut_and_its_pages_hold_everything(args: Any, kwargs: dict[str, Any]) -> None:
    async def pages() -> list[Any]:
        found = []
        async with handlers_of(many(120), max_bytes=10_000) as handlers:
            page = await handlers["list"](*args, **kwargs)
            found.append(page)
            named = {**(args[0] if args and args[0] else {}), **kwargs}
            while page["next_cursor"]:
                page = await handlers["list"](**{**named, "cursor": page["next_cursor"]})
                found.append(page)
        return found

    found = asyncio.run(pages())
    assert all("error" not in page and page["count"] == len(page["docs"]) > 0 for page in found)
    assert all(len(json.dumps(page, ensure_ascii=False).encode()) <= 10_500 for page in found)
    ids = [entry["id"] for page in found for entry in page["docs"]]
    assert sorted(ids) == [f"guide.n{number:03}" for number in range(120)]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {"query": "pump", "top_k": 40}),
        ((), {"query": "pump", "topK": 40}),
        ((), {"query": "pump", "limit": "40"}),
        (("pump", 40), {}),
        (("pump",), {"top_k": 40}),
    ],
    ids=str,
)
def test_hits_that_are_too_long_are_cut_and_their_pages_hold_everything(args: Any, kwargs: dict[str, Any]) -> None:
    provider = many(40)

    async def pages() -> list[Any]:
        async with handlers_of(provider, max_bytes=4_000) as handlers:
            found = [await handlers["query"](*args, **kwargs)]
            while cursor := found[-1].get("next_cursor"):
                found.append(await handlers["query"](query="pump", top_k=40, cursor=cursor))
        return found

    found = asyncio.run(pages())
    assert len(found) > 1
    assert all("error" not in page for page in found)
    ids = [hit["source_id"] for page in found for hit in page["hits"]]
    assert ids == [hit.source_id for hit in provider.query(Query(query="pump", top_k=40)).hits]


def test_a_document_that_is_too_long_is_refused_and_its_sections_are_not() -> None:
    raw = b"---\nid: big\ntitle: Big\n---\n# Big\n\n" + b"".join(
        b"## Part %d\n\n%s\n\n" % (number, b"word " * 600) for number in range(4)
    )

    async def calls() -> Any:
        async with handlers_of(MemoryProvider({"big.md": raw}), max_bytes=10_000) as handlers:
            return await handlers["get"](doc_id="big"), await handlers["get"](doc_id="big", section="Part 2")

    whole, part = asyncio.run(calls())
    assert (whole["code"], whole["found"]) == ("too-large", False)
    assert "section" in whole["mend"]
    assert (part["found"], part["content"].startswith("## Part 2")) == (True, True)


class Looked(KnowledgeService):
    """Counts how often it was asked whether it has changed."""

    looks = 0

    def revision(self) -> str:
        self.looks += 1
        return super().revision()


def test_a_recent_answer_is_given_again_without_a_look_until_something_is_written() -> None:
    async def call() -> None:
        service = Looked(MemoryProvider(DOCS))
        lane = make_lane("test")
        made = ToolHandlers(find_tools(service), lane, recent_s=3600.0)
        listing = made.handler("list")
        first = await listing()
        seen = service.looks
        assert await listing() == first
        assert service.looks == seen
        service.provider.ingest(IngestRequest(id="new.md", content=b"# New\n"))
        assert (await listing())["count"] == 1  # it may be so old
        made.forget()
        assert (await listing())["count"] == 2
        lane.close()

    asyncio.run(call())


def test_without_leave_for_old_answers_each_one_is_looked_at() -> None:
    async def call() -> None:
        provider = MemoryProvider(DOCS)
        async with handlers_of(provider) as handlers:
            assert (await handlers["list"]())["count"] == 1
            provider.ingest(IngestRequest(id="new.md", content=b"# New\n"))
            assert (await handlers["list"]())["count"] == 2

    asyncio.run(call())
