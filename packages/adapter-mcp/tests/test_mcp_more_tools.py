"""What status, ingest, delete, search and fetch answer to calls that are wrong, long or of documents from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Source
from knowledge_engine.service import KnowledgeService
from knowledge_mcp.more_tools import MAX_FETCH_CHARS, MoreTools
from knowledge_mcp.views import HostAccess, Views

DOCS: Mapping[str, bytes] = {
    "guides/käse 1%.md": "# Käse\n\nReife im Keller.\n".encode(),
    "long.md": b"# Long\n\n" + b"word " * MAX_FETCH_CHARS,
    "page.md": b"# Page\n\nfetched\n",
}


class FromTheWeb(MemoryProvider):
    """One of its documents was fetched from elsewhere."""

    def get_source(self, source_id: str) -> Source:
        source = super().get_source(source_id)
        if source_id != "page.md":
            return source
        return source.model_copy(update={"origin": "url", "uri": "https://there.example/page"})


def more(public_url: str = "", *, write: bool = True) -> MoreTools:
    access = HostAccess(write=write)
    return MoreTools(Views({"docs": KnowledgeService(FromTheWeb(DOCS))}, timeout_s=30).view(access), access, public_url)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid-argument"),
        ({"metadata": {"a": 1}, "id": ""}, "invalid-argument"),
        ({"text": "x", "metadata": "text"}, "invalid-argument"),
        ({"text": "x", "kind": "nonsense"}, "not-supported"),
        ({"text": "x", "id": "../../etc/passwd"}, "invalid-id"),
        ({"text": "x", "id": "none.md", "if_match": "0"}, "conflict"),
        ({"text": "x" * 8_000_001}, "too-large"),
        ({"text": "x", "id": "a" * 100_000}, "too-large"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_a_mend(arguments: dict[str, Any], code: str) -> None:
    answer = more().ingest(**arguments)
    assert (answer["stored"], answer["code"]) == (False, code)
    assert answer["mend"]


@pytest.mark.parametrize("given", [{}, {"id": ""}, {"id": None}, {"id": " "}])
def test_an_id_that_is_missing_is_asked_for(given: dict[str, Any]) -> None:
    for tool in (more().delete, more().fetch):
        answer = tool(**given)
        assert answer["code"] in ("invalid-argument", "not-found")
        assert answer["mend"]


def test_a_long_document_is_cut_and_said_to_be() -> None:
    read = more().fetch("long.md")
    assert len(str(read["text"])) == MAX_FETCH_CHARS
    assert read["metadata"] == {"truncated": True, "untrusted": True}


def test_urls_lead_where_the_document_can_be_read() -> None:
    at_home, served = more(), more("https://kb.example/x")
    name = "guides/käse 1%.md"
    assert at_home.fetch(name)["url"] == "knowledge://guides/k%C3%A4se%201%25.md"
    assert served.fetch(name)["url"] == "https://kb.example/x/v1/sources/guides%2Fk%C3%A4se%201%25.md/content"
    assert served.fetch("page.md")["url"] == "https://there.example/page"
    (result,) = served.search("fetched")["results"]  # type: ignore[misc]
    assert result == {"id": "page.md", "title": "Page", "url": "https://there.example/page"}


def test_status_before_anything_was_asked_begins_no_index_and_tells_whether_it_can_be_written() -> None:
    assert more(write=False).status()["writable"] is False
    answer = more().status()
    assert (answer["writable"], answer["backends"], answer["untrusted"]) == (True, [], True)
