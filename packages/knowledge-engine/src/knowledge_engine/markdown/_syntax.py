"""The patterns of CommonMark's block structure, over bytes. None backtracks more than a line's length.

They are used on text whose lines all end at LF; the scanner sees to that.

Only single characters are repeated possessively, never groups: before 3.11.5 Python loses its place where the last
round of a possessive group fails. So a repeated group is one that can match in one way only, and has few rounds, or the
first line is looked for that is none of its rounds.
"""

from __future__ import annotations

import re
from typing import Final

#: A line, seen from the line end before it, that may be more than a paragraph's text or a blank line. The first sign
#: rules most out.
INTERESTING: Final = re.compile(
    rb"\n(?=[ \t>#`~<=+*_0-9-])(?: {4}| {0,3}(?:"
    rb"\t|>|#{1,6}(?:[ \t\n]|\Z)|`{3}|~{3}|<[A-Za-z!?/]|=++[ \t]*+(?:\n|\Z)|-(?:[ \t\n-]|\Z)|\+(?:[ \t\n]|\Z)"
    rb"|\*(?:[ \t\n]|\Z|\*[ \t]*\*)|_[ \t]*_[ \t]*_|[0-9]{1,9}[.)](?:[ \t\n]|\Z)))"
)

SPACES: Final = re.compile(rb" *+")
#: A heading's signs; its text begins where they end.
ATX: Final = re.compile(rb"(#{1,6})(?=[ ]|\Z)")
SETEXT: Final = re.compile(rb"(?:=++|-++) *+\Z")
BULLET_OR_NUMBER: Final = re.compile(rb"[*+-]|([0-9]{1,9})[.)]")
#: What a thematic break repeats, by its first byte.
RULE: Final = {sign[0]: re.compile(rb"[" + re.escape(sign) + rb" ]*+") for sign in (b"*", b"-", b"_")}
# A fence of backticks has none in its info string.
FENCE: Final = re.compile(rb"(`{3,}+)[^`]*+\Z|(~{3,}+)")
#: Seen from the line end before it.
CLOSING_FENCE: Final = {sign[0]: re.compile(rb"\n {0,3}(" + sign + rb"{3,}+)[ \t]*+(?=\n|\Z)") for sign in (b"`", b"~")}
#: The end of the last line before a blank one.
BEFORE_BLANK: Final = re.compile(rb"\n(?=[ \t]*+(?:\n|\Z))")
#: The end of a line before one that is neither indented code nor blank.
BEFORE_UNINDENTED: Final = re.compile(rb"\n(?! {4}| {0,3}\t|[ \t]*+\n|\Z)")
#: A heading at the margin, seen from its line start.
ATX_LINE: Final = re.compile(rb"(#{1,6})(?=[ \t\n]|\Z)")
#: A fence of backticks at the margin, seen from its line start.
FENCE_LINE: Final = re.compile(rb"(`{3,}+)[^`\n]*+(?:\n|\Z)")
#: First bytes of lines that are plain text.
LETTERS: Final = frozenset(range(0x80, 0x100)) | frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
# Begins text that is nothing else, whatever stands before it.
_PLAIN = rb"(?:[A-Za-z\x80-\xff(\"'\[$@&]|\*\*[A-Za-z]|`[^`\n])"
# Behind more spaces than four, an item's text is code.
_MARK = rb"(?:[*+-]|[0-9]{1,9}[.)]) {1,4}"
#: An item at the margin that begins with plain text, up to that text.
PLAIN_ITEM: Final = re.compile(_MARK + rb"(?=" + _PLAIN + rb")")
#: The end of the last line of plain text, be it an item's first, as most lists consist of. Blank lines are among them
#: before an item at the margin; more than two are left to a closer look, so that none is read over and over.
AFTER_PLAIN_ITEMS: Final = re.compile(rb"\n(?! *+(?:%(m)b)?%(p)b|\n{1,2}%(m)b%(p)b)" % {b"m": _MARK, b"p": _PLAIN})
#: The end of a line before one that is not plain text in a block quote at the margin.
AFTER_PLAIN_QUOTE: Final = re.compile(rb"\n(?!> ?" + _PLAIN + rb")")

_BLOCK_TAGS = (
    b"address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt"
    b"|fieldset|figcaption|figure|footer|form|frame|frameset|h1|h2|h3|h4|h5|h6|head|header|hr|html|iframe|legend|li"
    b"|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th"
    b"|thead|title|tr|track|ul"
)
#: A tag that begins an HTML block which goes on to a blank line.
HTML_TO_BLANK: Final = re.compile(rb"</?(?:" + _BLOCK_TAGS + rb")(?=\s|/?>|\Z)", re.IGNORECASE)
#: A complete opening or closing tag.
TAG: Final = re.compile(
    rb"<(?:[A-Za-z][A-Za-z0-9-]*+"
    rb"(?:\s++[a-zA-Z_:][a-zA-Z0-9:._-]*+(?:\s*+=\s*+(?:[^\s\"'=<>`]++|'[^']*+'|\"[^\"]*+\"))?)*\s*+/?"
    rb"|/[A-Za-z][A-Za-z0-9-]*+\s*+)>"
)
_TAG_LINE = re.compile(TAG.pattern + rb"\s*+\Z")
# How the blocks start that end at a mark of their own, and that mark.
_TO_MARK = (
    (
        re.compile(rb"<(?:script|pre|style|textarea)(?=\s|>|\Z)", re.I),
        re.compile(rb"</(?:script|pre|style|textarea)>", re.I),
    ),
    (re.compile(rb"<!--"), re.compile(rb"-->")),
    (re.compile(rb"<\?"), re.compile(rb"\?>")),
    (re.compile(rb"<![A-Za-z]"), re.compile(rb">")),
    (re.compile(rb"<!\[CDATA\["), re.compile(rb"\]\]>")),
)

# How all of them start, so that most tags are tried once.
_MARKED = re.compile(rb"<(?:[!?]|script|pre|style|textarea)", re.IGNORECASE)

# Parentheses in it are balanced, to a depth of two.
_DESTINATION = rb"(<[^<>\\\n]*+(?:\\[^\n][^<>\\\n]*+)*>|(?!<)(?:%(c)b|\((?:%(c)b|\((?:%(c)b)*\))*\))+)" % {
    b"c": rb"[^\s()\\\x00-\x1f\x7f]++|\\[^\s]|\\(?=\s)"
}
_TITLE = rb"(?:%s|%s|%s)" % tuple(
    rb"%b[^%b\\]*+(?:\\[\x00-\xff][^%b\\]*+)*%b" % (opening, signs, signs, closing)
    for opening, signs, closing in ((b'"', b'"', b'"'), (b"'", b"'", b"'"), (rb"\(", b"()", rb"\)"))
)
#: A link reference definition, as it may open a paragraph. Groups: label, destination.
DEFINITION: Final = re.compile(
    rb"[ \t]*+\[(?!\s*+\])((?:[^\\\[\]]|\\[\x00-\xff]){1,999})\]:[ \t]*+(?:\n[ \t]*+)?"
    + _DESTINATION
    + rb"(?:(?:[ \t]++(?:\n[ \t]*+)?|\n[ \t]*+)"
    + _TITLE
    + rb"[ \t]*+(?:\n|\Z)|[ \t]*+(?:\n|\Z))"
)
#: What follows the text of an inline link. Group: destination.
INLINE_TARGET: Final = re.compile(rb"\(\s*+(?:" + _DESTINATION + rb"(?:\s++" + _TITLE + rb")?)?\s*+\)")


def html_block(line: bytes, at: int, *, after_text: bool) -> re.Pattern[bytes] | bool | None:
    """What ends the HTML block that begins at `line[at]`: a pattern, or True for a blank line; None: none begins.

    Any tag alone on its line begins one too, but not directly `after_text` of a paragraph.
    """
    if _MARKED.match(line, at):
        for start, end in _TO_MARK:
            if start.match(line, at):
                return end
    if HTML_TO_BLANK.match(line, at) or (not after_text and _TAG_LINE.match(line, at)):
        return True
    return None


def skip_definitions(text: bytes, start: int, end: int) -> int:
    """Where the paragraph text[start:end] goes on after the link reference definitions that open it."""
    while start < end and (match := DEFINITION.match(text, start, end)):
        start = match.end()
    return start
