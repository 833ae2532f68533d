from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from knowledge_engine.markdown import find_links, heading_path, scan, section_slugs, split_sections

PIECES = """\
# A|## B ##|#|####### x|Text|Text two|===|---|--|-|***|* * *|_ _ _|=== x|  ===|   ---
- item|-   item|* x|+ y|1. one|2. two|10) ten|1.|1234567890. x|- - x|* - + y|- ---|- Text|- - -x|- # H|- ```
> q|>|> # H|> - x|- > z|>> z|> ```|>  ---|> Text|> ===
```|````|~~~|~~~~ x|``` py|```a`b|   ```|    code|    # y|   # x|      deep|  - in|    - in2|  > q|   three
<div>|</div>|<!-- c|-->|<!-- c -->|<script>|</script>|<pre>|</pre>|<?php|?>|<!X|>|<![CDATA[|]]>|<a href="x">|<a>
</b >|<x|<DIV|<Title/>|<textarea>|<!--->|<!-->|\\|*|&amp;|é|[c|"t"|'t
[a]: /u|[a]: /u "t"|[b]: <> x|**bold** x|`code` y|__init__ z"""
LINES = [piece for row in PIECES.splitlines() for piece in row.split("|")]
LINES += [
    "",
    " ",
    "     ",
    "\tcode",
    "-\t\tx",
    "#\tT",
    "#\t",
    "-\tx",
    "*\t*\t*",
    "\x0b",
    "\x0c# x",
    "\u2028",
    "\xa0# n",
    "-\xa0x",
]
MARKS = ["", "", "", "", "  ", "    ", "> ", "- ", "\t", "1. ", "   ", " ", ">"]
TAILS = ["", "", "", "", "", " ", "\t", " #", " -", "\\"]
lines = st.builds(lambda *parts: "".join(parts), st.sampled_from(MARKS), st.sampled_from(LINES), st.sampled_from(TAILS))
documents = st.builds(
    lambda body, end: "\n".join(body) + end, st.lists(lines, max_size=10), st.sampled_from(["", "\n"])
)

# Where markdown-it leaves cmark, which is followed here; the scanner's docstring says more.
INDENTED = r"(?:.+\n)*[ >]*(?: {4}| *\t)"
DIFFERENT = [
    # A definition, and right below it a line that is not plain text, an underline or a heading.
    re.compile(r"^\[.\]:.*\n(?!Text|(?:===|---)$|[ \t]*$|#|\[.\]: )", re.M),
    re.compile(r"\]:[ \t\\]*$", re.M),
    re.compile(r"^.+\[.\]:.*\n.", re.M),
    # Items and nested quotes, and lines below them that are indented less than their content but by four or more.
    re.compile(r"^[ >]*>[ \t]*>.*\n" + INDENTED, re.M),
    re.compile(r"^[ >]*(?: {1,3}(?:[-+*]|\d+[.)])|(?:[-+*]|\d+[.)]) {2,})[ \t].*\n" + INDENTED, re.M),
    re.compile(r"^[ >]*\d+[.)][ \t]{2,}.*\n" + INDENTED, re.M),
    # The mark of a quote after four spaces.
    re.compile(r"(?: {4}|\t) *>"),
]
parser = MarkdownIt("commonmark")


def top_headings(text: str) -> list[tuple[int, int]]:
    tokens = parser.parse(text)
    return [
        (int(token.tag[1]), token.map[0] + 1)
        for token in tokens
        if token.type == "heading_open" and token.level == 0 and token.map
    ]


def check_headings(text: str) -> None:
    assume(not any(pattern.search(text) for pattern in DIFFERENT))
    assert [
        (section.level, section.line) for section in split_sections(text.encode()) if section.level
    ] == top_headings(text)


@given(documents)
@settings(max_examples=500)
@example("[a]: /u\nText\n===")
@example("[a]: /u\n===\nText\n---")
@example("- a\n- b\n\n1. c\n2. d\n   - e\n\n   # f\n# g")
@example("> a\n> b\n>\n> c\nd\n===\n")
@example("- a\n  b\n- c\n - - x\n\ntext\n---")
def test_headings_are_those_of_markdown_it(text: str) -> None:
    check_headings(text)


@pytest.mark.slow
@given(documents)
@settings(max_examples=20_000, deadline=None)
def test_headings_are_those_of_markdown_it_in_very_many_documents(text: str) -> None:
    check_headings(text)


@given(documents)
def test_fences_begin_where_markdown_it_sees_them(text: str) -> None:
    assume(not any(pattern.search(text) for pattern in DIFFERENT))
    raw = text.encode()
    expected = [token.map[0] for token in parser.parse(text) if token.type == "fence" and token.map]
    assert [raw.count(b"\n", 0, start) for start, _ in scan(raw).fences] == expected


bodies = st.lists(
    st.sampled_from([*LINES, "é\ufeff", "\x00", "[[a]]", "[b](c)"]).map(str.encode) | st.binary(max_size=6), max_size=12
)
separators = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"])


@given(bodies, separators, st.sampled_from([b"", b"---\na: 1\n---\n", b"\xef\xbb\xbf"]))
def test_slices_add_up_to_any_text(parts: list[bytes], separator: bytes, head: bytes) -> None:
    raw, start = head + separator.join(parts), len(head)
    sections = split_sections(raw, start)
    assert b"".join(raw[section.start : section.end] for section in sections) == raw[start:]
    for index, section in enumerate(sections):
        assert section.start <= section.body_start <= section.end
        assert section.start < section.end
        assert (section.level == 0) <= (index == 0)
        assert -1 <= section.parent < index
        assert section.parent < 0 or 0 < sections[section.parent].level < section.level
        path = heading_path(sections, index)
        assert path == () if section.level == 0 else path[-1] == section.title
    slugs = section_slugs(sections)
    assert len(set(slugs)) == len(sections)


@given(st.lists(lines, max_size=10))
def test_spans_lie_on_character_boundaries_and_lines_count_from_one(parts: list[str]) -> None:
    raw = "\n".join(["é", *parts, "水"]).encode()
    for section in split_sections(raw):
        raw[section.start : section.end].decode()
        assert section.line == raw.count(b"\n", 0, section.start) + 1


@given(documents, st.sampled_from(["\r\n", "\r"]))
def test_line_ends_do_not_change_the_outline(text: str, end: str) -> None:
    def shape(body: str) -> list[tuple[int, str, int, int]]:
        return [
            (section.level, section.title, section.parent, section.line) for section in split_sections(body.encode())
        ]

    assert shape(text.replace("\n", end)) == shape(text)


INLINE = [
    "[",
    "](",
    "](/u)",
    "](<a b>)",
    '](/u "t")',
    "]",
    "![",
    "`",
    "``",
    "```",
    "\\`",
    "\\",
    "text ",
    "*",
    "<",
    "<!--",
    "-->",
    "<http://x.y>",
    '<a href="',
]
INLINE += [
    '">',
    '"',
    ")",
    "(",
    "\n",
    "\n\n",
    "&amp;",
    "](u (t))",
    '](u\n"t")',
    "</b>",
    "!",
    "\\]",
    "\\[",
    "(x)",
    "'",
    "é",
]
links_parser = MarkdownIt("commonmark")
links_parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
links_parser.validateLink = lambda url: True  # type: ignore[method-assign]


def destinations(text: str) -> list[str]:
    found: list[str] = []
    waiting = list(links_parser.parse(text))
    for token in waiting:
        waiting.extend(token.children or [])
        found += [str(token.attrs[name]) for name in ("href", "src") if token.attrs.get(name)]
    return sorted(found)


@given(st.lists(st.sampled_from(INLINE), max_size=10).map("".join))
@settings(max_examples=500)
def test_inline_links_are_those_of_markdown_it(text: str) -> None:
    assume("[[" not in text)
    text = f"x{text}"
    # HTML blocks come from lines that begin with a tag; blocks are tested above.
    assume(not re.search(r"^<|^\s*[-=]+\s*$", text, re.M))
    assert sorted(link.target for link in find_links(text.encode())) == destinations(text)


NASTY = sorted(
    {*PIECES.replace("\n", "|").split("|"), *INLINE, *"\r\n\t >-*+1.[]()<>`~\\\"'|:#=!&;^\0", "[[", "\xff", "---\n"}
)
any_bytes = st.lists(st.sampled_from([piece.encode("latin-1") for piece in NASTY]), max_size=40).map(b"".join)


@given(any_bytes | st.binary(max_size=60), st.integers(0, 3))
@settings(max_examples=400)
@example(b"[```\\``", 0)
def test_no_bytes_whatever_make_the_scanner_or_the_links_raise(raw: bytes, start: int) -> None:
    scan(raw, min(start, len(raw)))
    find_links(raw, min(start, len(raw)))


@given(bodies, separators)
def test_links_of_any_text_lie_in_it_in_order(parts: list[bytes], separator: bytes) -> None:
    raw = separator.join(parts)
    found = find_links(raw)
    assert [link.span for link in found] == sorted(link.span for link in found)
    for link in found:
        start, end = link.span
        assert raw[start:end].startswith((b"[", b"![", b"<"))
        assert raw[start:end].endswith((b"]", b")", b">"))
        assert link.target
