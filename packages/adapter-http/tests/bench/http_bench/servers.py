"""Servers on real sockets, in threads of this process."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from knowledge_engine.memory import MemoryProvider
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.service import KnowledgeService
from knowledge_http import HttpSettings
from knowledge_http.server import create_app
from knowledge_http.server.serving import listen, run


@contextmanager
def running(app: Any) -> Iterator[str]:
    """The application on a free port of this machine; its URL."""
    listening = listen("127.0.0.1", 0)
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(run(app, listening, stop))
        loop.close()

    thread = threading.Thread(target=serve, name="http-server")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        listening.close()


def services(**providers: IKnowledgeProvider | Mapping[str, bytes]) -> dict[str, KnowledgeService]:
    """Services over providers, or over documents in memory."""
    return {
        name: KnowledgeService(MemoryProvider(given) if isinstance(given, Mapping) else given)
        for name, given in providers.items()
    }


class Switch:
    """Many applications on one server, each below a path of its own: starting a server for each would take long."""

    def __init__(self) -> None:
        self._apps: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._stack = ExitStack()
        self._url = ""

    @contextmanager
    def serving(self, app: Any) -> Iterator[str]:
        """The application; its URL."""
        if not self._url:
            self._url = self._stack.enter_context(running(self))
        prefix = f"/app-{next(self._numbers)}"
        self._apps[prefix] = app
        yield f"{self._url}{prefix}"
        del self._apps[prefix]

    def close(self) -> None:
        """Ends the server."""
        self._stack.close()
        self._url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """An ASGI application."""
        if scope["type"] == "lifespan":
            for what in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{what}.complete"})
            return
        prefix = f"/{scope['path'].split('/')[1]}"
        await self._apps[prefix]({**scope, "root_path": prefix}, receive, send)


@contextmanager
def served(
    providers: Mapping[str, IKnowledgeProvider | Mapping[str, bytes]] | IKnowledgeProvider | Mapping[str, Any],
    settings: HttpSettings | None = None,
) -> Iterator[str]:
    """A server over providers by name, or over one."""
    given = {"docs": providers} if isinstance(providers, IKnowledgeProvider) else dict(providers)
    with running(create_app(services(**given), settings or HttpSettings(quiet=True), environ={})) as url:
        yield url
