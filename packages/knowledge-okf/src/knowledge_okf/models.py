"""What a bundle is made of, as frozen values: every change gives a new one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, JsonValue, StringConstraints, model_validator

from knowledge_engine.errors import ConflictError, NotFoundError
from knowledge_engine.models import ByteSpan, Value
from knowledge_okf.names import RESERVED, folder_problem, is_concept_id

OKF_VERSION: Final = "0.2"
STABLE: Final = "stable"
DEPRECATED: Final = "deprecated"


#: Keys of a concept's frontmatter that have a meaning here.
KNOWN_KEYS: Final = frozenset(
    [
        "id",
        "title",
        "type",
        "description",
        "tags",
        "source",
        "source_url",
        "resource",
        "see_also",
        "sources",
        "generated",
        "verified",
        "status",
        "stale_after",
        "content_hash",
    ]
)


def _check_id(text: str) -> str:
    """Ids read from bundles of others may hold more than those made here, but nothing that is no file's name."""
    if is_concept_id(text):
        return text
    if not text or text in RESERVED or "/" in text or folder_problem(text):
        raise ValueError("an id is the name of a file, and not index or log")
    return text


def _check_folder(text: str) -> str:
    if text and (problem := folder_problem(text)):
        raise ValueError(f"the folder {problem}")
    return text


#: Length limits have pydantic look at the characters: halves of pairs, which UTF-8 has no bytes for, are refused.
Text = Annotated[str, StringConstraints(min_length=0)]
#: Unknown keys with their values as JSON, sorted by key.
Extra = tuple[tuple[str, str], ...]


def as_extra(values: Mapping[str, JsonValue]) -> Extra:
    """JSON values in a form that can be hashed."""
    return tuple((key, json.dumps(values[key], ensure_ascii=False, sort_keys=True)) for key in sorted(values))


def from_extra(extra: Extra) -> dict[str, JsonValue]:
    """What `as_extra` was made of."""
    return {key: json.loads(value) for key, value in extra}


class Stamp(Value):
    """Who made or checked something, and when."""

    #: `<producer>/<version>`, `human:<id>`, `process:<id>`, ...
    by: Text
    #: ISO 8601 with an offset; empty where nobody says.
    at: Text = ""
    extra: Extra = ()


class SourceRef(Value):
    """A piece of a source that a concept rests on."""

    #: A URL, a path in the bundle, or text that says what is meant.
    resource: Text
    id: Text = ""
    title: Text = ""
    #: Titles of the headings above and of the section, joined by ` > `.
    section: Text = ""
    #: SHA-256 of the section, see `extraction.section_hash`.
    section_hash: Text = ""
    #: Bytes of the source as it was read.
    span: ByteSpan | None = None
    #: Words that stand in the section.
    quote: Text = ""
    extra: Extra = ()


class Concept(Value):
    """One concept: a file of a bundle. Hashable."""

    id: Annotated[Text, AfterValidator(_check_id)]
    title: Text
    type: Text = "concept"
    #: One sentence.
    description: Text = ""
    tags: tuple[Text, ...] = ()
    #: Markdown.
    body: Text = ""
    #: Where its file is, below the bundle's root; empty for the root itself.
    folder: Annotated[Text, AfterValidator(_check_folder)] = ""
    #: The document that it was made from: a title or a file's name.
    source: Text = ""
    #: Where that document is on the web.
    source_url: Text = ""
    #: The URI of the thing that it is about.
    resource: Text = ""
    #: Ids of other concepts.
    see_also: tuple[Text, ...] = ()
    sources: tuple[SourceRef, ...] = ()
    generated: Stamp | None = None
    verified: tuple[Stamp, ...] = ()
    #: draft, stable, deprecated, or what others write.
    status: Text = STABLE
    stale_after: Text = ""
    extra: Extra = ()

    @model_validator(mode="after")
    def _check_extra(self) -> Self:
        if taken := [key for key, _ in self.extra if key in KNOWN_KEYS]:
            raise ValueError(f"{taken[0]!r} is a field")
        return self

    @property
    def path(self) -> str:
        """The file's path below the bundle's root."""
        return f"{self.folder}/{self.id}.md" if self.folder else f"{self.id}.md"

    @property
    def trust(self) -> str:
        """`unverified`, `machine-confirmed` or `human-reviewed`."""
        if not self.verified:
            return "unverified"
        human = any(each.by.startswith("human:") for each in self.verified)
        return "human-reviewed" if human else "machine-confirmed"


class FailedSection(Value):
    """A section of which no concepts could be made."""

    #: As in `SourceRef.section`.
    section: Text
    #: The code and the words of what went wrong.
    code: Text
    message: Text


class Rejected(Value):
    """An item of a model's answer that was not taken."""

    section: Text
    #: Its id or title, as far as it had one.
    item: Text
    #: `unknown-section`, `quote-not-found`, `no-quote`, `invalid-item`, ...
    reason: Text


class KnowledgeGraph(Value):
    """Concepts that were made together, or read from one bundle. Hashable.

    Raises:
        pydantic.ValidationError: When two concepts have one id.
    """

    title: Text = ""
    concepts: tuple[Concept, ...] = ()
    #: What could not be made; not part of a bundle.
    failed: tuple[FailedSection, ...] = ()
    rejected: tuple[Rejected, ...] = ()

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        if len({concept.id for concept in self.concepts}) != len(self.concepts):
            raise ValueError("two concepts have one id")
        return self

    def __len__(self) -> int:
        return len(self.concepts)

    def get(self, concept_id: str) -> Concept | None:
        """The concept of that id."""
        return next((concept for concept in self.concepts if concept.id == concept_id), None)

    def add_concept(self, concept: Concept) -> KnowledgeGraph:
        """A graph with one more concept, as its last.

        Raises:
            ConflictError: When it has one of that id.
        """
        if self.get(concept.id) is not None:
            raise ConflictError(
                f"There is a concept {concept.id!r} already", mend="Give it another id, or remove the old one first."
            )
        return self._with((*self.concepts, concept))

    def remove_concept(self, concept_id: str) -> KnowledgeGraph:
        """A graph without that concept, to which no other leads any more.

        Raises:
            NotFoundError: When it has none of that id.
        """
        graph, unknown = self.without([concept_id])
        if unknown:
            raise NotFoundError(f"There is no concept {concept_id!r}", mend="List the ids of the graph's concepts.")
        return graph

    def without(self, ids: Iterable[str]) -> tuple[KnowledgeGraph, tuple[str, ...]]:
        """A graph without those concepts, and those of the ids that it does not have, in order, each once."""
        gone = dict.fromkeys(ids)
        known = {concept.id for concept in self.concepts}
        left = (concept for concept in self.concepts if concept.id not in gone)
        kept = tuple(
            _without_links(concept, gone) if any(each in gone for each in concept.see_also) else concept
            for concept in left
        )
        return self._with(kept), tuple(each for each in gone if each not in known)

    def _with(self, concepts: tuple[Concept, ...]) -> KnowledgeGraph:
        # Checking ten thousand concepts anew for each change would be quadratic.
        return self.model_copy(update={"concepts": concepts})


def _without_links(concept: Concept, gone: Mapping[str, Any]) -> Concept:
    return concept.model_copy(update={"see_also": tuple(each for each in concept.see_also if each not in gone)})
