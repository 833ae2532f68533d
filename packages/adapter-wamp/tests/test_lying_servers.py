"""The backend is no prey of who answers it: wrong bytes, wrong shapes, no end, and errors of any kind."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import pytest
from autobahn.wamp.exception import ApplicationError
from autobahn.wamp.types import CallResult

from knowledge_engine.errors import (
    KnowledgeError,
    NotFoundError,
    ProviderError,
    UnavailableError,
)
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import ByteSpan, Capabilities, Health, IngestRequest, Query, Source
from knowledge_wamp import WampKnowledgeAdapter, WampSettings
from wamp_bench.python_client import connect
from wamp_bench.router import Router
from wamp_bench.servers import DOCS, new_prefix

SECONDS = 30.0


@contextmanager
def pretending(router: Router, **procedures: Callable[..., Any]) -> Iterator[WampKnowledgeAdapter]:
    """The backend over somebody who answers what he likes; `read` stands for `app_knowledge.read`."""
    given_settings = WampSettings(url=router.url, prefix=new_prefix(), timeout_s=SECONDS)
    ready, end = threading.Event(), threading.Event()

    async def serve() -> None:
        async with connect(router.url, router.realm) as session:
            for name, function in procedures.items():
                await session.register(function, given_settings.procedure(f"app_knowledge.{name}"))
            ready.set()
            await asyncio.to_thread(end.wait, 4 * SECONDS)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    adapter = WampKnowledgeAdapter(given_settings)
    try:
        assert ready.wait(SECONDS)
        yield adapter
    finally:
        adapter.dispose()
        end.set()
        thread.join(SECONDS)


def part(raw: bytes = b"abc", **other: Any) -> dict[str, Any]:
    """An honest answer of `read`, but for what is given."""
    return {
        "source_id": "a.md",
        "content": base64.b64encode(raw).decode(),
        "start": 0,
        "end": len(raw),
        "total_bytes": len(raw),
        "content_hash": sha256(raw).hexdigest(),
        "source_hash": "v1",
    } | other


BAD_PARTS: Mapping[str, Any] = {
    "hash of others": part(content_hash="0" * 64),
    "no hash": part(content_hash=None),
    "no base64": part(content="%%%"),
    "no ascii": part(content="größe"),
    "content as number": part(content=5),
    "number as text": part(total_bytes="3"),
    "number with a fraction": part(total_bytes=3.0),
    "boolean": part(start=False),
    "infinity": part(total_bytes=float("inf")),
    "negative": part(b"", start=-1, end=-1, total_bytes=-1),
    "elsewhere": part(start=6, end=9, total_bytes=9),
    "too far": part(end=3, total_bytes=2),
    "wrong length": part(end=2),
    "huge": part(end=10**30, total_bytes=10**30),
    "empty": {},
    "nothing": None,
    "a list": [1, 2],
    "text": "abc",
    "bytes": b"abc",
    "deep": "deep",
}


def deep(levels: int = 300) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture(scope="module")
def liar(router: Router) -> Iterator[tuple[dict[str, Any], WampKnowledgeAdapter]]:
    """Every procedure answers with what is put under `answer`."""
    say: dict[str, Any] = {}

    def answer(**_: Any) -> Any:
        return say["answer"]

    names = ("read", "sources", "query", "status", "ingest", "delete")
    with pretending(router, **dict.fromkeys(names, answer)) as adapter:
        yield say, adapter


@pytest.mark.parametrize("lie", BAD_PARTS)
def test_bytes_that_are_not_those_that_are_said_are_refused(
    liar: tuple[dict[str, Any], WampKnowledgeAdapter], lie: str
) -> None:
    say, adapter = liar
    say["answer"] = deep() if lie == "deep" else BAD_PARTS[lie]
    with pytest.raises(ProviderError) as caught:
        adapter.read_source("a.md")
    assert type(caught.value) is ProviderError
    assert caught.value.mend


ANSWERS = [
    None, 5, "text", [], {}, {"source": None}, {"source": {}}, {"sources": [1]}, {"sources": "x", "total": -1},
    {"source": {"id": 5}}, {"hits": [{}], "engine": "x", "mode_used": "keyword"}, {"engine": 1, "mode_used": "x"},
    {"status": "fine"}, {"capabilities": 5}, {"capabilities": {"writable": "perhaps"}}, {"unknown": 1, "sources": []},
    {"source": deep()}, {"source": 10**30}, float("inf"), {"sources": float("nan")}, b"\xff", {"x": b"\0"},
]  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda value: repr(value)[:40])
def test_an_answer_of_the_wrong_shape_is_the_other_sides_failure(
    liar: tuple[dict[str, Any], WampKnowledgeAdapter], answer: Any
) -> None:
    say, adapter = liar
    say["answer"] = answer
    calls: Mapping[str, Callable[[], Any]] = {
        "get": lambda: adapter.get_source("a.md"),
        "list": adapter.list_sources,
        "query": lambda: adapter.query(Query(query="x")),
        "ingest": lambda: adapter.ingest(IngestRequest(id="a.md", text="x")),
    }
    for name, call in calls.items():
        if name == "list" and answer == {}:
            continue  # an empty page is one
        with pytest.raises(ProviderError) as caught:
            call()
        assert type(caught.value) is ProviderError
        assert "pydantic" not in str(caught.value)
    assert isinstance(adapter.capabilities, Capabilities)
    assert isinstance(adapter.health_check(), Health)


class _Result(CallResult):  # type: ignore[misc]
    """Several values at once, as WAMP allows."""


def test_several_values_at_once_are_no_answer(liar: tuple[dict[str, Any], WampKnowledgeAdapter]) -> None:
    say, adapter = liar
    say["answer"] = _Result(1, 2, a=3)
    with pytest.raises(ProviderError, match="sent a CallResult"):
        adapter.get_source("a.md")


ENTRY = Source(id="a.md", origin="file", uri="memory:a.md", title="A", bytes=3).model_dump(mode="json")
HIT = MemoryProvider(DOCS).query(Query(query="modbus")).hits[0].model_dump(mode="json")


@pytest.mark.parametrize(
    ("answer", "ask", "said"),
    [
        ({"sources": [], "total": 9, "next_cursor": "again"}, "list", "does not end"),
        ({"sources": [ENTRY] * 3, "total": 3}, "list", "more sources than"),
        ({"hits": [HIT] * 3, "engine": "x", "mode_used": "keyword"}, "query", "more hits than"),
        (part(b"", total_bytes=5), "read", "no more bytes"),
    ],
    ids=["endless", "more sources", "more hits", "no bytes"],
)
def test_answers_without_end_are_refused(
    liar: tuple[dict[str, Any], WampKnowledgeAdapter], answer: Any, ask: str, said: str
) -> None:
    say, adapter = liar
    say["answer"] = answer
    calls: Mapping[str, Callable[[], Any]] = {
        "list": lambda: adapter.list_sources(limit=2),
        "query": lambda: adapter.query(Query(query="x", top_k=2)),
        "read": lambda: adapter.read_source("a.md", ByteSpan(start=0, end=9)),
    }
    with pytest.raises(ProviderError, match=said):
        calls[ask]()


def test_hits_without_a_page_of_them_end_a_query(liar: tuple[dict[str, Any], WampKnowledgeAdapter]) -> None:
    say, adapter = liar
    say["answer"] = {"hits": [], "engine": "x", "mode_used": "keyword", "next_cursor": "again"}
    assert adapter.query(Query(query="x")).next_cursor == "again"


@pytest.mark.parametrize(
    ("uri", "wire", "kind"),
    [
        ("app_knowledge.error.not_found", {"code": "not-found", "message": "No.", "mend": "List."}, NotFoundError),
        ("app_knowledge.error.x", {"code": deep(), "message": {"a": 1}, "mend": b"x"}, ProviderError),
        ("wamp.error.runtime_error", {}, ProviderError),
        ("wamp.error.not_authorized", {}, ProviderError),
        ("x.y", {"code": "internal", "message": "Something.", "id": "5"}, ProviderError),
    ],
    ids=["coded", "nonsense", "runtime", "denied", "internal"],
)
def test_errors_of_the_other_side_are_errors_here(
    router: Router, uri: str, wire: Any, kind: type[KnowledgeError]
) -> None:
    def fail(**_: Any) -> None:
        raise ApplicationError(uri, "/srv/kb/secret", **wire)

    with pretending(router, sources=fail) as adapter:
        with pytest.raises(kind) as caught:
            adapter.get_source("a.md")
        assert "/srv" not in str(caught.value)


class Rewriting:
    """A document that is another one at each part, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.asked = 0

    def __call__(self, *, source_id: str, start: int, end: int | None = None) -> dict[str, Any]:
        self.asked += 1
        version = min(self.asked, self.times)
        raw = bytes([version]) * 10
        piece = raw[start:end][:4]
        return part(piece, start=start, end=start + len(piece), total_bytes=10, source_hash=str(version))


def test_a_document_that_changes_between_its_parts_is_read_again(router: Router) -> None:
    with pretending(router, read=Rewriting(3)) as adapter:
        assert adapter.read_source("a.md").content == b"\3" * 10
    with pretending(router, read=Rewriting(3)) as adapter:
        assert adapter.read_source("a.md", ByteSpan(start=1, end=8)).content == b"\3" * 7


def test_a_document_that_changes_all_the_while_is_given_up(router: Router) -> None:
    with pretending(router, read=Rewriting(10**9)) as adapter, pytest.raises(UnavailableError, match="changes all"):
        adapter.read_source("a.md")
