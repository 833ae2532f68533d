"""The formula, against another's, and the order of answers."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from knowledge_engine.analysis import Analyzer
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Query
from knowledge_engine.passages import parse_document, passage_terms
from knowledge_engine.ranking import FIELD_WEIGHTS, K1, B, bm25_term, idf, length_norm, sort_key

words = st.sampled_from(["valve", "pump", "boiler", "coil", "relay", "fuse"])
texts = st.lists(words, min_size=1, max_size=8)


class Okapi(BM25Okapi):  # type: ignore[misc]
    """The other library's scores, with our weight of a term."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        self.idf = {term: idf(containing, self.corpus_size) for term, containing in nd.items()}


def scores(documents: dict[str, bytes], query: str) -> dict[str, float]:
    hits = MemoryProvider(documents).query(Query(query=query, top_k=1000)).hits
    return {hit.source_id: hit.score for hit in hits}


@given(st.lists(texts, min_size=1, max_size=8), st.lists(words, min_size=1, max_size=4))
@example([["valve"]], ["valve", "valve"])
def test_scores_are_those_of_the_formula_elsewhere(corpus: list[list[str]], query: list[str]) -> None:
    # File names are titles: one that no query holds, counted twice.
    documents = {f"x{number}.txt": " ".join(text).encode() for number, text in enumerate(corpus)}
    analyzer = Analyzer()
    bags = [analyzer.terms(" ".join(text)) + 2 * analyzer.terms(f"x{number}") for number, text in enumerate(corpus)]
    expected = Okapi(bags, k1=K1, b=B).get_scores(analyzer.query_terms(" ".join(query)))
    found = scores(documents, " ".join(query))
    for number, score in enumerate(expected):
        assert found.get(f"x{number}.txt", 0.0) == pytest.approx(score)


@given(st.dictionaries(words, st.tuples(texts, texts), min_size=1, max_size=6), st.lists(words, min_size=1))
def test_titles_and_headings_count_as_their_weights_say(
    corpus: dict[str, tuple[list[str], list[str]]], query: list[str]
) -> None:
    documents = {
        f"{name}.md": f"---\ntitle: {name}\n---\n## about {' '.join(head)}\n{' '.join(body)}\n".encode()
        for name, (head, body) in corpus.items()
    }
    analyzer = Analyzer()
    # A heading stands in its passage, and above it: it counts as text and as heading.
    bags = [
        analyzer.terms(" ".join(["about", *head, "about", *head, *body, name, name]))
        for name, (head, body) in corpus.items()
    ]
    expected = Okapi(bags, k1=K1, b=B).get_scores(analyzer.query_terms(" ".join(query)))
    found = scores(documents, " ".join(query))
    assert [found.get(path, 0.0) for path in documents] == pytest.approx(list(expected))


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_term_always_has_weight_and_the_rarer_has_more(one: int, other: int) -> None:
    total = max(one, other)
    assert idf(one, total) > 0
    assert (idf(one, total) > idf(other, total)) == (one < other)


@pytest.mark.parametrize(("containing", "total"), [(2, 1), (-1, 3), (1, 0)])
def test_a_weight_needs_counts_that_can_be(containing: int, total: int) -> None:
    with pytest.raises(ValueError, match="0 <= containing <= total"):
        idf(containing, total)


@given(st.lists(texts, min_size=1, max_size=6), words)
def test_whatever_holds_a_word_is_found(corpus: list[list[str]], word: str) -> None:
    documents = {f"x{number}.md": " ".join(text).encode() for number, text in enumerate(corpus)}
    found = scores(documents, word)
    assert set(found) == {f"x{number}.md" for number, text in enumerate(corpus) if word in text}
    assert all(score > 0 for score in found.values())


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0.1, 1e6))
def test_more_of_a_term_counts_more_and_length_counts_less(tf: int, length: int, average: float) -> None:
    norm = length_norm(length, average)
    assert 0 < bm25_term(tf, norm, 1.0) < bm25_term(tf + 1, norm, 1.0) <= K1 + 1
    assert bm25_term(tf, norm, 1.0) > bm25_term(tf, length_norm(length * 2, average), 1.0)


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 999)), min_size=1), st.floats(1, 500), st.floats(0.01, 20))
def test_arrays_give_the_bits_that_numbers_give(pairs: list[tuple[int, int]], average: float, weight: float) -> None:
    tf, length = np.array(pairs).T.astype(np.float64)
    found = bm25_term(tf, length_norm(length, average), weight)
    assert found.tolist() == [bm25_term(tf, length_norm(length, average), weight) for tf, length in pairs]


@given(st.lists(st.tuples(st.sampled_from([0.5, 1.0, 2.0]), st.text("ab水\U0001f9ea", max_size=2), st.integers(0, 3))))
def test_answers_come_by_score_then_id_then_place(found: list[tuple[float, str, int]]) -> None:
    for first, second in pairwise(sorted(found, key=lambda one: sort_key(*one))):
        assert first[0] >= second[0]
        if first[0] == second[0]:
            assert first[1:] <= second[1:]


def test_field_weights_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        FIELD_WEIGHTS["title"] = 9  # type: ignore[index]


def test_a_weighted_bag_adds_up() -> None:
    raw = b"---\ntitle: Pump\naliases: [lifter]\n---\n# Intake\n\n## Wear\nseals\n"
    (bag,) = passage_terms(parse_document("a.md", raw), raw, Analyzer("none"))
    assert bag.own == Counter(intake=1, wear=1, seals=1)
    assert bag.context == Counter(pump=2, intake=1, wear=1, lifter=1)
    assert bag.length == 8
    assert math.isclose(length_norm(8, 8.0), K1)
