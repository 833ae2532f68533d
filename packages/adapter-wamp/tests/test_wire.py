"""Values come out of every serializer as they went in."""

from __future__ import annotations

import json
from datetime import date
from enum import IntEnum
from typing import Any

import pytest
from autobahn.wamp import message
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_engine.agent_tools.plain import plain
from knowledge_engine.errors import InvalidArgumentError, ProviderError
from knowledge_wamp.wire import clean, clean_sized, json_bytes, pack, unpack
from wamp_bench.python_client import SERIALIZERS as KINDS

SERIALIZERS = tuple(kind() for kind in KINDS.values())
MARK = "\N{SYMBOL FOR NULL}"
EXACT = 2**53 - 1

text = st.one_of(st.text(), st.text(alphabet=f"\0{MARK}+-05a"), st.integers().map(lambda n: f"{MARK}{n:+d}"))
numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(10**300), max_value=10**300),
    st.sampled_from([EXACT, EXACT + 1, -EXACT, -EXACT - 1, 2**63, 2**64, -(2**64)]),
    st.floats(allow_nan=False, allow_infinity=False),
)


def trees(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4))


values = trees(st.one_of(st.none(), st.booleans(), numbers, text), text)
anything = trees(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.binary(),
        st.dates(),
        st.text(alphabet=st.characters()),
        st.text(alphabet="\ud83d\ude00\udfff\0a"),
        st.just(object()),
    ),
    st.one_of(st.text(alphabet="\ud800\0ab"), st.integers(), st.none(), st.booleans(), st.binary(), st.floats()),
)


def typed(value: Any) -> Any:
    """With the types said, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [typed(item) for item in value]
    return type(value).__name__, value


def sent(serializer: Any, value: Any) -> Any:
    """What the other side of a transport gets."""
    data, binary = serializer.serialize(message.Call(1, "a.b", kwargs={"x": value}))
    (received,) = serializer.unserialize(data, binary)
    return received.kwargs["x"]


@given(values)
@example({"\0": "\0", MARK: MARK, f"{MARK}+5": 2**64, "n": [-(2**70), f"{MARK}-1", "\0+5", "+5", "5"]})
@example({f"{MARK}+٣": "٣", "+٣": f"{MARK}+"})
def test_what_was_packed_comes_out_of_each_serializer_as_it_was(value: Any) -> None:
    for serializer in SERIALIZERS:
        assert typed(unpack(sent(serializer, pack(value)))) == typed(value)


@given(anything)
@example(["\0abc", {"\0": 1}, float("nan"), float("inf"), 2**53, -(2**53), b"\xff", "\ud800"])
def test_what_is_clean_is_the_same_in_all_serializers(value: Any) -> None:
    cleaned = clean(value)
    for serializer in SERIALIZERS:
        assert typed(sent(serializer, cleaned)) == typed(cleaned)


@given(anything)
def test_what_is_clean_is_strict_json_that_javascript_reads_exactly(value: Any) -> None:
    cleaned = clean(value)
    assert json.loads(json.dumps(cleaned, allow_nan=False)) == cleaned
    assert typed(clean(cleaned)) == typed(cleaned)
    assert all(abs(number) <= EXACT for number in _integers(cleaned))


def _integers(value: Any) -> list[int]:
    if isinstance(value, list | dict):
        return [number for item in (value.values() if isinstance(value, dict) else value) for number in _integers(item)]
    return [value] if isinstance(value, int) else []


def test_clean_keeps_what_every_transport_keeps_and_shows_the_rest() -> None:
    given = {"nul": "\0a\0", "big": 2**53, "fits": EXACT, "yes": True, "\0key": date(2024, 5, 1), "inf": float("inf")}
    assert clean(given) == {
        "nul": "\N{REPLACEMENT CHARACTER}a\0",
        "big": "9007199254740992",
        "fits": EXACT,
        "yes": True,
        "\N{REPLACEMENT CHARACTER}key": "2024-05-01",
        "inf": "inf",
    }


def test_numbers_of_hundreds_of_digits_stay_numbers() -> None:
    assert unpack(pack(10**3_000)) == 10**3_000
    assert unpack(pack(-(10**3_000))) == -(10**3_000)


def test_a_number_that_python_would_not_print_is_refused_with_a_reason() -> None:
    with pytest.raises(InvalidArgumentError, match="too many digits"):
        pack({"n": [10**5_000]})


def test_text_that_only_begins_like_a_packed_number_stays_text() -> None:
    assert unpack(MARK + "+" + "9" * 5_000) == "+" + "9" * 5_000
    assert unpack(MARK + "+") == "+"
    assert unpack(MARK + "+1x") == "+1x"


@pytest.mark.parametrize("value", [b"bytes", {"a": [b"x"]}, {1: 2}, {None: 1}, [object()], {"a": {2.5: 1}}])
def test_what_is_no_json_is_refused_without_being_shown(value: object) -> None:
    with pytest.raises(ProviderError) as caught:
        unpack(value)
    assert "sent a" in str(caught.value)


def test_tuples_are_lists() -> None:
    assert unpack((1, ("a",))) == [1, ["a"]]


def test_what_is_nested_too_deeply_is_refused_with_a_reason() -> None:
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    with pytest.raises(ProviderError, match="nested too deeply"):
        unpack(deep)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_an_answer_has_the_size_of_its_json_and_is_clean(answer: dict[str, Any]) -> None:
    cleaned, size = clean_sized(answer)
    assert typed(cleaned) == typed(clean(answer))
    assert size == len(json.dumps(cleaned, ensure_ascii=False, separators=(",", ":")).encode())


class Kind(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "answer",
    [
        {"a": float("nan")},
        {"a": "\ud800"},
        {"a": object()},
        {"a": {1: 2}, "b": b"x"},
        {"a": (1, 2**60)},
        {"k": Kind.ONE},
    ],
)
def test_an_answer_that_is_no_plain_json_is_made_so(answer: dict[str, Any]) -> None:
    cleaned, size = clean_sized(answer)
    assert json.loads(json.dumps(cleaned, allow_nan=False)) == cleaned == clean(answer)
    assert size == json_bytes(cleaned)


def test_an_endless_answer_is_cut_off() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    cleaned, size = clean_sized(endless)
    assert cleaned == plain(endless)
    assert size < 1_000


def test_a_plain_answer_is_given_back_as_it_is() -> None:
    answer = {"count": 1, "docs": [{"id": "ä"}]}
    assert clean_sized(answer)[0] is answer
