"""How a passage's terms are kept: as arrays for scoring, and as words for FTS5."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping

from knowledge_engine.passages import PassageTerms

_MAX_COUNT = (1 << 16) - 1
_SWAP = sys.byteorder == "big"


def counts(bag: PassageTerms) -> dict[str, int]:
    """Of each term: twice its weighted number of times, plus one if it stands in the passage's own bytes."""
    held = {term: 2 * times + 1 for term, times in bag.own.items()}
    for term, times in bag.context.items():
        held[term] = held.get(term, 0) + 2 * times
    # No score tells so many from more. The lowest bit stays what it says.
    return {term: value if value <= _MAX_COUNT else _MAX_COUNT - 1 + value % 2 for term, value in held.items()}


def packed(held: Mapping[str, int], numbers: Mapping[str, int]) -> tuple[bytes, bytes]:
    """`term_ids` and `term_counts` of a passage.

    Args:
        held: As `counts` makes it.
        numbers: The number of each term.
    """
    pairs = sorted((numbers[term], count) for term, count in held.items())
    ids, values = array("I", (number for number, _ in pairs)), array("H", (count for _, count in pairs))
    if _SWAP:
        ids.byteswap()
        values.byteswap()
    return ids.tobytes(), values.tobytes()


def numbers_of(term_ids: bytes) -> array[int]:
    """The numbers in `term_ids`."""
    ids = array("I", term_ids)
    if _SWAP:
        ids.byteswap()
    return ids


def words(numbers: Iterable[int]) -> str:
    """What FTS5 is given for a passage: its terms' numbers."""
    return " ".join(format(number, "x") for number in numbers)


def word(number: int) -> str:
    """The number of a term as FTS5 knows it."""
    return format(number, "x")
