"""What SQL lets through is what the engine's own reading of a filter lets through."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.filters import MAX_CONDITIONS, MAX_DEPTH, MAX_LISTED, Filter, compile_filter
from knowledge_sqlite import filtering
from knowledge_sqlite.conditions import _MAX_NESTED, condition_of
from knowledge_sqlite.filtering import Matches, listed, matching
from knowledge_sqlite.metadata_indexes import add, can_be_indexed

Documents = Mapping[str, Mapping[str, Any]]
MISSING: dict[str, Any] = {}
HIGH, LOW = chr(0xD800), chr(0xDFFF)


def table(documents: Iterable[tuple[str, Mapping[str, Any]]], keys: Iterable[str] = ()) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE documents(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, metadata TEXT) STRICT")
    connection.executemany(
        "INSERT INTO documents(id, metadata) VALUES (?, ?)",
        ((one, json.dumps(metadata, ensure_ascii=False)) for one, metadata in documents),
    )
    add(connection, keys)
    return connection


def assert_alike(filter: Mapping[str, Any] | None, documents: Documents, keys: Iterable[str] = ()) -> None:
    wanted = compile_filter(filter)
    expected = [one for one, metadata in documents.items() if wanted.matches(metadata, one)]
    for indexed in ((), keys) if keys else ((),):
        with closing(table(documents.items(), indexed)) as connection:
            ids = list(documents)
            assert [ids[n - 1] for n in matching(connection, wanted).tolist()] == expected
            assert listed(connection, wanted, None, 10**6) == (sorted(expected), len(expected))


# --- properties --------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    ["a", "b", "a.b", "a.", "source_id", "\u00e9", "\u00e9.a", "", 'q"', "b\\", "n\n", "it's", "a[0]"]
)
TEXTS = st.sampled_from(
    [
        *("", "1", "1.0", "-1", "01", "1e3", "true", "null", "[]", "[1]", '"', "x", "xy", "Xy", "'", "%", "*", "a.md"),
        *("\\", "\\n", "\n", "\0", "x\0y", "\x7f", "\u00e9", "e\u0301", "e", "xe\u0301", "n\u0303", "\\n\u0303"),
        *("\n\u0303", "K", "\u212a", "xK", "x\u212a", ";", "\u037e", "`", "\u1fef", "\U0001f600", "\u4e2d\u6587"),
        *("\ufffd", "\u0663", "2024-05-01", "2024-05", "2024-02-30", "2024-05-31", "0000-01-01", "2024-13-01"),
        "2024-05-01T01:00+02:00",
    ]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
NUMBERS = (
    st.integers(-3, 3)
    | st.integers()
    | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**22, 10**30, -(2**63), 10**14, 10**15])
    | st.sampled_from([0.5, -0.0, 1.0, 2.0, 1e22, 1e16, 0.1, 0.1 + 0.2, 1e308, 5e-324, -1.5])
    | st.floats(allow_nan=False, allow_infinity=False)
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", ""]), inner),
    max_leaves=5,
)
METADATA = st.dictionaries(KEYS | st.sampled_from(["e\u0301"]), VALUES, max_size=5)
PLAIN = st.booleans() | NUMBERS | TEXTS
CONDITIONS = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=25),
    st.builds(lambda name, value: {name: value}, st.sampled_from(["eq", "ne"]), SCALARS),
    st.builds(lambda name, value: {name: value}, st.sampled_from(["in", "nin"]), st.lists(SCALARS, max_size=4)),
    st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), NUMBERS | TEXTS, min_size=1),
    st.builds(lambda value: {"exists": value}, st.booleans()),
    st.builds(lambda value: {"prefix": value}, TEXTS),
    st.builds(lambda value: {"contains": value}, PLAIN),
)
FILTERS = st.recursive(
    st.dictionaries(KEYS, CONDITIONS, min_size=1, max_size=2),
    lambda inner: st.one_of(
        st.builds(lambda each: {"not": each}, inner),
        st.builds(
            lambda name, each: {name: each}, st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)
        ),
    ),
    max_leaves=4,
)
CORPORA = st.lists(METADATA, max_size=6).map(lambda each: {f"{'zya'[n % 3]}{n}.md": one for n, one in enumerate(each)})
INDEXED = ["a", "b", "a.b", "a.", "source_id", "\u00e9", "\u00e9.a", "", "it's", "a[0]"]


@given(FILTERS, CORPORA)
def test_sql_lets_through_what_the_filter_matches(filter: dict[str, Any], corpus: dict[str, Any]) -> None:
    assert_alike(filter, corpus, INDEXED)


@given(CONDITIONS, st.lists(VALUES, max_size=8))
def test_each_condition_is_exact_on_many_values(condition: Any, values: list[Any]) -> None:
    corpus = {str(n): {"k": value} for n, value in enumerate(values)} | {"none": MISSING}
    assert_alike({"k": condition}, corpus)
    assert_alike({"not": {"k": condition}}, corpus, ["k"])


@given(TEXTS, TEXTS, st.sampled_from(["eq", "in", "ne", "prefix", "contains", "gt", "lte"]), st.booleans())
def test_texts_are_told_apart_however_they_are_spelled(one: str, other: str, name: str, in_list: bool) -> None:
    operand = [other, "-"] if name == "in" else other
    corpus: Documents = {"a": {"k": [one, 5] if in_list else one}, "b": {"k": one + other}, "c": {"k": other + one}}
    assert_alike({"k": {name: operand}}, corpus, ["k"])


# --- the hard ones, by name --------------------------------------------------------------------------------------

STORED: list[Any] = [
    *(1, 1.0, "1", "1.0", True, "true", False, "false", 0, 0.0, -0.0, "0", None, "null", "", [], {}, [None], ["null"]),
    *(2**53, 2**53 + 1, float(2**53), 2**63, 2**63 - 1, float(2**63), 2**64, 1e22, 10**22, "1e+22", 0.1, "0.1"),
    *(
        "caf\u00e9",
        "cafe\u0301",
        "cafe",
        "CAF\u00c9",
        "K",
        "\u212a",
        "xK",
        "x\u212a",
        ["\u212a"],
        "\u00fc\u0304",
        "xu\u0308\u0304y",
        "x\u00fc\u0304y",
        ["cafe\u0301", 1],
    ),
    *(["a", "b"], ["b"], [["b"]], {"b": 1}, '["b"]', '{"b": 1}', "a\0b", "a", "a\nb", "a\\nb", 'a"b', "a'b", "a%b"),
    *("2024-05-10", "2024-05-10T00:00", "2024-05", "2024-02-30", "0000-05-10", "2024-05-31", ["2024-05-10"], 2024),
    *("10", " 10", "+10", "1e1", ".5", 9.5, [9, "11"], "9" * 700, 123456789012345, 1234567890123456, -10),
]
ASKED: list[Any] = [
    *STORED[:13],
    *(each for each in STORED if isinstance(each, str | int | float)),
    "\\",
    '"',
    "\u01d6",
    "x\u01d6y",
    "'; DROP TABLE documents; --",
    "\U0001f600",
]


@pytest.mark.parametrize("name", ["eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "prefix", "contains"])
def test_every_hard_value_is_compared_with_every_other(name: str) -> None:
    corpus = {f"{n:03}": {"k": value} for n, value in enumerate(STORED)} | {"none": MISSING}
    wanted = [
        compile_filter({"k": {name: [asked, "other"] if name.endswith("in") else asked}})
        for asked in ASKED
        if (name not in ("gt", "gte", "lt", "lte") or not (asked is None or isinstance(asked, bool)))
        and (name != "prefix" or isinstance(asked, str))
        and (name != "contains" or asked is not None)
    ]
    with closing(table(corpus.items())) as plain, closing(table(corpus.items(), ["k"])) as indexed:
        for filter in wanted:
            expected = [n for n, (one, each) in enumerate(corpus.items(), 1) if filter.matches(each, one)]
            assert matching(plain, filter).tolist() == expected, filter.canonical
            assert matching(indexed, filter).tolist() == expected, filter.canonical


@pytest.mark.parametrize(
    "key", ['"', '$."a"', "a'b", "a\\", "\n", "\ud800", "a]", "'; DROP TABLE documents; --", ".", ""]
)
def test_a_hostile_key_is_only_a_key(key: str) -> None:
    stored: Documents = {"a": {key: 1}} if key != "\ud800" else {"a": {"x": 1}}
    assert_alike({key: 1}, {**stored, "b": {"a": 1}, "c": {"a'b": {"": 1}}})
    assert_alike({key: {"exists": False}}, {**stored, "b": {"a": 1}})


@pytest.mark.parametrize("asked", [HIGH, f"a{LOW}", "\ud83d\ude00", LOW + HIGH], ids=ascii)
def test_half_characters_are_in_no_document(asked: str) -> None:
    corpus: Documents = {"a": {"k": "\U0001f600"}, "b": {"k": ["\U0001f600", "a"]}, "c": MISSING}
    for name in ("eq", "ne", "prefix", "contains", "gt"):
        assert_alike({"k": {name: asked}}, corpus, ["k"])
    assert_alike({"k": [asked, "a"]}, corpus)


def test_a_key_is_found_however_its_accents_are_written() -> None:
    corpus: Documents = {
        "a": {"gr\u00f6\u00dfe": 1},
        "b": {"gro\u0308\u00dfe": 1},
        "c": {"gr\u00f6\u00dfe": None, "gro\u0308\u00dfe": 1},
        "d": {"x": {"gro\u0308\u00dfe": 1}},
        "e": {"grosse": 1},
    }
    for key in ("gr\u00f6\u00dfe", "x.gr\u00f6\u00dfe"):
        assert_alike({key: 1}, corpus, [key])
        assert_alike({key: {"exists": False}}, corpus, [key])


def test_the_id_is_found_under_its_name_unless_the_document_has_a_key_of_that_name() -> None:
    corpus: Documents = {"a.md": {}, "\u00e9.md": {"source_id": None}, "b.md": {"source_id": "a.md"}, "c'\\.md": {}}
    for asked in ("a.md", "e\u0301.md", "b.md", "c'\\.md"):
        assert_alike({"source_id": asked}, corpus, ["source_id"])
    assert_alike({"source_id": {"prefix": "c'"}}, corpus)
    assert_alike({"source_id": {"contains": "\\"}}, corpus)


# --- size --------------------------------------------------------------------------------------------------------

NUMBERED: Documents = {f"{n:04}": {"a": n, "b": [str(n), "x"], "c": {"d": f"v{n}"}} for n in range(60)}


def nested(levels: int, inner: dict[str, Any]) -> dict[str, Any]:
    for level in range(levels):
        inner = {"not": inner} if level % 2 else {"or": [inner, {"a": level}]}
    return inner


@pytest.mark.parametrize(
    "filter",
    [
        {"a": list(range(5, MAX_LISTED))},
        {"b": {"in": [f"{n}" for n in range(7, MAX_LISTED)]}},
        {"c.d": {"nin": [f"v{n}" for n in range(7, MAX_LISTED)]}},
        {"or": [{"c.d": f"v{n}"} for n in range(0, 2 * MAX_CONDITIONS, 2)]},
        {"and": [{"a": {"ne": n}} for n in range(0, 2 * MAX_CONDITIONS, 2)]},
        {"or": [{"a": {"gte": f"{n}", "lt": n + 1}} for n in range(0, MAX_CONDITIONS, 2)]},
        {"or": [{"\u00e9.x.y": {"prefix": f"{n}"}, "b": {"contains": f"{n}"}} for n in range(MAX_CONDITIONS // 2)]},
        *(nested(levels, {"a": {"gt": 10}, "c.d": {"prefix": "v1"}}) for levels in range(1, MAX_DEPTH)),
    ],
    ids=str,
)
def test_no_filter_is_too_large_for_sqlite(filter: dict[str, Any]) -> None:
    assert_alike(filter, NUMBERED, ["a", "c.d"])


def test_the_widest_and_deepest_condition_that_is_written_out_is_taken() -> None:
    def wide(levels: int) -> dict[str, Any]:
        each: list[Any] = [{"a": {"gte": n + levels}} for n in range(33)]
        return {"or" if levels % 2 else "and": [*each, wide(levels - 1)]} if levels else {"c.d": {"contains": "v1"}}

    filter = wide(_MAX_NESTED - 1)
    assert "knowledge_document" not in condition_of(compile_filter(filter)).sql
    assert_alike(filter, NUMBERED)


def test_very_many_short_conditions_are_written_out_and_long_ones_are_not() -> None:
    short: dict[str, Any] = {"or": [{f"k{n}": {"exists": True}} for n in range(MAX_CONDITIONS - 1)] + [{"a": 7}]}
    assert "knowledge_document" not in condition_of(compile_filter(short)).sql
    assert_alike(short, NUMBERED)
    long: dict[str, Any] = {"or": [{f"k{n}.x.y": {"contains": f"{n}"}} for n in range(MAX_CONDITIONS)]}
    assert len(condition_of(compile_filter(long)).sql) < 1_000


def test_what_is_asked_for_stands_only_in_the_parameters() -> None:
    marker = "zq'zq"
    filters: list[dict[str, Any]] = [{marker: {name: marker}} for name in ("eq", "ne", "gt", "prefix", "contains")]
    filters += [{marker: [marker]}, {f"{marker}.a": {"exists": True}}, {"and": filters[:]}]
    for filter in filters:
        assert "zq" not in condition_of(compile_filter(filter)).sql


# --- what is remembered -----------------------------------------------------------------------------------------


def test_a_filter_is_asked_once_of_one_state() -> None:
    even, odd = compile_filter({"even": True}), compile_filter({"even": False})
    with closing(table((str(n), {"even": n % 2 == 0}) for n in range(4))) as connection:
        asked: list[str] = []
        matches = Matches()
        connection.set_trace_callback(lambda sql: asked.append(sql) if "SELECT n " in sql else None)
        for _ in range(3):
            assert matches.of(connection, even, "one").tolist() == [1, 3]
            assert matches.of(connection, odd, "one").tolist() == [2, 4]
        assert len(asked) == 2
        connection.execute("DELETE FROM documents WHERE n = 1")
        assert matches.of(connection, even, "one").tolist() == [1, 3]
        assert matches.of(connection, even, "two").tolist() == [3]
        assert matches.of(connection, odd, "two").tolist() == [2, 4]
        assert matches.of(connection, even, "one").tolist() == [3]
        assert len(asked) == 5


@pytest.mark.parametrize(("numbers", "filters"), [(3, 64), (10**6, 2)])
def test_what_is_remembered_is_bounded(numbers: int, filters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "_MAX_NUMBERS", numbers)
    monkeypatch.setattr(filtering, "_MAX_FILTERS", filters)
    with closing(table((str(n), {"n": n}) for n in range(2))) as connection:
        matches = Matches()
        for bound in range(9):
            assert len(matches.of(connection, compile_filter({"n": {"lt": 2 + bound}}), "one")) == 2
            _, known = matches._known
            assert len(known) <= 2


# --- pages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filter", [None, {"a": {"gte": 10}}, {"a": 7}, {"a": "none"}])
def test_pages_follow_each_other_to_the_end(filter: dict[str, Any] | None) -> None:
    wanted = compile_filter(filter)
    expected = [one for one, each in NUMBERED.items() if wanted.matches(each, one)]
    with closing(table(reversed(list(NUMBERED.items())))) as connection:
        for size in (1, 7, 100):
            assert list(walk(connection, wanted, size, len(expected))) == expected


def walk(connection: sqlite3.Connection, wanted: Filter, size: int, total: int) -> Iterator[str]:
    after = None
    while True:
        page = listed(connection, wanted, after, size)
        assert page.total == total
        assert len(page.ids) <= size
        if not page.ids:
            return
        yield from page.ids
        after = page.ids[-1]


@pytest.mark.parametrize("after", ["", "b", "\0", HIGH, LOW, "\uffff", "\U0010ffff", "b\0"], ids=ascii)
@pytest.mark.parametrize("filter", [None, {"k": 1}])
def test_a_page_begins_behind_any_text(after: str, filter: dict[str, Any] | None) -> None:
    ids = ["a", "b", "b\x01", "\ud7ff", "\ue000", "\U0001f600"]
    with closing(table((one, {"k": 1}) for one in ids)) as connection:
        expected = [one for one in ids if one > after]
        assert listed(connection, compile_filter(filter), after, 9) == (expected, len(ids))


# --- indexes in use ----------------------------------------------------------------------------------------------


def plan(connection: sqlite3.Connection, filter: dict[str, Any], keys: Iterable[str]) -> str:
    condition = condition_of(compile_filter(filter), list(keys))
    connection.create_function("knowledge_value", 2, lambda *_: False)
    rows = connection.execute(
        f"EXPLAIN QUERY PLAN SELECT n FROM documents WHERE {condition.sql}", condition.parameters
    ).fetchall()
    return "\n".join(row[3] for row in rows)


@pytest.mark.parametrize(
    "filter",
    [
        {"kind": "device"},
        {"kind": 5},
        {"kind": True},
        {"kind": ["device", "guide", 5]},
        {"kind": [f"{n}" for n in range(500)]},
        {"kind": "M\u00fcller"},
        {"kind": "K"},
        {"kind": "device", "other": {"gt": 5}},
        {"owner.name": "Ann"},
        {"gro\u0308\u00dfe": "5"},
        {"it's": "x"},
        {"source_id": "a.md"},
    ],
)
def test_the_planner_uses_the_index_of_a_named_key(filter: dict[str, Any]) -> None:
    keys = ["kind", "owner.name", "gr\u00f6\u00dfe", "it's", "source_id"]
    assert all(map(can_be_indexed, keys))
    with closing(table([("a", {"kind": "x"})], keys)) as connection:
        assert "USING INDEX metadata_" in plan(connection, filter, keys).replace("COVERING ", "")
        assert "SCAN documents" not in plan(connection, filter, keys)
        assert "SCAN documents" in plan(connection, filter, []).replace("SCAN TABLE", "SCAN")
