"""The index gives what the plain formula gives, bit for bit, however it came to be."""

from __future__ import annotations

import math
from functools import partial
from itertools import islice

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from knowledge_engine.analysis import Analyzer, QueryWord
from knowledge_engine.fs import MemoryFs
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Query, QueryResult
from knowledge_engine.passages import Passage, PassageTokens, parse_document
from knowledge_engine.ranking import idf
from knowledge_files import FilesKnowledgeAdapter, build_index, score, tokenize
from knowledge_files.building import SegmentBuilder, merge
from knowledge_files.index import Index
from knowledge_files.scoring import Part

WORDS = [
    *("valve", "valves", "pump", "pumps", "S7-1200", "modbus_tcp", "readCoilStatus", "C++", ".NET", "38.101"),
    *("Größe", "straße", "насос", "水泵压力", "ポンプ", "펌프압력", "مضخة", "ปั๊มน้ำ", "don't", "the", "of", "???", ""),
]
PATHS = ["a.md", "A.md", "b.md", "d/a.md", "d/b.markdown", "d/e/c.txt", "z.yaml", "z.json", "水.md", "é.md", "é.md"]

sentences = st.lists(st.sampled_from(WORDS), max_size=10).map(" ".join)
headings = st.tuples(st.sampled_from(["# ", "## ", "### "]), sentences).map("".join)
bodies = st.lists(st.one_of(sentences, headings), max_size=6).map("\n\n".join)
long_bodies = st.tuples(bodies, st.integers(300, 900), st.sampled_from(WORDS)).map(lambda t: t[0] + f" {t[2]}" * t[1])


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    lines = [f"{key}: '{draw(sentences).replace(chr(39), '')}'" for key in draw(st.sets(st.sampled_from(FIELDS)))]
    front = "---\n" + "\n".join(lines) + "\n---\n" if lines else ""
    return (front + draw(st.one_of(bodies, bodies, long_bodies))).encode()


FIELDS = ("title", "summary", "keywords", "aliases", "kind", "owner")
corpora = st.dictionaries(st.sampled_from(PATHS), documents(), max_size=8)
filters = st.sampled_from(
    [None, {"kind": {"exists": True}}, {"kind": {"ne": "valve"}}, {"nokey": "x"}, {"not": {"title": {"contains": "p"}}}]
)
queries = st.builds(
    Query,
    query=st.one_of(sentences, st.text(max_size=30)),
    top_k=st.integers(1, 6),
    per_source=st.integers(1, 3),
    min_score=st.sampled_from([None, None, 0.5]),
    max_chars=st.sampled_from([None, None, 40]),
    filter=filters,
)


def plain(result: QueryResult) -> QueryResult:
    """Without what two backends may differ in: time, and a word on empty folders."""
    warnings = tuple(one for one in result.warnings if not one.startswith("No documents"))
    return result.model_copy(update={"took_ms": 0.0, "warnings": warnings})


def assert_same_pages(one: FilesKnowledgeAdapter, other: MemoryProvider, query: Query) -> None:
    for _ in range(12):
        mine, theirs = one.query(query), other.query(query)
        assert plain(mine) == plain(theirs)
        if mine.next_cursor is None:
            return
        query = query.model_copy(update={"cursor": mine.next_cursor})


@settings(max_examples=120, deadline=None)
@given(corpora, st.lists(queries, min_size=1, max_size=3), st.sampled_from([1, 7, 10**6]), st.sampled_from([2, 256]))
def test_every_page_is_that_of_the_reference(
    corpus: dict[str, bytes], asked: list[Query], postings: int, batch: int
) -> None:
    reference, adapter = MemoryProvider(corpus), FilesKnowledgeAdapter(MemoryFs(corpus), ".")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knowledge_files.corpus.SegmentBuilder", partial(SegmentBuilder, max_postings=postings))
        patch.setattr("knowledge_files.index._FIRST_CANDIDATES", batch)
        for query in asked:
            assert_same_pages(adapter, reference, query)
    mine, theirs = adapter.list_sources(), reference.list_sources()
    assert [(one.id, one.title, one.metadata, one.bytes, one.content_hash) for one in mine.sources] == [
        (one.id, one.title, one.metadata, one.bytes, one.content_hash) for one in theirs.sources
    ]


def _built(texts: dict[str, bytes], max_postings: int) -> SegmentBuilder:
    builder = SegmentBuilder(Analyzer(), max_postings=max_postings, at_once=7)
    for path, raw in texts.items():
        builder.take(parse_document(path, raw), raw)
    return builder


@settings(max_examples=60, deadline=None)
@given(corpora, st.integers(1, 30), st.sets(st.sampled_from(PATHS), max_size=5), sentences)
def test_merging_gives_what_building_anew_would(
    corpus: dict[str, bytes], postings: int, removed: set[str], query: str
) -> None:
    words = Analyzer().query_words(query)
    index = Index().changed((), _built(corpus, postings).build()).changed(removed, ())
    anew = Index().changed((), _built({k: v for k, v in corpus.items() if k not in removed}, 10**6).build())
    assert (index.passages, index.length) == (anew.passages, anew.length)
    assert list(index.search(words)) == list(anew.search(words))
    if index.parts:
        merged = merge([(part.segment, part.live) for part in index.parts])
        one = Index((Part.of(merged),))
        assert list(one.search(words)) == list(anew.search(words))
        assert set(merged.ids) == {
            path for path in corpus if path not in removed and parse_document(path, corpus[path]).passages
        }


def test_many_small_changes_leave_few_segments() -> None:
    index = Index()
    for number in range(60):
        index = index.changed((), _built({f"{number:02}.md": b"valve %d" % number}, 100).build())
        assert len(index.parts) <= 12
    assert [one.source_id for one in index.search([QueryWord("valv")])] == [f"{number:02}.md" for number in range(60)]


def test_documents_that_went_take_their_postings_with_them() -> None:
    index = Index().changed((), _built({f"{n}.md": b"valve pump" for n in range(10)}, 1000).build())
    held = sum(len(part.segment.passages) for part in index.parts)
    index = index.changed([f"{n}.md" for n in range(6)], ())
    assert sum(len(part.segment.passages) for part in index.parts) < held / 2
    assert index.changed([f"{n}.md" for n in range(10)], ()).parts == ()


def test_segments_too_large_to_number_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge_files.index._MAX_MERGED", 5)
    index = Index()
    for number in range(20):
        index = index.changed((), _built({f"{number:02}.md": b"valve pump tank"}, 100).build())
    assert max(len(part.segment.passages) for part in index.parts) <= 5
    assert len(list(index.search([QueryWord("tank")]))) == 20


def test_a_term_that_fills_a_text_is_counted_and_not_wrapped_around() -> None:
    often, seldom = "valve " * 70_000 + "pump", "valve pump"
    found = dict(score(build_index({"often": often, "seldom": seldom, "none": "tank"}), "valve"))
    assert set(found) == {"often", "seldom"}
    assert found["often"] > found["seldom"] / 2
    builder = SegmentBuilder(Analyzer())
    words = builder.numbering.of_text("often " * 40_000)
    builder.add("a.md", [Passage(0, 5, ())], [PassageTokens(b"", words)])
    builder.add("b.md", [Passage(0, 5, ())], [PassageTokens(words, b"")])
    [segment] = builder.build()
    # Where it is not one of its own terms, the lowest bit is not set by the limit.
    assert segment.counts_at(slice(0, 2)).tolist() == [65_534, 65_535]


class OurIdf(BM25Okapi):
    """rank-bm25's formula with an idf that never falls below zero."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        self.idf = {word: idf(count, self.corpus_size) for word, count in nd.items()}


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=3), sentences, min_size=1, max_size=12), sentences)
def test_scores_are_those_of_rank_bm25_with_this_idf(texts: dict[str, str], words: str) -> None:
    bags = [tokenize(text) for text in texts.values()]
    assume(not any(word.parts for word in Analyzer().query_words(words)))
    terms = Analyzer().query_terms(words)
    got = score(build_index(texts), words)
    assert got == sorted(got, key=lambda one: (-one[1], one[0]))
    if not any(bags):
        assert got == []
        return
    theirs = OurIdf(bags).get_scores(terms)
    expected = {name: value for name, value, bag in zip(texts, theirs, bags, strict=True) if {*bag} & {*terms}}
    assert dict(got) == pytest.approx(expected, rel=1e-12)
    assert all(value > 0 and math.isfinite(value) for _, value in got)


def test_an_index_of_nothing_finds_nothing() -> None:
    assert score(build_index({}), "valve") == []
    assert score(build_index({"a": "", "b": "???"}), "valve") == []
    assert score(build_index({"a": "valve"}), "???") == []


def test_the_language_of_the_texts_can_be_chosen() -> None:
    assert tokenize("Ventile") == ["ventil"]
    assert tokenize("houses", "none") == ["houses"]
    assert score(build_index({"a": "Häuser"}, "german"), "Haus")[0][0] == "a"


def test_very_many_equal_scores_come_by_id_then_start() -> None:
    builder = SegmentBuilder(Analyzer())
    word = PassageTokens(builder.numbering.of_text("valve"), b"")
    for number in reversed(range(3000)):
        passages = [Passage(start, start + 5, ()) for start in (0, 10)]
        builder.add(f"{number:04}.md", passages, [word, word])
    index = Index().changed((), builder.build()).changed(["0001.md"], ())
    expected = [(f"{number:04}.md", start) for number in range(3000) if number != 1 for start in (0, 10)]
    assert [(one.source_id, one.start) for one in index.search([QueryWord("valv")])] == expected
    for wanted in (1, 10, 300):
        found = index.search([QueryWord("valv")], wanted=wanted)
        assert [(one.source_id, one.start) for one in islice(found, 5000)] == expected[:5000]
