"""What extractors have in common: what they are given, what they give, and how concepts get ids and links."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote, unquote

from knowledge_engine.models import ByteSpan
from knowledge_okf.models import Concept, FailedSection, Rejected, SourceRef, Stamp
from knowledge_okf.names import NO_PATHS, Names, PathMap, folder_of
from knowledge_okf.sections import Outline, Section, heading_paths
from knowledge_okf.sources import SourceText

#: Between titles in `SourceRef.section`.
ABOVE: Final = " > "
_MAX_DESCRIPTION = 200
_MAX_BLOCK = 600
_MAX_TITLE = 300
_MAX_LINKS = 50
_PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)
_FENCE = re.compile(r"(`{3,}|~{3,})[^\n]*\n")
_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)|[。！？]")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_NO_MARKUP = str.maketrans("", "", "`*\\")


@cache
def producer() -> str:
    """Who makes concepts here, as `generated.by` has it."""
    return f"kpkit-okf/{version('kpkit-okf')}"


class Task(NamedTuple):
    """A section to make concepts of."""

    #: Its place among the document's sections.
    place: int
    section: Section
    #: Titles down to its own, joined by `ABOVE`.
    path: str
    #: See `section_hash`.
    hash: str


class Draft(NamedTuple):
    """A concept before it has an id of its own."""

    task: Task
    #: An id that it would like to have.
    wanted: str
    title: str
    description: str
    tags: tuple[str, ...]
    body: str
    #: Words of the section; empty where it rests on all of it.
    quote: str = ""
    span: ByteSpan | None = None
    #: Ids or titles of other concepts.
    see_also: tuple[str, ...] = ()
    #: Sections that it leads to.
    leads_to: tuple[int, ...] = ()


class Extraction(NamedTuple):
    """What was made of sections."""

    drafts: tuple[Draft, ...]
    failed: tuple[FailedSection, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    #: Who made it, for `generated.by`.
    by: str = ""
    #: `Task.place` of those in `failed`.
    failed_tasks: frozenset[int] = frozenset()


class Extractor(Protocol):
    """Makes concepts of sections."""

    def extract(self, source: SourceText, outline: Outline, tasks: Sequence[Task]) -> Extraction:
        """Drafts in the order of the tasks; a section that fails is told in `failed`, not raised."""
        ...


def section_hash(path: str, text: str, before: int = 0) -> str:
    """SHA-256 of a section's titles and text: equal as long as nothing in it changes, wherever it stands.

    `before` is how many equal sections stand before it.
    """
    number = f"\0{before}" if before else ""
    return hashlib.sha256(f"{path}\0{text}{number}".encode("utf-8", "replace")).hexdigest()


def tasks_of(outline: Outline) -> list[Task]:
    """Each section as a task, but those that hold nothing that anybody could read."""
    seen: dict[str, int] = {}
    tasks = []
    for index, (section, titles) in enumerate(zip(outline.sections, heading_paths(outline.sections), strict=True)):
        if not section.text.strip() and not (section.level and section.title):
            continue
        path = ABOVE.join(map(shortened, titles))
        digest = section_hash(path, section.text)
        before = seen[digest] = seen.get(digest, -1) + 1
        tasks.append(Task(index, section, path, section_hash(path, section.text, before) if before else digest))
    return tasks


def shortened(title: str) -> str:
    """A title as a frontmatter can hold it."""
    return title if len(title) <= _MAX_TITLE else f"{title[: _MAX_TITLE - 1]}…"


def first_sentence(text: str) -> str:
    """The first sentence of markdown as plain text, on one line; empty where there is none."""
    text = text.lstrip()
    # Code says nothing of itself.
    while fence := _FENCE.match(text):
        _, _, text = text[fence.end() :].partition(f"\n{fence[1]}")
        text = text.lstrip("`~ \n\t")
    block = text[: text.find("\n\n") if "\n\n" in text[:_MAX_BLOCK] else _MAX_BLOCK]
    if "](" in block:
        block = _LINK.sub(r"\1", block)
    plain = " ".join([line.lstrip("># |-") for line in block.split("\n")])
    plain = " ".join(plain.translate(_NO_MARKUP).split())
    found = _SENTENCE_END.search(plain, 1)
    said = plain[: found.end()] if found else plain
    return said if len(said) <= _MAX_DESCRIPTION else f"{said[: _MAX_DESCRIPTION - 1].rstrip()}…"


class Taken(NamedTuple):
    """What is there already when concepts get their ids."""

    #: Ids that are used.
    ids: frozenset[str] = frozenset()
    #: Ids that are free to be taken over, by (section path, title).
    known: Mapping[tuple[str, str], str] = {}
    #: Ids of the concepts that each section, by its hash, has.
    by_section: Mapping[str, Sequence[str]] = {}
    #: Where the file of each concept is, by id.
    paths: Mapping[str, str] = {}


def finish(
    extraction: Extraction,
    source: SourceText,
    outline: Outline,
    at: str,
    *,
    path_map: PathMap = NO_PATHS,
    taken: Taken | None = None,
) -> list[Concept]:
    """Drafts as concepts: with ids, each once, folders, links and provenance.

    Args:
        extraction: The drafts.
        source: What they were made from.
        outline: Its sections.
        at: When, as ISO 8601 with an offset.
        path_map: Folders by tag.
        taken: What a bundle holds already.
    """
    taken = taken or Taken()
    names = Names(taken.ids)
    wanted = _kept_ids(extraction.drafts, taken, names)
    ids = [name if name else names.take(draft.wanted) for name, draft in zip(wanted, extraction.drafts, strict=True)]
    links = _Links(extraction.drafts, ids, outline, taken)
    folders = [folder_of(draft.tags, path_map) for draft in extraction.drafts]
    paths = {own: f"{folder}/{own}.md" if folder else f"{own}.md" for own, folder in zip(ids, folders, strict=True)}
    paths |= taken.paths
    targets = {own: path if _PLAIN_PATH.fullmatch(path) else quote(path) for own, path in paths.items()}
    stamp = Stamp(by=extraction.by or producer(), at=at)
    return [
        Concept(
            id=own,
            title=draft.title,
            description=draft.description,
            tags=draft.tags,
            body=_with_paths(draft.body, lambda anchor: targets.get(links.at(anchor), "")),
            folder=folder,
            source=shortened(outline.title),
            source_url=source.url,
            see_also=links.of(draft, own),
            sources=(
                SourceRef(
                    id="s1",
                    resource=source.url or source.name,
                    section=draft.task.path,
                    section_hash=draft.task.hash,
                    span=draft.span or ByteSpan(start=draft.task.section.start, end=draft.task.section.end),
                    quote=draft.quote,
                ),
            ),
            generated=stamp,
        )
        for draft, own, folder in zip(extraction.drafts, ids, folders, strict=True)
    ]


def _with_paths(body: str, lead: Callable[[str], str]) -> str:
    """Markdown whose links inside of the document lead to the files of concepts; those in code stay as they are."""
    first, *parts = body.split("](#")
    out, ticks, line = [first], first.count("```"), first.rpartition("\n")[2]
    for part in parts:
        anchor, closed, rest = part.partition(")")
        path = (
            "" if ticks % 2 or line.count("`") % 2 or not closed else lead(unquote(anchor) if "%" in anchor else anchor)
        )
        out.append(f"](/{path}){rest}" if path else f"](#{part}")
        ticks += part.count("```")
        line = part.rpartition("\n")[2] if "\n" in part else line + part
    return "".join(out)


def _kept_ids(drafts: Iterable[Draft], taken: Taken, names: Names) -> list[str]:
    """For each draft the id that the concept had which it takes the place of; empty for a new one."""
    free = dict(taken.known)
    found = []
    for draft in drafts:
        name = free.pop((draft.task.path, draft.title), "")
        found.append(names.take(name) if name and name not in names else "")
    return found


class _Links:
    """Finds the concepts that a draft leads to."""

    def __init__(self, drafts: Sequence[Draft], ids: Sequence[str], outline: Outline, taken: Taken) -> None:
        self._ids = set(ids) | set(taken.ids)
        self._by_title: dict[str, str] = {}
        self._by_section: dict[int, list[str]] = {}
        for draft, own in zip(drafts, ids, strict=True):
            self._by_title.setdefault(draft.title.casefold(), own)
            self._by_title.setdefault(draft.wanted, own)
            self._by_section.setdefault(draft.task.place, []).append(own)
        self._anchors: dict[str, int] = {}
        for index, section in enumerate(outline.sections):
            for anchor in section.anchors:
                self._anchors.setdefault(anchor, index)
        if taken.by_section:
            for task in tasks_of(outline):
                self._by_section.setdefault(task.place, list(taken.by_section.get(task.hash, ())))

    def at(self, anchor: str) -> str:
        """The id of the first concept of the section that an anchor leads to."""
        return next(iter(self._by_section.get(self._anchors.get(anchor, -1), ())), "")

    def of(self, draft: Draft, own: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for name in draft.see_also:
            target = self._by_title.get(name.casefold()) or (name if name in self._ids else "")
            if target:
                found[target] = None
        for index in draft.leads_to:
            for target in self._by_section.get(index, ())[:1]:
                found[target] = None
        found.pop(own, None)
        return tuple(found)[:_MAX_LINKS]
