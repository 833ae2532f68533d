"""Filters compiled to closures: checked once, cheap to apply to every document."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import JsonValue

from knowledge_engine.errors import InvalidFilterError
from knowledge_engine.filters.fields import ID_KEY, MAX_PARTS, getter
from knowledge_engine.filters.messages import JOINERS, OPERATORS, kind, nearest, show, unknown_operator, wrong_value
from knowledge_engine.filters.values import (
    Compare,
    Scalar,
    ValueTest,
    always,
    by_element,
    contains,
    equals_any,
    never,
    nfc,
    ordered,
)

MAX_DEPTH = 16
MAX_CONDITIONS = 1_000
#: Values of all `in` and `nin` lists together.
MAX_LISTED = 10_000
#: Characters of all keys and values together.
MAX_CHARS = 1 << 20

_Test = Callable[[Mapping[str, JsonValue], str], bool]

_ORDER: Mapping[str, Compare] = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
#: Numbers of a filter lie between it and its negative.
_HUGE = 10**400


@dataclass(frozen=True, slots=True)
class Filter:
    """A compiled filter. Equal when both ask the same in the same words, in whatever order."""

    #: The filter as JSON, the same for equal filters; for cursors and cache keys.
    canonical: str
    #: The metadata keys it names, `source_id` included.
    keys: frozenset[str] = field(compare=False)
    _test: _Test = field(compare=False, repr=False)
    _doubts: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def matches(self, metadata: Mapping[str, JsonValue], source_id: str = "") -> bool:
        """Whether a document with that metadata and id is let through. Never raises."""
        return self._test(metadata, source_id)

    def warnings(self, known_keys: Collection[str]) -> tuple[str, ...]:
        """A sentence for each key that no document has, and for each bound that nothing can be compared with.

        `known_keys` are the keys of all documents, dotted ones too: the union of their `metadata_keys`.
        """
        known = {nfc(key) for key in known_keys} | {ID_KEY}
        unknown = sorted(self.keys - known)
        # Looking for near names costs, and nobody reads the sixth suggestion.
        near = {key: nearest(key, known) for key in unknown[:5]}
        return (
            *(f"No document has the metadata key {show(key)}{near.get(key, '')}." for key in unknown),
            *self._doubts,
        )


def compile_filter(filter: Mapping[str, JsonValue] | None) -> Filter:
    """The filter as a value that is cheap to apply; None and the empty filter match everything.

    Raises:
        InvalidFilterError: For an unknown operator, a malformed value, or one over a limit of this module.
    """
    if filter is None or filter == {}:
        return Filter("{}", frozenset(), lambda _metadata, _id: True)
    compiler = _Compiler()
    node = compiler.filter(filter)
    return Filter(node.canonical, frozenset(compiler.keys), node.test, tuple(dict.fromkeys(compiler.doubts)))


def merge_filters(*filters: Mapping[str, JsonValue] | None) -> dict[str, JsonValue] | None:
    """The filter that asks for all of them; None when none of them asks anything."""
    asking = [dict(each) for each in filters if each]
    if len(asking) > 1:
        return {"and": [*asking]}
    return asking[0] if asking else None


class _Node(NamedTuple):
    test: _Test
    canonical: str


class _Compiler:
    """Turns one filter into closures and keeps count, so that the work is bounded."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.doubts: list[str] = []
        self._left = {"conditions": MAX_CONDITIONS, "listed values": MAX_LISTED, "characters": MAX_CHARS}

    def filter(self, raw: object, depth: int = MAX_DEPTH) -> _Node:
        nodes = []
        for key, condition in self._entries(raw, "A filter", depth):
            if key in JOINERS:
                nodes.append(self._join(key, condition, lambda each: self.filter(each, depth - 1)))
            else:
                nodes.append(self._on_key(self._text(key), condition, depth))
        return _joined("and", nodes)

    def _on_key(self, key: str, condition: object, depth: int) -> _Node:
        if key.count(".") >= MAX_PARTS:
            raise InvalidFilterError(f"{show(key)} has too many parts", mend=f"At most {MAX_PARTS} are looked up.")
        self.keys.add(key)
        if isinstance(condition, list | tuple):
            return self._leaf(key, "in", condition)
        if not isinstance(condition, Mapping):
            return self._leaf(key, "eq", condition)
        nodes = []
        for name, operand in self._entries(condition, f"The condition on {show(key)}", depth):
            if name in JOINERS:
                nodes.append(self._join(name, operand, lambda each: self._on_key(key, each, depth - 1)))
            else:
                nodes.append(self._leaf(key, name, operand))
        return _joined("and", nodes)

    @staticmethod
    def _entries(raw: object, what: str, depth: int) -> Iterable[tuple[str, object]]:
        if not isinstance(raw, Mapping):
            raise InvalidFilterError(f"{what} is {kind(raw)}", mend='It must be an object, say {"kind": "device"}.')
        if not raw:
            raise InvalidFilterError(f"{what} is empty", mend="Put a condition in it or leave it out.")
        if depth < 1:
            raise InvalidFilterError("The filter is nested too deep", mend=f"At most {MAX_DEPTH} levels are read.")
        for key in raw:
            if not isinstance(key, str):
                raise InvalidFilterError(f"{what} has {kind(key)} as a key", mend="Keys must be strings.")
        return raw.items()

    @staticmethod
    def _join(name: str, operand: object, compiled: Callable[[object], _Node]) -> _Node:
        if name == "not":
            test, canonical = compiled(operand)
            return _Node(lambda metadata, source_id: not test(metadata, source_id), f'{{"not":{canonical}}}')
        if not isinstance(operand, list | tuple) or not operand:
            raise InvalidFilterError(f"`{name}` got {kind(operand)}", mend="It takes a list of one or more conditions.")
        return _joined(name, [compiled(each) for each in operand])

    def _leaf(self, key: str, name: str, operand: object) -> _Node:
        self._spend("conditions", 1)
        missing, shown = False, operand
        if name in ("eq", "ne", "in", "nin"):
            values = self._listed(key, name, operand) if name.endswith("in") else [self._scalar(key, name, operand)]
            shown = values if name.endswith("in") else values[0]
            check, missing = equals_any(values), None in values
        elif name == "exists":
            if not isinstance(operand, bool):
                raise wrong_value(key, name, operand, "true or false")
            check = always
        else:
            check, shown = self._on_text(key, name, operand)
        negated = name in ("ne", "nin") or (name == "exists" and operand is False)
        get = getter(key)

        def test(metadata: Mapping[str, JsonValue], source_id: str) -> bool:
            value = get(metadata, source_id)
            return (missing if value is None else check(value)) is not negated

        return _Node(test, json.dumps({key: {name: shown}}, separators=(",", ":")))

    def _on_text(self, key: str, name: str, operand: object) -> tuple[ValueTest, object]:
        """The operators that take one value which is not null: ordering, prefix, contains."""
        if name not in OPERATORS:
            raise unknown_operator(key, name)
        value = self._scalar(key, name, operand)
        if name == "prefix":
            if not isinstance(value, str):
                raise wrong_value(key, name, operand, "a string")
            return by_element(lambda each: isinstance(each, str) and nfc(each).startswith(value)), value
        if name == "contains":
            if value is None:
                raise wrong_value(key, name, operand, "a string, a number or a boolean")
            return contains(value), value
        if value is None or isinstance(value, bool):
            raise wrong_value(key, name, operand, "a number, or a number or date as a string")
        check = ordered(_ORDER[name], value)
        if check is None:
            self.doubts.append(f"{show(value)} is neither number nor date: `{name}` on {show(key)} matches nothing.")
        return check or never, value

    def _listed(self, key: str, name: str, operand: object) -> list[Scalar | None]:
        if not isinstance(operand, list | tuple):
            raise wrong_value(key, name, operand, "a list")
        self._spend("listed values", len(operand))
        values = {json.dumps(value): value for value in (self._scalar(key, name, each) for each in operand)}
        return [values[text] for text in sorted(values)]

    def _scalar(self, key: str, name: str, value: object) -> Scalar | None:
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float) and -_HUGE < value < _HUGE:
            return value
        raise wrong_value(key, name, value, "a string, a finite number, a boolean or null")

    def _text(self, text: str) -> str:
        self._spend("characters", len(text))
        if not text.isascii():
            # Two halves of one character are that character, as in JSON: `canonical` has to be the same filter.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return nfc(text)

    def _spend(self, what: str, amount: int) -> None:
        self._left[what] -= amount
        if self._left[what] < 0:
            raise InvalidFilterError(f"The filter has too many {what}", mend="Ask for less, or in several queries.")


def _joined(name: str, nodes: list[_Node]) -> _Node:
    """All or any of them; one that stands there twice counts once, and their order does not count."""
    unique = {node.canonical: node.test for node in nodes}
    if len(unique) == 1:
        return nodes[0]
    tests, wanted = tuple(unique.values()), name == "or"

    def test(metadata: Mapping[str, JsonValue], source_id: str) -> bool:
        # A generator would cost as much again as the tests, and this runs for every document.
        for each in tests:
            if each(metadata, source_id) is wanted:
                return wanted
        return not wanted

    return _Node(test, f'{{"{name}":[{",".join(sorted(unique))}]}}')
