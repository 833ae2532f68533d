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
        """See `logging.Formatter.format`. What JSON has no form for comes as its `repr`; it never raises."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _message(record),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        for key, value in vars(record).items():
            if key not in _USUAL:
                entry[f"{key}_" if key in entry else key] = value
        try:
            return _line(entry)
        except Exception:  # a value of anybody's making
            return _line({key: value if isinstance(value, str) else _shown(value) for key, value in entry.items()})


def log_json(*names: str, level: int = logging.INFO) -> None:
    """Sends what those loggers say from `level` on to standard error as JSON, and the warnings of all others.

    Does nothing where the host has set up logging itself.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root.addHandler(handler)
    logging.captureWarnings(True)
    for name in names:
        logging.getLogger(name).setLevel(level)


def _line(entry: dict[str, object]) -> str:
    # ASCII: a log may be read in any encoding, and no text in it can forge a line.
    return json.dumps(entry, default=repr, allow_nan=False)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # its arguments do not fit it
        return str(record.msg)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
