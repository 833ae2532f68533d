"""Registers the agent tools on a connection that an app has: an IronFlock SDK object or an autobahn session."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from knowledge_engine.lanes import run_in_lane
from knowledge_wamp.handlers import TOOLS, Handler, ToolHandlers, find_tools, make_lane
from knowledge_wamp.keywords import allow_any_keyword
from knowledge_wamp.topics import DEFAULT_TOPICS, uri_problem

#: Longer than the SDK itself waits for a connection, which is a minute.
REGISTER_TIMEOUT_S = 75.0
_REPORT_TIMEOUT_S = 10.0
_MAX_SHOWN = 200
_NO_HANDLE = "needs ironflock >= 1.5.3 (register_device_function), or an autobahn session"
_log = logging.getLogger("knowledge_wamp")

Report = Callable[[str], object]
_Register = Callable[[str, Handler], Coroutine[Any, Any, object]]


async def register_knowledge_tools(
    handle: object,
    library_or_provider: object,
    report: Report | None = None,
    topics: Mapping[str, str | None] | None = None,
    *,
    timeout_s: float = REGISTER_TIMEOUT_S,
) -> list[str]:
    """Registers `list` and `get` for agents, and gives the topics that failed. Never raises.

    Args:
        handle: An IronFlock SDK object from 1.5.3 on, or a joined autobahn session. On an autobahn session a stale
            registration of the same name is taken over, and the session's end ends the registrations: call it again
            after each join. The SDK does that itself.
        library_or_provider: A `KnowledgeLibrary`, a provider, a `KnowledgeService`, or `AgentTools`. Its calls run in
            threads, at most eight at once.
        report: Called once with one line of text when something failed; may be a coroutine function. What it raises
            is swallowed.
        topics: Tool to topic, laid over `app_knowledge.list` and `app_knowledge.get`; `query` can be added, and None
            leaves a tool out.
        timeout_s: How long the registrations may take together.
    """
    wanted = {**DEFAULT_TOPICS, **(topics if isinstance(topics, Mapping) else {})}
    chosen = {tool: topic for tool, topic in wanted.items() if topic is not None}
    failed: dict[str, str] = {}
    try:
        failed = await _register_all(handle, library_or_provider, chosen, timeout_s)
    except Exception as error:  # the app's start-up goes on, whatever it handed over
        _log.exception("registering the knowledge tools failed")
        failed = {tool: f"failed ({type(error).__name__})" for tool in chosen}
    if failed:
        await _tell(report, [f"{_shown(topic)} ({failed[tool]})" for tool, topic in chosen.items() if tool in failed])
    return [_named(topic) for tool, topic in chosen.items() if tool in failed]


async def _register_all(handle: object, given: object, topics: Mapping[str, str], timeout_s: float) -> dict[str, str]:
    register = _registrar(handle)
    if register is None:
        return dict.fromkeys(topics, _NO_HANDLE)
    lane = make_lane("knowledge")
    try:
        # Apart: a backend elsewhere may be asked what it can do.
        handlers = ToolHandlers(await run_in_lane(lane, partial(find_tools, given), REGISTER_TIMEOUT_S), lane)
    except TypeError as error:
        return dict.fromkeys(topics, str(error))
    allow_any_keyword()
    failed: dict[str, str] = {}
    running: dict[str, asyncio.Task[str]] = {}
    for tool, topic in topics.items():
        if problem := _problem(tool, topic, topics):
            failed[tool] = problem
        else:
            handler = handlers.handler(tool)
            running[tool] = asyncio.create_task(_register_one(partial(register, topic, handler), timeout_s))
    try:
        for tool, task in running.items():
            if problem := await task:
                failed[tool] = problem
    finally:  # also when whoever called gave up
        for task in running.values():
            task.cancel()
    return failed


def _problem(tool: str, topic: str, topics: Mapping[str, object]) -> str:
    if tool not in TOOLS:
        return f"there is no tool {_shown(tool)}: use {', '.join(TOOLS)}"
    if problem := uri_problem(topic):
        return problem
    first = next(other for other, named in topics.items() if isinstance(named, str) and named == topic)
    return "" if first == tool else f"the topic is that of {first!r}"


async def _register_one(register: Callable[[], Coroutine[Any, Any, object]], timeout_s: float) -> str:
    """Why it failed; empty if it did not."""
    try:
        registration = await _within(register(), timeout_s)
    except _TooLateError:
        return f"no answer within {timeout_s:g} s"
    except Exception as error:
        return f"refused: {_in_words(error)}"
    return "" if registration is not None else "refused: the SDK's own output says why"


class _TooLateError(Exception):
    """Something took too long. Not a TimeoutError, which an SDK may raise itself to say something else."""


async def _within(call: Coroutine[Any, Any, object], timeout_s: float) -> object:
    """What code of the app returns or raises.

    Raises:
        _TooLateError: When that takes longer; unlike with `asyncio.timeout` also when it ignores that it is cancelled.
        ConnectionAbortedError: When it was cancelled by somebody else.
    """
    task = asyncio.ensure_future(call)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
    finally:
        task.cancel()
    if not done:
        raise _TooLateError
    if task.cancelled():
        raise ConnectionAbortedError("cancelled")
    return task.result()


def _registrar(handle: object) -> _Register | None:
    """How to register on that handle; None if nobody knows."""
    own = getattr(handle, "register_device_function", None)
    if callable(own):
        return lambda topic, handler: _called(own, topic, handler)
    # Another SDK's `register` takes the topic first: only what is known to be a session is asked.
    session = getattr(handle, "register", None)
    if callable(session) and callable(getattr(handle, "is_attached", None)):
        return lambda topic, handler: _register_on_session(handle, topic, handler)
    return None


async def _called(function: Callable[..., Any], *args: object) -> object:
    """Whether it is a coroutine function or not; what it raises comes later in either case."""
    result = function(*args)
    return await result if inspect.isawaitable(result) else result


async def _register_on_session(session: Any, topic: str, handler: Handler) -> object:
    from autobahn.wamp.types import RegisterOptions

    if not session.is_attached():
        raise ConnectionError("the session has not joined a realm")
    pending = asyncio.ensure_future(session.register(handler, topic, options=RegisterOptions(force_reregister=True)))
    try:
        # Not cancelled: autobahn would know nothing of a registration that comes late, and end the session at its
        # first call.
        return await asyncio.shield(pending)
    except asyncio.CancelledError:
        pending.add_done_callback(_undo)
        raise


def _undo(pending: asyncio.Future[Any]) -> None:
    if not pending.cancelled() and pending.exception() is None:
        undoing = pending.result().unregister()
        if isinstance(undoing, asyncio.Future):
            undoing.add_done_callback(lambda done: done.cancelled() or done.exception())


def _in_words(error: BaseException) -> str:
    return str(getattr(error, "error", "") or str(error) or type(error).__name__)[:_MAX_SHOWN]


def _named(given: object) -> str:
    """What should have been a name, as text whatever it is."""
    if isinstance(given, str):
        return given
    try:
        return str(given)[:_MAX_SHOWN]
    except Exception:  # its own code says what it is, and may fail
        return type(given).__name__


def _shown(given: object) -> str:
    return repr(_named(given)[:_MAX_SHOWN])


async def _tell(report: Report | None, reasons: list[str]) -> None:
    line = " ".join(f"Knowledge tools not registered: {'; '.join(reasons)}".split())
    _log.warning("%s", line)
    if report is None:
        return
    try:
        await _within(_called(report, line), _REPORT_TIMEOUT_S)
    except Exception:
        _log.warning("the report of it failed too", exc_info=True)
