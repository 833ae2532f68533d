"""Postings as arrays: an immutable segment of passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from knowledge_engine.ranking import K1, bm25_term, length_norm
from knowledge_files.texts import Array, Texts, narrow, packed

#: Postings that have one bound together.
BLOCK = 64
#: Terms with fewer postings have no bounds: reading them costs less than deciding not to.
COMMON = 4 * BLOCK
#: What stands for a count that is larger than its byte.
_LARGE = 255
#: A larger count is taken as that, or one less: no score tells so many from more.
MAX_COUNT = (1 << 16) - 1
_MOST_REMEMBERED = 20_000
# Bounds are made for so many postings at a time.
_AT_ONCE = 1 << 20
# The most that a term can count, for a weight of 1; bounds are stored as parts of it.
_MOST = K1 + 1
_STEPS = 255


@dataclass(frozen=True, eq=False)
class Segment:
    """Passages and their postings. Arrays are never written after building; they may lie in a mapped file.

    Postings of term `terms[t]` stand in `[offsets[t], offsets[t + 1])` of `passages` (ascending) and `counts`
    (weighted, times two, plus one if the term stands in the passage's own bytes; larger ones stand in `large_counts`,
    by the places that `large_places` gives).
    """

    term_bytes: Array
    term_ends: Array
    offsets: Array
    passages: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint8]
    large_places: Array
    large_counts: npt.NDArray[np.uint16]
    #: Of each passage: its weighted number of terms, the number of its document, its raw bytes [start, end).
    lengths: npt.NDArray[np.uint32]
    documents: npt.NDArray[np.uint32]
    starts: Array
    ends: Array
    #: Whether it is its document's first passage.
    first: npt.NDArray[np.bool_]
    id_bytes: Array
    id_ends: Array
    #: Numbers of common terms, where their blocks begin in `bounds`, and the most that a posting of each block can
    #: count where passages have the average length `reference`: in steps, rounded up.
    common: npt.NDArray[np.uint32]
    block_offsets: Array
    bounds: npt.NDArray[np.uint8]
    reference: float
    _known: dict[str, int] = field(default_factory=dict, repr=False)

    @cached_property
    def terms(self) -> Texts:
        """Terms in ascending order of their UTF-8."""
        return Texts(self.term_bytes, self.term_ends)

    @cached_property
    def ids(self) -> Texts:
        """Document ids by number."""
        return Texts(self.id_bytes, self.id_ends)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {source_id: number for number, source_id in enumerate(self.ids)}

    def document(self, source_id: str) -> int:
        """The number of a document; -1 if it is not here."""
        return self._numbers.get(source_id, -1)

    def span(self, term: str) -> tuple[int, int, int]:
        """A term's number, and where its postings begin and end; nowhere if there are none."""
        number = self._known.get(term)
        if number is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[term] = number = self.terms.find(term)
        return (number, int(self.offsets[number]), int(self.offsets[number + 1])) if number >= 0 else (-1, 0, 0)

    def counts_at(self, places: Any) -> Array:
        """The full counts of postings, given as a slice or as places."""
        counts: Array = self.counts[places]
        if not len(self.large_places):
            return counts
        large = (counts == _LARGE).nonzero()[0]
        if not len(large):
            return counts
        counts = counts.astype(np.uint16)
        wanted = places.start + large if isinstance(places, slice) else places[large]
        counts[large] = self.large_counts[self.large_places.searchsorted(wanted)]
        return counts

    def block_bounds(self, number: int, average: float) -> npt.NDArray[np.float64] | None:
        """The most that a posting of each block of a term can count, for a weight of 1; None for a rare term."""
        place = int(self.common.searchsorted(number))
        if place == len(self.common) or self.common[place] != number:
            return None
        steps: Array = self.bounds[int(self.block_offsets[place]) : int(self.block_offsets[place + 1])]
        # A passage is shorter beside a greater average: at most by so much it counts more.
        growth = max(1.0, average / self.reference)
        bounds: npt.NDArray[np.float64] = np.minimum(steps * (growth * _MOST / _STEPS), _MOST)
        return bounds

    def arrays(self) -> dict[str, Array]:
        """All that a segment is made of, but for `reference`, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("reference", "_known")}


def make_segment(
    terms: Sequence[bytes],
    sizes: Array,
    passages: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint16],
    columns: tuple[Array, ...],
    ids: Sequence[str],
) -> Segment:
    """A segment of postings that are in order of term and passage.

    Args:
        terms: Ascending.
        sizes: How many postings each has.
        columns: `lengths`, `documents`, `starts`, `ends`, `first`.
    """
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
    large = np.flatnonzero(counts >= _LARGE)
    lengths, documents, starts, ends, first = columns
    term_bytes, term_ends = packed(terms)
    id_bytes, id_ends = packed(one.encode("utf-8", "surrogatepass") for one in ids)
    reference = float(lengths.sum(dtype=np.int64) / max(1, len(lengths))) or 1.0
    lengths = lengths.astype(np.uint32)
    common, block_offsets, bounds = _bounds(offsets, passages, counts, lengths, reference)
    return Segment(
        term_bytes=term_bytes,
        term_ends=term_ends,
        offsets=narrow(offsets),
        passages=passages,
        counts=np.minimum(counts, _LARGE).astype(np.uint8),
        large_places=narrow(large),
        large_counts=counts[large].astype(np.uint16),
        lengths=lengths,
        documents=documents.astype(np.uint32),
        starts=narrow(starts),
        ends=narrow(ends),
        first=first.astype(np.bool_),
        id_bytes=id_bytes,
        id_ends=id_ends,
        common=common,
        block_offsets=block_offsets,
        bounds=bounds,
        reference=reference,
    )


def _bounds(
    offsets: Array, passages: Array, counts: Array, lengths: Array, reference: float
) -> tuple[npt.NDArray[np.uint32], Array, npt.NDArray[np.uint8]]:
    sizes = np.diff(offsets)
    common = np.flatnonzero(sizes >= COMMON)
    blocks = -(-sizes[common] // BLOCK)
    firsts = np.concatenate((np.zeros(1, np.int64), np.cumsum(blocks)))
    # Where each block begins among the postings.
    inner = np.arange(firsts[-1]) - np.repeat(firsts[:-1], blocks)
    begins = np.repeat(offsets[common], blocks) + inner * BLOCK
    stops = np.minimum(begins + BLOCK, np.repeat(offsets[common + 1], blocks))
    bounds = np.zeros(len(begins), np.uint8)
    at = 0
    while at < len(begins):
        last = max(at + 1, int(np.searchsorted(stops, begins[at] + _AT_ONCE, side="right")))
        low, high = int(begins[at]), int(stops[last - 1])
        norms = length_norm(lengths[passages[low:high]].astype(np.float64), reference)
        most = bm25_term((counts[low:high] >> 1).astype(np.float64), norms, 1.0)
        # Between two blocks there may be postings of rare terms: each odd group is of those.
        edges = np.column_stack((begins[at:last], stops[at:last])).ravel()[:-1] - low
        found = np.maximum.reduceat(most, edges)[::2]
        bounds[at:last] = np.minimum(np.ceil(found * (_STEPS / _MOST * (1 + 1e-9))), _STEPS).astype(np.uint8)
        at = last
    return common.astype(np.uint32), narrow(firsts), bounds
