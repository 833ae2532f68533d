"""How passages are kept: the terms of many as arrays, in blocks as rows, and as words for FTS5.

A passage has a number: that of its block, times `BLOCK`, plus its place in it. Its words are the numbers of its terms,
each with a level that says how much the term can count there: a search reads the postings of high levels first, and
those of low ones only if they could matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from knowledge_engine.passages import PassageTokens
from knowledge_engine.ranking import K1
from knowledge_sqlite.errors import decoding

Ids = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.uint16]
Numbers = npt.NDArray[np.int64]

#: So many passages stand in one row at most. All of them are of one document.
BLOCK = 8
LEVELS = 32
_MAX_COUNT = (1 << 16) - 1

# The least of each level but the lowest: tf / (1 - B + B * length / reference), in 64ths. They stand for what a term
# that weighs 1 adds: .4, .5 and so on up to 2, then closer, up to 2.49; the most is K1 + 1. Where a term is in very
# many passages, those that count are in the highest levels.
_FAR = (18, 24, 30, 37, 45, 54, 64, 75, 89, 104, 122, 144, 171, 204, 247, 304)
_NEAR = (384, 475, 590, 704, 864, 1104, 1404, 1750, 2304, 2904, 3904, 5904, 7904, 11904, 23904)
_LEAST = np.array((*_FAR, *_NEAR), np.int64)
_PARTS = 64

_DIGITS = np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)
_WORD_CHARS = 8  # of 5 bits each: the last one says the level, those before the number


def distinct(values: npt.NDArray[Any]) -> Numbers:
    """Each value once, ascending. As `np.unique`, which brings in 10 MB of code for it."""
    ordered = np.sort(values).astype(np.int64)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


class Postings(NamedTuple):
    """Terms of passages that follow each other."""

    #: Numbers of terms, each once a passage.
    ids: Ids
    #: Of each: twice the weighted number of times, plus one if it stands in the passage's own bytes.
    counts: Counts
    #: Of each passage: how many of these it has, and its weighted number of terms with repeats.
    sizes: Numbers
    lengths: Numbers


def count_tokens(passages: Iterable[PassageTokens[bytes]]) -> Postings:
    """Counts the terms of passages, given as numbers below 2 ** 31, see `Numbering`."""
    pieces = [piece for passage in passages for piece in passage]
    flat = np.frombuffer(b"".join(pieces), np.uint32)
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces)) // flat.itemsize
    lengths = sizes[::2] + sizes[1::2]
    # One number for passage, term, and whether it stands in the passage's own bytes: sorting numbers is fast.
    group = np.arange(len(sizes), dtype=np.int64)
    keys = ((group >> 1) << 32) + 1 - (group & 1)
    keys = np.repeat(keys, sizes) + (flat.astype(np.int64) << 1)
    keys.sort()
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    keys, times = keys[firsts], np.diff(firsts, append=len(keys))
    terms = keys >> 1
    groups = np.flatnonzero(np.diff(terms, prepend=-1))
    counts = np.add.reduceat(2 * times + (keys & 1), groups) if len(groups) else np.zeros(0, np.int64)
    # No score tells so many from more. The lowest bit stays what it says.
    counts = np.where(counts > _MAX_COUNT, _MAX_COUNT - 1 + counts % 2, counts)
    terms = terms[groups]
    return Postings(
        (terms & 0x7FFFFFFF).astype(np.uint32),
        counts.astype(np.uint16),
        np.bincount(terms >> 31, minlength=len(lengths)),
        lengths,
    )


# Levels


def levels(postings: Postings, reference: int) -> Numbers:
    """The level of each posting. In whole numbers, so that every machine finds again what another one wrote.

    Args:
        reference: A length that passages have about, the same for all passages of a file.
    """
    lengths = np.repeat(postings.lengths, postings.sizes)
    # With B = .75.
    quality = (postings.counts >> 1).astype(np.int64) * (4 * _PARTS * reference) // (reference + 3 * lengths)
    return np.searchsorted(_LEAST, quality, side="right")


def most(level: int, average: float, reference: int) -> float:
    """More than a posting of that level can count with a term that weighs 1.

    Args:
        average: The present average length of passages.
    """
    if level == LEVELS - 1:
        return K1 + 1
    # tf / (1 - B + B * length / average) grows at most as the average does.
    share = _LEAST[level] / _PARTS * max(1.0, average / reference)
    return float((K1 + 1) * share / (share + K1))


# Words


def words(postings: Postings, reference: int) -> list[str]:
    """What FTS5 is given for each passage."""
    codes = (postings.ids.astype(np.int64) << 5) | levels(postings, reference)
    text = np.full((len(codes), _WORD_CHARS + 1), ord(" "), np.uint8)
    for place in range(_WORD_CHARS):
        text[:, place] = _DIGITS[(codes >> (5 * (_WORD_CHARS - 1 - place))) & 31]
    whole = text.tobytes().decode("ascii")
    width = _WORD_CHARS + 1
    ends = np.cumsum(postings.sizes).tolist()
    return [whole[width * start : width * end] for start, end in zip([0, *ends], ends, strict=False)]


def word(number: int, level: int) -> str:
    """A term of that level as FTS5 knows it. Those of one term follow each other."""
    code = number << 5 | level
    return "".join(chr(_DIGITS[code >> (5 * place) & 31]) for place in reversed(range(_WORD_CHARS)))


def number_of(word: str) -> int:
    """The number of the term that a word says."""
    return int(word, 32) >> 5


def level_of(word: str) -> int:
    """The level that a word says."""
    return int(word[-1], 32)


# Rows


class Row(NamedTuple):
    """A block of passages as it is stored. Little-endian."""

    #: uint32 start, stop, length and number of terms of each passage.
    layout: bytes
    #: uint32 and uint16.
    term_ids: bytes
    term_counts: bytes


class Rows:
    """The rows of many passages that follow each other.

    Args:
        spans: Start and stop of each passage; two columns.
    """

    def __init__(self, spans: Numbers, postings: Postings) -> None:
        layout = np.column_stack((spans, postings.lengths, postings.sizes))
        self._layout = layout.astype("<u4").tobytes()
        self._ids, self._counts = postings.ids.astype("<u4").tobytes(), postings.counts.astype("<u2").tobytes()
        self._ends = [0, *np.cumsum(postings.sizes).tolist()]

    def blocks(self, first: int, last: int) -> list[Row]:
        """The blocks of a document whose passages are [first, last)."""
        found = []
        for start in range(first, last, BLOCK):
            stop = min(start + BLOCK, last)
            left, right = self._ends[start], self._ends[stop]
            found.append(
                Row(
                    self._layout[16 * start : 16 * stop],
                    self._ids[4 * left : 4 * right],
                    self._counts[2 * left : 2 * right],
                )
            )
        return found


class Blocks(NamedTuple):
    """Blocks as they were stored, one after another."""

    postings: Postings
    #: Of each passage: its number, and its raw bytes [start, stop).
    numbers: Numbers
    starts: Numbers
    stops: Numbers
    #: Of each passage: which of the blocks it is in.
    owners: Numbers


@decoding()
def read(blocks: Sequence[int], stored: Sequence[Row]) -> Blocks:
    """Blocks of those numbers.

    Raises:
        DamagedError: When their parts do not fit each other.
    """
    layout = np.frombuffer(b"".join(row.layout for row in stored), "<u4").astype(np.int64).reshape(-1, 4)
    counts = np.array([len(row.layout) // 16 for row in stored], np.int64)
    owners = np.repeat(np.arange(len(stored)), counts)
    firsts = np.cumsum(counts) - counts
    places = np.arange(len(layout)) - np.repeat(firsts, counts)
    ids = np.frombuffer(b"".join(row.term_ids for row in stored), "<u4")
    numbers = np.frombuffer(b"".join(row.term_counts for row in stored), "<u2")
    if not len(ids) == len(numbers) == layout[:, 3].sum():
        raise ValueError("terms without counts")
    return Blocks(
        Postings(ids, numbers, layout[:, 3], layout[:, 2]),
        np.array(blocks, np.int64)[owners] * BLOCK + places,
        layout[:, 0],
        layout[:, 1],
        owners,
    )
