"""What to do when nothing was found: values that exist, and the nearest ones."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from difflib import get_close_matches

from pydantic import JsonValue

from knowledge_engine.agent_tools.plain import scrub, shorten
from knowledge_engine.catalogue import NAMING_KEYS, Catalogue, fold, texts_of

_SHOWN = 10
#: Conditions that are explained.
_EXPLAINED = 3
_MAX_COMPARED = 2_000
_MAX_CHARS = 60
#: Values that are longer are told apart by their beginning only.
MAX_VALUE_CHARS = 1_000


def nothing_found(catalogue: Catalogue, conditions: Mapping[str, JsonValue], query: str | None) -> str:
    """Why a list is empty, as far as `conditions` (key: value or values) and `query` tell, and what to try."""
    if not catalogue.sources:
        return "The library has no documents."
    said: list[str] = []
    for key, asked in conditions.items():
        wanted = texts_of(asked)
        if key in NAMING_KEYS or not wanted:
            continue
        if len(said) < _EXPLAINED and not any(text in catalogue.values.get(key, {}) for text in wanted):
            said.append(_missing(catalogue.values, key, wanted[0]))
    if said:
        return " ".join(said)
    if query is not None:
        also = " together with these filters" if conditions else ""
        return (
            f"No catalogue entry matches {shorten(scrub(query), _MAX_CHARS)!r}{also}. Try fewer or other words, list "
            "without `query`, or search the full text, where there is a tool for that."
        )
    return "No document meets all conditions. Leave one out, or give it as 'any'."


def respelled(catalogue: Catalogue, conditions: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """The conditions with values that documents have, where they differ from those asked for in letter case, Unicode
    spelling or invisible characters only; None where there are no such values.
    """
    found: dict[str, JsonValue] = {}
    for key, asked in conditions.items():
        values: Mapping[str, int] = catalogue.values.get(key, {})
        wanted = texts_of(asked)
        if key in NAMING_KEYS or not wanted or any(text in values for text in wanted):
            continue
        seen = {_seen(text) for text in wanted}
        if alike := sorted(value for value in values if _seen(value) in seen):
            found[key] = [*alike]
    return {**conditions, **found} if found else None


def _seen(text: str) -> str:
    """How a value reads, whatever its letter case."""
    return fold("".join(char for char in text[:MAX_VALUE_CHARS] if unicodedata.category(char) != "Cf"))


def _missing(counts: Mapping[str, Mapping[str, int]], key: str, wanted: str) -> str:
    name = shorten(key, _MAX_CHARS)
    values = counts.get(key)
    if not values:
        known = sorted(counts)[:_MAX_COMPARED]
        near = get_close_matches(name, known, 1) or known[:_SHOWN]
        return f"No document has the key {name!r}. Keys to filter by: {_shown(near)}."
    ranked = sorted(values, key=lambda value: (-values[value], value))
    folded = {value.casefold(): value for value in reversed(ranked[:_MAX_COMPARED])}
    near = [folded[value] for value in get_close_matches(wanted.casefold()[:_MAX_CHARS], folded, 3)]
    nearest = f" Nearest: {_shown(near)}." if near else ""
    more = f" and {len(ranked) - _SHOWN} more" if len(ranked) > _SHOWN else ""
    return (
        f"No document has {name} {shorten(wanted, _MAX_CHARS)!r}.{nearest} "
        f"Values of {name}: {_shown(ranked[:_SHOWN])}{more}."
    )


def _shown(values: list[str]) -> str:
    return ", ".join(shorten(value, _MAX_CHARS) for value in values)
