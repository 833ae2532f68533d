"""What comes from outside, checked: errors that name the field, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from knowledge_engine.errors import InvalidArgumentError

_Shape = TypeVar("_Shape", bound=BaseModel)
_SHOWN = 3


def checked(shape: type[_Shape], values: Mapping[str, object]) -> _Shape:
    """Values as that shape.

    Raises:
        InvalidArgumentError: Saying which are wrong, and how.
    """
    try:
        return shape.model_validate(values)
    except ValidationError as error:
        raise _wrong("What was given is not what is taken", error) from error


def read_json(shape: type[_Shape], raw: bytes) -> _Shape:
    """JSON as that shape; nothing is taken for an object without fields.

    Raises:
        InvalidArgumentError: Saying which fields are wrong, and how.
    """
    try:
        return shape.model_validate_json(raw or b"{}")
    except ValidationError as error:
        raise _wrong("The body is not what is taken here", error) from error


def _wrong(what: str, error: ValidationError) -> InvalidArgumentError:
    return InvalidArgumentError(f"{what}: {problems_of(error)}", mend="Correct these fields.")


def problems_of(error: ValidationError) -> str:
    """Which fields are wrong, and how; of many, the first few."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    said = [f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in problems[:_SHOWN]]
    more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    return "; ".join([*said, *more])
