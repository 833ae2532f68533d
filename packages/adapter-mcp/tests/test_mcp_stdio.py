"""`knowledge serve mcp` as a process of its own, as hosts start it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_engine.service import KnowledgeService

LIBRARY = Path(__file__).parents[3] / "examples" / "library"
KNOWLEDGE = str(Path(sys.executable).with_name("knowledge"))
INITIALIZE = {
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
#: A backend that prints wherever it can, also as C code and programs that it starts would.
NOISY = """
import os, subprocess, sys
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.service import KnowledgeService
from knowledge_mcp import McpSettings
from knowledge_mcp.stdio import serve

class Noisy(MemoryProvider):
    def query(self, query):
        print("noise")
        sys.stdout.flush()
        os.write(1, b"noise\\n")
        subprocess.run(["echo", "noise"], check=True)
        assert sys.stdin.read() == "", "the host's words are not for a backend"
        print("noise that nobody flushes")
        if query.query == "hang":
            import threading
            threading.Event().wait()
        return super().query(query)

serve({"docs": KnowledgeService(Noisy({"a.md": b"# A\\n\\npump"}))}, McpSettings(timeout_s=SECONDS), {})
print('"after"')
"""


class Host:
    """Speaks the protocol, a line at a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, **message: Any) -> None:
        self.send_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def begin(self) -> None:
        self.send(id=0, **INITIALIZE)
        assert self.read()["result"]["protocolVersion"] == "2025-11-25"
        self.send(method="notifications/initialized")

    def call(self, number: object, tool: str, arguments: Mapping[str, Any]) -> None:
        self.send(id=number, method="tools/call", params={"name": tool, "arguments": dict(arguments)})

    def rest(self) -> tuple[list[Any], int]:
        """Ends the conversation; what else is said, and how the process ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        lines = [json.loads(line) for line in self.process.stdout.read().splitlines()]
        return lines, self.process.wait(30)


@contextmanager
def host(*command: str) -> Iterator[Host]:
    process = subprocess.Popen(
        command or (KNOWLEDGE, "serve", "mcp", "--backend", f"files:{LIBRARY}"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Host(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def noisy(seconds: float = 30) -> tuple[str, ...]:
    return (sys.executable, "-c", NOISY.replace("SECONDS", str(seconds)))


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")])
def test_the_client_of_the_sdk_is_answered_as_the_python_tools_answer(mode: Any, version: str) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("list", {"query": "modbus"}),
        ("get", {"doc_id": "protocol.modbus"}),
        ("get", {"doc_id": "no such thing"}),
        ("query", {"query": "register byte order", "top_k": 3}),
        ("query", {"query": "x", "top_k": "many"}),
    ]
    with resolve_knowledge_backend(f"files:{LIBRARY}", environ={}) as handle:
        tools = AgentTools(KnowledgeService(handle.provider()))
        expected = [tools.call(name, arguments) for name, arguments in asked]

    async def run() -> list[Any]:
        command = StdioServerParameters(command=KNOWLEDGE, args=["serve", "mcp", "--backend", f"files:{LIBRARY}"])
        async with Client(command, mode=mode) as client:
            assert client.protocol_version == version
            return [(await client.call_tool(name, arguments)).structured_content for name, arguments in asked]

    answers = asyncio.run(run())
    for answer, wanted in zip(answers, expected, strict=True):
        assert answer == wanted


def test_whatever_a_backend_prints_only_the_protocol_is_on_standard_output() -> None:
    with host(*noisy()) as talk:
        talk.begin()
        for number in (1, 2):
            talk.call(number, "query", {"query": "pump"})
            assert talk.read()["result"]["structuredContent"]["count"] == 1
        talk.process.stdin.close()  # type: ignore[union-attr]
        assert talk.process.stdout.read() == b'"after"\n'  # type: ignore[union-attr]
        assert talk.process.wait(30) == 0


def test_a_host_that_has_said_its_last_still_gets_its_answers() -> None:
    with host() as talk:
        talk.begin()
        for number in range(1, 6):
            talk.call(number, "query", {"query": "modbus"})
        lines, code = talk.rest()
    assert sorted(line["id"] for line in lines) == [1, 2, 3, 4, 5]
    assert all(line["result"]["structuredContent"]["count"] for line in lines)
    assert code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("asked", ["pump", "hang"])
def test_a_signal_ends_it_at_once_whatever_the_backend_does(number: int, asked: str) -> None:
    with host(*noisy(600)) as talk:
        talk.begin()
        talk.call(1, "query", {"query": asked})
        talk.send(id=2, method="ping")
        answers = [talk.read() for _ in range(1 if asked == "hang" else 2)]
        assert {"jsonrpc": "2.0", "id": 2, "result": {}} in answers
        talk.process.send_signal(number)
        assert talk.process.wait(30) == 0


def test_a_backend_that_hangs_stops_neither_pings_nor_the_end() -> None:
    with host(*noisy(0.3)) as talk:
        talk.begin()
        talk.call(1, "query", {"query": "hang"})
        talk.send(id=2, method="ping")
        assert talk.read() == {"jsonrpc": "2.0", "id": 2, "result": {}}
        answer = talk.read()
        assert answer["result"]["isError"] is True
        assert answer["result"]["structuredContent"]["code"] == "unavailable"
        assert talk.process.stdin is not None
        talk.process.stdin.close()
        assert talk.process.wait(30) == 0


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"no JSON", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b'{"id": 7, "method": 3}', -32600, 7),
        (b'{"id": true}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 8, "method": "no/such"}', -32601, 8),
        (b'{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {}}', -32602, 9),
        (b"x" * 16_000_001, -32600, None),
    ],
    ids=range(9),
)
def test_what_is_no_message_is_answered_and_the_next_one_is_heard(line: bytes, code: int, number: int | None) -> None:
    with host(*noisy()) as talk:
        talk.begin()
        talk.send_bytes(b"\n \r\n" + line + b"\n")
        refused = talk.read()
        assert (refused["error"]["code"], refused["id"]) == (code, number)
        talk.call("next", "list", {})
        assert talk.read()["id"] == "next"


def test_half_a_character_and_nul_are_taken_as_text() -> None:
    with host(*noisy()) as talk:
        talk.begin()
        for number, text in enumerate((b"pump \\ud800", b"pump \\u0000", b"pump \xff", "pump \U0010ffff".encode())):
            talk.send_bytes(
                b'{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "query", "arguments": '
                b'{"query": "%b"}}}\n' % (number, text)
            )
            answer = talk.read()
            assert answer["id"] == number
            assert answer["result"]["structuredContent"]["count"] == 1


def test_a_message_without_its_last_newline_and_one_in_pieces_are_heard() -> None:
    with host(*noisy()) as talk:
        message = json.dumps({"jsonrpc": "2.0", "id": 0, **INITIALIZE}).encode()
        talk.send_bytes(message[:20])
        talk.send_bytes(message[20:] + b'\n{"jsonrpc":"2.0","id":1,"method":"ping"}')
        lines, code = talk.rest()
    assert [line["id"] for line in lines[:-1]] == [0, 1]
    assert (lines[-1], code) == ("after", 0)
