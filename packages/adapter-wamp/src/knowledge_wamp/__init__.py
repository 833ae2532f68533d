"""Knowledge over WAMP: agent tools as procedures, a server, and the backend that calls one.

Names are loaded when they are first used; autobahn only by what connects.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_wamp.adapter import WampKnowledgeAdapter, create_standalone_wamp_adapter
    from knowledge_wamp.registering import register_knowledge_tools
    from knowledge_wamp.serving import WampServer
    from knowledge_wamp.settings import WampSettings

_HOMES = {
    "WampKnowledgeAdapter": "knowledge_wamp.adapter",
    "WampServer": "knowledge_wamp.serving",
    "WampSettings": "knowledge_wamp.settings",
    "create_standalone_wamp_adapter": "knowledge_wamp.adapter",
    "register_knowledge_tools": "knowledge_wamp.registering",
}

__all__ = [
    "WampKnowledgeAdapter",
    "WampServer",
    "WampSettings",
    "create_standalone_wamp_adapter",
    "register_knowledge_tools",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
