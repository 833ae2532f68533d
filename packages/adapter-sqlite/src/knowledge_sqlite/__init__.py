"""Knowledge in one SQLite file: `SqliteKnowledgeAdapter` and what it is made of.

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_sqlite.adapter import SqliteKnowledgeAdapter
    from knowledge_sqlite.settings import SqliteSettings
    from knowledge_sqlite.standalone import create_standalone_sqlite_adapter

_HOMES = {
    "SqliteKnowledgeAdapter": "knowledge_sqlite.adapter",
    "SqliteSettings": "knowledge_sqlite.settings",
    "create_standalone_sqlite_adapter": "knowledge_sqlite.standalone",
}

__all__ = ["SqliteKnowledgeAdapter", "SqliteSettings", "create_standalone_sqlite_adapter"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
