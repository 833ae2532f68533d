"""The ranking formula, the field weights and the order of ties: one for every backend that ranks itself.

BM25 with k1 1.5 and b 0.75 over passages. A field's weight says how often its terms count: weighting term
frequencies before they saturate keeps a term that stands in two fields from counting as two terms.

Source: Robertson & Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond" (BM25F, simple form).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

K1 = 1.5
B = 0.75

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
