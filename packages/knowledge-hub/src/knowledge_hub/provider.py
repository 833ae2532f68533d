"""The hub as a provider of documents: its active entries, to be listed, read, cited and searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import JsonValue

from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    Health,
    Provenance,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.passages import MAX_PASSAGE_BYTES
from knowledge_sqlite import SqliteKnowledgeAdapter


class HubProvider:
    """An `IKnowledgeProvider` over the entries. They are changed through the hub, which keeps their history.

    Args:
        documents: Holds the entries that the index knows.
        bring_up: Puts those in that were saved meanwhile; why it could not, or nothing.
    """

    def __init__(self, documents: SqliteKnowledgeAdapter, bring_up: Callable[[], str]) -> None:
        self._documents, self._bring_up = documents, bring_up

    @property
    def id(self) -> str:
        """The backend's name."""
        return "hub"

    @property
    def capabilities(self) -> Capabilities:
        """Not writable as documents are."""
        return Capabilities(writable=False, max_chunk_bytes=MAX_PASSAGE_BYTES)

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """See `IKnowledgeProvider.list_sources`."""
        self._bring_up()
        return self._documents.list_sources(filter=filter, limit=limit, cursor=cursor)

    def get_source(self, source_id: str) -> Source:
        """See `IKnowledgeProvider.get_source`."""
        self._bring_up()
        return self._documents.get_source(source_id)

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """See `IKnowledgeProvider.read_source`."""
        self._bring_up()
        return self._documents.read_source(source_id, span)

    def query(self, query: Query) -> QueryResult:
        """See `IKnowledgeProvider.query`."""
        problem = self._bring_up()
        found = self._documents.query(query)
        return found.model_copy(update={"warnings": (*found.warnings, problem)}) if problem else found

    def explain(self, source_id: str) -> Provenance | None:
        """See `ExplainingProvider.explain`."""
        self._bring_up()
        return self._documents.explain(source_id)

    def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`."""
        return self._documents.health_check()

    def dispose(self) -> None:
        """See `IKnowledgeProvider.dispose`."""
        self._documents.dispose()
