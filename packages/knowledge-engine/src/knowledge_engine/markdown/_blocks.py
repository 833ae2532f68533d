"""Where CommonMark's blocks lie: as much of them as decides which lines are headings of the document itself.

Containers (block quotes, list items) are followed exactly, as what they hold and when they end decides what the
lines behind them are. Lines outside of containers that can only be text are skipped by one search.

Where implementations differ, cmark is followed, and markdown-it is not in these corners:

- A line right below a link reference definition goes on with its paragraph, also when only a beginning paragraph would
  allow what it seems to be (indented code, a lone tag, an item that is empty or not numbered 1); and a definition that
  is not complete when the underline of a heading comes is text.
- A line indented by four or more goes on with the paragraph of an item or of nested quotes, even where the
  indentation is less than that item's content; markdown-it may begin a block there.
- `>` after four spaces is no mark of a block quote.

One corner of cmark is not followed: inside a container, an underline below nothing but definitions ends the paragraph.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final, NamedTuple

from knowledge_engine.markdown._syntax import (
    AFTER_PLAIN_ITEMS,
    AFTER_PLAIN_QUOTE,
    ATX,
    ATX_LINE,
    BEFORE_BLANK,
    BEFORE_UNINDENTED,
    BULLET_OR_NUMBER,
    CLOSING_FENCE,
    FENCE,
    FENCE_LINE,
    HTML_TO_BLANK,
    INTERESTING,
    LETTERS,
    PLAIN_ITEM,
    RULE,
    SETEXT,
    SPACES,
    html_block,
    skip_definitions,
)

_NONE: Final = 0
_TEXT: Final = 1
_CODE: Final = 2
_FENCE: Final = 3
_HTML: Final = 4


class Heading(NamedTuple):
    """A heading outside of containers: raw[start:body_start] are its lines, raw[text_start:text_end] is its text."""

    level: int
    start: int
    text_start: int
    text_end: int
    body_start: int


class Blocks:
    """One pass over `text[start:]`, whose lines all end at LF. The results are in the public attributes."""

    def __init__(self, text: bytes, start: int) -> None:
        self.headings: list[Heading] = []
        #: Fenced code, from the opening line to the end of the closing one, in order.
        self.fences: list[tuple[int, int]] = []
        #: Starts of those fences that no line closes.
        self.unclosed: list[int] = []
        #: Everything that is no Markdown inside: fences, indented code, HTML blocks; in order.
        self.opaque: list[tuple[int, int]] = []
        self._text = text
        self._size = len(text)
        # Open containers, outermost first: a list item's content offset in columns, 0 for a block quote.
        self._stack: list[int] = []
        # Which of them are block quotes.
        self._quotes: list[int] = []
        # The innermost container is an item without content so far.
        self._bare = False
        self._leaf = _NONE
        self._leaf_start = start
        self._fence = b""
        self._html: re.Pattern[bytes] | bool = True
        # An open paragraph outside of containers does not begin before this.
        self._floor = start
        # The line at hand, and where to go on after it.
        self._at = start
        self._next = start
        self._run(start)

    def _run(self, start: int) -> None:
        # Outside of containers, lines are looked for from the line end before them; the first may have none.
        at = start
        if start < self._size and self._text[start - 1 : start] != b"\n":
            at = self._one_line(start)
        while at < self._size:
            at = self._inside(at) if self._stack else self._outside(at)
        self._at = self._size
        self._close(0)

    def _one_line(self, at: int) -> int:
        end = self._text.find(b"\n", at)
        if end < 0:
            end = self._size
        self._at = at
        self._next = min(end + 1, self._size)
        self._line(self._text[at:end])
        return self._next

    def _outside(self, at: int) -> int:
        at = self._skip_text(at)
        if at == self._size:
            return at
        sign = self._text[at]
        # The most frequent ones without a closer look.
        if sign == 0x23 and (heading := ATX_LINE.match(self._text, at)):
            self._at = at
            self._next = self._text.find(b"\n", at) + 1 or self._size
            self._leaf = _NONE
            self._add_atx(heading.end() - at)
            return self._next
        if sign == 0x60 and (fence := FENCE_LINE.match(self._text, at)):
            self._at, self._next = at, fence.end()
            self._begin_fence(fence[1])
            return self._next
        if sign == 0x3C and HTML_TO_BLANK.match(self._text, at):
            end = self._after(BEFORE_BLANK, at)
            self.opaque.append((at, end))
            self._leaf = _NONE
            self._floor = end
            return end
        # Behind text a number begins a list only if it is 1.
        if sign in b"*+-" or (sign in b"0123456789" and self._leaf != _TEXT):
            return self._plain_items(at) or self._one_line(at)
        return self._one_line(at)

    def _inside(self, at: int) -> int:
        sign = self._text[at]
        if sign == 0x0A:
            self._at, self._next = at, at + 1
            self._blank(self._quotes[0] if self._quotes else len(self._stack))
            return self._next
        if sign in LETTERS:
            if self._leaf == _TEXT:
                return self._text.find(b"\n", at) + 1 or self._size
            self._at = at
            self._close(0)
            return at
        if sign == 0x23 and ATX_LINE.match(self._text, at):
            self._at = at
            self._close(0)
            return at
        if sign in b"*+-0123456789":
            return self._plain_items(at) or self._one_line(at)
        if sign == 0x3E and self._stack == [0] and self._leaf <= _TEXT:
            # From the end of the line before: this one may be none.
            end = self._after(AFTER_PLAIN_QUOTE, at - 1)
            if end > at:
                self._leaf = _TEXT
                return end
        return self._one_line(at)

    def _plain_items(self, at: int) -> int:
        """Pass over items at the margin that hold plain text, up to the last; 0 if there are none."""
        text = self._text
        item = PLAIN_ITEM.match(text, at)
        if item is None:
            return 0
        end = self._after(AFTER_PLAIN_ITEMS, at)
        # Each item at the margin ends whatever is open, so only the last one matters.
        line = last = text.rfind(b"\n", at, end - 1) + 1 or at
        while last > at:
            if later := PLAIN_ITEM.match(text, last):
                item = later
                break
            last = text.rfind(b"\n", at, last - 1) + 1 or at
        if last == at < line:
            return 0
        self._at = at
        self._close(0)
        if last < line:
            # What lies in it needs a closer look.
            self._floor = last
            return last
        self._stack.append(item.end() - last)
        self._leaf = _TEXT
        return end

    def _after(self, line_end: re.Pattern[bytes], at: int) -> int:
        """Where the line begins behind the line end that is found first from `at` on."""
        found = line_end.search(self._text, at)
        return found.end() if found else self._size

    def _skip_text(self, at: int) -> int:
        """Pass over lines that are text or blank, to the start of the next that may be more."""
        text = self._text
        match = INTERESTING.search(text, at - 1)
        if match is None:
            return self._size
        line = match.start() + 1
        if line > at:
            # Mostly the last sign before the line end tells whether that line is blank; blank ones with tabs are not
            # passed over.
            sign = text[line - 2]
            if sign == 0x20 and not text[text.rfind(b"\n", 0, line - 1) + 1 : line].strip(b" \n"):
                sign = 0x0A
            if sign == 0x0A:
                self._leaf = _NONE
                self._floor = line
            else:
                self._leaf = _TEXT
        return line

    def _line(self, line: bytes) -> None:
        if b"\t" in line:
            line = line.expandtabs(4)
        matched, column = self._match_containers(line)
        inside = matched == len(self._stack)
        indent_end = SPACES.match(line, column).end()  # type: ignore[union-attr]
        if indent_end == len(line):
            self._blank(matched)
            return
        self._bare = False
        if inside and self._leaf > _TEXT and self._goes_on(line, column, indent_end):
            return
        self._open(line, column, indent_end, matched)

    def _match_containers(self, line: bytes) -> tuple[int, int]:
        """How many of the open containers the line goes on, and the column behind their marks."""
        at = indent_end = 0
        if self._stack:
            indent_end = SPACES.match(line).end()  # type: ignore[union-attr]
        for index, width in enumerate(self._stack):
            if indent_end == len(line):
                # A blank line goes on with items, whatever their number, and ends at a block quote.
                following = bisect_left(self._quotes, index)
                return (self._quotes[following] if following < len(self._quotes) else len(self._stack)), at
            if width:
                if indent_end - at < width:
                    return index, at
                at += width
            else:
                if indent_end - at > 3 or line[indent_end] != 0x3E:
                    return index, at
                at = indent_end + 1
                at += line[at : at + 1] == b" "
                indent_end = SPACES.match(line, at).end()  # type: ignore[union-attr]
        return len(self._stack), at

    def _blank(self, matched: int) -> None:
        if matched < len(self._stack):
            self._close(matched)
        elif self._bare:
            # An item may begin with one blank line, not with two.
            self._close(len(self._stack) - 1)
        elif self._leaf == _TEXT or (self._leaf == _HTML and self._html is True):
            self._end_leaf(self._at)

    def _goes_on(self, line: bytes, column: int, indent_end: int) -> bool:
        """Whether the line belongs to the open code or HTML; ends that if the line is its last."""
        if self._leaf == _CODE:
            if indent_end - column >= 4:
                return True
            self._end_leaf(self._at)
            return False
        if self._leaf == _FENCE:
            rest = line[indent_end:].rstrip(b" ") if indent_end - column <= 3 else b""
            if len(rest) >= len(self._fence) and rest == self._fence[:1] * len(rest):
                self._end_leaf(self._next)
        elif not isinstance(self._html, bool) and self._html.search(line, column):
            self._end_leaf(self._next)
        return True

    def _open(self, line: bytes, column: int, indent_end: int, matched: int) -> None:
        """Begin what the rest of the line begins: containers, then at most one leaf."""
        # A paragraph may go on without the marks of its containers; only within them can it become a heading.
        lazy = self._leaf == _TEXT
        text = lazy and matched == len(self._stack)
        # No thematic break begins before this column: known from looking for one before.
        no_rule = 0
        while indent_end < len(line):
            if indent_end - column > 3:
                if lazy:
                    return
                self._close(matched)
                self._begin_code()
                return
            sign = line[indent_end]
            if text and sign in b"=-" and SETEXT.match(line, indent_end):
                if self._underline(sign):
                    return
                lazy = text = False
            if sign in RULE and indent_end >= no_rule:
                no_rule = RULE[sign].match(line, indent_end).end()  # type: ignore[union-attr]
                if no_rule == len(line) and line.count(sign, indent_end) >= 3:
                    self._close(matched)
                    self._floor = self._next
                    return
            content, width = _container(line, column, indent_end, text)
            if not content:
                if self._begin_leaf(line, indent_end, matched, lazy):
                    return
                break
            self._close(matched)
            lazy = text = False
            if not width:
                self._quotes.append(matched)
            self._stack.append(width)
            matched += 1
            column = content
            indent_end = SPACES.match(line, column).end()  # type: ignore[union-attr]
            self._bare = indent_end == len(line) and width > 0
        else:
            return
        if not lazy:
            self._close(matched)
            self._leaf = _TEXT

    def _begin_leaf(self, line: bytes, indent_end: int, matched: int, lazy: bool) -> bool:
        """Begin the heading, fence or HTML block that stands there, if one does."""
        sign = line[indent_end]
        if sign == 0x23:
            if heading := ATX.match(line, indent_end):
                self._close(matched)
                if not self._stack:
                    self._add_atx(heading.end() - indent_end)
                return True
        elif sign in b"`~":
            if fence := FENCE.match(line, indent_end):
                self._close(matched)
                self._begin_fence(fence[1] or fence[2])
                return True
        elif sign == 0x3C and (end := html_block(line, indent_end, after_text=lazy)):
            self._close(matched)
            self._begin_html(line, indent_end, end)
            return True
        return False

    def _add_atx(self, level: int) -> None:
        text = self._text
        start = text.index(b"#", self._at) + level
        content = text[start : self._next].rstrip(b" \t\n")
        if content.endswith(b"#"):
            unclosed = content.rstrip(b"#")
            # Closing signs count only behind a blank, or with nothing before them.
            if not unclosed or unclosed[-1:] in b" \t":
                content = unclosed
        self.headings.append(Heading(level, self._at, start, start + len(content), self._next))
        self._floor = self._next

    def _underline(self, sign: int) -> bool:
        """Turn the open paragraph into a heading; False if it consists of definitions only, and so is over."""
        self._leaf = _NONE
        if self._stack:
            return True
        text, start, end = self._text, self._at, self._at
        while start > self._floor:
            line = text.rfind(b"\n", self._floor, start - 1) + 1 or self._floor
            if not text[line:start].strip(b" \t\n"):
                break
            start = line
        start = skip_definitions(text, start, end)
        if start == end:
            self._floor = end
            return False
        self.headings.append(Heading(1 if sign == 0x3D else 2, start, start, end, self._next))
        self._floor = self._next
        return True

    def _begin_code(self) -> None:
        self._leaf, self._leaf_start = _CODE, self._at
        if not self._stack:
            self._next = self._after(BEFORE_UNINDENTED, self._next - 1)
            self._end_leaf(self._next)

    def _begin_fence(self, fence: bytes) -> None:
        self._leaf, self._leaf_start, self._fence = _FENCE, self._at, fence
        if self._stack:
            return
        for closing in CLOSING_FENCE[fence[0]].finditer(self._text, self._next - 1):
            if len(closing[1]) >= len(fence):
                self._next = min(closing.end() + 1, self._size)
                self._end_leaf(self._next)
                return
        self._next = self._size

    def _begin_html(self, line: bytes, indent_end: int, end: re.Pattern[bytes] | bool) -> None:
        self._leaf, self._leaf_start, self._html = _HTML, self._at, end
        if not isinstance(end, bool):
            if self._stack:
                if end.search(line, indent_end):
                    self._end_leaf(self._next)
                return
            # The line's own indentation is all that stands before the block.
            found = end.search(self._text, self._at)
            self._next = self._text.find(b"\n", found.end()) + 1 if found else 0
            self._next = self._next or self._size
        elif not self._stack:
            self._next = self._after(BEFORE_BLANK, self._next - 1)
        else:
            return
        self._end_leaf(self._next)

    def _end_leaf(self, end: int) -> None:
        """End what is open in the innermost container, and not the container."""
        if self._leaf > _TEXT and end > self._leaf_start:
            self.opaque.append((self._leaf_start, end))
            if self._leaf == _FENCE:
                self.fences.append((self._leaf_start, end))
        self._leaf = _NONE
        if not self._stack:
            self._floor = end

    def _close(self, depth: int) -> None:
        """Close the innermost containers down to `depth` before the line at hand, and the leaf in them."""
        if self._leaf == _FENCE:
            self.unclosed.append(self._leaf_start)
        del self._stack[depth:]
        while self._quotes and self._quotes[-1] >= depth:
            self._quotes.pop()
        self._bare = False
        self._end_leaf(self._at)


def _container(line: bytes, column: int, start: int, text: bool) -> tuple[int, int]:
    """Column of the content of the container that begins at `start`, 0 if none does; its width from `column`."""
    if line[start] == 0x3E:
        return start + 1 + (line[start + 1 : start + 2] == b" "), 0
    marker = BULLET_OR_NUMBER.match(line, start)
    if marker is None:
        return 0, 0
    end = marker.end()
    content = SPACES.match(line, end).end()  # type: ignore[union-attr]
    if content == len(line):
        # An empty item, which may not follow a paragraph's text directly.
        return (0, 0) if text else (content, end + 1 - column)
    if content == end or (text and marker[1] and int(marker[1]) != 1):
        return 0, 0
    if content - end > 4:
        content = end + 1
    return content, content - column
