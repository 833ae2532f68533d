"""Logs of servers: a line of JSON for each event, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: `time` (UTC), `level`, `logger`, `event`, what `extra` gave, and `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        entry |= {key: value for key, value in vars(record).items() if key not in _USUAL}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        # ASCII: a log may be read in any encoding, and no text in it can forge a line.
        return json.dumps(entry, default=repr)


def log_json(*names: str, level: int = logging.INFO) -> None:
    """Sends what those loggers say to standard error as JSON, unless the host has set up logging itself."""
    if logging.getLogger().handlers:
        return
    for name in names:
        logger = logging.getLogger(name)
        if not logger.handlers:
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(JsonFormatter())
            logger.addHandler(handler)
            logger.setLevel(level)
