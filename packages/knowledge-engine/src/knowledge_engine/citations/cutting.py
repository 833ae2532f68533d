"""The text and hash of raw bytes, and prefixes of them that end where a reader would stop."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right

from knowledge_engine.errors import InvalidArgumentError
from knowledge_engine.models import ByteSpan

_CLOSING = r"""["'”’»›)\]}）］｝」』】〉》*_]*+"""
# Possessive, and begun at the first sign of a row only: a million full stops are read once.
STOP = re.compile(
    rf"(?<![.!?…])[.!?…]++{_CLOSING}(?=\s)"  # a sentence, where white space parts them
    rf"|[。！？｡।॥؟۔։።។။]++{_CLOSING}"  # a sentence, in scripts whose signs say so alone
    r"|\S(?=[^\S\r\n\u2028\u2029]*[\r\n\u2028\u2029])"  # a line
)
_ZERO_WIDTH_JOINER = "\u200d"
#: How far a hard cut goes back so as not to part a letter from its marks: someone may stack thousands.
_MARKS = 32


def content_hash(data: bytes) -> str:
    """SHA-256 in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def decode(data: bytes) -> str:
    """The bytes as UTF-8 text; those that are not UTF-8 show as U+FFFD."""
    return data.decode("utf-8", "replace")


def cite(raw: bytes, span: ByteSpan) -> tuple[str, str]:
    """Text and hash of a span, as a citation gives them."""
    data = raw[span.start : span.end]
    return decode(data), content_hash(data)


def cut_text(raw: bytes, span: ByteSpan, max_chars: int) -> ByteSpan:
    """The beginning of a span that has at most `max_chars` characters, as `decode` counts them.

    It ends after a sentence or line, if one ends in the second half of those characters; else after a word there;
    else at the limit, on a character boundary, and not before a combining mark or between CR and LF unless nothing
    would be left. Never empty, unless the span is. A span that reaches beyond the bytes is cut to them.

    Raises:
        InvalidArgumentError: When `max_chars` is less than 1.
    """
    check_limit(max_chars)
    # No character is longer than four bytes, and the one after the limit must be seen whole.
    data = raw[span.start : min(span.end, span.start + 4 * (max_chars + 1))]
    text = decode(data)
    if len(text) <= max_chars:
        return ByteSpan(start=span.start, end=span.start + len(data))
    end = byte_offset(data, text, stop_index(text, max_chars, max_chars // 2))
    return ByteSpan(start=span.start, end=span.start + end)


def check_limit(max_chars: int) -> None:
    """Refuses a limit that leaves no room for a character."""
    if max_chars < 1:
        raise InvalidArgumentError(f"max_chars is {max_chars!r}", mend="Use 1 or more.")


def byte_offset(data: bytes, text: str, index: int) -> int:
    """Where character `index` of `text` begins in `data`; `text` is `decode(data)`."""
    if len(text) == len(data):
        return index
    # U+FFFD has three bytes and never stands for more: equal sizes mean equal offsets.
    if len(text.encode()) == len(data):
        return len(text[:index].encode())
    return bisect_right(range(len(data) + 1), index, key=lambda end: len(decode(data[:end]))) - 1


def stop_index(text: str, limit: int, least: int) -> int:
    """Where to end a text that has more than `limit` characters: see `cut_text`; good places before `least` are not."""
    least = max(least, 1)
    shown = text[: limit + 1]
    stops = [match.end() for match in STOP.finditer(shown, least - 1) if least <= match.end() <= limit]
    if stops:
        return stops[-1]
    for index in range(limit, least - 1, -1):
        if shown[index].isspace() and not shown[index - 1].isspace():
            return index
    return next((index for index in range(limit, max(limit - _MARKS, 0), -1) if not belongs(shown, index)), limit)


def belongs(text: str, index: int) -> bool:
    """Whether the character at `index` is shown as one with that before it."""
    before, char = text[index - 1], text[index]
    return (
        unicodedata.category(char)[0] == "M"
        or _ZERO_WIDTH_JOINER in (before, char)
        or "\u1160" <= char <= "\u11ff"  # vowels and finals of decomposed Korean
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or (before == "\r" and char == "\n")
    )
