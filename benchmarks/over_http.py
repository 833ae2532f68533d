"""`POST /v1/query` against a threaded FastAPI route that validates the same model and renders ten hits, in one run.

The route does no search: it is what serving alone costs. Servers and load share the machine; rounds take turns.
Prints requests a second, p50 and p99 at 16 connections, medians of the rounds, and the ratios:

    python benchmarks/over_http.py --docs FOLDER [--rounds 7] [--requests 800] [--connections 16]

With `--soak 100000` it asks so often, and prints what became of the server's memory, threads and open files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

PEER = """
import json, sys
import uvicorn
from fastapi import FastAPI
from knowledge_engine.models import Query, QueryResult

app = FastAPI()
RESULT = QueryResult.model_validate_json(open(sys.argv[2]).read())

@app.post("/v1/query")
def query(query: Query) -> QueryResult:
    return RESULT

uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
"""
_WORD = re.compile(r"[A-Za-z]{4,}")


def questions(folder: Path, count: int = 400) -> list[bytes]:
    """Bodies that ask for words of the documents' beginnings."""
    random.seed(7)
    files = sorted(folder.rglob("*.md"))
    found = []
    for file in random.sample(files, min(count, len(files))):
        words = _WORD.findall(file.read_text(errors="replace")[:2000])
        if len(words) > 3:
            found.append(json.dumps({"query": " ".join(random.sample(words, 3)), "top_k": 10}).encode())
    return found


def write_documents(folder: Path, count: int) -> None:
    """A library of that many notes, where no other is given."""
    random.seed(3)
    words = [
        f"{a}{b}{c}" for a in ("pro", "con", "sub", "tele") for b in ("mod", "lin", "bus", "gram") for c in range(400)
    ]
    for number in range(count):
        text = " ".join(random.choices(words, k=250))
        (folder / f"{number:06}.md").write_text(
            f"---\ntitle: {text[:40]}\n---\n## Part\n{text[:900]}\n## Rest\n{text[900:]}\n"
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server, once it answers."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def ask(port: int, body: bytes) -> bytes:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/query", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        return bytes(response.read())


class Load:
    """So many connections that are kept, each asking again as soon as it is answered."""

    def __init__(self, port: int, connections: int, bodies: list[bytes]) -> None:
        self._port, self._connections, self._bodies = port, connections, bodies

    async def run(self, requests: int) -> tuple[float, list[float]]:
        """Requests a second, and the seconds that each took."""
        left = iter(range(requests))
        took: list[float] = []
        began = time.perf_counter()
        await asyncio.gather(*(self._one(left, took) for _ in range(self._connections)))
        return requests / (time.perf_counter() - began), took

    async def _one(self, left: Iterator[int], took: list[float]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        for number in left:
            body = self._bodies[number % len(self._bodies)]
            began = time.perf_counter()
            writer.write(
                b"POST /v1/query HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(size)
            took.append(time.perf_counter() - began)
        writer.close()


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def compare(ours: int, peer: int, bodies: list[bytes], arguments: argparse.Namespace) -> None:
    figures: dict[str, list[tuple[float, float, float]]] = {"ours": [], "peer": []}
    for round_number in range(arguments.rounds):
        if arguments.distinct:
            bodies = bodies[arguments.requests :] if round_number else bodies
        for name, port in (("ours", ours), ("peer", peer)):
            rate, took = asyncio.run(Load(port, arguments.connections, bodies).run(arguments.requests))
            figures[name].append((rate, percentile(took, 0.5), percentile(took, 0.99)))
    medians = {
        name: [statistics.median(column) for column in zip(*rounds, strict=True)] for name, rounds in figures.items()
    }
    for name, (rate, p50, p99) in medians.items():
        print(f"{name}: {rate:8.0f} requests/s   p50 {p50 * 1000:6.2f} ms   p99 {p99 * 1000:6.2f} ms")
    rate, _, p99 = (mine / theirs for mine, theirs in zip(medians["ours"], medians["peer"], strict=True))
    print(f"ratio: {rate:.2f}x the requests/s (at least 0.5), {p99:.2f}x the p99 (at most 2)")


def state(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    root = Path(f"/proc/{process.pid}")
    status = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines())
    return {
        "rss_mb": int(status["VmRSS"].split()[0]) // 1024,
        "threads": int(status["Threads"]),
        "files": len(list((root / "fd").iterdir())),
    }


def soak(process: subprocess.Popen[bytes], port: int, bodies: list[bytes], arguments: argparse.Namespace) -> None:
    part = max(1, arguments.soak // 5)
    for number in range(5):
        asyncio.run(Load(port, arguments.connections, bodies).run(part))
        print(f"after {part * (number + 1)} requests: {state(process)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, help="a folder of markdown; by default one is made")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=800)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--distinct", action="store_true", help="ask nothing twice")
    parser.add_argument("--soak", type=int, default=0)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        docs = arguments.docs or scratch / "docs"
        if arguments.docs is None:
            docs.mkdir()
            write_documents(docs, 5_000)
        bodies = questions(docs, arguments.rounds * arguments.requests if arguments.distinct else 400)
        ours, peer = free_port(), free_port()
        knowledge = str(Path(sys.executable).with_name("knowledge"))
        command = [knowledge, "serve", "http", "--backend", f"files:{docs}", "--port", str(ours), "--quiet"]
        process = stack.enter_context(started(command, ours))
        while json.loads(ask(ours, bodies[0]))["index"]["state"] == "building":
            time.sleep(1)
        (scratch / "result.json").write_bytes(ask(ours, bodies[0]))
        (scratch / "peer.py").write_text(PEER)
        for body in () if arguments.distinct else bodies:
            ask(ours, body)
        print(f"{json.loads(ask(ours, bodies[0]))['index']['documents']} documents, {len(bodies)} questions")
        if arguments.soak:
            soak(process, ours, bodies, arguments)
            return
        command = [sys.executable, str(scratch / "peer.py"), str(peer), str(scratch / "result.json")]
        stack.enter_context(started(command, peer))
        compare(ours, peer, bodies, arguments)


if __name__ == "__main__":
    main()
