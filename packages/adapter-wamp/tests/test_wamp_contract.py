"""The contract over a real router: a server in a thread, and the backend that calls it."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from knowledge_engine.contract import Opened, provider_contract
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.service import KnowledgeService
from knowledge_wamp import WampKnowledgeAdapter, WampServer, WampSettings
from wamp_bench.router import Router

_numbers = itertools.count()
_url = ""


@pytest.fixture(scope="session", autouse=True)
def _router_url(router: Router) -> None:
    # The contract opens providers outside of any test's fixtures.
    global _url
    _url = router.rawsocket_url


@contextmanager
def served(provider: IKnowledgeProvider, **more: object) -> Iterator[WampSettings]:
    """A server over that provider, at a prefix of its own."""
    settings = WampSettings(url=_url, prefix=f"contract.n{next(_numbers)}", writable=True, **more)  # type: ignore[arg-type]
    ready = threading.Event()
    stop: list[Callable[[], None]] = []

    async def serve() -> None:
        server = WampServer({"docs": KnowledgeService(provider)}, settings)
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(server.stop))
        running = asyncio.ensure_future(server.run())
        while server.health.get("state") != "ready":
            await asyncio.sleep(0.001)
        ready.set()
        await running

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(30), "the server did not register"
        yield settings
    finally:
        stop[0]()
        thread.join()


@contextmanager
def open_remote(docs: Mapping[str, bytes]) -> Iterator[Opened]:
    behind = MemoryProvider(docs)
    with served(behind) as settings:
        adapter = WampKnowledgeAdapter(settings)
        yield Opened(adapter, lambda: WampKnowledgeAdapter(settings))
        adapter.dispose()


TestRemote = provider_contract(open_remote, max_examples=3)
