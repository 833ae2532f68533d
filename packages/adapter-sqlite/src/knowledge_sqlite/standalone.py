"""The adapter by itself, wired from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from knowledge_sqlite.adapter import SqliteKnowledgeAdapter
from knowledge_sqlite.settings import SqliteSettings


def create_standalone_sqlite_adapter(environ: Mapping[str, str] = os.environ) -> SqliteKnowledgeAdapter:
    """An adapter from `KNOWLEDGE_SQLITE_*` alone.

    Raises:
        ConfigurationError: Naming the variable that is wrong.
    """
    return SqliteKnowledgeAdapter(SqliteSettings.from_env(environ))
