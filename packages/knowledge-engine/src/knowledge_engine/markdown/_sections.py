"""A document's sections: byte ranges that add up to the text, headed and nested as CommonMark reads it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from knowledge_engine.markdown._blocks import Blocks, Heading
from knowledge_engine.markdown._plain import plain_text
from knowledge_engine.models import DocumentIssue

_BOM = b"\xef\xbb\xbf"
_MAX_ISSUES = 100
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


class Section(NamedTuple):
    """A heading with what stands below it, up to the next heading of any level: `raw[start:end]`."""

    #: 1 to 6; 0 for text before the first heading.
    level: int
    #: Plain text, see `knowledge_engine.markdown`; empty for level 0.
    title: str
    start: int
    end: int
    #: Where the heading's own lines end.
    body_start: int
    #: Index of the section that this one is in: the nearest earlier one with a smaller level; -1 if there is none.
    parent: int
    #: 1-based line of the file; lines end at LF, CRLF or CR.
    line: int


class Outline(NamedTuple):
    """What `scan` finds. The sections' slices add up to `raw[start:]`."""

    sections: tuple[Section, ...]
    #: Byte ranges of fenced code, whole lines with the fences, in order; also inside lists and quotes.
    fences: tuple[tuple[int, int], ...]
    #: Their `path` is empty: bytes do not know where they come from.
    issues: tuple[DocumentIssue, ...]


def to_lf(raw: bytes) -> bytes:
    """`raw` with all lines ended by LF, and every other byte at its place."""
    if b"\r" not in raw:
        return raw
    return raw.replace(b"\r\n", b" \n").replace(b"\r", b"\n")


def read_blocks(raw: bytes, start: int) -> tuple[bytes, Blocks]:
    """The text with lines ended by LF, and its blocks from `start` on, a BOM left aside."""
    text = to_lf(raw)
    return text, Blocks(text, len(_BOM) if start == 0 and raw.startswith(_BOM) else start)


def scan(raw: bytes, start: int = 0) -> Outline:
    """The outline of `raw[start:]`; offsets and lines count from the start of `raw`.

    `start` is where a line begins, such as a frontmatter's `body_start`. Any bytes will do; time is linear in
    their number.
    """
    text, blocks = read_blocks(raw, start)
    lines = _LineCounter(text)
    sections = _sections(text, start, blocks.headings, lines)
    lines = _LineCounter(text)
    issues = [
        DocumentIssue(
            code="fence-unclosed",
            severity="warning",
            path="",
            line=lines.at(fence),
            message="A code fence is opened and never closed; all that follows counts as code",
            mend="Close it with a line of the same signs, indented as deep.",
        )
        for fence in blocks.unclosed[:_MAX_ISSUES]
    ]
    return Outline(tuple(sections), tuple(blocks.fences), tuple(issues))


def split_sections(raw: bytes, start: int = 0) -> tuple[Section, ...]:
    """The sections of `scan`."""
    return scan(raw, start).sections


class _LineCounter:
    """Line numbers of offsets asked for in ascending order."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._offset = 0
        self._line = 1

    def at(self, offset: int) -> int:
        self._line += self._text.count(b"\n", self._offset, offset)
        self._offset = offset
        return self._line


def _sections(text: bytes, start: int, headings: Sequence[Heading], lines: _LineCounter) -> list[Section]:
    size = len(text)
    found: list[Section] = []
    first = headings[0].start if headings else size
    # A BOM alone is no text: it goes with the first heading.
    if first > start and not (start == 0 and text[:first] == _BOM and headings):
        found.append(Section(0, "", start, first, start, -1, lines.at(start)))
        start = first
    enclosing: list[int] = []
    for number, heading in enumerate(headings):
        level, line_start = heading.level, heading.start
        while enclosing and found[enclosing[-1]].level >= level:
            enclosing.pop()
        parent = enclosing[-1] if enclosing else -1
        enclosing.append(len(found))
        end = headings[number + 1].start if number + 1 < len(headings) else size
        title = plain_text(text[heading.text_start : heading.text_end])
        begin = line_start if number else start
        found.append(Section(level, title, begin, end, heading.body_start, parent, lines.at(line_start)))
    return found


def heading_path(sections: Sequence[Section], index: int) -> tuple[str, ...]:
    """Titles from the outermost section to `sections[index]` itself; empty for text before the first heading."""
    path: list[str] = []
    while index >= 0 and sections[index].level:
        path.append(sections[index].title)
        index = sections[index].parent
    return tuple(reversed(path))


def section_slugs(sections: Sequence[Section]) -> tuple[str, ...]:
    """A name for each section, as GitHub makes anchors of headings; no two are equal.

    Lower case, spaces as hyphens, other punctuation gone; repeated ones are numbered: `setup`, `setup-1`. Empty for
    text before the first heading, `section` for a title without letters or digits.
    """
    used: dict[str, int] = {}
    slugs: list[str] = []
    for section in sections:
        if not section.level:
            slugs.append("")
            continue
        base = _NOT_IN_SLUG.sub("", section.title.lower()).replace(" ", "-")
        if not base.strip("-"):
            base = "section"
        slug = base
        while slug in used:
            used[base] += 1
            slug = f"{base}-{used[base]}"
        used[slug] = 0
        slugs.append(slug)
    return tuple(slugs)
