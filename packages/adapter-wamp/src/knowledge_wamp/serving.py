"""`knowledge serve wamp`: procedures over services, on a router that comes and goes."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from autobahn.wamp.types import RegisterOptions

from knowledge_engine.errors import InvalidArgumentError, KnowledgeError, UnavailableError
from knowledge_engine.fusion import FederatedProvider
from knowledge_engine.lanes import run_in_lane
from knowledge_engine.logs import log_json
from knowledge_engine.redaction import redact_url
from knowledge_engine.service import KnowledgeService
from knowledge_wamp import topics
from knowledge_wamp.answers import Answer
from knowledge_wamp.handlers import Handler, ToolHandlers, find_tools, make_lane
from knowledge_wamp.health import HealthFile
from knowledge_wamp.keeping import keep_session
from knowledge_wamp.procedures import Procedures, procedure_handler
from knowledge_wamp.session import TAKEN, Session
from knowledge_wamp.settings import WampSettings

_REGISTER_TIMEOUT_S = 10.0
#: How long an answer is given again without a look at what it was made from, where one that old will do.
_RECENT_S = 0.2
#: How long calls under way may take to end when the server is told to stop.
DRAIN_TIMEOUT_S = 5.0
#: How long until a registration that was refused is tried again.
RETRY_S = 30.0
#: How old what a federation has taken in may be.
_FRESH_FOR_S = 1.0
#: By a word of why a procedure is not registered: what to do.
_MENDS: Mapping[str, str] = {
    TAKEN: "Stop one of the two, set KNOWLEDGE_WAMP_SHARED for both, or give each a prefix of its own.",
    "already_exists": "Stop the other server, set KNOWLEDGE_WAMP_SHARED for both, or give each a prefix of its own.",
    "different_invocation_policy": "Set KNOWLEDGE_WAMP_SHARED for all servers of this prefix, or for none.",
    "not_authorized": "Let this one register there, in the router's permissions.",
}
_log = logging.getLogger("knowledge_wamp")


class WampServer:
    """Registers the procedures of one or several services, and does so again after each lost connection.

    Several services are served as one, their ids as `name:source_id`.

    Args:
        services: By the names of their backends. Not disposed of.
    """

    def __init__(self, services: Mapping[str, KnowledgeService], settings: WampSettings) -> None:
        if not services:
            raise InvalidArgumentError("There is nothing to serve", mend="Name a backend.")
        self._settings = settings
        self._lane = make_lane("wamp")
        self._health = HealthFile(settings.health_file)
        self._stop = asyncio.Event()
        self._service = _as_one(services)
        self._handlers: Mapping[str, Handler] = {}
        self._session: Session | None = None
        self._tending: asyncio.Task[None] | None = None
        #: By URI: why it is not registered just now.
        self._failed: dict[str, str] = {}

    @property
    def health(self) -> Mapping[str, Any]:
        """What the health file says."""
        return self._health.state

    def stop(self) -> None:
        """Ends `run`. To be called in its event loop."""
        self._stop.set()

    async def run(self) -> None:
        """Serves until `stop`, or until it is cancelled. Once.

        Raises:
            ConfigurationError: When the router refuses for good before anything was served.
        """
        where = {"url": redact_url(self._settings.url), "realm": self._settings.realm}
        self._health.say("connecting", **where)
        _log.info("connecting", extra=where)
        tasks = [asyncio.create_task(each) for each in (self._keep(), self._health.beat(), self._stop.wait())]
        keeping, _, stopping = tasks
        reason: dict[str, str] = {}
        try:
            await asyncio.wait({keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
            await self._drain()
        except KnowledgeError as error:
            reason = {"reason": str(error)}
            raise
        finally:
            if self._tending is not None:
                tasks.append(self._tending)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._lane.close()
            self._health.say("stopped", session=None, registered=[], failed={}, **reason)
            _log.info("stopped")

    async def _keep(self) -> None:
        # In a thread, as it looks at the backend; in one that does not hold up the end of the process.
        self._handlers = await run_in_lane(self._lane, self._made_handlers)
        await keep_session(self._settings, self._serve, self._lost)

    def _made_handlers(self) -> dict[str, Handler]:
        """By URI."""
        settings, lane = self._settings, self._lane
        procedures = Procedures(self._service, writable=settings.writable, max_bytes=settings.max_payload)
        tools = ToolHandlers(
            find_tools(self._service),
            lane,
            timeout_s=settings.timeout_s,
            max_bytes=settings.max_payload,
            recent_s=min(_RECENT_S, self._service.fresh_for_s),
        )
        handlers = {topic: tools.handler(name) for name, topic in topics.DEFAULT_TOPICS.items()}
        for topic, procedure in procedures.by_topic().items():
            writes = topic in (topics.INGEST, topics.DELETE)
            handlers[topic] = procedure_handler(
                procedure, lane, settings.timeout_s, done=tools.forget if writes else None
            )
        handlers[topics.QUERY] = _query_handler(tools.handler("query"), handlers[topics.QUERY])
        return {settings.procedure(topic): handler for topic, handler in handlers.items()}

    async def _serve(self, session: Session) -> None:
        self._session, self._failed = session, {}
        session.on_taken = self._taken
        await self._register(session, self._handlers, again=False)
        self._say()
        _log.info("registered", extra={"session": session.session_id, "registered": self.health["registered"]})
        self._tending = asyncio.create_task(self._tend(session))

    async def _register(self, session: Session, uris: Iterable[str], *, again: bool) -> None:
        """Registers what it can, and notes what it cannot, and why.

        Raises:
            UnavailableError: When the connection is lost meanwhile, or the router does not answer.
        """
        if self._settings.shared:
            options = RegisterOptions(invoke="roundrobin")
        else:
            # A session that broke off may still have them. Later on it would be a living one that is robbed.
            options = RegisterOptions(force_reregister=not again)

        async def one(uri: str) -> None:
            problem = await session.offer(self._handlers[uri], uri, options, _REGISTER_TIMEOUT_S)
            if not problem:
                self._failed.pop(uri, None)
            elif uri not in self._failed:
                self._failed[uri] = problem
                _log.error("not registered", extra={"procedure": uri, "problem": problem, "mend": _mend(problem)})

        for outcome in await asyncio.gather(*map(one, uris), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _tend(self, session: Session) -> None:
        """Tries again, as long as the session lasts, to register what could not be."""
        while True:
            await asyncio.wait({session.lost}, timeout=RETRY_S)
            if session.lost.done():
                return
            if not self._failed:
                continue
            before = len(self._failed)
            try:
                await self._register(session, [*self._failed], again=True)
            except UnavailableError:
                session.abort()  # if it is not lost already
                return
            if len(self._failed) < before:
                self._say()
                _log.info("registered", extra={"registered": self.health["registered"]})

    def _taken(self, uri: str) -> None:
        self._failed[uri] = TAKEN
        _log.error("not registered", extra={"procedure": uri, "problem": TAKEN, "mend": _mend(TAKEN)})
        self._say()

    def _say(self) -> None:
        """Tells how it is, while there is a session."""
        session = self._session.session_id if self._session else None
        registered = [uri for uri in self._handlers if uri not in self._failed]
        self._health.say(
            "degraded" if self._failed else "ready", session=session, registered=registered, failed=dict(self._failed)
        )

    def _lost(self, reason: str, delay: float) -> None:
        self._health.say("connecting", reason=reason, session=None, registered=[], failed={})
        _log.warning("not connected", extra={"reason": reason, "next_attempt_s": round(delay, 2)})

    async def _drain(self) -> None:
        """Takes no more calls, and lets those under way end."""
        if self._session is None or self._session.lost.done():
            return
        self._health.say("stopping")
        _log.info("stopping")
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                await self._session.retire()


def serve(services: Mapping[str, KnowledgeService], settings: WampSettings) -> None:
    """Serves until SIGINT or SIGTERM, with a line of JSON for each event on standard error.

    Raises:
        ConfigurationError: When the router refuses for good before anything was served.
    """
    log_json("knowledge_wamp", "knowledge_engine")
    asyncio.run(_serve_until_told(services, settings))


async def _serve_until_told(services: Mapping[str, KnowledgeService], settings: WampSettings) -> None:
    server = WampServer(services, settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Signals come to the main thread only, and not at all on some systems.
        with suppress(ValueError, RuntimeError, NotImplementedError):
            loop.add_signal_handler(number, server.stop)
    await server.run()


def _as_one(services: Mapping[str, KnowledgeService]) -> KnowledgeService:
    if len(services) == 1:
        return next(iter(services.values()))
    federated = FederatedProvider({name: service.provider for name, service in services.items()})
    return KnowledgeService(federated, refresh_before_answer=True, fresh_for_s=_FRESH_FOR_S)


def _mend(problem: str) -> str:
    return next((mend for word, mend in _MENDS.items() if word in problem), "Look into the log of the router.")


def _query_handler(tool: Handler, procedure: Handler) -> Handler:
    """One procedure for both: agents get the tool's answer, the `wamp` backend asks for the `full` one."""

    async def handler(*args: object, **kwargs: object) -> Answer:
        if kwargs.pop("full", None) is True:
            return await procedure(*args, **kwargs)
        return await tool(*args, **kwargs)

    return handler
