"""BM25 over the catalogue fields of each document, with tolerance for typing errors."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import NamedTuple

from knowledge_engine.analysis import Analyzer
from knowledge_engine.models import MAX_QUERY_CHARS
from knowledge_engine.ranking import bm25_term, idf, length_norm

#: The fields searched; a word in one counts as so many in the summary.
CATALOGUE_WEIGHTS: Mapping[str, float] = {
    "title": 4.0,
    "aliases": 4.0,
    "model": 4.0,
    "id": 3.0,
    "keywords": 3.0,
    "vendor": 3.0,
    "equipment_type": 2.0,
    "protocol": 2.0,
    "drivers": 2.0,
    "tags": 2.0,
    "kind": 1.5,
    "summary": 1.0,
}
#: Characters of one field's text that are indexed.
MAX_FIELD_CHARS = 2_000
#: Words of a query that are corrected.
MAX_CORRECTED = 8
_MIN_CORRECTABLE = 3
_CORRECTIONS_EACH = 5


class Correction(NamedTuple):
    """A word that the catalogue does not have, and those that stood in for it, as they are written there."""

    word: str
    used: tuple[str, ...]


class _Postings(NamedTuple):
    documents: array[int]
    weights: array[float]


class CatalogueIndex:
    """Built at once, then only read. Documents are positions in the sequence given."""

    def __init__(self, documents: Sequence[Mapping[str, Sequence[str]]], analyzer: Analyzer) -> None:
        self._documents = documents
        self._analyzer = analyzer
        self._postings: dict[str, _Postings] = {}
        self._lengths = array("d")
        # Vendors, kinds and protocols repeat in thousands of documents.
        seen: dict[str, list[str]] = {}
        for at, fields in enumerate(documents):
            self._add(at, fields, seen)
        self._average = sum(self._lengths) / len(self._lengths) if self._lengths else 0.0

    def search(self, text: str) -> tuple[list[tuple[float, int]], tuple[Correction, ...]]:
        """(score, document), best first, equal scores in order of document; and the corrections that it took."""
        terms = list(dict.fromkeys(self._analyzer.query_terms(text[:MAX_QUERY_CHARS])))
        known = [term for term in terms if term in self._postings]
        if known:
            return self._rank(known), ()
        near = {term: self._near(term) for term in terms[:MAX_CORRECTED]}
        corrections = [Correction(term, self._written(used)) for term, used in near.items() if used]
        return self._rank(dict.fromkeys(term for used in near.values() for term in used)), tuple(corrections)

    def _add(self, at: int, fields: Mapping[str, Sequence[str]], seen: dict[str, list[str]]) -> None:
        weights: dict[str, float] = {}
        length = 0
        for field, weight in CATALOGUE_WEIGHTS.items():
            for text in fields.get(field, ()):
                terms = self._terms(text[:MAX_FIELD_CHARS], seen)
                length += len(terms)
                for term in terms:
                    weights[term] = weights.get(term, 0.0) + weight
        self._lengths.append(length)
        for term, value in weights.items():
            postings = self._postings.get(term)
            if postings is None:
                postings = self._postings[term] = _Postings(array("L"), array("d"))
            postings.documents.append(at)
            postings.weights.append(value)

    def _terms(self, text: str, seen: dict[str, list[str]]) -> list[str]:
        if len(text) > 40:
            return self._analyzer.terms(text)
        if text not in seen:
            seen[text] = self._analyzer.terms(text)
        return seen[text]

    def _rank(self, terms: Iterable[str]) -> list[tuple[float, int]]:
        scores: dict[int, float] = {}
        for term in terms:
            documents, weights = self._postings[term]
            term_idf = idf(len(documents), len(self._lengths))
            for at, weight in zip(documents, weights, strict=True):
                norm = length_norm(self._lengths[at], self._average)
                scores[at] = scores.get(at, 0.0) + bm25_term(weight, norm, term_idf)
        return sorted(((score, at) for at, score in scores.items()), key=lambda pair: (-pair[0], pair[1]))

    def _near(self, term: str) -> tuple[str, ...]:
        """Terms of the catalogue nearest to one that it lacks; of equally near ones the more frequent."""
        if len(term) < _MIN_CORRECTABLE:
            return ()
        allowed = 1 if len(term) < 6 else 2
        found: list[tuple[int, int, str]] = []
        for other, postings in self._postings.items():
            distance = 1 if other.startswith(term) else edit_distance(term, other, allowed)
            if distance <= allowed:
                found.append((distance, -len(postings.documents), other))
        best = nsmallest(_CORRECTIONS_EACH, found)
        return tuple(other for distance, _, other in best if distance == best[0][0])

    def _written(self, terms: Sequence[str]) -> tuple[str, ...]:
        """Terms as a document writes them: the index has only their stems."""
        return tuple(self._surface(term) for term in terms)

    def _surface(self, term: str) -> str:
        fields = self._documents[self._postings[term].documents[0]]
        for field in sorted(CATALOGUE_WEIGHTS, key=lambda field: field == "id"):  # ids are not how people write
            for text in fields.get(field, ()):
                raw = text[:MAX_FIELD_CHARS].encode(errors="replace")
                for token in self._analyzer.tokens(raw):
                    if token.term == term:
                        return raw[token.start : token.end].decode(errors="replace")
        return term


def edit_distance(left: str, right: str, limit: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words; above `limit`: `limit + 1`.

    Source: optimal string alignment (restricted Damerau-Levenshtein).

    >>> edit_distance("simens", "siemens", 2), edit_distance("modubs", "modbus", 2), edit_distance("a", "xyz", 1)
    (1, 1, 2)
    """
    if abs(len(left) - len(right)) > limit or len(set(left) - set(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, char in enumerate(left, 1):
        two_before, before, row = before, row, [i]
        for j, other in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (char != other))
            if i > 1 and j > 1 and char == right[j - 2] and left[i - 2] == other:
                cost = min(cost, two_before[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)
