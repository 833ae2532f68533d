"""An event loop of one's own for callers that know none."""

from __future__ import annotations

import asyncio
import threading

import pytest

from knowledge_engine.errors import UnavailableError
from knowledge_wamp.loop_thread import LoopThread

SECONDS = 30.0


async def nothing() -> None:
    return None


async def name_of_thread() -> str:
    return threading.current_thread().name


def test_calls_run_in_one_thread_of_that_name() -> None:
    before = threading.active_count()
    thread = LoopThread("a-name")
    assert threading.active_count() == before  # nothing is started before the first call
    assert {thread.run(name_of_thread), thread.run(name_of_thread)} == {"a-name"}
    assert threading.active_count() == before + 1
    thread.close(nothing)
    assert threading.active_count() == before


def test_what_a_call_raises_reaches_its_caller() -> None:
    async def fail() -> None:
        raise ZeroDivisionError("of the call")

    thread = LoopThread("test")
    with pytest.raises(ZeroDivisionError, match="of the call"):
        thread.run(fail)
    thread.close(nothing)


def test_after_closing_calls_are_refused_and_closing_again_does_nothing() -> None:
    thread = LoopThread("test")
    thread.run(nothing)
    thread.close(nothing)
    thread.close(nothing)
    with pytest.raises(UnavailableError, match="disposed of"):
        thread.run(nothing)


def test_what_was_never_used_can_be_closed() -> None:
    thread = LoopThread("test")
    thread.close(nothing)
    with pytest.raises(UnavailableError, match="Open it again"):
        thread.run(nothing)


def test_calls_under_way_end_as_unavailable_when_it_is_closed() -> None:
    thread = LoopThread("test")
    entered = threading.Semaphore(0)
    outcomes: list[str] = []

    async def hang() -> None:
        entered.release()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            thread.run(hang)
        except UnavailableError as error:
            outcomes.append(error.code)

    callers = [threading.Thread(target=call) for _ in range(5)]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert entered.acquire(timeout=SECONDS)
    thread.close(nothing)
    for caller in callers:
        caller.join(SECONDS)
    assert outcomes == ["unavailable"] * 5


def test_a_last_call_that_fails_ends_the_thread_all_the_same() -> None:
    async def fail() -> None:
        raise OSError("already gone")

    before = threading.active_count()
    thread = LoopThread("test")
    thread.run(nothing)
    thread.close(fail)
    assert threading.active_count() == before


def test_a_call_may_close_it_from_inside() -> None:
    thread = LoopThread("test")
    inside: list[threading.Thread] = []

    async def close() -> str:
        inside.append(threading.current_thread())
        thread.close(nothing)
        return "closed"

    assert thread.run(close) == "closed"
    inside[0].join(SECONDS)
    assert not inside[0].is_alive()


def test_it_may_be_called_from_a_thread_with_a_running_event_loop() -> None:
    thread = LoopThread("test")

    async def inside() -> str:
        return thread.run(name_of_thread)

    assert asyncio.run(inside()) == "test"
    thread.close(nothing)
