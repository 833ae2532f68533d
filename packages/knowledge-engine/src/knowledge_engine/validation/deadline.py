"""Calling code that may never come back, in this process: it may keep state there."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Generic, TypeVar

_T = TypeVar("_T")

# A call that catches everything is told again and again.
_AGAIN_S = 0.05
# A timer set to zero would be off.
_SOON_S = 0.001


class DeadlineError(Exception):
    """The call took too long."""


class _Alarm(BaseException):
    """Raised inside the call when its time is over."""


def call_within(call: Callable[[], _T], timeout_s: float) -> _T:
    """What `call` gives or raises.

    On the main thread of a POSIX system a signal ends it; the handler and the timer of others are as before in the
    end. Elsewhere it runs in a thread of its own, which is left to itself when time is over.

    Raises:
        DeadlineError: When it takes longer.
    """
    if threading.current_thread() is threading.main_thread() and _has_alarm():
        return _call_with_alarm(call, timeout_s)
    return _call_in_thread(call, timeout_s)


def _has_alarm() -> bool:
    # A handler that was not set from Python could not be put back.
    return hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) is not None


def _call_with_alarm(call: Callable[[], _T], timeout_s: float) -> _T:
    def inner() -> _T:
        return call()

    def ring(_: int, frame: FrameType | None) -> None:
        # It may come late, when the call is over: only inside of it is there something to end.
        while frame is not None:
            if frame.f_code is inner.__code__:
                raise _Alarm
            frame = frame.f_back

    began = time.monotonic()
    interrupt = signal.getsignal(signal.SIGINT)
    handler = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, timeout_s, _AGAIN_S)
    try:
        value = inner()
    except _Alarm:
        raise DeadlineError from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if interrupt is not None:
            signal.signal(signal.SIGINT, interrupt)  # the call may have changed it, and the user still wants to stop
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), _SOON_S), interval)
    if time.monotonic() - began > timeout_s + _AGAIN_S:  # it switched the timer off
        raise DeadlineError
    return value


class _Outcome(Generic[_T]):
    """What a thread leaves behind."""

    def __init__(self) -> None:
        self.values: list[_T] = []
        self.error: BaseException | None = None


def _call_in_thread(call: Callable[[], _T], timeout_s: float) -> _T:
    outcome = _Outcome[_T]()

    def run() -> None:
        try:
            outcome.values.append(call())
        except BaseException as error:  # the caller's to handle
            outcome.error = error

    thread = threading.Thread(target=run, name="snippet-validator", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if outcome.error is not None:
        raise outcome.error
    if not outcome.values:
        raise DeadlineError
    return outcome.values[0]
