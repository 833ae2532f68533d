"""The classes of rank-bm25 rank what they are asked to rank, and are asked for nothing else."""

from __future__ import annotations

import sys

import pytest
import rank_bm25
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer
from knowledge_engine.errors import ConfigurationError
from knowledge_engine.fs import MemoryFs
from knowledge_engine.models import Query
from knowledge_engine.passages import parse_document, passage_terms
from knowledge_files import FilesKnowledgeAdapter

CLASSES = {"okapi": rank_bm25.BM25Okapi, "l": rank_bm25.BM25L, "plus": rank_bm25.BM25Plus}
FILES = {
    "a.md": b"valve opens",
    "b.md": b"# Pump\n\nvalve valve\n\n# Tank\n\nsteel tank",
    "c.txt": b"the pump is off",
    "d.md": b"",
    "e.md": b"???",
}
WORDS = ["valve", "pump", "tank", "steel", "opens", "missing", "c"]


@pytest.mark.parametrize("ranking", CLASSES)
@settings(max_examples=25, deadline=None)
@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), per_source=st.integers(1, 3))
def test_scores_are_those_of_the_class(ranking: str, words: list[str], per_source: int) -> None:
    analyzer, bags, places = Analyzer(), [], []
    for path, raw in FILES.items():
        document = parse_document(path, raw)
        for passage, terms in zip(document.passages, passage_terms(document, raw, analyzer), strict=True):
            bags.append([*terms.own.elements(), *terms.context.elements()])
            places.append((path, passage.start))
    terms = analyzer.query_terms(" ".join(words))
    scores = CLASSES[ranking](bags, k1=1.5, b=0.75).get_scores(terms)
    expected = dict(zip(places, scores, strict=True))
    adapter = FilesKnowledgeAdapter(MemoryFs(FILES), ".", ranking=ranking)
    result = adapter.query(Query(query=" ".join(words), per_source=per_source))
    assert result.engine == f"rank-bm25 {ranking}"
    assert [hit.score for hit in result.hits] == [expected[hit.source_id, hit.span.start] for hit in result.hits]
    assert [(-hit.score, hit.source_id, hit.span.start) for hit in result.hits] == sorted(
        (-hit.score, hit.source_id, hit.span.start) for hit in result.hits
    )
    default = FilesKnowledgeAdapter(MemoryFs(FILES), ".").query(Query(query=" ".join(words), per_source=per_source))
    assert {(hit.source_id, hit.span.start) for hit in result.hits if per_source > 1} == {
        (hit.source_id, hit.span.start) for hit in default.hits if per_source > 1
    }


@pytest.mark.parametrize("ranking", CLASSES)
def test_a_corpus_without_a_word_is_no_division_by_zero(ranking: str) -> None:
    for files in ({}, {"???.md": b"???"}, {"!.md": b""}):
        adapter = FilesKnowledgeAdapter(MemoryFs(files), ".", ranking=ranking)
        assert adapter.query(Query(query="valve")).hits == ()
    assert FilesKnowledgeAdapter(MemoryFs(FILES), ".", ranking=ranking).query(Query(query="???")).hits == ()


def test_changes_are_ranked_anew_and_only_they(folder) -> None:
    folder.put("a.md", "valve opens")
    folder.put("b.md", "tank")
    folder.put("c.md", "pump")
    adapter = FilesKnowledgeAdapter(folder.fs, ".", ranking="plus")
    assert len(adapter.query(Query(query="valve")).hits) == 1
    folder.fs.forget()
    assert len(adapter.query(Query(query="missing")).hits) == 0
    assert folder.fs.reads == []
    folder.put("b.md", "tank valve")
    adapter.refresh()
    assert len(adapter.query(Query(query="valve")).hits) == 2
    # Changed or gone without a word: noticed when it is cited, or when it is read to be ranked.
    folder.put("a.md", "first line\n\nvalve now further down")
    (folder.root / "c.md").unlink()
    adapter.dispose()
    adapter = FilesKnowledgeAdapter(folder.fs, ".", ranking="plus")
    adapter.refresh()
    folder.put("a.md", "valve further up again")
    (folder.root / "b.md").unlink()
    result = adapter.query(Query(query="valve"))
    assert [hit.text for hit in result.hits] == ["valve further up again"]


def test_a_missing_library_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rank_bm25", None)
    adapter = FilesKnowledgeAdapter(MemoryFs(FILES), ".", ranking="okapi")
    assert adapter.list_sources().total == len(FILES)
    with pytest.raises(ConfigurationError, match=r"kpkit-files\[rank-bm25\]"):
        adapter.query(Query(query="valve"))
    default = FilesKnowledgeAdapter(MemoryFs(FILES), ".")
    assert len(default.query(Query(query="valve")).hits) == 2
