"""Concepts without a model: one for each section, linked as headings and links inside the document say."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge_okf.extraction import Draft, Extraction, Task, first_sentence, producer, shortened
from knowledge_okf.names import slug
from knowledge_okf.sections import Outline, heading_paths
from knowledge_okf.sources import SourceText

_MAX_TAGS = 5
_MAX_CHILDREN = 40


class HeadingExtractor:
    """Gives the same concepts for the same source, always."""

    def extract(self, source: SourceText, outline: Outline, tasks: Sequence[Task]) -> Extraction:  # noqa: ARG002
        """See `Extractor`; nothing fails."""
        sections = outline.sections
        children: dict[int, list[int]] = {}
        anchors: dict[str, int] = {}
        for index, section in enumerate(sections):
            if section.parent >= 0:
                children.setdefault(section.parent, []).append(index)
            for anchor in section.anchors:
                anchors.setdefault(anchor, index)
        paths = heading_paths(sections)
        slugs: dict[str, str] = {}
        drafts = []
        for task in tasks:
            section = task.section
            inside = children.get(task.place, [])[:_MAX_CHILDREN]
            linked = [anchors[anchor] for anchor in section.links if anchor in anchors]
            above = [section.parent] if section.parent >= 0 else []
            tags = []
            for title in paths[task.place][:-1][:_MAX_TAGS]:
                if title not in slugs:
                    slugs[title] = slug(title)
                tags.append(slugs[title])
            title = shortened(section.title or outline.title)
            drafts.append(
                Draft(
                    task,
                    # What stands before the first heading leaves the plain name to that heading.
                    slug(title) if section.level or len(sections) == 1 else f"{slug(title)[:60]}-start",
                    title,
                    first_sentence(section.text)
                    or _covers(title, [shortened(sections[index].title) for index in inside]),
                    tuple(dict.fromkeys(tags)),
                    f"{section.text}\n" if section.text else "",
                    leads_to=(*above, *linked, *inside),
                )
            )
        return Extraction(tuple(drafts), by=producer())


def _covers(title: str, inside: Sequence[str]) -> str:
    """What is said of a section that only holds others."""
    named = [each for each in inside if each][:5]
    return " ".join((f"{title}: {', '.join(named)}." if named else f"{title}.").split())
