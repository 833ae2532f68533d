"""The ranking formula, the field weights and the order of ties: one for every backend that ranks itself.

BM25 with k1 1.5 and b 0.75 over passages. A field's weight says how often its terms count: weighting term
frequencies before they saturate keeps a term that stands in two fields from counting as two terms.

Source: Robertson & Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond" (BM25F, simple form).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from knowledge_engine.analysis import QueryWord

K1 = 1.5
B = 0.75

#: Of an identifier's weight, for all its parts. The most that a term can count is `K1 + 1` times its weight; standing
#: once in a passage of forty times the average length, it counts a twentieth.
PART_SHARE = 0.02

#: How often a term of each field counts in a passage. `title` and `heading` (the headings above a passage) count in
#: every passage below them, the other catalogue fields in the first passage of their document only.
FIELD_WEIGHTS: Mapping[str, int] = MappingProxyType(
    {"body": 1, "title": 2, "heading": 1, "aliases": 1, "keywords": 1, "summary": 1}
)


def idf(containing: int, total: int) -> float:
    """Weight of a term that `containing` of `total` passages hold; always above 0.

    Raises:
        ValueError: Unless 0 <= containing <= total.

    Source: Lucene's `1 +` keeps a term that is in every passage above 0.

    >>> round(idf(1, 3), 3)
    0.981
    """
    if not 0 <= containing <= total:
        raise ValueError(f"need 0 <= containing <= total, got {containing!r}, {total!r}")
    return math.log(1 + (total - containing + 0.5) / (containing + 0.5))


def term_weights(words: Iterable[QueryWord], containing: Callable[[str], int], total: int) -> dict[str, float]:
    """What each term of a query weighs, in the query's order: its idf, as often as the query holds it.

    Where the corpus holds an identifier whole, its parts weigh `PART_SHARE` of that together: a passage with nothing
    but parts, in however many places, does not come before one with the identifier itself.

    Args:
        containing: How many of the `total` passages hold a term; those that none holds are left out.
    """
    times: dict[str, float] = {}
    for word in words:
        share = PART_SHARE / len(word.parts) if word.parts and containing(word.term) else 1.0
        times[word.term] = times.get(word.term, 0.0) + 1.0
        for part in word.parts:
            times[part] = times.get(part, 0.0) + share
    known = {term: containing(term) for term in times}
    return {term: idf(count, total) * times[term] for term, count in known.items() if count}


def length_norm(length: Any, average: float) -> Any:
    """What a passage's length adds to the denominator of `bm25_term`; numbers or numpy arrays."""
    return K1 * (1 - B + B * length / average)


def bm25_term(tf: Any, norm: Any, weight: float) -> Any:
    """What one term adds to a passage's score; numbers or numpy arrays, bit for bit the same.

    Args:
        tf: Weighted number of times that the passage holds the term.
        norm: The passage's `length_norm`.
        weight: The term's `idf`, times how often the query holds it.

    >>> round(bm25_term(2, length_norm(10, 10.0), idf(1, 3)), 3)
    1.401
    """
    return weight * (tf * (K1 + 1) / (tf + norm))


def sort_key(score: float, source_id: str, start: int) -> tuple[float, str, int]:
    """Ascending in it is the order of answers: score descending, then id, then start byte."""
    return (-score, source_id, start)
