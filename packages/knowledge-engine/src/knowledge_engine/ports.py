"""The contracts: what an adapter implements. Protocols; inherit from nothing.

All ports are sync. A provider may be called from several threads at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, JsonValue

from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    FileInfo,
    Health,
    IngestRequest,
    Provenance,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)


@runtime_checkable
class IKnowledgeProvider(Protocol):
    """A searchable corpus of documents."""

    @property
    def id(self) -> str:
        """Short name of the backend, such as `files`."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """Facts; cheap, never fails."""
        ...

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """Sources in ascending order of id (by code point), at most `limit` of them.

        Raises:
            InvalidFilterError: For an unknown operator or a malformed condition.
            InvalidCursorError: For a cursor that this method did not make.
        """
        ...

    def get_source(self, source_id: str) -> Source:
        """The source of exactly that id.

        Raises:
            NotFoundError: When there is none; the same answer whether or not something else lies there.
            InvalidIdError: When no source could have that id.
        """
        ...

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """The stored bytes: all, or those of `span`, which is clipped to the source's end.

        Raises:
            NotFoundError, InvalidIdError: As `get_source`.
        """
        ...

    def query(self, query: Query) -> QueryResult:
        """At most `query.top_k` hits, best first; equal scores by source id, then start byte.

        A query that holds no searchable word gives no hits.

        Raises:
            InvalidFilterError, InvalidCursorError, QueryTooLongError: For what their names say.
        """
        ...

    def health_check(self) -> Health:
        """Never raises for a sick backend: the answer says so. Does not build an index."""
        ...

    def dispose(self) -> None:
        """Lets go of files, threads and connections. May be called twice; later calls raise UnavailableError."""
        ...


@runtime_checkable
class IngestingProvider(Protocol):
    """A provider that can be written."""

    def ingest(self, request: IngestRequest) -> Source:
        """Stores a document, or replaces the one of that id. All or nothing; found by the next query.

        Raises:
            NotSupportedError: For a `kind` that the backend does not take.
            ConflictError: When `if_match` is given and is not the stored `content_hash`.
            InvalidIdError, ReadOnlyError, StorageFullError, TooLargeError: For what their names say.
        """
        ...

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        """Removes the document and all that was indexed of it.

        Raises:
            NotFoundError, InvalidIdError, ConflictError, ReadOnlyError: For what their names say.
        """
        ...


@runtime_checkable
class BulkIngestingProvider(Protocol):
    """A provider that stores many documents faster than one by one."""

    def ingest_many(self, requests: Iterable[IngestRequest], *, batch: int = 500) -> Iterator[Source]:
        """Stores documents: one source for each request, in order, given when it is stored for good.

        A bad document does not undo others: its source has the status `failed`, and its `error` is a code, a colon and
        why. `requests` are taken as they are needed.

        Raises:
            BusyError, ReadOnlyError, StorageFullError: What is so for the next document too. At most `batch` documents
                are not stored that were taken; those before are.
        """
        ...


@runtime_checkable
class ErasingProvider(Protocol):
    """A provider that can tell whether anything of a deleted document is left in its storage."""

    def erase_source(self, source_id: str, *, if_match: str | None = None) -> Sequence[str]:
        """As `IngestingProvider.delete_source`, down to the bytes; what may still be left of it and why, if anything.

        Raises:
            NotFoundError, InvalidIdError, ConflictError, ReadOnlyError: For what their names say.
        """
        ...


@runtime_checkable
class SupersedingProvider(Protocol):
    """A provider that can mark one source as replaced by another."""

    def supersede(self, source_id: str, by: str) -> None:
        """From now on `by` stands for `source_id`.

        Raises:
            NotFoundError: When either does not exist.
        """
        ...


@runtime_checkable
class ExplainingProvider(Protocol):
    """A provider that knows where its sources come from."""

    def explain(self, source_id: str) -> Provenance | None:
        """Provenance; None if that id is unknown."""
        ...


@runtime_checkable
class RefreshableProvider(Protocol):
    """A provider whose corpus can change behind its back."""

    def refresh(self, paths: Sequence[str] | None = None) -> bool:
        """Takes in what changed (only under `paths`, where given); True if anything did."""
        ...

    def invalidate(self) -> None:
        """Forgets what is indexed; the next query builds anew."""
        ...


@runtime_checkable
class FsPort(Protocol):
    """The file access that a provider needs. Paths are POSIX, relative to the root, never leaving it."""

    def walk(self, path: str = ".") -> Iterator[FileInfo]:
        """Every file below `path` in ascending order of path, then those it cannot give, with their `problem`.

        A folder that does not exist has no files.
        """
        ...

    def stat(self, path: str) -> FileInfo:
        """Size, times and inode of a regular file.

        Raises:
            NotFoundError: When there is none.
            InvalidIdError: When the path is not one (empty, absolute, with `..`, NUL or backslash).
        """
        ...

    def read(self, path: str, span: ByteSpan | None = None) -> bytes:
        """The bytes of a regular file, or those of `span` clipped to the file's end.

        Raises:
            NotFoundError, InvalidIdError: As `stat`.
            ProviderError: When the file is there and cannot be read.
        """
        ...


@runtime_checkable
class ComparingFsPort(Protocol):
    """A file port that can tell in one step whether a file is still the same, and what stands in it."""

    def read_unchanged(self, info: FileInfo, span: ByteSpan) -> bytes | None:
        """As `FsPort.read`; None if the file is another one than `info` says, before or after it was read.

        Raises:
            NotFoundError, InvalidIdError, ProviderError: As `FsPort.read`.
        """
        ...


@runtime_checkable
class WritableFsPort(Protocol):
    """Changing files: atomic, so that a reader or a crash sees the old bytes or the new."""

    def write(self, path: str, data: bytes, *, if_match: str | None = None) -> FileInfo:
        """Creates or replaces a file, and the folders above it.

        `if_match` is the SHA-256 (hex) that the present bytes must have, or "" for none yet.

        Raises:
            ConflictError, InvalidIdError, ReadOnlyError, StorageFullError: For what their names say.
        """
        ...

    def delete(self, path: str, *, if_match: str | None = None) -> None:
        """Removes a file.

        Raises:
            NotFoundError, ConflictError, InvalidIdError, ReadOnlyError: For what their names say.
        """
        ...


Answer = TypeVar("Answer", bound=BaseModel)


@runtime_checkable
class LanguageModel(Protocol):
    """A language model: a prompt and a schema in, a checked object out."""

    @property
    def name(self) -> str:
        """The name under which it was found; no secrets."""
        ...

    def ask(self, prompt: str, schema: type[Answer], *, instructions: str = "", timeout_s: float = 60.0) -> Answer:
        """An answer that fits the schema. Blocks; may be called from several threads.

        Args:
            prompt: What is to be worked on. Text of others belongs here, marked as such, never into `instructions`.
            instructions: What to do with it.
            timeout_s: For all of it: pauses, repeats and repairs included.

        Raises:
            UnavailableError: It cannot be reached, is overloaded, or the time is up.
            ProviderError: It refused, or its answer did not fit the schema, however often it was asked.
            ConfigurationError: Its key is missing or not valid there.
        """
        ...
