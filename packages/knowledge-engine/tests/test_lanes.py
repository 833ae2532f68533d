from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import wait

import pytest

from knowledge_engine.errors import BusyError, InvalidArgumentError, NotFoundError, ProviderError, UnavailableError
from knowledge_engine.lanes import Lane, run_in_lane

LIMIT_S = 10


class Gate:
    """A call that hangs until it is let go."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        assert self.open.wait(LIMIT_S)
        return "through"


def _threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"knowledge-{name}"]


def _until_none(name: str) -> None:
    for thread in _threads(name):
        thread.join(LIMIT_S)
    assert _threads(name) == []


def test_a_call_runs_in_another_thread_and_its_outcome_comes_back() -> None:
    lane = Lane("plain", max_concurrent=1, max_abandoned=1)
    assert lane.submit(threading.get_ident).result(LIMIT_S) != threading.get_ident()

    def fail() -> None:
        raise NotFoundError("No such thing", mend="Look elsewhere.")

    with pytest.raises(NotFoundError, match="No such thing"):
        lane.submit(fail).result(LIMIT_S)
    lane.close()


def test_context_variables_are_those_of_the_caller() -> None:
    request = contextvars.ContextVar[str]("request")
    request.set("r1")
    lane = Lane("context", max_concurrent=1, max_abandoned=1)

    def seen() -> str:
        before = request.get()
        request.set("changed inside")
        return before

    assert lane.submit(seen).result(LIMIT_S) == "r1"
    assert request.get() == "r1"
    lane.close()


def test_no_more_calls_run_at_once_than_are_allowed_and_the_rest_follow_in_order() -> None:
    lane = Lane("full", max_concurrent=2, max_abandoned=1)
    gates = [Gate(), Gate()]
    order: list[int] = []
    first = [lane.submit(gate) for gate in gates]
    for gate in gates:
        assert gate.entered.wait(LIMIT_S)

    def later(number: int) -> Callable[[], None]:
        return lambda: order.append(number)

    queued = [lane.submit(later(number)) for number in range(5)]
    assert (lane.running, order) == (2, [])
    gates[0].open.set()
    assert not wait(queued, LIMIT_S).not_done
    assert order == [0, 1, 2, 3, 4]
    assert len(_threads("full")) == 2
    gates[1].open.set()
    assert [call.result(LIMIT_S) for call in first] == ["through", "through"]
    lane.close()


def test_threads_are_used_again_and_end_when_there_is_nothing_to_do() -> None:
    lane = Lane("idle", max_concurrent=2, max_abandoned=1, idle_s=0.0)
    lane.submit(threading.get_ident).result(LIMIT_S)
    _until_none("idle")
    kept = Lane("kept", max_concurrent=2, max_abandoned=1, idle_s=LIMIT_S)
    seen = set()
    for _ in range(20):
        seen.add(kept.submit(threading.get_ident).result(LIMIT_S))
    assert len(seen) <= 2
    kept.close()
    _until_none("kept")


def test_an_abandoned_call_frees_its_place_and_counts_until_it_ends() -> None:
    lane = Lane("left", max_concurrent=1, max_abandoned=2)
    gate = Gate()
    hanging = lane.submit(gate)
    assert gate.entered.wait(LIMIT_S)
    behind = lane.submit(lambda: "behind")
    assert lane.abandon(hanging)
    assert not lane.abandon(hanging)
    assert behind.result(LIMIT_S) == "behind"
    assert lane.abandoned == 1
    gate.open.set()
    assert hanging.result(LIMIT_S) == "through"
    assert lane.abandoned == 0
    lane.close()


def test_a_queued_call_that_is_abandoned_never_runs() -> None:
    lane = Lane("queue", max_concurrent=1, max_abandoned=1)
    gate, ran = Gate(), threading.Event()
    hanging = lane.submit(gate)
    queued = lane.submit(ran.set)
    assert not lane.abandon(queued)
    gate.open.set()
    hanging.result(LIMIT_S)
    lane.submit(lambda: None).result(LIMIT_S)
    assert not ran.is_set()
    assert queued.cancelled()
    lane.close()


def test_when_too_many_hang_calls_are_refused_at_once_and_the_queued_ones_too() -> None:
    lane = Lane("stuck", max_concurrent=1, max_abandoned=2)
    gates = [Gate(), Gate()]
    hanging = [lane.submit(gates[0])]
    lane.abandon(hanging[0])
    hanging.append(lane.submit(gates[1]))
    queued = lane.submit(lambda: "never")
    lane.abandon(hanging[1])
    with pytest.raises(BusyError, match="2 calls to the backend 'stuck' hang"):
        queued.result(LIMIT_S)
    with pytest.raises(BusyError, match="hang"):
        lane.submit(lambda: "never")
    gates[1].open.set()
    hanging[1].result(LIMIT_S)
    assert lane.submit(lambda: "again").result(LIMIT_S) == "again"
    gates[0].open.set()
    lane.close()


def test_closing_refuses_what_waits_and_what_comes_and_tells_what_still_runs() -> None:
    lane = Lane("closed", max_concurrent=1, max_abandoned=1)
    gate = Gate()
    running, queued = lane.submit(gate), lane.submit(lambda: None)
    assert not lane.close()
    for call in (queued.result, lambda: lane.submit(lambda: None)):
        with pytest.raises(UnavailableError, match="disposed of"):
            call()
    gate.open.set()
    assert lane.close(LIMIT_S)
    assert running.result(LIMIT_S) == "through"
    _until_none("closed")


def test_where_no_thread_can_be_started_the_call_is_busy_and_its_place_is_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lane = Lane("none", max_concurrent=1, max_abandoned=1)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(BusyError, match="No thread"):
            lane.submit(lambda: None).result(LIMIT_S)
    assert lane.running == 0
    assert lane.submit(lambda: 1).result(LIMIT_S) == 1
    lane.close()


def test_a_thread_without_work_keeps_no_result_alive() -> None:
    class Big:
        pass

    lane = Lane("memory", max_concurrent=1, max_abandoned=1)
    call = lane.submit(Big)
    seen = weakref.ref(call.result(LIMIT_S))
    del call
    until = time.monotonic() + LIMIT_S
    while seen() is not None and time.monotonic() < until:
        gc.collect()  # the thread lets go of it right after it told the outcome
    assert seen() is None
    lane.close()


@pytest.mark.parametrize(
    "limits", [{"max_concurrent": 0, "max_abandoned": 1}, {"max_concurrent": 1, "max_abandoned": 0}]
)
def test_limits_below_one_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="is 0"):
        Lane("x", **limits)


def test_many_callers_at_once_all_get_their_own_answer() -> None:
    lane = Lane("busy", max_concurrent=3, max_abandoned=1, idle_s=0.0)
    answers: dict[int, list[int]] = {}

    def ask(caller: int) -> None:
        answers[caller] = [lane.submit(lambda at=at: caller * 100 + at).result(LIMIT_S) for at in range(50)]

    callers = [threading.Thread(target=ask, args=(caller,)) for caller in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert answers == {caller: [caller * 100 + at for at in range(50)] for caller in range(8)}
    assert (lane.running, lane.abandoned) == (0, 0)
    assert lane.close(LIMIT_S)
    _until_none("busy")


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_a_call_that_would_end_the_process_is_only_a_failure(ending: BaseException) -> None:
    def call() -> None:
        raise ending

    lane = Lane("x", max_concurrent=1, max_abandoned=1)
    with pytest.raises(ProviderError, match=type(ending).__name__):
        lane.submit(call).result(timeout=60)
    lane.close()


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_coroutine_gets_what_its_call_returns_or_raises() -> None:
    lane = Lane("async", max_concurrent=1, max_abandoned=1)

    def fail() -> None:
        raise NotFoundError("No such thing", mend="Look elsewhere.")

    async def main() -> None:
        assert await run_in_lane(lane, threading.get_ident) != threading.get_ident()
        assert await run_in_lane(lane, lambda: 7, LIMIT_S) == 7
        with pytest.raises(NotFoundError, match="No such thing"):
            await run_in_lane(lane, fail, LIMIT_S)

    asyncio.run(main())
    lane.close()


def test_a_coroutine_that_is_cancelled_frees_the_place_of_its_call() -> None:
    lane, gate = Lane("cancelled", max_concurrent=1, max_abandoned=2), Gate()

    async def main() -> None:
        waiting = asyncio.create_task(run_in_lane(lane, gate))
        await _until(gate.entered.is_set)
        queued = asyncio.create_task(run_in_lane(lane, lambda: "never"))
        await asyncio.sleep(0)
        for task in (queued, waiting):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (lane.running, lane.abandoned) == (0, 1)
        assert await run_in_lane(lane, lambda: "next", LIMIT_S) == "next"

    asyncio.run(main())
    gate.open.set()
    assert lane.close(LIMIT_S)


def test_a_call_that_does_not_end_in_time_is_unavailable_and_one_without_a_turn_is_busy() -> None:
    lane, gate = Lane("slow", max_concurrent=1, max_abandoned=2), Gate()

    async def main() -> None:
        hanging = asyncio.create_task(run_in_lane(lane, gate))
        await _until(gate.entered.is_set)
        with pytest.raises(BusyError, match=r"'slow' had no place for another call within 0\.01 s"):
            await run_in_lane(lane, lambda: None, 0.01)
        hanging.cancel()
        await asyncio.wait({hanging})
        with pytest.raises(UnavailableError, match=r"'slow' did not answer within 0\.2 s") as caught:
            await run_in_lane(lane, lambda: gate.open.wait(LIMIT_S), 0.2)
        assert not isinstance(caught.value, BusyError)
        with pytest.raises(BusyError, match="hang"):
            await run_in_lane(lane, lambda: None, LIMIT_S)

    asyncio.run(main())
    gate.open.set()
    assert lane.close(LIMIT_S)
    with pytest.raises(UnavailableError):
        asyncio.run(run_in_lane(lane, lambda: None))


def test_a_call_that_ends_after_its_event_loop_disturbs_nobody() -> None:
    lane, gate = Lane("late", max_concurrent=1, max_abandoned=1), Gate()

    async def main() -> None:
        asyncio.ensure_future(run_in_lane(lane, gate))  # noqa: RUF006 - left alone on purpose
        await _until(gate.entered.is_set)

    asyncio.run(main())
    gate.open.set()
    assert lane.close(LIMIT_S)
