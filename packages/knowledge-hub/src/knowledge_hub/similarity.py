"""Which entries look alike: MinHash finds those that could be, the words themselves decide.

An entry is taken as its scenario's and content's shingles: sequences of words. MinHash over bands of hashes brings
together what shares many of them, in time linear in the number of entries; of what it brings together, the exact share
of common shingles is worked out.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from knowledge_hub.entries import Entry

#: Hashes of an entry, in bands of so many: two entries of which 60 % is the same meet in one of them by 99.9 %.
HASHES, BANDS = 96, 24
#: Words of a shingle.
WORDS = 2
#: From this share of common shingles on, entries are near duplicates.
ALIKE = 0.7
#: Of a longer entry the first so many words are looked at.
_MAX_WORDS = 4_000
#: Entries of one band that are compared with each other: those that follow each other there.
_COMPARED = 8
_SEED = 42
_KEY_BITS = (1 << 64) - 1
_WORD = re.compile(r"[^\W_]+")


def shingles(entry: Entry) -> frozenset[int]:
    """What stands for an entry's text: checksums of the sequences of its words, whatever their case."""
    words = _WORD.findall(f"{entry.scenario}\n{entry.content}".casefold())[:_MAX_WORDS]
    if len(words) < WORDS:
        return frozenset(zlib.crc32(word.encode()) for word in words)
    return frozenset(zlib.crc32(" ".join(words[at : at + WORDS]).encode()) for at in range(len(words) - WORDS + 1))


def similarity(one: frozenset[int], other: frozenset[int]) -> float:
    """The share of shingles that both have of those that either has; 0 for nothing."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0


class Bands:
    """Brings entries together that share a band of hashes. Holds a few numbers for each entry, and none of its text."""

    def __init__(self) -> None:
        self._numbers = array("Q")
        #: Of each entry, what stands for each of its bands.
        self._keys = array("Q")

    def add(self, number: int, found: frozenset[int]) -> None:
        """Takes in the entry of that number; one without words is like nothing."""
        if not found:
            return
        digest, width = digest_of(found), HASHES // BANDS
        self._numbers.append(number)
        self._keys.extend(hash(tuple(digest[at : at + width])) & _KEY_BITS for at in range(0, HASHES, width))

    def near(self) -> Iterator[tuple[int, int]]:
        """Pairs of entries that share a band, each once, the earlier number first; in order of the later one.

        Of very many that share one, each comes with those that follow it there.
        """
        numbers = np.frombuffer(self._numbers, np.uint64).astype(np.int64)
        keys = np.frombuffer(self._keys, np.uint64).reshape(-1, BANDS)
        found = [np.zeros((0, 2), np.int64)]
        for band in range(BANDS):
            order = np.argsort(keys[:, band], kind="stable")
            ordered = keys[order, band]
            for apart in range(1, _COMPARED + 1):
                same = np.flatnonzero(ordered[apart:] == ordered[:-apart])
                if not len(same):
                    break
                found.append(np.column_stack((numbers[order[same + apart]], numbers[order[same]])))
        pairs = np.unique(np.concatenate(found), axis=0)
        yield from ((int(earlier), int(later)) for later, earlier in pairs)


def digest_of(found: frozenset[int]) -> list[int]:
    """The hashes that stand for a set of shingles."""
    # Imported here: most who open a hub never slim it.
    from rensa import RMinHash

    hashed: Any = RMinHash(num_perm=HASHES, seed=_SEED)
    hashed.update([str(one) for one in found])
    digest: list[int] = hashed.digest()
    return digest


class Groups:
    """Which numbers belong together."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def join(self, one: int, other: int) -> None:
        """From now on these are in one group."""
        first, second = self._top(one), self._top(other)
        if first != second:
            self._above[max(first, second)] = min(first, second)

    def _top(self, one: int) -> int:
        while one in self._above:
            above = self._above[one]
            if above in self._above:
                self._above[one] = self._above[above]
            one = above
        return one

    def of(self, numbers: Iterable[int]) -> Iterator[list[int]]:
        """Groups of two or more, in order of their first."""
        found: dict[int, list[int]] = {}
        for one in sorted(numbers):
            found.setdefault(self._top(one), []).append(one)
        yield from (group for group in found.values() if len(group) > 1)
