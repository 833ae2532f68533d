"""From bytes to a document with passages: what is scored, and what each passage's terms are.

A passage ends at a heading; a long section is cut into pieces of about equal size at paragraphs, else lines, else
sentences. A heading with nothing below it goes with the text that follows.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Generic, NamedTuple, TypeVar

from knowledge_engine.analysis import Analyzer
from knowledge_engine.frontmatter import Frontmatter, parse_frontmatter
from knowledge_engine.markdown import Outline, Section, scan
from knowledge_engine.models import DocumentIssue, Metadata
from knowledge_engine.ranking import FIELD_WEIGHTS

MAX_PASSAGE_CHARS = 2_000
#: Four bytes are the longest that UTF-8 has.
MAX_PASSAGE_BYTES = 4 * MAX_PASSAGE_CHARS
MAX_TITLE_CHARS = 500
#: Extensions that are indexed; the first two are markdown, the next plain text, the last data without frontmatter.
EXTENSIONS = (".md", ".markdown", ".txt", ".yaml", ".yml", ".json")
_PLAIN = (".txt",)
_DATA = (".yaml", ".yml", ".json")

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_FOREIGN = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_PROBE = 4096
#: So few may stand in a short text by mistake; they only separate words.
_STRAY_NULS = 3
#: Issues that leave the whole block unread.
_UNREAD = frozenset({"frontmatter-not-mapping", "frontmatter-too-large", "yaml-syntax"})
# A title and the headings above count in each passage below them: so much of them, or a few long ones would make a
# small file a huge index.
_CONTEXT_CHARS = 250
# From the ideal end of a piece; two or three lines.
_CLOSE_BY = 150

_SENTENCE = re.compile(r"[.!?…](?=\s)\s*|[。！？｡।؟]\s*")
_WORD_GAP = re.compile(r"\s+")
# Where a piece may end, best first, and how far from the ideal it is looked for: mostly there is one close by, and the
# many others need not be looked at.
_REACHES = (_CLOSE_BY, MAX_PASSAGE_CHARS)
_BLANK_LINE, _LINE = re.compile(r"\n[ \t]*\r?\n|\r[ \t]*\r"), re.compile(r"\r\n|\n|\r")
_ENDS = tuple(product((_BLANK_LINE, _LINE, _SENTENCE, _WORD_GAP), _REACHES))
# Without CR it is the same and found much faster.
_LF_BLANK_LINE, _LF = re.compile(r"\n[ \t]*\n"), re.compile(r"\n")
_LF_ENDS = tuple(product((_LF_BLANK_LINE, _LF, _SENTENCE, _WORD_GAP), _REACHES))
_BOM = codecs.BOM_UTF8
_BLANK = b" \t\r\n\x0b\x0c"


_Tokens = TypeVar("_Tokens", list[str], bytes)
_Spans = tuple[tuple[int, int], ...]


class Passage(NamedTuple):
    """A heading-bounded piece of a document: raw bytes [start, end), with no blank of ASCII at either end."""

    start: int
    end: int
    heading_path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A document as far as indexes need it; the bytes themselves are not kept."""

    source_id: str
    title: str
    metadata: Metadata
    body_start: int
    size: int
    sections: tuple[Section, ...]
    passages: tuple[Passage, ...]
    issues: tuple[DocumentIssue, ...]
    content_hash: str


class PassageTerms(NamedTuple):
    """Terms of one passage, weighted by field.

    `own` counts the terms that stand in the passage's bytes; `context` those of title, headings above and, for
    a first passage, the catalogue fields. `length` is the sum of both.
    """

    own: Counter[str]
    context: Counter[str]
    length: int


def not_text(raw: bytes) -> str:
    """Why these bytes are no text to index, in a sentence; empty if they are."""
    for mark, name in _FOREIGN:
        if raw.startswith(mark):
            return f"The file is {name}, not UTF-8."
    if (nuls := raw[:_PROBE].count(0)) > _STRAY_NULS and nuls * 10 > min(len(raw), _PROBE):
        return "The file is full of NUL bytes: UTF-16 without a mark, or not text."
    return ""


def chunk_id(source_id: str, start: int, end: int) -> str:
    """The name of a passage: stable while the document's bytes are."""
    return f"{source_id}#{start}-{end}"


def parse_document(source_id: str, raw: bytes) -> Document:
    """Frontmatter, sections and passages of a document. Never fails: what is wrong is in `issues`.

    The id's extension says how to read it: markdown, plain text (`.txt`) or data (`.yaml`, `.yml`, `.json`, which
    has no frontmatter); any other is markdown.
    """
    name = source_id.lower()
    if name.endswith(_DATA):
        front = Frontmatter({}, len(_BOM) if raw.startswith(_BOM) else 0, ())
    else:
        front = parse_frontmatter(raw, source_id)
    body = front.body_start
    if name.endswith(_PLAIN + _DATA):
        outline = Outline((Section(0, "", body, len(raw), body, -1, _line(raw, body)),), (), ())
    else:
        outline = scan(raw, body)
    issues = (*front.issues, *(issue.model_copy(update={"path": source_id}) for issue in outline.issues))
    if not raw.isascii() and (bad := _bad_utf8(raw, body)):
        issues = (*issues, bad.model_copy(update={"path": source_id}))
    passages = tuple(_passages(raw, outline))
    unread = not front.metadata and any(issue.code in _UNREAD for issue in front.issues)
    if unread or not passages:
        block = _trimmed_pieces(raw, len(_BOM) if raw.startswith(_BOM) else 0, body, (), ())
        # It may be prose between two rules: no text is lost. Or there is only frontmatter, perhaps, to cite.
        passages = (*block, *passages) if unread else tuple(block[:1])
    return Document(
        source_id=source_id,
        title=_title(source_id, front.metadata, outline.sections),
        metadata=front.metadata,
        body_start=body,
        size=len(raw),
        sections=outline.sections,
        passages=passages,
        issues=issues,
        content_hash=hashlib.sha256(raw).hexdigest(),
    )


class PassageTokens(NamedTuple, Generic[_Tokens]):
    """Tokens of one passage, each as often as it counts: see `PassageTerms`."""

    own: _Tokens
    context: _Tokens


def passage_tokens(
    document: Document, raw: bytes, of_text: Callable[[str], _Tokens], of_bytes: Callable[[bytes], _Tokens]
) -> Iterator[PassageTokens[_Tokens]]:
    """The tokens of each passage of a document, in order, one at a time: terms, or numbers that stand for them.

    Args:
        raw: What the document was parsed from.
        of_text: Makes tokens of titles, headings and catalogue fields.
        of_bytes: Makes tokens of the text.
    """
    nothing = of_text("")
    title = of_text(document.title[:_CONTEXT_CHARS]) * FIELD_WEIGHTS["title"]
    headings = {document.title: nothing}
    for number, passage in enumerate(document.passages):
        # Before the body stands the frontmatter, which is not searched unless it could not be read.
        in_body = passage.start >= document.body_start or not document.metadata
        context = title
        for heading in passage.heading_path:
            if heading not in headings:
                headings[heading] = of_text(heading[:_CONTEXT_CHARS])
            context = context + headings[heading]
        if number == 0:
            for field in ("aliases", "keywords", "summary"):
                context = context + of_text(field_text(document.metadata, field))
        yield PassageTokens(of_bytes(raw[passage.start : passage.end]) if in_body else nothing, context)


def passage_terms(document: Document, raw: bytes, analyzer: Analyzer) -> Iterator[PassageTerms]:
    """The terms of each passage of a document, counted. `raw` is what the document was parsed from."""
    for own, context in passage_tokens(document, raw, analyzer.terms, analyzer.terms_of):
        yield PassageTerms(Counter(own), Counter(context), len(own) + len(context))


def field_text(metadata: Metadata, field: str) -> str:
    """A catalogue field as searchable text: its string, or the strings of its list."""
    value = metadata.get(field)
    if isinstance(value, list):
        value = "\n".join(str(item) for item in value if isinstance(item, str | int | float))
    # Bounded like a passage, so that no catalogue outweighs the text.
    return str(value)[:MAX_PASSAGE_CHARS] if isinstance(value, str | int | float) else ""


def _bad_utf8(raw: bytes, body_start: int) -> DocumentIssue | None:
    try:
        raw[body_start:].decode()
    except UnicodeDecodeError as error:
        return DocumentIssue(
            code="encoding-invalid",
            severity="warning",
            path="",
            line=_line(raw, body_start + error.start),
            message="The text is not UTF-8 here; such bytes are shown as U+FFFD",
            mend="Save the file as UTF-8.",
        )
    return None


def _line(raw: bytes, offset: int) -> int:
    """1-based; lines end at LF, CRLF or CR."""
    carriages = raw.count(b"\r", 0, offset) - raw.count(b"\r\n", 0, offset)
    return 1 + raw.count(b"\n", 0, offset) + carriages


def _title(source_id: str, metadata: Metadata, sections: tuple[Section, ...]) -> str:
    title = field_text(metadata, "title")
    if not title.strip():
        title = next((section.title for section in sections if section.level == 1 and section.title), "")
    name = source_id.rsplit("/", 1)[-1]
    return _one_line(title) or name.rsplit(".", 1)[0] or name


def _one_line(title: str) -> str:
    return " ".join(title[: 2 * MAX_TITLE_CHARS].split())[:MAX_TITLE_CHARS].rstrip()


def _passages(raw: bytes, outline: Outline) -> list[Passage]:
    found: list[Passage] = []
    sections = outline.sections
    held: int | None = None  # where a heading without text began, which goes with the next section
    paths: list[tuple[str, ...]] = []
    for number, section in enumerate(sections):
        above = paths[section.parent] if section.parent >= 0 else ()
        paths.append((*above, _one_line(section.title)) if section.level else ())
        start = section.start if held is None else held
        short = section.end - start < MAX_PASSAGE_CHARS // 4 and number + 1 < len(sections)
        if short and section.level and not raw[section.body_start : section.end].strip(_BLANK):
            held = start
            continue
        held = None
        found += _trimmed_pieces(raw, start, section.end, paths[number], outline.fences)
    return found


def _trimmed_pieces(raw: bytes, start: int, end: int, path: tuple[str, ...], fences: _Spans) -> list[Passage]:
    found = []
    for left, right in _pieces(raw, start, end, fences):
        text = raw[left:right].rstrip(_BLANK)
        if text:
            found.append(Passage(left + len(text) - len(text.lstrip(_BLANK)), left + len(text), path))
    return found


def _pieces(raw: bytes, start: int, end: int, fences: _Spans) -> list[tuple[int, int]]:
    if end - start <= MAX_PASSAGE_CHARS:
        return [(start, end)]
    text = raw[start:end].decode("utf-8", "surrogateescape")
    if len(text) <= MAX_PASSAGE_CHARS:
        return [(start, end)]
    cuts = _cuts(text, _fenced(raw, start, end, fences))
    if len(text) == end - start:  # a byte a character
        return list(pairwise(start + cut for cut in cuts))
    bounds = [start]
    for left, right in pairwise(cuts):
        bounds.append(bounds[-1] + len(text[left:right].encode("utf-8", "surrogateescape")))
    return list(pairwise(bounds))


def _fenced(raw: bytes, start: int, end: int, fences: _Spans) -> list[tuple[int, int]]:
    """Fenced code of a section, in characters from the section's start."""
    found, at, chars = [], start, 0
    for left, right in fences[bisect_left(fences, (start,)) : bisect_left(fences, (end,))]:
        chars += len(raw[at:left].decode("utf-8", "surrogateescape"))
        size = len(raw[left:right].decode("utf-8", "surrogateescape"))
        found.append((chars, chars + size))
        at, chars = right, chars + size
    return found


def _cuts(text: str, fences: list[tuple[int, int]]) -> list[int]:
    """Where to cut a text into pieces of about equal size, none over the limit."""
    cuts = [0]
    while (left := len(text) - cuts[-1]) > MAX_PASSAGE_CHARS:
        at = cuts[-1]
        ideal = left / -(-left // MAX_PASSAGE_CHARS)
        cuts.append(at + _cut(text[at : at + MAX_PASSAGE_CHARS], ideal, at, fences))
    return [*cuts, len(text)]


def _cut(window: str, ideal: float, at: int, fences: list[tuple[int, int]]) -> int:
    """The best end of a piece that begins at `at`: not within code, if there is any other."""
    last = bisect_left(fences, (at + len(window),)) - 1
    if last >= 0 and fences[last][0] < at + ideal / 2 and fences[last][1] > at + len(window):
        fences = []  # no end is outside of it
    within = []
    for pattern, reach in _ENDS if "\r" in window else _LF_ENDS:
        ends = _ends(pattern, window, ideal, reach)
        if ends and not fences:
            return ends[0]
        for end in ends:
            # The fence that begins last before that end.
            fence = bisect_left(fences, (at + end,)) - 1
            if fence < 0 or fences[fence][1] <= at + end:
                return end
        within += ends[:1]
    return within[0] if within else len(window)


def _ends(pattern: re.Pattern[str], window: str, ideal: float, reach: int) -> list[int]:
    """Where the pattern's matches end, in the second half and no farther than `reach` from the ideal; nearest first."""
    first, last = max(ideal / 2, ideal - reach), ideal + reach
    # No match spans a character that is not blank: those that end from `first` on are found from such a one on.
    start = max(0, len(window[: int(first)].rstrip()) - 1)
    ends = []
    for match in pattern.finditer(window, start):
        end = match.end()
        if end > last:
            break
        if end >= first:
            ends.append(end)
    if len(ends) > 1:
        ends.sort(key=lambda end: abs(end - ideal))
    return ends
