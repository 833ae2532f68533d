"""The tool blocks of ai-templates: names, topics and parameters are a contract, and the texts have to fit a prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.agent_tools import GUIDANCE, AgentTools, device_tool_specs, template_blocks, tool_template
from knowledge_engine.agent_tools.templates import MAX_PROMPT_CHARS, TOPICS
from knowledge_engine.errors import InvalidArgumentError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.service import KnowledgeService

ALL = ("list", "get", "query")


def without_descriptions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_descriptions(item) for key, item in value.items() if key != "description"}
    return value


def descriptions(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return []
    own = [text] if isinstance(text := value.get("description"), str) else []
    return own + [text for item in value.values() for text in descriptions(item)]


def test_the_yaml_has_the_contracted_names_topics_and_parameters() -> None:
    assert without_descriptions(yaml.safe_load(tool_template())) == {
        "list_device_knowledge": {
            "topic": "app_knowledge.list",
            "parameters": {
                "type": "object",
                "properties": {
                    "protocol": {"type": "string"},
                    "equipment_type": {"type": "string"},
                    "query": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
        "get_device_knowledge": {
            "topic": "app_knowledge.get",
            "parameters": {
                "type": "object",
                "properties": {"doc_id": {"type": "string"}, "section": {"type": "string"}},
                "required": ["doc_id"],
                "additionalProperties": False,
            },
        },
    }


def test_the_query_tool_comes_on_request_with_its_topic() -> None:
    blocks = yaml.safe_load(tool_template(ALL))
    assert list(blocks) == ["list_device_knowledge", "get_device_knowledge", "query_device_knowledge"]
    assert blocks["query_device_knowledge"]["topic"] == "app_knowledge.query"
    assert blocks["query_device_knowledge"]["parameters"]["required"] == ["query"]


@pytest.mark.parametrize("tools", [("list",), ("get", "list"), ALL])
def test_the_yaml_says_what_the_blocks_say_word_for_word(tools: tuple[str, ...]) -> None:
    loaded = yaml.safe_load(tool_template(tools))
    assert loaded == template_blocks(tools)
    assert list(loaded) == list(template_blocks(tools))
    assert all(descriptions(loaded))


def test_the_blocks_are_indented_to_stand_below_a_templates_tools() -> None:
    pasted = f"agents:\n  main:\n    tools:\n{tool_template()}".replace("\n    ", "\n      ").replace(
        "      tools", "    tools"
    )
    assert list(yaml.safe_load(pasted)["agents"]["main"]["tools"]) == ["list_device_knowledge", "get_device_knowledge"]
    lines = tool_template().splitlines()
    assert all(line.startswith("    ") for line in lines if line)
    assert max(map(len, lines)) <= 116


def test_the_guidance_stands_before_the_blocks_as_a_comment() -> None:
    comment = [line.strip().removeprefix("# ") for line in tool_template().splitlines() if line.strip().startswith("#")]
    assert GUIDANCE in " ".join(comment)


def test_guidance_and_descriptions_together_fit_the_prompt_of_a_template() -> None:
    said = sum(map(len, descriptions(template_blocks(ALL)))) + len(GUIDANCE)
    assert said < MAX_PROMPT_CHARS == 5_000
    assert len(GUIDANCE) < 1_000


def test_the_guidance_asks_for_the_four_things_that_agents_have_to_do() -> None:
    for part in ("list_device_knowledge", "get_device_knowledge", "remember", "unverified", "If no document fits"):
        assert part in GUIDANCE


def test_topics_can_be_given_by_any_name_of_the_tool() -> None:
    blocks = template_blocks(topics={"list": "plc.docs.list", "get_device_knowledge": "plc.docs.get"})
    assert [block["topic"] for block in blocks.values()] == ["plc.docs.list", "plc.docs.get"]
    assert TOPICS["list"] == "app_knowledge.list"


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_every_topic_comes_out_as_it_went_in_or_is_refused(topic: str) -> None:
    try:
        text = tool_template(["list"], {"list": topic})
    except InvalidArgumentError:
        return
    assert yaml.safe_load(text)["list_device_knowledge"]["topic"] == topic


@pytest.mark.parametrize("topic", ["", " ", "a..b", ".a", "a.", "a b", "a#b", "a\nb", "a\u200bb"])
def test_what_no_router_takes_is_no_topic(topic: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is no topic"):
        template_blocks(topics={"list": topic})


@pytest.mark.parametrize("topic", ["True", "NO", "Null", "yes", "null", "on", "1", "1.5", "a:b", "true", "ä.ö", "[x]"])
def test_topics_that_yaml_would_read_as_something_else_are_quoted(topic: str) -> None:
    assert yaml.safe_load(tool_template(["list"], {"list": topic}))["list_device_knowledge"]["topic"] == topic


def test_unknown_tools_and_topics_of_tools_left_out_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Unknown tool 'lst'"):
        template_blocks(["lst"])
    with pytest.raises(InvalidArgumentError, match="Unknown tool 'lst'"):
        template_blocks(topics={"lst": "a.b"})
    with pytest.raises(InvalidArgumentError, match="not among the tools"):
        template_blocks(topics={"query": "a.b"})


def test_changing_a_block_changes_no_later_one() -> None:
    template_blocks()["get_device_knowledge"]["parameters"]["required"].clear()
    assert template_blocks()["get_device_knowledge"]["parameters"]["required"] == ["doc_id"]


def test_model_apis_get_the_same_tools_without_topics() -> None:
    blocks = template_blocks(ALL)
    for spec, (name, block) in zip(device_tool_specs("openai", ALL), blocks.items(), strict=True):
        function = {"name": name, "description": block["description"], "parameters": block["parameters"]}
        assert spec == {"type": "function", "function": function}
    for spec, (name, block) in zip(device_tool_specs("anthropic", ALL), blocks.items(), strict=True):
        assert spec == {"name": name, "description": block["description"], "input_schema": block["parameters"]}
    assert [spec["title"] for spec in device_tool_specs("json-schema")] == list(blocks)[:2]
    assert "topic" not in json.dumps(device_tool_specs("json-schema", ALL))
    with pytest.raises(InvalidArgumentError, match="openai, anthropic, json-schema"):
        device_tool_specs("yaml")


def test_the_tools_are_called_by_the_names_of_the_blocks() -> None:
    tools = AgentTools(KnowledgeService(MemoryProvider({"a.md": b"A valve leaks."})))
    assert tools.call("list_device_knowledge", {"protocol": "any"})["count"] == 1
    assert tools.call("get_device_knowledge", {"doc_id": "a.md"})["found"] is True
    assert tools.call("query_device_knowledge", {"query": "valve", "top_k": 3})["count"] == 1
