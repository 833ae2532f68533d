"""Keeps the promise that a tool never raises: whatever happens becomes a dict of its usual shape."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import cast

from pydantic import JsonValue

from knowledge_engine.agent_tools.plain import plain, shorten
from knowledge_engine.agent_tools.rendering import Answer
from knowledge_engine.errors import InvalidArgumentError, wire_error

Tool = Callable[..., Answer]
_MAX_MESSAGE_CHARS = 1_000


def never_raises(empty: Mapping[str, JsonValue], aliases: Mapping[str, str] | None = None) -> Callable[[Tool], Tool]:
    """Wraps a tool: its answer comes out as plain JSON; a failure as `empty` with the error's keys.

    Arguments that do not fit the signature are failures like others. `aliases` are further names of arguments.
    """
    renamed = aliases or {}

    def wrap(tool: Tool) -> Tool:
        signature = inspect.signature(tool)

        @functools.wraps(tool)
        def guarded(self: object, /, *args: object, **kwargs: object) -> Answer:
            try:
                named = _renamed(kwargs, renamed)
                try:
                    signature.bind(self, *args, **named)
                except TypeError as error:
                    raise InvalidArgumentError(shorten(str(error), 200), mend=_usage(signature)) from None
                return cast(Answer, plain(tool(self, *args, **named)))
            except Exception as error:  # the last handler: an agent gets an answer, not a traceback
                return deepcopy(dict(empty)) | error_keys(error)

        return guarded

    return wrap


def error_keys(error: Exception) -> Answer:
    """The wire form of an error, flat: `error` (text), `code`, `mend`, and `error_id` where there is one."""
    wire = wire_error(error)
    keys: Answer = {
        "error": shorten(wire["message"], _MAX_MESSAGE_CHARS),
        "code": wire["code"],
        "mend": shorten(wire["mend"], _MAX_MESSAGE_CHARS),
    }
    if wire["id"]:
        keys["error_id"] = wire["id"]
    return cast(Answer, plain(keys))


def _renamed(arguments: Mapping[str, object], aliases: Mapping[str, str]) -> dict[str, object]:
    named: dict[str, object] = {}
    for key, value in arguments.items():
        name = aliases.get(key, key)
        if name in named:
            raise InvalidArgumentError(f"{name} is given twice", mend="Give each argument once.")
        named[name] = value
    return named


def _usage(signature: inspect.Signature) -> str:
    names = [name for name in signature.parameters if name != "self"]
    return f"The arguments are: {', '.join(names)}."
