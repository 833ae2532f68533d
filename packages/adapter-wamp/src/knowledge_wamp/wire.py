"""What goes over the wire: dicts that every serializer takes and gives back alike, within a size."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from knowledge_engine.agent_tools import plain
from knowledge_engine.agent_tools.plain import scrub
from knowledge_engine.errors import InvalidArgumentError, ProviderError

# JavaScript reads no greater number exactly, and msgpack holds none beyond 64 bits.
_MAX_INTEGER = 2**53 - 1
#: Digits of a number that is written as text; Python reads no more than 4,300.
_MAX_DIGITS = 4_000
_MAX_BITS = 13_000
#: Stands for a NUL at the beginning of a text: JSON transports take such a text for bytes.
_SHOWN_NUL = "\N{REPLACEMENT CHARACTER}"
#: Before what `pack` had to write otherwise.
_MARK = "\N{SYMBOL FOR NULL}"
# In JSON: a text that begins with NUL, or a number that may be too great. Texts may look so too, which costs time only.
_SUSPECT = re.compile(r'"\\u0000|\d{16}')


def clean(value: object) -> JsonValue:
    """`value` for agents: JSON that comes out the same of json, msgpack and cbor, in Python and in JavaScript.

    Beyond what `agent_tools.plain` does, a NUL at the beginning of a text is replaced, and an integer that a double
    cannot hold becomes text.
    """
    return _clean(plain(value))


def pack(value: JsonValue) -> JsonValue:
    """`value` for `unpack` on the other side: as `clean`, but nothing is lost.

    A text that begins with NUL or with U+2400, and a great integer as text with its sign, get U+2400 before them.

    Raises:
        InvalidArgumentError: For an integer of thousands of digits.
    """
    if isinstance(value, str):
        text = scrub(value)
        return _MARK + text if text.startswith(("\0", _MARK)) else text
    if isinstance(value, int):
        return value if isinstance(value, bool) or abs(value) <= _MAX_INTEGER else _packed_integer(value)
    if isinstance(value, list):
        return [pack(item) for item in value]
    if isinstance(value, dict):
        return {cast(str, pack(key)): pack(item) for key, item in value.items()}
    return value


def unpack(value: object) -> JsonValue:
    """What `pack` was given.

    Raises:
        ProviderError: For what is no JSON, or nested too deeply.
    """
    try:
        return _unpacked(value)
    except RecursionError:
        raise ProviderError("The other side sent what is nested too deeply", mend="Ask whoever runs it.") from None


def clean_sized(answer: Mapping[str, object]) -> tuple[dict[str, JsonValue], int]:
    """A tool's answer as `clean` makes it, and its size as JSON in UTF-8.

    What is plain JSON already, as nearly all answers are, is given back as it is: writing it once tells both.
    """
    try:
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if _SUSPECT.search(text) is None and type(answer) is dict:
            return answer, len(text) if text.isascii() else len(text.encode())
    except (TypeError, ValueError, RecursionError):
        pass
    cleaned = cast(dict[str, JsonValue], clean(answer))
    return cleaned, json_bytes(cleaned)


def json_bytes(value: JsonValue) -> int:
    """The size of a value as JSON in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _clean(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, int):
        return value if isinstance(value, bool) or abs(value) <= _MAX_INTEGER else str(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean_text(key): _clean(item) for key, item in value.items()}
    return value


def _clean_text(text: str) -> str:
    return _SHOWN_NUL + text[1:] if text.startswith("\0") else text


def _packed_integer(value: int) -> str:
    if value.bit_length() > _MAX_BITS:
        raise InvalidArgumentError("A number has too many digits", mend="Give it as text.")
    return f"{_MARK}{value:+d}"


def _unpacked(value: object) -> JsonValue:
    if isinstance(value, str):
        return _unpacked_text(value) if value.startswith(_MARK) else value
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_unpacked(item) for item in value]
    if isinstance(value, dict):
        return {str(_unpacked_key(key)): _unpacked(item) for key, item in value.items()}
    raise ProviderError(f"The other side sent a {type(value).__name__}", mend="Ask whoever runs it.")


def _unpacked_text(text: str) -> JsonValue:
    rest = text[1:]
    if rest[:1] in ("+", "-") and rest[1:].isdecimal() and len(rest) <= _MAX_DIGITS:
        return int(rest)
    return rest


def _unpacked_key(key: object) -> JsonValue:
    if not isinstance(key, str):
        raise ProviderError(f"The other side sent a key that is a {type(key).__name__}", mend="Ask whoever runs it.")
    return _unpacked(key)
