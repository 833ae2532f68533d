"""The best passages are found without looking at all of them, and they are those that looking at all gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer, QueryWord
from knowledge_engine.answers import Candidate
from knowledge_engine.passages import Passage, PassageTokens
from knowledge_engine.ranking import bm25_term, length_norm, sort_key, term_weights
from knowledge_files import pruning
from knowledge_files.building import SegmentBuilder
from knowledge_files.index import Index

WORDS = [f"w{number}" for number in range(8)]
#: Own terms and context terms of one passage.
passages = st.tuples(st.lists(st.sampled_from(WORDS), max_size=12), st.lists(st.sampled_from(WORDS), max_size=4))
documents = st.lists(passages, min_size=1, max_size=3)
corpora = st.dictionaries(st.integers(0, 60).map(lambda n: f"{n:02}.md"), documents, max_size=40)
questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5)


@contextmanager
def small() -> Iterator[None]:
    """All that is for large corpora happens in small ones."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("segments", "pruning"):
            patch.setattr(f"knowledge_files.{module}.BLOCK", 2)
        patch.setattr("knowledge_files.segments.COMMON", 4)
        patch.setattr("knowledge_files.segments._AT_ONCE", 5)
        for name, value in (("_FEW", 3), ("_PROBED_BLOCKS", 1), ("_PROBED", 2), ("_MANY", 2)):
            patch.setattr(f"knowledge_files.pruning.{name}", value)
        yield


def built(corpus: dict[str, list[tuple[list[str], list[str]]]]) -> list:
    builder = SegmentBuilder(Analyzer("none"), at_once=50)
    for source_id, held in corpus.items():
        spans = [Passage(10 * number, 10 * number + 5, ()) for number in range(len(held))]
        numbers = builder.numbering.of_text
        tokens = [PassageTokens(numbers(" ".join(own)), numbers(" ".join(context))) for own, context in held]
        builder.add(source_id, spans, tokens)
    return builder.build()


def brute(corpus: dict[str, list[tuple[list[str], list[str]]]], words: list[QueryWord]) -> list[Candidate]:
    """The formula by itself."""
    everything = [
        (source_id, number, own, [*own, *context])
        for source_id, held in corpus.items()
        for number, (own, context) in enumerate(held)
    ]
    if not everything:
        return []
    average = sum(len(bag) for *_, bag in everything) / len(everything)
    weights = term_weights(words, lambda term: sum(term in bag for *_, bag in everything), len(everything))
    found = []
    for source_id, number, own, bag in everything:
        score = 0.0
        for term, weight in weights.items():
            if term in bag:
                score += bm25_term(float(bag.count(term)), length_norm(float(len(bag)), average), weight)
        if score > 0 and (number == 0 or not weights.keys().isdisjoint(own)):
            found.append(Candidate(score, source_id, 10 * number, 10 * number + 5))
    return sorted(found, key=lambda one: sort_key(*one[:3]))


@settings(max_examples=250, deadline=None)
@given(corpora, st.data(), questions, st.integers(1, 8), st.integers(1, 3))
def test_after_any_changes_the_best_are_those_of_the_plain_formula(
    corpus: dict, data: st.DataObject, asked: list[str], wanted: int, per_source: int
) -> None:
    words = [QueryWord(word) for word in asked]
    with small():
        index, now = Index().changed((), built(corpus)), dict(corpus)
        for _ in range(data.draw(st.integers(0, 3))):
            gone = data.draw(st.sets(st.sampled_from(sorted(now)), max_size=6)) if now else set()
            new = data.draw(st.dictionaries(st.sampled_from([f"{n:02}.md" for n in range(60)]), documents, max_size=6))
            index = index.changed({*gone, *new}, built(new))
            now = {key: value for key, value in now.items() if key not in gone} | new
        found = list(index.search(words, wanted=wanted, per_source=per_source))
        assert found == brute(now, words)
        assert found == list(index.search(words))


def large() -> Index:
    """Eight thousand passages: one word in all of them, another in every other one, a third in few."""
    chance = random.Random(5)
    corpus = {
        f"{number:04}.md": [
            (
                ["w0"] * chance.randint(1, 9)
                + ["w1"] * (number % 2 * chance.randint(1, 6))
                + ["w2"] * (number % 400 == 7)
                + [f"x{number}"] * chance.randint(0, 40),
                [],
            )
        ]
        for number in range(8_000)
    }
    return Index().changed((), built(corpus))


@pytest.mark.parametrize("asked", ["w0", "w0 w1", "w2 w0", "w1 w2", "w0 w1 w2 x17"])
@pytest.mark.parametrize("changed", [False, True])
def test_of_many_passages_few_are_scored_and_the_best_are_found(
    asked: str, changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = large()
    if changed:
        index = index.changed([f"{number:04}.md" for number in range(0, 3_000, 3)], built({"a.md": [(["w0"] * 9, [])]}))
    words = [QueryWord(word) for word in asked.split()]
    scored = list[int]()
    inner = pruning.score

    def counting(part, terms, passages, average):
        scored.append(len(passages))
        return inner(part, terms, passages, average)

    monkeypatch.setattr(pruning, "score", counting)
    found = list(islice(index.search(words, wanted=11), 11))
    assert found == list(islice(index.search(words), 11))
    assert sum(scored) < 2_500


def test_those_below_the_best_follow_in_order() -> None:
    index = large()
    words = [QueryWord("w0"), QueryWord("w2")]
    assert list(islice(index.search(words, wanted=5), 600)) == list(islice(index.search(words), 600))
