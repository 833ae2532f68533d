"""The command as hosts start it: a process of its own, spoken to by the SDK's client and by hand."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp_types import JSONRPCRequest

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.bootstrap import open_knowledge
from knowledge_mcp import stdio
from knowledge_mcp.pipes import Pipes
from knowledge_mcp.settings import McpSettings
from mcp_bench import noisy
from mcp_bench.serving import (
    INITIALIZE,
    INITIALIZED,
    KNOWLEDGE,
    MODES,
    ROOT,
    Process,
    answers,
    call,
    parameters,
    run,
    services,
)

LIBRARY = f"files:{ROOT / 'examples/library'}"


@pytest.mark.parametrize("mode", MODES)
def test_a_host_gets_the_answers_of_the_tools_in_python(mode: str) -> None:
    tools = AgentTools(open_knowledge(LIBRARY))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list", {"kind": "device"}),
        ("get", {"doc_id": "protocol.modbus"}),
        ("query", {"query": "modbus byte order"}),
        ("query", {"query": "字节序"}),
    ]

    async def main() -> None:
        async with Client(parameters("--backend", LIBRARY), mode=mode) as client:
            assert client.protocol_version == MODES[mode]
            for name, arguments in calls:
                result = await client.call_tool(name, arguments)
                assert result.structured_content == tools.call(name, arguments)
                for link in result.content[1:]:
                    assert (await client.read_resource(link.uri)).contents  # type: ignore[union-attr]

    run(main)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_but_the_protocol_is_on_standard_output(mode: str, tmp_path: Path) -> None:
    environ = noisy.install(tmp_path)

    async def main() -> None:
        async with Client(parameters("--backend", "noisy", **environ), mode=mode) as client:
            result = await client.call_tool("query", {"query": "water"})
            assert result.structured_content["count"] == 1

    run(main)


def test_what_a_backend_prints_goes_to_standard_error_and_what_it_reads_is_empty(tmp_path: Path) -> None:
    with Process("--backend", "noisy", **noisy.install(tmp_path)) as process:
        process.send(call(1, "query", query="water"))
        assert process.receive()["result"]["structuredContent"]["count"] == 1
        code, out, errors = process.end()
    assert (code, out) == (0, b"")
    text = errors.decode()
    for where in ("import", "open", "query", "dispose"):
        assert f"NOISE printed in {where}" in text
    assert text.count("NOISE of a child ''") == 4
    assert "NOISE from C" in text


def test_while_a_backend_hangs_the_protocol_goes_on_and_calls_can_be_given_up(tmp_path: Path) -> None:
    with Process("--backend", "noisy", **noisy.install(tmp_path)) as process:
        process.send(call(1, "query", query="hang"))
        process.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert process.receive()["id"] == 2
        process.send(call(3, "query", query="water"))
        assert process.receive()["id"] == 3
        process.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        process.send({"jsonrpc": "2.0", "id": 4, "method": "ping"})
        assert process.receive()["id"] == 4
        # It is not waited for at the end, as nobody waits for its answer any more.
        code, out, _ = process.end()
    assert (code, out) == (0, b"")


def test_a_call_that_takes_too_long_is_an_answer(tmp_path: Path) -> None:
    with Process("--backend", "noisy", "--timeout-s", "0.5", **noisy.install(tmp_path)) as process:
        process.send(call(1, "query", query="hang"))
        result = process.receive()["result"]
        assert result["isError"] is True
        assert result["structuredContent"]["code"] == "unavailable"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_ends_it_cleanly_whatever_it_does(number: int, busy: bool, tmp_path: Path) -> None:
    with Process("--backend", "noisy", **noisy.install(tmp_path)) as process:
        if busy:
            process.send(call(1, "query", query="hang"), {"jsonrpc": "2.0", "id": 2, "method": "ping"})
            process.receive()
        process.popen.send_signal(number)
        assert process.popen.wait(30) == 0
        assert process.popen.stdout is not None
        assert process.popen.stdout.read() == b""
        assert process.popen.stderr is not None
        assert b'"stopped"' in process.popen.stderr.read()


def test_what_was_asked_before_the_end_of_the_input_is_answered() -> None:
    lines = [INITIALIZE, INITIALIZED, *(call(number, "query", query=f"modbus {number}") for number in range(1, 9))]
    text = "\n".join(map(json.dumps, lines))  # the last line has no end
    done = subprocess.run(
        [KNOWLEDGE, "serve", "mcp", "--backend", LIBRARY], input=text.encode(), capture_output=True, check=True
    )
    assert sorted(each["id"] for each in answers(done.stdout)) == list(range(9))


def test_input_and_output_may_be_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("\n".join(map(json.dumps, [INITIALIZE, INITIALIZED, call(1, "status")])))
    with (tmp_path / "in").open("rb") as given_in, (tmp_path / "out").open("wb") as out:
        command = [KNOWLEDGE, "serve", "mcp", "--backend", LIBRARY]
        subprocess.run(command, stdin=given_in, stdout=out, stderr=subprocess.DEVNULL, check=True)
    assert [each["id"] for each in answers((tmp_path / "out").read_bytes())] == [0, 1]


def test_a_host_that_goes_away_without_a_word_ends_it() -> None:
    with Process("--backend", LIBRARY) as process:
        assert process.popen.stdout is not None
        process.popen.stdout.close()
        process.send(call(1, "list"))
        assert process.popen.wait(30) == 0


HOSTILE = [
    (b"\n \n", None, None),
    (b"{bad\n", None, -32700),
    (b"\xff\xfe{\n", None, -32700),
    (b"[" * 100_000 + b"\n", None, -32700),
    (b"[]\n", None, -32600),
    (b"3\n", None, -32600),
    (b'{"id": 7}\n', 7, -32600),
    (b'{"id": "\\ud800", "method": 3}\n', "\ufffd", -32600),
    (b'{"id": true, "method": 3}\n', None, -32600),
    (b'{"jsonrpc":"2.0","id":9,"method":"no/such"}\n', 9, -32601),
    (b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":[1]}\n', 9, -32600),
    (b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":5}}\n', 9, -32602),
]


def test_whatever_comes_in_is_answered_with_a_reason_and_the_next_call_too() -> None:
    with Process("--backend", LIBRARY) as process:
        for data, number, code in HOSTILE:
            process.send(data)
            if code is not None:
                answer = process.receive()
                assert (answer["id"], answer["error"]["code"]) == (number, code), data[:80]
        process.send(b" " * (stdio.MAX_MESSAGE_BYTES + 1) + b"\n")
        answer = process.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert "at most" in answer["error"]["message"]
        texts = ['"\\ud800"', '"\\u0000"', '"' + "x" * 1_000_000 + '"', "[" * 50 + "]" * 50, "1e999"]
        for index, text in enumerate(texts):
            line = json.dumps(call(index, "get", doc_id="@")).replace('"@"', text)
            process.send(line.encode() + b"\n")
            result = process.receive()
            assert result["id"] == index
            assert result["result"]["isError"] is True
            assert result["result"]["structuredContent"]["mend"]
        process.send(call("last", "query", query="modbus"))
        assert process.receive()["result"]["structuredContent"]["count"] > 0


def test_text_that_is_not_utf8_is_asked_with_what_can_be_read_of_it() -> None:
    with Process("--backend", LIBRARY) as process:
        process.send(json.dumps(call(1, "query", query="modbus @")).encode().replace(b"@", b"\xff\xc3(") + b"\n")
        assert process.receive()["result"]["structuredContent"]["count"] > 0


def test_answers_that_nobody_reads_stop_no_signal(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\n" + "word " * 3_000)
    with Process("--backend", f"files:{tmp_path}") as process:
        for number in range(40):
            process.send(call(number, "get", doc_id="a.md"))
        process.popen.send_signal(signal.SIGTERM)
        assert process.popen.wait(30) == 0


def test_an_unknown_backend_is_an_error_in_words_and_in_json() -> None:
    for args in ((), ("--json",)):
        done = subprocess.run(
            [KNOWLEDGE, "serve", "mcp", "--backend", "no-such", *args], stdin=subprocess.DEVNULL, capture_output=True
        )
        assert done.returncode == 1
        assert b"no-such" in done.stderr
        assert (b"unknown-backend" in done.stdout) is bool(args)


async def lines_of(data: bytes, sizes: list[int]) -> list[bytes | None]:
    """What is read of a pipe into which that is written in pieces."""
    reader, writer = os.pipe()

    async def write() -> None:
        left = memoryview(data)
        for size in [*sizes, len(data)]:
            if left[:size]:
                await stdio._write_all(writer, left[:size])
            left = left[size:]
            await anyio.sleep(0)
        os.close(writer)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            return [line async for line in stdio._lines(reader)]
    finally:
        os.close(reader)


@given(data=st.binary(max_size=300).map(lambda raw: raw.replace(b"\xfa", b"\n")), sizes=st.lists(st.integers(1, 40)))
def test_lines_are_the_same_in_whatever_pieces_they_come(data: bytes, sizes: list[int]) -> None:
    expected = data.split(b"\n")
    assert asyncio.run(lines_of(data, sizes)) == (expected if expected[-1] else expected[:-1])


def test_lines_that_are_too_long_are_left_out_wherever_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE_BYTES", 5)
    monkeypatch.setattr(stdio, "_READ_BYTES", 3)
    found = asyncio.run(lines_of(b"12345\n123456\n1234567890\nab\n123456", []))
    assert found == [b"12345", None, None, b"ab"]


def test_serving_from_python_claims_the_pipes_itself_and_gives_them_back() -> None:
    code = (
        "import os; from knowledge_mcp.stdio import serve; from knowledge_mcp import McpSettings; "
        "from mcp_bench.serving import services; serve(services(docs={}), McpSettings(), os.environ); print('after')"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(noisy.__file__).parents[1])}
    import sys

    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(INITIALIZE).encode(),
        capture_output=True,
        env=environ,
        check=True,
    )
    first, last = done.stdout.splitlines()
    assert json.loads(first)["id"] == 0
    assert last == b"after"


def test_serving_in_a_thread_leaves_signals_to_the_host() -> None:
    import threading

    given_in, host_out = os.pipe()
    host_in, given_out = os.pipe()
    args = (services(docs={}), McpSettings(), {}, Pipes(given_in, given_out))
    thread = threading.Thread(target=stdio.serve, args=args)
    thread.start()
    os.write(host_out, json.dumps(INITIALIZE).encode() + b"\n")
    os.close(host_out)
    thread.join(30)
    os.close(given_out)
    with os.fdopen(host_in, "rb") as out:
        assert json.loads(out.read())["id"] == 0
    os.close(given_in)


def test_a_message_that_is_whole_is_taken_as_it_is() -> None:
    message = stdio.parsed(json.dumps(call(1, "get", doc_id="a")).encode())
    assert isinstance(message, JSONRPCRequest)
    assert message.id == 1


def test_an_extension_that_breaks_is_told_in_the_log_and_costs_nothing_else(tmp_path: Path) -> None:
    info = tmp_path / "torn-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torn\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[knowledge_engine.extensions]\ntorn = no_such_module_anywhere\n")
    with Process("--backend", LIBRARY, PYTHONPATH=str(tmp_path)) as process:
        process.send(call(1, "query", query="modbus"))
        assert process.receive()["result"]["isError"] is False
        _, _, errors = process.end()
    assert b"an extension is left out" in errors
    assert b"torn" in errors


def test_an_index_is_built_before_anybody_asks(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nwater")
    with Process("--backend", f"files:{tmp_path}") as process:
        documents = 0
        while not documents:
            process.send(call(1, "status"))
            documents = process.receive()["result"]["structuredContent"]["index"]["documents"]
        assert documents == 1
