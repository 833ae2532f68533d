"""The golden file: one query a line, in JSON, with the documents that should answer it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from pydantic import JsonValue

from knowledge_engine.errors import InvalidFilterError
from knowledge_engine.filters import compile_filter
from knowledge_engine.models import MAX_QUERY_CHARS, DocumentIssue, Severity, Value

#: 2^grade has to stay a number that others can be told beside it.
MAX_GRADE = 30
_KEYS = ("query", "expected", "id", "filter")
_SHAPE = 'Write {"query": "words", "expected": ["document-id"]}.'
_SURROGATE = re.compile("[\ud800-\udfff]")


class GoldenQuery(Value):
    """A query, and what should be found."""

    #: Of the query, not of a document: how it is named in what is told of it.
    id: str
    #: Where it stands, 1-based; 0 for one that comes from no file.
    line: int = 0
    query: str
    #: Grades by document id (or frontmatter id): above 0 is relevant, higher is more so.
    expected: dict[str, float]
    filter: dict[str, JsonValue] | None = None


class Golden(NamedTuple):
    """The queries of a golden file that can be asked, and what is wrong with the others."""

    queries: tuple[GoldenQuery, ...]
    errors: tuple[DocumentIssue, ...]
    warnings: tuple[DocumentIssue, ...]


class _WrongLineError(Exception):
    def __init__(self, message: str, mend: str) -> None:
        super().__init__(message)
        self.message, self.mend = message, mend


def read_golden(raw: bytes, path: str = "golden.jsonl") -> Golden:
    """The queries of a golden file: UTF-8, a JSON object a line; blank lines are left out.

    Args:
        path: How the file is named in what is told of it.

    Never raises for what the file holds: each wrong line is an error of its own, and so is a file without a query.
    """
    found: dict[str, GoldenQuery] = {}
    asked: dict[str, int] = {}
    errors, warnings = list[DocumentIssue](), list[DocumentIssue]()
    for number, line in _lines(raw):
        try:
            query = _query(number, line)
            if query.id in found:
                _wrong(
                    f"The query id {query.id!r} is on line {found[query.id].line} already",
                    "Give each query an id of its own, or none.",
                )
        except _WrongLineError as error:
            errors.append(issue_at("golden-line", number, error.message, error.mend, path=path))
            continue
        found[query.id] = query
        first = asked.setdefault(json.dumps([query.query, query.filter], sort_keys=True), number)
        if first != number:
            message = f"The same is asked on line {first}, so it counts twice"
            mend = "Put what is expected on one line."
            warnings.append(issue_at("golden-repeated", number, message, mend, severity="warning", path=path))
    if not found and not errors:
        errors.append(issue_at("golden-empty", 0, "There is no query in it", f"{_SHAPE} One a line.", path=path))
    return Golden(tuple(found.values()), tuple(errors), tuple(warnings))


def issue_at(
    code: str, line: int, message: str, mend: str, *, severity: Severity = "error", path: str = "golden.jsonl"
) -> DocumentIssue:
    """What is to be told of a line."""
    return DocumentIssue(code=code, severity=severity, path=path, line=line, message=message, mend=mend)


def _lines(raw: bytes) -> Iterator[tuple[int, bytes]]:
    start, number = 3 if raw.startswith(b"\xef\xbb\xbf") else 0, 0
    while start < len(raw):
        number += 1
        end = raw.find(b"\n", start)
        end = len(raw) if end < 0 else end
        if line := raw[start:end].strip():
            yield number, line
        start = end + 1


def _query(number: int, line: bytes) -> GoldenQuery:
    told = _object(line)
    if unknown := sorted(set(told) - set(_KEYS)):
        _wrong(f"There is no key {unknown[0]!r}", f"Keys are: {', '.join(_KEYS)}.")
    text, name, wanted = told.get("query"), told.get("id", f"line {number}"), told.get("filter")
    if not isinstance(text, str) or not text.strip():
        _wrong("`query` has to be a text with at least one word", _SHAPE)
    if len(text) > MAX_QUERY_CHARS:
        _wrong(f"`query` has more than {MAX_QUERY_CHARS:,} characters", "Ask for less at once.")
    if not isinstance(name, str) or not name:
        _wrong("`id` has to be a text", 'Put it in quotes, such as "id": "q1", or leave it out.')
    if wanted is not None and not isinstance(wanted, dict):
        _wrong("`filter` has to be an object", 'Write conditions such as {"kind": "guide"}, or leave it out.')
    try:
        compile_filter(wanted)
    except InvalidFilterError as error:
        _wrong(error.problem.rstrip("."), error.mend)
    return GoldenQuery(id=name, line=number, query=text, expected=_grades(told.get("expected")), filter=wanted)


def _object(line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line.decode(), object_pairs_hook=_unrepeated, parse_constant=_no_number)
        halved = _SURROGATE.search(json.dumps(told, ensure_ascii=False))
    except UnicodeDecodeError:
        _wrong("It is not UTF-8", "Save the file as UTF-8.")
    except json.JSONDecodeError as error:
        _wrong(f"It is not JSON, from column {error.colno} on", f"{_SHAPE} Each on a line of its own.")
    except (ValueError, RecursionError):  # a number of thousands of digits, or brackets as deep
        _wrong("It is no JSON that can be read", _SHAPE)
    if not isinstance(told, dict):
        _wrong("It is not a JSON object", _SHAPE)
    if halved:
        _wrong("It holds half of a surrogate pair", "Write the whole character.")
    return told


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        _wrong(f"The key {_shown(twice)} is there twice", "Write it once.")
    return found


def _no_number(name: str) -> NoReturn:
    _wrong(f"{name} is not JSON", "Write a number.")


def _grades(told: object) -> dict[str, float]:
    if isinstance(told, list):
        if not all(isinstance(each, str) for each in told):
            _wrong("`expected` holds something that is no text", "List document ids, or give grades by document id.")
        told = dict.fromkeys(told, 1)
    if not isinstance(told, Mapping):
        _wrong("`expected` has to be a list of document ids, or grades by document id", _SHAPE)
    for name, grade in told.items():
        if isinstance(grade, bool) or not isinstance(grade, int | float) or not 0 <= grade <= MAX_GRADE:
            _wrong(f"The grade of {_shown(name)} is no number from 0 to {MAX_GRADE}", "Grade with 1, 2 or 3, say.")
    if not any(told.values()) or "" in told:
        _wrong("`expected` names no relevant document", "Name at least one, or leave the query out.")
    return {name: float(grade) for name, grade in told.items()}


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:80]}…")


def _wrong(message: str, mend: str) -> NoReturn:
    raise _WrongLineError(message, mend)
