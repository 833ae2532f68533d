"""How filters are talked of: what is wrong, and what is near."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from knowledge_engine.errors import InvalidFilterError

OPERATORS = ("eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", "exists", "prefix", "contains")
JOINERS = ("and", "or", "not")
#: What people write instead of an operator's name.
SIGNS = {
    "=": "eq",
    "==": "eq",
    "!=": "ne",
    ">": "gt",
    ">=": "gte",
    "<": "lt",
    "<=": "lte",
    "^=": "prefix",
    "~=": "contains",
}


def kind(value: object) -> str:
    """What sort of value it is, as JSON sees it; the value itself may be long or secret."""
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    names = {
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        type(None): "null",
        dict: "an object",
    }
    return names.get(type(value), "something that is not JSON")


def show(value: object) -> str:
    """A value in a message: short, and with nothing in it that cannot be printed."""
    text = str(value)
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def wrong_value(key: str, name: str, operand: object, wanted: str) -> InvalidFilterError:
    """The error for an operator that cannot take what it was given."""
    return InvalidFilterError(f"`{name}` on {show(key)} got {kind(operand)}", mend=f"It takes {wanted}.")


def unknown_operator(key: str, name: str) -> InvalidFilterError:
    """The error for a name that is no operator; it lists those that are, the nearest first."""
    near = SIGNS.get(name) or next(iter(difflib.get_close_matches(name[:40].casefold(), OPERATORS, n=1)), None)
    return InvalidFilterError(
        f"Unknown operator {show(name)} on {show(key)}",
        mend=f"{f'Did you mean {near!r}? ' if near else ''}Known are {', '.join((*OPERATORS, *JOINERS))}.",
    )


def nearest(key: str, known: Collection[str]) -> str:
    """The part of a sentence that names known keys like it; empty where there is none."""
    # Comparing costs up to the cube of the lengths, for each known key: only so many, and of like length.
    like = sorted(known, key=lambda name: (abs(len(name) - len(key)), name))[:500]
    folded = {name.casefold(): name for name in like if len(name) <= 40}
    near = difflib.get_close_matches(key[:40].casefold(), folded, n=3)
    return f"; the nearest is {' or '.join(show(folded[name]) for name in near)}" if near else ""
