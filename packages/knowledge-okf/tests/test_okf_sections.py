"""Sections of HTML and markdown: what counts as a heading, and that nothing of the source gets lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from knowledge_okf.html_sections import split_html
from knowledge_okf.html_tokens import cut
from knowledge_okf.sections import Outline, heading_paths, parents, split_markdown
from knowledge_okf.sources import SourceText, split_source

PIECES = st.sampled_from(
    [
        "<h1>",
        "</h1>",
        "<h2 id='a'>",
        "</h2 >",
        "<h3",
        ">",
        "<!--",
        "-->",
        "<p>",
        "</p>",
        "<script>",
        "</script>",
        "<pre>",
        "</pre>",
        "<template>",
        "</template>",
        "<a href='#a'>",
        "</a>",
        "text ",
        "ä水",
        "&lt;",
        "&amp",
        "\n",
        "<",
        "</",
        "'",
        '"',
        "=",
        "<br>",
        "<li>",
        "<td>",
        "<title>",
        "</title>",
        "<textarea>",
        "\x00",
        "\x01",
        "\x02",
    ]
)


def titles(outline: Outline) -> list[str]:
    return [section.title for section in outline.sections if section.level]


def html(text: str) -> Outline:
    return split_html(text.encode())


def body(text: str) -> str:
    return "\n".join(section.text for section in html(text).sections)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_sections_of_html_add_up_to_the_source(text: str) -> None:
    raw = text.encode()
    sections = split_html(raw).sections
    assert b"".join(raw[each.start : each.end] for each in sections) == raw
    assert sections


@given(st.lists(PIECES, max_size=40).map("".join))
def test_texts_and_tags_in_turn_are_the_source_again(text: str) -> None:
    texts, tags = cut(text)
    assert "".join(part for pair in zip(texts, [*tags, ""], strict=True) for part in pair) == text


@given(st.binary(max_size=60), st.sampled_from([b"<h2>T</h2>", b"## T\n"]))
def test_bytes_that_are_no_text_keep_their_places(junk: bytes, heading: bytes) -> None:
    junk = junk.replace(b"<", b"").replace(b"#", b"").replace(b"`", b"").replace(b"~", b"")
    raw = b"before " + junk + b"\n\n" + heading + b"after"
    for outline in (split_html(raw), split_markdown(raw)):
        assert b"".join(raw[each.start : each.end] for each in outline.sections) == raw
        for section in outline.sections:
            section.text.encode()


@given(
    st.lists(st.sampled_from(["# A\n", "text\n", "## B ##\n", "C\n===\n", "```\n", "\n", "- x\n---\n"]), max_size=30)
)
def test_sections_of_markdown_add_up_to_the_source(lines: list[str]) -> None:
    raw = "".join(lines).encode()
    assert b"".join(raw[each.start : each.end] for each in split_markdown(raw).sections) == raw


def plain_headings(text: str) -> list[str]:
    found = LexborHTMLParser(text).css("h1, h2, h3, h4, h5, h6")
    return [" ".join(node.text(deep=True).split()) for node in found]


@pytest.mark.parametrize(
    "text",
    [
        "<h1>One</h1><p>x<h2 class='a > b'>Two</h2>",
        "<H2>Upper</H2><h2\n>Line</h2\n>",
        '<h2 title="<h2>no</h2>">Yes</h2>',
        "<p>don't</p><h2>Quote</h2><p>won't",
        "<!-- <h2>hidden</h2> --><h2>Shown</h2><!--> <h3>After</h3>",
        "<script>'<h2>js</h2>'</script><style>h2{}</style><h2>S</h2>",
        "<textarea><h2>area</h2></textarea><h2>T</h2>",
        "<h2>A &amp; B &lt;x&gt;</h2><h2>&Uuml;ber</h2>",
        "<!doctype html><html><head><title>Doc <h2>x</h2></title></head><body><h2>Real</h2>",
        "<h2>a<b>b</b><i>c</i></h2>",
        "<?xml version='1.0'?><h2>X</h2></ h2><h3>Y</h3>",
        "<iframe><h2>frame</h2></iframe><h2>Z</h2><h7>no</h7><header>no</header>",
        "<h2>x</h2><a href=foo?a=b>l</a><h2 data-x='1'data-y=\"2\">y</h2>",
    ],
)
def test_headings_are_those_that_a_parser_of_html_finds(text: str) -> None:
    assert titles(html(text)) == plain_headings(text)


def test_a_heading_ends_where_another_begins() -> None:
    assert titles(html("<h2>A<h3>C</h2><p>one")) == ["A", "C"]


def test_a_template_is_no_text_however_deep_it_nests() -> None:
    outline = html("<h2>A</h2>x<template><h2>no</h2><template>t</template>u</template>y<template><h2>open")
    assert titles(outline) == ["A"]
    assert outline.sections[0].text == "xy"


def test_code_keeps_its_blanks_and_is_fenced_by_more_ticks_than_it_holds() -> None:
    assert body("<h2>A</h2><pre>\n  if x:\n      ```<br>y &lt;b&gt;</pre>") == "````\n  if x:\n      ```\ny <b>\n````"


def test_code_that_a_heading_interrupts_ends_there() -> None:
    outline = html("<pre>  one<h2>A</h2>two")
    assert [section.text for section in outline.sections] == ["```\n  one\n```", "two"]


def test_code_in_a_heading_ends_it_and_is_not_lost() -> None:
    outline = html("<h2>A<pre>code</pre>more</h2>text")
    assert [(each.title, each.text) for each in outline.sections] == [("A", "```\ncode\n```\n\nmoretext")]


WORDS = st.lists(
    st.tuples(PIECES.filter(lambda one: one not in ("<", "</", "<h3", "<!--", "'", '"', "=")), st.booleans())
)


@given(WORDS)
def test_each_word_that_a_parser_of_html_shows_is_in_a_section(pieces: list[tuple[str, bool]]) -> None:
    text = "".join(f"{piece} w{at}w " if word else piece for at, (piece, word) in enumerate(pieces))
    found = " ".join(f"{section.title} {section.text}" for section in html(text).sections)
    tree = LexborHTMLParser(text)
    for hidden in tree.css("script, style, template, title"):
        hidden.decompose()
    shown = tree.root.text(deep=True) if tree.root else ""
    assert set(re.findall(r"w\d+w", shown)) <= set(re.findall(r"w\d+w", found))


def test_blocks_items_and_cells_stay_apart() -> None:
    text = body("<h2>A</h2><p>one<p>two<ul><li>three<li>four</ul><table><tr><td>5<td>6<tr><td>7</table>a<br>b")
    assert text == "one\n\ntwo\n\n- three\n- four\n\n| 5 | 6\n| 7\n\na\nb"


@pytest.mark.parametrize("line", ["# no", "```", "~~~ x", "> q", "---", "===", "* * *"])
def test_a_line_of_text_never_becomes_a_block_of_markdown(line: str) -> None:
    raw = f"<h2>A</h2><p>x<p>{line}<p>y".replace("> q", "&gt; q").encode()
    section = split_html(raw).sections[0]
    again = split_markdown(f"# A\n\n{section.text}\n".encode())
    assert titles(again) == ["A"]
    assert f"\\{line}" in section.text


def test_a_pointed_bracket_of_the_text_starts_no_tag_in_markdown() -> None:
    assert body("<p>&lt;script> and &#60;b> <code>&lt;c></code> 1 &lt; 2") == "\\<script> and \\<b> `<c>` 1 < 2"


def test_links_keep_their_targets_and_scripts_are_none() -> None:
    raw = b"<a href='x y(1).html'>one</a> <a href='javascript:alert(1)'>two</a> <a>three</a> <a href='//h/p'>four</a>"
    text = split_html(raw, base="https://example.org/d/").sections[0].text
    assert text == "[one](https://example.org/d/x%20y%281%29.html) two three [four](https://h/p)"


def test_a_link_that_no_address_can_be_made_of_is_text() -> None:
    assert split_html(b"<a href='//[bad/x'>x</a>", base="https://h/").sections[0].text == "x"


def test_anchors_lead_from_the_link_to_the_section() -> None:
    outline = html("<h2>A</h2><a href='#x'>x</a> <a href='#'>top</a><section id=x><h2>X</h2><p id=y>t<a name='z'></a>")
    first, second = outline.sections
    assert first.links == ("x",)
    assert set(second.anchors) == {"x", "y", "z"}


def test_text_that_holds_no_markup_is_shown_as_it_is() -> None:
    text = body("<h2>A</h2><textarea title='x > y'>1 </h1> &lt;b> 2</textarea> 3 <xmp>4</xmp><iframe>no</iframe>")
    assert text == "1 </h1> \\<b> 2 3 4".replace("</h1>", "\\</h1>")
    assert html("<title lang='>'>T &amp; U</TITLE ><h2>A</h2>").title == "T & U"
    assert html("<title>never closed").title == "never closed"


def test_an_image_is_its_text() -> None:
    assert titles(html("<h2><img alt='Acme'> <a href=x>valve</a> <code>v1</code></h2>")) == ["Acme valve v1"]
    assert body("<h2>A</h2><img src=x alt='Pump &amp; &lt;valve>'>") == "Pump & \\<valve>"


def test_a_heading_that_is_never_closed_ends_with_its_first_block() -> None:
    outline = html("<h2>Title<p>text" + "<i>x</i>" * 50)
    assert outline.sections[0].title == "Title"
    assert outline.sections[0].text.startswith("text")


def test_a_heading_with_blocks_inside_ends_with_its_end_tag() -> None:
    assert titles(html("<h2><div>Long</div><div>title</div></h2>x")) == ["Long title"]


def test_what_stands_before_the_first_heading_has_the_documents_title() -> None:
    outline = html("<title>The  guide</title><p>intro<h2>A</h2>")
    assert [(each.level, each.title) for each in outline.sections] == [(0, "The guide"), (2, "A")]
    assert outline.title == "The guide"


def test_what_nobody_sees_belongs_to_the_first_section() -> None:
    outline = html("<!doctype html><style>p{}</style><h2>A</h2>x")
    assert len(outline.sections) == 1
    assert outline.sections[0].start == 0


@pytest.mark.parametrize("raw", [b"", b"plain words", b"<p>only"])
def test_without_a_heading_there_is_one_section(raw: bytes) -> None:
    outline = split_html(raw)
    assert [(each.level, each.title) for each in outline.sections] == [(0, "Document")]


HOSTILE = [
    "<a ='\"",
    "<!--",
    "<!-- -",
    "<script>",
    "<script></script",
    '<a x="',
    "<a = ",
    "</",
    "<h2",
    "<div>",
    "&lt;<p>",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_much_of_the_same_is_split_and_nothing_is_lost(piece: str) -> None:
    raw = (piece * 20_000).encode()
    assert b"".join(raw[each.start : each.end] for each in split_html(raw).sections) == raw


def test_deep_nesting_is_no_depth() -> None:
    outline = html("<h2>Top</h2>" + "<div>" * 20_000 + "core<h2>End</h2>t")
    assert [(each.title, each.text) for each in outline.sections] == [("Top", "core"), ("End", "t")]


def test_markdown_headings_are_those_of_commonmark() -> None:
    text = "Title\n=====\n\n```sh\n# no\n```\n\n## Real ##\n\nSub\n---\n\n- item\n---\n\n> q\n---\n"
    assert titles(split_markdown(text.encode())) == ["Title", "Real", "Sub"]


def test_a_byte_order_mark_shifts_no_span() -> None:
    raw = b"\xef\xbb\xbf# Head\n\n## One\nalpha\n"
    outline = split_source(SourceText("x", "", "markdown", raw))
    assert [(each.level, each.title) for each in outline.sections] == [(1, "Head"), (2, "One")]
    one = outline.sections[1]
    assert raw[one.start : one.end].startswith(b"## One")


def test_lines_end_only_where_commonmark_ends_them() -> None:
    raw = "# T\n\n## A\none\x0btwo\x85three\u2028four\n## B\nfive\n".encode()
    outline = split_markdown(raw)
    assert titles(outline) == ["T", "A", "B"]
    assert outline.sections[1].text == "one\x0btwo\x85three\u2028four"
    assert raw[outline.sections[2].start :] == b"## B\nfive\n"


def test_levels_that_skip_have_the_nearest_parent() -> None:
    raw = b"# T\n\n#### Deep\na\n## Mid\nb\n###### Six\nc\n# T2\nd\n"
    sections = split_markdown(raw).sections
    above = {each.title: sections[each.parent].title if each.parent >= 0 else None for each in sections}
    assert above == {"T": None, "Deep": "T", "Mid": "T", "Six": "Mid", "T2": None}
    assert heading_paths(sections)[3] == ("T", "Mid", "Six")


@given(st.lists(st.integers(0, 6), max_size=30))
def test_a_parent_stands_before_and_higher(levels: list[int]) -> None:
    for index, parent in enumerate(parents(levels)):
        assert parent < index
        assert parent < 0 or 0 < levels[parent] < levels[index]


def test_links_inside_of_markdown_belong_to_their_section() -> None:
    raw = b"see [b](#b)\n\n# A\n\n[b](#b) and [x](other.md) `[c](#c)`\n\n# B\n"
    assert [each.links for each in split_markdown(raw).sections] == [("b",), ("b",), ()]


def test_the_frontmatter_is_no_section_and_names_the_document() -> None:
    raw = b"---\ntitle: Named\n---\nintro\n\n# A\nx\n"
    outline = split_source(SourceText("x.md", "", "markdown", raw))
    assert outline.title == "Named"
    assert [each.title for each in outline.sections] == ["Named", "A"]
    assert outline.sections[0].start == raw.index(b"intro")


def test_markdown_without_headings_of_its_own_is_split_by_those_of_html() -> None:
    outline = split_source(SourceText("x.md", "", "markdown", b"<h2>A</h2>\n\ntext\n\n<h2>B</h2>\n"))
    assert titles(outline) == ["A", "B"]


def test_a_text_without_any_heading_is_one_document() -> None:
    outline = split_source(SourceText("x.txt", "", "text", b"just words\n\nmore"))
    assert [(each.title, each.text) for each in outline.sections] == [("Document", "just words\n\nmore")]


def test_a_file_that_is_html_by_name_only_is_split_as_markdown() -> None:
    assert titles(split_source(SourceText("x.html", "", "html", b"# A\n\ntext\n"))) == ["A"]


def test_twenty_thousand_sections_of_one_name_are_split() -> None:
    sections = split_markdown(b"## H\nx\n" * 20_000).sections
    assert len(sections) == 20_000
    assert len({each.anchors for each in sections}) == 20_000


@settings(max_examples=30)
@given(st.integers(1, 400))
def test_as_many_headings_as_are_written_are_found(count: int) -> None:
    assert len(titles(html("".join(f"<h2>{n}</h2><p>t" for n in range(count))))) == count
