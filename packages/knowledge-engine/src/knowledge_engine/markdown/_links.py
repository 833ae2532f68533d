"""Links out of a document: wiki links, inline and reference links, images, addresses in pointed brackets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal, NamedTuple

from knowledge_engine.markdown._blocks import Blocks
from knowledge_engine.markdown._plain import decode, plain_text, unescape_target
from knowledge_engine.markdown._sections import read_blocks
from knowledge_engine.markdown._syntax import DEFINITION, INLINE_TARGET, TAG

# Where text ends that markup may span: at a blank line, an item, a heading.
_BREAK = re.compile(rb"\n(?=[ \t>]*+(?:\n|\Z|[*+-][ \t]|[0-9]{1,9}[.)][ \t]|#{1,6}[ \t]))")
_MARKS = re.compile(rb"[ \t\n>]*+(?:(?:[*+-]|[0-9]{1,9}[.)])[ \t]++)*")
_TOKEN = re.compile(
    rb"\\[!-/:-@\[-`{-~]|(?P<ticks>`++)|(?P<tag><)|(?P<close>\])"
    rb"|!?\[\[(?P<target>[^\[\]|\n]{1,500}+)(?:\|(?P<alias>[^\[\]\n]{0,500}+))?\]\]|(?P<open>!?\[)"
)
_TICKS = re.compile(rb"`++")
_AUTOLINK = re.compile(rb"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\x00-\x20<>]*+)>")
_LABEL = re.compile(rb"\[((?:[^\\\[\]]|\\[\x00-\xff]){0,999})\]")
_MAX_LABEL = 999
# Bytes of a link's text that are shown: images nest, and each shows those inside.
_MAX_TEXT = 1000


class Link(NamedTuple):
    """A link as written; whether its target exists is for others to say."""

    #: wiki: `[[target]]`, `[[target|text]]`; markdown: every other.
    kind: Literal["wiki", "markdown"]
    #: With its `#heading`, if any; escapes and entities decoded, percent signs not.
    target: str
    #: What a reader sees; of a wiki link without text of its own, its target.
    text: str
    #: Byte offsets [start, end) of all of it.
    span: tuple[int, int]
    #: An image, or an embedded document (`![[...]]`).
    embed: bool = False


def find_links(raw: bytes, start: int = 0) -> tuple[Link, ...]:
    """Links of `raw[start:]` in the order of their first bytes; none from code, comments or HTML blocks.

    References count only if the document defines them. Bare addresses are no links, as in CommonMark.
    """
    if b"[" not in raw and b"<" not in raw:
        return ()
    text, blocks = read_blocks(raw, start)
    finder = _Finder(text)
    finder.run(list(_stretches(text, start, blocks)))
    return tuple(sorted(finder.links, key=lambda link: link.span))


def _stretches(text: bytes, start: int, blocks: Blocks) -> Iterator[tuple[int, int]]:
    """Ranges of text that markup may span."""
    cuts = sorted({offset for heading in blocks.headings for offset in (heading.start, heading.body_start)})
    cut = 0
    for opaque_start, opaque_end in [*blocks.opaque, (len(text), len(text))]:
        ends = [match.start() + 1 for match in _BREAK.finditer(text, start, opaque_start)]
        while cut < len(cuts) and cuts[cut] <= opaque_start:
            ends.append(cuts[cut])
            cut += 1
        for end in sorted([*ends, opaque_start]):
            if end > start:
                if text.find(b"[", start, end) >= 0 or text.find(b"<", start, end) >= 0:
                    yield start, end
                start = end
        start = opaque_end


class _Opener(NamedTuple):
    start: int
    text_start: int
    image: bool


class _Finder:
    def __init__(self, text: bytes) -> None:
        self.links: list[Link] = []
        self._text = text
        self._targets: dict[str, bytes] = {}
        self._openers: list[_Opener] = []
        # Brackets that open before it hold a link already, and links hold none.
        self._inactive = 0
        # Where the comment ends that was looked for last.
        self._comment_end = 0

    def run(self, stretches: list[tuple[int, int]]) -> None:
        if b"]:" in self._text:
            # A definition may stand below what refers to it.
            stretches = [(self._define(start, end), end) for start, end in stretches]
        for start, end in stretches:
            self._search(start, end)

    def _define(self, start: int, end: int) -> int:
        """Take note of the definitions that open a stretch; where it goes on behind them."""
        at = _MARKS.match(self._text, start, end).end()  # type: ignore[union-attr]
        while match := DEFINITION.match(self._text, at, end):
            # A footnote looks like one.
            if not match[1].startswith(b"^"):
                self._targets.setdefault(_normal(match[1]), match[2])
            start = at = match.end()
        return start

    def _search(self, at: int, end: int) -> None:
        text = self._text
        self._openers.clear()
        self._comment_end = 0
        ticks: dict[int, list[int]] | None = None
        while token := _TOKEN.search(text, at, end):
            at = token.end()
            kind = token.lastgroup
            if kind == "open":
                self._openers.append(_Opener(token.start(), at, token[0][:1] == b"!"))
            elif kind == "close":
                at = self._close(token.start(), at, end)
            elif kind == "ticks":
                if ticks is None:
                    ticks = _positions(text, token.start(), end)
                # What is left of a run behind an escaped backtick begins a span too, though it is no run that ends one.
                at = _after_code(ticks.get(len(token[0]), []), token.start(), at)
            elif kind == "tag":
                at = self._tag(token.start(), end)
            elif kind:
                self._add_wiki(token)

    def _tag(self, start: int, end: int) -> int:
        """Where to go on behind a pointed bracket."""
        text = self._text
        if text.startswith(b"<!--", start):
            # One that is not closed is text, and so are those behind it: that is looked for once.
            if self._comment_end <= start:
                close = text.find(b"-->", start, end)
                self._comment_end = close + 3 if close >= 0 else len(text) + 1
            return self._comment_end if self._comment_end <= end else start + 4
        if match := _AUTOLINK.match(text, start, end):
            address = decode(match[1])
            self.links.append(Link("markdown", address, address, match.span()))
            return match.end()
        tag = TAG.match(text, start, end)
        return tag.end() if tag else start + 1

    def _add_wiki(self, token: re.Match[bytes]) -> None:
        target, alias = decode(token["target"]), token["alias"]
        if alias is not None:
            # In a table the bar is escaped.
            target = target.rstrip("\\")
        if target := target.strip():
            shown = plain_text(alias or b"") or target
            self.links.append(Link("wiki", target, shown, token.span(), token[0].startswith(b"!")))

    def _close(self, bracket: int, at: int, end: int) -> int:
        """Make a link of the brackets that close here, if they are one; where to go on."""
        if not self._openers:
            return at
        opener = self._openers.pop()
        if not opener.image and opener.start < self._inactive:
            return at
        text = self._text
        inner = text[opener.text_start : min(bracket, opener.text_start + _MAX_LABEL + 1)]
        target = None
        if match := INLINE_TARGET.match(text, at, end):
            target, at = match[1] or b"", match.end()
        elif self._targets:
            match = _LABEL.match(text, at, end)
            label = match[1] if match and match[1] else inner
            target = self._targets.get(_normal(label)) if len(label) <= _MAX_LABEL else None
            at = match.end() if match and target is not None else at
        if target is None:
            return at
        if not opener.image:
            self._inactive = opener.start
        if address := unescape_target(target):
            shown = plain_text(text[opener.text_start : min(bracket, opener.text_start + _MAX_TEXT)])
            self.links.append(Link("markdown", address, shown, (opener.start, at), opener.image))
        return at


def _normal(label: bytes) -> str:
    return " ".join(decode(label).casefold().split())


def _positions(text: bytes, start: int, end: int) -> dict[int, list[int]]:
    """Starts of the runs of backticks, by their length."""
    found: dict[int, list[int]] = {}
    for run in _TICKS.finditer(text, start, end):
        found.setdefault(run.end() - run.start(), []).append(run.start())
    return found


def _after_code(starts: list[int], start: int, after: int) -> int:
    """Where the code span ends that a run of backticks begins; `after` the run if it begins none."""
    closing = bisect_right(starts, start)
    return starts[closing] + (after - start) if closing < len(starts) else after
