"""Tools for agents over a hub, here or elsewhere: search, save, rate, list, slim, and goals that bring what is known.

The six functions take the hub that the environment names: `KNOWLEDGE_HUB_URL` with `KNOWLEDGE_HUB_TOKEN`, else the file
`KNOWLEDGE_HUB_PATH`. `HubTools` is the same over a hub that a host names. Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_hub.tools.functions import (
        close_tools,
        knowledge_batch_update,
        knowledge_list,
        knowledge_save,
        knowledge_search,
        knowledge_slim,
        knowledge_update,
    )
    from knowledge_hub.tools.goal_tool import GoalTool, focus_goal
    from knowledge_hub.tools.goals import Goal, GoalTree
    from knowledge_hub.tools.knowledge import HubTools, open_tools
    from knowledge_hub.tools.local import LocalHub
    from knowledge_hub.tools.ports import HubPort, TraceStore
    from knowledge_hub.tools.remote import RemoteHub
    from knowledge_hub.tools.results import ToolResult
    from knowledge_hub.tools.settings import HubAddress
    from knowledge_hub.tools.specs import call_tool, tool_specs
    from knowledge_hub.tools.texts import guidance, research_skill
    from knowledge_hub.tools.trace_store import JsonTraceStore

_MODULES = {
    "functions": (
        "close_tools",
        "knowledge_batch_update",
        "knowledge_list",
        "knowledge_save",
        "knowledge_search",
        "knowledge_slim",
        "knowledge_update",
    ),
    "goal_tool": ("GoalTool", "focus_goal"),
    "goals": ("Goal", "GoalTree"),
    "knowledge": ("HubTools", "open_tools"),
    "local": ("LocalHub",),
    "ports": ("HubPort", "TraceStore"),
    "remote": ("RemoteHub",),
    "results": ("ToolResult",),
    "settings": ("HubAddress",),
    "specs": ("call_tool", "tool_specs"),
    "texts": ("guidance", "research_skill"),
    "trace_store": ("JsonTraceStore",),
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "Goal",
    "GoalTool",
    "GoalTree",
    "HubAddress",
    "HubPort",
    "HubTools",
    "JsonTraceStore",
    "LocalHub",
    "RemoteHub",
    "ToolResult",
    "TraceStore",
    "call_tool",
    "close_tools",
    "focus_goal",
    "guidance",
    "knowledge_batch_update",
    "knowledge_list",
    "knowledge_save",
    "knowledge_search",
    "knowledge_slim",
    "knowledge_update",
    "open_tools",
    "research_skill",
    "tool_specs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
