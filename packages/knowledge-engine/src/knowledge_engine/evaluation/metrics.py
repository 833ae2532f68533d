"""Figures for one ranking: pure functions of the ids found, best first, and of what each document is worth.

A grade above 0 makes a document relevant, and a higher one more so; what has no grade is worth nothing. Ids are taken
by rank alone, so equal scores count in the order in which the backend gave them; a repeated id counts where it first
stands. All figures lie in [0, 1], and more is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

Grades = Mapping[str, float]


def recall(ranked: Sequence[str], grades: Grades, depth: int) -> float:
    """The share of the relevant documents that stand among the first `depth`; 0 where none is relevant.

    >>> recall(["a", "x", "b"], {"a": 1, "b": 1}, 2)
    0.5
    """
    wanted = {name for name, grade in grades.items() if grade > 0}
    return len(wanted.intersection(_first(ranked, depth))) / len(wanted) if wanted else 0.0


def reciprocal_rank(ranked: Sequence[str], grades: Grades, depth: int) -> float:
    """1 / rank of the first relevant document among the first `depth`; 0 where there is none. Its mean is MRR.

    >>> reciprocal_rank(["x", "a"], {"a": 1}, 10)
    0.5
    """
    for rank, name in enumerate(_first(ranked, depth), start=1):
        if grades.get(name, 0) > 0:
            return 1 / rank
    return 0.0


def ndcg(ranked: Sequence[str], grades: Grades, depth: int) -> float:
    """Normalised discounted cumulative gain of the first `depth`; 0 where no document is relevant.

    The gain is 2^grade - 1, divided by log2(rank + 1), and the sum is compared with that of the best order.

    Source: Burges et al. 2005, "Learning to rank using gradient descent"; with grades 0 and 1 the same as the gain of
    Järvelin & Kekäläinen 2002.

    >>> round(ndcg(["x", "a"], {"a": 1}, 10), 4)
    0.6309
    """
    ideal = _gain(sorted(grades.values(), reverse=True)[:depth])
    return _gain([grades.get(name, 0) for name in _first(ranked, depth)]) / ideal if ideal else 0.0


#: By the name that stands before `@` in a figure's name, such as `recall@10`.
METRICS: Mapping[str, Callable[[Sequence[str], Grades, int], float]] = {
    "recall": recall,
    "mrr": reciprocal_rank,
    "ndcg": ndcg,
}


def _first(ranked: Sequence[str], depth: int) -> list[str]:
    return list(dict.fromkeys(ranked))[:depth]


def _gain(grades: Sequence[float]) -> float:
    return math.fsum((2**grade - 1) / math.log2(place + 2) for place, grade in enumerate(grades))
