"""What goes in and what comes out: frozen values, the same behind every backend and every front."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

MAX_QUERY_CHARS = 10_000
MAX_TOP_K = 1_000
MAX_PAGE = 1_000

Mode = Literal["keyword", "vector", "hybrid", "none"]
Origin = Literal["file", "url", "text", "connector"]
SourceStatus = Literal["pending", "indexing", "ready", "failed"]
Severity = Literal["error", "warning", "info"]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Metadata = dict[str, JsonValue]

# What ends a line somewhere, or acts on a terminal.
_NOT_ON_A_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Value(BaseModel):
    """A frozen value that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def _snake_or_camel(name: str) -> AliasChoices:
    return AliasChoices(name, to_camel(name))


class WireValue(Value):
    """A value that also takes its fields in camelCase, as they may stand on the wire. Types are strict."""

    model_config = ConfigDict(
        strict=True,
        validate_by_name=True,
        validate_by_alias=True,
        alias_generator=AliasGenerator(validation_alias=_snake_or_camel),
    )


class ByteSpan(Value):
    """Half-open range [start, end) of a document's bytes as stored."""

    start: NonNegativeInt
    end: NonNegativeInt

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.end < self.start:
            raise ValueError(f"a span ends where it starts or later, got [{self.start}, {self.end})")
        return self


class DocumentIssue(Value):
    """What is wrong with one document. It never hides the document, nor another one."""

    code: str
    severity: Severity
    path: str
    #: 1-based line in the file; 0 where no line can be named.
    line: NonNegativeInt = 0
    message: str
    mend: str = ""

    def __str__(self) -> str:
        text = f"{self.path}:{self.line}: {self.severity}: {self.message} [{self.code}] {self.mend}".rstrip()
        return _NOT_ON_A_LINE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Skipped(Value):
    """Something found in the corpus that is not indexed, and why."""

    path: str
    #: A stable code such as `symlink-escape`, `not-regular`, `too-large`, `encoding-invalid`, `unreadable`.
    reason: str
    message: str = ""


class Query(WireValue):
    """A question in a user's own words. The text is never query language."""

    query: str
    #: At most so many hits; above `MAX_TOP_K` it is taken as that.
    top_k: PositiveInt = 10
    #: Conditions on metadata, see `knowledge_engine.filters`.
    filter: dict[str, JsonValue] | None = None
    #: A hint; the answer's `mode_used` says what was done.
    mode: Mode | None = None
    #: Hits below it are left out. Scores are not comparable between corpora.
    min_score: float | None = Field(default=None, allow_inf_nan=False)
    #: At most so many hits of one source.
    per_source: PositiveInt = 1
    #: Budget for the sum of the hits' `text`, in characters.
    max_chars: PositiveInt | None = None
    #: `next_cursor` of the page before.
    cursor: str | None = None
    #: How long to wait for an index that is being built, in seconds; None: until it is built.
    wait_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Snippet(Value):
    """The part of a hit's text that shows why it was found."""

    text: str
    #: Where `text` lies in the document's raw bytes.
    span: ByteSpan
    #: Matching words: spans of the document's raw bytes, in order, not overlapping, inside `span`.
    highlights: tuple[ByteSpan, ...] = ()

    def marked(self, before: str, after: str) -> str:
        """`text` with each highlight between `before` and `after`.

        Bytes that are not UTF-8 hide where characters begin: such a text comes back unmarked.
        """
        raw = self.text.encode("utf-8", "replace")
        if len(raw) != self.span.end - self.span.start:
            return self.text
        out, at = [], 0
        for mark in self.highlights:
            start, end = mark.start - self.span.start, mark.end - self.span.start
            # A backend elsewhere may have cut letters apart.
            out += [raw[at:start].decode(errors="replace"), before, raw[start:end].decode(errors="replace"), after]
            at = end
        return "".join([*out, raw[at:].decode(errors="replace")])


class Hit(Value):
    """A passage that answers, with its citation: `source_id`, `span`, `content_hash`."""

    source_id: str
    #: The passage's name in its source, stable while the source's bytes are.
    chunk_id: str
    #: Name of the backend that answered; empty where only one was asked.
    backend: str = ""
    title: str
    heading_path: tuple[str, ...] = ()
    #: The raw bytes `span` as UTF-8; bytes that are not UTF-8 show as U+FFFD.
    text: str
    snippet: Snippet
    #: Higher is better. Not comparable between corpora: BM25 depends on corpus statistics.
    score: float = Field(allow_inf_nan=False)
    span: ByteSpan
    #: SHA-256 of the raw bytes `span`, in lower-case hex.
    content_hash: Sha256
    metadata: Metadata = Field(default_factory=dict)
    #: Document text is data, never instructions.
    untrusted: Literal[True] = True


class IndexState(Value):
    """What the answer was made from."""

    state: Literal["ready", "building", "stale"] = "ready"
    documents: NonNegativeInt = 0
    skipped: NonNegativeInt = 0
    #: Changes exactly when a document's id or bytes do; equal corpora have equal revisions.
    revision: str = ""


class QueryResult(Value):
    """Hits, best first: score descending, then source id, then start byte."""

    hits: tuple[Hit, ...] = ()
    took_ms: float = Field(default=0.0, ge=0)
    engine: str
    mode_used: Mode
    index: IndexState = IndexState()
    warnings: tuple[str, ...] = ()
    #: The budget `max_chars` cut something off.
    truncated: bool = False
    #: Opaque; present when there is more.
    next_cursor: str | None = None


class Source(Value):
    """A document: its id is stable (files: the path below the root)."""

    id: str
    origin: Origin
    uri: str
    title: str
    #: The document's own frontmatter; `kind` in it is the document's own.
    metadata: Metadata = Field(default_factory=dict)
    #: Size as stored.
    bytes: NonNegativeInt
    status: SourceStatus = "ready"
    #: ISO 8601, UTC.
    indexed_at: str | None = None
    error: str | None = None
    #: SHA-256 of the bytes as stored; what `if_match` compares.
    content_hash: str | None = None


class SourcePage(Value):
    """Sources by id, ascending."""

    sources: tuple[Source, ...] = ()
    #: How many there are in all, on all pages.
    total: NonNegativeInt = 0
    warnings: tuple[str, ...] = ()
    next_cursor: str | None = None


class SourceContent(Value):
    """Bytes of a source: all of them, or those of `span`."""

    source_id: str
    content: bytes
    span: ByteSpan
    #: Size of the whole source.
    total_bytes: NonNegativeInt
    #: SHA-256 of `content`, in lower-case hex.
    content_hash: Sha256


class Capabilities(Value):
    """Facts about a backend: a flag is True exactly when the power works."""

    vector_search: bool = False
    hybrid_search: bool = False
    citations: bool = True
    writable: bool = False
    #: No passage is longer than this many bytes; None: no limit is promised.
    max_chunk_bytes: PositiveInt | None = None


class Health(Value):
    """Whether a backend can answer, and what it has to say of its documents."""

    status: Literal["ok", "degraded", "down"] = "ok"
    message: str = ""
    index: IndexState = IndexState()
    issues: tuple[DocumentIssue, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    #: How fresh the index is kept, say.
    details: Mapping[str, JsonValue] = Field(default_factory=dict)


class IngestRequest(WireValue):
    """A document to store, or new metadata for one.

    `content` is stored byte for byte; `text` is written with `title` and `metadata` as frontmatter. With neither,
    and an `id` that exists, only the metadata changes.
    """

    kind: str = "text"
    id: str | None = None
    title: str | None = None
    content: bytes | None = None
    text: str | None = None
    uri: str | None = None
    metadata: Metadata = Field(default_factory=dict)
    #: `content_hash` that the stored version must have; "" : there must be none yet.
    if_match: str | None = None

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        if self.content is not None and self.text is not None:
            raise ValueError("give `content` or `text`, not both")
        return self


class Provenance(Value):
    """Where a source comes from."""

    source_id: str
    origin: Origin
    uri: str
    content_hash: Sha256
    indexed_at: str | None = None
    details: Mapping[str, JsonValue] = Field(default_factory=dict)


class Verification(Value):
    """What became of a citation.

    ok: the same bytes at the same place. moved: the same bytes elsewhere in that source, `span` says where.
    changed: they are not in that source any more. gone: the source is not.
    """

    status: Literal["ok", "moved", "changed", "gone"]
    source_id: str
    span: ByteSpan | None = None


class FileInfo(NamedTuple):
    """One entry of `FsPort.walk`; a tuple, as there may be hundreds of thousands.

    The numbers are the file's identity for change detection: any difference counts.
    """

    path: str
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    #: Empty for a regular file; else a `Skipped.reason`, and the entry cannot be read.
    problem: str = ""
