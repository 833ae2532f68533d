"""Clients of the SDK, to a server in this process or in one of its own, at both versions of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from knowledge_engine.memory import MemoryProvider
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.service import KnowledgeService
from knowledge_mcp.server import create_server
from knowledge_mcp.settings import McpSettings
from knowledge_mcp.views import HostAccess

#: What `mode` of the SDK's client speaks which version.
MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}
ROOT = Path(__file__).resolve().parents[5]
KNOWLEDGE = str(Path(sys.executable).with_name("knowledge"))

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def services(**given: IKnowledgeProvider | Mapping[str, bytes]) -> dict[str, KnowledgeService]:
    """Services over providers, or over documents in memory."""
    return {
        name: KnowledgeService(MemoryProvider(each) if isinstance(each, Mapping) else each)
        for name, each in given.items()
    }


@asynccontextmanager
async def inside(
    given: Mapping[str, KnowledgeService], mode: str = "auto", extensions: Any = None, **settings: Any
) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    made = McpSettings(**settings)
    access = HostAccess(write=made.allow_write)
    server = create_server(given, made, lambda _: access, extensions)
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == MODES[mode]
        yield client


def parameters(*args: str, **environ: str) -> StdioServerParameters:
    """How a host starts the server."""
    return StdioServerParameters(command=KNOWLEDGE, args=["serve", "mcp", *args], env={**os.environ, **environ})


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Runs a test's coroutine, for a minute at most."""

    async def limited() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(limited())


def call(number: object, tool: str, **arguments: Any) -> dict[str, Any]:
    """A request of the protocol of 2025-11-25."""
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


class Process:
    """The command, spoken to by hand."""

    def __init__(self, *args: str, initialize: bool = True, **environ: str) -> None:
        self.popen = subprocess.Popen(
            [KNOWLEDGE, "serve", "mcp", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environ},
        )
        if initialize:
            self.send(INITIALIZE, INITIALIZED)
            self.receive()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.terminate()
        try:
            self.popen.communicate(timeout=30)
        finally:
            self.popen.kill()

    def send(self, *messages: Mapping[str, Any] | bytes) -> None:
        """Messages, or lines as they are."""
        assert self.popen.stdin is not None
        for each in messages:
            self.popen.stdin.write(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n")
        self.popen.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next message; anything else on standard output fails here."""
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def end(self) -> tuple[int, bytes, bytes]:
        """Closes its input; the exit code, and what was left to read."""
        out, errors = self.popen.communicate(timeout=60)
        return self.popen.returncode, out, errors


def answers(out: bytes) -> Sequence[dict[str, Any]]:
    """All messages of an output."""
    return [json.loads(line) for line in out.splitlines()]
