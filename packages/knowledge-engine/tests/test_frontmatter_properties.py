from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import InvalidArgumentError, InvalidFrontmatterError
from knowledge_engine.frontmatter import compose_document, is_text_field, parse_frontmatter, update_frontmatter
from knowledge_engine.frontmatter._plain import plain_block
from knowledge_engine.frontmatter._scalars import typed
from knowledge_engine.frontmatter._yaml import FASTEST, PureParser, read_block

NASTY = [
    "---",
    "\n---\n",
    ": ",
    " #",
    "yes",
    "~",
    "null",
    "012",
    "1_000",
    "2024-05-01",
    "<<",
    "- a",
    "? b",
    "!t",
    "&a",
    "*a",
    "'",
    '"',
    "\\",
]
NASTY += [
    "\x85",
    "\u2028",
    "\ufeff",
    "\x00",
    "\x7f",
    "\x9f",
    "\U0001f600",
    "\ufffe",
    "\r\n",
    "\t",
    " ",
    "",
    "%",
    "|",
    "{",
    "]",
    "true",
    "1e3",
]
texts = st.lists(st.sampled_from(NASTY) | st.text(max_size=8), max_size=4).map("".join)
KEYS = ["id", "title", "tags", "created", "a", "b", "on", "1", "<<", "true", "long key"]
keys = st.sampled_from(KEYS) | texts
scalars = (
    texts | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
text_values = st.recursive(texts, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@st.composite
def metadatas(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(keys, unique=True, max_size=5))
    return {name: draw(text_values if is_text_field(name) else values) for name in names}


def strict(value: Any) -> str:
    """JSON text tells 1, 1.0 and true apart, and refuses what is not JSON."""
    text = json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False)
    text.encode()
    return text


@given(metadatas(), texts)
@example({"a": -0.0, "b": 1e22, "c": 5e-324}, "---\n---\n")
@example({"title": "\u2028 \x85"}, "\ufeff")
def test_what_is_composed_is_read_back(metadata: dict[str, Any], text: str) -> None:
    raw = compose_document(metadata, text)
    found = parse_frontmatter(raw)
    assert strict(found.metadata) == strict(metadata)
    assert raw[found.body_start :].decode() == text
    assert not [issue for issue in found.issues if issue.severity == "error"]


LINES = [
    "a: 1",
    "b: [x, 2]",
    "c:",
    "  - q",
    "- r",
    "  d: |",
    "    text",
    "# note",
    "",
    "e: 'x' # y",
    "'f': {g: ~}",
    "? h",
    ": i",
    "  ",
    "\t",
    "{",
    "]",
]
LINES += [
    "a: 2",
    "j: &k 1",
    "l: *k",
    "m: !n o",
    "...",
    "--- x",
    'p: "\\ud800"',
    "q: \u2028",
    "title: 012",
    "tags: [no, 1]",
    "caf\ufffd: \x01",
    "---",
]
blocks = st.lists(st.sampled_from(LINES) | st.text(max_size=12), max_size=8)
ends = st.sampled_from(["\n", "\r\n"])


@given(blocks, ends)
def test_any_block_gives_strict_json_and_never_raises(lines: list[str], end: str) -> None:
    raw = end.join(["---", *lines, "---", "Body"]).encode(errors="replace")
    found = parse_frontmatter(raw, "p")
    strict(found.metadata)
    last = raw.count(b"\n") + raw.count(b"\r") + 1
    assert all(1 <= issue.line <= last and issue.path == "p" and issue.mend for issue in found.issues)


nasty_bytes = st.lists(
    st.sampled_from([*NASTY, *LINES, "\n", "\r", "# c\n", "a:", " "]).map(str.encode) | st.binary(max_size=3),
    max_size=20,
).map(b"".join)


@given(
    st.binary(max_size=60) | nasty_bytes,
    st.sampled_from([b"", b"---\n", b"\xef\xbb\xbf---\r\n"]),
    st.sampled_from([b"", b"\n---\n", b"\n---\n\n# c\n---\n# d\na: b\n---\n"]),
)
@settings(max_examples=300)
def test_any_bytes_are_read(data: bytes, head: bytes, tail: bytes) -> None:
    raw = head + data + tail
    found = parse_frontmatter(raw)
    strict(found.metadata)
    assert 0 <= found.body_start <= len(raw)


def read_with(parser: Any, text: str) -> tuple[Any, list[str]]:
    codes: list[str] = []
    block = read_block(text, lambda code, *_: codes.append(code), parser)
    return block.metadata, codes


@given(blocks)
def test_both_parsers_read_the_same_where_both_can_read(lines: list[str]) -> None:
    text = "\n".join(lines)
    fast, pure = read_with(FASTEST, text), read_with(PureParser, text)
    # They disagree about some tabs, and about how soon they see an error.
    if "yaml-syntax" not in fast[1] + pure[1]:
        assert fast == pure


@given(st.from_regex(r"[-+0-9.e_xob:]{1,12}", fullmatch=True))
def test_a_number_prints_as_it_was_typed(text: str) -> None:
    value = typed(text)
    assert str(value) == text


@given(blocks, ends, metadatas(), st.lists(st.sampled_from([*"abcefjh", "title", "tags"]), max_size=3))
def test_an_update_gives_the_old_metadata_with_the_changes(
    lines: list[str], end: str, wanted: dict[str, Any], removed: list[str]
) -> None:
    raw = end.join(["---", *lines, "---", "Body \xff\n---\n"]).encode(errors="replace")
    before = parse_frontmatter(raw)
    changes = {**wanted, **dict.fromkeys(removed)}
    try:
        after_raw = update_frontmatter(raw, changes)
    except (InvalidFrontmatterError, InvalidArgumentError):
        return
    after = parse_frontmatter(after_raw)
    expected = {key: value for key, value in {**before.metadata, **changes}.items() if value is not None}
    assert strict(after.metadata) == strict(expected)
    assert after_raw[after.body_start :] == raw[before.body_start :]


ENTRIES = [
    "a: 1",
    "b: [x, 2] # why",
    "c:\n  - q\n  - r",
    "d: |\n  text\n\n  more",
    "e: 'x'",
    "'f': {g: ~}",
    "h:",
    "i: >-\n  folded\n  text",
    "j:\n- 1\n-\n  - 2",
]
COMMENTS = ["", "# note\n", "\n", "# deep\n\n"]


@given(
    st.lists(st.tuples(st.sampled_from(ENTRIES), st.sampled_from(COMMENTS)), unique_by=lambda pair: pair[0]),
    ends,
    values,
    st.data(),
)
def test_an_update_of_a_plain_block_keeps_the_bytes_of_all_other_keys(
    entries: list[tuple[str, str]], end: str, value: Any, data: st.DataObject
) -> None:
    block = "".join(f"{entry}\n{comment}" for entry, comment in entries)
    raw = f"---\n{block}---\nBody".replace("\n", end).encode()
    names = [entry[0].strip("'") if entry[0] != "'" else "f" for entry, _ in entries]
    target = data.draw(st.sampled_from([*names, "new"]))
    result = update_frontmatter(raw, {target: data.draw(st.sampled_from([value, None]))})
    position = 0
    for name, (entry, _) in zip(names, entries, strict=True):
        if name != target:
            kept = f"{entry}\n".replace("\n", end).encode()
            position = result.index(kept, position) + len(kept)
    for comment in [comment for _, comment in entries if comment.strip()]:
        assert comment.strip().encode() in result


PLAIN_VALUES = st.sampled_from(
    [
        *("", " ", " x", " Two words", " 'one'", ' "two: #"', " 12", " 1.50", " true", " ~", " null", " 2024-01-02"),
        *(" a:b", " a: b", " x #y", " x#y", " - z", " [a]", " {a}", " é", " 'it''s'", ' "\\n"', " a  b", " x ", " |"),
        *(" &a", " *a", " !t", " ...", " <b>", " 10:30", " http://x/y", " a:", " .5", " (x)", " %x", " @x", " `x`"),
        *(" ?", " x\ty", " -5", " 0x1F", " y'z", ' y"z'),
    ]
)
PLAIN_KEYS = st.sampled_from(["a", "b", "title", "ms.date", "tags", "x:y", "null", "_k-1", "created"])
PLAIN_LINES = st.one_of(
    st.builds("{}:{}".format, PLAIN_KEYS, PLAIN_VALUES),
    st.builds("{}-{}".format, st.sampled_from(["", " ", "  "]), PLAIN_VALUES),
    st.sampled_from(["", " ", "# c", "  more", "---", "...", "? k", "<<: a"]),
)


@settings(max_examples=1500)
@given(st.lists(PLAIN_LINES, max_size=7).map("\n".join) | st.text("ab:- \n'\"#", max_size=12))
def test_what_is_read_without_a_parser_is_what_the_parser_says(text: str) -> None:
    quick = plain_block(text)
    issues: list[object] = []
    slow = read_block(text, lambda *issue: issues.append(issue))
    if quick is not None:
        assert not issues
        assert json.dumps(quick) == json.dumps(slow.metadata)


def test_most_blocks_need_no_parser() -> None:
    text = "title: 'About: pumps'\nms.date: 05/31/2018\ntags:\n- S7-1200\n- valve\nrating: 4\nempty:\nnone: null\n"
    found = plain_block(text)
    assert found == {"title": "About: pumps", "ms.date": "05/31/2018", "tags": ["S7-1200", "valve"], "rating": 4}


def test_a_key_that_is_long_is_left_to_the_parser() -> None:
    assert plain_block(f"{'k' * 128}: x") == {"k" * 128: "x"}
    assert plain_block(f"{'k' * 129}: x") is None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "k: a:",
            "k: a: b",
            "k: x #y",
            "k: a  b",
            "k: é",
            "k: [a]",
            "k: 'it''s'",
            'k: "\\n"',
            "k: x\r",
            "k:x",
            "null: x",
        ),
        *(
            "- a",
            "k: x\n- a",
            "k: 'x'\n- a",
            "k: null\n- a",
            "k:\n- ",
            "k:\n-",
            "k:\n-a",
            "k:\n- a\n - b",
            "k:\n - a\n- b",
        ),
        *("k: x\nk: y", "k:\nk: y", " ", " k: x", "# c", "k: x\n  y"),
    ],
)
def test_lines_that_may_mean_something_else_are_left_to_the_parser(text: str) -> None:
    assert plain_block(text) is None
    assert plain_block(f"y: x\n{text}\nz: x\n") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: null\nb: x", {"b": "x"}),
        ("a:\nb:   x y  ", {"b": "x y"}),
        ("a: \"\"\nb: ''\nc: ' 1 '", {"a": "", "b": "", "c": " 1 "}),
        ("a:\n  - 1\n  - null\n\n  - 'x: y'\nb: x", {"a": [1, "x: y"], "b": "x"}),
        ("a:\n- null\nb:\n  - x", {"a": [], "b": ["x"]}),
        ("tags:\n- 1\nn: 1.5\nt: true\nu: x:y#z\n", {"tags": ["1"], "n": 1.5, "t": True, "u": "x:y#z"}),
        ("\n\n", {}),
    ],
)
def test_plain_lines_are_read_without_a_parser(text: str, expected: dict[str, Any]) -> None:
    assert plain_block(text) == expected == read_block(text, lambda *_: None).metadata
