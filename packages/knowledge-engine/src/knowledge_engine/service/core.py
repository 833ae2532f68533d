"""The driving port: one implementation over any provider, typed, raising coded errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import Self

from pydantic import JsonValue, ValidationError

from knowledge_engine.analysis import Analyzer
from knowledge_engine.catalogue import Catalogue
from knowledge_engine.citations import Cited, content_hash, verify_citation
from knowledge_engine.errors import (
    AmbiguousIdError,
    InvalidArgumentError,
    InvalidIdError,
    InvalidQueryError,
    KnowledgeError,
    NotFoundError,
    NotSupportedError,
    ProviderError,
    QueryTooLongError,
)
from knowledge_engine.filters import compile_filter
from knowledge_engine.models import (
    MAX_PAGE,
    MAX_QUERY_CHARS,
    ByteSpan,
    IngestRequest,
    Query,
    QueryResult,
    Source,
    SourceContent,
    Verification,
)
from knowledge_engine.passages import parse_document
from knowledge_engine.ports import IKnowledgeProvider, IngestingProvider, RefreshableProvider
from knowledge_engine.service.links import resolved_links
from knowledge_engine.service.listing import filtered_facets, search_page
from knowledge_engine.service.results import Changes, Loaded, SourceDetail, SourceList, Status
from knowledge_engine.service.sections import find_section, labels, outline
from knowledge_engine.service.snapshots import Snapshots

#: How often something is read again because it changed meanwhile.
_ATTEMPTS = 3
_NAMED = 5
#: Looking at many documents takes at most one in so many parts of the time, however often answers are wanted.
_LOOK_SHARE, _LONG_LOOK_S = 5.0, 0.05
#: Parsed documents that are kept, and how large they may be.
_CACHED_DOCUMENTS = 128
_CACHED_BYTES = 64 * 1024


class KnowledgeService:
    """What servers, tools and the command line ask. Cheap to make; opens nothing until it is asked.

    Ids may be source ids or, where only one document claims it, a frontmatter `id`; see `resolve_id`. May be used by
    several threads. As a context manager it disposes of the provider at the end.

    Args:
        provider: Where the documents are.
        refresh_before_answer: Lets the provider take in what changed before each answer, where it can.
        fresh_for_s: How old what was taken in may be, in seconds: a server that answers often need not look each time.
            Where a look takes long, older: no more than a fifth of the time is spent on looking.
        analyzer: Cuts catalogue fields and queries to words; by default an English one.
    """

    def __init__(
        self,
        provider: IKnowledgeProvider,
        *,
        refresh_before_answer: bool = False,
        fresh_for_s: float = 0.0,
        analyzer: Analyzer | None = None,
    ) -> None:
        self.provider = provider
        self._refresh_before_answer = refresh_before_answer
        self._fresh_for_s = fresh_for_s
        self._fresh_until = -1.0
        self._freshening = threading.Lock()
        self._analyzer = analyzer
        self._listing = threading.Lock()
        self._catalogue: Catalogue | None = None
        self._snapshots = Snapshots()
        # Agents ask again and again for the same few documents, and for one section after another.
        self._parse = lru_cache(maxsize=_CACHED_DOCUMENTS)(parse_document)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dispose()

    def dispose(self) -> None:
        """Disposes of the provider; later calls raise UnavailableError."""
        self.provider.dispose()

    def list(
        self,
        *,
        query: str | None = None,
        filter: Mapping[str, JsonValue] | None = None,
        limit: int = 100,
        cursor: str | None = None,
        facets: bool = False,
    ) -> SourceList:
        """One page of sources: by id or, with a `query`, those whose catalogue fields match it, best first.

        A `limit` above `MAX_PAGE` is taken as that. A blank query matches nothing. Where no word of the query is in
        the catalogue, the nearest words stand in, and `hint` says so.

        Raises:
            InvalidArgumentError, InvalidFilterError, InvalidCursorError: For what their names say.
        """
        if type(limit) is not int or limit < 1:
            raise InvalidArgumentError(f"limit is {limit!r}", mend=f"Use a whole number from 1 to {MAX_PAGE}.")
        compile_filter(filter)
        self._freshen()
        limit = min(limit, MAX_PAGE)
        if query is not None:
            _check_length(query)
            return search_page(self.catalogue(), query, filter=filter, limit=limit, cursor=cursor, with_facets=facets)
        page = self.provider.list_sources(filter=filter, limit=limit, cursor=cursor)
        return SourceList(
            sources=page.sources,
            total=page.total,
            facets=filtered_facets(self.catalogue(), filter) if facets else {},
            warnings=page.warnings,
            next_cursor=page.next_cursor,
        )

    def get(self, source_id: str) -> SourceDetail:
        """A source with its outline and its links.

        Raises:
            NotFoundError, AmbiguousIdError: As `resolve_id`.
        """
        loaded = self.load(source_id)
        return SourceDetail(
            source=loaded.source,
            outline=outline(loaded.document.sections),
            links=resolved_links(loaded, self.provider, self.catalogue),
            issues=loaded.document.issues,
        )

    def read(self, source_id: str, span: ByteSpan | None = None, *, section: str | None = None) -> SourceContent:
        """The stored bytes: all, those of `span`, or those of the section with that title or slug.

        Raises:
            NotFoundError: Also when there is no such section; the message names those there are.
            AmbiguousIdError: As `resolve_id`.
            InvalidArgumentError: For a span and a section at once.
        """
        if section is None:
            self._freshen()
            return self._read(self._find(source_id).id, span)
        if span is not None:
            raise InvalidArgumentError("Both a span and a section are given", mend="Give one of them.")
        loaded = self.load(source_id)
        entries = outline(loaded.document.sections)
        found = find_section(entries, section)
        if found is None:
            known = ", ".join(labels(entries)[:20]) or "none"
            raise NotFoundError(f"No section {section[:100]!r}", mend=f"The sections are: {known}.")
        content = loaded.raw[found.span.start : found.span.end]
        return SourceContent(
            source_id=loaded.source.id,
            content=content,
            span=found.span,
            total_bytes=len(loaded.raw),
            content_hash=content_hash(content),
        )

    def source(self, source_id: str) -> Source:
        """The source of exactly that id, as the backend has it: for what stands in front of a backend elsewhere.

        Raises:
            NotFoundError, InvalidIdError: As `IKnowledgeProvider.get_source`.
        """
        self._freshen()
        return self.provider.get_source(source_id)

    def query(self, query: Query | Mapping[str, object]) -> QueryResult:
        """Passages that answer, best first. A mapping takes the fields of `Query`, also in camelCase.

        Raises:
            InvalidQueryError: For a blank text, and for a mapping that is no query.
            QueryTooLongError, InvalidFilterError, InvalidCursorError: For what their names say.
        """
        checked = query if isinstance(query, Query) else _parsed(query)
        _check_length(checked.query)
        if not checked.query.strip():
            raise InvalidQueryError("The query is empty", mend="Ask with at least one word.")
        compile_filter(checked.filter)
        # A first look would wait for the whole index: who does not want to wait so long asks the backend at once.
        if checked.wait_s is None or self._fresh_until >= 0 or self.provider.health_check().index.revision:
            self._freshen()
        return self.provider.query(checked)

    def verify(self, citation: Cited) -> Verification:
        """Whether the words of a citation are still where it says, or elsewhere in that source (by its source id)."""
        try:
            return verify_citation(self.provider, citation)
        except InvalidIdError:
            return Verification(status="gone", source_id=citation.source_id)

    def status(self) -> Status:
        """How the backend is and what it has to say of its documents. Does not raise for a sick backend."""
        with suppress(KnowledgeError):
            self._freshen()
        health = self.provider.health_check()
        return Status(
            backend=self.provider.id,
            status=health.status,
            message=health.message,
            capabilities=self.provider.capabilities,
            index=health.index,
            issues=health.issues,
            skipped=health.skipped,
            details=health.details,
        )

    def changes(self, since: str | None = None) -> Changes:
        """What was added, changed and removed since a revision that an earlier call gave.

        Without `since`, and for a revision that is not remembered (only the last few are, and not beyond the life of
        this service), the answer has everything as added, and `reset` set.
        """
        self._freshen()
        catalogue = self.catalogue()
        named = bool(catalogue.revision) or not self._revision()
        return self._snapshots.changes(since, catalogue.revision, catalogue.sources, complete=named)

    def ingest(self, request: IngestRequest) -> Source:
        """Stores a document.

        Raises:
            NotSupportedError: When the backend cannot be written, or does not take that kind.
            ConflictError, InvalidIdError, ReadOnlyError, StorageFullError, TooLargeError: As the backend says.
        """
        return self._writer().ingest(request)

    def delete(self, source_id: str, *, if_match: str | None = None) -> str:
        """Removes a document for good; the answer is the source id that it had.

        Raises:
            NotSupportedError: When the backend cannot be written.
            NotFoundError, AmbiguousIdError, ConflictError, ReadOnlyError: For what their names say.
        """
        writer = self._writer()
        found = self.resolve_id(source_id)
        writer.delete_source(found, if_match=if_match)
        return found

    def resolve_id(self, name: str) -> str:
        """The source id that `name` means: that very id, another Unicode spelling of one, or a frontmatter `id`.

        Raises:
            NotFoundError: When no document answers to it.
            AmbiguousIdError: When several do; the message names some.
        """
        self._freshen()
        return self._find(name).id

    def load(self, source_id: str) -> Loaded:
        """A source, its bytes and what they hold, read together.

        Raises:
            NotFoundError, AmbiguousIdError: As `resolve_id`.
        """
        self._freshen()
        source = self._find(source_id)
        for _ in range(_ATTEMPTS):
            content = self._read(source.id)
            if source.content_hash in (None, content.content_hash):
                break
            source = self.provider.get_source(source.id)  # it changed in between
        parse = self._parse if len(content.content) <= _CACHED_BYTES else parse_document
        return Loaded(source, content.content, parse(source.id, content.content))

    def catalogue(self) -> Catalogue:
        """All sources as they are now; made once per revision of the corpus.

        Its `revision` is empty, and it is not kept, where the backend names none or changes all the while.
        """
        revision = self._revision()
        if not revision:
            return self._listed("")
        with self._listing:
            if self._catalogue is None or self._catalogue.revision != revision:
                fresh = self._listed(revision)
                if not fresh.revision:
                    return fresh
                self._catalogue = fresh
            return self._catalogue

    @property
    def fresh_for_s(self) -> float:
        """How old what was taken in may be, in seconds."""
        return self._fresh_for_s

    def revision(self) -> str:
        """Equal as long as the corpus stays the same; empty where the backend does not tell."""
        self._freshen()
        return self._revision()

    def _revision(self) -> str:
        revision = self.provider.health_check().index.revision
        if not revision:
            self.provider.list_sources(limit=1)  # a backend that has looked at nothing yet may know now
            revision = self.provider.health_check().index.revision
        return revision

    def _listed(self, revision: str) -> Catalogue:
        for _ in range(_ATTEMPTS):
            sources = self._all_sources()
            now = self.provider.health_check().index.revision if revision else ""
            if now == revision:
                return Catalogue(sources, revision=revision, analyzer=self._analyzer)
            revision = now
        return Catalogue(sources, analyzer=self._analyzer)

    def _all_sources(self) -> tuple[Source, ...]:
        found: dict[str, Source] = {}
        cursor = None
        while True:
            page = self.provider.list_sources(limit=MAX_PAGE, cursor=cursor)
            before = len(found)
            found.update((source.id, source) for source in page.sources)
            cursor = page.next_cursor
            if cursor is None:
                return tuple(found.values())
            if len(found) == before:
                raise ProviderError("The backend's list of sources does not end", mend="Report it to its makers.")

    def _find(self, name: str) -> Source:
        if not isinstance(name, str):
            raise InvalidArgumentError("An id is a text", mend="Pass the id as a string.")
        with suppress(NotFoundError, InvalidIdError, UnicodeEncodeError):
            return self.provider.get_source(name)
        found = self.catalogue().resolve(name)
        if len(found) > 1:
            some = ", ".join(map(repr, found[:_NAMED]))
            raise AmbiguousIdError(
                f"The id {name[:200]!r} is ambiguous: {len(found)} documents have it", mend=f"Use one of {some}."
            )
        if found:
            return self.provider.get_source(found[0])
        raise NotFoundError(
            f"No document has the id {name[:200]!r}", mend="List the documents to see the ids that there are."
        )

    def _read(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        return self.provider.read_source(source_id, span)

    def _freshen(self) -> None:
        if not self._refresh_before_answer or not isinstance(self.provider, RefreshableProvider):
            return
        if not self._fresh_for_s:
            self._take_in(self.provider)
            return
        # Whoever comes while another one looks answers from what is there: it is older by that look only.
        if time.monotonic() >= self._fresh_until and self._freshening.acquire(blocking=self._fresh_until < 0):
            try:
                began = time.monotonic()
                if began >= self._fresh_until:
                    self._take_in(self.provider)
                    # From the beginning: what changed while it looked may have been missed.
                    took = time.monotonic() - began
                    rest = took * _LOOK_SHARE if took > _LONG_LOOK_S else 0.0
                    self._fresh_until = began + max(self._fresh_for_s, rest)
            finally:
                self._freshening.release()

    def _take_in(self, provider: RefreshableProvider) -> None:
        # An index that is being built takes in all there is: who cannot do without it waits for it anyway.
        if self.provider.health_check().index.state != "building":
            provider.refresh()

    def _writer(self) -> IngestingProvider:
        if self.provider.capabilities.writable and isinstance(self.provider, IngestingProvider):
            return self.provider
        raise NotSupportedError(
            f"The backend {self.provider.id!r} cannot be written", mend="Change the documents where they come from."
        )


def _check_length(query: str) -> None:
    if len(query) > MAX_QUERY_CHARS:
        raise QueryTooLongError(
            f"The query has {len(query)} characters", mend=f"Ask in at most {MAX_QUERY_CHARS} characters."
        )


def _parsed(query: Mapping[str, object]) -> Query:
    try:
        return Query.model_validate(query)
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "query"
        raise InvalidQueryError(f"{place[:100]}: {first['msg'][:300]}", mend="See the fields of Query.") from None
