"""What agents learn: entries, feedback, search, and a slimmer hub.

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_hub.entries import Entry, EntryUpdate, Feedback, NewEntry
    from knowledge_hub.opening import create_hub, open_hub
    from knowledge_hub.service import HubService
    from knowledge_hub.settings import HubSettings
    from knowledge_hub.store import EntryStore

_HOMES = {
    "Entry": "knowledge_hub.entries",
    "EntryStore": "knowledge_hub.store",
    "EntryUpdate": "knowledge_hub.entries",
    "Feedback": "knowledge_hub.entries",
    "HubService": "knowledge_hub.service",
    "HubSettings": "knowledge_hub.settings",
    "NewEntry": "knowledge_hub.entries",
    "create_hub": "knowledge_hub.opening",
    "open_hub": "knowledge_hub.opening",
}

__all__ = [
    "Entry",
    "EntryStore",
    "EntryUpdate",
    "Feedback",
    "HubService",
    "HubSettings",
    "NewEntry",
    "create_hub",
    "open_hub",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
