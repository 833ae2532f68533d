"""Many documents at once: one transaction for each batch, and a bad one among them is left out, not the batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from knowledge_engine.errors import InvalidArgumentError, KnowledgeError
from knowledge_engine.models import IngestRequest, Source
from knowledge_sqlite.errors import meaning

#: As long as a batch is being written nobody else writes.
_MAX_BATCH_BYTES = 4 << 20

Changing = Callable[[], AbstractContextManager[sqlite3.Connection]]
Ingest = Callable[[sqlite3.Connection, IngestRequest], Source]


class _BadOneError(Exception):
    """A document failed when a part of it may have been written."""


def ingest_many(changing: Changing, ingest: Ingest, requests: Iterable[IngestRequest], batch: int) -> Iterator[Source]:
    """See `SqliteKnowledgeAdapter.ingest_many`.

    Args:
        changing: Begins a transaction.
        ingest: Stores one in it. A `KnowledgeError` says that it has written nothing.
    """
    if batch < 1:
        raise InvalidArgumentError("A batch has at least one document", mend="Pass a larger `batch`.")
    for some in _batches(requests, batch):
        yield from _stored(changing, ingest, some)


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


def _stored(changing: Changing, ingest: Ingest, requests: Sequence[IngestRequest]) -> list[Source]:
    failed: dict[int, Source] = {}
    while True:
        sources: list[Source] = []
        try:
            with changing() as connection:
                for number, request in enumerate(requests):
                    if number not in failed:
                        sources.append(_ingested(ingest, connection, request, number, failed))
                    else:
                        sources.append(failed[number])
        except _BadOneError:
            continue  # without that one
        return sources


def _ingested(
    ingest: Ingest, connection: sqlite3.Connection, request: IngestRequest, number: int, failed: dict[int, Source]
) -> Source:
    try:
        return ingest(connection, request)
    except KnowledgeError as error:
        return _failed(request, error)
    except sqlite3.DataError as error:  # larger than SQLite stores, say
        failed[number] = _failed(request, meaning(error))
        raise _BadOneError from error


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
