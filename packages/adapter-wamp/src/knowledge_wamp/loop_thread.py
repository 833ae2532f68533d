"""An event loop in a thread of its own, for sync callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from knowledge_engine.errors import UnavailableError

T = TypeVar("T")


class LoopThread:
    """Started by the first call; ended by `close`, after which calls raise UnavailableError."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the coroutine returns or raises. It bounds its time itself.

        Raises:
            UnavailableError: When the thread was closed, before or meanwhile.
        """
        with self._lock:
            if self._closed:
                raise _disposed()
            if self._loop is None:
                self._loop = self._started()
            future = asyncio.run_coroutine_threadsafe(call(), self._loop)
        return _result(future)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a last coroutine, ends all others, and the thread. May be called twice."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_end(last), loop)
        if thread is not threading.current_thread():
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(loop,), name=self._name, daemon=True)
        self._thread.start()
        return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _end(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = asyncio.get_running_loop()
    try:
        await last()
    finally:
        others = asyncio.all_tasks(loop) - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        loop.call_soon(loop.stop)


def _result(future: Future[T]) -> T:
    try:
        return future.result()
    except CancelledError:
        raise _disposed() from None
    finally:
        future.cancel()  # whoever waited was interrupted


def _disposed() -> UnavailableError:
    return UnavailableError("The provider was disposed of", mend="Open it again.")
