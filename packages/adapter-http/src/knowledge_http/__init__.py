"""Knowledge over HTTP: a server for one or several backends, and the backend that calls such a server.

Names are loaded when they are first used: the server's libraries only by what serves, the client's by what calls.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_http.client import HttpKnowledgeAdapter, create_standalone_http_adapter
    from knowledge_http.server import create_app
    from knowledge_http.settings import HttpSettings

_HOMES = {
    "HttpKnowledgeAdapter": "knowledge_http.client.adapter",
    "HttpSettings": "knowledge_http.settings",
    "create_app": "knowledge_http.server.app",
    "create_standalone_http_adapter": "knowledge_http.client.adapter",
}

__all__ = ["HttpKnowledgeAdapter", "HttpSettings", "create_app", "create_standalone_http_adapter"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
