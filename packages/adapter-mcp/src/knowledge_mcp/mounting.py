"""The server as an ASGI application: streamable HTTP, below `/mcp` of the HTTP server, which knows who asks."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response

from knowledge_engine.extensions import collect_extensions
from knowledge_engine.service import KnowledgeService
from knowledge_mcp.schemas import NAMES
from knowledge_mcp.server import Context, create_server
from knowledge_mcp.settings import McpSettings
from knowledge_mcp.views import Access, Views

#: Where the HTTP server says what a caller may do, see `knowledge_engine.hookspecs.knowledge_mounts`.
GRANT = "knowledge.grant"
MAX_BODY_BYTES = 16_000_000

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class McpApp:
    """Answers each request by itself: nothing is remembered of a client, so any number of them may come and go."""

    def __init__(
        self, services: Mapping[str, KnowledgeService], settings: McpSettings, tools: Mapping[str, Any]
    ) -> None:
        self._views = Views(services, timeout_s=settings.timeout_s)
        server = create_server(self._views, settings, _access_of, tools)
        # Who asks, and for which host, was checked before.
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
        )
        self._running = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
        elif scope["method"] != "POST":
            # There is nothing that a server would say unasked, and no session to end.
            await Response(status_code=405, headers={"allow": "POST"})(scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._manager.run():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        self._views.close()
        await send({"type": "lifespan.shutdown.complete"})


def create_app(
    services: Mapping[str, KnowledgeService],
    settings: McpSettings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> McpApp:
    """An ASGI application, to be mounted by a host that puts an `Access` into `scope["knowledge.grant"]`.

    Args:
        services: By the names of their backends. Not disposed of.
        environ: What extensions may read; by default the process's environment.
    """
    variables = os.environ if environ is None else environ
    extensions = collect_extensions(services, environ=variables, reserved=NAMES)
    return McpApp(services, settings or McpSettings.from_env(variables), extensions.agent_tools)


def _access_of(ctx: Context) -> Access:
    assert ctx.request is not None, "it came over HTTP"
    access: Access = ctx.request.scope[GRANT]
    return access
