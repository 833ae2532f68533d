"""What a server offers beside the tools: typed answers that fit a message, and coded errors."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import pytest
from autobahn.wamp.exception import ApplicationError
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import (
    ByteSpan,
    DocumentIssue,
    Health,
    IngestRequest,
    Query,
    QueryResult,
    Skipped,
    Source,
    SourceContent,
)
from knowledge_engine.service import KnowledgeService
from knowledge_wamp import WampSettings, topics
from knowledge_wamp.handlers import make_lane
from knowledge_wamp.procedures import Procedures, procedure_handler
from knowledge_wamp.wire import json_bytes, unpack
from wamp_bench.node_config import SERIALIZERS
from wamp_bench.python_client import wamp_calls
from wamp_bench.router import Router
from wamp_bench.servers import DOCS, Gated, new_prefix, serving

SECONDS = 30.0
SECRETS = "/srv/kb/secret path SELECT * FROM docs"
RAW = DOCS["pump.md"]


def procedures(provider: Any = None, *, writable: bool = True, max_bytes: int = 1_000_000) -> Procedures:
    service = KnowledgeService(MemoryProvider(DOCS) if provider is None else provider)
    return Procedures(service, writable=writable, max_bytes=max_bytes)


def ask(procedure: Any, /, *args: object, **kwargs: object) -> dict[str, Any]:
    """One call as a router makes it, without one."""

    async def call() -> Any:
        lane = make_lane("test")
        try:
            return await asyncio.wait_for(procedure_handler(procedure, lane, SECONDS)(*args, **kwargs), SECONDS)
        finally:
            lane.close()

    return asyncio.run(call())  # type: ignore[no-any-return]


@contextmanager
def refused(code: str) -> Iterator[Any]:
    """The call ends with that code, and its error says all that it may."""
    with pytest.raises(ApplicationError) as caught:
        yield caught
    error = caught.value
    assert error.kwargs.keys() == {"code", "message", "mend", "id"}
    assert error.kwargs["code"] == code, error.kwargs
    assert [*error.args] == [error.kwargs["message"]]
    assert error.kwargs["mend"]


# What is answered


def test_a_query_answers_a_whole_result() -> None:
    result = QueryResult.model_validate(unpack(ask(procedures().query, query="modbus", topK=1)))
    assert result.hits[0].source_id == "pump.md"
    assert ask(procedures().query, {"query": "modbus"})["hits"][0]["source_id"] == "pump.md"


def test_a_query_without_words_has_no_hits() -> None:
    assert ask(procedures().query, query="  ")["hits"] == []


def test_sources_come_in_pages_or_one_by_one() -> None:
    provider = MemoryProvider({f"{name}.md": RAW for name in "abcde"})
    page = ask(procedures(provider).sources, limit=2)
    assert ([source["id"] for source in page["sources"]], page["total"]) == (["a.md", "b.md"], 5)
    rest = ask(procedures(provider).sources, limit=10, cursor=page["next_cursor"])
    assert [source["id"] for source in rest["sources"]] == ["c.md", "d.md", "e.md"]
    assert rest["next_cursor"] is None
    assert Source.model_validate(ask(procedures(provider).sources, source_id="c.md")["source"]).id == "c.md"
    assert ask(procedures(provider).sources, filter={"kind": "guide"})["total"] == 0


@pytest.mark.parametrize("span", [(0, None), (0, 10), (5, 9), (9, 5), (0, 0), (3, 10**30), (10**30, None)])
def test_bytes_are_read_by_ranges(span: tuple[int, int | None]) -> None:
    start, end = span
    answer = ask(procedures().read, source_id="pump.md", start=start, **({} if end is None else {"end": end}))
    content = base64.b64decode(answer["content"])
    assert content == RAW[start : len(RAW) if end is None else end]
    assert answer["content_hash"] == sha256(content).hexdigest()
    assert (answer["end"] - answer["start"], answer["total_bytes"]) == (len(content), len(RAW))
    assert answer["source_hash"] == sha256(RAW).hexdigest()


def test_a_long_document_is_read_in_parts_that_fit() -> None:
    raw = b"word " * 10_000
    read = procedures(MemoryProvider({"long.md": raw}), max_bytes=10_000).read
    parts, at = [], 0
    while at < len(raw):
        answer = ask(read, source_id="long.md", start=at)
        assert json_bytes(answer) <= 10_000
        parts.append(base64.b64decode(answer["content"]))
        at = answer["end"]
    assert b"".join(parts) == raw
    assert len(parts) < 10


class Changing(MemoryProvider):
    """Changes right before its bytes are read, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__({"a.md": b"version 0"})
        self.times = times

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        if self.times:
            self.times -= 1
            self.write(b"version %d" % (self.times + 1))
        return super().read_source(source_id, span)

    def write(self, raw: bytes) -> None:
        self.ingest(IngestRequest(id="a.md", content=raw))


def test_a_part_is_of_the_version_that_it_says() -> None:
    answer = ask(procedures(Changing(2)).read, source_id="a.md", start=8, end=9)
    assert base64.b64decode(answer["content"]) == b"1"
    assert answer["source_hash"] == sha256(b"version 1").hexdigest()


def test_a_whole_document_says_its_own_version_even_if_it_changed_meanwhile() -> None:
    answer = ask(procedures(Changing(100)).read, source_id="a.md")
    assert sha256(base64.b64decode(answer["content"])).hexdigest() == answer["source_hash"]


def test_a_part_of_what_changes_all_the_while_is_refused() -> None:
    with refused("unavailable") as caught:
        ask(procedures(Changing(100)).read, source_id="a.md", start=8, end=9)
    assert caught.value.error == "wamp.error.unavailable"


def test_the_status_says_what_a_caller_may_do() -> None:
    assert ask(procedures(writable=True).status)["capabilities"]["writable"] is True
    status = ask(procedures(writable=False).status)
    assert status["capabilities"]["writable"] is False
    assert (status["status"], status["backend"], status["issues_total"]) == ("ok", "memory", 0)


def test_what_may_not_be_written_has_no_procedures_for_it() -> None:
    assert set(procedures(writable=False).by_topic()) == {topics.QUERY, topics.SOURCES, topics.READ, topics.STATUS}
    assert {topics.INGEST, topics.DELETE} < set(procedures(writable=True).by_topic())

    class ReadOnly(MemoryProvider):
        @property
        def capabilities(self) -> Any:
            return super().capabilities.model_copy(update={"writable": False})

    assert procedures(ReadOnly(DOCS), writable=True).writable is False


def test_documents_are_stored_and_deleted() -> None:
    offered = procedures()
    given = base64.b64encode(b"\xff\0raw").decode()
    stored = ask(offered.ingest, id="new.md", content=given)["source"]
    assert (stored["id"], stored["bytes"]) == ("new.md", 5)
    assert base64.b64decode(ask(offered.read, source_id="new.md")["content"]) == b"\xff\0raw"
    with refused("conflict"):
        ask(offered.delete, source_id="new.md", if_match="0" * 64)
    assert ask(offered.delete, source_id="new.md", if_match=stored["content_hash"]) == {"deleted": "new.md"}
    with refused("not-found"):
        ask(offered.delete, source_id="new.md")


class Sick(MemoryProvider):
    """Has so much to say of its documents."""

    def __init__(self, issues: int, details: int = 0) -> None:
        super().__init__(DOCS)
        self._said = issues, details

    def health_check(self) -> Health:
        issues, details = self._said
        return (
            super()
            .health_check()
            .model_copy(
                update={
                    "issues": tuple(
                        DocumentIssue(code="x", severity="error", path=f"{n}.md", message="m" * 100)
                        for n in range(issues)
                    ),
                    "skipped": tuple(Skipped(path=f"{n}.md", reason="x", message="m" * 100) for n in range(issues)),
                    "details": {"text": "x" * details},
                }
            )
        )


def test_a_status_that_is_too_long_is_cut_and_says_how_much_there_was() -> None:
    status = ask(procedures(Sick(500), max_bytes=10_000).status)
    assert json_bytes(status) <= 10_000
    assert (status["issues_total"], status["skipped_total"]) == (500, 500)
    assert 0 < len(status["issues"]) < 500
    assert Health.model_validate({key: status[key] for key in Health.model_fields}).details


def test_a_brief_status_has_no_issues() -> None:
    status = ask(procedures(Sick(500), max_bytes=10_000).status, brief=True)
    assert (status["issues"], status["skipped"], status["issues_total"]) == ([], [], 500)
    assert status["details"] != {}


@pytest.mark.parametrize("brief", [True, False])
def test_details_that_are_too_long_are_left_out(brief: bool) -> None:
    status = ask(procedures(Sick(3, 20_000), max_bytes=10_000).status, brief=brief)
    assert (status["details"], status["issues"]) == ({}, [])
    assert status["issues_total"] == 3


def test_a_status_does_not_begin_to_build_an_index() -> None:
    class Unbuilt(MemoryProvider):
        refreshed = 0

        def health_check(self) -> Health:
            return Health(message="nothing yet")

        def refresh(self, paths: Any = None) -> bool:
            self.refreshed += 1
            return False

        def invalidate(self) -> None: ...

    provider = Unbuilt(DOCS)
    service = KnowledgeService(provider, refresh_before_answer=True)
    assert ask(Procedures(service, writable=False, max_bytes=10_000).status)["message"] == "nothing yet"
    assert provider.refreshed == 0


# Answers that do not fit


def many(count: int, words: int = 30) -> MemoryProvider:
    text = b"---\nid: n%d\nnote: %s\n---\n# N\n\npump %s\n"
    return MemoryProvider({f"n{n:03}.md": text % (n, b"x" * 50, b"word " * words) for n in range(count)})


def test_hits_that_do_not_fit_are_cut_with_a_cursor_to_go_on() -> None:
    provider = many(40)
    query = procedures(provider, max_bytes=10_000).query
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = ask(query, query="pump", top_k=40, **cursor)
        assert json_bytes(answer) <= 10_000
        found += [hit["source_id"] for hit in answer["hits"]]
        if answer["next_cursor"] is None:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert found == [hit.source_id for hit in provider.query(Query(query="pump", top_k=40)).hits]


def test_one_hit_or_one_document_that_does_not_fit_is_refused_with_the_mend() -> None:
    long = b"---\nid: a\nnote: %s\n---\n# A\n\npump\n" % (b"x" * 20_000)
    offered = procedures(MemoryProvider({"a.md": long}), max_bytes=10_000)
    for asked in (
        lambda: ask(offered.query, query="pump"),
        lambda: ask(offered.sources),
        lambda: ask(offered.sources, source_id="a.md"),
    ):
        with refused("too-large") as caught:
            asked()
        assert "KNOWLEDGE_WAMP_MAX_PAYLOAD" in caught.value.kwargs["mend"]
    assert base64.b64decode(ask(offered.read, source_id="a.md", end=7)["content"]) == long[:7]


def test_a_page_of_sources_that_does_not_fit_is_cut() -> None:
    answer = ask(procedures(many(100), max_bytes=10_000).sources)
    assert 0 < len(answer["sources"]) < 100
    assert answer["next_cursor"]
    assert json_bytes(answer) <= 10_000


# What is refused


@pytest.mark.parametrize(
    ("name", "given", "code"),
    [
        ("query", {}, "invalid-argument"),
        ("query", {"query": 5}, "invalid-argument"),
        ("query", {"query": "x", "top_k": "5"}, "invalid-argument"),
        ("query", {"query": "x", "other": 1}, "invalid-argument"),
        ("query", {"query": "x" * 10_000_000}, "query-too-long"),
        ("query", {"query": "x", "filter": {"a": {"$gt": 1}}}, "invalid-filter"),
        ("query", {"query": "x", "filter": {"a": float("nan")}}, "invalid-filter"),
        ("query", {"query": "x", "cursor": "none"}, "invalid-cursor"),
        ("sources", {"limit": 0}, "invalid-argument"),
        ("sources", {"limit": True}, "invalid-argument"),
        ("sources", {"limit": 1.5}, "invalid-argument"),
        ("sources", {"limit": "9" * 10_000_000}, "invalid-argument"),
        ("sources", {"filter": "kind"}, "invalid-filter"),
        ("sources", {"cursor": 5}, "invalid-argument"),
        ("sources", {"cursor": "none"}, "invalid-cursor"),
        ("sources", {"source_id": 5}, "invalid-argument"),
        ("sources", {"source_id": "none.md"}, "not-found"),
        ("read", {}, "invalid-argument"),
        ("read", {"source_id": None}, "invalid-argument"),
        ("read", {"source_id": "none.md"}, "not-found"),
        ("read", {"source_id": "x" * 10_000_000}, "invalid-id"),
        ("read", {"source_id": "pump.md", "start": -1}, "invalid-argument"),
        ("read", {"source_id": "pump.md", "start": False}, "invalid-argument"),
        ("read", {"source_id": "pump.md", "end": 1.5}, "invalid-argument"),
        ("ingest", {"id": "a.md"}, "invalid-argument"),
        ("ingest", {"id": "a.md", "content": "no base64!"}, "invalid-argument"),
        ("ingest", {"id": "a.md", "content": "größe"}, "invalid-argument"),
        ("ingest", {"id": "a.md", "content": 5}, "invalid-argument"),
        ("ingest", {"id": "a.md", "content": "", "text": ""}, "invalid-argument"),
        ("ingest", {"id": "a.md", "text": "x", "metadata": {"n": float("inf")}}, "invalid-argument"),
        ("ingest", {"id": "../a.md", "text": "x"}, "invalid-id"),
        ("ingest", {"id": "a.md", "text": "x", "kind": "url"}, "not-supported"),
        ("delete", {}, "invalid-argument"),
        ("delete", {"source_id": "pump.md", "if_match": 5}, "invalid-argument"),
        ("delete", {"source_id": "none.md"}, "not-found"),
        ("status", {"bytes": b"raw"}, "invalid-argument"),
        ("status", {"nested": {1: 2}}, "invalid-argument"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_wrong_argument_has_a_code_and_a_mend(name: str, given: dict[str, Any], code: str) -> None:
    with refused(code) as caught:
        ask(getattr(procedures(), name), **given)
    assert len(str(caught.value.kwargs)) < 5_000


def test_arguments_without_names_are_refused() -> None:
    for args in ((1,), ("pump.md", 2), ([1],), ({1: 2},)):
        with refused("invalid-argument"):
            ask(procedures().read, *args)


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    with refused("invalid-argument") as caught:
        ask(procedures().query, query="x", filter={"a": deep})
    assert "nested too deeply" in caught.value.kwargs["message"]


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(alphabet=st.characters()), st.binary()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
FIELDS = ["query", "top_k", "filter", "source_id", "start", "end", "limit", "cursor", "id", "text", "content", "kind"]


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["query", "sources", "read", "status", "ingest", "delete"]),
    kwargs=st.dictionaries(st.sampled_from(FIELDS), values, max_size=3),
)
def test_any_arguments_are_answered_or_refused_with_a_code_that_is_not_internal(name: str, kwargs: Any) -> None:
    try:
        answer = ask(getattr(procedures(), name), **kwargs)
    except ApplicationError as error:
        json.dumps(error.kwargs, ensure_ascii=False).encode()
        with refused(error.kwargs["code"]):
            raise
        if error.kwargs["code"] == "internal":
            raise
    else:
        json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()


class Broken(MemoryProvider):
    """Fails, and says what nobody may read."""

    def query(self, query: Query) -> QueryResult:
        raise RuntimeError(SECRETS)


# Through a router


def calls(
    router: Router, provider: Any, asked: list[tuple[str, list[Any], Mapping[str, Any]]], serializer: str, **more: Any
) -> list[dict[str, Any]]:
    """The outcomes of calls to one server, which keeps its session over all of them."""
    given = WampSettings(url=router.url, prefix=new_prefix(), serializers=(serializer,), **more)

    async def ask_all() -> list[dict[str, Any]]:
        async with serving(given, provider) as server:
            session = server.health["session"]
            named = [(given.procedure(topic), args, kwargs) for topic, args, kwargs in asked]
            outcomes = await wamp_calls(router.url, router.realm, named, serializer=serializer)
            assert (server.health["state"], server.health["session"]) == ("ready", session)
            return outcomes

    return asyncio.run(asyncio.wait_for(ask_all(), 2 * SECONDS))


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_errors_reach_their_callers_with_uri_and_keywords(
    router: Router, serializer: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[tuple[str, list[Any], Mapping[str, Any]]] = [
        (topics.QUERY, [], {"query": "pump", "full": True}),
        (topics.QUERY, [], {"query": "pump"}),
        (topics.READ, [], {"source_id": "none.md"}),
        (topics.READ, [], {"source_id": b"bytes"}),
        (topics.SOURCES, [{"limit": 0}], {}),
        (topics.SOURCES, [1, 2], {"fun": 1}),
        (topics.INGEST, [], {"id": "a.md", "text": "x"}),
        ("app_knowledge.none", [], {}),
    ]
    with caplog.at_level(logging.ERROR):
        outcomes = calls(router, Broken(DOCS), asked, serializer)
    internal, as_tool, missing, raw, limit, unnamed, unwritable, none = outcomes
    assert internal["error"] == "app_knowledge.error.internal"
    assert internal["kwargs"].keys() == {"code", "message", "mend", "id"}
    assert (as_tool["result"]["code"], as_tool["result"]["count"]) == ("internal", 0)
    assert (missing["error"], missing["kwargs"]["code"]) == ("app_knowledge.error.not_found", "not-found")
    assert [each["error"] for each in (raw, limit, unnamed)] == ["wamp.error.invalid_argument"] * 3
    assert unwritable["error"] == none["error"] == "wamp.error.no_such_procedure"
    assert not any(word in str(outcomes) for word in ("/srv", "SELECT", "Traceback"))
    for error_id in (internal["kwargs"]["id"], as_tool["result"]["error_id"]):
        assert len([record for record in caplog.records if error_id in record.getMessage()]) == 1
    assert len([record for record in caplog.records if SECRETS in str(record.exc_info)]) == 2


def test_a_procedure_that_hangs_is_given_up_with_a_code(router: Router) -> None:
    provider = Gated()
    hung, status = calls(
        router,
        provider,
        [(topics.QUERY, [], {"query": "pump", "full": True}), (topics.STATUS, [], {})],
        "msgpack",
        timeout_s=0.1,
    )
    provider.gate.set()
    assert (hung["error"], hung["kwargs"]["code"]) == ("wamp.error.unavailable", "unavailable")
    assert status["result"]["status"] == "ok"
