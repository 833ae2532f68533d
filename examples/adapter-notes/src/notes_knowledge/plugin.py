"""What the engine finds by the entry point: texts and hooks. The provider is imported when it is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from knowledge_engine.hookspecs import hookimpl

if TYPE_CHECKING:
    from notes_knowledge.provider import NotesProvider


@hookimpl
def knowledge_backend() -> Mapping[str, Any]:
    """What people see before anything is opened."""
    return {
        "name": "Notes",
        "description": "Notes in a JSONL file, one JSON object a line",
        "url_schemes": ["notes"],
        "settings": [
            {"name": "KNOWLEDGE_NOTES_PATH", "description": "the JSONL file", "required": True, "in_url": True},
        ],
    }


@hookimpl
def knowledge_open(url: str | None, environ: Mapping[str, str]) -> NotesProvider:
    """`notes:PATH.jsonl`, or `notes` with KNOWLEDGE_NOTES_PATH."""
    from notes_knowledge.provider import NotesProvider

    return NotesProvider(environ["KNOWLEDGE_NOTES_PATH"] if url is None else url.partition(":")[2])
