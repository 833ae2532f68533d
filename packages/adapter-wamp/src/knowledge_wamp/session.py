"""One WAMP session from connecting to its end, over autobahn. Imported only by who has the extra `client`."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import txaio
from autobahn.asyncio.rawsocket import WampRawSocketClientFactory
from autobahn.asyncio.wamp import ApplicationSession
from autobahn.asyncio.websocket import WampWebSocketClientFactory
from autobahn.wamp import auth
from autobahn.wamp.serializer import CBORSerializer, JsonSerializer, MsgPackSerializer
from autobahn.wamp.types import CallOptions, Challenge, CloseDetails, ComponentConfig, SessionDetails

from knowledge_engine.errors import ConfigurationError, UnavailableError
from knowledge_wamp.errors import from_call, refusal
from knowledge_wamp.settings import WampSettings

#: For the TCP connection, the handshakes and joining, together.
CONNECT_TIMEOUT_S = 10.0
#: A router that does not answer a ping is noticed within the sum.
PING_INTERVAL_S, PING_TIMEOUT_S = 10.0, 5.0
_CLOSE_TIMEOUT_S = 2.0
# Over RawSocket autobahn cannot ping; any answer to this call will do.
_PROBE = "wamp.session.count"

_SERIALIZERS: Mapping[str, Callable[[], Any]] = {
    "cbor": CBORSerializer,
    "msgpack": MsgPackSerializer,
    "json": JsonSerializer,
}


class Session(ApplicationSession):  # type: ignore[misc]
    """A session that knows when it was lost, and lets no call wait for an answer that cannot come.

    Made by `open_session`; all of it in one event loop.
    """

    def __init__(self, settings: WampSettings, proof: str) -> None:
        super().__init__(ComponentConfig(settings.realm, {}))
        self._settings, self._proof = settings, proof
        loop = asyncio.get_running_loop()
        self.joined: asyncio.Future[SessionDetails] = loop.create_future()
        #: Done when the connection is gone; the result says why.
        self.lost: asyncio.Future[str] = loop.create_future()
        self._reason = ""

    async def ask(self, procedure: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """Calls a procedure with keyword arguments; its result.

        Raises:
            UnavailableError: When the connection is lost meanwhile, or no answer comes in time.
            KnowledgeError: As the other side says.
        """
        try:
            # autobahn raises some failures at once, others later.
            call = asyncio.ensure_future(self.call(procedure, options=CallOptions(), **arguments))
        except Exception as error:
            raise from_call(error, procedure) from error
        done, _ = await asyncio.wait({call, self.lost}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if call in done:
            if (failure := call.exception()) is not None:
                raise from_call(failure, procedure) from failure
            return call.result()
        # Sends CANCEL, so that the other side need not go on.
        call.cancel()
        if self.lost.done():
            raise UnavailableError(f"The connection to the router was lost ({self.lost.result()})", mend="Try again.")
        raise UnavailableError(f"{procedure!r} did not answer within {timeout_s:g} s", mend="Try again later.")

    @property
    def session_id(self) -> int | None:
        """As the router names it."""
        number: int | None = self._session_id
        return number

    def registrations(self) -> tuple[Any, ...]:
        """Of procedures, as autobahn has them."""
        return tuple(self._registrations.values())

    async def close(self) -> None:
        """Leaves the realm and closes the connection, in bounded time."""
        with suppress(Exception):
            if self.is_attached():
                self.leave()
                await asyncio.wait({self.lost}, timeout=_CLOSE_TIMEOUT_S)
        self.abort()

    def abort(self) -> None:
        """Closes the connection at once."""
        transport = getattr(self, "_transport", None)
        with suppress(Exception):
            if transport is not None:
                transport.abort()

    # Called by autobahn

    def onConnect(self) -> None:  # noqa: N802
        """Joins, with the one way that is set."""
        method = self._settings.auth_method
        extra = {"pubkey": _cryptosign_key(self._proof).public_key()} if method == "cryptosign" else None
        self.join(self._settings.realm, [method], self._settings.authid, authextra=extra)

    def onChallenge(self, challenge: Challenge) -> str:  # noqa: N802
        """Proves who joins."""
        if challenge.method == "ticket":
            return self._proof
        if challenge.method == "wampcra":
            return _cra_signature(self._proof, challenge)
        return str(_signed(self._proof, challenge))

    def onJoin(self, details: SessionDetails) -> None:  # noqa: N802
        """Ready for calls."""
        if not self.joined.done():
            self.joined.set_result(details)

    def onLeave(self, details: CloseDetails) -> None:  # noqa: N802
        """The router ended the session, or never began it."""
        self._reason = str(details.reason)
        super().onLeave(details)

    def onDisconnect(self) -> None:  # noqa: N802
        """The connection is gone."""
        super().onDisconnect()
        self.note_lost(None)

    def onUserError(self, fail: object, msg: object) -> None:  # noqa: N802
        """Nothing: what handlers raise is meant for their callers, and is logged where it is made."""

    def note_lost(self, error: BaseException | None) -> None:
        """The connection is gone, whatever layer noticed it first."""
        if not self.lost.done():
            self.lost.set_result(self._reason or (type(error).__name__ if error else "closed"))


async def open_session(settings: WampSettings) -> Session:
    """Connects and joins.

    Raises:
        ConfigurationError: When the router refuses for good: wrong realm, wrong secret.
        UnavailableError: When it cannot be reached, or does not answer in time.
    """
    # A library in the same process may have named its own loop for all; without that, each thread's own is used.
    txaio.config.loop = None
    session = Session(settings, settings.proof())
    if settings.auth_method == "cryptosign":
        _cryptosign_key(session._proof)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await _connect(settings, session)
            either: set[asyncio.Future[Any]] = {session.joined, session.lost}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        session.abort()
        raise UnavailableError(
            f"The router did not answer within {CONNECT_TIMEOUT_S:g} s", mend="Look whether it runs."
        ) from None
    except OSError as error:
        raise UnavailableError(
            f"The router cannot be reached ({_os_words(error)})", mend="Look whether it runs."
        ) from error
    except BaseException:
        session.abort()
        raise
    if session.joined.done():
        return session
    reason = session.lost.result()
    raise refusal(reason, settings.realm) or UnavailableError(
        f"The router ended the connection ({reason})", mend="Look into its log."
    )


async def watch(session: Session) -> None:
    """Aborts the session when its router does not answer any more; returns when the session is lost.

    WebSocket connections watch themselves by pings.
    """
    if not session._settings.url.startswith("rs"):
        await asyncio.wait({session.lost})
        return
    while not session.lost.done():
        await asyncio.wait({session.lost}, timeout=PING_INTERVAL_S)
        if session.lost.done():
            return
        call = asyncio.ensure_future(session.call(_PROBE))
        done, _ = await asyncio.wait({call, session.lost}, timeout=PING_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if call in done:
            call.exception()
        elif not done:
            session.abort()


async def _connect(settings: WampSettings, session: Session) -> None:
    loop = asyncio.get_running_loop()
    parts = urlsplit(settings.url)
    secure = parts.scheme in ("wss", "rss")
    serializers = [_SERIALIZERS[name]() for name in settings.serializers]
    if parts.scheme in ("ws", "wss"):
        state = random.getstate()
        factory: Any = WampWebSocketClientFactory(lambda: session, url=settings.url, serializers=serializers, loop=loop)
        random.setstate(state)  # it seeds the numbers of the whole process anew, which a host may have seeded
        factory.setProtocolOptions(
            openHandshakeTimeout=CONNECT_TIMEOUT_S,
            closeHandshakeTimeout=1.0,
            autoPingInterval=PING_INTERVAL_S,
            autoPingTimeout=PING_TIMEOUT_S,
            tcpNoDelay=True,
        )
    else:
        factory = WampRawSocketClientFactory(lambda: session, serializer=serializers[0])

    def build() -> Any:
        protocol = factory()
        inner = protocol.connection_lost

        def connection_lost(error: BaseException | None) -> None:
            # Before the handshake is done, the session is told of nothing.
            try:
                inner(error)
            finally:
                session.note_lost(error)

        protocol.connection_lost = connection_lost
        return protocol

    context = _tls(settings) if secure else None
    await loop.create_connection(build, parts.hostname or "", parts.port or (443 if secure else 80), ssl=context)


def _tls(settings: WampSettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:
        raise ConfigurationError(
            f"The file that KNOWLEDGE_WAMP_CA_FILE names holds no certificates ({_os_words(error)})",
            mend="Name a PEM file.",
        ) from error


def _cra_signature(secret: str, challenge: Challenge) -> str:
    key: Any = secret
    extra = challenge.extra
    if "salt" in extra:
        key = auth.derive_key(secret, extra["salt"], extra.get("iterations", 1000), extra.get("keylen", 32))
    return str(auth.compute_wcs(key, extra["challenge"]).decode())


def _cryptosign_key(proof: str) -> Any:
    try:
        from autobahn.wamp.cryptosign import CryptosignKey
    except ImportError as error:
        raise ConfigurationError(
            "cryptosign needs more than is installed", mend="Run: pip install 'kpkit-wamp[cryptosign]'."
        ) from error
    try:
        return CryptosignKey.from_bytes(bytes.fromhex(proof))
    except Exception as error:
        raise ConfigurationError(
            "The key for cryptosign cannot be read", mend="Give 64 hexadecimal digits: the 32 bytes of an Ed25519 seed."
        ) from error


def _signed(proof: str, challenge: Challenge) -> Any:
    return _cryptosign_key(proof).sign_challenge(challenge)


def _os_words(error: OSError) -> str:
    return error.strerror or type(error).__name__
