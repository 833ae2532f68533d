"""The ranking core by itself, over plain texts: `tokenize`, `build_index`, `score`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from knowledge_engine.analysis import Analyzer
from knowledge_engine.passages import Passage, PassageTokens
from knowledge_files.building import SegmentBuilder
from knowledge_files.index import Index


def tokenize(text: str, language: str = "english") -> list[str]:
    """The terms of a text, as they are indexed, with repeats."""
    return Analyzer(language).terms(text)


@dataclass(frozen=True)
class Bm25Index:
    """Texts ready to be scored; each is one passage."""

    index: Index
    analyzer: Analyzer


def build_index(texts: Mapping[str, str], language: str = "english") -> Bm25Index:
    """An index over texts by id."""
    analyzer = Analyzer(language)
    builder = SegmentBuilder(analyzer)
    for source_id, text in texts.items():
        passage = Passage(0, len(text.encode("utf-8", "replace")), ())
        builder.add(source_id, [passage], [PassageTokens(builder.numbering.of_text(text), b"")])
    return Bm25Index(Index().changed((), builder.build()), analyzer)


def score(index: Bm25Index, query: str) -> list[tuple[str, float]]:
    """Ids of the texts that hold a term of the query, with their BM25 scores, best first, ties by id."""
    return [(found.source_id, found.score) for found in index.index.search(index.analyzer.query_words(query))]
