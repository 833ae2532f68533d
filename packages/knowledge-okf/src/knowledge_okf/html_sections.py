"""HTML as sections of markdown: headings h1 to h6 where browsers see them, text in blocks, code as it stands."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urljoin

from knowledge_okf.html_tokens import LINE, PARAGRAPH, Special, TagMeanings, cut
from knowledge_okf.sections import DOCUMENT, Outline, Section, parents

#: Stands around code, whose blanks stay as they are; no HTML holds the sign.
_CODE: Final = "\x01"
_SIGNS = str.maketrans("\x00\x01\x02\x03", "    ")
_TICKS = re.compile("`+")
# What a line of text must not begin with, or it would be a heading, code, a quote or a rule.
_BLOCK = re.compile(r"#{1,6}(?: |\Z)|```|~~~|>|(?:[-=*_] ?){3,}\Z")
_MARKS = frozenset("#`~>-=*_")
_BLANKS: Final = "\n\t\r\f\v\xa0\x1f"
_BLANK_LINES = re.compile("\n{3,}")
_POINTED = re.compile(r"`[^`\n]*`|<(?=[a-zA-Z/!?])")
_UNSAFE_IN_TARGET = re.compile(r"[\s()<>\\]")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_SCHEMES = frozenset({"http", "https", "mailto", "ftp", "tel"})
#: A heading that is not closed within so many tags ends with its first block.
_MAX_TAGS = 40
#: So many tags before a heading may carry its anchor.
_NEAR = 3


class _Heading:
    """A heading: index of its tag, and of the tag that ends it."""

    def __init__(self, tag: int, special: Special) -> None:
        self.tag, self.end, self.level = tag, -1, special.level
        self.anchors = [special.anchor] if special.anchor else []


class _Pieces:
    """Texts, what is shown between them, and where headings, links and anchors are."""

    def __init__(self, text: str, base: str) -> None:
        self.source, self.tags = cut(text)
        #: What is left of the source's texts.
        self.texts = self.source.copy()
        meanings = TagMeanings()
        #: What is shown in the place of each tag.
        self.shown = [meanings[tag] for tag in self.tags]
        self.base = base
        self.title = ""
        self.headings: list[_Heading] = []
        #: Index of the tag, and the anchor that is there or led to.
        self.links: list[tuple[int, str]] = []
        self.anchors: list[tuple[int, str]] = []
        self._read([(at, each) for at, each in enumerate(self.shown) if type(each) is Special])

    def _read(self, specials: list[tuple[int, Special]]) -> None:
        code, target, template, depth = -1, "", 0, 0
        open_heading: _Heading | None = None
        shown = self.shown
        for at, special in specials:
            kind = special.kind
            if depth or kind == "template":
                depth += {"template": 1, "/template": -1}.get(kind, 0)
                template = at if depth == 1 and kind == "template" else template
                if not depth:
                    self._blank(template, at)
            elif kind == "a":
                target = self._target(at, special)
                shown[at] = "[" if target else ""
            elif kind == "/a":
                if target:
                    shown[at] = f"]({target})"
                target = ""
            elif kind == "heading":
                code = self._code(code, at)
                open_heading = _Heading(at, special)
                self.headings.append(open_heading)
            elif kind == "/heading":
                self._end(open_heading, at)
                open_heading = None
            elif kind == "/pre":
                code = self._code(code, at)
            elif kind == "pre":
                code = code if code >= 0 else at
                self._end(open_heading, at)
                open_heading = None
            else:
                self._text(at, special)
        self._code(code, len(self.tags))
        if depth:
            self._blank(template, len(self.tags))

    def _end(self, heading: _Heading | None, at: int) -> None:
        """Ends a heading that is open; at its end tag, or where code begins."""
        if heading and at - heading.tag <= _MAX_TAGS:
            heading.end = at

    def _text(self, at: int, special: Special) -> None:
        if special.kind == "title":
            self.title = self.title or " ".join(special.value.split())
        elif special.anchor:
            self.anchors.append((at, special.anchor))

    def _target(self, at: int, special: Special) -> str:
        """Where a link leads, as it may stand in markdown; empty for none."""
        if special.anchor:
            self.anchors.append((at, special.anchor))
        target = special.value
        if target.startswith(("http:", "https:")):
            return _UNSAFE_IN_TARGET.sub(_escaped, target) if _UNSAFE_IN_TARGET.search(target) else target
        if not target:
            return ""
        if target[0] == "#":
            if len(target) > 1:
                self.links.append((at, unquote(target[1:]) if "%" in target else target[1:]))
            return _UNSAFE_IN_TARGET.sub(_escaped, target) if _UNSAFE_IN_TARGET.search(target) else target
        if self.base:
            try:
                target = urljoin(self.base, target)
            except ValueError:
                return ""
        scheme = _SCHEME.match(target)
        if scheme and scheme[1].lower() not in _SCHEMES:
            return ""
        return _UNSAFE_IN_TARGET.sub(_escaped, target)

    def _blank(self, first: int, last: int) -> None:
        """Hides all from one tag to another."""
        self.texts[first + 1 : last + 1] = [""] * (min(last, len(self.tags)) - first)
        self.shown[first : last + 1] = [""] * len(self.shown[first : last + 1])

    def _code(self, first: int, last: int) -> int:
        """Makes code of all from one tag to another, if `first` is one; -1."""
        if first < 0:
            return -1
        parts = [self.texts[first + 1]]
        for at in range(first + 1, last):
            shown = self.shown[at]
            parts += ["\n" if _breaks(shown) else _in_title(shown), self.texts[at + 1]]
        self._blank(first, last)
        self.shown[first] = f"{PARAGRAPH}{_CODE}{''.join(parts)}{_CODE}{PARAGRAPH}"
        return -1

    def end_headings(self) -> None:
        """Finds the end of those that no end tag closes: their first block, or the next heading."""
        tags = [heading.tag for heading in self.headings]
        for heading, limit in zip(self.headings, [*tags[1:], len(self.tags)], strict=False):
            if heading.end >= 0:
                continue
            said = False
            heading.end = limit
            for at in range(heading.tag + 1, min(limit, heading.tag + _MAX_TAGS)):
                said = said or (not self.texts[at].isspace() and bool(self.texts[at]))
                if said and _breaks(self.shown[at]):
                    heading.end = at
                    break
        for at, anchor in self.anchors:
            self._place_anchor(at, anchor, tags)

    def _place_anchor(self, at: int, anchor: str, tags: Sequence[int]) -> None:
        index = bisect_right(tags, at)
        near = index < len(tags) and tags[index] - at <= _NEAR
        if near and not "".join(self.texts[at + 1 : tags[index] + 1]).strip():
            self.headings[index].anchors.append(anchor)
        elif index:
            self.headings[index - 1].anchors.append(anchor)

    def heading_title(self, heading: _Heading) -> str:
        """Its plain text, on one line."""
        first, last = heading.tag + 1, min(heading.end, len(self.texts) - 1)
        if last == first:
            text = self.texts[first]
        else:
            between = [_in_title(self.shown[at]) for at in range(first, last)]
            text = "".join(part for pair in zip(self.texts[first:], [*between, ""], strict=False) for part in pair)
        return _valid(" ".join((html.unescape(text) if "&" in text else text).split()))


def split_html(raw: bytes, *, base: str = "", title: str = "") -> Outline:
    """The sections of an HTML document; comments, scripts, styles and templates are not part of any text.

    Args:
        raw: UTF-8; other bytes are replaced.
        base: The document's own address, to which its links are relative.
        title: Where the document does not say its own.
    """
    # Bytes that are no text keep their number, so that places stay true.
    text = raw.decode("utf-8", "surrogateescape")
    if any(sign in text for sign in "\x00\x01\x02\x03"):
        text = text.translate(_SIGNS)
    pieces = _Pieces(text, base)
    pieces.end_headings()
    first = next((pieces.heading_title(one) for one in pieces.headings if one.level == 1), "")
    name = _valid(pieces.title) or title or first or DOCUMENT
    return Outline(name, tuple(_sections(pieces, raw, name)))


def _byte_starts(raw: bytes, pieces: _Pieces) -> list[int]:
    """Where each heading begins in `raw`."""
    measure = len if raw.isascii() else _byte_length
    starts, at, text, tag = [], 0, 0, 0
    for heading in pieces.headings:
        at += sum(map(measure, pieces.source[text : heading.tag + 1])) + sum(
            map(measure, pieces.tags[tag : heading.tag])
        )
        text, tag = heading.tag + 1, heading.tag
        starts.append(at)
    return starts


def _in_title(shown: str) -> str:
    """What is left of something shown where there are neither lines nor links."""
    if _breaks(shown):
        return " "
    return "" if shown in ("[", "`") or shown.startswith("](") else shown


def _breaks(shown: str) -> bool:
    return LINE in shown or PARAGRAPH in shown


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _sections(pieces: _Pieces, raw: bytes, name: str) -> list[Section]:
    starts = _byte_starts(raw, pieces)
    # Texts and what stands between them, in turn.
    both: list[str] = [""] * (2 * len(pieces.texts) - 1)
    both[::2], both[1::2] = pieces.texts, pieces.shown
    ends = [*(heading.tag for heading in pieces.headings), len(pieces.tags)]
    found: list[tuple[int, str, int, str, tuple[str, ...]]] = []
    preamble = _markdown("".join(both[: 2 * ends[0] + 1]))
    if preamble or not starts:
        found.append((0, name, 0, preamble, ()))
    for at, heading in enumerate(pieces.headings):
        # The first section takes what nobody sees before it.
        start = starts[at] if at or preamble else 0
        text = _markdown("".join(both[2 * heading.end + 1 : 2 * ends[at + 1] + 1]))
        found.append((heading.level, pieces.heading_title(heading), start, text, tuple(heading.anchors)))
    links = _links_by_section(pieces, ends[:-1], shift=len(found) - len(starts), count=len(found))
    above = parents([each[0] for each in found])
    after = [*(each[2] for each in found[1:]), len(raw)]
    return [
        Section(level, title, start, end, parent, text, anchors, link)
        for (level, title, start, text, anchors), end, parent, link in zip(found, after, above, links, strict=True)
    ]


def _links_by_section(pieces: _Pieces, tags: list[int], *, shift: int, count: int) -> list[tuple[str, ...]]:
    found: list[dict[str, None]] = [{} for _ in range(count)]
    for at, anchor in pieces.links:
        found[max(bisect_right(tags, at) - 1 + shift, 0)][anchor] = None
    return [tuple(each) for each in found]


def _escaped(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02x}"


def _markdown(text: str) -> str:
    """What is shown, with the signs for lines and code made markdown."""
    if _CODE not in text:
        return _prose(text)
    parts = text.split(_CODE)
    parts[::2] = map(_prose, parts[::2])
    parts[1::2] = map(_fenced, parts[1::2])
    return "\n\n".join(filter(None, parts))


def _prose(text: str) -> str:
    if "&" in text:
        text = html.unescape(text)
        if "<" in text:
            text = _POINTED.sub(lambda found: "\\<" if found[0] == "<" else found[0], text)
    # What C does at once is many times as fast as looking at each word or line.
    for blank in _BLANKS:
        if blank in text:
            text = text.replace(blank, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    text = "\n\n".join([_lines(block) for block in map(str.strip, text.split(PARAGRAPH)) if block])
    return text if text.isascii() else _valid(text)


def _lines(block: str) -> str:
    """A block with its lines, none of which begins as something else than text does."""
    if LINE not in block:
        return f"\\{block}" if block[0] in _MARKS and _BLOCK.match(block) else block
    lines = [line.strip() for line in block.strip(f" {LINE}").split(LINE)]
    shown = [f"\\{line}" if line[:1] in _MARKS and _BLOCK.match(line) else line for line in lines]
    return _BLANK_LINES.sub("\n\n", "\n".join(shown))


def _fenced(text: str) -> str:
    code = _valid(html.unescape(text)).removeprefix("\n").rstrip()
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in _TICKS.findall(code)), 3) if "`" in code else "```"
    return f"{fence}\n{code}\n{fence}" if code else ""


def _valid(text: str) -> str:
    """`text` with U+FFFD for bytes that were none."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
