"""What the guide to WAMP says, is so: its examples run, its tables are complete."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from knowledge_engine.cli.root import knowledge
from knowledge_engine.errors import KnowledgeError
from knowledge_engine.models import IngestRequest, Query
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_wamp import health, keeping, registering, serving, session, topics
from knowledge_wamp.errors import ERROR_PREFIX, error_uri
from knowledge_wamp.setting_infos import setting_infos
from knowledge_wamp.settings import WampSettings
from knowledge_wamp.wire import pack
from wamp_bench.places import ROOT, clean_environment, program
from wamp_bench.python_client import connect, wamp_call
from wamp_bench.router import Router
from wamp_bench.servers import serving_apart, until_now

GUIDE = (ROOT / "docs" / "wamp.md").read_text(encoding="utf-8")
README = (ROOT / "packages" / "adapter-wamp" / "README.md").read_text(encoding="utf-8")
URL = "ws://127.0.0.1:8080/ws"
PREFIX = "plant.docs"
LIBRARY = ROOT / "examples" / "library"


def blocks(language: str, text: str = GUIDE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def example(word: str, language: str = "python") -> str:
    (found,) = [block for block in blocks(language) if word in block]
    return found


@pytest.fixture(scope="module")
def server(router: Router) -> Iterator[Router]:
    """The server of the guide's first lines."""
    with (
        resolve_knowledge_backend(f"files:{LIBRARY}", environ={}) as handle,
        serving_apart(WampSettings(url=router.url, prefix=PREFIX), handle.provider()),
    ):
        yield router


def test_the_example_on_an_autobahn_session_registers(router: Router, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(LIBRARY)
    script = example("component.on_join").replace(URL, router.url)
    app = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:

        def answered() -> bool:
            try:
                listed = asyncio.run(
                    wamp_call(router.url, router.realm, "app_knowledge.list", kwargs={"query": "modbus"})
                )
            except Exception:
                return False
            return bool(listed["count"])

        until_now(answered)
    finally:
        app.kill()
        app.wait()


def test_the_example_on_the_sdk_registers(tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(LIBRARY)
    # The tests of both versions of the real one run the same calls.
    sdk = """
import asyncio, sys, types

class IronFlock:
    def __init__(self, mainFunc):
        self.main, self.topics = mainFunc, []

    async def register_device_function(self, topic, endpoint, options=None):
        self.topics.append(topic)
        return object()

    def run(self):
        asyncio.run(self.main())
        print(self.topics)

sys.modules["ironflock"] = types.ModuleType("ironflock")
sys.modules["ironflock"].IronFlock = IronFlock
"""
    ended = subprocess.run(
        [sys.executable, "-c", sdk + example("from ironflock")],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert ended.stdout == f"{list(topics.DEFAULT_TOPICS.values())}\n"


def test_the_example_of_a_caller_gets_its_answers(server: Router) -> None:
    names: dict[str, Any] = {}
    exec(example("async def ask"), names)

    async def run() -> Any:
        async with connect(server.url, server.realm) as caller:
            return await names["ask"](caller)

    listed, got, found = asyncio.run(run())
    assert "protocol.modbus" in [doc["id"] for doc in listed["docs"]]
    assert got["found"]
    assert found["count"] == 3


def test_the_example_in_javascript_gets_its_answer(server: Router) -> None:
    script = """
const autobahn = require("autobahn");
const connection = new autobahn.Connection({url: process.env.URL, realm: process.env.REALM});
const log = console.log;
console.log = (shown) => { log(shown); connection.close(); };
connection.onopen = (session) => { EXAMPLE };
connection.onclose = () => true;
connection.open();
"""
    modules = program(".node/.ready").parent / "node_modules"
    ended = subprocess.run(
        ["node", "-e", script.replace("EXAMPLE", example("session.call", "javascript"))],
        env={**clean_environment(), "NODE_PATH": str(modules), "URL": server.url, "REALM": server.realm},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "id: 'protocol.modbus'" in ended.stdout


def test_the_example_of_a_host_prints_hits(server: Router, capsys: pytest.CaptureFixture[str]) -> None:
    exec(example("resolve_knowledge_backend").replace(URL, server.url), {})
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_commands_of_the_guide_are_such_that_there_are(server: Router) -> None:
    lines = [line for text in (GUIDE, README) for block in blocks("console", text) for line in block.splitlines()]
    assert len(lines) == 4
    for line in lines:
        for option in re.findall(r"--[a-z-]+", line):
            command = ["serve", "wamp"] if "serve" in line else ["query"]
            assert option in CliRunner().invoke(knowledge, [*command, "--help"]).output
    query = next(line for line in lines if "knowledge query" in line)
    backend = re.findall(r'"(ws://[^"]+)"', query)[0].replace(URL, server.url)
    asked = CliRunner().invoke(knowledge, ["query", "modbus byte order", "--backend", backend, "--json"])
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)["hits"]


def test_every_variable_is_in_the_table_and_no_other() -> None:
    in_table = {
        name
        for row in re.findall(r"^\| (`KNOWLEDGE_WAMP.*?) \|", GUIDE, re.MULTILINE)
        for name in re.findall(r"\w+", row)
    }
    assert in_table == {info["name"] for info in setting_infos(serving=True)}
    defaults = {info["name"]: info["default"] for info in setting_infos(serving=True) if "default" in info}
    for name, default in defaults.items():
        assert re.search(rf"^\| `{name}` \|.*default `{default}`", GUIDE, re.MULTILINE), name


def test_every_procedure_is_in_the_table() -> None:
    section = GUIDE.partition("| `app_knowledge.` |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
    served = (topics.QUERY, topics.SOURCES, topics.READ, topics.STATUS, topics.INGEST, topics.DELETE)
    assert [f"app_knowledge.{name}" for name in named] == [*served]
    fields = re.findall(r"`(\w+)`", section.splitlines()[2].split("|")[2])
    assert set(fields) - {"full", "Query"} <= set(Query.model_fields)
    assert "content" in IngestRequest.model_fields


def test_the_uris_of_errors_are_those_that_are_sent() -> None:
    table = dict(re.findall(r"^\| `([a-z-]+)` \| `(wamp\.error\.\w+)` \|", GUIDE, re.MULTILINE))

    def codes(kind: type[KnowledgeError]) -> Iterator[str]:
        yield kind.code
        for each in kind.__subclasses__():
            if each.__module__ == KnowledgeError.__module__:
                yield from codes(each)

    assert {
        code: uri for code in codes(KnowledgeError) if not (uri := error_uri(code)).startswith(ERROR_PREFIX)
    } == table
    assert error_uri("not-found") == "app_knowledge.error.not_found"
    assert "app_knowledge.error.not_found" in GUIDE


def test_the_packed_form_is_as_it_is_told() -> None:
    assert (pack(2**53 + 1), pack("␀")) == ("␀+9007199254740993", "␀␀")
    assert '`"␀+9007199254740993"` is that number, `"␀␀"` is `"␀"`' in GUIDE


def test_the_times_of_the_guide_are_those_of_the_code() -> None:
    said = {
        "up to 30 s": keeping.MAX_DELAY_S,
        "after a quarter of a second": keeping.FIRST_DELAY_S * 120,
        "noticed within 15 s": session.PING_INTERVAL_S + session.PING_TIMEOUT_S,
        "every 30 s": serving.RETRY_S,
        "up to 5 s": serving.DRAIN_TIMEOUT_S,
        "and every 10 s": health.BEAT_S,
        "(10 s)": session.CONNECT_TIMEOUT_S,
        "after 75 s": registering.REGISTER_TIMEOUT_S,
    }
    text = " ".join(GUIDE.split())
    for words, seconds in said.items():
        assert words in text
        number = re.search(r"\d+", words)
        assert number is None or float(number[0]) == seconds
    assert keeping.FIRST_DELAY_S == 0.25


@pytest.mark.parametrize(
    ("content", "age_s", "healthy"),
    [
        ({"state": "ready"}, 0, True),
        ({"state": "degraded"}, 0, True),
        ({"state": "connecting", "reason": '"state": "x"'}, 0, False),
        ({"state": "stopped"}, 0, False),
        ({"state": "ready"}, 300, False),
        (None, 0, False),
    ],
)
def test_the_health_check_of_the_guide_tells_who_is_well(
    tmp_path: Path, content: dict[str, str] | None, age_s: int, healthy: bool
) -> None:
    file = tmp_path / "health.json"
    if content is not None:
        said = health.HealthFile(str(file))
        said.say(content["state"], **{key: value for key, value in content.items() if key != "state"})
        written = file.stat().st_mtime - age_s
        os.utime(file, (written, written))
    command = re.findall(r"^HEALTHCHECK.* CMD (.*)$", example("HEALTHCHECK", "dockerfile"), re.MULTILINE)[0]
    ended = subprocess.run(["sh", "-c", command.replace("/tmp/health.json", str(file))], capture_output=True)
    assert (ended.returncode == 0) is healthy


def test_the_line_of_the_log_has_the_fields_that_are_told() -> None:
    line = json.loads(example("next_attempt_s", "json"))
    assert [*line][:4] == ["time", "level", "logger", "event"]
