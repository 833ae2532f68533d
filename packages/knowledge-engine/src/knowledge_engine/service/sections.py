"""Sections by name: an outline, and the section that a title or slug means."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_engine.catalogue import fold
from knowledge_engine.markdown import Section, heading_path, section_slugs
from knowledge_engine.models import ByteSpan
from knowledge_engine.service.results import OutlineEntry


def outline(sections: Sequence[Section]) -> tuple[OutlineEntry, ...]:
    """The sections in their order, with what names them. A level 0 without bytes is left out."""
    slugs = section_slugs(sections)
    ends = _nested_ends(sections)
    return tuple(
        OutlineEntry(
            level=section.level,
            title=section.title,
            slug=slugs[at],
            heading_path=heading_path(sections, at),
            span=ByteSpan(start=section.start, end=ends[at]),
            line=section.line,
        )
        for at, section in enumerate(sections)
        if section.level or section.end > section.start
    )


def find_section(entries: Sequence[OutlineEntry], name: str) -> OutlineEntry | None:
    """The section that `name` means: a title (of level 2 first, then of any), else a slug, in any case.

    `#slug` means a slug only; `## Title` the title.
    """
    stripped = name.strip()
    if stripped.startswith("#") and not stripped.lstrip("#").startswith((" ", "\t")):
        return _by_slug(entries, stripped.lstrip("#"))
    key = fold(stripped.lstrip("#"))
    titled = [entry for entry in entries if entry.level and fold(entry.title) == key]
    return next((entry for entry in titled if entry.level == 2), titled[0] if titled else _by_slug(entries, key))


def labels(entries: Sequence[OutlineEntry]) -> tuple[str, ...]:
    """What to call each section so that `find_section` finds exactly it: its title, or `#slug` where that fails."""
    # As find_section chooses: of equal titles the first of level 2, else the first.
    chosen: dict[str, OutlineEntry] = {}
    for entry in sorted(entries, key=lambda entry: entry.level != 2):
        if entry.level and fold(entry.title) and not entry.title.lstrip().startswith("#"):
            chosen.setdefault(fold(entry.title), entry)
    return tuple(entry.title if chosen.get(fold(entry.title)) is entry else f"#{entry.slug}" for entry in entries)


def main_sections(entries: Sequence[OutlineEntry]) -> tuple[OutlineEntry, ...]:
    """The sections of level 2; in a document without any, those of its highest level."""
    levels = {entry.level for entry in entries if entry.level}
    level = 2 if 2 in levels else min(levels, default=0)
    return tuple(entry for entry in entries if entry.level == level and level)


def _by_slug(entries: Sequence[OutlineEntry], slug: str) -> OutlineEntry | None:
    # Slugs differ, but folding may make two of them equal: as written comes first.
    exact = next((entry for entry in entries if entry.slug == slug), None)
    return exact or next((entry for entry in entries if fold(entry.slug) == fold(slug)), None)


def _nested_ends(sections: Sequence[Section]) -> list[int]:
    """Where each section ends with everything nested in it: the next heading that is not deeper."""
    ends = [section.end for section in sections]
    open_sections: list[int] = []
    for at, section in enumerate(sections):
        while open_sections and sections[open_sections[-1]].level >= section.level:
            open_sections.pop()
        for above in open_sections:
            ends[above] = section.end
        if section.level:
            open_sections.append(at)
    return ends
