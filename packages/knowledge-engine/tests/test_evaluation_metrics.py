from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.evaluation import METRICS, ndcg, recall, reciprocal_rank

NAMES = [f"d{number}" for number in range(8)]
rankings = st.lists(st.sampled_from(NAMES), unique=True, max_size=8)
grades = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3), max_size=6)
depths = st.integers(1, 10)


@pytest.mark.parametrize(
    ("ranked", "expected", "depth", "value"),
    [
        (["a", "b", "c"], {"a": 1, "c": 1}, 3, 1.0),
        (["a", "b", "c"], {"a": 1, "c": 1}, 2, 0.5),
        (["x", "y"], {"a": 1, "b": 1, "c": 1}, 5, 0.0),
        (["a", "x"], {"a": 1, "b": 3, "c": 2, "x": 0}, 5, 1 / 3),
        ([], {"a": 1}, 10, 0.0),
        (["a"], {}, 10, 0.0),
    ],
)
def test_recall_is_the_share_of_relevant_documents_found(
    ranked: list[str], expected: dict[str, float], depth: int, value: float
) -> None:
    assert recall(ranked, expected, depth) == pytest.approx(value)


@pytest.mark.parametrize(
    ("ranked", "expected", "depth", "value"),
    [
        (["a", "b"], {"a": 1}, 10, 1.0),
        (["x", "y", "a", "b"], {"a": 1, "b": 3}, 10, 1 / 3),
        (["x", "y", "a"], {"a": 1}, 2, 0.0),
        (["x", "a"], {"x": 0, "a": 1}, 10, 0.5),
        ([], {"a": 1}, 10, 0.0),
    ],
)
def test_the_reciprocal_rank_is_that_of_the_first_relevant_document(
    ranked: list[str], expected: dict[str, float], depth: int, value: float
) -> None:
    assert reciprocal_rank(ranked, expected, depth) == pytest.approx(value)


# By hand: gains 2^g - 1 are 7, 3, 0, 1 over log2 2, 3, 4, 5, against the best order 7, 3, 1, 0.
GRADED = (7 + 3 / math.log2(3) + 1 / math.log2(5)) / (7 + 3 / math.log2(3) + 1 / 2)


@pytest.mark.parametrize(
    ("ranked", "expected", "depth", "value"),
    [
        (["a", "b", "x", "c"], {"a": 3, "b": 2, "c": 1}, 10, GRADED),
        (["x", "a"], {"a": 1}, 10, 0.6309297535714575),
        (["x", "a"], {"a": 1}, 1, 0.0),
        (["c", "b", "a"], {"a": 3, "b": 2, "c": 1}, 3, 0.6806060567602009),
        (["a"], {"a": 1, "b": 1}, 1, 1.0),
        (["a"], {"a": 0}, 10, 0.0),
    ],
)
def test_ndcg_is_the_discounted_gain_against_the_best_order(
    ranked: list[str], expected: dict[str, float], depth: int, value: float
) -> None:
    assert ndcg(ranked, expected, depth) == pytest.approx(value, abs=1e-12)


@given(rankings, grades, depths)
def test_every_figure_lies_between_0_and_1(ranked: list[str], expected: dict[str, float], depth: int) -> None:
    for metric in METRICS.values():
        assert 0 <= metric(ranked, expected, depth) <= 1 + 1e-12


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3), min_size=1, max_size=5))
def test_only_the_best_order_has_an_ndcg_of_1(expected: dict[str, float]) -> None:
    for order in itertools.permutations(expected):
        values = [expected[name] for name in order]
        assert (ndcg(order, expected, 10) > 1 - 1e-9) == (values == sorted(values, reverse=True))


@given(rankings, grades, depths)
def test_looking_deeper_never_finds_less(ranked: list[str], expected: dict[str, float], depth: int) -> None:
    for metric in (recall, reciprocal_rank):
        assert metric(ranked, expected, depth) <= metric(ranked, expected, depth + 1)


@given(rankings, grades, depths)
def test_a_document_given_twice_counts_where_it_stands_first(
    ranked: list[str], expected: dict[str, float], depth: int
) -> None:
    for metric in METRICS.values():
        assert metric([*ranked, *ranked], expected, depth) == metric(ranked, expected, depth)
        assert metric([one for one in ranked for _ in range(2)], expected, depth) == metric(ranked, expected, depth)
