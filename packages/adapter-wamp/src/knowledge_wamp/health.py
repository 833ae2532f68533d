"""A file that says how a server is, for health checks of containers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: How often the file is written though nothing changed: an old one means that the process hangs.
BEAT_S = 10.0
_log = logging.getLogger("knowledge_wamp")


class HealthFile:
    """The state as a JSON object: `state` (connecting, ready, degraded, stopping, stopped), `since`, `updated`, `pid`.

    Replaced as a whole, so a reader never sees half of it. A file that cannot be written is told of in the log, once.
    """

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._warned = False
        self.state: dict[str, Any] = {}

    def say(self, state: str, **facts: Any) -> None:
        """The state from now on; facts that are not named stay as they are."""
        if self.state.get("state") != state:
            self.state["since"] = _now()
        if state in ("ready", "degraded"):
            self.state.pop("reason", None)
        self.state |= {"state": state, "pid": os.getpid(), **facts}
        self._write()

    async def beat(self) -> None:
        """Writes the file again and again, until cancelled."""
        while True:
            await asyncio.sleep(BEAT_S)
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        beside = Path(f"{self._path}.{os.getpid()}.tmp")
        try:
            beside.write_text(json.dumps({**self.state, "updated": _now()}), encoding="utf-8")
            beside.replace(self._path)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            if not self._warned:
                _log.error("the health file cannot be written", extra={"reason": error.strerror})
            self._warned = True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
