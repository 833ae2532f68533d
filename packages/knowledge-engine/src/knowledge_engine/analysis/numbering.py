"""Terms as numbers: what an index that is made of arrays counts and sorts."""

from __future__ import annotations

from array import array

from knowledge_engine.analysis.analyzer import Analyzer, Recent, chunks, encoded

#: The type code of `array` for the numbers: 32 bits, of this machine's byte order.
NUMBER = "I" if array("I").itemsize == 4 else "L"

_RECENT = 60_000


class Numbering:
    """Gives each term a number when it first comes: 0, 1, 2, and so on. For one thread at a time.

    Text repeats itself, so the terms of each chunk between blanks are worked out once, and then only put together.

    >>> numbering = Numbering(Analyzer())
    >>> list(array(NUMBER, numbering.of_text("Valves open: open the valve"))), numbering.terms
    ([0, 1, 1, 2, 0], ['valv', 'open', 'the'])
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer, self._numbers = analyzer, _Numbers()
        self._chunks = Recent(self._numbered, _RECENT)

    @property
    def terms(self) -> list[str]:
        """The terms in the order of their numbers. It grows."""
        return self._numbers.terms

    def of_text(self, text: str) -> bytes:
        """The numbers of `Analyzer.terms`, in its order: the bytes of an array of `NUMBER`."""
        return self.of_bytes(encoded(text))

    def of_bytes(self, raw: bytes) -> bytes:
        """The same for UTF-8; other bytes separate words."""
        return b"".join(map(self._chunks.__getitem__, chunks(raw)))

    def _numbered(self, chunk: str) -> bytes:
        return array(NUMBER, map(self._numbers.__getitem__, self._analyzer.chunk_terms(chunk))).tobytes()


class _Numbers(dict[str, int]):
    """Numbers by term."""

    def __init__(self) -> None:
        self.terms: list[str] = []

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self.terms)
        self.terms.append(term)
        return number
