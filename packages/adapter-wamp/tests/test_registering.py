"""Registering on what an app has: never an exception, and each topic that failed is named with its reason."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Capabilities
from knowledge_wamp import registering
from knowledge_wamp.registering import register_knowledge_tools
from wamp_bench.servers import DOCS

SECONDS = 30.0
LIST, GET = "app_knowledge.list", "app_knowledge.get"
NEEDED = "needs ironflock >= 1.5.3"


class Sdk:
    """Has the one method of the SDK that is used, and keeps what it was given."""

    def __init__(self) -> None:
        self.registered: dict[str, Callable[..., Any]] = {}

    async def register_device_function(self, topic: str, endpoint: Callable[..., Any], options: Any = None) -> object:
        self.registered[topic] = endpoint
        return object()


class Reports(list[str]):
    """Takes what is reported."""

    async def __call__(self, text: str) -> None:
        self.append(text)


def register(handle: object, given: object = None, *args: Any, **kwargs: Any) -> list[str]:
    return run(register_knowledge_tools(handle, given or MemoryProvider(DOCS), *args, **kwargs))


def run(call: Coroutine[Any, Any, list[str]]) -> list[str]:
    return asyncio.run(asyncio.wait_for(call, SECONDS))


# A handle of the SDK's kind


def test_the_two_tools_of_agents_are_registered_under_their_topics() -> None:
    sdk, reports = Sdk(), Reports()
    assert register(sdk, None, reports) == []
    assert set(sdk.registered) == {LIST, GET}
    assert reports == []
    assert asyncio.run(sdk.registered[GET](doc_id="device.pump"))["found"] is True  # type: ignore[arg-type]


def test_topics_are_laid_over_the_usual_ones() -> None:
    sdk = Sdk()
    assert register(sdk, None, topics={"get": "other.get", "query": "other.query", "list": None}) == []
    assert set(sdk.registered) == {"other.get", "other.query"}


@pytest.mark.parametrize("topics", [None, {}, [], "app", 5])
def test_what_is_no_mapping_of_topics_changes_nothing(topics: Any) -> None:
    sdk = Sdk()
    assert register(sdk, topics=topics) == []
    assert set(sdk.registered) == {LIST, GET}


def test_a_handle_that_is_not_async_will_do() -> None:
    class Plain:
        def register_device_function(self, topic: str, _endpoint: Any) -> str:
            return topic

    assert register(Plain()) == []


class _Returns(Sdk):
    async def register_device_function(self, topic: str, endpoint: Any, options: Any = None) -> Any:
        return None


class _Raises(Sdk):
    async def register_device_function(self, topic: str, endpoint: Any, options: Any = None) -> Any:
        raise RuntimeError(f"no\nsession for {topic} " + "x" * 1_000)


class _RaisesAtOnce(Sdk):
    def register_device_function(self, topic: str, endpoint: Any, options: Any = None) -> Any:
        raise RuntimeError("no session")


class _TimesOut(Sdk):
    async def register_device_function(self, topic: str, endpoint: Any, options: Any = None) -> Any:
        raise TimeoutError("no session in time")


class _GivesUp(Sdk):
    async def register_device_function(self, topic: str, endpoint: Any, options: Any = None) -> Any:
        raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("handle", "why"),
    [
        (_Returns(), "the SDK's own output says why"),
        (_Raises(), "refused: no session for app_knowledge.list"),
        (_RaisesAtOnce(), "refused: no session"),
        (_TimesOut(), "refused: no session in time"),
        (_GivesUp(), "refused: cancelled"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_handle_that_refuses_fails_all_topics_in_one_report(handle: Sdk, why: str) -> None:
    reports = Reports()
    assert register(handle, None, reports) == [LIST, GET]
    (line,) = reports
    assert why in line
    assert repr(LIST) in line
    assert repr(GET) in line
    assert line.isprintable()
    assert len(line) < 1_000


def test_one_topic_that_is_refused_at_once_leaves_the_others_alone() -> None:
    class Picky(Sdk):
        def register_device_function(self, topic: str, endpoint: Any, options: Any = None) -> Any:
            if topic == LIST:
                raise ValueError("not this one")
            return super().register_device_function(topic, endpoint)

    sdk, reports = Picky(), Reports()
    assert register(sdk, None, reports) == [LIST]
    assert set(sdk.registered) == {GET}
    assert "not this one" in reports[0]
    assert GET not in reports[0]


def test_a_handle_that_hangs_fails_when_its_time_is_over() -> None:
    class Hangs(Sdk):
        async def register_device_function(self, topic: str, endpoint: Any, options: Any = None) -> Any:
            await asyncio.Event().wait()

    reports = Reports()
    assert register(Hangs(), None, reports, timeout_s=0.5) == [LIST, GET]
    assert "no answer within 0.5 s" in reports[0]


def test_a_handle_that_hangs_and_ignores_that_it_is_cancelled_does_not_hold_up_the_app() -> None:
    async def attempt() -> tuple[list[str], int]:
        release, ignored = asyncio.Event(), 0

        class Stubborn(Sdk):
            async def register_device_function(self, topic: str, endpoint: Any, options: Any = None) -> Any:
                nonlocal ignored
                while not release.is_set():
                    try:
                        await release.wait()
                    except asyncio.CancelledError:
                        ignored += 1

        failed = await register_knowledge_tools(Stubborn(), MemoryProvider(DOCS), timeout_s=0.2)
        await asyncio.sleep(0)
        release.set()
        return failed, ignored

    assert asyncio.run(asyncio.wait_for(attempt(), SECONDS)) == ([LIST, GET], 2)


def test_whoever_gives_up_waiting_leaves_no_registration_running() -> None:
    async def attempt() -> int:
        before, started = asyncio.all_tasks(), list[str]()

        class Hangs(Sdk):
            async def register_device_function(self, topic: str, endpoint: Any, options: Any = None) -> Any:
                started.append(topic)
                await asyncio.Event().wait()

        call = asyncio.ensure_future(register_knowledge_tools(Hangs(), MemoryProvider(DOCS)))
        while len(started) < 2:
            await asyncio.sleep(0.001)
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()
        for _ in range(5):
            await asyncio.sleep(0)
        return len(asyncio.all_tasks() - before)

    assert asyncio.run(asyncio.wait_for(attempt(), SECONDS)) == 0


# What is no handle, no library, no report


class _OtherSdk:
    """Another library's `register` takes its arguments the other way round."""

    def register(self, *_: Any) -> None:
        raise AssertionError("who knows what this does")


class _Hostile:
    @property
    def register_device_function(self) -> object:
        raise RuntimeError("a property of somebody else's")


@pytest.mark.parametrize("handle", [None, object(), 5, "handle", _OtherSdk()], ids=lambda value: type(value).__name__)
def test_anything_else_fails_all_topics_and_says_what_is_needed(handle: object) -> None:
    reports = Reports()
    assert register(handle, None, reports, topics={"query": "app_knowledge.query"}) == [
        LIST,
        GET,
        "app_knowledge.query",
    ]
    assert len(reports) == 1
    assert reports[0].count(NEEDED) == 3


def test_a_handle_whose_own_code_fails_fails_all_topics(caplog: pytest.LogCaptureFixture) -> None:
    reports = Reports()
    assert register(_Hostile(), None, reports) == [LIST, GET]
    assert "RuntimeError" in reports[0]
    assert "a property of somebody else's" in caplog.text


@pytest.mark.parametrize("given", [5, "docs", ["a"], type("Library", (), {"list_docs": print})()])
def test_what_holds_no_documents_fails_all_topics(given: object) -> None:
    sdk, reports = Sdk(), Reports()
    assert register(sdk, given, reports) == [LIST, GET]
    assert sdk.registered == {}
    assert f"a {type(given).__name__} is no library and no provider" in reports[0]


def test_a_library_whose_own_code_fails_fails_all_topics() -> None:
    class Bad:
        @property
        def tools(self) -> object:
            raise RuntimeError("inside")

    assert register(Sdk(), Bad()) == [LIST, GET]


def test_a_backend_that_has_to_ask_elsewhere_what_it_can_do_does_not_block_the_app() -> None:
    loops: list[bool] = []

    class Remote(MemoryProvider):
        @property
        def capabilities(self) -> Capabilities:
            loops.append(threading.current_thread() is threading.main_thread())
            return Capabilities()

    assert register(Sdk(), Remote(DOCS)) == []
    assert not any(loops)


def test_without_a_report_the_reason_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert register(None) == [LIST, GET]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert NEEDED in record.getMessage()


def test_a_report_need_not_be_async() -> None:
    reports: list[str] = []
    assert register(None, None, reports.append) == [LIST, GET]
    assert len(reports) == 1


async def _fails(_text: str) -> None:
    raise RuntimeError("the report's own")


def _fails_at_once(_text: str) -> None:
    raise RuntimeError("the report's own")


async def _gives_up(_text: str) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("report", [_fails, _fails_at_once, _gives_up, 5, "report"])
def test_a_report_that_fails_is_told_in_the_log_only(report: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert register(None, None, report) == [LIST, GET]
    assert "the report of it failed too" in caplog.text


def test_a_report_that_hangs_does_not_hold_up_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "_REPORT_TIMEOUT_S", 0.05)

    async def hang(_text: str) -> None:
        await asyncio.Event().wait()

    assert register(None, None, hang) == [LIST, GET]


# Topics


class _Shy:
    def __str__(self) -> str:
        raise RuntimeError("says nothing of itself")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compares with nothing")

    __hash__ = object.__hash__


BAD_TOPICS = ["", "a..b", "a.b.", "a b", "wamp.x", 5, b"bytes", ["a"], "x\ny", "a" * 5_000]


@pytest.mark.parametrize("topic", [*BAD_TOPICS, _Shy()])
def test_a_bad_topic_is_never_sent_and_the_other_tool_is_registered(topic: Any) -> None:
    sdk, reports = Sdk(), Reports()
    failed = register(sdk, None, reports, topics={"list": topic})
    assert failed == [topic if isinstance(topic, str) else "_Shy" if isinstance(topic, _Shy) else str(topic)]
    assert set(sdk.registered) == {GET}
    assert len(reports) == 1
    assert len(reports[0]) < 500
    assert reports[0].isprintable()


def test_two_tools_cannot_have_one_topic() -> None:
    sdk, reports = Sdk(), Reports()
    assert register(sdk, None, reports, topics={"query": GET, "list": GET}) == [GET, GET]
    assert set(sdk.registered) == {GET}
    assert "the topic is that of 'list'" in reports[0]


@pytest.mark.parametrize("tool", ["search", "", None, 5])
def test_a_tool_that_there_is_none_of_fails_by_its_topic(tool: Any) -> None:
    sdk, reports = Sdk(), Reports()
    assert register(sdk, None, reports, topics={tool: "app_knowledge.search"}) == ["app_knowledge.search"]
    assert set(sdk.registered) == {LIST, GET}
    assert "use list, get, query" in reports[0]
