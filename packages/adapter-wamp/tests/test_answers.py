"""Answers are kept while they are true, and no more of them than there is room for."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_wamp.answers import MAX_ANSWERS, MAX_BYTES, KeptAnswers, call_key


def test_an_answer_is_kept_for_its_version_only() -> None:
    kept = KeptAnswers()
    kept.put("key", "v1", {"a": 1}, 10)
    assert kept.get("key", "v1") == {"a": 1}
    assert kept.get("key", "v2") is None
    assert kept.get("other", "v1") is None
    kept.put("key", "v2", {"a": 2}, 10)
    assert (kept.get("key", "v1"), kept.get("key", "v2")) == (None, {"a": 2})


@pytest.mark.parametrize(("key", "version"), [(None, "v1"), ("key", None)])
def test_what_cannot_be_told_apart_is_not_kept(key: Any, version: Any) -> None:
    kept = KeptAnswers()
    kept.put(key, version, {}, 1)
    assert kept.get(key, version) is None


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    kept = KeptAnswers()
    for number in range(MAX_ANSWERS):
        kept.put(str(number), 1, {"n": number}, 1)
    assert kept.get("0", 1) == {"n": 0}
    kept.put("one more", 1, {}, 1)
    assert kept.get("0", 1) == {"n": 0}
    assert kept.get("1", 1) is None


def test_the_bytes_of_all_answers_are_bounded() -> None:
    kept = KeptAnswers()
    size = MAX_BYTES // 8
    for number in range(9):
        kept.put(str(number), 1, {}, size)
    assert [kept.get(str(number), 1) is not None for number in range(9)] == [False, *[True] * 8]
    kept.put("8", 1, {}, 1)  # in place of the long one
    kept.put("0", 1, {}, size - 1)
    assert all(kept.get(str(number), 1) is not None for number in range(9))


def test_an_answer_that_takes_the_room_of_many_is_not_kept() -> None:
    kept = KeptAnswers()
    kept.put("key", 1, {}, MAX_BYTES // 8 + 1)
    assert kept.get("key", 1) is None


def test_many_threads_may_use_it() -> None:
    kept = KeptAnswers()
    wrong: list[object] = []

    def work(seed: int) -> None:
        for number in range(2_000):
            key = str((number * 7 + seed) % 700)
            kept.put(key, 1, {"key": key}, 1)
            answer = kept.get(key, 1)
            if answer not in (None, {"key": key}):
                wrong.append(answer)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


@pytest.mark.parametrize(
    "kwargs",
    [{"a": b"bytes"}, {"a": float("nan")}, {"a": {1: 1, "b": 2}}, {"a": "x" * 10_000}, {"a": object()}],
    ids=["bytes", "nan", "mixed keys", "huge", "object"],
)
def test_odd_calls_are_not_worth_keeping(kwargs: dict[str, Any]) -> None:
    assert call_key("list", (), kwargs) is None


def test_endless_arguments_are_not_worth_keeping() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert call_key("list", (endless,), {}) is None


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.floats(allow_nan=False, allow_infinity=False)
)
calls = st.tuples(
    st.sampled_from(["list", "get"]), st.tuples(scalars), st.dictionaries(st.text(max_size=3), scalars, max_size=3)
)


@given(calls, calls)
def test_different_calls_have_different_keys(first: Any, second: Any) -> None:
    same = json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert (call_key(*first) == call_key(*second)) is same


def test_the_order_in_which_arguments_are_named_does_not_matter() -> None:
    assert call_key("list", (), {"a": 1, "b": 2}) == call_key("list", (), {"b": 2, "a": 1}) is not None
