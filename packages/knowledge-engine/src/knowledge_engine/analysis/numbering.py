"""Terms as numbers: what an index that is made of arrays counts and sorts."""

from __future__ import annotations

from itertools import chain

from knowledge_engine.analysis.analyzer import Analyzer, chunks, encoded, keep


class Numbering:
    """Gives each term a number when it first comes: 0, 1, 2, and so on. For one thread at a time.

    Text repeats itself, so the terms of each chunk between blanks are worked out once, and then looked up in C.

    >>> numbering = Numbering(Analyzer())
    >>> numbering.of_text("Valves open: open the valve"), numbering.terms
    ([0, 1, 1, 2, 0], ['valv', 'open', 'the'])
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._numbers = _Numbers()
        self._chunks = _Chunks(analyzer, self._numbers)

    @property
    def terms(self) -> list[str]:
        """The terms in the order of their numbers. It grows."""
        return self._numbers.terms

    def of_text(self, text: str) -> list[int]:
        """The numbers of `Analyzer.terms`, in its order."""
        return self.of_bytes(encoded(text))

    def of_bytes(self, raw: bytes) -> list[int]:
        """The same for UTF-8; other bytes separate words."""
        return list(chain.from_iterable(map(self._chunks.__getitem__, chunks(raw))))


class _Numbers(dict[str, int]):
    """Numbers by term."""

    def __init__(self) -> None:
        self.terms: list[str] = []

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self.terms)
        self.terms.append(term)
        return number


class _Chunks(dict[str, tuple[int, ...]]):
    """Numbers by chunk."""

    def __init__(self, analyzer: Analyzer, numbers: _Numbers) -> None:
        self._analyzer, self._numbers = analyzer, numbers

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        return keep(self, chunk, tuple(map(self._numbers.__getitem__, self._analyzer.chunk_terms(chunk))))
