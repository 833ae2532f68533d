"""Postings as arrays: an immutable segment of passages, how it is built, merged and scored."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from knowledge_engine.passages import Passage, PassageTerms

# A posting is sorted as one number: term, passage, weighted frequency, own. Sorting numbers is many times faster than
# sorting rows. The bits bound a segment (24 for terms, too); the builder begins a new one long before.
_FREQUENCY_BITS, _PASSAGE_BITS = 16, 24
_MAX_FREQUENCY = (1 << _FREQUENCY_BITS) - 1
_MAX_POSTINGS = _MAX_PASSAGES = 8_000_000

Array = npt.NDArray[Any]


class _Ids(dict[str, int]):
    """Numbers for terms, given when a term first comes."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self)
        return number


@dataclass(frozen=True, eq=False)
class Segment:
    """Passages and their postings. Arrays are never written after building.

    Postings of term `vocabulary[t]` stand in `[offsets[t], offsets[t + 1])` of `passages` (ascending) and
    `frequencies` (weighted, times two, plus one if the term stands in the passage's own bytes).
    """

    vocabulary: dict[str, int]
    offsets: npt.NDArray[np.int64]
    passages: npt.NDArray[np.uint32]
    frequencies: npt.NDArray[np.uint16]
    #: Of each passage: its weighted number of terms, the number of its document, its raw bytes [start, end).
    lengths: npt.NDArray[np.uint32]
    documents: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    #: Whether it is its document's first passage.
    first: npt.NDArray[np.bool_]
    #: Document ids by number.
    ids: tuple[str, ...]

    def postings(self, term: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint16]] | None:
        """Passages that hold the term, and how often; None if there are none."""
        number = self.vocabulary.get(term)
        if number is None:
            return None
        span = slice(self.offsets[number], self.offsets[number + 1])
        return self.passages[span], self.frequencies[span]


class SegmentBuilder:
    """Takes in documents one by one and makes segments of them, of bounded size."""

    def __init__(self, max_postings: int = _MAX_POSTINGS) -> None:
        self._max_postings = max_postings
        self._done: list[Segment] = []
        self._open = _Columns()

    def add(self, source_id: str, passages: Sequence[Passage], terms: Iterable[PassageTerms]) -> None:
        """Takes in one document."""
        self._open.ids.append(source_id)
        for ordinal, (passage, bag) in enumerate(zip(passages, terms, strict=True)):
            if len(self._open.terms) >= self._max_postings or len(self._open.lengths) >= _MAX_PASSAGES:
                self._done.append(self._open.segment())
                self._open = _Columns()
                self._open.ids.append(source_id)
            self._open.add(passage, bag, first=ordinal == 0)

    def build(self) -> list[Segment]:
        """The segments of all that was taken in."""
        return [*self._done, self._open.segment()]


class _Columns:
    """A segment while it grows: plain arrays, as they take little memory and grow fast."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.terms = array("I")
        self.lengths = array("I")
        self._vocabulary = _Ids()
        self._frequencies = array("H")
        self._counts = array("I")
        self._documents = array("I")
        self._starts = array("q")
        self._ends = array("q")
        self._first = bytearray()

    def add(self, passage: Passage, bag: PassageTerms, *, first: bool) -> None:
        """Takes in a passage of the document that `ids` names last."""
        held = {term: 2 * times + 1 for term, times in bag.own.items()}
        for term, times in bag.context.items():
            held[term] = held.get(term, 0) + 2 * times
        self.terms.extend(map(self._vocabulary.__getitem__, held))
        try:
            self._frequencies.extend(array("H", held.values()))
        except OverflowError:
            # No score tells so many from more. The lowest bit stays what it says.
            self._frequencies.extend(min(value, _MAX_FREQUENCY - 1 + value % 2) for value in held.values())
        self._counts.append(len(held))
        self.lengths.append(bag.length)
        self._documents.append(len(self.ids) - 1)
        self._starts.append(passage.start)
        self._ends.append(passage.end)
        self._first.append(first)

    def segment(self) -> Segment:
        """The finished segment."""
        counts = _view(self._counts, np.uint32)
        return _segment(
            dict(self._vocabulary),
            _view(self.terms, np.uint32),
            np.repeat(np.arange(len(counts), dtype=np.uint32), counts),
            _view(self._frequencies, np.uint16),
            (
                _view(self.lengths, np.uint32),
                _view(self._documents, np.uint32),
                _view(self._starts, np.int64),
                _view(self._ends, np.int64),
                np.frombuffer(bytes(self._first), np.bool_),
            ),
            tuple(self.ids),
        )


def merge(parts: Sequence[tuple[Segment, npt.NDArray[np.bool_]]]) -> Segment:
    """One segment of the live passages of several: what building it anew would give, without reading a file."""
    vocabulary = _Ids()
    terms, passages, frequencies, columns, ids = [], [], [], [], list[str]()
    base = 0
    for segment, live in parts:
        known = np.fromiter((vocabulary[term] for term in segment.vocabulary), np.uint32, len(segment.vocabulary))
        numbers = np.cumsum(live, dtype=np.int64) - 1 + base
        kept = live[segment.passages]
        terms.append(np.repeat(known, np.diff(segment.offsets))[kept])
        passages.append(numbers[segment.passages[kept]].astype(np.uint32))
        frequencies.append(segment.frequencies[kept])
        owners, documents = np.unique(segment.documents[live], return_inverse=True)
        columns.append(
            (
                segment.lengths[live],
                (documents + len(ids)).astype(np.uint32),
                segment.starts[live],
                segment.ends[live],
                segment.first[live],
            )
        )
        ids += [segment.ids[owner] for owner in owners]
        base += int(live.sum())
    joined = tuple(np.concatenate(column) for column in zip(*columns, strict=True))
    return _segment(
        dict(vocabulary),
        np.concatenate(terms),
        np.concatenate(passages),
        np.concatenate(frequencies),
        joined,
        tuple(ids),
    )


def _view(values: array[int], dtype: type[Any]) -> Array:
    return np.frombuffer(values, dtype) if values else np.zeros(0, dtype)


def _segment(
    vocabulary: dict[str, int],
    terms: Array,
    passages: Array,
    frequencies: Array,
    columns: tuple[Array, ...],
    ids: tuple[str, ...],
) -> Segment:
    """Sorts postings by term, then passage."""
    keys = terms.astype(np.uint64) << np.uint64(_PASSAGE_BITS + _FREQUENCY_BITS)
    keys |= passages.astype(np.uint64) << np.uint64(_FREQUENCY_BITS)
    keys |= frequencies.astype(np.uint64)
    keys.sort()
    counts = np.bincount(terms.astype(np.int64), minlength=len(vocabulary))
    lengths, documents, starts, ends, first = columns
    return Segment(
        vocabulary=vocabulary,
        offsets=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        passages=((keys >> np.uint64(_FREQUENCY_BITS)) & np.uint64((1 << _PASSAGE_BITS) - 1)).astype(np.uint32),
        frequencies=(keys & np.uint64((1 << _FREQUENCY_BITS) - 1)).astype(np.uint16),
        lengths=lengths.astype(np.uint32),
        documents=documents.astype(np.uint32),
        starts=starts.astype(np.int64),
        ends=ends.astype(np.int64),
        first=first.astype(np.bool_),
        ids=ids,
    )
