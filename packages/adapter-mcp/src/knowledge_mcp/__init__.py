"""Knowledge over the Model Context Protocol: tools and resources for agents, on standard input and output or over HTTP.

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_mcp.mounting import create_app
    from knowledge_mcp.server import create_server
    from knowledge_mcp.settings import McpSettings
    from knowledge_mcp.skill import write_skill

_HOMES = {
    "McpSettings": "knowledge_mcp.settings",
    "create_app": "knowledge_mcp.mounting",
    "create_server": "knowledge_mcp.server",
    "write_skill": "knowledge_mcp.skill",
}

__all__ = ["McpSettings", "create_app", "create_server", "write_skill"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
