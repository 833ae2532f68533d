"""`knowledge serve mcp`: the protocol on standard input and output.

Nothing here needs a thread of its own: descriptors are read and written when they are ready, so that a signal ends the
process whatever the host does or does not do.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from knowledge_engine.agent_tools.plain import plain
from knowledge_engine.extensions import collect_extensions
from knowledge_engine.lanes import run_apart
from knowledge_engine.logs import log_json
from knowledge_engine.models import Query
from knowledge_engine.service import KnowledgeService
from knowledge_mcp.pipes import Pipes, claimed_pipes
from knowledge_mcp.schemas import NAMES
from knowledge_mcp.server import create_server
from knowledge_mcp.settings import McpSettings
from knowledge_mcp.views import HostAccess, Views

#: Bytes of one message.
MAX_MESSAGE_BYTES = 16_000_000
_READ_BYTES = 1 << 16
#: POSIX: where a pipe is ready, so many bytes go into it at once.
_WRITE_BYTES = 4096
_log = logging.getLogger("knowledge_mcp")


def serve(
    services: Mapping[str, KnowledgeService],
    settings: McpSettings,
    environ: Mapping[str, str],
    pipes: Pipes | None = None,
) -> None:
    """Serves until standard input ends, or SIGINT or SIGTERM comes; logs lines of JSON on standard error.

    Args:
        environ: What extensions may read.
        pipes: Standard input and output, where the caller keeps them for the protocol already.
    """
    log_json("knowledge_mcp", "knowledge_engine")
    with ExitStack() as stack:
        if pipes is None:
            pipes = stack.enter_context(claimed_pipes())
        extensions = collect_extensions(services, environ=environ, reserved=NAMES)
        for problem in extensions.problems:
            _log.error("an extension is left out", extra={"problem": problem.problem, "mend": problem.mend})
        for name, service in services.items():
            # So that the first question need not wait for an index.
            run_apart(f"{name}-warming", partial(service.provider.query, Query(query="begin", top_k=1)))
        access = HostAccess(write=settings.allow_write)
        views = Views(services, timeout_s=settings.timeout_s)
        stack.callback(views.close)
        server = create_server(views, settings, lambda _: access, extensions.agent_tools)
        asyncio.run(_serve_until_told(server, pipes, settings.timeout_s))


async def _serve_until_told(server: Server[Any], pipes: Pipes, drain_s: float) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Signals come to the main thread only.
        with suppress(ValueError, RuntimeError):
            loop.add_signal_handler(number, stop.set)
    _log.info("serving")
    async with anyio.create_task_group() as tasks:

        async def until_told() -> None:
            await stop.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(until_told)
        await StdioSession(server, pipes, drain_s).run()
        tasks.cancel_scope.cancel()
    _log.info("stopped")


class StdioSession:
    """One host, from its first message until it closes its end.

    Args:
        drain_s: How long answers may take that are still due when the host has said its last: a host that was piped in
            reads on.
    """

    def __init__(self, server: Server[Any], pipes: Pipes, drain_s: float) -> None:
        self._server, self._pipes, self._drain_s = server, pipes, drain_s
        self._due: set[str] = set()
        self._answered = asyncio.Event()

    async def run(self) -> None:
        """Returns when the host has gone."""
        incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        async with outgoing, anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, incoming)
            tasks.start_soon(self._write, outgoing, tasks.cancel_scope.cancel)
            await self._server.run(received, sent, self._server.create_initialization_options())
            tasks.cancel_scope.cancel()

    async def _read(self, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        async with incoming:
            async for line in _lines(self._pipes.reader):
                if line is None:
                    problem = f"A message has at most {MAX_MESSAGE_BYTES} bytes"
                    await self._put(_refusal(INVALID_REQUEST, problem).answer)
                elif line.strip():
                    message = parsed(line)
                    if isinstance(message, Refusal):
                        await self._put(message.answer)
                    else:
                        self._note(message)
                        await incoming.send(SessionMessage(message))
            with anyio.move_on_after(self._drain_s):
                while self._due:
                    self._answered.clear()
                    await self._answered.wait()

    async def _write(self, outgoing: MemoryObjectReceiveStream[SessionMessage], gone: Callable[[], None]) -> None:
        try:
            async for each in outgoing:
                await self._put(each.message)
                if isinstance(each.message, JSONRPCResponse | JSONRPCError):
                    self._settle(each.message.id)
        except OSError:  # nobody reads any more
            gone()

    async def _put(self, message: JSONRPCMessage) -> None:
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        await _write_all(self._pipes.writer, data + b"\n")

    def _note(self, message: JSONRPCMessage) -> None:
        """Notes what is to be answered. A call that is cancelled is not."""
        if isinstance(message, JSONRPCRequest):
            self._due.add(str(message.id))
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))

    def _settle(self, request_id: object) -> None:
        self._due.discard(str(request_id))
        self._answered.set()


class Refusal(NamedTuple):
    """What to answer to something that is no message."""

    answer: JSONRPCError


def parsed(line: bytes) -> JSONRPCMessage | Refusal:
    """A message. Text that UTF-8 cannot hold is replaced: a model may send half a character, and is answered all the
    same.
    """
    with suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    try:
        value = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return _refusal(PARSE_ERROR, "That is not JSON")
    with suppress(ValueError):
        return jsonrpc_message_adapter.validate_python(plain(value), by_name=False)
    request_id = value.get("id") if isinstance(value, dict) else None
    is_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return _refusal(INVALID_REQUEST, "That is no message of JSON-RPC 2.0", plain(request_id) if is_id else None)


def _refusal(code: int, message: str, request_id: Any = None) -> Refusal:
    return Refusal(JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message)))


async def _lines(descriptor: int) -> AsyncIterator[bytes | None]:
    """Lines without their ends; None for one that is too long."""
    pending: list[bytes] = []
    size, too_long = 0, False
    while chunk := await _read_some(descriptor):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            is_too_long = too_long or size + len(part) > MAX_MESSAGE_BYTES
            yield None if is_too_long else b"".join([*pending, part])
            pending, size, too_long = [], 0, False
        size += len(rest)
        if size > MAX_MESSAGE_BYTES:
            pending, too_long = [], True
        elif rest:
            pending.append(rest)
    if size and not too_long:
        yield b"".join(pending)


async def _read_some(descriptor: int) -> bytes:
    """What there is; empty at the end."""
    await _ready(descriptor, select.POLLIN)
    with suppress(OSError):  # the terminal behind it has gone
        return os.read(descriptor, _READ_BYTES)
    return b""


async def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        await _ready(descriptor, select.POLLOUT)
        left = left[os.write(descriptor, left[:_WRITE_BYTES]) :]


async def _ready(descriptor: int, event: int) -> None:
    """Returns when the descriptor can be read or written; at once for a file on disk, which always can."""
    poll = select.poll()
    poll.register(descriptor, event)
    if poll.poll(0):
        return
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    add, remove = (
        (loop.add_reader, loop.remove_reader) if event == select.POLLIN else (loop.add_writer, loop.remove_writer)
    )
    add(descriptor, tell)
    try:
        await ready
    finally:
        remove(descriptor)
