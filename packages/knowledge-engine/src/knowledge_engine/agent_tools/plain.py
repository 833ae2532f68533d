"""Anything to plain JSON: what leaves for an agent always serialises, whatever went in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from datetime import date, time

from pydantic import JsonValue

MAX_DEPTH = 32
#: Values of one answer, nested ones included.
MAX_VALUES = 50_000
_CUT = "…"
_Nested = Mapping[object, object] | list[object] | tuple[object, ...] | Set[object]
# JSON has no limit, but Python prints no integer of more than 4,300 digits, and no reader takes one for a number.
_MAX_INTEGER_BITS = 1024


def scrub(text: str) -> str:
    """The text with each half of a surrogate pair replaced, as UTF-8 cannot hold it; whole pairs become characters."""
    if type(text) is str and text.isascii():
        return text
    plain_text = str.__str__(text)  # a subclass may have a __str__ of its own
    try:
        plain_text.encode()
    except UnicodeEncodeError:
        return plain_text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return plain_text


def shorten(text: str, limit: int) -> str:
    """The text, or its beginning with a mark that something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + _CUT


def plain(value: object) -> JsonValue:
    """A copy of `value` as strict JSON with string keys.

    NaN and infinities become text, bytes are read as UTF-8, dates as ISO 8601; what JSON has no form for is named by
    its type. What is nested deeper than `MAX_DEPTH` (so is a cycle), or comes after `MAX_VALUES`, is cut off.
    """
    return _Copier().copy(value, 0)


class _Copier:
    def __init__(self) -> None:
        self._left = MAX_VALUES

    def copy(self, value: object, depth: int) -> JsonValue:
        self._left -= 1
        if isinstance(value, str):
            return scrub(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return _number(value)
        if isinstance(value, Mapping | list | tuple | Set):
            return self._nested(value, depth)
        return _named(value)

    def _nested(self, value: _Nested, depth: int) -> JsonValue:
        if depth >= MAX_DEPTH or self._left <= 0:
            return _CUT
        if isinstance(value, Mapping):
            out: dict[str, JsonValue] = {}
            for key in value:
                if self._left <= 0:
                    break
                item = value[key]
                name = key if type(key) is str and key.isascii() else _key(key)
                # Most values are such texts: a call for each would take longer than all the rest.
                if type(item) is str and item.isascii():
                    self._left -= 1
                    out[name] = item
                else:
                    out[name] = self.copy(item, depth + 1)
            return out
        items: list[JsonValue] = []
        for item in value:
            if self._left <= 0:
                break
            items.append(self.copy(item, depth + 1))
        return items


def _number(value: float) -> JsonValue:
    if isinstance(value, int):
        number = int.__int__(value)
        return number if number.bit_length() <= _MAX_INTEGER_BITS else shorten(f"{number:#x}", 64)
    real = float.__float__(value)
    return real if math.isfinite(real) else repr(real)


def _key(key: object) -> str:
    if isinstance(key, str):
        return scrub(key)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return str(_number(key)) if isinstance(key, int | float) else str(_named(key))


def _named(value: object) -> JsonValue:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, date | time):
        return value.isoformat()
    return f"<{type(value).__name__}>"
