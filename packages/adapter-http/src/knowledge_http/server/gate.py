"""What every request passes before and behind the application: who asks, what is said of it, what is logged."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Collection
from typing import Any

from knowledge_engine.errors import KnowledgeError
from knowledge_http.errors import PathNotFoundError
from knowledge_http.grants import Grant
from knowledge_http.server.access import Hosts, Tokens
from knowledge_http.server.api import Api
from knowledge_http.server.calls import GRANT, ClientGoneError, Receive, Scope
from knowledge_http.server.rendering import Answer, Send, error_answer, send_answer
from knowledge_http.server.routing import ROUTE, raw_path

_access = logging.getLogger("knowledge_http.access")
_CLIENT_GONE = 499
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NO_STORE = (b"cache-control", b"private, no-cache")
_EXPOSED = b"ETag, Content-Range, Knowledge-Source-Id, Knowledge-Span, Retry-After, X-Request-Id"
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, if-match, if-none-match, if-range, range, mcp-session-id, mcp-protocol-version",
    ),
    (b"access-control-max-age", b"600"),
)
_NOBODY = Grant(None)


class Gate:
    """Checks who asks, and renders whatever goes wrong behind it.

    Args:
        app: What is behind; finds the caller's `Grant` in its scope.
        public: Paths that are answered to everyone; one that ends in `/` with all below it.
    """

    def __init__(self, app: Any, *, api: Api, tokens: Tokens, hosts: Hosts, public: Collection[str]) -> None:
        self._app = app
        self._api = api
        self._tokens, self._hosts = tokens, hosts
        self._public = frozenset(path.encode() for path in public)
        self._public_below = tuple(path.encode() for path in public if path.endswith("/") and len(path) > 1)
        self._quiet = api.settings.quiet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen = _Seen(scope, send)
        self._api.metrics.begun()
        try:
            answer = await self._passed(scope, receive, seen)
            if answer is not None:
                await send_answer(answer, seen.send, head=scope["method"] == "HEAD")
        except ClientGoneError:
            seen.status = _CLIENT_GONE
        except Exception as error:  # the last handler
            if seen.status:
                raise  # half an answer is out: the connection must break
            await send_answer(error_answer(error), seen.send, head=scope["method"] == "HEAD")
        finally:
            seconds = time.perf_counter() - seen.began
            self._api.metrics.ended(scope["method"], scope.get(ROUTE, "other"), seen.status, seconds)
            if not self._quiet:
                self._log(scope, seen, seconds)

    async def _passed(self, scope: Scope, receive: Receive, seen: _Seen) -> Answer | None:
        """Lets it through; an answer where that is not needed."""
        headers = scope["headers"]
        seen.site = self._hosts.check(headers)
        if seen.site and scope["method"] == "OPTIONS" and _has(headers, b"access-control-request-method"):
            return Answer(204, headers=_PREFLIGHT)
        path = raw_path(scope)
        is_public = path in self._public or path.startswith(self._public_below)
        scope[GRANT] = _NOBODY if is_public else self._tokens.grant(headers)
        await self._app(scope, receive, seen.send)
        return None

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._hosts.check(scope["headers"])
            scope[GRANT] = self._tokens.grant(scope["headers"])
        except KnowledgeError:
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)

    def _log(self, scope: Scope, seen: _Seen, seconds: float) -> None:
        client = scope.get("client")
        _access.info(
            "request",
            extra={
                "method": scope["method"][:20],
                # Without what follows `?`: questions are their askers' own.
                "path": raw_path(scope)[:300].decode("latin-1"),
                "status": seen.status,
                "bytes": seen.bytes,
                "ms": round(seconds * 1000, 1),
                "client": client[0] if client else "",
                "request": seen.id,
            },
        )


class _Seen:
    """What goes back for one request, with the headers that all answers have."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self._scope = scope
        self.began = time.perf_counter()
        self.id = secrets.token_hex(6)
        self.status = 0
        self.bytes = 0
        #: The other site that may read the answer.
        self.site: str | None = None

    async def send(self, message: Any) -> None:
        """As of ASGI."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            names = {name.lower() for name, _ in message["headers"]}
            headers = [*message["headers"], *(each for each in _ALWAYS if each[0] not in names)]
            headers.append((b"x-request-id", self.id.encode()))
            if b"cache-control" not in names:
                headers.append(_NO_STORE)
            if self.site is not None:
                headers += [
                    (b"access-control-allow-origin", self.site.encode("latin-1")),
                    (b"access-control-expose-headers", _EXPOSED),
                    (b"vary", b"origin"),
                ]
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)


def _has(headers: list[tuple[bytes, bytes]], wanted: bytes) -> bool:
    return any(name == wanted for name, _ in headers)


async def nothing_there(scope: Scope, _receive: Receive, _send: Send) -> None:
    """Where no route leads."""
    raise PathNotFoundError(
        f"Nothing is served at {scope['path'][:200]!r}", mend="See /openapi.json for what there is."
    )
