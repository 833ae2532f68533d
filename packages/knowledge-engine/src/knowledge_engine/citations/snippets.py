"""Snippets: the part of a passage that shows why it was found, with the matching words marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import NamedTuple

from knowledge_engine.analysis import Analyzer, Token
from knowledge_engine.citations.cutting import STOP, belongs, byte_offset, check_limit, decode, stop_index
from knowledge_engine.models import ByteSpan, Snippet


class _Match(NamedTuple):
    """A matching token in characters."""

    start: int
    end: int
    term: str


def make_snippet(data: bytes, base: int, terms: Collection[str], analyzer: Analyzer, max_chars: int = 240) -> Snippet:
    """The window of at most `max_chars` characters with the most different terms, then matches, then the first one.

    Args:
        data: The bytes of the passage.
        base: Where they begin in the document; spans in the answer count from its beginning.
        terms: As `analyzer.query_terms` gives them.

    The window begins and ends at lines, sentences or words where there are any, and has no white space at its ends.
    Overlapping or touching matches, such as an identifier and its parts, are one highlight. Without a match it is
    the passage's beginning.

    Raises:
        InvalidArgumentError: When `max_chars` is less than 1.
    """
    check_limit(max_chars)
    wanted = frozenset(terms)
    found = sorted(analyzer.tokens(data, wanted), key=itemgetter(1, 2))
    text = decode(data)
    first, last = _window(text, _in_characters(data, text, found), max_chars)
    start, end = byte_offset(data, text, first), byte_offset(data, text, last)
    return Snippet(
        text=text[first:last],
        span=ByteSpan(start=base + start, end=base + end),
        highlights=tuple(ByteSpan(start=base + one, end=base + other) for one, other in _merged(found, start, end)),
    )


def _in_characters(data: bytes, text: str, tokens: Sequence[Token]) -> list[_Match]:
    index: dict[int, int] = {}
    chars, before = 0, 0
    for offset in sorted({offset for token in tokens for offset in token[1:]}):
        chars += offset - before if len(text) == len(data) else len(decode(data[before:offset]))
        index[offset], before = chars, offset
    return [_Match(index[token.start], index[token.end], token.term) for token in tokens]


def _merged(tokens: Sequence[Token], start: int, end: int) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for token in tokens:
        one, other = max(token.start, start), min(token.end, end)
        if merged and one <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], other))
        elif one < other:
            merged.append((one, other))
    return merged


def _window(text: str, matches: Sequence[_Match], limit: int) -> tuple[int, int]:
    begin, stop = len(text) - len(text.lstrip()), len(text.rstrip())
    if stop - begin <= limit:
        return min(begin, stop), stop
    first, last = _densest(matches, limit) if matches else (begin, begin)
    start = _start(text, first, last, (begin, stop), limit)
    end = stop if stop - start <= limit else start + stop_index(text[start:], limit, max(last - start, limit // 2))
    while text[end - 1].isspace():
        end -= 1
    return start, end


def _densest(matches: Sequence[_Match], limit: int) -> tuple[int, int]:
    """Where the best group of matches that fits begins and ends. `matches` are by start."""
    fitting = [match._replace(end=min(match.end, match.start + limit)) for match in matches]
    coming = sorted(fitting, key=lambda match: match.end, reverse=True)
    inside = Counter[str]()
    best, anchor = (0, 0), 0
    for match in fitting:
        while coming and coming[-1].end <= match.start + limit:
            inside[coming.pop().term] += 1
        score = (len(inside), inside.total())
        if score > best:
            best, anchor = score, match.start
        inside[match.term] -= 1
        if not inside[match.term]:
            del inside[match.term]
    return anchor, max(match.end for match in fitting if anchor <= match.start and match.end <= anchor + limit)


def _start(text: str, first: int, last: int, bounds: tuple[int, int], limit: int) -> int:
    """Where to begin a window that holds [first, last): with as much before as after, at a sentence, line or word."""
    begin, stop = bounds
    earliest = max(begin, last - limit)
    even = max(earliest, min(first - (limit - (last - first)) // 2, stop - limit))
    if even == begin:
        return begin
    stop_before = STOP.search(text, (earliest + even) // 2, first)
    for index in range(stop_before.end() if stop_before else even, first + 1):
        if not text[index].isspace() and (stop_before or text[index - 1].isspace()):
            return index
    return next((index for index in range(even, first) if not belongs(text, index)), first)
