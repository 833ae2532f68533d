"""Settings from the environment, and what the registry sees of the adapter."""

from __future__ import annotations

import subprocess
import sys

import pytest

import knowledge_mcp
from knowledge_engine.errors import ConfigurationError
from knowledge_engine.extensions import collect_extensions
from knowledge_engine.transports import find_transport
from knowledge_mcp import McpSettings, plugin


def test_nothing_needs_to_be_set() -> None:
    assert McpSettings.from_env({}) == McpSettings(allow_write=False, connector=False, public_url="", timeout_s=30)


def test_all_may_be_set() -> None:
    environ = {
        "KNOWLEDGE_MCP_ALLOW_WRITE": "yes",
        "KNOWLEDGE_MCP_CONNECTOR": " 1 ",
        "KNOWLEDGE_MCP_PUBLIC_URL": "https://docs.example/kb/",
        "KNOWLEDGE_MCP_TIMEOUT_S": "2.5",
    }
    expected = McpSettings(allow_write=True, connector=True, public_url="https://docs.example/kb", timeout_s=2.5)
    assert McpSettings.from_env(environ) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALLOW_WRITE", "perhaps"),
        ("CONNECTOR", "2"),
        ("TIMEOUT_S", "soon"),
        ("TIMEOUT_S", "0"),
        ("TIMEOUT_S", "nan"),
        ("PUBLIC_URL", "docs.example"),
        ("PUBLIC_URL", "ftp://docs.example"),
        ("PUBLIC_URL", "https://user:hush-hush@docs.example"),
        ("PUBLIC_URL", "https://docs.example?x=1"),
        ("PUBLIC_URL", "https://[docs"),
        ("PUBLIC_URL", "https://docs\x01"),
    ],
)
def test_what_is_wrong_is_told_by_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"KNOWLEDGE_MCP_{name}") as caught:
        McpSettings.from_env({f"KNOWLEDGE_MCP_{name}": value})
    assert "hush" not in str(caught.value)


def test_the_transport_is_found_by_its_name_and_says_what_may_be_set() -> None:
    transport = find_transport("mcp")
    assert transport.name == "MCP"
    assert list(transport.settings()) == ["allow_write", "connector", "public_url", "timeout_s"]


def test_it_is_mounted_for_whoever_may_read() -> None:
    found = collect_extensions({}, environ={})
    assert found.problems == ()
    assert (found.mounts["/mcp"].scope, found.agent_tools) == ("read", {})


def test_what_is_wrong_with_the_environment_is_told_when_it_is_mounted() -> None:
    (mount,) = plugin.knowledge_mounts({}, {"KNOWLEDGE_MCP_TIMEOUT_S": "soon"})
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_MCP_TIMEOUT_S"):
        mount["app"]()


def test_the_package_gives_its_names_and_no_others() -> None:
    assert set(knowledge_mcp.__all__) <= set(dir(knowledge_mcp))
    for name in knowledge_mcp.__all__:
        assert getattr(knowledge_mcp, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        knowledge_mcp.nothing  # noqa: B018


def test_saying_what_there_is_imports_neither_the_sdk_nor_pydantic() -> None:
    code = (
        "import sys, knowledge_mcp.plugin as p; p.knowledge_transport(); p.knowledge_mounts({}, {}); "
        "p.knowledge_commands(); print(sorted({'mcp', 'pydantic', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
