"""A document's sections: what stands below each heading, with its place in the source, nothing left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from knowledge_engine.markdown import find_links, scan, section_slugs

#: What a document without headings is called, where it has no other name.
DOCUMENT: Final = "Document"


class Section(NamedTuple):
    """A heading with what stands below it, up to the next heading of any level: `raw[start:end]` of the source."""

    #: 1 to 6; 0 for text before the first heading, and for a document without any.
    level: int
    #: Plain text; for level 0 the document's title.
    title: str
    #: Byte offsets in the source, see `Outline.sections`.
    start: int
    end: int
    #: Index of the section that this one is in; -1 if there is none.
    parent: int
    #: The text below the heading, as markdown.
    text: str
    #: Names by which links inside the document find it.
    anchors: tuple[str, ...] = ()
    #: Anchors that its own text leads to.
    links: tuple[str, ...] = ()


class Outline(NamedTuple):
    """A document in sections. Their slices of the source add up to all of it, but for a frontmatter."""

    title: str
    sections: tuple[Section, ...]


def heading_paths(sections: Sequence[Section]) -> list[tuple[str, ...]]:
    """For each section the titles from the outermost down to its own."""
    paths: list[tuple[str, ...]] = []
    for section in sections:
        above = paths[section.parent] if section.parent >= 0 else ()
        paths.append((*above, section.title))
    return paths


def parents(levels: Sequence[int]) -> list[int]:
    """For each heading the index of the nearest earlier one of a smaller level; level 0 has none and is none.

    >>> parents([0, 1, 3, 2, 1])
    [-1, -1, 1, 1, -1]
    """
    found: list[int] = []
    open_ones: list[int] = []
    for index, level in enumerate(levels):
        while open_ones and levels[open_ones[-1]] >= level:
            open_ones.pop()
        found.append(open_ones[-1] if open_ones and level else -1)
        if level:
            open_ones.append(index)
    return found


def split_markdown(raw: bytes, start: int = 0, title: str = "") -> Outline:
    """The sections of markdown, as CommonMark sees headings (ATX with closing signs, setext); any bytes will do.

    Args:
        raw: The document as stored.
        start: Where the body begins, behind a frontmatter.
        title: The document's own, for text that stands before the first heading.
    """
    found = scan(raw, start).sections
    slugs = section_slugs(found)
    linked = _local_links(raw, start, [section.start for section in found])
    first = next((section.title for section in found if section.level == 1), "")
    name = title or first or DOCUMENT
    sections = tuple(
        Section(
            section.level,
            section.title if section.level else name,
            section.start,
            section.end,
            section.parent,
            raw[section.body_start : section.end].decode("utf-8", "replace").removeprefix("\ufeff").strip("\r\n"),
            (slug,) if slug else (),
            links,
        )
        for section, slug, links in zip(found, slugs, linked, strict=True)
    )
    return Outline(name, sections)


def _local_links(raw: bytes, start: int, starts: Sequence[int]) -> list[tuple[str, ...]]:
    """For each section that begins at `starts` the anchors which it leads to, in order, each once."""
    found: list[dict[str, None]] = [{} for _ in starts]
    if b"](#" in raw:
        for link in find_links(raw, start):
            if link.target.startswith("#") and starts:
                found[max(bisect_right(starts, link.span[0]) - 1, 0)][link.target[1:]] = None
    return [tuple(anchors) for anchors in found]
