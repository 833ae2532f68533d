"""Answers that were given, for as long as what they were made from stays: agents ask for the same documents again."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import JsonValue

Answer = dict[str, JsonValue]

MAX_ANSWERS = 512
MAX_BYTES = 16_000_000
_MAX_KEY_CHARS = 2_000


class _Kept(NamedTuple):
    version: object
    answer: Answer
    size: int


class KeptAnswers:
    """Bounded in number and in bytes; what was not asked for the longest goes first. Any thread may call it.

    An answer is given as long as its version is the present one; it is shared, so nobody may change it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def get(self, key: str | None, version: object) -> Answer | None:
        """The answer that was kept under that key for that version."""
        if key is None or version is None:
            return None
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.version != version:
                return None
            self._kept.move_to_end(key)
            return kept.answer

    def put(self, key: str | None, version: object, answer: Answer, size: int) -> None:
        """Keeps an answer of `size` bytes, unless there is no key or no version to know it by."""
        if key is None or version is None or size > MAX_BYTES // 8:
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = _Kept(version, answer, size)
            self._bytes += size
            while len(self._kept) > MAX_ANSWERS or self._bytes > MAX_BYTES:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size


def call_key(name: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str | None:
    """What tells calls apart; None for a call that is not worth keeping, or that JSON cannot tell from another."""
    try:
        key = json.dumps([name, args, kwargs], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return key if len(key) <= _MAX_KEY_CHARS else None
