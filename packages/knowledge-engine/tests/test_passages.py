"""From bytes to passages: nothing lost, nothing cut in the middle of a letter, nothing too long."""

from __future__ import annotations

import codecs
import hashlib
import re
import time
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer
from knowledge_engine.models import Metadata
from knowledge_engine.passages import (
    EXTENSIONS,
    MAX_PASSAGE_BYTES,
    MAX_PASSAGE_CHARS,
    MAX_TITLE_CHARS,
    Document,
    _cut,
    chunk_id,
    field_text,
    not_text,
    parse_document,
    passage_terms,
)

BOM = codecs.BOM_UTF8
FRONT = b"---\ntitle: Pump\n---\n"

names = st.sampled_from(["a.md", "b/c.markdown", "d.txt", "e.yaml", "f.YML", "g.json", "plain"])
pieces = st.sampled_from(
    [
        "# One\n", "## Two\r\n", "### \n", "Three\n=====\n", "\n", "\r\n", "\r", " ", "\t", "\u00a0", "\u3000\n",
        "text ", "ends. ", "水温。", "né\u0301", "🧪", "```\n", "~~~\n", "- item\n", "x" * 300, "words and words " * 40,
        "水" * 500, "line\n" * 90, "para\n\n" * 70, "---\n", "title: T\n", "\x00", "\u2028", "\ufeff",
    ]
).map(str.encode) | st.binary(max_size=3) | st.sampled_from([b"\xff" * 700, b"\xe6\xb0" * 400])  # fmt: skip
raws = st.builds(
    lambda bom, front, parts: bom + front + b"".join(parts),
    st.sampled_from([b"", BOM]),
    st.sampled_from([b"", FRONT, b"---\n", b"---\n---\n"]),
    st.lists(pieces, max_size=25),
)


def texts(name: str, raw: bytes | str) -> list[str]:
    data = raw.encode() if isinstance(raw, str) else raw
    return [data[one.start : one.end].decode() for one in parse_document(name, data).passages]


def codes(document: Document) -> list[tuple[str, int]]:
    return [(issue.code, issue.line) for issue in document.issues if issue.severity != "info"]


@given(names, raws)
@example("a.md", b"")
@example("a.md", BOM)
@example("a.md", b"---\ntitle: " + b"x" * 60_000 + b"\n---\n")
@example("a.md", b"\xe6\xb0" * 3000)
def test_passages_are_pieces_of_the_document_in_order(name: str, raw: bytes) -> None:
    document = parse_document(name, raw)
    assert document.content_hash == hashlib.sha256(raw).hexdigest()
    assert document.size == len(raw)
    for before, after in pairwise(document.passages):
        assert before.end <= after.start
    for passage in document.passages:
        data = raw[passage.start : passage.end]
        assert data
        assert data == data.strip(b" \t\r\n\x0b\x0c")
        assert len(data) <= MAX_PASSAGE_BYTES
        assert len(data.decode(errors="surrogateescape")) <= MAX_PASSAGE_CHARS


@given(names, raws)
def test_no_text_of_the_body_is_outside_all_passages(name: str, raw: bytes) -> None:
    document = parse_document(name, raw)
    left = bytearray(raw[document.body_start :])
    for passage in document.passages:
        if passage.start >= document.body_start:
            left[passage.start - document.body_start : passage.end - document.body_start] = b" " * (
                passage.end - passage.start
            )
    assert not left.strip()


@given(names, raws)
def test_no_passage_begins_or_ends_within_a_letter(name: str, raw: bytes) -> None:
    document = parse_document(name, raw)
    if not any(issue.code == "encoding-invalid" for issue in document.issues):
        for passage in document.passages:
            raw[passage.start : passage.end].decode()


@given(names, raws)
@example("a.md", b"---\nprose\n---\nmore")
def test_frontmatter_that_was_read_is_cited_only_where_there_is_no_body(name: str, raw: bytes) -> None:
    document = parse_document(name, raw)
    before = [passage for passage in document.passages if passage.start < document.body_start]
    if before and raw[document.body_start :].strip():
        assert document.metadata == {}
        assert any(issue.severity == "error" for issue in document.issues)
    elif before:
        assert document.body_start > len(BOM)


@pytest.mark.parametrize("block", ["Just prose, between two rules", "key: [unclosed", "- a\n- list", "words " * 12_000])
def test_a_block_that_is_no_frontmatter_is_text(block: str) -> None:
    raw = f"---\n{block}\n---\n# Head\nbody\n".encode()
    document = parse_document("a.md", raw)
    found = texts("a.md", raw)
    assert document.metadata == {}
    assert found[-1] == "# Head\nbody"
    assert " ".join(found[:-1]).split()[1:-1] == block.split()
    bags = list(passage_terms(document, raw, Analyzer("none")))
    assert sum((bag.own for bag in bags[:-1]), Counter[str]()) == Counter(Analyzer("none").terms(block))


@given(names, raws)
def test_passages_know_the_headings_above_them(name: str, raw: bytes) -> None:
    document = parse_document(name, raw)
    for passage in document.passages:
        inside = [one for one in document.sections if one.start < passage.end and passage.start < one.end]
        if passage.heading_path and inside:
            assert " ".join(inside[-1].title.split()).startswith(passage.heading_path[-1])


def test_a_short_section_is_one_passage_with_its_heading() -> None:
    raw = b"Intro.\n\n# Pump\n\nLifts.\n\n## Seal\n\nTight.\n\n# Valve\nShuts.\n"
    document = parse_document("a.md", raw)
    assert texts("a.md", raw) == ["Intro.", "# Pump\n\nLifts.", "## Seal\n\nTight.", "# Valve\nShuts."]
    assert [one.heading_path for one in document.passages] == [(), ("Pump",), ("Pump", "Seal"), ("Valve",)]


def test_headings_without_text_go_with_what_follows() -> None:
    assert texts("a.md", "# Pump\n\n## Seal\n\n### Ring\nRound.\n\n## Shaft\nLong.\n") == [
        "# Pump\n\n## Seal\n\n### Ring\nRound.",
        "## Shaft\nLong.",
    ]


def test_a_heading_without_text_at_the_end_is_kept() -> None:
    assert texts("a.md", "# Pump\nLifts.\n\n## To come\n") == ["# Pump\nLifts.", "## To come"]


def test_a_list_of_bare_headings_does_not_grow_into_one_passage() -> None:
    found = texts("a.md", "# Heading\n" * 1000 + "text")
    assert all(len(text) <= MAX_PASSAGE_CHARS for text in found)
    assert len(found) > 10


def test_a_long_section_is_cut_at_paragraphs_into_pieces_of_like_size() -> None:
    paragraph = "A sentence of words that goes on. " * 6 + "End.\n\n"
    found = texts("a.md", "# T\n\n" + paragraph * 25)
    sizes = [len(text) for text in found]
    assert len(found) == 3
    assert max(sizes) - min(sizes) <= 2 * len(paragraph)
    assert all(text.endswith("End.") for text in found)


@pytest.mark.parametrize(
    ("unit", "end"),
    [
        ("word " * 30 + "end\n", "end"),
        ("word " * 30 + "end\r", "end"),
        ("word " * 30 + "end\r\n\r\n", "end"),
        ("word " * 30 + "end. ", "end."),
        ("字" * 30 + "完。", "完。"),
        ("คำ" * 30 + "? ", "?"),
        ("word ", "word"),
    ],
)
def test_without_paragraphs_lines_then_sentences_then_words_are_kept_whole(unit: str, end: str) -> None:
    found = texts("a.txt", unit * (5000 // len(unit)))
    assert len(found) == 3
    assert all(text.endswith(end) for text in found)


def test_a_text_without_any_gap_is_cut_at_the_limit() -> None:
    assert [len(text) for text in texts("a.txt", "字" * 4500)] == [2000, 2000, 500]


def test_a_passage_is_measured_in_characters() -> None:
    assert [len(text) for text in texts("a.txt", "字" * MAX_PASSAGE_CHARS)] == [MAX_PASSAGE_CHARS]


def test_invalid_bytes_count_as_characters() -> None:
    passages = parse_document("a.txt", b"\xff" * 4500).passages
    assert [one.end - one.start for one in passages] == [2000, 2000, 500]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_code_is_not_cut_where_there_is_text_to_cut(newline: str) -> None:
    code = "```" + newline + ("step()" + newline * 2) * 80 + "```" + newline
    text = "# T\n" + "Some words before it. " * 30 + newline + code + "And after it. " * 60
    found = texts("a.md", text)
    assert len(found) == 2
    assert sum("```" in part for part in found) == 1


def test_code_too_long_for_a_passage_is_cut_between_its_lines() -> None:
    found = texts("a.md", "```\n" + "first line\nlast line\n\n" * 300 + "```\n")
    assert len(found) == 4
    assert all(text.endswith("last line") for text in found[:-1])
    found = texts("a.md", "```\n" + "only line\n" * 300 + "```\n")
    assert all(text.endswith("only line") for text in found[:-1])


def test_a_fence_in_another_section_does_not_matter() -> None:
    code = "```\n" + "x\n\n" * 500 + "```\n"
    text = "# Text\n" + ("Words and words. " * 12 + "\n\n") * 14
    alone = texts("a.md", text)
    assert len(alone) == 2
    around = texts("a.md", f"# Code\n{code}\n{text}# More\n{code}")
    assert [one for one in around if "Words" in one] == alone


@pytest.mark.parametrize("name", ["a.txt", "a.yaml", "a.yml", "a.json", "A.TXT"])
def test_plain_text_and_data_have_no_headings(name: str) -> None:
    document = parse_document(name, b"first\n# comment\n[[x]]: 1\n")
    assert [one.level for one in document.sections] == [0]
    assert [one.heading_path for one in document.passages] == [()]


@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.MARKDOWN", "readme", "a.rst"])
def test_text_has_frontmatter(name: str) -> None:
    document = parse_document(name, FRONT + b"body")
    assert (document.metadata, document.body_start) == ({"title": "Pump"}, len(FRONT))
    assert texts(name, FRONT + b"body") == ["body"]


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.json"])
def test_data_has_no_frontmatter(name: str) -> None:
    document = parse_document(name, BOM + FRONT + b"b: 1\n")
    assert document.metadata == {}
    assert document.issues == ()
    assert texts(name, BOM + FRONT + b"b: 1\n") == ["---\ntitle: Pump\n---\nb: 1"]


def test_markdown_plain_text_and_data_are_indexed() -> None:
    assert EXTENSIONS == (".md", ".markdown", ".txt", ".yaml", ".yml", ".json")


def test_a_mark_at_the_beginning_is_in_no_passage_and_moves_all_places() -> None:
    raw = BOM + b"# Pump\nLifts.\n"
    document = parse_document("a.md", raw)
    assert [(one.start, one.end) for one in document.passages] == [(3, len(raw) - 1)]
    assert document.title == "Pump"
    assert parse_document("a.txt", BOM + b"x").passages[0][:2] == (3, 4)


@pytest.mark.parametrize("raw", [b"", BOM, b"\n", b" \r\n\t\r", BOM + b"\n\n", b"\x0b\x0c"])
@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.json"])
def test_a_blank_document_has_no_passage(raw: bytes, name: str) -> None:
    document = parse_document(name, raw)
    assert document.passages == ()
    assert document.title == "a"
    assert list(passage_terms(document, raw, Analyzer())) == []


@pytest.mark.parametrize("bom", [b"", BOM])
def test_a_document_of_frontmatter_alone_is_cited_by_it(bom: bytes) -> None:
    raw = bom + b"---\ntitle: Pump\nsummary: Lifts water\n---\n\n"
    document = parse_document("a.md", raw)
    assert [(one.start, one.end, one.heading_path) for one in document.passages] == [(len(bom), len(raw) - 2, ())]
    (bag,) = passage_terms(document, raw, Analyzer("none"))
    assert bag.own == Counter()
    assert bag.context == Counter(pump=2, lifts=1, water=1)


def test_long_frontmatter_alone_is_cited_by_its_beginning() -> None:
    document = parse_document(
        "a.md", b"---\n" + b"key: words and words\n" * 1 + b"note: " + b"word " * 3000 + b"\n---\n"
    )
    (passage,) = document.passages
    assert passage.start == 0
    assert 1000 < passage.end <= MAX_PASSAGE_CHARS


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_bytes_that_are_not_utf8_are_an_issue_with_their_line(newline: bytes) -> None:
    document = parse_document("a.txt", newline.join([b"one", b"two", b"caf\xe9", b"\xff"]))
    assert codes(document) == [("encoding-invalid", 3)]
    assert document.issues[-1].path == "a.txt"
    assert len(document.passages) == 1


def test_good_utf8_is_no_issue() -> None:
    assert codes(parse_document("a.md", FRONT + "Größe 水".encode())) == []


def test_issues_of_all_floors_name_the_document() -> None:
    document = parse_document("x/a.md", b"---\ntitle: [\n---\n```\n\xff\n")
    assert {issue.path for issue in document.issues} == {"x/a.md"}
    assert {issue.code for issue in document.issues} >= {"fence-unclosed", "encoding-invalid"}
    assert len(document.issues) == 3


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Pump\n---\n# Other\n", "Pump"),
        ("---\ntitle: '  '\n---\n# Other\n", "Other"),
        ("---\ntitle: 007\n---\n", "007"),
        ("---\ntitle: [Pump, Lifter]\n---\n", "Pump Lifter"),
        ("---\ntitle: {a: b}\n---\n# Other\n", "Other"),
        ("---\ntitle: |\n  Pump\n   and more\n---\n", "Pump and more"),
        ("## Small\n\n# Big *one*\n\n# Second\n", "Big one"),
        ("#\n\n# Named\n", "Named"),
        ("## Small\n", "start.here"),
        ("```\n# code\n```\n", "start.here"),
    ],
)
def test_a_title_is_the_frontmatter_s_or_the_first_top_heading_or_the_file_s_name(text: str, title: str) -> None:
    assert parse_document("guides/start.here.md", text.encode()).title == title


@pytest.mark.parametrize(
    ("name", "title"), [("a/b.md", "b"), ("README", "README"), ("a/.md", ".md"), ("x.tar.txt", "x.tar")]
)
def test_a_file_name_loses_its_extension_as_a_title(name: str, title: str) -> None:
    assert parse_document(name, b"").title == title


def test_a_huge_title_is_cut_wherever_it_shows() -> None:
    document = parse_document("a.md", b"# " + b"ab  " * 100_000 + b"\nx\n\n## Sub\ny\n")
    assert len(document.title) <= MAX_TITLE_CHARS
    assert document.title.startswith("ab ab")
    assert document.passages[-1].heading_path == (document.title, "Sub")
    bags = list(passage_terms(document, b"# " + b"ab  " * 100_000 + b"\nx\n\n## Sub\ny\n", Analyzer("none")))
    assert bags[-1].context["ab"] < 500


def test_the_headings_above_count_once_and_the_title_twice() -> None:
    raw = b"---\ntitle: Pump\nkeywords: [lift, 3]\nsummary: Moves water\n---\n# Pump\nA.\n## Seal\nB.\n"
    first, second = passage_terms(parse_document("a.md", raw), raw, Analyzer("none"))
    assert first.context == Counter({"pump": 2, "lift": 1, "3": 1, "moves": 1, "water": 1})
    assert second.context == Counter(pump=2, seal=1)
    assert second.own == Counter(seal=1, b=1)
    assert second.length == 5


def test_a_catalogue_field_is_text_or_a_list_of_texts() -> None:
    metadata: Metadata = {"a": "x", "b": ["x", 2, {"c": "no"}, ["no"]], "c": {"d": "no"}, "e": "y" * 9999}
    assert field_text(metadata, "a") == "x"
    assert field_text(metadata, "b") == "x\n2"
    assert field_text(metadata, "c") == field_text(metadata, "z") == ""
    assert len(field_text(metadata, "e")) == MAX_PASSAGE_CHARS


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("Wide".encode("utf-16"), "UTF-16"),
        (codecs.BOM_UTF16_BE + "Wide".encode("utf-16-be"), "UTF-16"),
        (codecs.BOM_UTF32_LE + "Wide".encode("utf-32-le"), "UTF-32"),
        (codecs.BOM_UTF32_BE + "Wide".encode("utf-32-be"), "UTF-32"),
        ("Wide text without a mark".encode("utf-16-le"), "NUL"),
        ("Wide text without a mark".encode("utf-16-be"), "NUL"),
        (bytes(8), "NUL"),
        (b"\x7fELF" + bytes(100), "NUL"),
    ],
)
def test_what_is_not_utf8_text_is_refused(raw: bytes, says: str) -> None:
    assert says in not_text(raw)


@pytest.mark.parametrize(
    "raw", [b"", BOM, b"text", b"\xff", b"caf\xe9 au lait", b"valve\x00open and more", "水".encode() * 9999]
)
def test_text_with_flaws_is_text(raw: bytes) -> None:
    assert not_text(raw) == ""


def test_a_passage_s_name_tells_its_place() -> None:
    assert chunk_id("a/b.md", 3, 17) == "a/b.md#3-17"


UNITS = {
    "one line": b"a", "words": b"a b ", "lines": b"ab\n", "blank": b"\n",
    "bare headings": b"# a\n", "headings": b"## a\nb\n",
    "fences": b"```\n\n```\n\n", "sections with fences": b"## x\n" + b"word " * 500 + b"\n\n```\nx\n```\n",
    "small code": b"```\n" + b"word " * 600 + b"\n```\n", "dots": b".", "wide": "水".encode(), "broken": b"\xff",
    "spaced": b"\n ", "stops": "。".encode(), "carriages": b"\r",
}  # fmt: skip


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("name", ["a.md", "a.txt"])
def test_time_grows_with_the_document_and_not_faster(name: str, unit: bytes) -> None:
    def seconds(size: int) -> float:
        raw = unit * (size // len(unit))
        began = time.process_time()
        parse_document(name, raw)
        return time.process_time() - began

    # 16 times the bytes: a quadratic step would take 256 times as long.
    assert min(seconds(640_000) for _ in range(2)) < 160 * max(min(seconds(40_000) for _ in range(3)), 0.002)


def test_a_line_of_many_megabytes_is_cut_in_seconds() -> None:
    raw = b"word and word. " * 400_000
    began = time.process_time()
    passages = parse_document("a.md", raw).passages
    assert time.process_time() - began < 5
    assert sum(one.end - one.start for one in passages) > len(raw) * 0.99


@pytest.mark.parametrize(
    "block",
    [
        "A page that opens with a rule.\n",
        "title: Step 1: open the quokka\n",
        "- a list\n",
        "filler: " + "x" * 70_000 + "\n",
    ],
    ids=["prose", "broken", "list", "too large"],
)
def test_a_block_that_cannot_be_read_is_searched_as_text(block: str) -> None:
    raw = f"---\n{block}wombat\n---\n\n## Use\n\nbody\n".encode()
    document = parse_document("a.md", raw)
    assert document.metadata == {}
    assert any("wombat" in terms.own for terms in passage_terms(document, raw, Analyzer()))
    assert raw[document.body_start :] == b"\n## Use\n\nbody\n"


def test_frontmatter_that_was_read_is_not_searched() -> None:
    raw = b"---\nowner: quokka\n---\n"
    document = parse_document("a.md", raw)
    assert [passage.end for passage in document.passages] == [len(raw) - 1]
    assert not next(passage_terms(document, raw, Analyzer())).own


def test_a_few_nul_bytes_only_separate_words() -> None:
    raw = b"valve\0open"
    assert not_text(raw) == ""
    (bag,) = passage_terms(parse_document("a.md", raw), raw, Analyzer("none"))
    assert set(bag.own) == {"valve", "open"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("before", [500, 900, 1180, 1260, 1500, 1900])
def test_a_long_section_is_cut_at_a_blank_line_near_or_far(before: int, end: str) -> None:
    """The ideal is at about 1240: a blank line in the second half is preferred to all lines, wherever it is."""
    line = "x" * 18 + " y"
    first = "".join(line[: 20 - len(end)] + end for _ in range(before // 20))
    raw = first + end + "".join(line[: 20 - len(end)] + end for _ in range((2480 - before) // 20))
    found = parse_document("a.md", raw.encode()).passages
    cut_there = 2480 / 4 <= before <= MAX_PASSAGE_CHARS - 2 * len(end)
    assert (found[0].end == len(first.rstrip())) is cut_there
    assert len(found) == 2


def test_a_far_blank_line_outside_of_code_is_preferred_to_a_near_one_in_it() -> None:
    code = "```\n" + "code\n\n" * 170 + "```\n"
    raw = "text\n\n" * 110 + code + "more\n\n" * 110
    found = parse_document("a.md", raw.encode()).passages
    assert found[0].end == raw.index("\n\n```")
    assert [raw[one.start : one.end][-5:].split()[-1] for one in found] == ["text", "more"]


def best_end(window: str, ideal: float, at: int, fences: list[tuple[int, int]]) -> int:
    """What `_cut` says, found by looking at every place where a piece may end."""
    within = []
    for pattern in (r"\n[ \t]*\r?\n|\r[ \t]*\r", r"\r\n|\n|\r", r"[.!?…](?=\s)\s*|[。！？｡।؟]\s*", r"\s+"):
        ends = [match.end() for match in re.finditer(pattern, window) if match.end() >= ideal / 2]
        ends.sort(key=lambda end: abs(end - ideal))
        if outside := [end for end in ends if not any(left < at + end < right for left, right in fences)]:
            return outside[0]
        within += ends
    return [*within, len(window)][0]


windows = st.lists(
    st.tuples(
        st.sampled_from(
            ["x", "word ", "Ends. ", "Ends.", "水。", "\n", "\n\n", "\n \t\n", "line\n", " ", "\r\n", "\r"]
        ),
        st.sampled_from([1, 1, 1, 7, 60, 700]),
    ),
    min_size=1,
    max_size=12,
).map(lambda parts: "".join(sign * count for sign, count in parts))
spans = st.lists(st.integers(0, 5000), max_size=8, unique=True).map(lambda ends: list(pairwise(sorted(ends)))[::2])


@settings(max_examples=400)
@given(windows, st.floats(1000, 2000), st.integers(0, 3000), spans)
def test_a_piece_ends_at_the_best_of_all_places(
    window: str, ideal: float, at: int, fences: list[tuple[int, int]]
) -> None:
    window = (window * MAX_PASSAGE_CHARS)[:MAX_PASSAGE_CHARS]
    assert _cut(window, ideal, at, fences) == best_end(window, ideal, at, fences)
