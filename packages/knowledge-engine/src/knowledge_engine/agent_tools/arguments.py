"""Arguments as agents write them: taken where they can mean one thing only, else refused with a reason.

- Numbers may be text (`"5"`) or whole floats (`5.0`); never booleans.
- None and blank text mean "not given".
- A filter may be JSON text of an object.
- camelCase stands for snake_case (`topK`, `docId`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, cast

from pydantic import JsonValue

from knowledge_engine.agent_tools.plain import plain, scrub, shorten
from knowledge_engine.errors import InvalidArgumentError, InvalidFilterError, TooLargeError
from knowledge_engine.models import MAX_QUERY_CHARS

#: Arguments of one call.
MAX_ARGUMENTS = 100
#: Characters of an id, a section's name or a cursor; no longer one can exist.
MAX_NAME_CHARS = 20_000
#: Characters of a filter that is given as text.
MAX_FILTER_CHARS = 100_000
_ANY = "any"


class ScalarFilters(NamedTuple):
    """Conditions given as plain arguments, and the names of those that were left blank."""

    conditions: dict[str, JsonValue]
    blank: tuple[str, ...]


def text_argument(name: str, value: object, *, limit: int = MAX_NAME_CHARS) -> str | None:
    """Text; a number stands for its digits. None where nothing is given.

    Raises:
        InvalidArgumentError, TooLargeError: For anything else, and for text over the limit.
    """
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(plain(value))
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} is {kind_of(value)}", mend=f"Give {name} as text.")
    if len(value) > limit:
        raise TooLargeError(f"{name} has {len(value)} characters", mend=f"Give at most {limit}.")
    text = scrub(value)
    return text if text.strip() else None


def query_argument(value: object) -> str | None:
    """The words to look for. One character more than allowed comes through, for the service to refuse as it does."""
    if isinstance(value, str) and len(value) > MAX_QUERY_CHARS:
        value = value[: MAX_QUERY_CHARS + 1]
    return text_argument("query", value)


def whole_number(name: str, value: object) -> int | None:
    """A whole number from 1 on; None where nothing is given.

    Raises:
        InvalidArgumentError: For anything else.
    """
    number = real_number(name, value)
    if number is None:
        return None
    if number < 1 or number != int(number):
        raise InvalidArgumentError(f"{name} is {number:g}", mend=f"Give {name} as a whole number from 1 on.")
    return int(number)


def real_number(name: str, value: object) -> float | None:
    """A finite number; None where nothing is given.

    Raises:
        InvalidArgumentError: For anything else.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        # Longer text spells no number worth reading; huge integers overflow.
        with suppress(ValueError, OverflowError):
            number = float(value if not isinstance(value, str) or len(value) < 100 else "nan")
    if not math.isfinite(number):
        given = "nan or infinity" if kind_of(value) == "a number" else kind_of(value)
        raise InvalidArgumentError(f"{name} has to be a finite number, not {given}", mend="Give one, such as 5.")
    return number


def filter_argument(value: object) -> dict[str, JsonValue]:
    """Conditions on metadata; empty where nothing is given.

    Raises:
        InvalidFilterError: For anything but an object, or JSON text of one.
    """
    mend = 'Give filter as an object such as {"protocol": "modbus"}.'
    if isinstance(value, str):
        value = _parsed("filter", value)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidFilterError(f"filter is {kind_of(value)}", mend=mend)
    return cast(dict[str, JsonValue], plain(value))


def scalar_filters(arguments: Mapping[str, object]) -> ScalarFilters:
    """Conditions from arguments: a value, or a list of values of which any will do; "any", in any case, asks nothing.

    Raises:
        InvalidFilterError: For a value that is neither.
        InvalidArgumentError: For too many of them.
    """
    if len(arguments) > MAX_ARGUMENTS:
        raise _too_many()
    conditions: dict[str, JsonValue] = {}
    blank: list[str] = []
    for key, value in arguments.items():
        name = scrub(key)
        if value is None or (isinstance(value, str) and value.strip().casefold() == _ANY):
            continue
        if isinstance(value, str) and not value.strip():
            blank.append(shorten(name, 40))
            continue
        values = value if isinstance(value, list | tuple) else [value]
        if not all(_is_scalar(item) for item in values):
            raise InvalidFilterError(
                f"{shorten(name, 40)} is {kind_of(value)}",
                mend="Give a text, a number, true or false, or a list of them; put other conditions into `filter`.",
            )
        conditions[name] = plain(value)
    return ScalarFilters(conditions, tuple(blank))


def call_arguments(value: object) -> dict[str, object]:
    """The arguments of a call by name: a mapping, JSON text of an object, or nothing.

    Raises:
        InvalidArgumentError: For anything else, and for too many.
    """
    if isinstance(value, str):
        value = _parsed("arguments", value)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"The arguments are {kind_of(value)}", mend="Give them by name, as an object.")
    found: dict[str, object] = {}
    for key in islice(value, MAX_ARGUMENTS + 1):
        if not isinstance(key, str):
            raise InvalidArgumentError(f"An argument's name is {kind_of(key)}", mend="Names of arguments are text.")
        found[scrub(key)] = value[key]
    if len(found) > MAX_ARGUMENTS:
        raise _too_many()
    return found


def kind_of(value: object) -> str:
    """What a value is, in words; never the value itself, which may be huge or secret."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    for kind, words in ((str, "text"), (int | float, "a number"), (Mapping, "an object"), (list | tuple, "a list")):
        if isinstance(value, kind):
            return words
    return f"a value of type {type(value).__name__}"


def _too_many() -> InvalidArgumentError:
    return InvalidArgumentError("Too many arguments", mend=f"Give at most {MAX_ARGUMENTS}.")


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def _parsed(name: str, text: str) -> object:
    """The value of JSON text; None for blank text."""
    if len(text) > MAX_FILTER_CHARS:
        raise TooLargeError(f"{name} has {len(text)} characters", mend=f"Give at most {MAX_FILTER_CHARS}.")
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgumentError(f"{name} is text, but not JSON", mend=f"Give {name} as an object.") from None
