"""`knowledge tools` prints what an app or a model's API takes as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from knowledge_engine.agent_tools import GUIDANCE, device_tool_specs, template_blocks, tool_template
from knowledge_engine.cli.root import knowledge


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(knowledge, ["tools", *arguments])


def output(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_by_default_the_two_blocks_of_an_ai_template_are_printed() -> None:
    assert output() == output("--format", "ai-template") == tool_template()
    assert yaml.safe_load(output()) == template_blocks()


def test_topics_and_tools_are_chosen() -> None:
    blocks = yaml.safe_load(output("--tools", "list, query", "--topic", "list=a.b", "--topic", "query = c.d"))
    assert {name: block["topic"] for name, block in blocks.items()} == {
        "list_device_knowledge": "a.b",
        "query_device_knowledge": "c.d",
    }


@pytest.mark.parametrize("form", ["openai", "anthropic", "json-schema"])
def test_model_apis_get_a_json_array(form: str) -> None:
    assert json.loads(output("--format", form, "--tools", "get,list")) == device_tool_specs(form, ["get", "list"])


def test_guidance_comes_alone() -> None:
    assert output("--guidance") == f"{GUIDANCE}\n"
    assert json.loads(output("--guidance", "--json")) == {"guidance": GUIDANCE}


def test_json_mode_gives_the_blocks_and_the_guidance_as_json() -> None:
    answer: Any = json.loads(output("--json"))
    assert answer == {"tools": template_blocks(), "guidance": GUIDANCE}
    assert json.loads(output("--json", "--format", "openai")) == device_tool_specs("openai")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tools", "delete"], "Unknown tool 'delete'"),
        (["--tools", " , "], "Name some"),
        (["--topic", "list"], "Write TOOL=TOPIC"),
        (["--topic", "list=a b"], "is no topic"),
        (["--topic", "query=a.b"], "not among the tools"),
        (["--topic", "list=a.b", "--format", "openai"], "has no place"),
        (["--format", "toml"], "ai-template"),
    ],
)
def test_a_wrong_call_is_wrong_usage_and_says_what_is_right(arguments: list[str], said: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 64
    assert said in result.stderr
    assert result.stdout == ""
