"""Finding the block at the head of a document, and saying what is wrong with it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from knowledge_engine.frontmatter._plain import plain_block
from knowledge_engine.frontmatter._yaml import Block, line_of, read_block
from knowledge_engine.models import DocumentIssue, Metadata, Severity

BOM: Final = b"\xef\xbb\xbf"
#: A longer block is not parsed.
MAX_BLOCK_BYTES: Final = 64 * 1024
_MAX_ISSUES: Final = 100

OPENING: Final = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*+(?:\r?\n|\r?\Z)")
_CLOSING = re.compile(rb"\n(---[ \t]*+(?:\r?\n|\r?\Z))")
# Blank lines, then a fence with a `key:` line right below it, which a thematic break seldom has.
_SECOND = re.compile(rb"([ \t\r\n]*+)(?<=\n)---[ \t]*+\r?\n(?:[ \t]*+#[^\n]*+\n)*[\w.-]++:(?=[ \t\r\n])")
_SEVERITY: Final[dict[str, Severity]] = {
    "frontmatter-missing": "info",
    "frontmatter-second-block": "warning",
    "text-surrogate": "warning",
}


class Frontmatter(NamedTuple):
    """What stands at the head of a document. The body is `raw[body_start:]`."""

    #: Strict JSON without nulls: missing and null are the same.
    metadata: Metadata
    body_start: int
    issues: tuple[DocumentIssue, ...]


class Fences(NamedTuple):
    """Byte offsets: the block's text is raw[start:end], the closing fence's line ends at `body_start`."""

    start: int
    end: int
    body_start: int


def find_fences(raw: bytes) -> Fences | None:
    """Where the block stands; None without one, also when it is never closed.

    A fence is a line of exactly `---` and blanks: the document's first line (after at most one BOM) opens, the
    next one closes. Lines end at LF or CRLF.
    """
    opening = OPENING.match(raw)
    if opening is None:
        return None
    # The opening line's own end may be what precedes the closing fence.
    closing = _CLOSING.search(raw, opening.end() - 1)
    return Fences(opening.end(), closing.start(1), closing.end()) if closing else None


class _Issues:
    """Collects a document's issues, no more than `_MAX_ISSUES` of them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.found: list[DocumentIssue] = []

    def add(self, code: str, line: int, problem: str, mend: str, severity: Severity | None = None) -> None:
        if len(self.found) == _MAX_ISSUES:
            code, problem, mend = "too-many-issues", "More is wrong than is listed", "Mend these first."
        elif len(self.found) > _MAX_ISSUES:
            return
        issue = DocumentIssue(
            code=code,
            severity=severity or _SEVERITY.get(code, "error"),
            path=self._path,
            line=line,
            message=problem,
            mend=mend,
        )
        self.found.append(issue)

    def in_block(self, code: str, line: int, problem: str, mend: str) -> None:
        """`line` counts from 0 in the block, whose first line is the file's second."""
        self.add(code, line + 2, problem, mend)


def parse_frontmatter(raw: bytes, path: str = "") -> Frontmatter:
    """Metadata and where the body begins; never raises, whatever the bytes are.

    Without a block the whole text is body, from after a BOM. `path` only goes into the issues. What cannot be read is
    left out of the metadata and reported; where the block as a whole cannot be read, the metadata is empty.
    """
    issues = _Issues(path)
    fences = find_fences(raw)
    if fences is None:
        _report_absence(raw, issues)
        return Frontmatter({}, body_start(raw), tuple(issues.found))
    block = _parse_block(raw, fences, issues)
    if (second := _SECOND.match(raw, fences.body_start)) and _CLOSING.search(raw, second.end()):
        line = raw.count(b"\n", 0, second.end(1)) + 1
        problem = "A second block follows the frontmatter and counts as text"
        issues.add("frontmatter-second-block", line, problem, "Join the two blocks.")
    return Frontmatter(block.metadata, fences.body_start, tuple(issues.found))


def body_start(raw: bytes) -> int:
    """Where the body begins, as `parse_frontmatter` has it, without reading the block."""
    fences = find_fences(raw)
    if fences is not None:
        return fences.body_start
    return len(BOM) if raw.startswith(BOM) else 0


def read_entries(raw: bytes, fences: Fences) -> Block:
    """The block again, with the places of its entries; for one that has no errors."""
    return read_block(raw[fences.start : fences.end].decode(), lambda *_: None)


def key_lines(raw: bytes) -> dict[str, int]:
    """The 1-based line of the file for each top-level key, of a block with errors too; reads the block once more."""
    fences = find_fences(raw)
    if fences is None or fences.end - fences.start > MAX_BLOCK_BYTES:
        return {}
    text = raw[fences.start : fences.end].decode(errors="replace")
    lines: dict[str, int] = {}
    for entry in read_block(text, lambda *_: None).entries:
        lines.setdefault(entry.key, line_of(text, entry.start) + 2)
    return lines


def _report_absence(raw: bytes, issues: _Issues) -> None:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        problem = "The file is not UTF-8 but seems to be UTF-16"
        issues.add("encoding-invalid", 1, problem, "Save it as UTF-8.", "error")
    elif OPENING.match(raw):
        problem = "The first line is `---`, but no later line closes the block; all of it counts as text"
        mend = "Add a line `---` below the metadata, or begin the document with an empty line if it has none."
        issues.add("frontmatter-unclosed", 1, problem, mend)
    else:
        problem = "The document has no frontmatter"
        issues.add("frontmatter-missing", 1, problem, "Begin it with `---`, `title: ...`, `---`, if you like.")


def _parse_block(raw: bytes, fences: Fences, issues: _Issues) -> Block:
    if fences.end - fences.start > MAX_BLOCK_BYTES:
        problem = f"The block is longer than {MAX_BLOCK_BYTES // 1024} KiB and is not read"
        issues.add("frontmatter-too-large", 1, problem, "Move text below the closing `---`.")
        return Block({})
    data = raw[fences.start : fences.end]
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data.decode(errors="replace")
        line = line_of(data[: error.start].decode(), error.start)
        problem = "The block is not UTF-8; wrong bytes are shown as U+FFFD"
        issues.add("encoding-invalid", line + 2, problem, "Save the file as UTF-8.", "warning")
    if (metadata := plain_block(text)) is not None:
        return Block(metadata)
    return read_block(text, issues.in_block)
