"""Our own server in the event loop of a test, and waiting for what is about to happen."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Query, QueryResult, Source
from knowledge_engine.service import KnowledgeService
from knowledge_wamp import WampServer, WampSettings

LIMIT_S = 30.0
DOCS = {"pump.md": b"---\nid: device.pump\ntitle: Pump\nkind: device\n---\n# Pump\n\nA pump talks modbus.\n"}
_numbers = itertools.count(1)


def new_prefix() -> str:
    """A prefix that no other test uses."""
    return f"test.n{next(_numbers)}"


class Gated(MemoryProvider):
    """Calls of `get_source` and `query` wait until `gate` is set."""

    def __init__(self, docs: Mapping[str, bytes] = DOCS) -> None:
        super().__init__(docs)
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)
        self.calls = 0

    def get_source(self, source_id: str) -> Source:
        self._wait()
        return super().get_source(source_id)

    def query(self, query: Query) -> QueryResult:
        self._wait()
        return super().query(query)

    def _wait(self) -> None:
        self.calls += 1
        self.entered.release()
        if not self.gate.wait(LIMIT_S):
            raise TimeoutError("nobody opened the gate")


async def until(condition: Callable[[], object], seconds: float = LIMIT_S) -> None:
    """Returns when the condition holds.

    Raises:
        TimeoutError: When it does not within `seconds`.
    """
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def until_now(condition: Callable[[], object], seconds: float = LIMIT_S) -> None:
    """`until`, where there is no event loop."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.01)


def without_complaints(main: Callable[[], Any]) -> None:
    """Runs it, and nothing goes wrong where nobody waits for it; no task is left at the end."""
    complaints: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert complaints == []


@asynccontextmanager
async def serving(
    settings: WampSettings, provider: Any = None, *, services: Mapping[str, KnowledgeService] | None = None
) -> AsyncIterator[WampServer]:
    """A server that has registered what it can; it is stopped in an orderly way at the end."""
    server = WampServer(services or {"docs": KnowledgeService(provider or MemoryProvider(DOCS))}, settings)
    running = asyncio.create_task(server.run())
    try:
        await until(lambda: running.done() or server.health.get("state") in ("ready", "degraded"))
        if running.done():
            running.result()
        yield server
    finally:
        server.stop()
        await asyncio.wait_for(running, LIMIT_S)


@contextmanager
def serving_apart(settings: WampSettings, provider: Any = None) -> Iterator[WampServer]:
    """The same in a thread of its own, for tests that block."""
    ready = threading.Event()
    made: list[tuple[WampServer, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        end = asyncio.Event()
        async with serving(settings, provider) as server:
            made.append((server, asyncio.get_running_loop(), end))
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="server-of-the-test")
    thread.start()
    try:
        until_now(lambda: ready.is_set() or not thread.is_alive())
        server, loop, end = made[0]
        yield server
    finally:
        if made:
            loop.call_soon_threadsafe(end.set)
        thread.join(LIMIT_S)
