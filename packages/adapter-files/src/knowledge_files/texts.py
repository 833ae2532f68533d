"""Very many short strings in two arrays: no object for any of them until it is asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def packed(texts: Iterable[bytes]) -> tuple[Array, Array]:
    """The bytes of all texts one behind the other, and where each ends."""
    listed = list(texts)
    ends = np.cumsum(np.fromiter(map(len, listed), np.int64, len(listed)))
    return np.frombuffer(b"".join(listed), np.uint8), narrow(ends)


def narrow(values: Array) -> Array:
    """Whole numbers from 0 on in 32 bits, if they fit."""
    return values.astype(np.uint32 if not len(values) or int(values.max()) < 1 << 32 else np.uint64)


class Texts(Sequence[str]):
    """Strings as UTF-8 in arrays, which may lie in a file that is mapped into memory.

    Args:
        blob: The bytes.
        ends: Where each string ends in them.
    """

    def __init__(self, blob: Array, ends: Array) -> None:
        self.blob, self.ends = blob, ends
        # Single items of a memoryview cost a third of those of an array.
        self._bytes, self._ends = blob.data, ends.data

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """These strings."""
        return cls(*packed(text.encode("utf-8", "surrogatepass") for text in texts))

    def raw(self, number: int) -> bytes:
        """The UTF-8 of a string."""
        return bytes(self._bytes[self._ends[number - 1] if number else 0 : self._ends[number]])

    def all_raw(self) -> list[bytes]:
        """All of them; many times faster than one by one."""
        data, ends = self.blob.tobytes(), self.ends.tolist()
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def find(self, text: str) -> int:
        """The number of a string, where all are in ascending order; -1 if there is none."""
        wanted = text.encode("utf-8", "surrogatepass")
        place = bisect_left(range(len(self)), wanted, key=self.raw)
        return place if place < len(self) and self.raw(place) == wanted else -1

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.raw(index).decode("utf-8", "surrogatepass")
