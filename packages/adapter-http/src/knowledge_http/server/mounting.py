"""Applications of extensions: each behind its scope, with its lifespan, none able to harm another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from starlette.routing import Match

from knowledge_engine.errors import wire_error
from knowledge_engine.extensions import Mount
from knowledge_http.server.backends import check_scope
from knowledge_http.server.calls import GRANT, Receive, Scope
from knowledge_http.server.rendering import Send
from knowledge_http.server.routing import ROUTE, NamelessRoute

_log = logging.getLogger("knowledge_http")


class Mounted(NamedTuple):
    """An application and where it is."""

    prefix: str
    app: Any


class Scoped:
    """An application that is seen only by callers who may do what its scope says."""

    def __init__(self, app: Any, prefix: str, scope: str) -> None:
        self._app, self._prefix, self._scope = app, prefix, scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        scope[ROUTE] = self._prefix
        if scope["type"] == "websocket":
            if not scope[GRANT].allows_somewhere(self._scope):
                await send({"type": "websocket.close", "code": 1008})
                return
        else:
            check_scope(scope[GRANT], self._scope)
        await self._app(scope, receive, send)


class MountedRoute(NamelessRoute):
    """Leads to an application at its prefix and below. Without a detour from `/prefix` to `/prefix/`, on which a client
    may lose what it sent.
    """

    def __init__(self, mounted: Mounted) -> None:
        self._prefix, self._app = mounted

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """See `BaseRoute`."""
        path, root = scope["path"], scope.get("root_path", "")
        below = path.removeprefix(root)
        if scope["type"] not in ("http", "websocket") or not f"{below}/".startswith(f"{self._prefix}/"):
            return Match.NONE, {}
        changed = {"root_path": root + self._prefix, "app_root_path": scope.get("app_root_path", root)}
        if below == self._prefix:
            changed["path"] = f"{path}/"
        return Match.FULL, changed

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `BaseRoute`."""
        await self._app(scope, receive, send)


def make_mounted(mounts: Mapping[str, Mount]) -> list[Mounted]:
    """Makes the applications. One that cannot be made is told in the log, and left out."""
    made: list[Mounted] = []
    for prefix, mount in mounts.items():
        try:
            made.append(Mounted(prefix, Scoped(mount.app(), prefix, mount.scope)))
        except Exception as error:  # an extension's own code
            _log.error("not mounted", extra={"prefix": prefix, "problem": wire_error(error)["message"]})
    return made


@asynccontextmanager
async def lifespans(mounted: Iterable[Mounted]) -> AsyncIterator[None]:
    """The applications' own beginning and end."""
    running = [_Lifespan(each) for each in mounted]
    for each in running:
        await each.start()
    try:
        yield
    finally:
        for each in reversed(running):
            await each.stop()


class _Lifespan:
    """The lifespan protocol with one application, in a task of its own."""

    def __init__(self, mounted: Mounted) -> None:
        self._mounted = mounted
        self._to_app: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._from_app: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        if await self._ask("startup") == "lifespan.startup.failed":
            _log.error("an extension failed to start", extra={"prefix": self._mounted.prefix})

    async def stop(self) -> None:
        await self._ask("shutdown")
        assert self._task is not None, "it was started"
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _ask(self, what: str) -> str:
        """Its answer; empty where it has ended, or knows nothing of lifespans."""
        assert self._task is not None, "it was started"
        if self._task.done():
            return ""
        self._to_app.put_nowait({"type": f"lifespan.{what}"})
        answer = asyncio.ensure_future(self._from_app.get())
        await asyncio.wait({answer, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        return ""

    async def _run(self) -> None:
        async def send(message: Mapping[str, Any]) -> None:
            self._from_app.put_nowait(message["type"])

        with suppress(Exception):  # who knows nothing of lifespans raises
            # Not the scoped application: nobody asks for it.
            inner = self._mounted.app._app if isinstance(self._mounted.app, Scoped) else self._mounted.app
            await inner({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self._to_app.get, send)
