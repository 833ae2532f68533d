"""`knowledge serve http`: one process, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import uvicorn

from knowledge_engine.errors import UnavailableError
from knowledge_engine.lanes import run_apart
from knowledge_engine.logs import log_json
from knowledge_engine.models import Query
from knowledge_engine.service import KnowledgeService
from knowledge_http.server.app import create_app
from knowledge_http.server.protocol import Connections, LimitedProtocol
from knowledge_http.settings import HttpSettings

#: How long requests under way may take to end when the server is told to stop.
DRAIN_TIMEOUT_S = 10
KEEP_ALIVE_S = 15
_BACKLOG = 2_048
_MAX_CONNECTIONS = 10_000
#: Descriptors for all that is not a connection.
_OWN_FILES = 256
_log = logging.getLogger("knowledge_http")


class Server(uvicorn.Server):
    """uvicorn's, which leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See uvicorn."""
        yield


def serve(
    services: Mapping[str, KnowledgeService], settings: HttpSettings, environ: Mapping[str, str] | None = None
) -> None:
    """Serves until SIGINT or SIGTERM, with a line of JSON for each event on standard error.

    Raises:
        ConfigurationError: When a setting is wrong, or others would reach it without a token.
        UnavailableError: When it cannot listen there.
    """
    settings.check_serving()
    log_json("knowledge_http", "knowledge_engine")
    app = create_app(services, settings, environ=environ)
    listening = listen(settings.host, settings.port)
    for name, service in services.items():
        # So that the first question need not wait for an index.
        run_apart(f"{name}-warming", partial(service.provider.query, Query(query="begin", top_k=1)))
    try:
        runner = uvicorn.Config(app, loop="auto", log_config=None).get_loop_factory()
        with asyncio.Runner(loop_factory=runner) as running:
            running.run(run(app, listening))
    finally:
        listening.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        UnavailableError: When it cannot.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise UnavailableError(f"There is no address {host!r} here", mend="Choose another --host.") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise UnavailableError(
            f"Nothing can listen at {host} on port {port} ({error.strerror})", mend="Choose another --port or --host."
        ) from error
    return made


async def run(app: Any, listening: socket.socket, stop: asyncio.Event | None = None) -> None:
    """Serves the application on that socket until it is told to stop, by a signal or by `stop`.

    What is under way then may end, for up to `DRAIN_TIMEOUT_S`; nothing new is taken.
    """
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    connections = Connections(_room_for_connections())
    protocol = type("Protocol", (LimitedProtocol,), {"pool": connections})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="auto",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_TIMEOUT_S,
    )
    server = Server(config)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Signals come to the main thread only, and not at all on some systems.
        with suppress(ValueError, RuntimeError, NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    host, port, *_ = listening.getsockname()
    _log.info("listening", extra={"url": f"http://{f'[{host}]' if ':' in host else host}:{port}/"})
    tasks = [asyncio.create_task(each) for each in (server.serve([listening]), stop.wait(), connections.keep_swept())]
    try:
        await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
        _log.info("stopping")
        server.should_exit = True
        await tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        _log.info("stopped")


def _room_for_connections() -> int:
    """How many there may be; as many files as that takes are asked for."""
    try:
        import resource
    except ImportError:  # Windows
        return _MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_CONNECTIONS + _OWN_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(16, min(_MAX_CONNECTIONS, soft - _OWN_FILES))
