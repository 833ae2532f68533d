"""Filters as SQL conditions that let through exactly the documents that `Filter.matches` lets through.

What is looked at is the JSON text of a value, as it was stored: `5`, `5.0`, `"5"` and `true` are four texts, and
SQLite's rounding of numbers does not matter. Values that text alone does not decide (lists, and strings that may be
another spelling of what is asked) go to the engine's own test, as a function that SQL calls; so do whole filters that
would be too much for SQLite.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from unicodedata import normalize

from knowledge_engine.filters import Filter, compile_filter
from knowledge_sqlite.metadata_indexes import has_path, literal_value, value

#: SQLite's parser takes a hundred things that are open at once, and expressions a thousand levels deep.
_MAX_NESTED = 8
_MAX_WIDE = 32
_MAX_SQL_CHARS = 250_000
#: More of them are handed over as one.
_MAX_MARKS = 16

_NOT_ASCII = "'*[^ -~]*'"
#: ASCII characters that others are canonically equal to: KELVIN SIGN, GREEK QUESTION MARK, GREEK VARIA.
_DOUBLED = "K;`"
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SMALL_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_DAY = re.compile(r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])")
#: How far SQLite may misread a number, of its size, and much more than that.
_DOUBT = 1e-9
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}

Parameter = str | int | float


class Condition(NamedTuple):
    """A condition on a row of `documents`, true or not (NULL is not)."""

    sql: str
    parameters: Mapping[str, Parameter]
    #: What the functions `knowledge_value(number, json)` and `knowledge_document(number, metadata, id)` are to ask;
    #: the first of them of a metadata key named "".
    tests: Sequence[Filter]


def condition_of(wanted: Filter, indexed: Collection[str] = ()) -> Condition:
    """The condition for a filter.

    Args:
        indexed: Those of its keys that there is an index on.
    """
    builder = _Builder(indexed)
    with suppress(_TooLargeError):
        sql = builder.node(json.loads(wanted.canonical), _MAX_NESTED)
        if len(sql) <= _MAX_SQL_CHARS:
            return Condition(sql, builder.parameters, builder.tests)
    return Condition("knowledge_document(0, metadata, id)", {}, [wanted])


class _TooLargeError(Exception):
    pass


class _Builder:
    """Writes conditions and collects what they refer to. Values stand only in the parameters."""

    def __init__(self, indexed: Collection[str]) -> None:
        self._indexed = indexed
        self._names: dict[tuple[type, Parameter], str] = {}
        self.parameters: dict[str, Parameter] = {}
        self.tests: list[Filter] = []

    def node(self, tree: Mapping[str, Any], depth: int) -> str:
        """`tree`: of `Filter.canonical`."""
        if not tree:
            return "1"
        if depth == 0:
            raise _TooLargeError
        [(key, operand)] = tree.items()
        if key == "not":
            return f"({self.node(operand, depth - 1)} IS NOT TRUE)"
        if key in ("and", "or"):
            return _joined(f" {key.upper()} ", [self.node(each, depth - 1) for each in operand])
        [(name, wanted)] = operand.items()
        return self._leaf(key, name, wanted)

    def _leaf(self, key: str, name: str, wanted: Any) -> str:
        if not has_path(key):
            return f"knowledge_document({self._test({key: {name: wanted}})}, metadata, id)"
        x = literal_value(key) if key in self._indexed else value(key, self._mark)
        if name == "exists":
            return f"({x} <> 'null')" if wanted else f"(({x} <> 'null') IS NOT TRUE)"
        if name in ("eq", "ne"):
            wanted = [wanted]
        if name in ("eq", "in"):
            return f"({self._equal(x, wanted)})"
        if name in ("ne", "nin"):
            return f"(({self._equal(x, wanted)}) IS NOT TRUE)"
        asked = f"knowledge_value({self._test({'': {name: wanted}})}, {x})"
        if name == "contains":
            return self._contains(x, wanted, asked)
        if name == "prefix":
            return self._prefix(x, wanted, asked)
        return self._ordered(x, _SIGNS[name], wanted, asked)

    # Each operator, of the JSON text `x`

    def _equal(self, x: str, values: Sequence[Any]) -> str:
        texts = _stored(text for each in values for text in _texts(each))
        parts = [self._among(x, texts)] if texts else []
        if None in values:
            parts.append(f"({x} <> 'null') IS NOT TRUE")
        given = [each for each in values if each is not None]
        if given:
            asked = f"knowledge_value({self._test({'': {'in': given}})}, {x})"
            spelled = [each for each in given if isinstance(each, str) and _has_other_spellings(each)]
            parts.append(f"{_is_list(x)} AND {self._may_hold(x, texts, bool(spelled))} AND {asked}")
            if spelled:
                first, end = _range(spelled)
                within = f"{x} >= {self._mark(first)} AND {x} < {self._mark(end)}"
                parts.append(f"{within} AND {x} GLOB {_NOT_ASCII} AND {asked}")
        return " OR ".join(parts) or "0"

    def _contains(self, x: str, wanted: Any, asked: str) -> str:
        part = wanted if isinstance(wanted, str) else _spelled(wanted)
        if not _stored([part]):
            return "0"
        holds = self._may_hold(x, _stored(_texts(wanted)), _has_other_spellings(part))
        return (
            f"(CASE WHEN {_is_list(x)} THEN {holds} AND {asked}"
            f" WHEN {x} GLOB {_NOT_ASCII} OR instr({x}, '\\') THEN {asked}"
            f" ELSE {x} GLOB '\"*' AND instr(substr({x}, 2, length({x}) - 2), {self._mark(part)}) END)"
        )

    def _prefix(self, x: str, wanted: str, asked: str) -> str:
        if not _stored([wanted]):
            return "0"
        begin = _json(wanted)[:-1]
        return (
            f"(CASE WHEN {_is_list(x)} OR {x} GLOB {_NOT_ASCII} THEN {asked}"
            f" ELSE substr({x}, 1, {len(begin)}) = {self._mark(begin)} END)"
        )

    def _ordered(self, x: str, sign: str, wanted: Any, asked: str) -> str:
        """SQL compares small integers, numbers that are not close and most days; what can be neither is left out."""
        fast = ""
        if isinstance(wanted, str) and _DAY.fullmatch(wanted):
            digits = "-".join("[0-9]" * count for count in (4, 2, 2))
            fast = (
                f" WHEN {x} GLOB '\"{digits}\"' AND {x} >= '\"0001' AND substr({x}, 7, 2) BETWEEN '01' AND '12'"
                f" AND substr({x}, 10, 2) BETWEEN '01' AND '28' THEN {x} {sign} {self._mark(_json(wanted))}"
            )
        elif (bound := _comparable(wanted)) is not None:
            limit, doubt = self._mark(bound), self._mark(abs(bound) * _DOUBT)
            fast = (
                f" WHEN {x} NOT GLOB '*[^0-9-]*' AND length({x}) < 16 THEN CAST({x} AS INTEGER) {sign} {limit}"
                f" WHEN {x} GLOB '[0-9-]*' AND abs(CAST({x} AS REAL) - {limit}) > {doubt}"
                f" THEN CAST({x} AS REAL) {sign} {limit}"
            )
        return f"(CASE WHEN {x} IS NULL OR {x} GLOB '\"[^0-9+.-]*' THEN 0{fast} ELSE {asked} END)"

    # Parts

    def _may_hold(self, x: str, texts: Sequence[str], spelled: bool) -> str:
        """Whether a list could have one of those elements."""
        if len(texts) > _MAX_MARKS:
            return "1"
        parts = [f"instr({x}, {self._mark(text)})" for text in texts]
        if spelled:
            parts.append(f"{x} GLOB {_NOT_ASCII}")
        return f"({' OR '.join(parts) or 0})"

    def _among(self, x: str, texts: Sequence[str]) -> str:
        if len(texts) > _MAX_MARKS:
            return f"{x} IN (SELECT value FROM json_each({self._mark(_json(texts))}))"  # noqa: S608
        return f"{x} IN ({', '.join(map(self._mark, texts))})"

    def _mark(self, parameter: Parameter) -> str:
        known = (type(parameter), parameter)
        if known not in self._names:
            name = f"p{len(self._names)}"
            self._names[known] = f":{name}"
            self.parameters[name] = parameter
        return self._names[known]

    def _test(self, filter: Mapping[str, Any]) -> int:
        self.tests.append(compile_filter(filter))
        return len(self.tests) - 1


def _joined(word: str, parts: list[str]) -> str:
    """Few at a time: a chain is as deep as it is long."""
    while len(parts) > _MAX_WIDE:
        parts = [f"({word.join(parts[at : at + _MAX_WIDE])})" for at in range(0, len(parts), _MAX_WIDE)]
    return f"({word.join(parts)})"


def _is_list(x: str) -> str:
    """As a range, which an index can answer."""
    return f"{x} >= '[' AND {x} < '\\'"


def _json(wanted: object) -> str:
    """As `documents.metadata` is written."""
    return json.dumps(wanted, ensure_ascii=False)


def _spelled(wanted: float | bool) -> str:
    return json.dumps(wanted) if isinstance(wanted, bool) else str(wanted)


def _texts(wanted: Any) -> list[str]:
    """The JSON texts of all scalars that are equal to a value, but for other spellings of strings."""
    if wanted is None:
        return []
    if isinstance(wanted, str):
        is_text_of_another = wanted in ("true", "false") or _JSON_NUMBER.fullmatch(wanted)
        return [_json(wanted), wanted] if is_text_of_another else [_json(wanted)]
    texts = [_json(_spelled(wanted)), _json(wanted)]
    if isinstance(wanted, bool):
        return texts
    if isinstance(wanted, float) and wanted.is_integer():
        texts.append(str(int(wanted)))
    with suppress(OverflowError):
        if float(wanted) == wanted:
            texts.append(repr(float(wanted)))
    return [*texts, "0", "0.0", "-0.0"] if wanted == 0 else texts


def _stored(texts: Iterable[str]) -> list[str]:
    """Without those that no document can have: half characters cannot be stored."""
    return sorted({text for text in texts if text.isascii() or not re.search("[\ud800-\udfff]", text)})


def _has_other_spellings(text: str) -> bool:
    return not text.isascii() or any(each in text for each in _DOUBLED)


def _range(texts: Iterable[str]) -> tuple[str, str]:
    """JSON texts between which all spellings of some strings stand: from the first, before the second."""
    begins = [_json(_fixed(text))[:-1] for text in texts]
    return min(begins), max(begin[:-1] + chr(ord(begin[-1]) + 1) for begin in begins)


def _fixed(text: str) -> str:
    """The part of a text with other spellings with which each of them begins."""
    apart = normalize("NFD", text)
    at = next(at for at, each in enumerate(apart) if _has_other_spellings(each))
    # The character before may be written together with a mark.
    return apart[: at if apart[at].isascii() else max(0, at - 1)]


def _comparable(wanted: Any) -> int | float | None:
    """A bound that SQLite compares with small integers, and with others that are not close, as Python does."""
    if isinstance(wanted, str):
        return int(wanted) if _SMALL_INTEGER.fullmatch(wanted) else None
    return wanted if isinstance(wanted, float) or abs(wanted) < 1 << 63 else None
