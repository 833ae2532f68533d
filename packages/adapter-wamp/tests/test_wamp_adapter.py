"""The backend over a router: as the one behind it, whatever the size; and no prey of who answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    InvalidCursorError,
    InvalidFilterError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    NotSupportedError,
    QueryTooLongError,
    ReadOnlyError,
    TooLargeError,
    UnavailableError,
)
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import ByteSpan, Capabilities, IngestRequest, Query, QueryResult
from knowledge_engine.ports import IKnowledgeProvider, IngestingProvider
from knowledge_wamp import WampKnowledgeAdapter, WampSettings
from wamp_bench.places import free_port
from wamp_bench.router import Router
from wamp_bench.servers import DOCS, Gated, new_prefix, serving_apart

SECONDS = 30.0
TEXT = (
    "---\nid: guide.n{0}\nkind: {1}\nnumber: {0}\nnote: {2}\n---\n"
    "# Guide {0}\n\nPump {3}.\n\n## More\n\nPump again {4}.\n"
)
MANY = {
    f"n{n:02}.md": TEXT.format(n, ["guide", "device"][n % 2], "y" * 200, "word " * (n % 9 * 10), "😀" * n).encode()
    for n in range(40)
}


@contextmanager
def remote(router: Router, provider: Any, **more: Any) -> Iterator[WampKnowledgeAdapter]:
    """The backend over a server of that provider."""
    given_settings = WampSettings(**{"url": router.rawsocket_url, "prefix": new_prefix(), "writable": True} | more)
    with serving_apart(given_settings, provider):
        adapter = WampKnowledgeAdapter(given_settings)
        try:
            yield adapter
        finally:
            adapter.dispose()


# As the backend behind it


@pytest.fixture(scope="module")
def cut_short(router: Router) -> Iterator[tuple[MemoryProvider, WampKnowledgeAdapter]]:
    """A backend, and the same through a server that may send a few documents at once."""
    behind = MemoryProvider(MANY)
    with remote(router, behind, max_payload=10_000) as adapter:
        yield behind, adapter


filters = st.sampled_from(
    [
        None,
        {"kind": "guide"},
        {"number": {"gt": 20}},
        {"kind": "none"},
        {"nokey": 1},
        {"or": [{"number": 3}, {"id": "x"}]},
    ]
)


def same_hits(page: QueryResult) -> list[tuple[Any, ...]]:
    """All that does not depend on how long it took."""
    return [tuple(hit.model_dump(mode="json").items()) for hit in page.hits]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.builds(
        Query,
        query=st.sampled_from(["pump", "guide 7", "pump again word", "nothing like it", "  ", "\0", "😀"]),
        top_k=st.integers(1, 60),
        filter=filters,
        min_score=st.none() | st.floats(0, 2),
        per_source=st.integers(1, 3),
        max_chars=st.none() | st.integers(1, 20_000),
    )
)
@example(query=Query(query="pump", top_k=60, max_chars=3_000))
@example(query=Query(query="pump", top_k=60, max_chars=5_000, per_source=2))
def test_queries_are_answered_as_behind_it_however_much_fits_a_message(
    cut_short: tuple[MemoryProvider, WampKnowledgeAdapter], query: Query
) -> None:
    behind, adapter = cut_short
    expected, got = behind.query(query), adapter.query(query)
    assert same_hits(got) == same_hits(expected)
    assert (got.truncated, got.warnings, got.index) == (expected.truncated, expected.warnings, expected.index)
    assert (got.engine, got.mode_used) == (expected.engine, expected.mode_used)
    assert (got.next_cursor is None) == (expected.next_cursor is None)
    if expected.next_cursor is not None:
        there = behind.query(query.model_copy(update={"cursor": expected.next_cursor}))
        here = adapter.query(query.model_copy(update={"cursor": got.next_cursor}))
        assert same_hits(here) == same_hits(there)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 60), filter=filters)
def test_lists_are_given_as_behind_it_however_much_fits_a_message(
    cut_short: tuple[MemoryProvider, WampKnowledgeAdapter], limit: int, filter: Any
) -> None:
    behind, adapter = cut_short
    cursors: list[Any] = [None, None]
    while True:
        there = behind.list_sources(filter=filter, limit=limit, cursor=cursors[0])
        here = adapter.list_sources(filter=filter, limit=limit, cursor=cursors[1])
        assert here.sources == there.sources
        assert (here.total, here.warnings) == (there.total, there.warnings)
        assert (here.next_cursor is None) == (there.next_cursor is None)
        if there.next_cursor is None:
            return
        cursors = [there.next_cursor, here.next_cursor]


def test_a_document_longer_than_a_message_comes_whole_and_in_any_part(router: Router) -> None:
    raw = bytes(range(256)) * 400
    with remote(router, MemoryProvider({"long.md": raw}), max_payload=10_000) as adapter:
        whole = adapter.read_source("long.md")
        assert (whole.content, whole.total_bytes) == (raw, len(raw))
        assert whole.content_hash == sha256(raw).hexdigest()
        for start, end in ((0, 0), (5, 50_000), (99_999, 10**15), (len(raw), len(raw) + 5), (10**15, 10**16)):
            part = adapter.read_source("long.md", ByteSpan(start=start, end=end))
            assert part.content == raw[start:end]
            assert part.span == ByteSpan(start=min(start, len(raw)), end=min(end, len(raw)))
            assert part.content_hash == sha256(part.content).hexdigest()


HOSTILE_IDS = [
    "../outside/secret.md",
    "..",
    "",
    "/etc/passwd",
    "a\0b",
    "\0",
    "a\\b",
    "x" * 20_000,
    "\u2400",
    "a/../b",
    "\x1b[",
]


@pytest.mark.parametrize("source_id", HOSTILE_IDS, ids=lambda value: repr(value)[:20])
def test_hostile_ids_are_refused_as_behind_it(router: Router, source_id: str) -> None:
    behind = MemoryProvider(DOCS)
    with remote(router, behind) as adapter:
        for method in ("get_source", "read_source", "delete_source"):
            with pytest.raises(KnowledgeError) as there:
                getattr(behind, method)(source_id)
            with pytest.raises(KnowledgeError) as here:
                getattr(adapter, method)(source_id)
            assert (type(here.value), here.value.mend) == (type(there.value), there.value.mend)
        assert adapter.get_source("pump.md").id == "pump.md"


@pytest.mark.parametrize("source_id", ["a\ud800", None, 5], ids=repr)
def test_what_no_id_can_be_is_refused_without_a_call(source_id: Any) -> None:
    adapter = WampKnowledgeAdapter(WampSettings(url=f"ws://127.0.0.1:{free_port()}/ws"))
    for ask in (adapter.get_source, adapter.read_source):
        with pytest.raises(InvalidIdError, match="List the sources"):
            ask(source_id)
    adapter.dispose()


def with_number(number: float) -> IngestRequest:
    return IngestRequest(id="a.md", text="", metadata={"n": number})


def test_what_is_wrong_is_refused_with_the_same_errors(router: Router) -> None:
    with remote(router, MemoryProvider(DOCS)) as adapter:
        for kind, call in (
            (InvalidFilterError, lambda: adapter.query(Query(query="x", filter={"a": {"$gt": 1}}))),
            (InvalidFilterError, lambda: adapter.list_sources(filter={"a": float("nan")})),
            (InvalidFilterError, lambda: adapter.list_sources(filter={"a": 10**5_000})),
            (InvalidCursorError, lambda: adapter.query(Query(query="x", cursor="none"))),
            (InvalidCursorError, lambda: adapter.list_sources(cursor="\0")),
            (QueryTooLongError, lambda: adapter.query(Query(query="x" * 10_001))),
            (InvalidArgumentError, lambda: adapter.list_sources(limit=0)),
            (InvalidArgumentError, lambda: adapter.list_sources(limit=True)),
            (NotFoundError, lambda: adapter.get_source("none.md")),
            (NotSupportedError, lambda: adapter.ingest(IngestRequest(kind="url", uri="https://example.org"))),
            (ConflictError, lambda: adapter.ingest(IngestRequest(id="pump.md", text="x", if_match=""))),
            (InvalidIdError, lambda: adapter.ingest(IngestRequest(id="a\ud800", text="x"))),
            (InvalidArgumentError, lambda: adapter.ingest(IngestRequest(id="a.md", text="\ud800"))),
            (
                InvalidArgumentError,
                lambda: adapter.ingest(IngestRequest(id="a.md", text="", metadata={"n": 10**5_000})),
            ),
            (
                InvalidArgumentError,
                lambda: adapter.ingest(IngestRequest(id="a.md", text="", metadata={"n": float("inf")})),
            ),
            (InvalidArgumentError, lambda: adapter.ingest(IngestRequest(id="a.md", text="", metadata={"n": 10**500}))),
        ):
            with pytest.raises(kind) as caught:
                call()
            assert caught.value.mend
        assert adapter.query(Query(query="modbus")).hits


def test_documents_and_metadata_of_any_kind_are_stored_as_they_are(router: Router) -> None:
    behind = MemoryProvider({})
    with remote(router, behind) as adapter:
        assert isinstance(adapter, IKnowledgeProvider)
        assert isinstance(adapter, IngestingProvider)
        adapter.ingest(IngestRequest(id="\N{SYMBOL FOR NULL}ü/😀.md", content=b"\0\xff---"))
        assert behind.read_source("\N{SYMBOL FOR NULL}ü/😀.md").content == b"\0\xff---"
        metadata: dict[str, Any] = {
            "none": None,
            "big": 2**53 - 1,
            "list": ["\N{SYMBOL FOR NULL}+5", 1.5, True],
            "s": "+5",
        }
        stored = adapter.ingest(IngestRequest(id="a.md", title="T", text="# A\n", metadata=metadata))
        assert behind.get_source("a.md") == stored
        expected = MemoryProvider({}).ingest(IngestRequest(id="a.md", title="T", text="# A\n", metadata=metadata))
        assert (stored.metadata, stored.content_hash) == (expected.metadata, expected.content_hash)
        adapter.delete_source("a.md", if_match=stored.content_hash)
        with pytest.raises(NotFoundError):
            behind.get_source("a.md")


def test_what_is_served_to_be_read_only_says_how_it_could_be_written(router: Router) -> None:
    behind = MemoryProvider(DOCS)
    with remote(router, behind, writable=False) as adapter:
        assert adapter.capabilities == behind.capabilities.model_copy(update={"writable": False})
        for write in (
            lambda: adapter.ingest(IngestRequest(id="a.md", text="x")),
            lambda: adapter.delete_source("pump.md"),
        ):
            with pytest.raises(ReadOnlyError, match="--writable"):
                write()
    assert behind.get_source("pump.md")


def test_a_message_that_is_too_long_to_be_sent_is_refused_and_the_session_goes_on(router: Router) -> None:
    with remote(router, MemoryProvider(DOCS)) as adapter, pytest.raises(TooLargeError, match="Send less"):
        adapter.ingest(IngestRequest(id="big.md", content=b"x" * 17_000_000))


def test_two_backends_and_sixteen_threads_see_one_corpus(router: Router) -> None:
    behind = MemoryProvider({})
    with remote(router, behind) as first:
        second = WampKnowledgeAdapter(first._settings)
        adapters = [first, second]

        def work(number: int) -> int:
            adapter = adapters[number % 2]
            stored = adapter.ingest(IngestRequest(id=f"n{number}.md", text=f"# N\n\nword{number} pump\n"))
            assert adapters[(number + 1) % 2].get_source(stored.id) == stored
            assert adapter.query(Query(query=f"word{number}")).hits[0].source_id == stored.id
            return len(adapter.read_source(stored.id).content)

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(work, range(32)))
        assert first.list_sources().total == second.list_sources().total == 32
        second.dispose()
        assert first.get_source("n1.md").id == "n1.md"


def test_its_health_is_that_of_what_is_behind_it(router: Router) -> None:
    behind = MemoryProvider(DOCS | {"odd.md": b"---\nid: [\n---\n\xff\n"})
    with remote(router, behind) as adapter:
        health = adapter.health_check()
        assert health.issues
        assert health == behind.health_check()


def test_it_may_be_called_in_a_thread_with_a_running_event_loop(router: Router) -> None:
    with remote(router, MemoryProvider(DOCS)) as adapter:

        async def inside() -> str:
            return adapter.get_source("pump.md").id

        assert asyncio.run(inside()) == "pump.md"


# Nobody there


def test_an_unreachable_backend_is_down_and_not_an_error_to_ask() -> None:
    adapter = WampKnowledgeAdapter(WampSettings(url=f"rs://127.0.0.1:{free_port()}"), id="there")
    assert (adapter.id, adapter.capabilities) == ("there", Capabilities())
    health = adapter.health_check()
    assert (health.status, "cannot be reached" in health.message) == ("down", True)
    for ask in (
        lambda: adapter.get_source("a.md"),
        lambda: adapter.query(Query(query="x")),
        lambda: adapter.delete_source("a.md"),
        lambda: adapter.ingest(IngestRequest(id="a.md", text="x")),
    ):
        with pytest.raises(UnavailableError):
            ask()
    adapter.dispose()


def test_where_nobody_serves_the_prefix_is_named(router: Router) -> None:
    prefix = new_prefix()
    adapter = WampKnowledgeAdapter(WampSettings(url=router.url, prefix=prefix))
    with pytest.raises(UnavailableError, match=f"{prefix}.app_knowledge.sources.*correct the prefix"):
        adapter.list_sources()
    adapter.dispose()


def test_disposing_ends_calls_under_way_and_refuses_later_ones(router: Router) -> None:
    behind = Gated()
    outcomes: list[str] = []

    def call(adapter: WampKnowledgeAdapter) -> None:
        try:
            adapter.get_source("pump.md")
        except UnavailableError as error:
            outcomes.append(error.code)

    with remote(router, behind) as adapter:
        adapter.list_sources()
        callers = [threading.Thread(target=call, args=(adapter,)) for _ in range(4)]
        for caller in callers:
            caller.start()
        for _ in callers:
            assert behind.entered.acquire(timeout=SECONDS)
        adapter.dispose()
        for caller in callers:
            caller.join(SECONDS)
        assert outcomes == ["unavailable"] * 4
        adapter.dispose()
        with pytest.raises(UnavailableError, match="Open it again"):
            adapter.get_source("pump.md")
        assert adapter.health_check().status == "down"
        behind.gate.set()


def test_disposing_what_is_still_connecting_ends_it() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        adapter = WampKnowledgeAdapter(WampSettings(url=f"rs://127.0.0.1:{silent.getsockname()[1]}"))
        outcomes: list[str] = []

        def call() -> None:
            with suppress(UnavailableError):
                adapter.list_sources()
            outcomes.append("ended")

        callers = [threading.Thread(target=call) for _ in range(3)]
        for caller in callers:
            caller.start()
        accepted, _ = silent.accept()
        adapter.dispose()
        for caller in callers:
            caller.join(SECONDS)
        accepted.close()
    assert outcomes == ["ended"] * 3
