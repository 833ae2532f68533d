from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from knowledge_engine.markdown import find_links, heading_path, scan, section_slugs, split_sections


def headings(text: str) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in split_sections(text.encode()) if section.level]


def titles(text: str) -> list[str]:
    return [title for _, title in headings(text)]


def linked(text: str) -> list[tuple[str, str]]:
    return [(link.target, link.text) for link in find_links(text.encode())]


# What is a heading


def test_a_quoted_heading_is_none_also_below_quoted_text() -> None:
    assert titles("# A\n> text\n> # B\n> more\n# C\n") == ["A", "C"]


@pytest.mark.parametrize("blank", ["", "\n", "\n\n", "\n\n\n\n"])
def test_lists_end_before_the_heading_below_them(blank: str) -> None:
    assert titles(f"- a\n{blank}- b\n  c\n{blank}1. d\n{blank}   # no\n{blank}# A\n- e\n{blank}# B") == ["A", "B"]
    assert titles(f"- a\n{blank}text\n===\n") == (["text"] if blank else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One", [(1, "One")]),
        ("###### Six #", [(6, "Six")]),
        ("   ## Up to three ##   ", [(2, "Up to three")]),
        ("#\n## \n### ###", [(1, ""), (2, ""), (3, "")]),
        ("#\tTab\t#\t", [(1, "Tab")]),
        ("# C# and F#", [(1, "C# and F#")]),
        ("# a \\#", [(1, "a #")]),
        ("####### seven", []),
        ("#none", []),
        ("\\# none", []),
        ("    # code", []),
        ("\t# code", []),
        ("text\n# Cuts in", [(1, "Cuts in")]),
        ("text\n    # goes on", []),
    ],
)
def test_signs_make_a_heading_as_commonmark_says(text: str, expected: list[tuple[int, str]]) -> None:
    assert headings(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title\n=====\n\nSub\n---", [(1, "Title"), (2, "Sub")]),
        ("Two\nlines  \n  long\n  =  ", [(1, "Two lines long")]),
        ("a\n\nb\n-", [(2, "b")]),
        ("# a\nb\n-", [(1, "a"), (2, "b")]),
        ("- item\n---\n\n> quote\n---\n\npara\n\n---\n", []),
        ("- item\nlazy\n---", []),
        ("> quote\nlazy\n===", []),
        ("text\n= =", []),
        ("text\n    ---", []),
        ("***\n---", []),
        ("    code\n---", []),
        ("- ```\ntext\n---", [(2, "text")]),
        ("- # h\ntext\n---", [(2, "text")]),
        ("-\n\n  text\n---", [(2, "text")]),
        ("2. not a list\n---", []),
        ("text\n2. not a list\n---", [(2, "text 2. not a list")]),
        ("text\n-\n", [(2, "text")]),
        ("text\n*\n---", [(2, "text *")]),
    ],
)
def test_an_underline_makes_a_heading_only_of_a_paragraph(text: str, expected: list[tuple[int, str]]) -> None:
    assert headings(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a]: /u\nTitle\n===", [(1, "Title")]),
        ("[a]: /u\n===\nx\n---", [(2, "=== x")]),
        ("[a]: /u\n---\nx\n---", [(2, "x")]),
        ("[a]: <b c> 'two\nlines'\n[d]:\n  /e\nTitle\n===", [(1, "Title")]),
        ("[a]: /u 'open\nTitle\n===", [(1, "[a]: /u 'open Title")]),
        ("[ ]: /u\n===", [(1, "[ ]: /u")]),
        ("text\n[a]: /u\n===", [(1, "text [a]: /u")]),
    ],
)
def test_definitions_are_no_part_of_a_heading(text: str, expected: list[tuple[int, str]]) -> None:
    assert headings(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "```sh\n# no\n```",
        "~~~\n# no\n```\n# no\n~~~~",
        "````\n# no\n```\n# no\n````",
        "   ```\n# no\n   ```  ",
        "``` `` \n# yes",
        "```\n# no\n    ```\n# no\n```",
        "```\n# no\n``` x\n# no\n```",
    ],
)
def test_code_in_fences_has_no_headings(text: str) -> None:
    assert titles(f"{text}\n# end") == (["yes", "end"] if "yes" in text else ["end"])


@pytest.mark.parametrize(
    "block",
    [
        "<!--\n# no\n\n# no\n-->",
        "<script>\n# no\n\n# no\n</script>",
        "<PRE class='x'>\n\n# no\n</pre> # no",
        "<style\n>\n# no\n</style>",
        "<textarea>\n# no\n\n</textarea>",
        "<?php\n# no\n\n# no ?>",
        "<!DOCTYPE\n# no\n\n# no >",
        "<![CDATA[\n# no\n\n# no\n]]>",
        "<div>\n# no\n",
        "</table>\n# no\n",
        "<custom-tag a=b c='d' e>\n# no\n",
        "</custom-tag >\n# no\n",
        "  <hr/>\n# no\n",
        "- <!--\n  # no\n\n  # no -->",
        "- <div>\n  # no\n",
        "> <!-- x -->\n> # no",
    ],
)
def test_html_blocks_have_no_headings(block: str) -> None:
    assert titles(f"{block}\n# end") == ["end"]


def test_an_html_block_ends_where_its_kind_ends() -> None:
    assert titles("<!-- a -->\n# yes\n<div>\n# no\n\n# yes\n</div>\n\ntext\n<b>\n# yes") == ["yes", "yes", "yes"]
    assert titles("<!-- never closed\n\n# no") == []
    assert titles("<div>\n# no") == []
    assert titles("<notatag\n# yes\n\n<scripty>x\n# yes") == ["yes", "yes"]


@pytest.mark.parametrize(
    "text",
    [
        "- # in item\n\n  # in item",
        "> # in quote\n> text\n# yes",
        "1. a\n   # in\n10. b\n\n    # in",
        "- a\n  - b\n\n    # in\n\n  # in\n# yes",
        ">> a\n> # in\n# yes",
        "- > - # in\n# yes",
        "-\n  # in",
        "-     code\n# yes",
        "-     code\n      # code\n\n  # in\n# yes",
        "- a\n\n\n\n  # in\n# yes",
        "-\t# in\n\n\t# in",
    ],
)
def test_headings_in_lists_and_quotes_are_not_the_documents(text: str) -> None:
    assert titles(text) == ["yes"] * text.count("yes")


def test_a_fence_in_an_item_ends_with_the_item() -> None:
    outline = scan(b"- ```\n  # no\n# yes\n\n- ~~~\n  x\n  ~~~\n# yes\n")
    assert [section.title for section in outline.sections if section.level] == ["yes", "yes"]
    assert outline.fences == ((0, 13), (20, 38 - 2))
    assert [(issue.code, issue.line) for issue in outline.issues] == [("fence-unclosed", 1)]


def test_a_document_of_many_shapes_gives_its_three_headings() -> None:
    text = "## A\n\n<!--\n## hidden\n-->\n\n## B <!-- later -->\nx\n\n<script>\n## no\n</script>\n\n"
    text += "<div>\n## raw\n\n## C\n</div>\n"
    assert titles(text) == ["A", "B", "C"]
    section = split_sections(text.encode())[0]
    assert b"hidden" in text.encode()[section.start : section.end]


# Fences


def test_an_unclosed_fence_runs_to_the_end_and_is_reported() -> None:
    outline = scan(b"\n## A\n\n```py\nx = 1\n## no\n")
    assert [section.title for section in outline.sections] == ["", "A"]
    assert outline.fences == ((7, 25),)
    issue = outline.issues[0]
    assert (issue.code, issue.severity, issue.line) == ("fence-unclosed", "warning", 4)


def test_fences_are_whole_lines() -> None:
    raw = b"a\r\n```\r\nb\r\n```\r\nc\n  ~~~\n  ~~~"
    assert [raw[start:end] for start, end in scan(raw).fences] == [b"```\r\nb\r\n```\r\n", b"  ~~~\n  ~~~"]


def test_a_thousand_open_fences_give_a_hundred_issues() -> None:
    assert len(scan(b"- ```\n" * 1000).issues) == 100


# Spans


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_at_lf_crlf_or_cr_only(end: str) -> None:
    raw = "# T\n\n## A\none\ntwo\u0085three\u2028# four\x0b# five\x0c# six\n## B\nseven\n".replace("\n", end).encode()
    sections = split_sections(raw)
    assert [(section.title, section.line) for section in sections] == [("T", 1), ("A", 3), ("B", 6)]
    assert raw[sections[2].start :] == f"## B{end}seven{end}".encode()
    assert raw[sections[2].body_start :] == f"seven{end}".encode()


def test_spans_count_bytes_from_the_start_of_the_file() -> None:
    raw = "---\nid: é\n---\n## 🧪 水\n水温 ❤️ needle\n".encode()
    start = raw.index(b"## ")
    (section,) = split_sections(raw, start)
    assert (section.start, section.end, section.line, section.title) == (start, len(raw), 4, "🧪 水")
    assert raw[section.body_start :].decode() == "水温 ❤️ needle\n"


def test_a_bom_hides_no_heading_and_is_in_the_first_slice() -> None:
    raw = b"\xef\xbb\xbf# Head\n\n## One\nalpha\n"
    sections = split_sections(raw)
    assert [(section.level, section.start) for section in sections] == [(1, 0), (2, 11)]
    assert raw[sections[1].start :].startswith(b"## One")
    assert [section.level for section in split_sections(b"\xef\xbb\xbftext\n# A")] == [0, 1]
    assert [section.start for section in split_sections(b"\xef\xbb\xbf")] == [0]


def test_text_before_the_first_heading_is_a_section_of_its_own() -> None:
    before, first = split_sections(b"\n# A\n")
    assert (before.level, before.title, before.start, before.end, before.body_start, before.parent) == (
        0,
        "",
        0,
        1,
        0,
        -1,
    )
    assert (first.start, first.body_start, first.parent) == (1, 5, -1)
    assert split_sections(b"") == ()
    assert split_sections(b"# A\n", 4) == ()


def test_wrong_bytes_and_nul_break_nothing() -> None:
    sections = split_sections(b"# \xff\x00a\n\x80\n## \xc3\n")
    assert [section.title for section in sections] == ["\ufffd\ufffda", "\ufffd"]


# Titles, paths and slugs


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("`code *kept*` and **bold**", "code *kept* and bold"),
        ("***all*** of _it_, __it__", "all of it, it"),
        ("modbus_tcp and 2 * 3 * 4", "modbus_tcp and 2 * 3 * 4"),
        ("[a *link*](http://x.y) and [one][ref]", "a link and one"),
        ("![image](i.png)", "image"),
        ("[[Page]] and [[Page|shown]]", "Page and shown"),
        ("<https://x.y> <b>bold</b>", "https://x.y bold"),
        ("R&amp;D &#8364; &#x41; &nosuch; &copy", "R&D € A &nosuch; &copy"),
        ("a \\* b \\[c] \\d", "a * b [c] \\d"),
        ("[1.2.0] - today", "[1.2.0] - today"),
        ("x <!-- note --> y <!-- end -->", "x y"),
        ("`` a ` b ``  c", "a ` b c"),
        ("** not bold **", "** not bold **"),
    ],
)
def test_titles_are_what_a_reader_sees(source: str, title: str) -> None:
    assert titles(f"# {source}") == [title]


def test_long_titles_are_cut_and_keep_their_markup() -> None:
    assert titles(f"# {'*x* ' * 100}")[0].startswith("*x* *x*")
    (title,) = titles(f"# {'é' * 100_000}")
    assert (len(title), title[-1]) == (1000, "…")


def test_parents_are_the_nearest_smaller_levels() -> None:
    sections = split_sections(b"# T\n\n#### Deep\na\n## Mid\nb\n###### Six\nc\n# T2\n")
    names = [section.title for section in sections]
    parents = {section.title: names[section.parent] if section.parent >= 0 else None for section in sections}
    assert parents == {"T": None, "Deep": "T", "Mid": "T", "Six": "Mid", "T2": None}
    assert heading_path(sections, 3) == ("T", "Mid", "Six")


def test_text_before_the_first_heading_has_no_path_and_no_slug() -> None:
    sections = split_sections(b"x\n## A\n### B\n")
    assert [heading_path(sections, index) for index in range(3)] == [(), ("A",), ("A", "B")]
    assert section_slugs(sections) == ("", "a", "b")


def test_slugs_do_not_clash_with_numbered_titles() -> None:
    sections = split_sections(b"## Setup\n## Setup\n## setup!\n## Setup 1\n## \n## ?!\n## Caf\xc3\xa9 & Bar\n")
    assert section_slugs(sections) == (
        "setup",
        "setup-1",
        "setup-2",
        "setup-1-1",
        "section",
        "section-1",
        "café--bar",
    )


# Links


def test_every_kind_of_link_is_found_with_its_span() -> None:
    text = (
        "[[Page]] [[Page#part|shown]] ![[pic.png]] [in](line 'title') ![img](i.png)\n"
        "<https://a.b/?x=1&copy=2> [ref][r] [R][] [r]\n\n[r]: </u v> 'T'\n"
    )
    found = find_links(text.encode())
    assert [(link.kind, link.target, link.text, link.embed) for link in found] == [
        ("wiki", "Page", "Page", False),
        ("wiki", "Page#part", "shown", False),
        ("wiki", "pic.png", "pic.png", True),
        ("markdown", "line", "in", False),
        ("markdown", "i.png", "img", True),
        ("markdown", "https://a.b/?x=1&copy=2", "https://a.b/?x=1&copy=2", False),
        ("markdown", "/u v", "ref", False),
        ("markdown", "/u v", "R", False),
        ("markdown", "/u v", "r", False),
    ]
    assert [text[start:end] for start, end in (link.span for link in found)][:4] == [
        "[[Page]]",
        "[[Page#part|shown]]",
        "![[pic.png]]",
        "[in](line 'title')",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "`[a](b)`",
        "`` [[a]] ` ``",
        "```\n[a](b)\n```",
        "    [a](b)",
        "- ```\n  [[a]]\n  ```",
        "x <!-- [a](b)\n[[c]] --> y",
        "<!-- [a](b) -->",
        "<div>[a](b)</div>",
        '<b title="[a](b)">',
        "\\[a](b)",
        "[a\\](b)",
        "[a]",
        "[a][b]",
        "[a] (b)",
        "[]()",
        "[[]] [[ ]]",
        "[a](b c)",
        "[a](b\n\nc)",
        "[^1]\n\n[^1]: note",
        "[a]: /u",
        "https://bare.address",
        "<not an address>",
        "[a](((((deep)))))",
    ],
)
def test_what_only_looks_like_a_link_is_none(text: str) -> None:
    assert linked(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("` [a](b)", [("b", "a")]),
        ("a ` b\n\n- [a](b) ` c", [("b", "a")]),
        ("<!-- x [a](b)", []),
        ("x <!-- y [a](b) <!-- [c](d)", [("b", "a"), ("d", "c")]),
        ("[![alt](i)](out)", [("out", "alt"), ("i", "alt")]),
        ("[a [b](c) d](e)", [("c", "b")]),
        ("[a](b(c)d)", [("b(c)d", "a")]),
        ("[a](b\\)c&amp;d)", [("b)c&d", "a")]),
        ("[a](<b c>)", [("b c", "a")]),
        ("[a](b (t))", [("b", "a")]),
        ("[*a*\n> b](c)", [("c", "a > b")]),
        ("> [a\n> b](c)", [("c", "a > b")]),
        ("- x\n  - [[deep]]", [("deep", "deep")]),
        ("# [in](heading)", [("heading", "in")]),
        ("| [[a\\|b]] |", [("a", "b")]),
        ("[a][b]\n\n> [B]: u", [("u", "a")]),
        ("[a][b]\n\n- [b]: u\n", [("u", "a")]),
        ("[a]\n\n[a]: one\n[a]: two", [("one", "a")]),
        ("[a][no] [b]\n\n[a]: u\n[b]: v", [("v", "b")]),
        ("[![x]][a]\n\n[a]: u", [("u", "![x]")]),
        ("[a]\r\n\r\n[a]:\r\n  u\r\n", [("u", "a")]),
        ("[a](b)\n```\n[c](d)\n```\n[e](f)", [("b", "a"), ("f", "e")]),
    ],
)
def test_links_are_read_as_commonmark_reads_them(text: str, expected: list[tuple[str, str]]) -> None:
    assert linked(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[```\\``", []),
        ("[x](y) ```\\`` z", [("y", "x")]),
        ("\\`` [x](y) ``", [("y", "x")]),
        ("\\`` [x](y) `", []),
        ("`` [x](y) \\``", []),
        ("` [x](y) \\``", [("y", "x")]),
    ],
)
def test_an_escaped_backtick_begins_no_code_but_those_behind_it_do(text: str, expected: list[tuple[str, str]]) -> None:
    assert linked(text) == expected


def test_links_are_looked_for_only_from_the_start_asked_for() -> None:
    raw = b"---\nx: '[[meta]]'\n---\n[[body]]\n"
    (link,) = find_links(raw, raw.index(b"[[body"))
    assert (link.target, raw[slice(*link.span)]) == ("body", b"[[body]]")


# Cost


HOSTILE = [
    "[",
    "![",
    "](",
    "[a](",
    "[a][",
    "[[a",
    "[[a|",
    "<",
    '<a b="',
    "x<!--",
    "`",
    "`` ` ",
    "#",
    "# ",
    "- ",
    "- - -x ",
    "> ",
]
HOSTILE += [
    "- > ",
    "1. ",
    "=",
    "\t",
    "\\",
    "&",
    "*a ",
    "_",
    "[a]:",
    '[a](b "',
    "- ```\n",
    "> - x\n",
    "<b>\n\n",
    "a\n---\n",
    "~~~\n",
    "\r",
    "- a\n\n",
    "- a\n\n\n\n\n",
    "- a\n  b\n",
    "> a\n",
    "    a\n\n",
    "[a](x\\(",
    "[a]((x)",
    '[a](b "\\"',
    "[a]: <\\<",
    "[\\]",
    "<a b='c'",
]


def cost(work: Callable[[bytes], object], raw: bytes) -> float:
    began = time.process_time()
    work(raw)
    return time.process_time() - began


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("work", [scan, find_links], ids=["scan", "links"])
def test_hostile_text_costs_time_in_proportion(work: Callable[[bytes], object], piece: str) -> None:
    data = piece.encode()
    small, large = data * (25_000 // len(data)), b"x\n" + data * (200_000 // len(data))
    # Eight times the text; quadratic work would take sixty-four times as long. Times too short to measure pass.
    assert cost(work, large) < max(0.4, 30 * min(cost(work, small) for _ in range(3)))


def test_blank_lines_below_deep_lists_cost_nothing_each() -> None:
    assert cost(scan, b"- " * 50_000 + b"x\n" + b"\n" * 100_000) < 3
    assert cost(scan, b"> " + b"- " * 50_000 + b"x\n" + b">\n" * 50_000) < 3


def test_images_in_images_cost_time_in_proportion() -> None:
    raw = b"x" + b"![" * 20_000 + b"](b)" * 20_000
    assert len(find_links(raw)) == 20_000
    assert cost(find_links, raw) < 3


def test_twenty_thousand_equal_sections_are_split_and_named_fast() -> None:
    raw = b"## H\nx\n" * 20_000
    began = time.process_time()
    sections = split_sections(raw)
    slugs = section_slugs(sections)
    assert time.process_time() - began < 2
    assert (len(sections), len(set(slugs))) == (20_000, 20_000)


@pytest.mark.parametrize(
    "line", [b"some text\n", b"- item\n", b"> quote\n", b"    code\n", b"\n", b"1. one\n", b"\tx\r\n"]
)
def test_a_million_lines_take_seconds(line: bytes) -> None:
    assert cost(scan, line * 1_000_000) < 3


@pytest.mark.parametrize("head", [b"", b"# ", b"- ", b"> ", b"    ", b"[", b"<"])
def test_one_line_of_fifty_megabytes_takes_seconds(head: bytes) -> None:
    assert cost(scan, head + b"x" * 50_000_000) < 3


@pytest.mark.parametrize("before", ["", "text\n\n", "- b\n"])
@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("-   a\n\n   # H\n", ["H"]),
        ("-   a\n\n    # H\n", []),
        ("-    a\n\n     # H\n", []),
        # Five spaces: the text is code in an item two columns wide.
        ("-     a\n\n # H\n", ["H"]),
        ("-     a\n\n  H\n  ===\n", []),
        ("1.  a\n2.  b\n\n   # H\n", ["H"]),
        ("1.  a\n2.  b\n\n    # H\n", []),
    ],
)
def test_spaces_behind_the_mark_of_an_item_tell_how_deep_its_text_lies(
    before: str, text: str, titles: list[str]
) -> None:
    sections = split_sections(f"{before}{text}".encode())
    assert [section.title for section in sections if section.level] == titles


def test_five_spaces_behind_the_mark_of_an_item_make_code_of_its_text() -> None:
    # The item's content begins at the second column, so a line at the third is in the item.
    assert [section.level for section in split_sections(b"text\n\n-     a\n\n   # H\n")] == [0]


@pytest.mark.parametrize("start", ["", "---\na: b\n---\n", "x\n\n"])
@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("<div>\n# No\n\n# H\n", ["H"]),
        ("<div>\n# No\n \t\n# H\n", ["H"]),
        ("</TD\n# No\n\nH\n===\n", ["H"]),
        ("text\n<dl>\n===\n\n# H\n", ["H"]),
        ("<span>x\n# H\n", ["H"]),
        ("<divx\n# H\n", ["H"]),
        ("<div", []),
    ],
)
def test_a_block_of_html_at_the_margin_ends_at_a_blank_line(start: str, text: str, titles: list[str]) -> None:
    sections = split_sections((start + text).encode(), len(start))
    assert [section.title for section in sections if section.level] == titles


@pytest.mark.parametrize("blank", ["", " ", "   ", "\t", " \t "])
def test_an_underline_makes_a_heading_of_the_lines_behind_the_last_blank_one(blank: str) -> None:
    sections = split_sections(f"x\none\n{blank}\ntwo \n===\n".encode())
    assert [(section.level, section.title) for section in sections] == [(0, ""), (1, "two")]
    assert [section.level for section in split_sections(f"x\none\n{blank}\n===\n".encode())] == [0]


@pytest.mark.parametrize("indent", ["", " ", "   "])
@pytest.mark.parametrize("sign", ["```", "~~~"])
def test_a_fence_is_closed_by_the_very_next_line_and_by_the_last(sign: str, indent: str) -> None:
    for text in (f"{sign}\n{indent}{sign}\n# H", f"{sign}\ncode\n{indent}{sign} \t\n# H\n"):
        assert [section.title for section in split_sections(text.encode())] == ["", "H"]
    for text in (f"{sign}\n{indent}{sign}", f"{sign}\n{indent}{sign}\n", f"{sign}\nx\n{indent}{sign} "):
        outline = scan(text.encode())
        assert (outline.fences, outline.issues) == (((0, len(text)),), ())
    for text in (sign, f"{sign}\n", f"{sign}\n{indent}{sign} x", f"{sign}\n    {sign}", f"{sign}\nx{sign}\n"):
        assert [issue.code for issue in scan(text.encode()).issues] == ["fence-unclosed"]


@pytest.mark.parametrize("tag", ["script", "SCRIPT", "Pre", "style", "textArea"])
def test_tags_whose_blocks_go_beyond_blank_lines_are_known_in_any_case(tag: str) -> None:
    found = split_sections(f"<{tag}>\n\n# No\n</{tag.swapcase()}>\n# H\n".encode())
    assert [section.title for section in found] == ["", "H"]
