from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.agent_tools.specs import DIALECTS, TOOL_NAMES, tool_specs
from knowledge_engine.errors import InvalidArgumentError


def schema_of(dialect: str, spec: dict[str, Any]) -> dict[str, Any]:
    if dialect == "openai":
        return dict(spec["function"]["parameters"])
    return dict(spec["input_schema"] if dialect == "anthropic" else spec)


def name_of(spec: dict[str, Any]) -> str:
    return str(spec.get("name") or spec.get("title") or spec["function"]["name"])


def test_openai_tools_are_functions_with_parameters() -> None:
    spec = tool_specs("openai")[0]
    assert set(spec) == {"type", "function"}
    assert spec["type"] == "function"
    assert set(spec["function"]) == {"name", "description", "parameters"}


def test_anthropic_tools_have_an_input_schema() -> None:
    assert set(tool_specs("anthropic")[0]) == {"name", "description", "input_schema"}


def test_a_json_schema_names_its_draft_and_its_tool() -> None:
    spec = tool_specs("json-schema")[1]
    assert spec["$schema"].endswith("2020-12/schema")
    assert (spec["title"], spec["type"], spec["required"]) == ("knowledge_get", "object", ["doc_id"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_tools_come_with_names_and_descriptions_that_the_model_apis_take(dialect: str) -> None:
    specs = tool_specs(dialect)
    assert [name_of(spec) for spec in specs] == ["knowledge_list", "knowledge_get", "knowledge_query"]
    for spec in specs:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name_of(spec))
        description = spec["function"]["description"] if dialect == "openai" else spec["description"]
        assert 50 < len(description) < 1024
        assert schema_of(dialect, spec)["type"] == "object"
        json.dumps(spec, allow_nan=False)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_schemas_name_exactly_the_arguments_that_the_tools_take(dialect: str) -> None:
    for spec, short in zip(tool_specs(dialect), TOOL_NAMES, strict=True):
        schema = schema_of(dialect, spec)
        parameters = inspect.signature(getattr(AgentTools, short)).parameters.values()
        named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "self"}
        anything_else = any(p.kind is p.VAR_KEYWORD for p in parameters)
        assert named <= set(schema["properties"])
        assert anything_else or set(schema["properties"]) <= named
        assert bool(schema["additionalProperties"]) is anything_else
        required = {p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
        assert set(schema.get("required", [])) == required - {"self"}


def test_list_takes_any_scalar_as_a_condition() -> None:
    (spec,) = tool_specs("json-schema", ["list"])
    assert spec["additionalProperties"] == {"type": ["string", "number", "boolean"]}


def test_tools_are_chosen_by_short_or_long_name_in_the_order_asked_for() -> None:
    assert [name_of(spec) for spec in tool_specs("anthropic", ["knowledge_query", "list"])] == [
        "knowledge_query",
        "knowledge_list",
    ]
    assert tool_specs("openai", []) == []


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    with pytest.raises(InvalidArgumentError, match="openai, anthropic, json-schema"):
        tool_specs("gemini")


def test_an_unknown_tool_lists_the_known_ones() -> None:
    with pytest.raises(InvalidArgumentError, match="knowledge_list, knowledge_get, knowledge_query"):
        tool_specs("openai", ["delete"])


def test_changing_a_result_changes_no_later_one() -> None:
    tool_specs("anthropic")[0]["input_schema"]["properties"].clear()
    assert "query" in tool_specs("anthropic")[0]["input_schema"]["properties"]
