"""The provider: the file is the store, and the engine's `MemoryProvider` answers from what was read of it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from pydantic import JsonValue

from knowledge_engine.errors import (
    ConfigurationError,
    ConflictError,
    InvalidArgumentError,
    InvalidIdError,
    NotFoundError,
    UnavailableError,
)
from knowledge_engine.fs import LocalFs, check_path, is_hidden
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    DocumentIssue,
    Health,
    IndexState,
    IngestRequest,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.passages import MAX_PASSAGE_BYTES, not_text
from knowledge_engine.writing import check_match, document_bytes, free_id, unsupported_kind
from notes_knowledge.notes import Line, read_lines, stored_in, write_line

Change = Callable[[Mapping[str, bytes]], tuple[str, bytes | None]]


class NotesProvider:
    """Notes in a JSONL file. Reading, ranking and citing are the engine's; this keeps the file.

    Another process may write the file too: a write that another one overtook begins anew, and `refresh` takes in what
    others wrote. Of several lines with one id the last counts, so a program may simply append. Bad lines stay as they
    are, and are issues.
    """

    id = "notes"
    capabilities = Capabilities(writable=True, max_chunk_bytes=MAX_PASSAGE_BYTES)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        folder, self._name = os.path.split(self._path)
        try:
            # `LocalFs` takes no hidden file for a document, and no folder's name holds a NUL.
            check_path("" if "\0" in folder or is_hidden(self._name) else self._name)
        except InvalidIdError as error:
            raise ConfigurationError("The path names no file", mend="Name one that is not hidden.") from error
        self._fs = LocalFs(folder or ".")
        self._lock = threading.RLock()
        self._disposed = False
        self._memory: MemoryProvider | None = None
        self._lines: list[Line] = []
        # The hash of the file as it was read; empty when there was none.
        self._seen = ""

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """See `IKnowledgeProvider`."""
        page = self._corpus().list_sources(filter=filter, limit=limit, cursor=cursor)
        return page.model_copy(update={"sources": tuple(map(self._placed, page.sources))})

    def get_source(self, source_id: str) -> Source:
        """See `IKnowledgeProvider`."""
        return self._placed(self._corpus().get_source(source_id))

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """See `IKnowledgeProvider`."""
        return self._corpus().read_source(source_id, span)

    def query(self, query: Query) -> QueryResult:
        """See `IKnowledgeProvider`."""
        return self._corpus().query(query)

    def health_check(self) -> Health:
        """Names each bad line of the file by its number."""
        memory, lines = self._memory, self._lines
        if self._disposed:
            return Health(status="down", message="The provider was disposed of.")
        if memory is None:
            return Health(message="Not read yet; the first question does it.", index=IndexState(state="stale"))
        health = memory.health_check()
        issues = tuple(
            DocumentIssue(
                code="note-invalid",
                severity="warning" if line.id else "error",
                path=self._name,
                line=number,
                message=line.problem,
                mend="Mend the line, or delete it.",
            )
            for number, line in enumerate(lines, 1)
            if line.problem
        )
        return health.model_copy(update={"issues": (*health.issues, *issues)})

    def dispose(self) -> None:
        """See `IKnowledgeProvider`."""
        with self._lock:
            self._disposed, self._memory, self._lines = True, None, []

    def ingest(self, request: IngestRequest) -> Source:
        """See `IngestingProvider`."""
        if request.kind != "text":
            raise unsupported_kind(request.kind, "text")

        def change(stored: Mapping[str, bytes]) -> tuple[str, bytes]:
            raw = document_bytes(request, stored.get(request.id or ""))
            if problem := not_text(raw):
                raise InvalidArgumentError(problem, mend="Save the text as UTF-8.")
            source_id = check_path(free_id(request, raw, stored.get))
            check_match(request.if_match, stored.get(source_id))
            return source_id, raw

        with self._lock:
            return self.get_source(self._change(change))

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        """See `IngestingProvider`."""

        def change(stored: Mapping[str, bytes]) -> tuple[str, None]:
            if check_path(source_id) not in stored:
                raise NotFoundError(f"No note {source_id!r}", mend="List the sources to see what there is.")
            check_match(if_match, stored[source_id])
            return source_id, None

        self._change(change)

    def refresh(self, paths: Sequence[str] | None = None) -> bool:  # noqa: ARG002 - one file holds all
        """See `RefreshableProvider`. Compares the file's bytes: times and sizes can lie."""
        return self._latest()[1]

    def invalidate(self) -> None:
        """See `RefreshableProvider`."""
        self._memory = None

    def _corpus(self) -> MemoryProvider:
        return self._memory or self._latest()[0]

    def _latest(self) -> tuple[MemoryProvider, bool]:
        """What the file holds now, and whether that is new."""
        with self._lock:
            if self._disposed:
                raise UnavailableError("The provider was disposed of", mend="Open it again.")
            data, seen = self._read()
            memory = self._memory
            if memory is not None and seen == self._seen:
                return memory, False
            lines = read_lines(data)
            memory = MemoryProvider(stored_in(lines), id=self.id)
            self._memory, self._lines, self._seen = memory, lines, seen
            return memory, True

    def _read(self) -> tuple[bytes, str]:
        try:
            data = self._fs.read(self._name)
        except NotFoundError:
            if Path(self._path).is_dir():
                raise ConfigurationError(f"{self._name!r} is a folder", mend="Name a JSONL file.") from None
            return b"", ""
        return data, hashlib.sha256(data).hexdigest()

    def _change(self, change: Change) -> str:
        """Rewrites the file, then the corpus; begins anew if another process wrote in between."""
        with self._lock:
            while True:
                memory, _ = self._latest()
                source_id, raw = change(stored_in(self._lines))
                lines = [line for line in self._lines if line.id != source_id]
                lines += [] if raw is None else [write_line(source_id, raw)]
                data = b"".join(line.data + b"\n" for line in lines)
                try:
                    self._fs.write(self._name, data, if_match=self._seen)
                except ConflictError:
                    continue
                self._lines, self._seen = lines, hashlib.sha256(data).hexdigest()
                if raw is None:
                    memory.delete_source(source_id)
                else:
                    memory.ingest(IngestRequest(id=source_id, content=raw))
                return source_id

    def _placed(self, source: Source) -> Source:
        return source.model_copy(update={"uri": f"notes:{self._name}#{quote(source.id)}"})
