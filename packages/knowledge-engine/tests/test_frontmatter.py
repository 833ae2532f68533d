from __future__ import annotations

import builtins
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from knowledge_engine.errors import InvalidArgumentError, InvalidFrontmatterError
from knowledge_engine.frontmatter import (
    MAX_BLOCK_BYTES,
    Frontmatter,
    compose_document,
    is_text_field,
    parse_frontmatter,
    update_frontmatter,
)
from knowledge_engine.frontmatter import _yaml as yaml_module


def parse(block: str) -> Frontmatter:
    return parse_frontmatter(f"---\n{block}\n---\nBody.\n".encode(), "doc.md")


def codes(found: Frontmatter) -> list[tuple[str, int]]:
    return [(issue.code, issue.line) for issue in found.issues]


@pytest.fixture(params=[yaml_module.FASTEST, yaml_module.PureParser], ids=["fastest", "pure"])
def both_parsers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_module.read_block, "__defaults__", (request.param,))


# Fences


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("blanks", [b"", b" ", b"\t \t"])
def test_a_block_is_read_whatever_bom_blanks_and_line_ends(bom: bytes, end: bytes, blanks: bytes) -> None:
    raw = bom + end.join([b"---" + blanks, b"title: Kettle", b"---" + blanks, b"# Use", b""])
    found = parse_frontmatter(raw)
    assert found.metadata == {"title": "Kettle"}
    assert raw[found.body_start :] == b"# Use" + end
    assert found.issues == ()


def test_only_a_bare_fence_in_the_first_column_closes() -> None:
    raw = b"---\nsummary: |\n  up\n  ---\n  down\nmore: ---x\n----: y\n--- \ntail\n---\n"
    found = parse_frontmatter(raw)
    assert found.metadata == {"summary": "up\n---\ndown\n", "more": "---x", "----": "y"}
    assert raw[found.body_start :] == b"tail\n---\n"


@pytest.mark.parametrize(
    "raw", [b"", b"\n", b" \n\t\n", b"# A\n\n---\n\na: b\n\n---\n", b" ---\na: b\n---\n", b"\n---\na: 1\n---\n"]
)
def test_without_a_fence_in_the_first_line_all_is_body_and_only_noted(raw: bytes) -> None:
    found = parse_frontmatter(raw, "x.md")
    assert (found.metadata, found.body_start, codes(found)) == ({}, 0, [("frontmatter-missing", 1)])
    assert found.issues[0].severity == "info"


def test_a_lone_bom_is_not_part_of_the_body() -> None:
    assert parse_frontmatter(b"\xef\xbb\xbf").body_start == 3
    assert parse_frontmatter(b"\xef\xbb\xbf# A").body_start == 3
    assert codes(parse_frontmatter(b"\xef\xbb\xbf")) == [("frontmatter-missing", 1)]


@pytest.mark.parametrize(
    "raw", [b"---", b"---\n", b"---\n\nThis page opens with a rule.\n", b"---\na: b\n --- \n", b"---\na\n---x\n"]
)
def test_a_block_that_never_closes_is_body_and_an_error(raw: bytes) -> None:
    found = parse_frontmatter(raw)
    assert (found.metadata, found.body_start, codes(found)) == ({}, 0, [("frontmatter-unclosed", 1)])
    assert found.issues[0].severity == "error"


def test_a_fence_may_be_the_last_line_without_an_end() -> None:
    for end in (b"---", b"--- \t", b"---\r"):
        found = parse_frontmatter(b"---\na: b\n" + end)
        assert (found.metadata, found.issues) == ({"a": "b"}, ())


@pytest.mark.parametrize(
    "block",
    ["---\n---\nx", "---\n\n---\nx", "---\n# only a comment\n\n---\nx", "---\n~\n---\nx", "---\nnull # x\n---\nx"],
)
def test_an_empty_block_is_an_empty_mapping_without_issues(block: str) -> None:
    found = parse_frontmatter(block.encode())
    assert (found.metadata, found.issues, block[found.body_start :]) == ({}, (), "x")


def test_a_second_block_is_text_and_its_first_line_is_named() -> None:
    raw = b"---\nid: stub\n---\n\n--- \n# c\nid: a\ntitle: Real\n---\n# Use\n"
    found = parse_frontmatter(raw)
    assert found.metadata == {"id": "stub"}
    assert codes(found) == [("frontmatter-second-block", 5)]
    assert found.issues[0].severity == "warning"
    assert raw[found.body_start :].startswith(b"\n--- \n# c\nid: a")


@pytest.mark.parametrize(
    "body", ["---\n\nProse: and more.\n\n---\n", "---\nid: a\n", "***\nid: a\n---\n", "text\n---\nid: a\n---\n"]
)
def test_a_rule_at_the_top_of_the_body_is_no_second_block(body: str) -> None:
    assert parse_frontmatter(f"---\nid: a\n---\n{body}".encode()).issues == ()


def test_a_utf16_file_is_named_as_such() -> None:
    found = parse_frontmatter("\ufeff---\nid: u\n---\n".encode("utf-16-le"), "wide.md")
    assert codes(found) == [("encoding-invalid", 1)]
    assert "UTF-16" in found.issues[0].message


# Values


@pytest.mark.usefixtures("both_parsers")
def test_words_that_yaml_1_1_retypes_stay_words() -> None:
    found = parse(
        "title: Off\nlang: no\ntags: [on, NO, y, Yes, off, nb]\nx: [yes, Null, NULL, True, FALSE, =, .inf, .nan]"
    )
    assert found.metadata == {
        "title": "Off",
        "lang": "no",
        "tags": ["on", "NO", "y", "Yes", "off", "nb"],
        "x": ["yes", "Null", "NULL", "True", "FALSE", "=", ".inf", ".nan"],
    }


@pytest.mark.usefixtures("both_parsers")
@pytest.mark.parametrize(
    "text",
    [
        *["012", "0x1F", "0b11", "0o7", "1_000", "12:30:45", "1e3", "1E3", "1.50", "+1", "-0", "1.", ".5", "00"],
        *["9007199254740992", "-9007199254740992", "1" * 400, "1e400", "2024-05-01", "2024-05-01T09:30:00+02:00", "٣"],
    ],
)
def test_a_number_that_would_print_otherwise_stays_text(text: str) -> None:
    assert parse(f"x: {text}\ny: [{text}]").metadata == {"x": text, "y": [text]}


@pytest.mark.usefixtures("both_parsers")
@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-7", -7), ("9007199254740991", 2**53 - 1), ("2.5", 2.5), ("-0.5", -0.5), ("1e+22", 1e22)],
)
def test_a_number_that_prints_the_same_is_a_number(text: str, value: float) -> None:
    found = parse(f"x: {text}\ny: {{z: {text}}}").metadata
    assert found == {"x": value, "y": {"z": value}}
    assert type(found["x"]) is type(value)


def test_only_lower_case_true_and_false_are_booleans() -> None:
    assert parse("a: true\nb: false\nc: 'true'\nd: \"false\"").metadata == {
        "a": True,
        "b": False,
        "c": "true",
        "d": "false",
    }


@pytest.mark.parametrize(
    "key", ["id", "title", "summary", "kind", "version", "lang", "Title", "created_at", "lastUpdated", "date"]
)
def test_text_fields_keep_what_was_typed(key: str) -> None:
    assert parse(f"{key}: 12").metadata == {key: "12"}
    assert parse(f"{key}: true").metadata == {key: "true"}
    assert parse(f"{key}: [1, [2.5], {{n: false}}]").metadata == {key: ["1", ["2.5"], {"n": "false"}]}


@pytest.mark.parametrize("key", ["rating", "candidate", "update_count", "at", "dated", "identity", ""])
def test_other_fields_are_typed(key: str) -> None:
    assert not is_text_field(key)
    assert parse(f"'{key}': 12").metadata == {key: 12}


def test_text_fields_count_only_at_the_top() -> None:
    assert parse("maker: {id: 12, version: 3}").metadata == {"maker": {"id": 12, "version": 3}}


def test_quoted_scalars_are_text() -> None:
    assert parse("a: '12'\nb: \"~\"\nc: ''\nd: |\n  12\ne: 'null'").metadata == {
        "a": "12",
        "b": "~",
        "c": "",
        "d": "12\n",
        "e": "null",
    }


def test_null_is_missing_everywhere() -> None:
    assert parse("title: ~\nsummary:\ntags: null\nx: {a: null, b: [1, ~, ]}\nid: a").metadata == {
        "x": {"b": [1]},
        "id": "a",
    }


@pytest.mark.usefixtures("both_parsers")
def test_unusual_line_separators_are_ordinary_characters() -> None:
    for char in "\x85\u2028\u2029\ufeff\ue000":
        found = parse(f"a: x{char}y\nk{char}: '{char}'\nl: [\"{char}\\u2028\"]\nnext: !t z")
        assert found.metadata == {"a": f"x{char}y", f"k{char}": char, "l": [f"{char}\u2028"]}
        assert codes(found) == [("yaml-tag", 5)]


def test_stand_ins_for_unusual_characters_never_show() -> None:
    written = "".join(chr(code) for code in range(0xE000, 0xE010))
    found = parse(f'a: "\u2028\\ue010\\uE011{written}"')
    assert found.metadata == {"a": f"\u2028\ue010\ue011{written}"}


def test_block_scalars_of_windows_files_have_plain_line_ends() -> None:
    assert parse_frontmatter(b"---\r\na: |\r\n  x\r\n  y\r\n---\r\n").metadata == {"a": "x\ny\n"}


# Issues


@pytest.mark.usefixtures("both_parsers")
def test_keys_are_always_text() -> None:
    found = parse("1: one\non: two\ntrue: three\n2.50: four\n~: five\n? [x, y]\n: six\n? {a: b}\n: seven\nz: 1")
    assert found.metadata == {"1": "one", "on": "two", "true": "three", "2.50": "four", "~": "five", "z": 1}
    assert codes(found) == [("yaml-key", 7), ("yaml-key", 9)]


@pytest.mark.usefixtures("both_parsers")
def test_the_first_of_two_equal_keys_counts() -> None:
    found = parse("a: 1\nb: {c: 1, c: 2}\na: 2\n'1': x\n1: y\nn:\nn: 1")
    assert found.metadata == {"a": 1, "b": {"c": 1}, "1": "x"}
    assert codes(found) == [
        ("yaml-duplicate-key", 3),
        ("yaml-duplicate-key", 4),
        ("yaml-duplicate-key", 6),
        ("yaml-duplicate-key", 8),
    ]
    assert {issue.severity for issue in found.issues} == {"error"}
    assert found.issues[0].path == "doc.md"


@pytest.mark.usefixtures("both_parsers")
def test_tags_are_reported_line_by_line_and_construct_nothing() -> None:
    found = parse(
        'title: T\nx: !!python/object/apply:os.mkdir ["/nowhere"]\ny: !secret abc\n'
        "z: ! 1\n!k w: 1\nv: [!a 1, 2]\nu: !m {a: !n b}"
    )
    assert found.metadata == {"title": "T", "v": [2]}
    assert codes(found) == [("yaml-tag", line) for line in range(3, 9)]


def test_a_tagged_block_is_empty() -> None:
    found = parse("!x\na: 1")
    assert (found.metadata, codes(found)) == ({}, [("yaml-tag", 2)])


@pytest.mark.usefixtures("both_parsers")
def test_aliases_and_merge_keys_are_reported_and_left_out() -> None:
    found = parse("a: &a [1]\nb: *a\nc: [*a, 2]\n<<: *a\n*a : 3\nd: {<<: {e: 1}, f: 2}\n'<<': g\nh: *nobody")
    assert found.metadata == {"a": [1], "c": [2], "d": {"f": 2}, "<<": "g"}
    assert codes(found) == [("yaml-alias", line) for line in (3, 4, 5, 6, 7, 9)]


def test_an_anchor_without_an_alias_is_harmless() -> None:
    found = parse("a: &x 1\nb: &y {c: &z d}")
    assert (found.metadata, found.issues) == ({"a": 1, "b": {"c": "d"}}, ())


def test_nested_aliases_cost_neither_time_nor_memory() -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]
    tracemalloc.start()
    began = time.process_time()
    found = parse("id: a\n" + "\n".join(lines))
    took = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (took < 1, peak < 5_000_000) == (True, True)
    assert len(json.dumps(found.metadata)) < 1000
    assert {issue.code for issue in found.issues} == {"yaml-alias"}


@pytest.mark.usefixtures("both_parsers")
@pytest.mark.parametrize(
    "deep", ["[" * 3000, "[" * 3000 + "]" * 3000, "{a: " * 3000, "[" * 65_000, "- " * 3000, "? " * 500, "[? " * 999]
)
def test_depth_without_end_is_reported(deep: str) -> None:
    found = parse(f"title: T\nd:\n  {deep}")
    assert found.metadata == {}
    assert {code for code, _ in codes(found)} <= {"yaml-too-deep", "yaml-syntax", "yaml-key"}
    assert found.issues


@pytest.mark.usefixtures("both_parsers")
def test_32_levels_are_read_and_33_are_not() -> None:
    assert parse("d: " + "[" * 31 + "]" * 31).issues == ()
    assert codes(parse("d: " + "[" * 32 + "]" * 32)) == [("yaml-too-deep", 2)]


@pytest.mark.usefixtures("both_parsers")
@pytest.mark.parametrize(
    ("block", "line"),
    [
        ("id: a\ntitle: Step 1: open", 3),
        ("id: a\ntitle: *bold*", 3),
        ('id: a\ntitle: "run "slow" mode"', 3),
        ("a: 1\n\tb: 2", 3),
        ("a: 1\nb: x\x00y", 3),
        ("a: |\r\n  1\r\n  \x7f", 4),
        ("a: 1\n... \nb: 2", 4),
        ("a: 1\n--- b", 3),
        ('a: "\\U00110000"', 2),
        ("%YAML 1." + "9" * 5000 + "\n--- # x\na: 1", 2),
    ],
)
def test_text_that_is_not_yaml_gives_the_line_and_no_metadata(block: str, line: int) -> None:
    found = parse(block)
    assert found.metadata == {}
    assert [code for code, _ in codes(found)] == ["yaml-syntax"]
    assert abs(found.issues[0].line - line) <= 1
    assert found.issues[0].mend


def test_the_line_of_a_syntax_error_is_the_files() -> None:
    assert codes(parse("id: a\ntitle: Step 1: open")) == [("yaml-syntax", 3)]
    assert codes(parse("id: a\n\n\nx: \x01")) == [("yaml-syntax", 5)]


@pytest.mark.parametrize("block", ["just words", "- a\n- b", "'quoted'", "12", "[a, b]"])
def test_a_block_that_is_no_mapping_is_an_error(block: str) -> None:
    found = parse(block)
    assert (found.metadata, codes(found)) == ({}, [("frontmatter-not-mapping", 2)])


def test_a_huge_block_is_not_parsed_but_its_body_is_found() -> None:
    raw = b"---\na: " + b"x" * MAX_BLOCK_BYTES + b"\n---\nBody."
    found = parse_frontmatter(raw)
    assert (found.metadata, codes(found), raw[found.body_start :]) == ({}, [("frontmatter-too-large", 1)], b"Body.")


@pytest.mark.usefixtures("both_parsers")
def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    found = parse('a: "\\ud83d\\ude00"\nb: "x \\ud800 y \ufffd"\n"\\udfff": "\\udc00\\ud800"\nc: [\ufffd]')
    assert found.metadata == {"a": "\U0001f600", "b": "x \ufffd y \ufffd", "\ufffd": "\ufffd\ufffd", "c": ["\ufffd"]}
    assert codes(found) == [("text-surrogate", 3), ("text-surrogate", 4)]
    assert found.issues[0].severity == "warning"


def test_wrong_bytes_are_shown_and_the_rest_is_read() -> None:
    found = parse_frontmatter(b"---\na: 1\nb: caf\xe9\n---\nBody")
    assert found.metadata == {"a": 1, "b": "caf\ufffd"}
    assert codes(found) == [("encoding-invalid", 3)]
    assert found.issues[0].severity == "warning"


def test_a_thousand_mistakes_are_not_a_thousand_issues() -> None:
    found = parse("\n".join(f"k{n}: !t v" for n in range(1000)))
    assert len(found.issues) == 101
    assert found.issues[-1].code == "too-many-issues"


def test_without_libyaml_the_pure_parser_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import: Callable[..., Any] = builtins.__import__

    def no_libyaml(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "yaml._yaml":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_libyaml)
    assert yaml_module._fastest() is yaml_module.PureParser


# Writing


def test_composed_text_is_quoted_where_yaml_would_retype_it() -> None:
    raw = compose_document(
        {"title": "no", "a": "yes", "b": "012", "c": "2024-05-01", "d": "plain words", "e": "x: y"}, "Body"
    )
    assert raw == b'---\ntitle: "no"\na: "yes"\nb: "012"\nc: "2024-05-01"\nd: plain words\ne: "x: y"\n---\nBody'


def test_collections_are_written_one_value_a_line() -> None:
    value = {"a": [1, {"b": True, "c": []}, ["d", {}]], "n": None, "e": {"f": {"g": [None, 2.5]}}}
    assert compose_document(value, "").decode() == (
        "---\na:\n  - 1\n  - b: true\n    c: []\n  - - d\n    - {}\ne:\n  f:\n    g:\n      - 2.5\n---\n"
    )


def test_without_metadata_there_is_no_block() -> None:
    assert compose_document({}, "# A\n") == b"# A\n"
    assert compose_document({"a": None}, "# A\n") == b"# A\n"


@pytest.mark.parametrize("text", ["---\nid: a\n---\nx", "---", "\ufeffx", "--- \r\n"])
def test_text_that_looks_like_a_block_gets_an_empty_one_before_it(text: str) -> None:
    raw = compose_document({}, text)
    found = parse_frontmatter(raw)
    assert (found.metadata, raw[found.body_start :].decode()) == ({}, text)


def deep_list(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "metadata",
    [
        {"version": 2},
        {"tags": ["a", 1]},
        {"title": True},
        {"created_at": 1.5},
        {"x": 2**53},
        {"x": -(10**5000)},
        {"id": 10**5000},
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": "\ud800"},
        {"\udfff": "x"},
        {"x": {1: "y"}},
        {1: "y"},
        {"x": ("tuple",)},
        {"x": b"bytes"},
        {"k" * 1001: "x"},
        {"x": deep_list(32)},
        {"x": deep_list(100_000)},
        {"x": "y" * MAX_BLOCK_BYTES},
    ],
    # The values themselves are too long, or not even text.
    ids=lambda _: "value",
)
def test_what_reading_could_not_give_back_is_refused(metadata: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        compose_document(metadata, "")
    for raw in (b"Body", b"---\na: b\n---\nBody"):
        with pytest.raises(InvalidArgumentError):
            update_frontmatter(raw, metadata)


def test_a_body_with_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="surrogate"):
        compose_document({}, "x\udc00")


def test_an_update_touches_only_the_lines_of_its_keys() -> None:
    raw = (
        b"--- \n# head\ntitle:   Old  # keep me\n'quoted' : \"1\"\n\ntags:\n  - a\n  # inside\n  - b\n# between\n"
        b"text: |+\n  x\n\nlast: [1,\n  2] # end\n# tail\n---\nBody \xff\r\n"
    )
    changes = {"title": "New: one", "quoted": 2, "tags": ["q", "r"], "last": {"a": 1}, "new": "x"}
    assert update_frontmatter(raw, changes) == (
        b"--- \n# head\ntitle: \"New: one\"  # keep me\n'quoted': 2\n\ntags:\n  - q\n  - r\n# between\n"
        b"text: |+\n  x\n\nlast:\n  a: 1 # end\n# tail\nnew: x\n---\nBody \xff\r\n"
    )


def test_an_update_removes_whole_entries() -> None:
    raw = b"---\na: 1 # one\nb: |\n  x\n\n  y\n\nc: # see\n- 1\n- 2\nd:\ne: 5\n---\n"
    assert update_frontmatter(raw, {"a": None, "b": None, "c": None, "d": None, "gone": None}) == b"---\n\ne: 5\n---\n"
    assert update_frontmatter(b"---\na: 1\n---\nB", {"a": None}) == b"---\n---\nB"


def test_an_update_keeps_indentation_line_ends_and_bom() -> None:
    raw = b"\xef\xbb\xbf---\r\n  a: 1\r\n  b: x\r\n---\r\nBody\r\n"
    assert update_frontmatter(raw, {"a": [True], "c": {"d": "e"}}) == (
        b"\xef\xbb\xbf---\r\n  a:\r\n    - true\r\n  b: x\r\n  c:\r\n    d: e\r\n---\r\nBody\r\n"
    )


def test_an_update_that_changes_nothing_changes_no_byte() -> None:
    raw = b"---\na:   'x'\nb: {c: [1 , 2]}\nd: ~\n---\nBody"
    assert update_frontmatter(raw, {}) == raw
    assert update_frontmatter(raw, {"a": "x", "b": {"c": [1, None, 2], "n": None}, "z": None}) == raw


def test_an_update_tells_one_from_true_and_from_a_fraction() -> None:
    assert update_frontmatter(b"---\na: 1\n---\n", {"a": True}) == b"---\na: true\n---\n"
    assert update_frontmatter(b"---\na: 1\n---\n", {"a": 1.0}) == b"---\na: 1.0\n---\n"


def test_an_update_fills_empty_values() -> None:
    assert update_frontmatter(b"---\na:  # todo\nb:\n---\n", {"a": "x", "b": []}) == b"---\na: x  # todo\nb: []\n---\n"
    assert update_frontmatter(b"---\n# c\n---\n", {"a": "x"}) == b"---\n# c\na: x\n---\n"


def test_an_update_makes_a_block_where_there_is_none() -> None:
    assert update_frontmatter(b"# A\n", {"t": "x"}) == b"---\nt: x\n---\n# A\n"
    assert (
        update_frontmatter(b"\xef\xbb\xbf# A\r\n\xff", {"t": "x"}) == b"\xef\xbb\xbf---\r\nt: x\r\n---\r\n# A\r\n\xff"
    )
    assert update_frontmatter(b"", {"t": "x"}) == b"---\nt: x\n---\n"
    assert update_frontmatter(b"# A\n", {"t": None}) == b"# A\n"


@pytest.mark.parametrize(
    "raw",
    [
        b'---\nid: a\ntitle: "run "slow" mode"\n---\nx',
        b"---\na: 1\na: 2\n---\nx",
        b"---\na: &x 1\nb: *x\n---\nx",
        b"---\nnever closed\n",
        b"---\njust words\n---\nx",
        b"---\na: caf\xe9\n---\nx",
        b"\xff\xfe-\x00-\x00",
        b"---\n{a: 1, b: 2}\n---\nx",
        b"---\n? a\n: 1\n---\nx",
        b"---\n%YAML 1.1\n--- # x\na: 1\n...\n---\nx",
        b"---\n~\n---\nx",
    ],
)
def test_a_block_that_cannot_be_changed_safely_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidFrontmatterError):
        update_frontmatter(raw, {"a": "changed", "new": "y"})


def test_an_unusual_character_does_not_shift_an_update() -> None:
    raw = "---\nü\u2028: \U0001f600\u0085x\nb: é # ü\nc: \ufeff\n---\n".encode()
    assert update_frontmatter(raw, {"b": "z"}).decode() == "---\nü\u2028: \U0001f600\u0085x\nb: z # ü\nc: \ufeff\n---\n"
