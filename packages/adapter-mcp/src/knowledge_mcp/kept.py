"""Results that were given, for as long as no document changes: agents ask for the same things again."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mcp_types import CallToolResult

MAX_RESULTS = 512
MAX_CHARS = 16_000_000
_MAX_KEY_CHARS = 2_000
#: How long a result may be given again without a look at what it was made from.
_RECENT_S = 0.2


class _Kept(NamedTuple):
    version: str
    result: CallToolResult
    chars: int


class KeptResults:
    """Bounded in number and in size; what was not asked for the longest goes first. Any thread may call it.

    Args:
        version: What the documents are now; empty where that is not known. It may block.
        recent_s: How old what was taken in of the documents may be.
    """

    def __init__(self, version: Callable[[], str], *, recent_s: float) -> None:
        self._version = version
        self._recent_s = min(recent_s, _RECENT_S)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._chars = 0
        #: The version that was seen last, until when that is recent, and how often something had been written then.
        self._seen: tuple[str, float, int] = ("", 0.0, 0)
        self._writes = 0

    def forget(self) -> None:
        """Something was written: nothing that was seen before is recent any more."""
        self._writes += 1

    def recent(self, key: str | None) -> CallToolResult | None:
        """A result that can be given without a look; never blocks."""
        version, until, writes = self._seen
        is_recent = time.monotonic() < until and writes == self._writes
        return self._find(key, version) if is_recent else None

    def result(self, key: str | None, make: Callable[[], CallToolResult]) -> CallToolResult:
        """The result that was kept, or the one that `make` gives; blocks."""
        if key is None:
            return make()
        writes, until = self._writes, time.monotonic() + self._recent_s
        version = self._version()
        self._seen = (version, until, writes)
        found = self._find(key, version)
        if found is not None:
            return found
        result = make()
        # What is amiss may pass without a change, and changes while it was answered may be in it.
        if version and _is_whole(result) and version == self._version():
            self._put(key, version, result)
        return result

    def _find(self, key: str | None, version: str) -> CallToolResult | None:
        if key is None or not version:
            return None
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.version != version:
                return None
            self._kept.move_to_end(key)
            return kept.result

    def _put(self, key: str, version: str, result: CallToolResult) -> None:
        chars = sum(len(getattr(each, "text", "")) for each in result.content)
        if chars > MAX_CHARS // 8:
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = _Kept(version, result, chars)
            self._chars += chars
            while len(self._kept) > MAX_RESULTS or self._chars > MAX_CHARS:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._chars -= kept.chars


def _is_whole(result: CallToolResult) -> bool:
    """Whether it is all that there is to say: no error, no backend left out, no index still being built."""
    answer = result.structured_content or {}
    index = answer.get("index")
    is_ready = not isinstance(index, Mapping) or index.get("state") == "ready"
    return not result.is_error and not answer.get("warnings") and is_ready


def call_key(name: str, arguments: Mapping[str, Any] | None) -> str | None:
    """What tells calls apart; None for one that is not worth keeping.

    >>> call_key("get", {"doc_id": "a"}), call_key("get", {"doc_id": "a" * 5000})
    ('["get", {"doc_id": "a"}]', None)
    """
    try:
        key = json.dumps([name, arguments], sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
    return key if len(key) <= _MAX_KEY_CHARS else None
