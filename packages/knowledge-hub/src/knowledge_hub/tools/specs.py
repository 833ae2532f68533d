"""The tools as model APIs and hosts want them, and calls by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from knowledge_engine.agent_tools.specs import spec
from knowledge_engine.errors import InvalidArgumentError
from knowledge_hub.entries import KINDS, MAX_LIST, MAX_TOP_K
from knowledge_hub.settings import SLIMMING_MODEL
from knowledge_hub.tools.goal_tool import ACTIONS, GoalTool
from knowledge_hub.tools.knowledge import HubTools
from knowledge_hub.tools.results import ToolResult, failure

_KINDS: dict[str, Any] = {"type": "array", "items": {"type": "string", "enum": list(KINDS)}}
_SCORE: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 5}
_CASE: dict[str, Any] = {
    "type": "object",
    "properties": {key: {"type": "string"} for key in ("case_id", "scenario", "result")},
    "description": "One use of the entry: its name, the situation, and what came of it.",
}


class _Tool(NamedTuple):
    description: str
    properties: dict[str, Any]
    required: tuple[str, ...]
    scope: str


_TOOLS: Mapping[str, _Tool] = {
    "knowledge_search": _Tool(
        "Searches what agents have learned before. Use it before you start on something, and before you research.",
        {
            "query": {"type": "string", "minLength": 1, "description": "What you want to know or do."},
            "top_k": {"type": "integer", "minimum": 1, "maximum": MAX_TOP_K, "default": 5},
            "min_score": {"type": "integer", "minimum": 0, "maximum": 5, "default": 3},
            "tags_type": {**_KINDS, "description": "Only entries of these types."},
        },
        ("query",),
        "read",
    ),
    "knowledge_save": _Tool(
        "Saves something that you learned and that will help others. One thing for each entry.",
        {
            "scenario": {"type": "string", "description": "In which situation, and to what end."},
            "content": {"type": "string", "description": "What is known now: steps, facts, code."},
            "tags_type": {**_KINDS, "description": "What kind of knowledge it is."},
            "urls": {"type": "array", "items": {"type": "string"}, "description": "Where it comes from."},
            "agent_id": {"type": "string", "default": "research_agent"},
            "score": {**_SCORE, "default": 3, "description": "How sure it is: 5 was tried and works."},
            "message_id": {"type": "string", "default": "", "description": "The message that it was learned from."},
        },
        ("scenario", "content", "tags_type"),
        "write",
    ),
    "knowledge_update": _Tool(
        "Says how one entry did: a use that it helped or harmed, a new rating, or how it should be rewritten.",
        {
            "knowledge_id": {"type": "string"},
            "add_helpful_case": _CASE,
            "add_harmful_case": _CASE,
            "update_score": _SCORE,
            "evolve_feedback": {"type": "string", "description": "What should be better; it is then written anew."},
        },
        ("knowledge_id",),
        "write",
    ),
    "knowledge_batch_update": _Tool(
        "Says of several entries whether they were of use. Do so when you have finished.",
        {
            "feedback_list": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "knowledge_id": {"type": "string"},
                        "is_effective": {"type": "boolean"},
                        "feedback": {"type": "string", "description": "What should be better."},
                    },
                    "required": ["knowledge_id", "is_effective"],
                },
            }
        },
        ("feedback_list",),
        "write",
    ),
    "knowledge_list": _Tool(
        "Lists the entries that were saved last.",
        {"limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIST, "default": 10}, "tags_type": _KINDS},
        (),
        "read",
    ),
    "knowledge_slim": _Tool(
        "Merges entries that say the same. Only when you are asked to.",
        {"model": {"type": "string", "default": SLIMMING_MODEL, "description": "`none` for a fixed rule."}},
        (),
        "admin",
    ),
}
_GOAL = _Tool(
    "Plans your work as a tree of goals. `focus` also shows what is known about the goal.",
    {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "goal_id": {"type": "string", "description": "By default the goal in focus; of `add`, the parent."},
        "description": {"type": "string", "description": "Of `add`: what is to be reached."},
        "sub_goals": {"type": "array", "items": {"type": "string"}, "description": "Parts of the goal."},
        "summary": {"type": "string", "description": "Of `complete` and `abandon`: how it ended."},
    },
    ("action",),
    "write",
)
#: The tools' names.
TOOLS: tuple[str, ...] = tuple(_TOOLS)


def tool_specs(dialect: str, tools: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The tools as a model API wants them; the caller owns the result.

    Args:
        dialect: `openai`, `anthropic` or `json-schema`, see `knowledge_engine.agent_tools.tool_specs`.
        tools: Some of `TOOLS` and `goal`, in that order; by default the six of the hub.

    Raises:
        InvalidArgumentError: For an unknown dialect or tool.
    """
    return [spec(dialect, name, _of(name).description, parameters_of(name)) for name in (tools or TOOLS)]


def parameters_of(name: str) -> dict[str, Any]:
    """The JSON schema of a tool's arguments; the caller owns it.

    Raises:
        InvalidArgumentError: For an unknown tool.
    """
    tool = _of(name)
    return {
        "type": "object",
        "properties": deepcopy(tool.properties),
        "required": list(tool.required),
        "additionalProperties": False,
    }


def description_of(name: str) -> str:
    """What a tool is for."""
    return _of(name).description


def scope_of(name: str) -> str:
    """What a caller must be allowed: `read`, `write` or `admin`."""
    return _of(name).scope


async def call_tool(
    name: str, arguments: Mapping[str, Any], *, tools: HubTools, goal: GoalTool | None = None
) -> ToolResult:
    """Calls a tool by its name with what a model wrote; never raises."""
    try:
        taken = _of(name)
        if name == "goal" and goal is None:
            raise _unknown(name)
        if not isinstance(arguments, Mapping):
            raise InvalidArgumentError("The arguments are no object", mend="Send a JSON object.")
        if odd := sorted(str(key)[:40] for key in set(arguments) - set(taken.properties)):
            raise InvalidArgumentError(
                f"{name} takes no {', '.join(odd[:5])}", mend=f"It takes {', '.join(taken.properties)}."
            )
        if missing := [key for key in taken.required if key not in arguments]:
            raise InvalidArgumentError(f"{name} needs {', '.join(missing)}", mend="Send it too.")
    except InvalidArgumentError as error:
        return failure("Not called", error)
    # What a model leaves out it often writes as null.
    given = {key: value for key, value in arguments.items() if value is not None or key in taken.required}
    answer: ToolResult = await getattr(goal if name == "goal" else tools, name)(**given)
    return answer


def _of(name: str) -> _Tool:
    found = _GOAL if name == "goal" else _TOOLS.get(name)
    if found is None:
        raise _unknown(name)
    return found


def _unknown(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"There is no tool {str(name)[:60]!r}", mend=f"Use one of {', '.join(TOOLS)}.")
