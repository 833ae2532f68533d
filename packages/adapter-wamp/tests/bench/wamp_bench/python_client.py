"""A WAMP session of the test's own: the app that registers, or the agent that calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from autobahn.asyncio.rawsocket import WampRawSocketClientFactory
from autobahn.asyncio.wamp import ApplicationSession
from autobahn.asyncio.websocket import WampWebSocketClientFactory
from autobahn.wamp.auth import create_authenticator
from autobahn.wamp.exception import ApplicationError
from autobahn.wamp.serializer import CBORSerializer, JsonSerializer, MsgPackSerializer
from autobahn.wamp.types import ComponentConfig

from wamp_bench.node_config import Credentials

SERIALIZERS = {"json": JsonSerializer, "msgpack": MsgPackSerializer, "cbor": CBORSerializer}
_CLOSE_SECONDS = 5.0


class JoinError(Exception):
    """The router refused the session; `reason` is its URI, or what became of the connection."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"could not join: {reason}")
        self.reason = reason


class BenchSession(ApplicationSession):
    """autobahn's own session, with futures for what happens to it.

    `joined` ends with the details of the session or a `JoinError`; `lost` ends when the connection is gone.
    """

    def __init__(self, realm: str, auth: Credentials | None) -> None:
        super().__init__(ComponentConfig(realm=realm))
        loop = asyncio.get_running_loop()
        self.joined: asyncio.Future[Any] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._authenticator = _authenticator(auth) if auth is not None else None
        self._method = auth.method if auth is not None else "anonymous"
        self._authid = auth.authid if auth is not None else None

    def onConnect(self) -> None:
        extra = self._authenticator.authextra if self._authenticator is not None else None
        self.join(self.config.realm, [self._method], authid=self._authid, authextra=extra)

    def onChallenge(self, challenge: Any) -> Any:
        if self._authenticator is None:
            raise RuntimeError("the router asks an anonymous session for a proof. Give auth=.")
        return self._authenticator.on_challenge(self, challenge)

    def onJoin(self, details: Any) -> None:
        if not self.joined.done():
            self.joined.set_result(details)

    def onLeave(self, details: Any) -> None:
        self._refused(details.reason)
        self.disconnect()

    def onDisconnect(self) -> None:
        self._refused("the connection was lost")
        if not self.lost.done():
            self.lost.set_result(None)

    def _refused(self, reason: str) -> None:
        if not self.joined.done():
            self.joined.set_exception(JoinError(reason))


def _authenticator(auth: Credentials) -> Any:
    named = {"ticket": "ticket", "wampcra": "secret", "cryptosign": "privkey"}[auth.method]
    # For a key, autobahn wants the authid in HELLO only.
    return create_authenticator(auth.method, authid=auth.authid, **{named: auth.secret})


@asynccontextmanager
async def connect(
    url: str,
    realm: str,
    *,
    serializer: str = "msgpack",
    auth: Credentials | None = None,
    seconds: float = 20.0,
) -> AsyncIterator[BenchSession]:
    """A joined autobahn session over `ws://` or `rs://`, which leaves at the end.

    A call that is under way when the connection goes away never ends by autobahn itself: give each a deadline
    (`wamp_call` does). `session.lost` tells when it went away.

    Raises:
        JoinError: When the router refuses, or `seconds` pass.
        OSError: When nobody listens there.
    """
    session = BenchSession(realm, auth)
    transport, _protocol = await _open(url, serializer, session, seconds)
    try:
        try:
            await asyncio.wait_for(asyncio.shield(session.joined), seconds)
        except TimeoutError:
            raise JoinError(f"no answer within {seconds} s") from None
        yield session
    finally:
        await _leave(session, transport)


async def _open(url: str, serializer: str, session: BenchSession, seconds: float) -> tuple[Any, Any]:
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    chosen = SERIALIZERS[serializer]()
    factory: Any
    if parts.scheme == "rs":
        factory = WampRawSocketClientFactory(lambda: session, serializer=chosen)
    else:
        factory = WampWebSocketClientFactory(lambda: session, url=url, serializers=[chosen], loop=loop)
        factory.setProtocolOptions(openHandshakeTimeout=seconds, closeHandshakeTimeout=1)
    return await asyncio.wait_for(loop.create_connection(factory, parts.hostname, parts.port), seconds)


async def _leave(session: BenchSession, transport: asyncio.Transport) -> None:
    """Ends the session in an orderly way where the router still answers, and the connection in any case."""
    if session.is_attached():
        session.leave()
        await asyncio.wait([session.lost], timeout=_CLOSE_SECONDS)
    transport.abort()
    if session.is_connected():
        await asyncio.wait([session.lost], timeout=_CLOSE_SECONDS)
    else:
        await asyncio.sleep(0)  # a session that was never opened hears nothing of its end
    if session.joined.done() and not session.joined.cancelled():
        session.joined.exception()  # seen, if nobody did
    session.joined.cancel()


async def wamp_call(
    url: str,
    realm: str,
    procedure: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    serializer: str = "msgpack",
    auth: Credentials | None = None,
    seconds: float = 20.0,
) -> Any:
    """The result of one call in a session of its own.

    Raises:
        ApplicationError: As the callee or the router answered.
        TimeoutError: When nothing came back within `seconds`.
    """
    async with connect(url, realm, serializer=serializer, auth=auth, seconds=seconds) as session:
        return await asyncio.wait_for(session.call(procedure, *args, **(kwargs or {})), seconds)


async def wamp_calls(
    url: str,
    realm: str,
    calls: Sequence[tuple[str, Sequence[Any], Mapping[str, Any]]],
    *,
    serializer: str = "msgpack",
    auth: Credentials | None = None,
    seconds: float = 20.0,
) -> list[dict[str, Any]]:
    """One outcome a call, one after the other in one session; the same shapes as `js_session` gives.

    An outcome is `{"result": ...}`, or `{"error": uri, "args": [...], "kwargs": {...}}`.
    """
    outcomes: list[dict[str, Any]] = []
    async with connect(url, realm, serializer=serializer, auth=auth, seconds=seconds) as session:
        for procedure, args, kwargs in calls:
            try:
                result = await asyncio.wait_for(session.call(procedure, *args, **kwargs), seconds)
            except ApplicationError as refused:
                error = {"error": refused.error, "args": list(refused.args), "kwargs": dict(refused.kwargs or {})}
                outcomes.append(error)
            else:
                outcomes.append({"result": result})
    return outcomes
