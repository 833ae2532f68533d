"""Filters as people type them on a command line."""

from __future__ import annotations

import json
import re

from pydantic import JsonValue

from knowledge_engine.errors import InvalidFilterError
from knowledge_engine.filters.compiler import compile_filter
from knowledge_engine.filters.messages import SIGNS, show

_WHERE = re.compile(r"([^=!<>^~]+)(==|!=|>=|<=|\^=|~=|[=<>])(.*)", re.DOTALL)
_WHERE_MEND = "Write key=value (or != > >= < <= ^= ~=), key, !key, or a JSON object."


def parse_where(text: str) -> dict[str, JsonValue]:
    """The filter that a person wrote on a command line.

    `key=value` (or `==`), `key!=value`, `key>value`, `key>=value`, `key<value`, `key<=value`, `key^=prefix`,
    `key~=part`, `key` (the document has it), `!key` (it has not), or a whole filter as a JSON object. Values are
    text, commas and all, without the white space around them; a key with one of these signs in it needs JSON.

    Raises:
        InvalidFilterError: When it is neither, or the filter is not valid.
    """
    text = text.strip()
    if text.startswith("{"):
        parsed = _parse_json(text)
    elif match := _WHERE.fullmatch(text):
        key, sign, value = (part.strip() for part in match.groups())
        if not key or not (value or SIGNS[sign] in ("eq", "ne")):
            raise InvalidFilterError(f"{show(text)} lacks a {'value' if key else 'key'}", mend=_WHERE_MEND)
        parsed = {key: {SIGNS[sign]: value}}
    else:
        key = text.removeprefix("!").strip()
        if not key or re.search(r"[=!<>^~]", key):
            raise InvalidFilterError(f"{show(text)} is not a condition", mend=_WHERE_MEND)
        parsed = {key: {"exists": not text.startswith("!")}}
    compile_filter(parsed)
    return parsed


def _parse_json(text: str) -> dict[str, JsonValue]:
    def unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise InvalidFilterError("The filter names a key twice in one object", mend="Join the two with `and`.")
        return found

    try:
        parsed: dict[str, JsonValue] = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidFilterError(
            f"The filter is not JSON{where}", mend='Write, say, {"year": {"gte": 2020}}.'
        ) from error
    return parsed
