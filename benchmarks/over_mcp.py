"""The tool `query` of `knowledge serve mcp` against an echo tool that answers as many bytes, in one run.

The echo is a tool of the SDK's own server on its own stdio: what the protocol alone costs. Both are asked in turn, one
call at a time, as a host does. Prints p50 and p99 and the ratios:

    python benchmarks/over_mcp.py [--docs FOLDER] [--count 48000] [--calls 400]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from over_http import questions, write_documents

ECHO = """
from mcp.server import MCPServer

server = MCPServer("echo", log_level="ERROR")
BLOB = "word " * 200_000

@server.tool(structured_output=False)
def echo(size: int) -> str:
    return BLOB[:size]

server.run("stdio")
"""
#: What a result of the echo has around its text.
_AROUND = 90


class Host:
    """Speaks the protocol of 2025-11-25, a line at a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._calls = 0
        self._ask(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "benchmark", "version": "1"},
            },
        )
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[float, bytes]:
        """Seconds, and the answer's line."""
        began = time.perf_counter()
        line = self._ask("tools/call", {"name": tool, "arguments": arguments})
        return time.perf_counter() - began, line

    def _ask(self, method: str, params: Mapping[str, Any]) -> bytes:
        self._calls += 1
        self._send({"id": self._calls, "method": method, "params": params})
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert b'"result"' in line, line[:300]
        return line

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()


@contextmanager
def started(command: list[str]) -> Iterator[Host]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield Host(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def compare(what: str, ours: Host, echo: Host, asked: list[str]) -> None:
    times: dict[str, list[float]] = {"query": [], "echo": []}
    sizes = []
    for question in asked:
        took, line = ours.call("query", {"query": question})
        times["query"].append(took)
        sizes.append(len(line))
        took, line = echo.call("echo", {"size": len(line) - _AROUND})
        times["echo"].append(took)
        assert abs(len(line) - sizes[-1]) < 30, (len(line), sizes[-1])
    p50 = {name: statistics.median(each) * 1e3 for name, each in times.items()}
    p99 = {name: statistics.quantiles(each, n=100)[98] * 1e3 for name, each in times.items()}
    print(
        f"{what}: {len(sizes)} calls, answers of {statistics.median(sizes):.0f} bytes: "
        f"p50 {p50['query']:.2f} ms, echo {p50['echo']:.2f}: {p50['query'] / p50['echo']:.2f}x (at most 2); "
        f"p99 {p99['query']:.2f} ms, echo {p99['echo']:.2f}: {p99['query'] / p99['echo']:.2f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, help="a folder of documents; otherwise some are made")
    parser.add_argument("--count", type=int, default=48_000, help="how many are made")
    parser.add_argument("--calls", type=int, default=400)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.docs
        if folder is None:
            folder = Path(scratch, "docs")
            folder.mkdir()
            write_documents(folder, given.count)
        asked = [json.loads(body)["query"] for body in questions(folder, given.calls + 30)]
        command = [str(Path(sys.executable).with_name("knowledge")), "serve", "mcp", "--timeout-s", "600"]
        with started([*command, "--backend", f"files:{folder}"]) as ours, started([sys.executable, "-c", ECHO]) as echo:
            compare("warming", ours, echo, asked[:30])
            compare("asked for the first time", ours, echo, asked[30:])
            again = asked[30:130]
            compare("asked again", ours, echo, [*again] * (given.calls // len(again)))


if __name__ == "__main__":
    main()
