from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from knowledge_engine import ports
from knowledge_engine.async_provider import AsyncProvider
from knowledge_engine.errors import BusyError, NotFoundError, UnavailableError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import ByteSpan, Capabilities, Health, IngestRequest, Query, QueryResult

LIMIT_S = 10
DOCS = {"a.md": b"# Tea\n\nGreen tea.", "b.md": b"# Coffee\n\nBlack coffee."}


class Slow(MemoryProvider):
    """A backend whose queries hang until they are let go."""

    def __init__(self) -> None:
        super().__init__(DOCS, id="slow")
        self.entered, self.open = threading.Semaphore(0), threading.Event()
        self.seen: list[object] = []

    def query(self, query: Query) -> QueryResult:
        self.seen.append(request.get("none"))
        self.entered.release()
        assert self.open.wait(LIMIT_S)
        return super().query(query)


class Plain:
    """The contract, and no optional power."""

    def __init__(self) -> None:
        self._inner = MemoryProvider(DOCS)
        self.id, self.capabilities = "plain", Capabilities()
        for name in ("list_sources", "get_source", "read_source", "query", "health_check", "dispose"):
            setattr(self, name, getattr(self._inner, name))


request = contextvars.ContextVar[str]("request")


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await coroutine

    return asyncio.run(bounded())


async def hanging(provider: AsyncProvider, backend: Slow) -> asyncio.Task[QueryResult]:
    """A query that hangs in its thread."""
    task = asyncio.create_task(provider.query(Query(query="tea")))
    assert await asyncio.to_thread(backend.entered.acquire, timeout=LIMIT_S)
    return task


def test_each_method_answers_as_the_provider_does() -> None:
    async def ask() -> None:
        sync = MemoryProvider(DOCS)
        async with AsyncProvider(sync) as provider:
            assert (provider.id, provider.capabilities) == (sync.id, sync.capabilities)
            assert await provider.list_sources(limit=1) == sync.list_sources(limit=1)
            assert await provider.get_source("a.md") == sync.get_source("a.md")
            assert await provider.read_source("a.md", ByteSpan(start=2, end=5)) == sync.read_source(
                "a.md", ByteSpan(start=2, end=5)
            )
            found, expected = await provider.query(Query(query="tea")), sync.query(Query(query="tea"))
            assert found.hits == expected.hits
            assert await provider.health_check() == sync.health_check()
            assert await provider.explain("a.md") == sync.explain("a.md")
            source = await provider.ingest(IngestRequest(id="c.md", text="new"))
            assert source == sync.get_source("c.md")
            await provider.supersede("a.md", by="c.md")
            await provider.delete_source("c.md", if_match=source.content_hash)
            with pytest.raises(NotFoundError):
                await provider.get_source("c.md")

    run(ask())


def test_the_methods_of_a_refreshable_provider_are_there() -> None:
    class Fresh(MemoryProvider):
        def refresh(self, paths: object = None) -> bool:
            return paths == ["a.md"]

        def invalidate(self) -> None:
            self.forgotten = True

    async def ask() -> None:
        backend = Fresh(DOCS)
        provider = AsyncProvider(backend)
        assert await provider.refresh(["a.md"])
        await provider.invalidate()
        assert backend.forgotten
        await provider.dispose()

    run(ask())


def test_the_whole_contract_is_forwarded() -> None:
    for port in (
        ports.IKnowledgeProvider,
        ports.IngestingProvider,
        ports.SupersedingProvider,
        ports.ExplainingProvider,
        ports.RefreshableProvider,
    ):
        for name, member in inspect.getmembers(port):
            if not name.startswith("_"):
                assert hasattr(AsyncProvider, name), name
                if inspect.isfunction(member):
                    assert getattr(AsyncProvider, name).__doc__


def test_powers_that_the_provider_lacks_are_absent() -> None:
    provider = AsyncProvider(Plain())
    for name in ("ingest", "delete_source", "supersede", "explain", "refresh", "invalidate"):
        assert not hasattr(provider, name)
    with pytest.raises(AttributeError, match="'plain' has no 'ingest'"):
        _ = provider.ingest
    assert not hasattr(AsyncProvider(MemoryProvider()), "refresh")


def test_queries_run_at_the_same_time_up_to_the_limit() -> None:
    async def ask() -> None:
        backend = Slow()
        provider = AsyncProvider(backend, max_concurrent=2)
        tasks = [await hanging(provider, backend), await hanging(provider, backend)]
        third = asyncio.create_task(provider.query(Query(query="coffee")))
        await asyncio.sleep(0)
        assert not backend.entered.acquire(blocking=False)
        backend.open.set()
        results = await asyncio.gather(*tasks, third)
        assert [result.hits[0].source_id for result in results] == ["a.md", "a.md", "b.md"]
        await provider.dispose()

    run(ask())


def test_a_cancelled_call_returns_at_once_and_its_thread_is_counted_until_it_ends() -> None:
    async def ask() -> None:
        backend = Slow()
        provider = AsyncProvider(backend, max_concurrent=1)
        task = await hanging(provider, backend)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert provider.abandoned == 1
        # The place is free for the next call.
        assert (await provider.get_source("a.md")).id == "a.md"
        backend.open.set()
        assert (await provider.query(Query(query="tea"))).hits
        while provider.abandoned:
            await asyncio.sleep(0)
        await provider.dispose()

    run(ask())


def test_a_call_cancelled_while_it_waits_for_its_turn_never_reaches_the_backend() -> None:
    async def ask() -> None:
        backend = Slow()
        provider = AsyncProvider(backend, max_concurrent=1)
        first = await hanging(provider, backend)
        waiting = asyncio.create_task(provider.query(Query(query="tea")))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert provider.abandoned == 0
        backend.open.set()
        await first
        await provider.get_source("a.md")
        assert len(backend.seen) == 1
        await provider.dispose()

    run(ask())


def test_when_too_many_threads_hang_further_calls_say_busy_at_once() -> None:
    async def ask() -> None:
        backend = Slow()
        provider = AsyncProvider(backend, max_concurrent=1, max_abandoned=2)
        for _ in range(2):
            task = await hanging(provider, backend)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(BusyError, match="2 calls to the backend 'slow' hang"):
            await provider.get_source("a.md")
        health = await provider.health_check()
        assert (health.status, "hang" in health.message) == ("down", True)
        backend.open.set()
        while provider.abandoned:
            await asyncio.sleep(0)
        assert (await provider.get_source("a.md")).id == "a.md"
        await provider.dispose()

    run(ask())


def test_a_call_that_takes_too_long_is_abandoned_and_one_without_a_turn_is_busy() -> None:
    async def ask() -> None:
        backend = Slow()
        provider = AsyncProvider(backend, max_concurrent=1, timeout_s=0.05)
        with pytest.raises(UnavailableError, match=r"'slow' did not answer within 0\.05 s"):
            await provider.query(Query(query="tea"))
        assert provider.abandoned == 1
        patient = AsyncProvider(backend, max_concurrent=1)
        running = await hanging(patient, backend)
        provider._lane = patient._lane  # the same places, and less patience
        with pytest.raises(BusyError, match="no place"):
            await provider.query(Query(query="tea"))
        backend.open.set()
        assert (await running).hits
        await patient.dispose()

    run(ask())


def test_a_timeout_inside_the_backend_is_not_taken_for_our_own() -> None:
    class Timing(MemoryProvider):
        def health_check(self) -> Health:
            raise TimeoutError("inside")

    async def ask() -> None:
        async with AsyncProvider(Timing(), timeout_s=LIMIT_S) as provider:
            with pytest.raises(TimeoutError, match="inside"):
                await provider.health_check()

    run(ask())


def test_context_variables_reach_the_backend() -> None:
    async def ask() -> None:
        backend = Slow()
        backend.open.set()
        request.set("r7")
        async with AsyncProvider(backend) as provider:
            await provider.query(Query(query="tea"))
        assert backend.seen == ["r7"]

    run(ask())


def test_one_provider_serves_several_event_loops() -> None:
    provider = AsyncProvider(MemoryProvider(DOCS), max_concurrent=1)

    async def ask() -> str:
        results = await asyncio.gather(*(provider.get_source("a.md") for _ in range(20)))
        return results[0].id

    assert [run(ask()) for _ in range(3)] == ["a.md"] * 3
    run(provider.dispose())


def test_a_loop_that_closed_before_the_answer_came_disturbs_nobody() -> None:
    backend = Slow()
    provider = AsyncProvider(backend)

    async def give_up() -> None:
        await hanging(provider, backend)

    run(give_up())
    assert provider.abandoned == 1
    backend.open.set()

    async def settled() -> None:
        while provider.abandoned:
            await asyncio.sleep(0)
        await provider.dispose()

    run(settled())


def test_several_calls_go_to_the_provider_in_one_turn() -> None:
    async def ask() -> None:
        async with AsyncProvider(MemoryProvider(DOCS), max_concurrent=1) as provider:
            ids = await provider.run(lambda inner: [one.id for one in inner.list_sources().sources])
            assert ids == ["a.md", "b.md"]

    run(ask())


def test_after_dispose_calls_are_refused_and_the_provider_is_disposed_of() -> None:
    async def ask() -> None:
        backend = MemoryProvider(DOCS)
        provider = AsyncProvider(backend)
        await provider.get_source("a.md")
        await provider.dispose()
        await provider.dispose()
        assert backend.health_check().status == "down"
        with pytest.raises(UnavailableError, match="disposed of"):
            await provider.get_source("a.md")
        assert (await provider.health_check()).status == "down"
        for thread in threading.enumerate():
            if thread.name == "knowledge-memory":
                await asyncio.to_thread(thread.join, LIMIT_S)
                assert not thread.is_alive()

    run(ask())


def test_dispose_lets_calls_under_way_end_first() -> None:
    async def ask() -> None:
        backend = Slow()
        provider = AsyncProvider(backend)
        task = await hanging(provider, backend)
        disposing = asyncio.create_task(provider.dispose())
        await asyncio.sleep(0)
        backend.open.set()
        await disposing
        assert (await task).hits
        assert backend.health_check().status == "down"

    run(ask())


def test_dispose_waits_a_bounded_time_for_what_hangs() -> None:
    class Stuck(Slow):
        def dispose(self) -> None:
            assert self.open.wait(LIMIT_S)

    async def ask() -> None:
        backend = Stuck()
        provider = AsyncProvider(backend, dispose_timeout_s=0.02)
        task = await hanging(provider, backend)
        await provider.dispose()
        assert not task.done()
        backend.open.set()
        assert (await task).hits

    run(ask())


def test_a_cancelled_dispose_still_disposes_of_the_provider() -> None:
    async def ask() -> None:
        backend = Slow()
        provider = AsyncProvider(backend)
        task = await hanging(provider, backend)
        disposing = asyncio.create_task(provider.dispose())
        await asyncio.sleep(0)
        disposing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await disposing
        backend.open.set()
        await task
        while backend.health_check().status != "down":
            await asyncio.sleep(0)

    run(ask())


def test_an_error_in_dispose_reaches_the_caller() -> None:
    class Sour(MemoryProvider):
        def dispose(self) -> None:
            raise UnavailableError("No way out", mend="Look for another.")

    async def ask() -> None:
        with pytest.raises(UnavailableError, match="No way out"):
            await AsyncProvider(Sour()).dispose()

    run(ask())
