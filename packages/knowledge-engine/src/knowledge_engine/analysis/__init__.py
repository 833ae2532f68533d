"""Text analysis: one way from text to terms for index and query, in memory and in databases alike."""

from knowledge_engine.analysis.analyzer import REVISION, Analyzer, QueryWord, Token
from knowledge_engine.analysis.numbering import NUMBER, Numbering
from knowledge_engine.analysis.stopwords import STOP_WORDS
from knowledge_engine.analysis.words import MAX_WORD_CHARS, Word, split_words

__all__ = [
    "MAX_WORD_CHARS",
    "NUMBER",
    "REVISION",
    "STOP_WORDS",
    "Analyzer",
    "Numbering",
    "QueryWord",
    "Token",
    "Word",
    "split_words",
]
