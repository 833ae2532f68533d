"""Threads for calls that may block: bounded for each backend, also by those that nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Literal, TypeVar

from knowledge_engine.errors import BusyError, InvalidArgumentError, KnowledgeError, ProviderError, UnavailableError

T = TypeVar("T")

_State = Literal["queued", "running", "abandoned", "done"]


class LaneCall(Future[T]):
    """A call that was handed to a lane; its result, as of any future."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__()
        # What the caller set in context variables, such as a request's id, is seen by the backend too.
        self._call: Callable[[], T] | None = partial(copy_context().run, call)
        self.state: _State = "queued"

    def run(self) -> Callable[[], None]:
        """Makes the call; what is returned tells its outcome to those who wait."""
        call, self._call = self._call, None
        assert call is not None, "a call runs once"
        try:
            result = call()
        except Exception as error:
            return partial(self.set_exception, error)
        except BaseException as error:  # SystemExit and its like: one backend must not end the host
            failure = ProviderError(f"The backend ended with {type(error).__name__}", mend="The cause says more.")
            failure.__cause__ = error
            return partial(self.set_exception, failure)
        return partial(self.set_result, result)


class Lane:
    """Runs the calls to one backend in daemon threads, which are kept for a while and end when there is nothing to do.

    At most `max_concurrent` calls run that somebody waits for; more are queued. A running call cannot be stopped: who
    gives up calls `abandon`, which frees its place, while its thread goes on until the call returns. Where
    `max_abandoned` of them hang, calls are refused at once, the queued ones too, until some return. So there are never
    more than `max_concurrent + max_abandoned` threads.

    Args:
        name: The backend's, for messages.
        idle_s: How long a thread without work is kept.
    """

    def __init__(self, name: str, *, max_concurrent: int, max_abandoned: int, idle_s: float = 10.0) -> None:
        for value, what in ((max_concurrent, "max_concurrent"), (max_abandoned, "max_abandoned")):
            if value < 1:
                raise InvalidArgumentError(f"{what} is {value!r}", mend="Use 1 or more.")
        self.name = name
        self._max_concurrent, self._max_abandoned, self._idle_s = max_concurrent, max_abandoned, idle_s
        self._changed = threading.Condition()
        self._queue: deque[LaneCall[Any]] = deque()
        #: Calls that have a place, for threads that wait for work.
        self._ready: deque[LaneCall[Any]] = deque()
        self._running = self._abandoned = self._idle = 0
        self._closed = False

    @property
    def running(self) -> int:
        """Calls under way that somebody waits for."""
        return self._running

    @property
    def abandoned(self) -> int:
        """Calls under way that nobody waits for."""
        return self._abandoned

    def submit(self, call: Callable[[], T]) -> LaneCall[T]:
        """Runs the call in a thread as soon as there is a place.

        Raises:
            BusyError: When too many abandoned calls hang. As the call's outcome also when no thread can be started.
            UnavailableError: After `close`.
        """
        given = LaneCall(call)
        with self._changed:
            if self._closed:
                raise self._disposed()
            if self._abandoned >= self._max_abandoned:
                raise self._hanging()
            self._queue.append(given)
            self._dispatch()
        return given

    def abandon(self, given: LaneCall[Any]) -> bool:
        """Nobody waits for the call any more. True if it was running; one that is done stays as it is."""
        with self._changed:
            if given.state == "queued":
                self._queue.remove(given)
                given.state = "done"
                given.cancel()
                return False
            if given.state != "running":
                return False
            given.state = "abandoned"
            self._running -= 1
            self._abandoned += 1
            self._dispatch()
            return True

    def close(self, wait_s: float = 0.0) -> bool:
        """Refuses further calls and those that are queued, and waits for those under way; True if they all ended."""
        with self._changed:
            self._closed = True
            self._refuse_queued(self._disposed())
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._running + self._abandoned, wait_s)

    # The caller holds `_changed`

    def _dispatch(self) -> None:
        if self._abandoned >= self._max_abandoned:
            self._refuse_queued(self._hanging())
        while self._queue and self._running < self._max_concurrent:
            given = self._next()
            if self._idle > len(self._ready):
                self._ready.append(given)
                self._changed.notify_all()
                continue
            # In a list, from which it is taken out: a thread keeps its arguments as long as it lives.
            thread = threading.Thread(target=self._work, args=([given],), name=f"knowledge-{self.name}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                self._running -= 1
                self._refuse(given, BusyError(f"No thread can be started for {self.name!r}", mend="Try again later."))

    def _next(self) -> LaneCall[Any]:
        given = self._queue.popleft()
        given.state = "running"
        self._running += 1
        return given

    def _refuse_queued(self, error: KnowledgeError) -> None:
        while self._queue:
            self._refuse(self._queue.popleft(), error)

    @staticmethod
    def _refuse(given: LaneCall[Any], error: KnowledgeError) -> None:
        given.state = "done"
        given.set_exception(error)

    def _hanging(self) -> BusyError:
        return BusyError(
            f"{self._abandoned} calls to the backend {self.name!r} hang, which nobody waits for any more",
            mend="Try again later, or look at what is behind that backend.",
        )

    def _disposed(self) -> UnavailableError:
        return UnavailableError(f"The backend {self.name!r} was disposed of", mend="Open it again.")

    # In threads of its own

    def _work(self, first: list[LaneCall[Any]]) -> None:
        given: LaneCall[Any] | None = first.pop()
        while given is not None:
            tell = given.run()
            with self._changed:
                # The place is given back before anyone learns of the outcome, who may come with the next call.
                following = self._give_back(given)
            tell()
            del given, tell  # a thread without work keeps no result alive
            given = following or self._rest()
            del following

    def _give_back(self, given: LaneCall[Any]) -> LaneCall[Any] | None:
        if given.state == "abandoned":
            self._abandoned -= 1
        else:
            self._running -= 1
        given.state = "done"
        self._changed.notify_all()
        return self._next() if self._queue and self._running < self._max_concurrent else None

    def _rest(self) -> LaneCall[Any] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._ready or self._closed, self._idle_s)
            self._idle -= 1
            return self._ready.popleft() if self._ready else None


async def run_in_lane(lane: Lane, call: Callable[[], T], timeout_s: float | None = None) -> T:
    """What `call` returns, from a thread of the lane. Given up by cancelling or when the time is over.

    Raises:
        BusyError: When too many abandoned calls hang, or no turn came within `timeout_s`.
        UnavailableError: When the call did not end within `timeout_s`, or the lane is closed.
    """
    given = lane.submit(call)
    was_running = False
    try:
        async with asyncio.timeout(timeout_s):
            try:
                await done(given)
            finally:
                was_running = lane.abandon(given)
    except TimeoutError:
        limit = f"within {timeout_s:g} s"
        if was_running:
            raise UnavailableError(
                f"The backend {lane.name!r} did not answer {limit}", mend="Try again later."
            ) from None
        raise BusyError(
            f"The backend {lane.name!r} had no place for another call {limit}", mend="Try again later."
        ) from None
    return given.result()


async def done(given: LaneCall[Any]) -> None:
    """Returns when the call is done, however it ended."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle)

    given.add_done_callback(wake)
    await waiter


def run_apart(name: str, call: Callable[[], T]) -> LaneCall[T]:
    """Runs a call in a daemon thread outside all limits: for disposing of a backend whose lane is full or closed."""
    given = LaneCall(call)
    threading.Thread(target=lambda: given.run()(), name=f"knowledge-{name}", daemon=True).start()
    return given
