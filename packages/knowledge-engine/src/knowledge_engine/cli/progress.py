"""A sign of life on standard error while a backend works long, as when it builds its index."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from knowledge_engine.cli.session import Session

#: Shorter work shows nothing.
DELAY_S = 0.5
INTERVAL_S = 0.15
_CLEAR_LINE = "\r\x1b[K"
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@contextmanager
def progress(session: Session, count: Callable[[], int] | None = None) -> Iterator[None]:
    """Shows, on a terminal, that work goes on and how many documents are indexed so far.

    Args:
        count: Tells how many documents are done, where it is not the backend that counts.
    """
    # Not by rich: while it draws, it takes standard output for itself.
    if sys.stderr is None or not sys.stderr.isatty() or session.environ.get("TERM") == "dumb":
        yield
        return
    done = threading.Event()
    thread = threading.Thread(
        target=_show, args=(sys.stderr, done, *_told(session, count)), name="knowledge-progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _told(session: Session, count: Callable[[], int] | None) -> tuple[str, Callable[[], int]]:
    return ("Done", count) if count else ("Indexing", lambda: _documents(session))


def _show(stream: TextIO, done: threading.Event, what: str, counted: Callable[[], int]) -> None:
    if done.wait(DELAY_S):
        return
    frames = itertools.cycle(_FRAMES)
    working = True
    while working:
        count = counted()
        stream.write(f"{_CLEAR_LINE}{next(frames)} {f'{what}: {count} documents so far' if count else 'Working'} ")
        stream.flush()
        working = not done.wait(INTERVAL_S)
    stream.write(_CLEAR_LINE)
    stream.flush()


def _documents(session: Session) -> int:
    with suppress(Exception):  # what fails here fails, and is reported, in the work itself
        return session.opened.provider.health_check().index.documents if session.opened else 0
    return 0
