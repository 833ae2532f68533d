"""Connections: bounded in number, in what stands before a body, and in how long they may keep one waiting."""

from __future__ import annotations

import asyncio
import json
import time
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from knowledge_http.errors import STATUS

#: Bytes of a request's first line and headers together.
MAX_HEADER_BYTES = 65_536
MAX_HEADERS = 200
#: How long these may take to come, and how long an answer may find nobody who takes it.
HEADER_TIMEOUT_S = 20.0
STALLED_S = 60.0
#: How often it is looked for connections that take longer.
SWEEP_S = 1.0
#: How long the rest of a body may come after its request was answered.
LEFTOVER_S = 120.0


class Connections:
    """All that are open. Where there are too many, that which has waited longest for its request goes.

    Args:
        most: At most so many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[LimitedProtocol, None] = {}

    def add(self, connection: LimitedProtocol) -> None:
        """A new one."""
        self._open[connection] = None
        if len(self._open) > self._most:
            waiting = next((each for each in self._open if each.is_waiting), connection)
            waiting.drop()

    def remove(self, connection: LimitedProtocol) -> None:
        """It is closed."""
        self._open.pop(connection, None)

    def touch(self, connection: LimitedProtocol) -> None:
        """It has brought a request: it goes to the end of the queue."""
        if connection in self._open:
            self._open[connection] = self._open.pop(connection)

    def sweep(self, now: float) -> None:
        """Closes those that take too long."""
        for each in [*self._open]:
            if each.is_late(now):
                each.drop()

    async def keep_swept(self) -> None:
        """Looks for them until it is cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep(time.monotonic())


class LimitedProtocol(HttpToolsProtocol):
    """A connection of uvicorn's that holds its sender to limits."""

    pool = Connections(1_000_000)

    def connection_made(self, transport: Any) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        #: Since when headers are awaited; None while there is a body, or nothing, to wait for.
        self._head_since: float | None = time.monotonic()
        self._body_since: float | None = None
        self._stalled_since: float | None = None
        self._unparsed = self._head_bytes = self._head_count = 0
        self._head_over = False
        self.pool.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.pool.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._body_since is None and self._head_since is None:
            self._head_since = time.monotonic()
        self._unparsed += len(data)
        super().data_received(data)
        # The parser keeps a header to itself until it has all of it.
        if self._head_since is not None and self._unparsed > MAX_HEADER_BYTES and not self.transport.is_closing():
            self._head_over = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """See httptools."""
        super().on_message_begin()
        self._head_bytes = self._head_count = 0

    def on_url(self, url: bytes) -> None:
        """See httptools."""
        super().on_url(url)
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        super().on_header(name, value)
        self._count_head(len(name) + len(value))

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._head_since, self._body_since = None, time.monotonic()
        self._unparsed = 0
        self.pool.touch(self)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See httptools."""
        self._body_since = None
        self._unparsed = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - what uvicorn says
        """See uvicorn: for what is no request. Here it has the form of all errors."""
        if self._head_over:
            code, said, mend = "headers-too-large", "The headers are too long", "Send fewer or shorter headers."
        else:
            code, said, mend = "invalid-argument", "That is no HTTP request", "Send HTTP/1.1."
        status = STATUS[code]
        body = json.dumps({"error": {"code": code, "message": f"{said}. {mend}", "mend": mend, "id": ""}}).encode()
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._stalled_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._stalled_since = None
        super().resume_writing()

    @property
    def is_waiting(self) -> bool:
        """Whether no request is under way."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def is_late(self, now: float) -> bool:
        """Whether it keeps one waiting for too long."""
        limits = [(self._stalled_since, STALLED_S), (self._head_since, HEADER_TIMEOUT_S)]
        if self.is_waiting:
            limits.append((self._body_since, LEFTOVER_S))
        return any(since is not None and now - since > most for since, most in limits)

    def drop(self) -> None:
        """Ends it at once."""
        self.transport.abort()

    def _count_head(self, more: int) -> None:
        self._head_bytes += more
        self._head_count += 1
        if self._head_bytes > MAX_HEADER_BYTES or self._head_count > MAX_HEADERS:
            self._head_over = True
            raise ValueError("too much before the body")  # ends the parser, which has it answered
