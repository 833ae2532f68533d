"""From what a model wrote to an object of the schema: lenient about its wrapping, strict about its content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

Answer = TypeVar("Answer", bound=BaseModel)

_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_MAX_PROBLEMS = 5
_MAX_SHOWN = 80


class ReplyProblem(Exception):  # noqa: N818 - it never leaves this package
    """What is wrong with a reply: places in it and kinds of mistakes, never its text."""


def read_reply(text: str, schema: type[Answer]) -> Answer:
    """The object in a reply, whether it stands alone, in a fence, or after a few words.

    Raises:
        ReplyProblem: When there is no whole JSON value in it, or the value does not fit the schema.
    """
    found, problem = False, "it is not one whole JSON value"
    for candidate in _candidates(text):
        try:
            value = json.loads(candidate, parse_constant=_no_number, object_pairs_hook=_once)
        except ReplyProblem as error:
            problem = str(error)
            continue
        except (ValueError, RecursionError):
            continue
        if isinstance(value, str | int | float | None) and found:
            continue
        try:
            return schema.model_validate_json(json.dumps(value))
        except (ValidationError, RecursionError) as error:
            if not found:
                found, problem = True, _problems(error)
    raise ReplyProblem(problem)


def _candidates(text: str) -> Iterator[str]:
    text = text.lstrip("\ufeff")
    yield text
    text = _THINKING.sub("", text, count=1) if text.lstrip().startswith("<think") else text
    yield text
    # From the first fence to the last: a fence within a string of the JSON is no end of it.
    fences = list(_FENCE.finditer(text))
    if fences:
        yield text[fences[0].end() : fences[-1].start() if len(fences) > 1 else len(text)]
    if len(fences) > 2:
        yield text[fences[0].end() : fences[1].start()]
    # Only from the first bracket: one further in would begin a piece of an answer that was cut off.
    if first := re.search(r"[{\[]", text):
        try:
            _, end = json.JSONDecoder().raw_decode(text, first.start())
        except (ValueError, RecursionError):
            return
        yield text[first.start() : end]


def _no_number(_name: str) -> NoReturn:
    raise ReplyProblem("a number in it is NaN or infinite")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ReplyProblem("an object in it has one key twice")
    return value


def _problems(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{_place(each['loc'])}: {each['type']}" for each in found[:_MAX_PROBLEMS]]
    return "; ".join([*told, *(["..."] if len(found) > _MAX_PROBLEMS else [])])


def _place(place: tuple[str | int, ...]) -> str:
    # Keys may be the model's own words.
    return (
        "".join(char if char.isprintable() else "?" for char in ".".join(map(str, place)))[:_MAX_SHOWN] or "all of it"
    )
