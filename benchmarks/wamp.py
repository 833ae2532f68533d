"""Calls of `get` and `list` against an echo procedure that answers as many bytes, on one router, in one run.

Needs the router that `make test` sets up. Prints calls a second, ratios, and p50 and p99, medians of the rounds:

    python benchmarks/wamp.py [--rounds 7] [--calls 300] [--serializer cbor]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "packages/adapter-wamp/tests/bench"))

from autobahn.wamp.exception import ApplicationError

from knowledge_files import KnowledgeLibrary
from knowledge_wamp import WampSettings, register_knowledge_tools
from knowledge_wamp.session import Session, open_session
from wamp_bench.router import Router

DOCUMENTS = 1_000
GET = {"doc_id": "device.vendor.model_500"}


def write_library(folder: Path) -> None:
    """Device documents as an app ships them, of about 6 KB each."""
    for number in range(DOCUMENTS):
        rows = "\n".join(f"| {40000 + row} | Value {row} of unit {number} | uint16 | 0.1 | kW |" for row in range(80))
        (folder / f"model-{number}.md").write_text(
            f"---\nid: device.vendor.model_{number}\ntitle: Model {number} energy meter\nkind: device\n"
            f"summary: Registers, scaling and pitfalls of energy meter {number}, checked against a unit.\n"
            f"protocol: modbus\ndrivers: [modbus-tcp]\nvendor: Vendor\nmodel: Model {number}\n"
            f"equipment_type: energy_meter\nkeywords: [meter, energy]\nverified: field_tested\n---\n\n"
            f"## Overview\n\nA meter.\n\n## Registers\n\n"
            f"| Address | Value | Type | Scale | Unit |\n|---|---|---|---|---|\n{rows}\n"
        )


async def serve(settings: WampSettings, folder: Path, behind_server: bool, as_object: bool) -> None:
    """In a process of its own: an echo of each answer and, unless `knowledge serve` has them, the library's tools."""
    session = await open_session(settings)
    library = KnowledgeLibrary(folder)
    library.load()
    if not behind_server:
        failed = await register_knowledge_tools(session, library)
        assert not failed, failed
    for name, answer in (("get", library.get_doc(**GET)), ("list", library.list_docs())):
        # One text is the least work for serializers and router; the same object is what an answer is to them.
        same: object = answer if as_object else json.dumps(answer, ensure_ascii=False)

        async def echo(*_: object, _same: object = same, **__: object) -> object:
            return _same

        await session.register(echo, f"echo.{name}")
    print("ready", flush=True)
    await asyncio.wait({session.lost})


async def one_round(
    session: Session, procedure: str, arguments: Mapping[str, Any], calls: int, callers: int
) -> list[float]:
    """Seconds of each call; the last value is that of the whole round."""
    took: list[float] = []

    async def caller() -> None:
        for _ in range(calls // callers):
            began = time.perf_counter()
            await session.call(procedure, **arguments)
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return [*took, time.perf_counter() - began]


async def registered(session: Session) -> None:
    """Returns when the tools can be called."""
    deadline = time.monotonic() + 60
    while True:
        try:
            await session.call("app_knowledge.get", **GET)
            return
        except ApplicationError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


async def measure(settings: WampSettings, rounds: int, calls: int) -> None:
    session = await open_session(settings)
    await registered(session)
    for callers in (1, 8):
        for name, arguments in (("get", GET), ("list", {})):
            kinds = {"echo": (f"echo.{name}", {}), name: (f"app_knowledge.{name}", arguments)}
            rates: dict[str, list[float]] = {kind: [] for kind in kinds}
            times: dict[str, list[float]] = {kind: [] for kind in kinds}
            for procedure, given in kinds.values():
                await one_round(session, procedure, given, calls // 3, callers)
            for _ in range(rounds):
                for kind, (procedure, given) in kinds.items():
                    *each, whole = await one_round(session, procedure, given, calls, callers)
                    rates[kind].append(len(each) / whole)
                    times[kind] += each
            ratio = statistics.median(mine / other for mine, other in zip(rates[name], rates["echo"], strict=True))
            p50 = {kind: statistics.median(each) * 1e3 for kind, each in times.items()}
            p99 = {kind: statistics.quantiles(each, n=100)[98] * 1e3 for kind, each in times.items()}
            print(
                f"{name:5} {callers} callers: {statistics.median(rates[name]):6.0f} calls/s, echo "
                f"{statistics.median(rates['echo']):6.0f}: {ratio:.2f}x; "
                f"p50 {p50[name]:.2f} ms, echo {p50['echo']:.2f}; "
                f"p99 {p99[name]:.2f} ms, echo {p99['echo']:.2f}: {p99[name] / p99['echo']:.2f}x"
            )
    await session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--serializer", default="cbor")
    parser.add_argument("--rawsocket", action="store_true")
    parser.add_argument("--server", action="store_true", help="measure `knowledge serve wamp` over the files backend")
    parser.add_argument("--object", action="store_true", help="echo the same object instead of one text as long")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        url, folder = given.serve
        asyncio.run(
            serve(WampSettings(url=url, serializers=(given.serializer,)), Path(folder), given.server, given.object)
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "library")
        library.mkdir()
        write_library(library)
        router = Router(Path(folder, "router"))
        router.start()
        url = router.rawsocket_url if given.rawsocket else router.url
        command = [sys.executable, __file__, "--serializer", given.serializer, "--serve", url, str(library)]
        with ExitStack() as stack:
            stack.callback(router.stop)
            command += ["--object"] if given.object else []
            if given.server:
                command.append("--server")
                stack.enter_context(running(served(url, library, given.serializer)))
            server = stack.enter_context(running(command))
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n", "the server did not start"
            how = "knowledge serve wamp" if given.server else "register_knowledge_tools"
            kind = "RawSocket" if given.rawsocket else "WebSocket"
            print(f"{how}, {given.serializer} over {kind}, {DOCUMENTS} documents")
            asyncio.run(measure(WampSettings(url=url, serializers=(given.serializer,)), given.rounds, given.calls))


def served(url: str, library: Path, serializer: str) -> list[str]:
    """The command of a server."""
    program = str(Path(sys.executable).with_name("knowledge"))
    return [program, "serve", "wamp", "--url", url, "--serializer", serializer, "--backend", f"files:{library}"]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
