"""The tools for a host that calls them from threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from knowledge_hub.tools.knowledge import HubTools, open_tools
from knowledge_hub.tools.specs import TOOLS, call_tool, description_of, parameters_of, scope_of


def served_tools(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """See `knowledge_engine.hookspecs.knowledge_agent_tools`; all of them share one hub.

    Raises:
        ConfigurationError: Naming the variable that is wrong.
    """
    tools = open_tools(environ)
    return [
        {
            "name": name,
            "description": description_of(name),
            "parameters": parameters_of(name),
            "scope": scope_of(name),
            "call": _caller(tools, name),
        }
        for name in TOOLS
    ]


def _caller(tools: HubTools, name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def call(arguments: dict[str, Any]) -> dict[str, Any]:
        answer = asyncio.run(call_tool(name, arguments, tools=tools))
        told: dict[str, Any] = {"title": answer.title, "output": answer.output, "metadata": answer.metadata}
        if answer.failed:
            # How servers know a failure.
            error = answer.metadata["error"]
            told |= {"error": error["message"], "code": error["code"], "mend": error["mend"]}
        return told

    return call
