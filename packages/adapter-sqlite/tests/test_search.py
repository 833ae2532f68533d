"""Ranking: what is left unread can never be among the best."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer, Numbering
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import IngestRequest, Query
from knowledge_engine.passages import PassageTokens, parse_document, passage_terms, passage_tokens
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.ranking import bm25_term, length_norm
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings, codec, search
from knowledge_sqlite.errors import DamagedError

Open = Callable[..., SqliteKnowledgeAdapter]
TOKENS = st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=12)


def packed(numbers: list[int]) -> bytes:
    return np.array(numbers, np.uint32).tobytes()


def library(seed: int, count: int, vocabulary: int) -> dict[str, bytes]:
    """Documents of words of which few are in nearly all, as in any language; some of them alike."""
    draw = random.Random(seed)
    found: dict[str, bytes] = {}
    for number in range(count):
        sections = []
        for _ in range(draw.randint(1, 12)):
            words = [f"w{int(vocabulary * draw.random() ** 3)}" for _ in range(draw.choice((3, 12, 60)))]
            sections.append(f"## H{draw.randrange(5)} w{draw.randrange(9)}\n\n{' '.join(words)}\n")
        found[f"{draw.randrange(3)}/{number}.md"] = f"# T w{draw.randrange(4)}\n\n{''.join(sections)}".encode()
        if number % 5 == 0:
            found[f"same-{number}.md"] = b"# Same\n\nw0 w1 w2\n"
    return found


# What is kept


@given(TOKENS, TOKENS)
def test_passages_are_counted_as_the_engine_counts_them(own: list[list[int]], context: list[list[int]]) -> None:
    passages = list(zip(own, context, strict=False))
    found = codec.count_tokens(PassageTokens(packed(one), packed(other)) for one, other in passages)
    assert found.lengths.tolist() == [len(one) + len(other) for one, other in passages]
    start = 0
    for (one, other), size in zip(passages, found.sizes.tolist(), strict=True):
        held = dict(
            zip(found.ids[start : start + size].tolist(), found.counts[start : start + size].tolist(), strict=True)
        )
        start += size
        assert held == {term: 2 * (one.count(term) + other.count(term)) + (term in one) for term in {*one, *other}}


def test_more_of_a_term_than_can_be_counted_keeps_what_its_lowest_bit_says() -> None:
    passages = [PassageTokens(packed([7]), packed([7] * 40_000)), PassageTokens(b"", packed([7] * 40_000))]
    assert codec.count_tokens(passages).counts.tolist() == [0xFFFF, 0xFFFE]


def test_a_documents_terms_are_those_of_the_engine() -> None:
    raw = b"---\naliases: [S7-1200]\n---\n# Pumps\n\nThe pump runs.\n\n## Care\n\nGrease it, \xff grease it.\n"
    document, analyzer = parse_document("a.md", raw), Analyzer()
    numbering = Numbering(analyzer)
    found = codec.count_tokens(passage_tokens(document, raw, numbering.of_text, numbering.of_bytes))
    ends = np.cumsum(found.sizes).tolist()
    for bag, start, end in zip(passage_terms(document, raw, analyzer), [0, *ends], ends, strict=False):
        held = {
            numbering.terms[one]: int(count)
            for one, count in zip(found.ids[start:end], found.counts[start:end], strict=True)
        }
        assert held == {
            term: 2 * (bag.own[term] + bag.context[term]) + (term in bag.own) for term in {*bag.own, *bag.context}
        }


@settings(max_examples=300)
@given(st.integers(1, 32_000), st.integers(1, 1_000_000), st.floats(1, 5000), st.integers(1, 2000))
def test_no_posting_counts_more_than_its_level_says(tf: int, length: int, average: float, reference: int) -> None:
    length = max(length, tf)
    postings = codec.Postings(
        np.zeros(1, np.uint32), np.array([2 * tf + 1], np.uint16), np.ones(1, np.int64), np.array([length])
    )
    [level] = codec.levels(postings, reference).tolist()
    counts = float(bm25_term(float(tf), length_norm(float(length), average), 1.0))
    assert counts <= codec.most(level, average, reference) * (1 + 1e-9)


@given(st.integers(1, (1 << 32) - 1), st.integers(0, codec.LEVELS - 1))
def test_a_word_says_its_term_and_level_and_those_of_a_term_follow_each_other(number: int, level: int) -> None:
    word = codec.word(number, level)
    assert (codec.number_of(word), codec.level_of(word)) == (number, level)
    assert codec.word(number, 0) <= word <= codec.word(number, codec.LEVELS - 1)
    assert not codec.word(number, 0) <= codec.word(number - 1, level) <= codec.word(number, codec.LEVELS - 1)


def test_words_for_fts5_are_those_that_a_search_looks_for() -> None:
    passages = [PassageTokens(packed([3, 3, 9]), packed([200_000])), PassageTokens(b"", b"")]
    postings = codec.count_tokens(passages)
    levels = codec.levels(postings, 128).tolist()
    words = [codec.word(number, level) for number, level in zip(postings.ids.tolist(), levels, strict=True)]
    assert [text.split() for text in codec.words(postings, 128)] == [words, []]


# Pruning


@pytest.mark.parametrize("seed", range(3))
def test_a_ranking_is_exact_however_little_of_it_is_read(
    seed: int, open_db: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_LEAST_READ", 50)
    monkeypatch.setattr(search, "_PROBED", 4)
    documents = library(seed, 150, 200)
    adapter = open_db()
    assert not [one for one in adapter.ingest_many(requests(documents)) if one.status == "failed"]
    memory = MemoryProvider(documents)
    draw = random.Random(seed)
    for _ in range(40):
        words = " ".join(f"w{int(210 * draw.random() ** 2)}" for _ in range(draw.randint(1, 6)))
        for top_k, per_source in ((1, 1), (10, 1), (7, 3), (100, 100)):
            query = Query(query=words, top_k=top_k, per_source=per_source)
            mine, reference = adapter.query(query), memory.query(query)
            assert [(one.chunk_id, one.score) for one in mine.hits] == [
                (one.chunk_id, one.score) for one in reference.hits
            ], (words, top_k, per_source)
            assert mine.hits == reference.hits


def test_pages_follow_each_other_to_the_end(open_db: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_LEAST_READ", 50)
    documents = library(9, 120, 50)
    adapter, memory = open_db(), MemoryProvider(documents)
    list(adapter.ingest_many(requests(documents)))
    for words in ("w0 w1", "same", "w40"):
        assert paged(adapter, words) == paged(memory, words)
    assert len(paged(adapter, "w0 w1")) > 100


@pytest.mark.parametrize("many", [3, 1_000])
def test_documents_that_are_equally_good_come_by_their_ids(
    many: int, open_db: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MANY", many)
    documents = {f"{'aZ☃'[number % 3]}/{number}.md": b"# Same\n\nsame words\n" for number in range(40)}
    adapter = open_db()
    list(adapter.ingest_many(requests(documents)))
    assert [one.partition("#")[0] for one in paged(adapter, "words")] == sorted(documents)
    assert paged(adapter, "words") == paged(MemoryProvider(documents), "words")


@pytest.mark.parametrize("many", [3, 1_000])
def test_passages_of_a_document_that_is_gone_are_damage(
    many: int, open_db: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MANY", many)
    adapter = open_db()
    list(adapter.ingest_many(requests({f"{number}.md": b"same words\n" for number in range(9)})))
    with closing(sqlite3.connect(folder / "kb.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM documents WHERE id = '4.md'")  # without foreign keys, as others might
    with pytest.raises(DamagedError):
        adapter.query(Query(query="words", top_k=9))


def paged(provider: IKnowledgeProvider, words: str) -> list[str]:
    found, cursor = list[str](), None
    while True:
        page = provider.query(Query(query=words, top_k=9, cursor=cursor))
        found += [one.chunk_id for one in page.hits]
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_what_was_read_of_one_state_says_nothing_of_the_next(open_db: Open) -> None:
    adapter, other = open_db(), open_db()
    documents = library(4, 60, 80)
    list(adapter.ingest_many(requests(documents)))
    for number, (source_id, raw) in enumerate(sorted(documents.items())):
        before = adapter.query(Query(query="w0 w3")).hits
        if number % 3 == 0:
            other.delete_source(source_id)
        elif number % 3 == 1:
            other.ingest(IngestRequest(id=source_id, content=raw + b"\n\nw0 w3 w3\n"))
            documents[source_id] = raw + b"\n\nw0 w3 w3\n"
        else:
            continue
        if number % 3 == 0:
            del documents[source_id]
        after = adapter.query(Query(query="w0 w3")).hits
        assert after == other.query(Query(query="w0 w3")).hits
        if number in (0, 1, 30, 31):
            assert after == MemoryProvider(documents).query(Query(query="w0 w3")).hits
            assert after != before


def test_a_query_of_very_many_terms_is_exact(open_db: Open) -> None:
    documents = library(5, 80, 400)
    adapter = open_db()
    list(adapter.ingest_many(requests(documents)))
    words = " ".join(f"w{number}" for number in range(150))
    assert adapter.query(Query(query=words)).hits == MemoryProvider(documents).query(Query(query=words)).hits


def test_lengths_far_from_the_reference_change_nothing() -> None:
    documents = {f"{number}.md": b"w " * (20 + 7 * number) + b"valve " * (number % 9) for number in range(200)}
    adapter = SqliteKnowledgeAdapter(SqliteSettings(path=":memory:"))
    list(adapter.ingest_many(requests(documents)))
    for words in ("valve", "w", "valve w"):
        query = Query(query=words, top_k=20)
        assert adapter.query(query).hits == MemoryProvider(documents).query(query).hits
    adapter.dispose()


def requests(documents: dict[str, bytes]) -> list[IngestRequest]:
    return [IngestRequest(id=source_id, content=raw) for source_id, raw in documents.items()]
