"""Storing documents: what can be made ready before anything is locked, and many in one transaction."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from knowledge_engine.errors import InvalidArgumentError, KnowledgeError
from knowledge_engine.fs import check_path
from knowledge_engine.models import IngestRequest, Source
from knowledge_engine.passages import not_text
from knowledge_engine.writing import check_hash, document_bytes, document_id, free_id, unsupported_kind
from knowledge_sqlite.store import Batch, NewDocument, Part, RefusedError, Stored, Writer, content, find, holds
from knowledge_sqlite.workers import Ticket, Workers

#: As long as a batch is being written nobody else writes.
_MAX_BATCH_BYTES = 4 << 20
#: So many batches are stored before processes are started: they take a while to begin.
_BATCHES_ALONE = 2

Transaction = Callable[[], AbstractContextManager[sqlite3.Connection]]


class _Known(NamedTuple):
    """A request whose id and bytes are known whatever is stored."""

    request: IngestRequest
    source_id: str
    raw: bytes
    #: Its place among the documents that were made ready; None if what is stored seemed to be the same.
    place: int | None = None


class _Batch(NamedTuple):
    """Requests that are stored in one transaction; an error for one that is bad in itself."""

    items: list[_Known | IngestRequest | Source]
    documents: list[tuple[str, bytes]]


class Ingestion:
    """Stores documents.

    Args:
        reading, changing: Begin a transaction.
        backend: The id that documents without a `uri` are named after.
    """

    def __init__(self, reading: Transaction, changing: Transaction, writer: Writer, backend: str) -> None:
        self._reading, self._changing, self._writer, self._backend = reading, changing, writer, backend

    def one(self, request: IngestRequest) -> Source:
        """Stores one."""
        known = _known(request)
        if not isinstance(known, _Known):
            return self._alone(request)
        batch = self._writer.prepare([(known.source_id, known.raw)])
        try:
            with self._changing() as connection:
                [part] = batch.parts(connection)
                source, new = self._decided(connection, known, part)
                if new is not None:
                    self._writer.put(connection, [(part, new)])
                return source
        except RefusedError as error:
            raise error.reason from error

    def _alone(self, request: IngestRequest) -> Source:
        try:
            with self._changing() as connection:
                return self._other(connection, request)
        except RefusedError as error:
            raise error.reason from error

    def many(self, requests: Iterable[IngestRequest], batch: int, workers: Workers) -> Iterator[Source]:
        """See `SqliteKnowledgeAdapter.ingest_many`."""
        if batch < 1:
            raise InvalidArgumentError("A batch has at least one document", mend="Pass a larger `batch`.")
        under_way: deque[tuple[_Batch, Ticket]] = deque()
        with workers:
            for number, some in enumerate(_batches(requests, batch)):
                ready = self._made(some)
                if number < _BATCHES_ALONE or not workers.count:
                    while under_way:
                        yield from self._stored(*self._next(under_way, workers))
                    yield from self._stored(ready, self._writer.prepare(ready.documents))
                    continue
                # A process gets its next documents before those that it has made ready are stored.
                done = self._next(under_way, workers) if len(under_way) == workers.count else None
                under_way.append((ready, workers.begin(ready.documents)))
                if done is not None:
                    yield from self._stored(*done)
            while under_way:
                yield from self._stored(*self._next(under_way, workers))

    def _next(self, under_way: deque[tuple[_Batch, Ticket]], workers: Workers) -> tuple[_Batch, Batch]:
        some, ticket = under_way.popleft()
        return some, workers.end(ticket)

    def _made(self, requests: Sequence[IngestRequest]) -> _Batch:
        items = list[_Known | IngestRequest | Source]()
        for request in requests:
            try:
                items.append(_known(request))
            except KnowledgeError as error:
                items.append(_failed(request, error))
        compared = iter(self._compared([each for each in items if isinstance(each, _Known)]))
        items = [next(compared) if isinstance(each, _Known) else each for each in items]
        documents = [
            (each.source_id, each.raw) for each in items if isinstance(each, _Known) and each.place is not None
        ]
        return _Batch(items, documents)

    def _compared(self, known: Sequence[_Known]) -> list[_Known]:
        """With places for those that are not stored as they are."""
        found, place = [], 0
        if not known:
            return []
        with self._reading() as connection:
            for each in known:
                same = self._is_stored(connection, each)
                found.append(each if same else each._replace(place=place))
                place += not same
        return found

    def _is_stored(self, connection: sqlite3.Connection, known: _Known) -> bool:
        row = connection.execute("SELECT content_hash, uri FROM documents WHERE id = ?", (known.source_id,)).fetchone()
        if row is None:
            return False
        present, uri = row
        return (
            (known.request.uri or uri) == uri
            and hashlib.sha256(known.raw).hexdigest() == present
            and holds(connection, known.source_id, known.raw)
        )

    def _stored(self, some: _Batch, batch: Batch) -> list[Source]:
        refused: dict[str, Source] = {}
        while True:
            try:
                with self._changing() as connection:
                    return self._stored_in(connection, some, batch, refused)
            except RefusedError as error:  # the others once more, without that one
                request = next(
                    each.request if isinstance(each, _Known) else each
                    for each in some.items
                    if not isinstance(each, Source) and _id(each) == error.source_id
                )
                refused[error.source_id] = _failed(request, error.reason)

    def _stored_in(
        self, connection: sqlite3.Connection, some: _Batch, batch: Batch, refused: dict[str, Source]
    ) -> list[Source]:
        parts = list(batch.parts(connection))
        sources: list[Source] = []
        waiting: dict[str, tuple[Part, NewDocument]] = {}

        def write() -> None:
            self._writer.put(connection, waiting.values())
            waiting.clear()

        for each in some.items:
            if isinstance(each, Source):
                sources.append(each)
                continue
            if _id(each) in refused:
                sources.append(refused[_id(each)])
                continue
            try:
                if isinstance(each, _Known) and each.place is not None:
                    if each.source_id in waiting:
                        write()
                    part = parts[each.place]
                    source, new = self._decided(connection, each, part)
                    if new is not None:
                        waiting[each.source_id] = (part, new)
                else:
                    write()
                    source = self._other(connection, each.request if isinstance(each, _Known) else each)
            except KnowledgeError as error:
                source = _failed(each.request if isinstance(each, _Known) else each, error)
            sources.append(source)
        write()
        return sources

    def _decided(self, connection: sqlite3.Connection, known: _Known, part: Part) -> tuple[Source, NewDocument | None]:
        """What is to be stored, if anything, and the source that it will be."""
        old = find(connection, known.source_id)
        check_hash(known.request.if_match, old.content_hash if old else "")
        uri = known.request.uri or (old.uri if old else f"{self._backend}:{known.source_id}")
        same = old and old.content_hash == part.document.content_hash and old.uri == uri
        if old and same and holds(connection, old.id, known.raw):
            return old.source(), None
        new = NewDocument.now(known.raw, "text", uri, old)
        _, content_hash, title, metadata, *_ = part.document
        stored = Stored(
            0, known.source_id, len(known.raw), content_hash, title, metadata, new.origin, uri, new.stored_at
        )
        return stored.source(), new

    def _other(self, connection: sqlite3.Connection, request: IngestRequest) -> Source:
        """Stores what depends on what is stored."""
        if request.kind != "text":
            raise unsupported_kind(request.kind, "text")
        present = content(connection, check_path(request.id)) if request.id is not None else None
        raw = _text(document_bytes(request, present))
        source_id = check_path(free_id(request, raw, lambda one: content(connection, one)))
        [part] = self._writer.prepare([(source_id, raw)]).parts(connection)
        source, new = self._decided(connection, _Known(request, source_id, raw), part)
        if new is not None:
            self._writer.put(connection, [(part, new)])
        return source


def _known(request: IngestRequest) -> _Known | IngestRequest:
    """The request with its id and bytes, if they do not depend on what is stored."""
    if request.kind != "text":
        raise unsupported_kind(request.kind, "text")
    if (request.content is None and request.text is None) or (request.id is None and request.title):
        return request
    raw = _text(document_bytes(request, None))
    return _Known(request, check_path(document_id(request, raw)), bytes(raw))


def _text(raw: bytes) -> bytes:
    if problem := not_text(raw):
        raise InvalidArgumentError(problem, mend="Save the text as UTF-8.")
    return raw


def _id(item: _Known | IngestRequest) -> str:
    return item.source_id if isinstance(item, _Known) else item.id or ""


def _batches(requests: Iterable[IngestRequest], most: int) -> Iterator[Sequence[IngestRequest]]:
    some: list[IngestRequest] = []
    size = 0
    for request in requests:
        some.append(request)
        size += _size(request)
        if len(some) >= most or size >= _MAX_BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _failed(request: IngestRequest, error: KnowledgeError) -> Source:
    return Source(
        id=request.id or "",
        origin="text",
        uri=request.uri or "",
        title=request.title or "",
        bytes=_size(request),
        status="failed",
        error=f"{error.code}: {error}",
    )


def _size(request: IngestRequest) -> int:
    return len(request.content or b"") + len(request.text or "")
