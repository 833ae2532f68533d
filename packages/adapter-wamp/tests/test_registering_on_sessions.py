"""Registering on a real session: what the router says of it, and what callers may then ask."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
import txaio
from autobahn.wamp.exception import ApplicationError

from knowledge_engine.memory import MemoryProvider
from knowledge_wamp.keywords import allow_any_keyword
from knowledge_wamp.registering import register_knowledge_tools
from wamp_bench.node_config import DENIED_PREFIX
from wamp_bench.proxy import CuttingProxy
from wamp_bench.python_client import BenchSession, connect, wamp_call
from wamp_bench.router import Router
from wamp_bench.servers import DOCS, new_prefix

SECONDS = 30.0
LIST, GET = "app_knowledge.list", "app_knowledge.get"
BAD_TOPICS = ["", "a..b", "a.b.", "a b", "wamp.x", 5, b"bytes", ["a"], "x\ny", "a" * 5_000]


class Reports(list[str]):
    """Takes what is reported."""

    async def __call__(self, text: str) -> None:
        self.append(text)


async def on_session(session: BenchSession, *args: Any, **kwargs: Any) -> list[str]:
    return await asyncio.wait_for(register_knowledge_tools(session, MemoryProvider(DOCS), *args, **kwargs), SECONDS)


def test_bad_topics_leave_a_session_attached(router: Router) -> None:
    prefix, reports = new_prefix(), Reports()

    async def attempt() -> None:
        async with connect(router.url, router.realm) as session:
            for topic in BAD_TOPICS:
                failed = await on_session(session, reports, {"list": topic, "get": f"{prefix}.get"})
                assert failed == [topic if isinstance(topic, str) else str(topic)]
            assert session.is_attached()
            answer = await asyncio.wait_for(session.call(f"{prefix}.get", doc_id="device.pump"), SECONDS)
            assert answer["found"] is True

    asyncio.run(attempt())
    assert len(reports) == len(BAD_TOPICS)


def test_a_registration_that_the_router_denies_is_named_and_the_others_work(router: Router) -> None:
    prefix, reports = new_prefix(), Reports()
    topics = {"list": f"{DENIED_PREFIX}{prefix}.list", "get": f"{prefix}.get", "query": f"{prefix}.query"}

    async def attempt() -> None:
        async with connect(router.url, router.secured_realm, auth=router.ticket) as session:
            assert await on_session(session, reports, topics) == [topics["list"]]
            assert (await session.call(topics["get"], doc_id="device.pump"))["found"] is True
            assert (await session.call(topics["query"], query="modbus"))["count"] == 1
            with pytest.raises(ApplicationError, match="no_such_procedure"):
                await session.call(topics["list"])

    asyncio.run(asyncio.wait_for(attempt(), SECONDS))
    (line,) = reports
    assert topics["list"] in line
    assert "not_authorized" in line
    assert topics["get"] not in line


def test_a_name_that_an_older_session_still_holds_is_taken_over(router: Router) -> None:
    prefix = new_prefix()
    topics = {"list": f"{prefix}.list", "get": None}

    async def attempt() -> tuple[int, int]:
        newer = {"new.md": DOCS["pump.md"], "second.md": DOCS["pump.md"].replace(b"device.pump", b"device.second")}
        async with connect(router.url, router.realm) as old, connect(router.rawsocket_url, router.realm) as new:
            assert await register_knowledge_tools(old, MemoryProvider(DOCS), topics=topics) == []
            before = await wamp_call(router.url, router.realm, topics["list"])  # type: ignore[arg-type]
            assert await register_knowledge_tools(new, MemoryProvider(newer), topics=topics) == []
            after = await wamp_call(router.url, router.realm, topics["list"])  # type: ignore[arg-type]
            assert old.is_attached()
            # The same session may register again, too.
            assert await register_knowledge_tools(new, MemoryProvider(newer), topics=topics) == []
            return before["count"], after["count"]

    assert asyncio.run(asyncio.wait_for(attempt(), SECONDS)) == (1, 2)


def test_a_session_that_was_left_fails_all_topics(router: Router) -> None:
    reports = Reports()

    async def attempt() -> list[str]:
        async with connect(router.url, router.realm) as session:
            pass
        return await on_session(session, reports)

    assert asyncio.run(attempt()) == [LIST, GET]
    assert "has not joined a realm" in reports[0]


def test_a_registration_that_the_router_answers_too_late_is_undone(
    router: Router, cutting_proxy: Callable[[int], CuttingProxy]
) -> None:
    proxy, prefix = cutting_proxy(router.rawsocket_port), new_prefix()
    topic = f"{prefix}.list"

    async def attempt() -> None:
        async with connect(proxy.rawsocket_url, router.realm) as session:
            proxy.stall()
            failed = await on_session(session, None, {"list": topic, "get": None}, timeout_s=0.1)
            assert failed == [topic]
            proxy.resume()
            await asyncio.wait_for(session.register(lambda: 1, f"{prefix}.after"), SECONDS)
            await asyncio.wait_for(session.call(f"{prefix}.after"), SECONDS)
            with pytest.raises(ApplicationError, match="no_such_procedure"):
                await asyncio.wait_for(session.call(topic), SECONDS)
            assert session.is_attached()

    asyncio.run(attempt())


@pytest.mark.parametrize("outcome", ["registered", "refused", "cancelled"])
def test_whatever_comes_of_a_late_registration_harms_nobody(outcome: str) -> None:
    class Registration:
        undone = 0

        def unregister(self) -> None:
            self.undone += 1

    async def attempt() -> int:
        pending: list[asyncio.Future[Registration]] = []
        registration = Registration()

        class Session:
            def is_attached(self) -> bool:
                return True

            def register(self, *_: Any, **__: Any) -> Any:
                pending.append(asyncio.get_running_loop().create_future())
                return pending[0]

        handle = Session()
        topics = {"list": "a.list", "get": None}
        assert await register_knowledge_tools(handle, MemoryProvider(DOCS), None, topics, timeout_s=0.1) == ["a.list"]
        {
            "registered": lambda: pending[0].set_result(registration),
            "refused": lambda: pending[0].set_exception(ApplicationError("wamp.error.x")),
            "cancelled": lambda: pending[0].cancel(),
        }[outcome]()
        for _ in range(5):
            await asyncio.sleep(0)
        return registration.undone

    assert asyncio.run(asyncio.wait_for(attempt(), SECONDS)) == (outcome == "registered")


def test_a_session_that_is_lost_meanwhile_fails_all_topics(
    router: Router, cutting_proxy: Callable[[int], CuttingProxy]
) -> None:
    proxy = cutting_proxy(router.rawsocket_port)

    async def attempt() -> list[str]:
        async with connect(proxy.rawsocket_url, router.realm) as session:
            proxy.stall()
            call = asyncio.ensure_future(on_session(session, timeout_s=1.0))
            await asyncio.sleep(0)
            proxy.cut()
            return await call

    assert asyncio.run(attempt()) == [LIST, GET]


# Arguments of any name


@pytest.fixture
def flawed_autobahn(monkeypatch: pytest.MonkeyPatch) -> None:
    """autobahn as it is installed, whatever was mended before."""
    monkeypatch.setattr(txaio, "as_future", txaio.aio._default_api.as_future)


@pytest.mark.usefixtures("flawed_autobahn")
def test_arguments_of_any_name_leave_the_session_attached(router: Router) -> None:
    topic = f"{new_prefix()}.list"

    async def attempt() -> None:
        async with connect(router.url, router.realm) as session:
            await on_session(session, None, {"list": topic, "get": None})
            answer = await asyncio.wait_for(session.call(topic, fun=1, name=2, tool=3, args=4, kwargs=5), SECONDS)
            assert answer["count"] == 0
            assert session.is_attached()

    asyncio.run(attempt())


@pytest.mark.usefixtures("flawed_autobahn")
def test_autobahn_is_mended_once_and_runs_functions_as_before() -> None:
    allow_any_keyword()
    mended = txaio.as_future
    allow_any_keyword()
    assert txaio.as_future is mended

    async def outcomes() -> list[Any]:
        def fail() -> None:
            raise ZeroDivisionError

        async def later(*args: int, **kwargs: int) -> tuple[Any, Any]:
            return args, kwargs

        futures = [mended(dict, self=1, fun=2), mended(later, 1, fun=2), mended(fail)]
        return await asyncio.gather(*futures, return_exceptions=True)

    plain, coroutine, failure = asyncio.run(outcomes())
    assert plain == {"self": 1, "fun": 2}
    assert coroutine == ((1,), {"fun": 2})
    assert isinstance(failure, ZeroDivisionError)


def test_without_autobahn_there_is_nothing_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "txaio")
    allow_any_keyword()
    assert "txaio" not in sys.modules
