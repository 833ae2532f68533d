"""What can be asked: each operation once, for the routes and for the OpenAPI document alike."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote_to_bytes

from knowledge_engine.errors import InvalidArgumentError, InvalidFilterError

if TYPE_CHECKING:
    from knowledge_http.server.calls import Call
    from knowledge_http.server.rendering import Answer

Kind = Literal["text", "integer", "number", "boolean", "filter"]

_INTEGER = re.compile(r"-?\d{1,1000}", re.ASCII)
#: As good as any greater one.
_GREATEST = 10**18
_NUMBER = re.compile(r"-?\d{1,300}(\.\d{1,300})?([eE][+-]?\d{1,3})?", re.ASCII)
_MAX_PARAMETERS = 100
MAX_REPEATED = 20


@dataclass(frozen=True)
class Param:
    """A parameter in the URL's query."""

    name: str
    kind: Kind
    help: str
    minimum: int | None = None
    required: bool = False
    repeated: bool = False
    #: More of its JSON schema.
    schema: Mapping[str, Any] = field(default_factory=dict)

    def read(self, text: str) -> Any:
        """The value that a text means.

        Raises:
            InvalidArgumentError: When it means none.
        """
        if self.kind == "text":
            return text
        if self.kind == "filter":
            return _filter(self.name, text)
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise InvalidArgumentError(f"{self.name} is {text[:60]!r}", mend="Use true or false.")
            return text == "true"
        pattern, kind, what = (_INTEGER, int, "whole number") if self.kind == "integer" else (_NUMBER, float, "number")
        least = "" if self.minimum is None else f" from {self.minimum} on"
        value = kind(text) if pattern.fullmatch(text) else None
        if (
            value is None
            or (self.minimum is not None and value < self.minimum)
            or value in (float("inf"), -float("inf"))
        ):
            raise InvalidArgumentError(f"{self.name} is {text[:60]!r}", mend=f"Use a {what}{least}.")
        return min(value, _GREATEST) if self.kind == "integer" else value


@dataclass(frozen=True)
class Operation:
    """A method of a path.

    `path` is a template; `{id}` in it stands for a document's id, percent-encoded or with slashes as they are.
    """

    method: str
    path: str
    name: str
    summary: str
    run: Callable[[Call], Awaitable[Answer]]
    #: What the caller must be allowed somewhere; whether it is so at the backend in question, the operation asks.
    scope: str = "read"
    params: tuple[Param, ...] = ()
    #: JSON schemas, or names of models.
    body: str | Mapping[str, Any] | None = None
    answer: str | Mapping[str, Any] | None = None
    statuses: tuple[int, ...] = (200,)
    problems: tuple[int, ...] = ()
    #: The same answer may be given to the same question, as long as no document changes.
    kept: bool = False
    #: Something is changed by it.
    writes: bool = False
    #: Answered to everyone.
    public: bool = False
    help: str = ""

    def arguments(self, query_string: bytes) -> dict[str, Any]:
        """The parameters by name.

        Raises:
            InvalidArgumentError: For one that is unknown, given twice, malformed or missing.
        """
        known = {param.name: param for param in self.params}
        found: dict[str, Any] = {}
        if query_string:
            for name, text in _pairs(query_string):
                param = known.get(name)
                if param is None:
                    names = ", ".join(known) or "none"
                    raise InvalidArgumentError(f"No parameter {name[:60]!r}", mend=f"The parameters are: {names}.")
                if param.repeated:
                    found.setdefault(name, []).append(param.read(text))
                    if len(found[name]) > MAX_REPEATED:
                        raise InvalidArgumentError(f"There are too many {name}", mend=f"Give up to {MAX_REPEATED}.")
                elif name in found:
                    raise InvalidArgumentError(f"{name} is given twice", mend="Give each parameter once.")
                else:
                    found[name] = param.read(text)
        for param in self.params:
            if param.required and param.name not in found:
                raise InvalidArgumentError(f"{param.name} is missing", mend=f"Give {param.name}.")
        return found


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    items = [item for item in query_string.split(b"&") if item]
    if len(items) > _MAX_PARAMETERS:
        raise InvalidArgumentError(f"There are {len(items)} parameters", mend="Give fewer.")
    return [(decoded(name), decoded(value)) for name, _, value in (item.partition(b"=") for item in items)]


def decoded(data: bytes, *, plus: bool = True) -> str:
    """Text of a URL, decoded once.

    Raises:
        InvalidArgumentError: When it is no UTF-8.
    """
    try:
        return unquote_to_bytes(data.replace(b"+", b" ") if plus else data).decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError("The URL holds bytes that are no UTF-8", mend="Percent-encode UTF-8.") from None


def _filter(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidFilterError(f"{name} is no JSON object", mend='Write it as {"kind": "device"}.')
    return value
