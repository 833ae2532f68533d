"""Answers of tools as the protocol wants them: structured, as the same JSON in text, with links to the documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent

from knowledge_engine.agent_tools.guard import error_keys
from knowledge_engine.agent_tools.plain import plain
from knowledge_engine.agent_tools.rendering import Answer
from knowledge_engine.agent_tools.tools import NO_DOCUMENT, NO_DOCUMENTS, NO_HITS
from knowledge_mcp.uris import media_type, uri_of

#: Links in one result: each costs the model as much as a line of text.
MAX_LINKS = 20
#: By tool: its answer without findings.
_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "list": NO_DOCUMENTS,
    "get": NO_DOCUMENT,
    "query": NO_HITS,
    "status": {"status": "down", "index": {"state": "stale", "documents": 0}, "issues": [], "skipped": []},
    "ingest": {"stored": False},
    "delete": {"deleted": False},
    "search": {"results": []},
    "fetch": {"id": "", "title": "", "text": "", "url": ""},
}


def result_of(name: str, answer: Answer) -> CallToolResult:
    """The result that carries an answer; an error, if the answer tells of one."""
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    content: list[ContentBlock] = [TextContent(text=text)]
    content += _links(name, answer)
    return CallToolResult(content=content, structured_content=answer, is_error="error" in answer)


def failure_of(name: str, error: Exception) -> Answer:
    """A tool's usual answer without findings, and what went wrong."""
    answer = plain({**_EMPTY.get(name, {}), **error_keys(error)})
    assert isinstance(answer, dict), "plain keeps mappings"
    return answer


def _links(name: str, answer: Answer) -> Iterator[ResourceLink]:
    """To the documents that hits are from, or to the one that was read: only where there is something behind."""
    if name == "get" and answer.get("found") is True:
        yield _link(str(answer["source_id"]), str(answer["title"]))
    hits = answer.get("hits")
    if name == "query" and isinstance(hits, list):
        titles = {str(hit["source_id"]): str(hit["title"]) for hit in hits if isinstance(hit, dict)}
        for source_id in list(titles)[:MAX_LINKS]:
            yield _link(source_id, titles[source_id])


def _link(source_id: str, title: str) -> ResourceLink:
    return ResourceLink(uri=uri_of(source_id), name=source_id, title=title, mime_type=media_type(source_id))
