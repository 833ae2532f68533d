"""Entries as documents: what is searched, cited and read of them."""

from __future__ import annotations

from pydantic import JsonValue

from knowledge_engine.frontmatter import compose_document
from knowledge_hub.entries import Entry

_TITLE_CHARS = 250


def document_of(entry: Entry) -> bytes:
    """Markdown: the scenario as title, and as first paragraph where a title cannot hold it; then the content.

    Counts are not in it: feedback changes no document.
    """
    title = title_of(entry.scenario)
    metadata: dict[str, JsonValue] = {"title": title, "type": list(entry.tags.type)}
    if entry.source.urls:
        metadata["urls"] = list(entry.source.urls)
    if entry.source.agent_id:
        metadata["agent_id"] = entry.source.agent_id
    metadata["created_at"] = entry.created_at
    metadata["entry_version"] = entry.version
    first = "" if title == entry.scenario.strip() else f"{_plain(entry.scenario)}\n\n"
    return compose_document(metadata, f"{first}{_plain(entry.content)}\n")


def title_of(scenario: str) -> str:
    """The first words of a scenario, on one line."""
    return " ".join(_plain(scenario)[: 2 * _TITLE_CHARS].split())[:_TITLE_CHARS].rstrip()


def _plain(text: str) -> str:
    # A NUL makes no word, and many of them make a document that is none.
    return text.replace("\0", " ")
