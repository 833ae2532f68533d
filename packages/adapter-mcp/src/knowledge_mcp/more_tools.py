"""The tools that `AgentTools` does not have: status, ingest, delete, and the pair that connectors ask for.

They keep the same promise: never an exception, always plain JSON, a failure with `error`, `code` and `mend`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pydantic import JsonValue

from knowledge_engine.agent_tools.arguments import text_argument
from knowledge_engine.agent_tools.guard import never_raises
from knowledge_engine.agent_tools.plain import plain, shorten
from knowledge_engine.agent_tools.rendering import MAX_FIELD_CHARS, Answer, short_metadata
from knowledge_engine.agent_tools.tools import ID_ALIASES
from knowledge_engine.citations import decode
from knowledge_engine.errors import InvalidArgumentError
from knowledge_engine.models import IngestRequest, Query, Source
from knowledge_engine.service import Status
from knowledge_mcp.uris import uri_of
from knowledge_mcp.views import Access, View

#: Issues of documents in one answer, and characters of one message.
MAX_ISSUES = 20
_MAX_MESSAGE_CHARS = 500
#: Characters of a document that `fetch` gives.
MAX_FETCH_CHARS = 200_000
_RESULTS = 10
#: Of a document that is stored.
_MAX_TEXT_CHARS = 8_000_000
_NO_INDEX: Mapping[str, JsonValue] = {"state": "stale", "documents": 0, "skipped": 0, "revision": ""}


class MoreTools:
    """The further tools over one view, for one caller. They block.

    Args:
        public_url: Of an HTTP server of the same documents; empty for none.
    """

    def __init__(self, view: View, access: Access, public_url: str) -> None:
        self._view, self._access, self._public_url = view, access, public_url

    @never_raises({"status": "down", "index": dict(_NO_INDEX), "issues": [], "skipped": []})
    def status(self) -> Answer:
        """How the library is, without waiting for an index that nobody has asked for yet."""
        found = self._status()
        return {
            "backend": found.backend,
            "backends": [*self._view.names] if self._view.joint else [],
            "status": found.status,
            "message": shorten(found.message, _MAX_MESSAGE_CHARS),
            "index": found.index.model_dump(),
            "writable": self._view.writable_by(self._access),
            "details": plain(found.details),
            "issues_total": len(found.issues),
            "issues": [_short(each.model_dump()) for each in found.issues[:MAX_ISSUES]],
            "skipped_total": len(found.skipped),
            "skipped": [_short(each.model_dump()) for each in found.skipped[:MAX_ISSUES]],
            "untrusted": True,
        }

    @never_raises({"stored": False}, {"doc_id": "id", "docId": "id", "ifMatch": "if_match"})
    def ingest(
        self,
        /,
        text: object = None,
        id: object = None,
        title: object = None,
        metadata: object = None,
        uri: object = None,
        kind: object = None,
        if_match: object = None,
    ) -> Answer:
        """Stores a document."""
        given = {
            "text": text_argument("text", text, limit=_MAX_TEXT_CHARS),
            "id": text_argument("id", id),
            "title": text_argument("title", title),
            "uri": text_argument("uri", uri),
            "kind": text_argument("kind", kind) or "text",
            # Empty means something here: there must be none yet.
            "if_match": if_match if if_match == "" else text_argument("if_match", if_match),
        }
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InvalidArgumentError("metadata is no object", mend='Give it as one, such as {"kind": "guide"}.')
        if given["text"] is None and given["uri"] is None and not (given["id"] and metadata):
            raise InvalidArgumentError("There is nothing to store", mend="Give text, or kind url and a uri.")
        self._view.check_writing(self._access, given["id"])
        request = IngestRequest.model_validate({**given, "metadata": plain(metadata or {})})
        source = self._view.service.ingest(request)
        return {
            "stored": True,
            "id": source.id,
            "title": shorten(source.title, MAX_FIELD_CHARS),
            "bytes": source.bytes,
            "content_hash": source.content_hash,
        }

    @never_raises({"deleted": False}, {**ID_ALIASES, "ifMatch": "if_match"})
    def delete(self, /, doc_id: object, if_match: object = None) -> Answer:
        """Deletes a document for good."""
        name = text_argument("doc_id", doc_id)
        if name is None:
            raise InvalidArgumentError("doc_id is missing", mend="Give the id of a document that is listed.")
        match = text_argument("if_match", if_match)
        # A frontmatter id may stand for it, which names no backend.
        found = self._view.service.resolve_id(name)
        self._view.check_writing(self._access, found)
        return {"deleted": True, "id": self._view.service.delete(found, if_match=match)}

    @never_raises({"results": []})
    def search(self, /, query: object) -> Answer:
        """Documents that answer, as `{id, title, url}`."""
        words = text_argument("query", query) or ""
        hits = self._view.service.query(Query(query=words, top_k=_RESULTS)).hits
        return {
            "results": [
                {
                    "id": hit.source_id,
                    "title": shorten(hit.title, MAX_FIELD_CHARS),
                    "url": self._url(self._view.service.source(hit.source_id)),
                }
                for hit in hits
            ]
        }

    @never_raises({"id": "", "title": "", "text": "", "url": ""}, {"doc_id": "id"})
    def fetch(self, /, id: object) -> Answer:
        """A whole document, as `{id, title, text, url, metadata}`."""
        name = text_argument("id", id)
        if name is None:
            raise InvalidArgumentError("id is missing", mend="Give the id of a result of search.")
        loaded = self._view.service.load(name)
        text = decode(loaded.raw[loaded.document.body_start :])
        metadata, _ = short_metadata(loaded.source.metadata)
        cut = {"truncated": True} if len(text) > MAX_FETCH_CHARS else {}
        return {
            "id": loaded.source.id,
            "title": shorten(loaded.source.title, MAX_FIELD_CHARS),
            "text": text[:MAX_FETCH_CHARS],
            "url": self._url(loaded.source),
            "metadata": {**metadata, **cut, "untrusted": True},
        }

    def _status(self) -> Status:
        provider = self._view.service.provider
        health = provider.health_check()
        if health.index.revision:
            return self._view.service.status()
        # It is not indexed yet, and asking how it is must not begin that.
        stated: dict[str, Any] = {name: getattr(health, name) for name in type(health).model_fields}
        return Status(backend=provider.id, capabilities=provider.capabilities, **stated)

    def _url(self, source: Source) -> str:
        if source.origin == "url":
            return source.uri
        if self._public_url:
            return f"{self._public_url}/v1/sources/{quote(source.id, safe='')}/content"
        return uri_of(source.id)


def _short(given: Mapping[str, JsonValue]) -> JsonValue:
    return {
        key: shorten(value, _MAX_MESSAGE_CHARS) if isinstance(value, str) else value for key, value in given.items()
    }
