"""Logs of servers: one line of JSON for each event, whatever is in it."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.logs import JsonFormatter, log_json


def line(message: object = "it happened", args: tuple[object, ...] = (), **more: object) -> dict[str, Any]:
    """The record as it is written, read again as strict JSON."""
    record = logging.LogRecord("the.logger", logging.WARNING, "file.py", 7, message, args, None)  # type: ignore[arg-type]
    vars(record).update(more)
    text = JsonFormatter().format(record)
    assert len(text.splitlines()) == 1
    assert text.isascii()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    entry: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return entry


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("not even that")


def test_a_line_says_when_what_and_how_bad() -> None:
    entry = line("lost %s", ("the link",), url="ws://host", registered=["a", "b"], delay=0.25)
    assert entry.pop("time").endswith("+00:00")
    assert entry == {
        "level": "warning",
        "logger": "the.logger",
        "event": "lost the link",
        "url": "ws://host",
        "registered": ["a", "b"],
        "delay": 0.25,
    }


def test_the_time_is_utc_to_the_millisecond() -> None:
    assert line(created=60.125)["time"] == "1970-01-01T00:01:00.125+00:00"
    assert datetime.fromisoformat(line()["time"]).tzinfo is not None


def test_an_exception_comes_with_its_traceback() -> None:
    try:
        raise ValueError("no such\nthing")
    except ValueError:
        entry = line(exc_info=sys.exc_info())
    assert "Traceback" in entry["error"]
    assert entry["error"].endswith("ValueError: no such\nthing")


def test_no_text_forges_a_line_or_a_field() -> None:
    entry = line('x\n{"level": "info"}\u2028\x00\ud800', level="info", time="never", event="another", logger="root")
    assert entry["level"] == "warning"
    assert entry["event"] == 'x\n{"level": "info"}\u2028\x00\ud800'
    assert (entry["level_"], entry["time_"], entry["event_"], entry["logger_"]) == ("info", "never", "another", "root")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({1, 2}, "{1, 2}"),
        (float("nan"), "nan"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (b"bytes", "b'bytes'"),
        (Unshowable(), "<Unshowable>"),
    ],
)
def test_what_json_has_no_form_for_is_shown_otherwise(value: object, shown: str) -> None:
    assert line(value=value, other="kept")["value"] == shown
    assert line(value=value, other="kept")["other"] == "kept"


def test_what_contains_itself_is_shown_too() -> None:
    circle: list[object] = []
    circle.append(circle)
    assert line(value=circle)["value"] == "[[...]]"


def test_arguments_that_do_not_fit_leave_the_message_as_it_is() -> None:
    assert line("%d of %d", ("many",))["event"] == "%d of %d"


@given(
    st.dictionaries(st.text(min_size=1), st.recursive(st.none() | st.text() | st.floats() | st.integers(), st.lists))
)
def test_any_extra_makes_one_line_of_strict_json(extra: dict[str, Any]) -> None:
    usual = vars(logging.makeLogRecord({}))
    entry = line(**{key: value for key, value in extra.items() if key not in usual and key not in ("message", "args")})
    assert {"time", "level", "logger", "event"} <= set(entry)


@contextmanager
def bare_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """No logging set up, as in a process that begins; what goes to standard error."""
    root, ours = logging.getLogger(), logging.getLogger("server.of.the.test")
    handlers, level = root.handlers[:], ours.level
    root.handlers.clear()
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    try:
        yield err
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        ours.setLevel(level)


def test_named_loggers_tell_events_and_all_others_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    with bare_logging(monkeypatch) as err:
        log_json("server.of.the.test")
        log_json("server.of.the.test")  # a second time changes nothing
        logging.getLogger("server.of.the.test").debug("too much")
        logging.getLogger("server.of.the.test").info("an event")
        logging.getLogger("server.of.the.test.part").info("one of a part")
        logging.getLogger("another").info("not ours")
        logging.getLogger("another").warning("a warning")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("python warns", stacklevel=1)
    said = [json.loads(text) for text in err.getvalue().splitlines()]
    assert [entry["event"] for entry in said[:3]] == ["an event", "one of a part", "a warning"]
    (warned,) = said[3:]
    assert (warned["logger"], warned["level"]) == ("py.warnings", "warning")
    assert "python warns" in warned["event"]


def test_a_host_that_logs_itself_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own = io.StringIO()
    with bare_logging(monkeypatch) as err:
        logging.getLogger().addHandler(logging.StreamHandler(own))
        log_json("server.of.the.test")
        logging.getLogger("server.of.the.test").warning("an event")
        assert logging.getLogger("server.of.the.test").level == logging.NOTSET
    assert own.getvalue() == "an event\n"
    assert err.getvalue() == ""


def test_what_goes_wrong_in_an_event_loop_is_a_line_of_json_too() -> None:
    script = """
import asyncio
from knowledge_engine.logs import log_json

def fail():
    raise RuntimeError("in a callback")

async def main():
    asyncio.get_running_loop().call_soon(fail)
    await asyncio.sleep(0)

log_json()
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    (said,) = [json.loads(text) for text in ended.stderr.splitlines()]
    assert (said["logger"], said["level"]) == ("asyncio", "error")
    assert "in a callback" in said["error"]
