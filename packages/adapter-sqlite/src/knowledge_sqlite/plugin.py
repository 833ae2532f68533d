"""What the engine's registry sees of this adapter; nothing heavy is imported before a backend is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from knowledge_engine.hookspecs import hookimpl

if TYPE_CHECKING:
    from knowledge_engine.ports import IKnowledgeProvider


@hookimpl
def knowledge_backend() -> Mapping[str, Any]:
    """See `knowledge_engine.hookspecs`."""
    return {
        "name": "SQLite",
        "description": "Documents and their index in one SQLite file, for several processes at once",
        "url_schemes": ["sqlite"],
        "settings": [
            {
                "name": "KNOWLEDGE_SQLITE_PATH",
                "description": "The file, or :memory:",
                "default": "knowledge.db",
                "in_url": True,
            },
            {
                "name": "KNOWLEDGE_SQLITE_BUSY_TIMEOUT_S",
                "description": "How long to wait for another writer, in seconds",
                "default": "5",
            },
            {"name": "KNOWLEDGE_SQLITE_READ_ONLY", "description": "Write nothing, not even beside it", "flag": True},
            {
                "name": "KNOWLEDGE_SQLITE_SYNCHRONOUS",
                "description": "normal: a crash of the machine may lose the last commits; full: it does not",
                "default": "normal",
            },
            {
                "name": "KNOWLEDGE_SQLITE_INDEXED_KEYS",
                "description": "Metadata keys that are often filtered by, with commas between them; each gets an index",
            },
            {
                "name": "KNOWLEDGE_SQLITE_WORKERS",
                "description": "How many processes may help with a long import; 0: none (default: one a processor)",
            },
        ],
    }


@hookimpl
def knowledge_open(url: str | None, environ: Mapping[str, str]) -> IKnowledgeProvider:
    """`sqlite` takes the file from the environment; `sqlite:///relative.db` and `sqlite:////absolute.db` name it."""
    from knowledge_sqlite.adapter import SqliteKnowledgeAdapter
    from knowledge_sqlite.settings import SqliteSettings

    return SqliteKnowledgeAdapter(SqliteSettings.from_env(environ, url))


@hookimpl
def knowledge_commands() -> Mapping[str, Mapping[str, str]]:
    """See `knowledge_engine.hookspecs`."""
    commands = "knowledge_sqlite.commands"
    return {
        "check": {
            "command": f"{commands}:check",
            "help": "Check that a SQLite database is whole, and repair its index.",
        },
        "backup": {"command": f"{commands}:backup", "help": "Copy a SQLite database while it is in use."},
        "restore": {
            "command": f"{commands}:restore",
            "help": "Put a backup in the place of what a SQLite database holds.",
        },
    }
