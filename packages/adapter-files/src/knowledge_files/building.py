"""How segments come to be: from the terms of documents, and from other segments."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from knowledge_engine.analysis import NUMBER, Analyzer, Numbering
from knowledge_engine.passages import Document, Passage, PassageTokens, passage_tokens
from knowledge_files.segments import MAX_COUNT, Segment, make_segment
from knowledge_files.texts import Array

#: Tokens that are counted at once: so many numbers are sorted, and no more memory than for these is taken.
_COUNTED_AT_ONCE = 2_000_000
_MAX_POSTINGS = 100_000_000

Live = npt.NDArray[np.bool_]


class _Counted(NamedTuple):
    """Postings of some passages by term: numbers of terms, how many each has, and the postings."""

    terms: Array
    sizes: Array
    passages: Array
    counts: Array


class SegmentBuilder:
    """Takes in documents one by one and makes segments of them, of bounded size."""

    def __init__(
        self, analyzer: Analyzer, *, max_postings: int = _MAX_POSTINGS, at_once: int = _COUNTED_AT_ONCE
    ) -> None:
        self.numbering = Numbering(analyzer)
        self._max_postings, self._at_once = max_postings, at_once
        self._done: list[Segment] = []
        self._open = _Columns()

    def take(self, document: Document, raw: bytes) -> None:
        """Takes in a document. `raw` is what it was parsed from."""
        tokens = passage_tokens(document, raw, self.numbering.of_text, self.numbering.of_bytes)
        self.add(document.source_id, document.passages, tokens)

    def add(self, source_id: str, passages: Sequence[Passage], tokens: Iterable[PassageTokens[bytes]]) -> None:
        """Takes in passages with the numbers of their terms, as `numbering` gives them."""
        self._open.ids.append(source_id)
        for ordinal, (passage, found) in enumerate(zip(passages, tokens, strict=True)):
            if self._open.postings >= self._max_postings:
                self._close()
                self._open.ids.append(source_id)
            self._open.add(passage, found, first=ordinal == 0)
            if len(self._open.tokens) >= self._at_once:
                self._open.count()

    def build(self) -> list[Segment]:
        """The segments of all that was taken in."""
        self._close()
        return self._done

    def _close(self) -> None:
        if self._open.lengths:
            self._done.append(self._open.segment(self.numbering.terms))
        self._open = _Columns()


@dataclass
class _Columns:
    """A segment while it grows: plain arrays, as they take little memory and grow fast."""

    ids: list[str] = field(default_factory=list)
    tokens: array[int] = field(default_factory=lambda: array(NUMBER))
    lengths: array[int] = field(default_factory=lambda: array("I"))
    #: Postings counted so far, and tokens that are not: more or less what there will be.
    postings: int = 0
    _documents: array[int] = field(default_factory=lambda: array("I"))
    _starts: array[int] = field(default_factory=lambda: array("q"))
    _ends: array[int] = field(default_factory=lambda: array("q"))
    _first: bytearray = field(default_factory=bytearray)
    #: Of each passage that is not counted yet: how many of `tokens` are its own, then how many are its context's.
    _sizes: array[int] = field(default_factory=lambda: array("I"))
    _counted: list[_Counted] = field(default_factory=list)

    def add(self, passage: Passage, found: PassageTokens[bytes], *, first: bool) -> None:
        """Takes in a passage of the document that `ids` names last."""
        self.tokens.frombytes(found.own)
        self.tokens.frombytes(found.context)
        own, context = len(found.own) // self.tokens.itemsize, len(found.context) // self.tokens.itemsize
        self.postings += own + context
        self._sizes.append(own)
        self._sizes.append(context)
        self.lengths.append(own + context)
        self._documents.append(len(self.ids) - 1)
        self._starts.append(passage.start)
        self._ends.append(passage.end)
        self._first.append(first)

    def count(self) -> None:
        """Turns tokens into postings."""
        sizes, tokens = _view(self._sizes), _view(self.tokens)
        if len(tokens):
            begin = len(self.lengths) - len(sizes) // 2
            # One number a token: term, passage, whether it is the passage's own. Sorting numbers is fast.
            keys = np.repeat((np.arange(len(sizes), dtype=np.uint64) + np.uint64(2 * begin)) ^ np.uint64(1), sizes)
            keys |= tokens.astype(np.uint64) << np.uint64(32)
            keys.sort()
            counted = _count(keys)
            self.postings += len(counted.passages) - len(tokens)
            self._counted.append(counted)
        self._sizes, self.tokens = array("I"), array(NUMBER)

    def segment(self, terms: Sequence[str]) -> Segment:
        """The finished segment."""
        self.count()
        used = np.unique(np.concatenate([one.terms for one in self._counted])) if self._counted else np.zeros(0, int)
        texts = [terms[number].encode("utf-8", "surrogatepass") for number in used.tolist()]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        ranks = np.empty(len(texts), np.int64)
        ranks[order] = np.arange(len(texts))
        parts = [one._replace(terms=ranks[np.searchsorted(used, one.terms)]) for one in self._counted]
        columns = _view(self.lengths), _view(self._documents), _view(self._starts), _view(self._ends)
        first = np.frombuffer(bytes(self._first), np.bool_)
        return make_segment([texts[place] for place in order], *_joined(parts, len(texts)), (*columns, first), self.ids)


def _view(values: array[int]) -> Array:
    return np.frombuffer(values, f"u{values.itemsize}") if values else np.zeros(0, f"u{values.itemsize}")


def _count(keys: npt.NDArray[np.uint64]) -> _Counted:
    """Runs of equal numbers, but for their lowest bit, as postings."""
    pairs = keys >> np.uint64(1)
    begins = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1])))
    times = np.diff(begins, append=len(keys))
    # The last of a run tells: what is a passage's own is sorted behind its context.
    own = (keys[begins + times - 1] & np.uint64(1)).astype(np.int64)
    counts = np.where(2 * times + own > MAX_COUNT, MAX_COUNT - 1 + own, 2 * times + own).astype(np.uint16)
    pairs = pairs[begins]
    terms = (pairs >> np.uint64(31)).astype(np.uint32)
    firsts = np.flatnonzero(np.concatenate(([True], terms[1:] != terms[:-1])))
    passages = (pairs & np.uint64((1 << 31) - 1)).astype(np.uint32)
    return _Counted(terms[firsts], np.diff(firsts, append=len(terms)), passages, counts)


def _joined(parts: Sequence[_Counted], terms: int) -> tuple[Array, Array, Array]:
    """The postings of several parts by term, those of each part in the order of the parts; and how many a term has."""
    sizes = np.zeros(terms, np.int64)
    for part in parts:
        sizes[part.terms] += part.sizes
    free = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))[:-1]
    passages, counts = np.empty(sizes.sum(), np.uint32), np.empty(sizes.sum(), np.uint16)
    for part in parts:
        begins = np.cumsum(part.sizes) - part.sizes
        places = np.repeat(free[part.terms] - begins, part.sizes)
        places += np.arange(len(places))
        passages[places], counts[places] = part.passages, part.counts
        free[part.terms] += part.sizes
    return sizes, passages, counts


def merge(parts: Sequence[tuple[Segment, Live]]) -> Segment:
    """One segment of the live passages of several: what building it anew would give, without reading a file."""
    numbers = _Numbers()
    counted, columns = list[_Counted](), list[tuple[Array, ...]]()
    vocabularies = [segment.terms.all_raw() for segment, _ in parts]
    terms = sorted(set().union(*vocabularies))
    ranks = {term: rank for rank, term in enumerate(terms)}
    base = 0
    for (segment, live), vocabulary in zip(parts, vocabularies, strict=True):
        known = np.fromiter(map(ranks.__getitem__, vocabulary), np.int64, len(vocabulary))
        counted.append(_kept(segment, live, known, base))
        ids = [numbers[one] for one in segment.ids]
        columns.append(
            (
                segment.lengths[live],
                np.array(ids, np.uint32)[segment.documents[live]],
                segment.starts[live],
                segment.ends[live],
                segment.first[live],
            )
        )
        base += int(np.count_nonzero(live))
    sizes, passages, counts = _joined(counted, len(terms))
    lengths, documents, *rest = (np.concatenate(column) for column in zip(*columns, strict=True))
    held, documents = np.unique(documents, return_inverse=True)
    ids_by_number = list(numbers)
    used = np.flatnonzero(sizes).tolist()
    return make_segment(
        [terms[number] for number in used],
        sizes[sizes > 0],
        passages,
        counts,
        (lengths, documents, *rest),
        [ids_by_number[number] for number in held.tolist()],
    )


def _kept(segment: Segment, live: Live, known: Array, base: int) -> _Counted:
    """The live postings of a segment, with new numbers for its terms and passages."""
    sizes = np.diff(segment.offsets.astype(np.int64))
    passages, counts = segment.passages, segment.counts_at(slice(0, len(segment.counts)))
    if not live.all():
        kept = live[passages]
        edges = segment.offsets[:-1].astype(np.int64)
        sizes = np.add.reduceat(kept, edges, dtype=np.int64) if len(edges) else sizes
        passages, counts = passages[kept], counts[kept]
    numbers = (np.cumsum(live, dtype=np.int64) - 1 + base).astype(np.uint32)
    return _Counted(known, sizes, numbers[passages], counts.astype(np.uint16))


class _Numbers(dict[str, int]):
    """Numbers for ids, given when one first comes."""

    def __missing__(self, key: str) -> int:
        self[key] = number = len(self)
        return number
