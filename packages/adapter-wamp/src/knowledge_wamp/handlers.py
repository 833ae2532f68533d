"""The agent tools as WAMP handlers: coroutines that never raise and answer plain dicts in bounded time and size."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

from pydantic import JsonValue

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.errors import ProviderError, TooLargeError, wire_error
from knowledge_engine.lanes import Lane, run_in_lane
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.service import KnowledgeService
from knowledge_wamp.wire import clean, json_bytes

Answer = dict[str, JsonValue]
Handler = Callable[..., Awaitable[Answer]]
Tool = Callable[..., Any]

TOOLS = ("list", "get", "query")
MAX_ANSWER_BYTES = 1_000_000
_DEFAULT_TIMEOUT_S = 30.0
_MAX_CONCURRENT = 8
_EMPTY: Mapping[str, Answer] = {
    "list": {"count": 0, "docs": [], "hint": ""},
    "get": {"found": False, "suggestions": [], "available_ids": [], "hint": ""},
    "query": {"count": 0, "hits": [], "hint": ""},
}
_log = logging.getLogger("knowledge_wamp")


@runtime_checkable
class HasTools(Protocol):
    """Such as `knowledge_files.KnowledgeLibrary`."""

    @property
    def tools(self) -> AgentTools:
        """The agent tools over what it holds."""
        ...


def make_lane(name: str) -> Lane:
    """Where the calls of one server run: they block, and the event loop must not."""
    return Lane(name, max_concurrent=_MAX_CONCURRENT, max_abandoned=_MAX_CONCURRENT)


def find_tools(given: object) -> Mapping[str, Tool]:
    """The tools of a library, a service, a provider, or of `AgentTools` themselves, by their short names.

    Raises:
        TypeError: For anything else.
    """
    if isinstance(given, AgentTools):
        tools = given
    elif isinstance(given, HasTools):
        # Looked up at each call: a library that is loaded again has others then.
        return {name: partial(_call_tool, given, name) for name in TOOLS}
    elif isinstance(given, KnowledgeService):
        tools = AgentTools(given)
    elif isinstance(given, IKnowledgeProvider):
        tools = AgentTools(KnowledgeService(given))
    else:
        raise TypeError(f"a {type(given).__name__} is no library and no provider")
    return {name: getattr(tools, name) for name in TOOLS}


def _call_tool(library: HasTools, name: str, /, *args: object, **kwargs: object) -> object:
    return getattr(library.tools, name)(*args, **kwargs)


def tool_handler(
    name: str,
    tool: Tool,
    lane: Lane,
    *,
    timeout_s: float = _DEFAULT_TIMEOUT_S,
    max_bytes: int = MAX_ANSWER_BYTES,
) -> Handler:
    """A handler for one tool. Arguments come by name, or as one object in the first place, or in the tool's order.

    It raises nothing but CancelledError, when its caller gave up.
    """

    async def handler(*args: object, **kwargs: object) -> Answer:
        try:
            return await run_in_lane(lane, partial(_answer, name, tool, args, kwargs, max_bytes), timeout_s)
        except Exception as error:
            return failure(name, error)

    return handler


def failure(name: str, error: Exception) -> Answer:
    """The usual answer of a tool, without findings, that says what went wrong."""
    wire = wire_error(error)
    answer: Answer = {**_EMPTY[name], "error": wire["message"], "code": wire["code"], "mend": wire["mend"]}
    if wire["id"]:
        answer["error_id"] = wire["id"]
    return {key: clean(value) for key, value in answer.items()}


def by_name(args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[tuple[object, ...], dict[str, object]]:
    """Takes one object in the first place as the keywords, as clients write it that know none."""
    first = args[0] if len(args) == 1 else None
    if isinstance(first, Mapping) and all(isinstance(key, str) for key in first):
        return (), {**first, **kwargs}
    return args, kwargs


def _answer(name: str, tool: Tool, args: tuple[object, ...], kwargs: dict[str, object], max_bytes: int) -> Answer:
    args, kwargs = by_name(args, kwargs)
    answer = _called(tool, args, kwargs)
    while (size := json_bytes(answer)) > max_bytes:
        shorter = _shorter(name, answer)
        if shorter is None:
            raise TooLargeError(f"The answer has {size} bytes", mend="Ask for less: a section, or fewer at once.")
        kwargs = {**kwargs, **shorter}
        answer = _called(tool, args, kwargs)
    return answer


def _called(tool: Tool, args: tuple[object, ...], kwargs: dict[str, object]) -> Answer:
    answer = clean(tool(*args, **kwargs))
    if not isinstance(answer, dict):
        raise ProviderError(f"A tool answered with a {type(answer).__name__}", mend="Report it to its makers.")
    return answer


def _shorter(name: str, answer: Answer) -> dict[str, object] | None:
    """Arguments that make an answer of about half the length; None where there are none."""
    found = answer.get("docs" if name == "list" else "hits")
    if name == "get" or not isinstance(found, list) or len(found) < 2:
        return None
    return {"limit" if name == "list" else "top_k": len(found) // 2}
