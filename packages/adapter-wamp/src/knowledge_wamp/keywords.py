"""Calls may have arguments of any name, in spite of autobahn."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any


def allow_any_keyword() -> None:
    """Lets calls have arguments named `self` and `fun`, in every session of the process that autobahn keeps.

    autobahn runs a procedure by `txaio.as_future(fun, *args, **kwargs)`, a method. An argument of one of those names is
    a TypeError there, and autobahn closes the connection then: whoever may call could end the session at will.
    Does nothing where txaio is not in use, or is mended already; so it can be called before each registration.
    """
    txaio: Any = sys.modules.get("txaio")
    if txaio is not None and not isinstance(txaio.as_future, _AnyKeyword):
        txaio.as_future = _AnyKeyword(txaio.as_future)


class _AnyKeyword:
    def __init__(self, as_future: Callable[..., Any]) -> None:
        self._as_future = as_future

    def __call__(self, fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self._as_future(partial(fun, *args, **kwargs))
