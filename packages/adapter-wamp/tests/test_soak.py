"""Routers that restart and connections that break, again and again, while a server serves and a backend calls."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from knowledge_engine.errors import UnavailableError
from knowledge_engine.models import Query
from knowledge_wamp import WampKnowledgeAdapter, WampSettings, topics
from wamp_bench.proxy import CuttingProxy
from wamp_bench.python_client import wamp_call
from wamp_bench.router import Router
from wamp_bench.servers import LIMIT_S, new_prefix, serving, until, without_complaints

_log = logging.getLogger(__name__)
MakeProxy = Callable[[int], CuttingProxy]
#: What may be more in memory at the end: caches that fill up, not sessions, of which each has some 100 KB.
GROWTH_BYTES = 300_000
WARM_UP = 5


class Held(NamedTuple):
    """What the process holds just now."""

    tasks: int
    threads: int
    files: int
    memory: int


class Caller:
    """Calls all the while, in a thread; only what may be tried again is allowed to fail."""

    def __init__(self, adapter: WampKnowledgeAdapter) -> None:
        self.answered = self.failed = 0
        self.faults: list[BaseException] = []
        self._adapter = adapter
        self._go, self._end, self._rests = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._call, name="caller-of-the-test")

    def __enter__(self) -> Caller:
        self._go.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._go.set()
        self._thread.join(LIMIT_S)

    def rest(self) -> None:
        """Returns when no call is under way; there is none until `go_on`."""
        self._go.clear()
        assert self._rests.wait(LIMIT_S)

    def go_on(self) -> None:
        self._rests.clear()
        self._go.set()

    def _call(self) -> None:
        while not self._end.is_set():
            if not self._go.is_set():
                self._rests.set()
                self._go.wait()
                continue
            try:
                self._adapter.query(Query(query="pump"))
                self.answered += 1
            except UnavailableError:
                self.failed += 1
                self._end.wait(0.02)
            except BaseException as error:
                self.faults.append(error)
                return


@contextmanager
def traced() -> Iterator[None]:
    """Memory is measured; nothing is logged, as pytest keeps all that is."""
    logging.disable(logging.CRITICAL)
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        logging.disable(logging.NOTSET)


async def held(caller: Caller, proxy: CuttingProxy) -> Held:
    """Measured while nothing is under way; two connections are left, and they are never more."""
    await asyncio.to_thread(caller.rest)
    await until(lambda: proxy.open == 2)
    await asyncio.sleep(0)
    gc.collect()
    # Of a lane's threads there are as many as were needed at once, up to its limit; they end when nobody calls.
    threads = [thread for thread in threading.enumerate() if thread.name != "knowledge-wamp"]
    memory, _ = tracemalloc.get_traced_memory()
    found = Held(len(asyncio.all_tasks()), len(threads), len(os.listdir("/proc/self/fd")), memory)
    caller.go_on()
    return found


@pytest.mark.parametrize(
    ("transport", "restarts", "cuts"),
    [
        ("url", 2, 15),
        pytest.param("url", 20, 500, marks=pytest.mark.slow),
        pytest.param("rawsocket_url", 4, 100, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_lost_and_nothing_piles_up(
    own_router: Router, cutting_proxy: MakeProxy, transport: str, restarts: int, cuts: int
) -> None:
    proxy = cutting_proxy(own_router.port if transport == "url" else own_router.rawsocket_port)
    settings = WampSettings(url=getattr(proxy, transport), prefix=new_prefix())
    adapter = WampKnowledgeAdapter(settings)
    numbers: dict[str, Any] = {}

    async def registered() -> None:
        """A stranger's call gets an answer."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    await wamp_call(own_router.url, own_router.realm, settings.procedure(topics.STATUS), seconds=5)
                except Exception:
                    await asyncio.sleep(0.02)
                else:
                    return

    async def cut(times: int) -> None:
        for _ in range(times):
            before = caller.answered
            await asyncio.to_thread(proxy.cut)
            await registered()
            # The backend is connected again, too; else the next cut would hit nothing.
            await until(lambda before=before: caller.answered > before or caller.faults)  # type: ignore[misc]
            assert caller.faults == []

    async def restart(times: int) -> None:
        for number in range(times):
            before = caller.answered
            await asyncio.to_thread(own_router.restart, gently=bool(number % 2))
            await registered()
            await until(lambda before=before: caller.answered > before or caller.faults)  # type: ignore[misc]
            assert caller.faults == []

    async def main() -> None:
        async with serving(settings) as server:
            await asyncio.to_thread(caller.__enter__)
            await cut(WARM_UP)
            numbers["before"] = await held(caller, proxy)
            await restart(restarts)
            await cut(cuts)
            numbers["after"] = await held(caller, proxy)
            await asyncio.to_thread(caller.__exit__)
            assert server.health["state"] == "ready"
            await asyncio.to_thread(adapter.dispose)

    caller = Caller(adapter)
    with traced():
        without_complaints(main)
    before, after = numbers["before"], numbers["after"]
    _log.info("%s, then %s; %d answered, %d failed", before, after, caller.answered, caller.failed)
    assert after[:3] == before[:3]
    assert after.memory - before.memory < GROWTH_BYTES
    assert proxy.accepted >= 2 * cuts
