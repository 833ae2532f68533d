"""Ids of several backends side by side: `name:source_id`, and what conditions on them mean to each backend."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from unicodedata import normalize

from pydantic import JsonValue

from knowledge_engine.errors import ConfigurationError, InvalidIdError, NotFoundError
from knowledge_engine.filters import ID_KEY
from knowledge_engine.fs import check_path

# A letter in front: so no id with its name looks like a number or a date to a filter.
_NAME = re.compile(r"[^\W\d_][\w.-]{0,62}")
_JOINERS = ("and", "or")
# As conditions on a key: nothing is in no values, and everything is in none of them.
_NEVER: Mapping[str, JsonValue] = {"in": []}
_ALWAYS: Mapping[str, JsonValue] = {"nin": []}


class Place(NamedTuple):
    """A document of a backend."""

    backend: str
    source_id: str


def check_name(name: str) -> str:
    """`name` itself, if a backend may be called that.

    Raises:
        ConfigurationError: Unless it is a letter, followed by at most 62 letters, digits, `_`, `.` and `-`, in NFC.
    """
    if not _NAME.fullmatch(name) or normalize("NFC", name) != name:
        raise ConfigurationError(
            f"A backend cannot be named {name!r:.80}", mend="Use a letter, then letters, digits, '_', '.' and '-'."
        )
    return name


def joined(backend: str, source_id: str) -> str:
    """The id under which a document of a backend is known outside."""
    return f"{backend}:{source_id}"


def split(source_id: str, names: Collection[str]) -> Place:
    """The document that an id means.

    Raises:
        NotFoundError: When it begins with no backend's name; the message tells the names.
        InvalidIdError: When no document anywhere could have that id.
    """
    name, colon, rest = source_id.partition(":")
    if colon and name in names:
        return Place(name, rest)
    # A name of one letter is not the letter of a drive.
    check_path(rest if colon and _NAME.fullmatch(name) else source_id)
    raise NotFoundError(f"No source {source_id!r}", mend=_mend(names))


def split_new(source_id: str, names: Collection[str]) -> Place:
    """As `split`, for an id that need not exist.

    Raises:
        InvalidIdError: When it begins with no backend's name.
    """
    try:
        return split(source_id, names)
    except NotFoundError as error:
        raise InvalidIdError(f"{source_id!r} names no backend", mend=error.mend) from error


def _mend(names: Collection[str]) -> str:
    return f"Ids here are written BACKEND:ID; the backends are {', '.join(names)}."


def local_filter(filter: Mapping[str, JsonValue] | None, name: str) -> dict[str, JsonValue] | None:
    """What a filter on ids of the form `name:source_id` means to the backend of that name. `filter` compiles."""
    if not filter:
        return None
    found: dict[str, JsonValue] = {}
    for key, condition in filter.items():
        if key in _JOINERS and isinstance(condition, Sequence):
            found[key] = [local_filter(each, name) for each in condition if isinstance(each, Mapping)]
        elif key == "not" and isinstance(condition, Mapping):
            found[key] = local_filter(condition, name)
        else:
            found[key] = _on_id(condition, f"{name}:") if key == ID_KEY else condition
    return found


def _on_id(condition: JsonValue, prefix: str) -> JsonValue:
    """A condition on the id, as one on the backend's own ids. `prefix` is the backend's name with the colon."""
    if isinstance(condition, list | tuple):
        return _leaf("in", list(condition), prefix)
    if not isinstance(condition, Mapping):
        return _leaf("eq", condition, prefix)
    return {"and": [_entry(name, operand, prefix) for name, operand in condition.items()]}


def _entry(name: str, operand: JsonValue, prefix: str) -> JsonValue:
    if name in _JOINERS and isinstance(operand, list | tuple):
        return {name: [_on_id(each, prefix) for each in operand]}
    if name == "not":
        return {name: _on_id(operand, prefix)}
    return _leaf(name, operand, prefix)


def _leaf(name: str, operand: JsonValue, prefix: str) -> JsonValue:
    if name in ("eq", "in"):
        values = operand if isinstance(operand, list | tuple) else [operand]
        return {"in": _own(values, prefix)}
    if name in ("ne", "nin"):
        values = operand if isinstance(operand, list | tuple) else [operand]
        return {"nin": _own(values, prefix)}
    if name == "prefix" and isinstance(operand, str):
        return _begins(normalize("NFC", operand), prefix)
    if name == "contains":
        return _contains(normalize("NFC", operand) if isinstance(operand, str) else json.dumps(operand), prefix)
    # What is left compares numbers or dates, which no such id is, or asks whether there is an id.
    return dict(_ALWAYS if name == "exists" and operand is True else _NEVER)


def _own(values: Sequence[JsonValue], prefix: str) -> list[JsonValue]:
    """Of some ids those of one backend, without its name. An id is never missing, nor a number or a boolean."""
    texts = [normalize("NFC", value) for value in values if isinstance(value, str)]
    return [text.removeprefix(prefix) for text in texts if text.startswith(prefix)]


def _begins(text: str, prefix: str) -> JsonValue:
    if prefix.startswith(text):
        return dict(_ALWAYS)
    return {"prefix": text.removeprefix(prefix)} if text.startswith(prefix) else dict(_NEVER)


def _contains(text: str, prefix: str) -> JsonValue:
    if text in prefix:
        return dict(_ALWAYS)
    # In the id, or across the colon: then the name ends with the text's beginning and the id begins with its rest.
    across: list[JsonValue] = [{"prefix": text[at:]} for at in range(1, len(text)) if prefix.endswith(text[:at])]
    return {"or": [{"contains": text}, *across]}
