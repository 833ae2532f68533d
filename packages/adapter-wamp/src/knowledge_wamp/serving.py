"""`knowledge serve wamp`: procedures over services, on a router that comes and goes."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from autobahn.wamp.types import RegisterOptions

from knowledge_engine.errors import InvalidArgumentError, UnavailableError
from knowledge_engine.fusion import FederatedProvider
from knowledge_engine.logs import log_json
from knowledge_engine.redaction import redact_url
from knowledge_engine.service import KnowledgeService
from knowledge_wamp import topics
from knowledge_wamp.answers import Answer
from knowledge_wamp.handlers import Handler, ToolHandlers, find_tools, make_lane
from knowledge_wamp.health import HealthFile
from knowledge_wamp.keeping import keep_session
from knowledge_wamp.procedures import Procedures, procedure_handler
from knowledge_wamp.session import Session
from knowledge_wamp.settings import WampSettings

_REGISTER_TIMEOUT_S = 10.0
#: How long calls under way may take to end when the server is told to stop.
_DRAIN_TIMEOUT_S = 5.0
#: How long until a registration that was refused is tried again.
_RETRY_S = 30.0
#: How old what a federation has taken in may be.
_FRESH_FOR_S = 1.0
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
        self._failed: dict[str, str] = {}

    @property
    def health(self) -> Mapping[str, Any]:
        """What the health file says."""
        return self._health.state

    def stop(self) -> None:
        """Ends `run`. To be called in its event loop."""
        self._stop.set()

    async def run(self) -> None:
        """Serves until `stop`, or until it is cancelled.

        Raises:
            ConfigurationError: When the router refuses for good before anything was served.
        """
        self._health.say("connecting", url=redact_url(self._settings.url), realm=self._settings.realm)
        _log.info("connecting", extra={"url": redact_url(self._settings.url), "realm": self._settings.realm})
        handlers = await asyncio.to_thread(self._handlers)
        keeping = asyncio.create_task(
            keep_session(self._settings, lambda session: self._serve(session, handlers), self._lost)
        )
        beating = asyncio.create_task(self._health.beat())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
            await self._drain()
        finally:
            for task in (keeping, beating, stopping):
                task.cancel()
            await asyncio.gather(keeping, beating, stopping, return_exceptions=True)
            self._lane.close()
            self._health.say("stopped")
            _log.info("stopped")

    def _handlers(self) -> dict[str, Handler]:
        """By topic. Looks at the backend, so it may block."""
        settings, lane = self._settings, self._lane
        procedures = Procedures(self._service, writable=settings.writable, max_bytes=settings.max_payload)
        tools = ToolHandlers(
            find_tools(self._service), lane, timeout_s=settings.timeout_s, max_bytes=settings.max_payload
        )
        handlers = {topic: tools.handler(name) for name, topic in topics.DEFAULT_TOPICS.items()}
        for topic, procedure in procedures.by_topic().items():
            handlers[topic] = procedure_handler(procedure, lane, settings.timeout_s)
        handlers[topics.QUERY] = _query_handler(tools.handler("query"), handlers[topics.QUERY])
        return handlers

    async def _serve(self, session: Session, handlers: Mapping[str, Handler]) -> None:
        self._session = session
        self._failed = {}
        uris = {self._settings.procedure(topic): handler for topic, handler in handlers.items()}
        outcomes = await asyncio.gather(*(self._register(session, uri, handler) for uri, handler in uris.items()))
        self._failed = {uri: problem for uri, problem in zip(uris, outcomes, strict=True) if problem}
        registered = [uri for uri in uris if uri not in self._failed]
        state = "ready" if not self._failed else "degraded"
        self._health.say(state, session=session.session_id, registered=registered, failed=self._failed)
        _log.info("registered", extra={"session": session.session_id, "registered": registered})
        for uri, problem in self._failed.items():
            _log.error("not registered", extra={"procedure": uri, "problem": problem})

    async def _register(self, session: Session, uri: str, handler: Handler) -> str:
        """Why it failed; empty if it did not."""
        shared = self._settings.shared
        options = RegisterOptions(invoke="roundrobin") if shared else RegisterOptions(force_reregister=True)
        registering = asyncio.ensure_future(session.register(handler, uri, options=options))
        done, _ = await asyncio.wait(
            {registering, session.lost}, timeout=_REGISTER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if registering not in done:
            raise UnavailableError("The router does not answer a registration", mend="Look into its log.")
        error = registering.exception()
        return "" if error is None else str(getattr(error, "error", "") or type(error).__name__)

    def _lost(self, reason: str, delay: float) -> None:
        self._health.say("connecting", reason=reason, session=None, registered=[])
        _log.warning("connection lost", extra={"reason": reason, "next_attempt_s": round(delay, 2)})

    async def _drain(self) -> None:
        """Takes no more calls, and lets those under way end."""
        session = getattr(self, "_session", None)
        if session is None or session.lost.done():
            return
        self._health.say("stopping")
        with suppress(Exception):
            async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                await asyncio.gather(*(each.unregister() for each in session.registrations()), return_exceptions=True)
                while self._lane.running:
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0)  # the last answer is written


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


def _query_handler(tool: Handler, procedure: Handler) -> Handler:
    """One procedure for both: agents get the tool's answer, the `wamp` backend asks for the `full` one."""

    async def handler(*args: object, **kwargs: object) -> Answer:
        if kwargs.pop("full", None) is True:
            return await procedure(*args, **kwargs)
        return await tool(*args, **kwargs)

    return handler
