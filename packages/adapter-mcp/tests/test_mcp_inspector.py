"""From outside: the command line of the MCP Inspector, on standard input and output and over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from http_bench.servers import running
from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.bootstrap import open_knowledge
from knowledge_http import HttpSettings
from knowledge_http.server import create_app
from mcp_bench.serving import KNOWLEDGE, ROOT

CLI = ROOT / ".node-mcp/node_modules/@modelcontextprotocol/inspector/cli/build/index.js"
LIBRARY = f"files:{ROOT / 'examples/library'}"
SERVER = [KNOWLEDGE, "serve", "mcp", "--backend", LIBRARY]
pytestmark = pytest.mark.skipif(
    os.environ.get("INSPECTOR_TESTS") != "required" and not (CLI.exists() and shutil.which("node")),
    reason="the MCP Inspector is not there: install npm, and run `make inspector`",
)


def inspect(*args: str) -> dict[str, Any]:
    done = subprocess.run(["node", str(CLI), *args], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_lists_the_tools_with_their_schemas_and_hints() -> None:
    tools = {each["name"]: each for each in inspect(*SERVER, "--method", "tools/list")["tools"]}
    assert list(tools) == ["list", "get", "query", "status"]
    assert tools["query"]["outputSchema"]["properties"]["hits"]["type"] == "array"
    hints = tools["query"]["annotations"]
    assert {hints[f"{name}Hint"] for name in ("destructive", "openWorld")} == {False}
    assert {hints[f"{name}Hint"] for name in ("readOnly", "idempotent")} == {True}


def test_it_calls_a_tool_and_reads_what_the_answer_links_to() -> None:
    arguments = ("--method", "tools/call", "--tool-name", "query", "--tool-arg", "query=byte order", "top_k=3")
    result = inspect(*SERVER, *arguments)
    expected = AgentTools(open_knowledge(LIBRARY)).query("byte order", top_k=3)
    assert result["structuredContent"] == expected
    assert json.loads(result["content"][0]["text"]) == expected
    link = result["content"][1]
    read = inspect(*SERVER, "--method", "resources/read", "--uri", link["uri"])
    assert read["contents"][0]["text"] == (ROOT / "examples/library" / link["name"]).read_text()


def test_it_sees_resources_and_their_template() -> None:
    assert len(inspect(*SERVER, "--method", "resources/list")["resources"]) > 20
    templates = inspect(*SERVER, "--method", "resources/templates/list")["resourceTemplates"]
    assert templates[0]["uriTemplate"] == "knowledge://{+id}"


def test_it_stores_a_document_where_that_is_allowed(tmp_path: Path) -> None:
    server = [KNOWLEDGE, "serve", "mcp", "--allow-write", "--backend", f"files:{tmp_path}"]
    arguments = ("--method", "tools/call", "--tool-name", "ingest", "--tool-arg", "id=a/ü.md", "text=Fresh water")
    result = inspect(*server, *arguments)
    assert result["structuredContent"]["stored"] is True
    assert (tmp_path / "a/ü.md").read_text() == "Fresh water"


def test_it_comes_in_over_http_with_a_token() -> None:
    service = open_knowledge(LIBRARY)
    settings = HttpSettings.from_env({"KNOWLEDGE_HTTP_TOKENS": "rrr:read", "KNOWLEDGE_HTTP_QUIET": "1"})
    arguments = ("--method", "tools/call", "--tool-name", "get", "--tool-arg", "doc_id=protocol.modbus")
    with running(create_app({"docs": service}, settings, environ={})) as url:
        remote = (f"{url}/mcp", "--transport", "http", "--header", "Authorization: Bearer rrr")
        result = inspect(*remote, *arguments)
    assert result["structuredContent"] == AgentTools(service).get("protocol.modbus")
