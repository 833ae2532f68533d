"""Language models for the knowledge kit, by name.

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_llm.endpoints import Endpoint, find_endpoint
    from knowledge_llm.model import LlmModel, Usage
    from knowledge_llm.settings import LlmSettings

_HOMES = {
    "Endpoint": "knowledge_llm.endpoints",
    "LlmModel": "knowledge_llm.model",
    "LlmSettings": "knowledge_llm.settings",
    "Usage": "knowledge_llm.model",
    "find_endpoint": "knowledge_llm.endpoints",
}

__all__ = ["Endpoint", "LlmModel", "LlmSettings", "Usage", "find_endpoint"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
