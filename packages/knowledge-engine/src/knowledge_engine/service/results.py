"""What the service answers beyond the contract's own values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pydantic import Field, JsonValue, NonNegativeInt

from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    DocumentIssue,
    IndexState,
    Skipped,
    Source,
    Value,
)
from knowledge_engine.passages import Document


class OutlineEntry(Value):
    """A section as a table of contents shows it. Level 0 is the text before the first heading."""

    level: NonNegativeInt
    title: str
    #: Names the section uniquely in its document; empty at level 0.
    slug: str
    heading_path: tuple[str, ...] = ()
    #: The section with all that is nested in it, heading included.
    span: ByteSpan
    #: 1-based line of the heading in the file.
    line: NonNegativeInt


class ResolvedLink(Value):
    """A link in a document; `source_id` where it leads to a document of the corpus."""

    kind: str
    target: str
    text: str
    span: ByteSpan
    source_id: str | None = None
    #: An image or an embedded document.
    embed: bool = False


class SourceDetail(Value):
    """A source, and what its text is made of."""

    source: Source
    outline: tuple[OutlineEntry, ...] = ()
    links: tuple[ResolvedLink, ...] = ()
    issues: tuple[DocumentIssue, ...] = ()


class Facet(Value):
    """How many documents have each value of a metadata key, most frequent first."""

    values: dict[str, int]
    #: How many further values there are.
    more: NonNegativeInt = 0


class SourceList(Value):
    """Sources: by id, or best first where a query was given."""

    sources: tuple[Source, ...] = ()
    #: How many there are in all, on all pages.
    total: NonNegativeInt = 0
    #: Over all of them; empty unless asked for.
    facets: dict[str, Facet] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    #: What was done so that something was found, such as a word corrected.
    hint: str = ""
    next_cursor: str | None = None


class Status(Value):
    """What is behind the service and how it is."""

    backend: str
    status: Literal["ok", "degraded", "down"]
    message: str = ""
    capabilities: Capabilities
    index: IndexState
    issues: tuple[DocumentIssue, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    details: Mapping[str, JsonValue] = Field(default_factory=dict)


class Changes(Value):
    """What became of the corpus since a revision, as ids in ascending order."""

    #: Name it the next time as `since`.
    revision: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    #: The revision asked for is not remembered: `added` is all there is, and what was known before is void.
    reset: bool = False
    #: False where a change may be missing: the backend names no hashes, or changed all the while.
    complete: bool = True


class Loaded(NamedTuple):
    """A source, its stored bytes and what they hold, all of one moment."""

    source: Source
    raw: bytes
    document: Document
