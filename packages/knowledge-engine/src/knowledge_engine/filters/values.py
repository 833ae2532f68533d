"""What an operator says of a value that is not null."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any
from unicodedata import normalize

Scalar = str | int | float | bool
ValueTest = Callable[[object], bool]
Compare = Callable[[Any, Any], Any]

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(
    r"([0-9]{4})-([0-9]{2})(?:-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?(?:[Zz]|([+-])([0-9]{2}):?([0-9]{2})?)?)?)?"
)
#: Longer strings spell no number and no date: Python may be set to refuse integers of more than 640 digits.
_MAX_SPELLED = 600


def nfc(text: str) -> str:
    """The form in which texts are compared: spellings that look the same are the same."""
    return text if text.isascii() else normalize("NFC", text)


def always(_value: object) -> bool:
    """Whatever the value is."""
    return True


def never(_value: object) -> bool:
    """Whatever the value is, no."""
    return False


def by_element(test: ValueTest) -> ValueTest:
    """True of a list when `test` is true of any element."""

    def check(value: object) -> bool:
        return any(map(test, value)) if isinstance(value, list) else test(value)

    return check


def equals_any(values: Iterable[Scalar | None]) -> ValueTest:
    """True of a scalar, or of a list with one, that equals any of the values; strings among them are NFC."""
    # Sets of their own, as Python holds 1, 1.0 and True to be one key.
    flags = {value for value in values if isinstance(value, bool)}
    numbers = {value for value in values if isinstance(value, int | float) and not isinstance(value, bool)}
    written = {value for value in values if isinstance(value, str)}
    readable = written | {_spelled(value) for value in (*flags, *numbers)}

    def test(value: object) -> bool:
        if isinstance(value, str):
            return nfc(value) in readable
        if isinstance(value, bool):
            return value in flags or _spelled(value) in written
        return isinstance(value, int | float) and (value in numbers or _spelled(value) in written)

    return by_element(test)


def _spelled(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return str(value)
    except ValueError:  # Python prints no integer of more than 4,300 digits, except like this
        return hex(int(value))


def contains(wanted: Scalar) -> ValueTest:
    """True of a string that holds `wanted`, and of a list that has it as an element."""
    is_wanted, part = equals_any([wanted]), _spelled(wanted)

    def check(value: object) -> bool:
        return part in nfc(value) if isinstance(value, str) else isinstance(value, list) and is_wanted(value)

    return check


def ordered(compare: Compare, bound: Scalar) -> ValueTest | None:
    """True of what stands in that order to `bound`; None when nothing can."""
    for read in (_number, _instant):
        if (limit := read(bound)) is not None:
            return by_element(_comparison(compare, read, limit))
    return None


def _comparison(compare: Compare, read: Callable[[object], object], limit: object) -> ValueTest:
    def test(value: object) -> bool:
        found = read(value)
        return found is not None and bool(compare(found, limit))

    return test


def _number(value: object) -> int | float | None:
    if isinstance(value, str):
        if len(value) > _MAX_SPELLED or not _NUMBER.fullmatch(value):
            return None
        value = int(value) if _INTEGER.fullmatch(value) else float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def _instant(value: object) -> tuple[int, str] | None:
    """Seconds since the year 1 in UTC and the fraction's digits: exact, and no time zone overflows it."""
    if not isinstance(value, str) or len(value) > _MAX_SPELLED or not (match := _DATE.fullmatch(value)):
        return None
    *numbers, fraction, sign, zone_hour, zone_minute = match.groups()
    year, month, day = (int(number or 1) for number in numbers[:3])
    hour, minute, second, away_hour, away_minute = (
        int(number or 0) for number in (*numbers[3:], zone_hour, zone_minute)
    )
    if hour > 23 or max(minute, second, away_minute) > 59 or away_hour > 23:
        return None
    try:
        days = date(year, month, day).toordinal()
    except ValueError:
        return None
    away = (away_hour * 60 + away_minute) * (-1 if sign == "-" else 1)
    return ((days * 24 + hour) * 60 + minute - away) * 60 + second, (fraction or "").rstrip("0")
