"""`knowledge serve wamp` as a process: its signals, its output, its exit code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from knowledge_engine.cli.root import knowledge
from knowledge_engine.models import IngestRequest
from knowledge_wamp import WampKnowledgeAdapter, WampSettings, topics
from knowledge_wamp.session import open_session
from wamp_bench.places import free_port
from wamp_bench.python_client import wamp_call
from wamp_bench.router import Router
from wamp_bench.servers import LIMIT_S, new_prefix, until_now

COMMAND = [sys.executable, "-c", "from knowledge_engine.cli.root import main; main()"]
# A backend whose queries wait until there is a file `go` in the folder, and make a file `waiting` first.
SLOW = """
    import time
    from pathlib import Path
    from knowledge_engine.hookspecs import hookimpl

    @hookimpl
    def knowledge_backend():
        return {"name": "Slow", "url_schemes": ["slow"]}

    @hookimpl
    def knowledge_open(url, environ):
        from knowledge_engine.memory import MemoryProvider

        folder = Path(url.partition(":")[2])

        class Slow(MemoryProvider):
            def query(self, query):
                (folder / "waiting").touch()
                deadline = time.monotonic() + 30
                while not (folder / "go").exists() and time.monotonic() < deadline:
                    time.sleep(0.01)
                return super().query(query)

        return Slow({"pump.md": b"# Pump"}, id="slow")
"""


class Process:
    """A running `knowledge serve wamp`."""

    def __init__(self, popen: subprocess.Popen[str], health: Path) -> None:
        self.popen = popen
        self._health = health

    def health(self) -> dict[str, Any]:
        try:
            said: dict[str, Any] = json.loads(self._health.read_text())
        except FileNotFoundError:
            return {}
        return said

    def until(self, state: str) -> dict[str, Any]:
        until_now(lambda: self.health().get("state") == state or self.popen.poll() is not None)
        return self.health()

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Exit code, output and errors, after that signal."""
        self.popen.send_signal(number)
        out, err = self.popen.communicate(timeout=LIMIT_S)
        return self.popen.returncode, out, err


def environment(more: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")} | dict(more)


@contextmanager
def served(folder: Path, *arguments: str, **env: str) -> Iterator[Process]:
    health = folder / "health.json"
    popen = subprocess.Popen(
        [*COMMAND, "serve", "wamp", "--health-file", str(health), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(env),
    )
    try:
        yield Process(popen, health)
    finally:
        if popen.poll() is None:
            popen.kill()
            popen.communicate()


def events(stderr: str) -> list[dict[str, Any]]:
    """The lines of a log, each of them one of JSON."""
    return [json.loads(line) for line in stderr.splitlines()]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "pump.md").write_text("---\nid: device.pump\ntitle: Pump\nkind: device\n---\n# Pump\n\nTalks modbus.\n")
    return folder


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_ends_well_and_says_only_json(
    router: Router, tmp_path: Path, docs: Path, number: signal.Signals
) -> None:
    prefix = new_prefix()
    with served(tmp_path, "--backend", f"files:{docs}", "--url", router.url, "--prefix", prefix) as process:
        said = process.until("ready")
        assert f"{prefix}.{topics.STATUS}" in said["registered"]
        listed = asyncio.run(wamp_call(router.url, router.realm, f"{prefix}.app_knowledge.list"))
        assert [doc["id"] for doc in listed["docs"]] == ["device.pump"]
        code, out, err = process.end(number)
    assert (code, out) == (0, "")
    assert process.health()["state"] == "stopped"
    logged = events(err)
    assert [entry["event"] for entry in logged] == ["connecting", "registered", "stopping", "stopped"]
    assert all(entry["logger"] == "knowledge_wamp" for entry in logged)


def test_calls_under_way_are_answered_before_the_process_ends(router: Router, tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "slow_backend-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-backend\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[knowledge_engine.providers]\nslow = slow_backend\n")
    (site / "slow_backend.py").write_text(textwrap.dedent(SLOW))
    prefix = new_prefix()
    url = router.rawsocket_url

    async def ask(process: Process) -> tuple[Any, tuple[int, str, str]]:
        session = await open_session(WampSettings(url=url))
        asked = asyncio.create_task(session.ask(f"{prefix}.{topics.QUERY}", {"query": "pump"}, LIMIT_S))
        await asyncio.to_thread(until_now, (tmp_path / "waiting").exists)
        ending = asyncio.create_task(asyncio.to_thread(process.end))
        await asyncio.to_thread(process.until, "stopping")
        for _ in range(100):  # long enough for a session to end
            assert await session.answers(LIMIT_S)
        (tmp_path / "go").touch()
        answer, ended = await asyncio.gather(asked, ending)
        await session.close()
        return answer, ended

    backend = f"slow:{tmp_path}"
    with served(
        tmp_path, KNOWLEDGE_BACKEND=backend, KNOWLEDGE_WAMP_URL=url, KNOWLEDGE_WAMP_PREFIX=prefix, PYTHONPATH=str(site)
    ) as process:
        process.until("ready")
        answer, (code, out, err) = asyncio.run(ask(process))
    assert [hit["source_id"] for hit in answer["hits"]] == ["pump.md"]
    assert (code, out) == (0, "")
    assert events(err)[-1]["event"] == "stopped"


def test_wrong_credentials_end_it_with_one_message_that_shows_none(router: Router, tmp_path: Path, docs: Path) -> None:
    (tmp_path / "ticket").write_text("a-wrong-ticket")
    with served(
        tmp_path,
        *("--backend", f"files:{docs}", "--url", router.url, "--realm", router.secured_realm),
        *("--authid", router.ticket.authid, "--ticket-file", "ticket"),
    ) as process:
        out, err = process.popen.communicate(timeout=LIMIT_S)
    assert (process.popen.returncode, out) == (1, "")
    *logged, message = err.splitlines()
    assert [json.loads(line)["level"] for line in logged] == ["info"] * len(logged)
    assert message.startswith("knowledge: The router does not")
    assert "KNOWLEDGE_WAMP_REALM" in message
    assert "a-wrong-ticket" not in err + process._health.read_text()


def test_without_a_url_the_variable_is_named(tmp_path: Path) -> None:
    with served(tmp_path) as process:
        out, err = process.popen.communicate(timeout=LIMIT_S)
    assert (process.popen.returncode, out) == (1, "")
    assert "KNOWLEDGE_WAMP_URL" in err
    assert len(err.splitlines()) == 1


def test_help_names_every_option_with_its_variable() -> None:
    shown = CliRunner().invoke(knowledge, ["serve", "wamp", "--help"])
    assert shown.exit_code == 0
    words = shown.output.split()
    for option in ("url", "realm", "prefix", "authid", "ticket-file", "shared", "writable", "health-file"):
        assert f"--{option}" in words
        assert f"[KNOWLEDGE_WAMP_{option.upper().replace('-', '_')}]" in words
    assert "--ticket" not in words  # a secret on a command line is seen by everybody
    assert "KNOWLEDGE_WAMP_TICKET," in words


def test_several_backends_are_served_by_name_and_written_where_that_is_allowed(
    router: Router, tmp_path: Path, docs: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "valve.md").write_text("# Valve\n\nA valve.\n")
    prefix = new_prefix()
    backends = ("--backend", f"one=files:{docs}", "--backend", f"two=files:{other}")
    with served(tmp_path, *backends, "--url", router.url, "--prefix", prefix, "--shared") as process:
        process.until("ready")
        adapter = WampKnowledgeAdapter(WampSettings(url=router.url, prefix=prefix))
        listed = [source.id for source in adapter.list_sources().sources]
        adapter.dispose()
        assert listed == ["one:pump.md", "two:valve.md"]
        assert process.end()[0] == 0
    prefix = new_prefix()
    arguments = ("--backend", f"files:{other}", "--url", router.url, "--prefix", prefix, "--writable")
    with served(tmp_path, *arguments) as process:
        process.until("ready")
        adapter = WampKnowledgeAdapter(WampSettings(url=router.url, prefix=prefix))
        adapter.ingest(IngestRequest(id="hatch.md", content=b"# Hatch\n"))
        adapter.dispose()
        assert (other / "hatch.md").read_text() == "# Hatch\n"
        assert process.end()[0] == 0


def test_it_waits_for_a_router_and_for_a_place_for_its_health_file_and_ends_when_it_is_told_to(
    tmp_path: Path, docs: Path
) -> None:
    with served(
        tmp_path,
        *("--backend", f"files:{docs}", "--url", f"ws://127.0.0.1:{free_port()}/ws"),
        *("--health-file", "none/health.json"),
    ) as process:
        process._health = tmp_path / "none" / "health.json"
        assert process.popen.stderr is not None
        lines: list[str] = []
        while sum("not connected" in line for line in lines) < 2:
            lines.append(process.popen.stderr.readline())
        process._health.parent.mkdir()
        assert process.until("connecting")["reason"].startswith("The router cannot be reached")
        code, out, err = process.end()
    assert (code, out) == (0, "")
    logged = events("".join(lines) + err)
    assert [entry["event"] for entry in logged].count("the health file cannot be written") == 1
    assert all(entry["next_attempt_s"] <= 30 for entry in logged if entry["event"] == "not connected")
    assert process.health()["state"] == "stopped"


WITHOUT_AUTOBAHN = """
import asyncio, sys
sys.modules["autobahn"] = None
import knowledge_wamp, knowledge_wamp.plugin
from knowledge_engine import list_knowledge_backends, resolve_knowledge_backend
from knowledge_engine.cli.root import main
from knowledge_engine.errors import ConfigurationError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.transports import find_transport

class Sdk:
    def __init__(self):
        self.functions = {}

    async def register_device_function(self, topic, endpoint, options=None):
        self.functions[topic] = endpoint
        return object()

async def register():
    sdk = Sdk()
    docs = MemoryProvider({"pump.md": b"# Pump"})
    assert await knowledge_wamp.register_knowledge_tools(sdk, docs) == []
    return await sdk.functions["app_knowledge.list"]()

assert asyncio.run(register())["count"] == 1
assert "wamp" in {each.slug for each in list_knowledge_backends()}
environ = {"KNOWLEDGE_WAMP_URL": "ws://127.0.0.1:1/ws"}
for attempt in (
    lambda: resolve_knowledge_backend("wamp", environ=environ).provider(),
    lambda: find_transport("wamp").serve({}, environ=environ),
):
    try:
        attempt()
    except ConfigurationError as error:
        assert "pip install 'kpkit-wamp[client]'" in error.mend, error
    else:
        raise AssertionError("it opened")
sys.argv = ["knowledge", "backends"]
main()
"""


def test_without_autobahn_all_but_connecting_works(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_AUTOBAHN],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment({}),
        timeout=LIMIT_S,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "wamp" in ended.stdout
