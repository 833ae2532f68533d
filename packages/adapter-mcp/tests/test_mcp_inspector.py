"""From outside: the command line of the MCP Inspector, which knows nothing of us."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from http_bench.servers import running
from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_engine.service import KnowledgeService
from knowledge_http import HttpSettings, create_app
from knowledge_http.grants import parse_tokens

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "examples" / "library"
INSPECTOR = ROOT / ".node-mcp" / "node_modules" / ".bin" / "mcp-inspector"
STDIO = (str(Path(sys.executable).with_name("knowledge")), "serve", "mcp", "--backend", f"files:{LIBRARY}")
READING = ["list", "get", "query", "status"]


@pytest.fixture(autouse=True, scope="module")
def _there() -> None:
    why = ""
    if shutil.which("node") is None:
        why = "node is not there, and the MCP Inspector needs it: nothing is called from outside. Install nodejs."
    elif not (INSPECTOR.parents[2] / ".ready").exists():
        why = "The MCP Inspector is not set up: nothing is called from outside. Run `make inspector`, which needs npm."
    if why:
        (pytest.fail if os.environ.get("INSPECTOR_TESTS") == "required" else pytest.skip)(why)


@pytest.fixture(scope="module")
def service() -> Iterator[KnowledgeService]:
    with resolve_knowledge_backend(f"files:{LIBRARY}", environ={}) as handle:
        yield KnowledgeService(handle.provider())


@pytest.fixture(scope="module")
def http(service: KnowledgeService) -> Iterator[tuple[str, ...]]:
    settings = HttpSettings(quiet=True, tokens=parse_tokens("rrr:read,www:write"))
    with running(create_app({"docs": service}, settings, environ={})) as url:
        yield (f"{url}/mcp", "--transport", "http")


def inspect(target: tuple[str, ...], *arguments: str) -> Any:
    ended = subprocess.run(
        [str(INSPECTOR), "--cli", *target, *arguments], capture_output=True, text=True, timeout=100, encoding="utf-8"
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_tools_over_standard_input_and_output_answer_as_in_python(service: KnowledgeService) -> None:
    called = inspect(
        STDIO, "--method", "tools/call", "--tool-name", "query", "--tool-arg", "query=modbus Größe 漢字", "top_k=2"
    )
    expected = AgentTools(service).query("modbus Größe 漢字", top_k=2)
    assert called["structuredContent"] == expected
    assert json.loads(called["content"][0]["text"]) == expected
    assert called["isError"] is False


def test_tools_are_listed_with_their_schemas_and_hints() -> None:
    tools = inspect(STDIO, "--method", "tools/list")["tools"]
    assert [each["name"] for each in tools] == READING
    for each in tools:
        assert set(each["annotations"]) >= {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert each["outputSchema"]["type"] == each["inputSchema"]["type"] == "object"


def test_an_option_of_the_command_offers_what_writes() -> None:
    tools = inspect((*STDIO, "--allow-write"), "--method", "tools/list")["tools"]
    assert [each["name"] for each in tools] == [*READING, "ingest", "delete"]


def test_a_resource_over_http_is_the_file(http: tuple[str, ...]) -> None:
    arguments = ("--header", "Authorization: Bearer rrr", "--method")
    listed = inspect(http, *arguments, "resources/list")["resources"]
    uri = next(each["uri"] for each in listed if each["name"] == "guides/modbus-fehlersuche-de.md")
    (read,) = inspect(http, *arguments, "resources/read", "--uri", uri)["contents"]
    assert read["text"].encode() == (LIBRARY / "guides" / "modbus-fehlersuche-de.md").read_bytes()
    (template,) = inspect(http, *arguments, "resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == "knowledge://{+id}"


@pytest.mark.parametrize(("token", "more"), [("rrr", []), ("www", ["ingest", "delete"])])
def test_over_http_the_token_decides_what_is_offered(http: tuple[str, ...], token: str, more: list[str]) -> None:
    tools = inspect(http, "--header", f"Authorization: Bearer {token}", "--method", "tools/list")["tools"]
    assert [each["name"] for each in tools] == [*READING, *more]


def test_over_http_tools_answer_as_in_python_and_failures_are_seen(
    http: tuple[str, ...], service: KnowledgeService
) -> None:
    arguments = ("--header", "Authorization: Bearer rrr", "--method", "tools/call", "--tool-name")
    called = inspect(http, *arguments, "get", "--tool-arg", "doc_id=protocol.modbus")
    assert called["structuredContent"] == AgentTools(service).get("protocol.modbus")
    failed = inspect(http, *arguments, "query", "--tool-arg", "query=x", "cursor=nonsense")
    assert failed["isError"] is True
    assert failed["structuredContent"] == AgentTools(service).query("x", cursor="nonsense")
    assert failed["structuredContent"]["mend"]


def test_without_a_token_nothing_is_told(http: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [str(INSPECTOR), "--cli", *http, "--method", "tools/list"], capture_output=True, text=True, timeout=100
    )
    assert ended.returncode != 0
    assert "query" not in ended.stdout


def test_what_it_stores_is_a_file_and_what_an_answer_links_to_can_be_read(tmp_path: Path) -> None:
    server = (*STDIO[:-1], f"files:{tmp_path}", "--allow-write")
    arguments = ("--method", "tools/call", "--tool-name")
    stored = inspect(server, *arguments, "ingest", "--tool-arg", "id=a/ü.md", "text=Fresh water")
    assert stored["structuredContent"]["stored"] is True
    assert (tmp_path / "a/ü.md").read_text() == "Fresh water"
    _, link = inspect(server, *arguments, "query", "--tool-arg", "query=fresh")["content"]
    (read,) = inspect(server, "--method", "resources/read", "--uri", link["uri"])["contents"]
    assert read["text"] == "Fresh water"
