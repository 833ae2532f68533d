"""The tools as what servers offer to agents, over MCP say; nothing heavy is imported before a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge_engine.hookspecs import hookimpl

_VARIABLES = ("KNOWLEDGE_HUB_URL", "KNOWLEDGE_HUB_PATH")


@hookimpl
def knowledge_agent_tools(environ: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """The six tools, where a hub is named."""
    if not any(environ.get(variable, "").strip() for variable in _VARIABLES):
        return []
    from knowledge_hub.tools.serving import served_tools

    return served_tools(environ)
