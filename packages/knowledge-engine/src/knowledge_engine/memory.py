"""A provider over documents in memory: the reference that others are compared with, and a double for tests.

Everything is worked out from the formula, passage by passage, with no index to get wrong: right before fast.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Self

from pydantic import JsonValue

from knowledge_engine.analysis import Analyzer
from knowledge_engine.answers import Candidate, Loaded, Plan, answer, page_sources, plan_query
from knowledge_engine.citations import content_hash
from knowledge_engine.corpus_issues import corpus_issues
from knowledge_engine.cursors import Revision
from knowledge_engine.errors import InvalidArgumentError, NotFoundError, UnavailableError
from knowledge_engine.filters import metadata_keys
from knowledge_engine.fs import check_path
from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    DocumentIssue,
    Health,
    IndexState,
    IngestRequest,
    Origin,
    Provenance,
    Query,
    QueryResult,
    Skipped,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.passages import MAX_PASSAGE_BYTES, Document, PassageTerms, not_text, parse_document, passage_terms
from knowledge_engine.ranking import bm25_term, length_norm, sort_key, term_weights
from knowledge_engine.writing import check_match, document_bytes, free_id, unsupported_kind


@dataclass(frozen=True)
class _Stored:
    raw: bytes
    document: Document
    origin: Origin
    uri: str
    indexed_at: str
    analyzer: Analyzer

    @cached_property
    def terms(self) -> list[PassageTerms]:
        # Only queries need them, and they take longer and more room than all the rest.
        return list(passage_terms(self.document, self.raw, self.analyzer))

    @cached_property
    def source(self) -> Source:
        return Source(
            id=self.document.source_id,
            origin=self.origin,
            uri=self.uri,
            title=self.document.title,
            metadata=self.document.metadata,
            bytes=len(self.raw),
            indexed_at=self.indexed_at,
            content_hash=self.document.content_hash,
        )


@dataclass(frozen=True)
class _Corpus:
    """All documents at one time, and what follows from them: worked out when first asked for."""

    stored: Mapping[str, _Stored]
    skipped: Mapping[str, Skipped]

    @cached_property
    def ids(self) -> list[str]:
        return sorted(self.stored)

    @cached_property
    def index(self) -> IndexState:
        revision = Revision()
        for one, found in self.stored.items():
            revision.add(one, found.document.content_hash)
        return IndexState(documents=len(self.stored), skipped=len(self.skipped), revision=revision.value)

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(key for found in self.stored.values() for key in metadata_keys(found.document.metadata))

    @cached_property
    def issues(self) -> tuple[DocumentIssue, ...]:
        return (
            *(issue for one in self.ids for issue in self.stored[one].document.issues),
            *corpus_issues({one: found.document.metadata for one, found in self.stored.items()}),
        )


class MemoryProvider:
    """A corpus in memory, ranked by the plain formula. Implements every port but `RefreshableProvider`.

    Args:
        documents: Bytes by id; an id is a root-relative path, as in a folder.
    """

    def __init__(
        self, documents: Mapping[str, bytes] | None = None, *, id: str = "memory", analyzer: Analyzer | None = None
    ) -> None:
        self._id = id
        self._analyzer = analyzer or Analyzer()
        self._lock = threading.RLock()
        # These three are replaced, never changed: a reader goes on with those that it began with.
        self._stored: dict[str, _Stored] = {}
        self._superseded: dict[str, str] = {}
        #: What was given and is no text: not listed, as in a folder, but told of.
        self._skipped: dict[str, Skipped] = {}
        self._known = _Corpus({}, {})
        self._disposed = False
        stored, now = dict[str, _Stored](), _now()
        for source_id, raw in (documents or {}).items():
            if problem := not_text(raw):
                self._skipped[check_path(source_id)] = Skipped(
                    path=source_id, reason="encoding-invalid", message=problem
                )
            else:
                document = parse_document(check_path(source_id), raw)
                stored[source_id] = _Stored(bytes(raw), document, "text", f"memory:{source_id}", now, self._analyzer)
        self._stored = stored

    @classmethod
    def of_files(
        cls,
        documents: Iterable[tuple[Document, bytes]],
        *,
        skipped: Iterable[Skipped] = (),
        id: str = "memory",
        analyzer: Analyzer | None = None,
    ) -> Self:
        """A provider over files that were read and parsed already; their paths are their URIs too.

        `skipped` are files beside them, to be told of.
        """
        made = cls(id=id, analyzer=analyzer)
        now = _now()
        made._stored = {
            document.source_id: _Stored(raw, document, "file", document.source_id, now, made._analyzer)
            for document, raw in documents
        }
        made._skipped = {one.path: one for one in skipped}
        return made

    @property
    def id(self) -> str:
        """The name given at construction."""
        return self._id

    @property
    def capabilities(self) -> Capabilities:
        """Writable, with citations."""
        return Capabilities(writable=True, max_chunk_bytes=MAX_PASSAGE_BYTES)

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """See `IKnowledgeProvider.list_sources`."""
        corpus = self._corpus()
        return page_sources(
            corpus.ids,
            lambda one: corpus.stored[one].source,
            lambda one: corpus.stored[one].document.metadata,
            filter=filter,
            limit=limit,
            cursor=cursor,
            revision=corpus.index.revision,
            known_keys=corpus.keys,
        )

    def get_source(self, source_id: str) -> Source:
        """See `IKnowledgeProvider.get_source`."""
        return self._find(source_id).source

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """See `IKnowledgeProvider.read_source`."""
        raw = self._find(source_id).raw
        start = min(span.start, len(raw)) if span else 0
        end = min(span.end, len(raw)) if span else len(raw)
        data = raw[start:end]
        return SourceContent(
            source_id=source_id,
            content=data,
            span=ByteSpan(start=start, end=end),
            total_bytes=len(raw),
            content_hash=content_hash(data),
        )

    def query(self, query: Query) -> QueryResult:
        """See `IKnowledgeProvider.query`."""
        corpus, superseded = self._corpus(), self._superseded
        plan = plan_query(query, self._analyzer)

        def load(candidate: Candidate) -> Loaded:
            found = corpus.stored[candidate.source_id]
            passage = next(one for one in found.document.passages if one.start == candidate.start)
            data = found.raw[candidate.start : candidate.end]
            return Loaded(data, found.document.title, passage.heading_path, found.document.metadata)

        return answer(
            plan,
            _rank(plan, {one: found for one, found in corpus.stored.items() if one not in superseded}),
            load,
            analyzer=self._analyzer,
            engine="bm25",
            index=corpus.index,
            known_keys=corpus.keys,
        )

    def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`."""
        try:
            corpus = self._corpus()
        except UnavailableError as error:
            return Health(status="down", message=str(error))
        return Health(
            index=corpus.index,
            issues=corpus.issues,
            skipped=tuple(skipped for _, skipped in sorted(corpus.skipped.items())),
        )

    def dispose(self) -> None:
        """See `IKnowledgeProvider.dispose`."""
        with self._lock:
            self._disposed = True
            self._stored = {}

    def ingest(self, request: IngestRequest) -> Source:
        """See `IngestingProvider.ingest`; kind `text`."""
        if request.kind != "text":
            raise unsupported_kind(request.kind, "text")
        with self._lock:
            stored = self._corpus().stored
            present = stored[request.id].raw if request.id is not None and request.id in stored else None
            raw = document_bytes(request, present)
            if problem := not_text(raw):
                raise InvalidArgumentError(problem, mend="Save the text as UTF-8.")
            source_id = check_path(free_id(request, raw, lambda one: stored[one].raw if one in stored else None))
            check_match(request.if_match, stored[source_id].raw if source_id in stored else None)
            document = parse_document(source_id, raw)
            uri = request.uri or f"memory:{source_id}"
            put = _Stored(bytes(raw), document, "text", uri, _now(), self._analyzer)
            self._stored = {**stored, source_id: put}
            self._skipped = {path: skipped for path, skipped in self._skipped.items() if path != source_id}
            return self.get_source(source_id)

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        """See `IngestingProvider.delete_source`."""
        with self._lock:
            check_match(if_match, self._find(source_id).raw)
            self._stored = {one: found for one, found in self._stored.items() if one != source_id}
            # What it stood for is found again: nothing else says those things now.
            self._superseded = {old: by for old, by in self._superseded.items() if source_id not in (old, by)}

    def supersede(self, source_id: str, by: str) -> None:
        """See `SupersedingProvider.supersede`: the old source stays readable and is not found by queries.

        Raises:
            InvalidArgumentError: When `source_id` already stands, however indirectly, for `by`.
        """
        with self._lock:
            self._find(source_id)
            self._find(by)
            last = by
            while last != source_id and last in self._superseded:
                last = self._superseded[last]
            if last == source_id:
                raise InvalidArgumentError(
                    f"{source_id!r} stands for {by!r} itself", mend="Name a document that is not superseded by it."
                )
            self._superseded = {**self._superseded, source_id: by}

    def explain(self, source_id: str) -> Provenance | None:
        """See `ExplainingProvider.explain`."""
        found = self._corpus().stored.get(source_id)
        if found is None:
            return None
        by = self._superseded.get(source_id)
        return Provenance(
            source_id=source_id,
            origin=found.origin,
            uri=found.uri,
            content_hash=found.document.content_hash,
            indexed_at=found.indexed_at,
            details={"superseded_by": by} if by else {},
        )

    def _corpus(self) -> _Corpus:
        with self._lock:
            if self._disposed:
                raise UnavailableError("The provider was disposed of", mend="Open it again.")
            if self._known.stored is not self._stored or self._known.skipped is not self._skipped:
                self._known = _Corpus(self._stored, self._skipped)
            return self._known

    def _find(self, source_id: str) -> _Stored:
        found = self._corpus().stored.get(check_path(source_id))
        if found is None:
            raise NotFoundError(f"No source {source_id!r}", mend="List the sources to see what there is.")
        return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _rank(plan: Plan, stored: Mapping[str, _Stored]) -> Iterable[Candidate]:
    passages = [(one, found, number) for one, found in stored.items() for number in range(len(found.terms))]
    if not passages or not plan.terms:
        return []
    held = {one: [terms.own + terms.context for terms in found.terms] for one, found in stored.items()}
    average = sum(found.terms[number].length for _, found, number in passages) / len(passages)
    weights = term_weights(
        plan.words, lambda term: sum(term in held[one][number] for one, _, number in passages), len(passages)
    )
    ranked = []
    for one, found, number in passages:
        terms, counts = found.terms[number], held[one][number]
        # What only the title or a heading above says is cited once: as the document's beginning.
        if number and not any(term in terms.own for term in weights):
            continue
        score, norm = 0.0, length_norm(terms.length, average)
        for term, weight in weights.items():
            if term in counts:
                score += bm25_term(counts[term], norm, weight)
        if score > 0 and plan.filter.matches(found.document.metadata, one):
            passage = found.document.passages[number]
            ranked.append(Candidate(score, one, passage.start, passage.end))
    return sorted(ranked, key=lambda found: sort_key(*found[:3]))
