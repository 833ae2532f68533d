from __future__ import annotations

import contextlib
import json
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.errors import InvalidFilterError
from knowledge_engine.filters import (
    MAX_CHARS,
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_LISTED,
    compile_filter,
    merge_filters,
    metadata_keys,
    parse_where,
)

DEVICE: dict[str, Any] = {
    "kind": "device",
    "year": 2021,
    "price": 12.5,
    "ready": True,
    "tags": ["modbus", "plc", 7],
    "updated": "2024-05-10",
    "owner": {"name": "Ann", "address": {"city": "Graz"}},
    "nothing": None,
    "empty": [],
}


def matches(filter: Mapping[str, Any] | None, metadata: Mapping[str, Any] = DEVICE, source_id: str = "") -> bool:
    return compile_filter(filter).matches(metadata, source_id)


# --- what each operator means ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (None, True),
        ({}, True),
        ({"kind": "device"}, True),
        ({"kind": "Device"}, False),
        ({"kind": {"ne": "device"}}, False),
        ({"kind": {"ne": "guide"}}, True),
        ({"kind": ["guide", "device"]}, True),
        ({"kind": {"in": []}}, False),
        ({"kind": {"nin": []}}, True),
        ({"kind": {"nin": ["guide"]}}, True),
        ({"kind": {"nin": ("guide", "device")}}, False),
        ({"tags": "plc"}, True),
        ({"tags": {"ne": "plc"}}, False),
        ({"tags": {"ne": "opc"}}, True),
        ({"tags": {"in": ["opc", "7"]}}, True),
        ({"tags": {"gt": 6}}, True),
        ({"tags": {"gt": 7}}, False),
        ({"tags": {"prefix": "mod"}}, True),
        ({"tags": {"contains": "mod"}}, False),
        ({"tags": {"contains": "modbus"}}, True),
        ({"tags": {"contains": "7"}}, True),
        ({"kind": {"contains": "evi"}}, True),
        ({"kind": {"prefix": "evi"}}, False),
        ({"year": {"contains": 2}}, False),
        ({"year": {"prefix": "20"}}, False),
        ({"owner": "Ann"}, False),
        ({"empty": {"exists": True}}, True),
        ({"empty": "x"}, False),
        ({"nothing": {"exists": False}}, True),
        ({"nothing": None}, True),
        ({"absent": None}, True),
        ({"absent": {"ne": None}}, False),
        ({"kind": None}, False),
        ({"kind": {"ne": None}}, True),
        ({"absent": [None, "x"]}, True),
        ({"absent": {"nin": [None]}}, False),
        ({"absent": {"ne": "x"}}, True),
        ({"absent": {"nin": ["x"]}}, True),
        ({"absent": {"contains": "x"}}, False),
        ({"absent": {"lt": 1}}, False),
        ({"year": {"gte": 2021, "lt": 2022}}, True),
        ({"year": {"gte": 2021, "lt": 2021}}, False),
        ({"year": 2021, "kind": "guide"}, False),
        ({"or": [{"kind": "guide"}, {"year": 2021}]}, True),
        ({"and": [{"kind": "device"}, {"year": 1}]}, False),
        ({"not": {"kind": "guide", "year": 2021}}, True),
        ({"year": {"not": {"gt": 2000}}}, False),
        ({"year": {"or": [{"lt": 2000}, 2021]}}, True),
        ({"year": {"and": [{"gt": 2000}, [2020]]}}, False),
        ({"kind": {"and": [{"prefix": "d"}, {"not": "guide"}]}}, True),
    ],
)
def test_a_filter_lets_through_what_it_says(filter: dict[str, Any] | None, expected: bool) -> None:
    assert matches(filter) is expected


@pytest.mark.parametrize(
    ("stored", "wanted", "equal"),
    [
        (5, "5", True),
        ("5", 5, True),
        (5, "5.0", False),
        ("5.0", 5, False),
        (5, 5.0, True),
        (12.5, "12.5", True),
        (1e22, "1e+22", True),
        (True, "true", True),
        ("false", False, True),
        (True, "True", False),
        (True, 1, False),
        (1, True, False),
        (0, False, False),
        (1.0, True, False),
        (True, True, True),
        ("", "", True),
        ([None], None, False),
        ([["x"]], "x", False),
        ([True], 1, False),
        ("caf\u00e9", "cafe\u0301", True),
        ("cafe\u0301", "caf\u00e9", True),
        ("\u212a", "K", True),
    ],
)
def test_scalars_are_equal_by_value_or_by_text(stored: Any, wanted: Any, equal: bool) -> None:
    assert matches({"x": wanted}, {"x": stored}) is equal
    assert matches({"x": {"in": ["other", wanted]}}, {"x": stored}) is equal
    assert matches({"x": {"ne": wanted}}, {"x": stored}) is not equal


def test_a_number_too_long_to_print_is_still_a_number() -> None:
    for wanted, expected in (({"gt": 1.5}, True), ({"lt": "1"}, False), ("", False), (1, False), ({"ne": "1"}, True)):
        assert matches({"x": wanted}, {"x": 10**5_000}) is expected


@pytest.mark.parametrize(
    ("stored", "operator", "bound", "expected"),
    [
        ("10", "gt", "9", True),
        (10, "gt", "9.5", True),
        ("1e3", "gte", 1000, True),
        (".5", "lt", 1, True),
        ("-3", "lte", -3, True),
        (2**53 + 1, "gt", str(2**53), True),
        ("9" * 700, "gt", 1, False),
        ("1_000", "gt", 1, False),
        ("\u0661", "gt", 0, False),
        ("1e999", "gt", 0, False),
        (float("inf"), "gt", 0, False),
        (float("nan"), "lte", 0, False),
        (True, "gte", 0, False),
        ("abc", "gt", "abb", False),
        ([1, 9], "gt", 5, True),
        ("2024-05-10", "gt", "2024-05-09", True),
        ("2024-05-10", "gte", "2024-05-10T00:00:00Z", True),
        ("2024-05-10 12:00", "gt", "2024-05-10T11:59:59", True),
        ("2024-05-10T00:30:00+02:00", "lt", "2024-05-10", True),
        ("2024-05-10T00:30:00-0200", "gt", "2024-05-10T02:29Z", True),
        ("2024-05-10T00:30:00+02", "lte", "2024-05-09t22:30z", True),
        ("2024-05-10T00:00:00.5", "gt", "2024-05-10T00:00:00,45", True),
        ("2024-05-10T00:00:00.50", "lte", "2024-05-10T00:00:00.5", True),
        ("2024-05", "gte", "2024-05-01", True),
        ("2024-05", "lt", "2024-05-02", True),
        ("2024", "lt", "2024-05-01", False),
        (2024, "lt", "2024-05-01", False),
        ("2023-12-31", "lt", 2024, False),
        ("2024-02-30", "gt", "2024-01-01", False),
        ("2024-13", "gt", "2024-01-01", False),
        ("2024-05-10T24:00", "gt", "2024-01-01", False),
        ("2024-05-10T10:60", "gt", "2024-01-01", False),
        ("2024-05-10T10:00:60", "gt", "2024-01-01", False),
        ("2024-05-10T10:00+24:00", "gt", "2024-01-01", False),
        ("2024-05-10T10:00+02:60", "gt", "2024-01-01", False),
        ("0001-01-01T00:00+23:59", "lt", "0001-01-01", True),
        ("9999-12-31T23:59-23:59", "gt", "9999-12-31T23:59", True),
        ("2024-05-10" + " " * 600, "gt", "2024-01-01", False),
    ],
)
def test_order_is_of_numbers_or_of_instants(stored: Any, operator: str, bound: Any, expected: bool) -> None:
    assert matches({"x": {operator: bound}}, {"x": stored}) is expected


@given(
    st.datetimes(timezones=st.timezones() | st.just(UTC)),
    st.datetimes(timezones=st.timezones() | st.just(UTC)),
)
def test_instants_are_ordered_as_the_standard_library_orders_them(one: datetime, other: datetime) -> None:
    a, b = one.replace(tzinfo=None, fold=0), other.replace(tzinfo=None, fold=0)
    assert matches({"x": {"gt": b.isoformat()}}, {"x": a.isoformat(" ")}) is (a > b)
    assert matches({"x": {"lte": b.isoformat() + "Z"}}, {"x": a.isoformat()}) is (a <= b)


# --- where a key is looked up ------------------------------------------------------------------------------------


def test_a_dotted_key_reaches_into_mappings() -> None:
    assert matches({"owner.address.city": "Graz"})
    assert not matches({"owner.address.city.street": {"exists": True}})
    assert not matches({"kind.name": {"exists": True}})


def test_a_key_with_a_dot_comes_before_the_path() -> None:
    assert matches({"a.b": 1}, {"a.b": 1, "a": {"b": 2}})
    assert matches({"a.b": 2}, {"a.b": None, "a": {"b": 2}})


def test_keys_are_the_same_however_their_accents_are_written() -> None:
    for written in ("gr\u00f6\u00dfe", "gro\u0308\u00dfe"):
        for stored in ("gr\u00f6\u00dfe", "gro\u0308\u00dfe"):
            assert matches({written: 1}, {stored: 1})
            assert matches({f"x.{written}": 1}, {"x": {stored: 1}})
            assert compile_filter({written: 1}).warnings([stored]) == ()
            assert compile_filter({written: 1}) == compile_filter({stored: 1})


def test_source_id_is_the_documents_id_unless_it_has_a_key_of_that_name() -> None:
    assert matches({"source_id": {"prefix": "plc/"}}, {}, "plc/a.md")
    assert matches({"source_id": "own"}, {"source_id": "own"}, "a.md")
    assert not matches({"source_id": "a.md"}, {"source_id": "own"}, "a.md")
    assert matches({"source_id": "a.md"}, {"source_id": None}, "a.md")
    assert not matches({"source_id": {"exists": True}}, {})


# --- strictness --------------------------------------------------------------------------------------------------


def nested(levels: int) -> dict[str, Any]:
    filter: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        filter = {"not": filter}
    return filter


@pytest.mark.parametrize(
    ("filter", "said"),
    [
        ({"year": {"gtee": 1}}, "Did you mean 'gte'"),
        ({"year": {"$GTE": 1}}, "Did you mean 'gte'"),
        ({"year": {">=": 1}}, "Did you mean 'gte'"),
        (
            {"year": {"qqqqqqqq": 1}},
            "Known are eq, ne, in, nin, gt, gte, lt, lte, exists, prefix, contains, and, or, not",
        ),
        ({"kind": {"in": "device"}}, "`in` on 'kind' got a string. It takes a list"),
        ({"kind": {"nin": 3}}, "a number. It takes a list"),
        ({"kind": {"eq": ["device"]}}, "`eq` on 'kind' got a list"),
        ({"kind": {"eq": {"in": 1}}}, "got an object"),
        ({"kind": [["a"]]}, "`in` on 'kind' got a list"),
        ({"kind": [[]]}, "got an empty list"),
        ({"kind": {"exists": "true"}}, "true or false"),
        ({"kind": {"exists": 1}}, "true or false"),
        ({"kind": {}}, "The condition on 'kind' is empty"),
        ({"kind": {1: 2}}, "has a number as a key"),
        ({1: 2}, "Keys must be strings"),
        ({None: 2}, "has null as a key"),
        ({"year": float("nan")}, "finite"),
        ({"year": {"gt": float("inf")}}, "finite"),
        ({"year": 10**400}, "finite"),
        ({"year": datetime(2024, 1, 1)}, "not JSON"),
        ({"year": {"gt": True}}, "number or date"),
        ({"year": {"gt": None}}, "got null"),
        ({"year": {"gt": [1]}}, "got a list"),
        ({"year": {"prefix": 20}}, "It takes a string"),
        ({"year": {"contains": None}}, "got null"),
        ({"and": []}, "`and` got an empty list"),
        ({"or": {"a": 1}}, "`or` got an object"),
        ({"or": [{}]}, "A filter is empty"),
        ({"or": ["a"]}, "A filter is a string"),
        ({"not": {}}, "A filter is empty"),
        ({"not": [{"a": 1}]}, "A filter is a list"),
        ({"year": {"not": {}}}, "is empty"),
        ([{"a": 1}], "A filter is a list"),
        ("a=1", "A filter is a string"),
        ({".".join("a" * 17): 1}, "too many parts"),
        (nested(MAX_DEPTH + 1), "nested too deep"),
        ({"a": {"not": nested(MAX_DEPTH + 1)["not"]}}, "nested too deep"),
        ({"or": [{"a": n} for n in range(MAX_CONDITIONS + 1)]}, "too many conditions"),
        ({"a": list(range(MAX_LISTED + 1))}, "too many listed values"),
        ({"a": "x" * MAX_CHARS}, "too many characters"),
    ],
)
def test_a_malformed_filter_is_refused_with_the_mend(filter: Any, said: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        compile_filter(filter)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_filters_up_to_the_limits_are_taken() -> None:
    assert matches(nested(MAX_DEPTH), {"a": 2})
    assert matches({"or": [{"a": n} for n in range(MAX_CONDITIONS)]}, {"a": MAX_CONDITIONS - 1})
    assert matches({"a": list(range(MAX_LISTED))}, {"a": MAX_LISTED - 1})
    assert matches({"a": "x" * (MAX_CHARS - 1)}, {"a": "x" * (MAX_CHARS - 1)})
    assert not matches({"a": {"contains": "x" * 70_000}}, {"a": "y"})
    assert not matches({".".join("a" * 16): 1}, {"a": 1})


def test_what_is_endless_ends() -> None:
    loop: dict[str, Any] = {}
    loop["not"] = loop
    with pytest.raises(InvalidFilterError, match="deep"):
        compile_filter(loop)


# --- keys and warnings -------------------------------------------------------------------------------------------


def test_each_key_that_no_document_has_is_warned_of_with_the_nearest() -> None:
    filter = compile_filter(
        {"knid": "device", "not": {"Yaer": 2021}, "kind": "x", "source_id": "a", "zzz": {"exists": False}}
    )
    assert filter.keys == {"knid", "Yaer", "kind", "source_id", "zzz"}
    assert filter.warnings(["kind", "year"]) == (
        "No document has the metadata key 'Yaer'; the nearest is 'year'.",
        "No document has the metadata key 'knid'; the nearest is 'kind'.",
        "No document has the metadata key 'zzz'.",
    )


def test_the_nearest_of_very_many_keys_is_found() -> None:
    (warning,) = compile_filter({"zebro": 1}).warnings([*(f"aaaaaaaa{n}" for n in range(2_000)), "zebra"])
    assert "'zebra'" in warning


def test_source_id_is_suggested_too() -> None:
    (warning,) = compile_filter({"source_ids": "a"}).warnings([])
    assert "the nearest is 'source_id'" in warning


def test_a_bound_that_nothing_can_be_compared_with_is_warned_of_once() -> None:
    filter = compile_filter({"or": [{"year": {"gt": "soon"}}, {"year": {"gt": "soon"}}]})
    assert filter.warnings(["year"]) == ("'soon' is neither number nor date: `gt` on 'year' matches nothing.",)


def test_many_long_unknown_keys_are_warned_of_in_bounded_text() -> None:
    filter = compile_filter({f"{n}{'k' * 900}": 1 for n in range(900)})
    warnings = filter.warnings([f"{'k' * 35}{n}" for n in range(5_000)] + ["q" * 100_000])
    assert len(warnings) == 900
    assert all(len(warning) < 500 for warning in warnings)


def test_no_lone_surrogate_leaves_in_words() -> None:
    filter = compile_filter({"\ud800": {"gt": "\udcff"}})
    for text in (filter.canonical, *filter.warnings(["\ud801"])):
        text.encode()
    with pytest.raises(InvalidFilterError) as caught:
        compile_filter({"\ud800": {"\ud800": 1}})
    str(caught.value).encode()


def test_two_halves_of_a_character_are_the_character_as_in_json() -> None:
    halves = compile_filter({"\ud83d\ude00": "\ud83d\ude00", "x": {"ne": "\ude00\ud83d"}})
    assert halves == compile_filter({"\U0001f600": "\U0001f600", "x": {"ne": "\ude00\ud83d"}})
    assert halves.matches({"\U0001f600": "\U0001f600"})


def test_metadata_keys_are_the_names_that_filters_find() -> None:
    metadata: dict[str, Any] = {"a": {"b": {"c": 1, "d": None}, "x.y": 2}, "e": None, "f.g": {"h": 1}, "i": []}
    assert sorted(metadata_keys(metadata)) == ["a", "a.b", "a.b.c", "f.g", "i"]


def test_metadata_without_end_has_keys_that_end() -> None:
    deep: dict[str, Any] = {}
    deep["a"] = deep
    assert max(metadata_keys(deep), key=len) == ".".join("a" * 16)


# --- one text for one filter -------------------------------------------------------------------------------------


def test_equal_filters_are_equal_whatever_their_order() -> None:
    one = compile_filter({"a": 1, "or": [{"b": [2, "x", 2]}, {"c": {"lt": 5, "gt": 1}}]})
    other = compile_filter({"or": [{"c": {"gt": 1, "lt": 5}}, {"b": {"in": ["x", 2]}}], "and": [{"a": {"eq": 1}}]})
    assert one == other
    assert hash(one) == hash(other)
    assert one.canonical == other.canonical
    assert compile_filter({}).canonical == compile_filter(None).canonical == "{}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": None}, {"a": {"exists": True}}),
        ({"a": [1, 2]}, {"a": {"nin": [1, 2]}}),
        ({"not": {"a": 1}}, {"a": 1}),
        ({"or": [{"a": 1}, {"b": 1}]}, {"and": [{"a": 1}, {"b": 1}]}),
    ],
)
def test_different_filters_are_different(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert compile_filter(one) != compile_filter(other)


def test_merged_filters_all_hold() -> None:
    assert merge_filters() is None
    assert merge_filters(None, {}) is None
    assert merge_filters(None, {"a": 1}) == {"a": 1}
    merged = merge_filters({"a": 1}, None, {"a": [1, 2]}, {"b": 3})
    assert matches(merged, {"a": 1, "b": 3})
    assert not matches(merged, {"a": 2, "b": 3})


# --- as typed on a command line ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "filter"),
    [
        ("kind=device", {"kind": {"eq": "device"}}),
        ("kind==device", {"kind": {"eq": "device"}}),
        ("kind!=device", {"kind": {"ne": "device"}}),
        ("year>=2020", {"year": {"gte": "2020"}}),
        ("year>2020", {"year": {"gt": "2020"}}),
        (" year <= 2020 ", {"year": {"lte": "2020"}}),
        ("year<2020", {"year": {"lt": "2020"}}),
        ("title^=Modbus TCP", {"title": {"prefix": "Modbus TCP"}}),
        ("title~=bus", {"title": {"contains": "bus"}}),
        ("title=a,b = c!", {"title": {"eq": "a,b = c!"}}),
        ("title=two\nlines", {"title": {"eq": "two\nlines"}}),
        ("title=", {"title": {"eq": ""}}),
        ("title!=", {"title": {"ne": ""}}),
        ("owner.name", {"owner.name": {"exists": True}}),
        ("! owner", {"owner": {"exists": False}}),
        ('{"year": {"gte": 2020}}', {"year": {"gte": 2020}}),
        ('{"a=b": null}', {"a=b": None}),
    ],
)
def test_a_typed_condition_is_a_filter(text: str, filter: dict[str, Any]) -> None:
    assert parse_where(text) == filter


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a condition"),
        ("!", "not a condition"),
        ("=x", "not a condition"),
        (" =x", "not a condition"),
        ("\u00a0 =x", "not a condition"),
        ("!a=b", "not a condition"),
        ("year>", "lacks a value"),
        ("year~= ", "lacks a value"),
        ("a^b", "not a condition"),
        ("and=1", "`and` got an object"),
        ("{", "not JSON at character 2"),
        ('{"a": 1} x', "not JSON at character 10"),
        ('{"a": NaN}', "finite"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": {"like": 2}}', "Unknown operator"),
        ('{"a":' * 100_000, "not JSON"),
        ('{"a": ' + "9" * 5_000 + "}", "not JSON"),
    ],
)
def test_a_typing_error_is_explained(text: str, said: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        parse_where(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.text(max_size=40))
def test_any_typed_text_is_a_filter_or_an_error(text: str) -> None:
    with contextlib.suppress(InvalidFilterError):
        compile_filter(parse_where(text)).matches(DEVICE, "a.md")


# --- laws, and an oracle that is slow and simple -----------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "a.b", "source_id"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2.0, 1e22])
    | st.sampled_from(
        ["", "1", "1.0", "true", "x", "xy", "\u00e9", "e\u0301", "2024-05-01", "2024-05", "2024-05-01T01:00+02:00"]
    )
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner), max_leaves=5
)
METADATA = st.dictionaries(KEYS, VALUES, max_size=4)
PLAIN = SCALARS.filter(lambda value: value is not None)
BOUNDS = PLAIN.filter(lambda value: not isinstance(value, bool))
CONDITIONS = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.builds(lambda name, value: {name: value}, st.sampled_from(["eq", "ne"]), SCALARS),
    st.builds(lambda name, value: {name: value}, st.sampled_from(["in", "nin"]), st.lists(SCALARS, max_size=3)),
    st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), BOUNDS, min_size=1),
    st.builds(lambda value: {"exists": value}, st.booleans()),
    st.builds(lambda value: {"prefix": value}, PLAIN.filter(lambda value: isinstance(value, str))),
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


def slow_value(metadata: Any, key: str, source_id: str) -> Any:
    value = metadata.get(key)
    if value is None and key == "a.b":
        inner = metadata.get("a")
        value = inner.get("b") if isinstance(inner, dict) else None
    return source_id if value is None and key == "source_id" else value


def slow_text(value: Any) -> str:
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else json.dumps(value)


def slow_equal(stored: Any, wanted: Any) -> bool:
    if wanted is None or isinstance(stored, list):
        return (
            stored is None
            if wanted is None
            else any(each is not None and slow_element(each, wanted) for each in stored)
        )
    return stored is not None and slow_element(stored, wanted)


def slow_element(stored: Any, wanted: Any) -> bool:
    if stored is None or isinstance(stored, list | dict):
        return False
    if isinstance(stored, str) or isinstance(wanted, str):
        return slow_text(stored) == slow_text(wanted)
    return bool(isinstance(stored, bool) == isinstance(wanted, bool) and stored == wanted)


def slow_point(value: Any) -> tuple[str, Any] | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return "number", Fraction(value)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(f"{value}-01" if str(value).count("-") == 1 else str(value))
    except ValueError:
        return None
    return "instant", moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def slow_order(name: str, stored: Any, bound: Any) -> bool:
    one, other = slow_point(stored), slow_point(bound)
    if one is None or other is None or one[0] != other[0]:
        return False
    return bool({"gt": one > other, "gte": one >= other, "lt": one < other, "lte": one <= other}[name])


def slow_condition(stored: Any, name: str, operand: Any) -> bool:
    if name in ("ne", "nin"):
        return not slow_condition(stored, {"ne": "eq", "nin": "in"}[name], operand)
    if name in ("eq", "in"):
        return any(slow_equal(stored, each) for each in (operand if name == "in" else [operand]))
    if name == "exists":
        return bool((stored is not None) == operand)
    if name == "contains":
        return (
            slow_equal(stored, operand)
            if isinstance(stored, list)
            else isinstance(stored, str) and slow_text(operand) in slow_text(stored)
        )
    elements = stored if isinstance(stored, list) else [stored]
    if name == "prefix":
        return any(isinstance(each, str) and slow_text(each).startswith(slow_text(operand)) for each in elements)
    return any(slow_order(name, each, operand) for each in elements)


def slow_matches(filter: dict[str, Any], metadata: dict[str, Any], source_id: str) -> bool:
    found = []
    for key, condition in filter.items():
        if key == "not":
            found.append(not slow_matches(condition, metadata, source_id))
        elif key in ("and", "or"):
            inner = [slow_matches(each, metadata, source_id) for each in condition]
            found.append(all(inner) if key == "and" else any(inner))
        else:
            if not isinstance(condition, dict):
                condition = {"in" if isinstance(condition, list) else "eq": condition}
            stored = slow_value(metadata, key, source_id)
            found += [slow_condition(stored, name, operand) for name, operand in condition.items()]
    return all(found)


@given(FILTERS, METADATA)
def test_a_filter_decides_as_a_plain_reading_of_the_rules(filter: dict[str, Any], metadata: dict[str, Any]) -> None:
    assert matches(filter, metadata, "x") is slow_matches(filter, metadata, "x")


@given(FILTERS, FILTERS, METADATA)
def test_negation_follows_de_morgan(one: dict[str, Any], other: dict[str, Any], metadata: dict[str, Any]) -> None:
    assert matches({"not": {"and": [one, other]}}, metadata) is matches(
        {"or": [{"not": one}, {"not": other}]}, metadata
    )
    assert matches({"not": {"or": [one, other]}}, metadata) is matches(
        {"and": [{"not": one}, {"not": other}]}, metadata
    )
    assert matches({"not": {"not": one}}, metadata) is matches(one, metadata)
    assert matches({"not": one}, metadata) is not matches(one, metadata)


@given(KEYS, st.lists(SCALARS, min_size=1, max_size=4), METADATA)
def test_the_negative_operators_negate_and_in_is_any_eq(key: str, values: list[Any], metadata: dict[str, Any]) -> None:
    assert matches({key: {"ne": values[0]}}, metadata) is not matches({key: {"eq": values[0]}}, metadata)
    assert matches({key: {"nin": values}}, metadata) is not matches({key: {"in": values}}, metadata)
    assert matches({key: {"in": values}}, metadata) is matches({"or": [{key: value} for value in values]}, metadata)
    assert matches({key: None}, metadata) is matches({key: {"exists": False}}, metadata)


@given(FILTERS, METADATA, st.randoms())
def test_the_canonical_text_ignores_order_and_is_the_same_filter(
    filter: Any, metadata: dict[str, Any], random: Any
) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            items = [(key, shuffled(each)) for key, each in value.items()]
            random.shuffle(items)
            return dict(items)
        if isinstance(value, list):
            return random.sample([shuffled(each) for each in value], len(value))
        return value

    compiled = compile_filter(filter)
    assert compile_filter(shuffled(filter)).canonical == compiled.canonical
    again = compile_filter(json.loads(compiled.canonical))
    assert again == compiled
    assert again.keys == compiled.keys
    assert again.matches(metadata, "x") is compiled.matches(metadata, "x")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(FILTERS, st.dictionaries(KEYS | st.text(max_size=3), ANYTHING, max_size=4))
def test_no_metadata_makes_a_filter_raise(filter: dict[str, Any], metadata: dict[str, Any]) -> None:
    assert matches(filter, metadata) in (True, False)
    compile_filter(filter).warnings(set(metadata_keys(metadata)))


@given(ANYTHING)
def test_any_json_is_a_filter_or_an_invalid_one(filter: Any) -> None:
    with contextlib.suppress(InvalidFilterError):
        compile_filter(filter).matches({}, "x")
