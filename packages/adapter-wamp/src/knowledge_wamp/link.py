"""What is below a session: its connection, over WebSocket or RawSocket, and what the session writes to."""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from autobahn.asyncio.rawsocket import WampRawSocketClientFactory, WampRawSocketClientProtocol
from autobahn.asyncio.websocket import WampWebSocketClientFactory, WampWebSocketClientProtocol
from autobahn.exception import Disconnected, PayloadExceededError
from autobahn.wamp.exception import ApplicationError, SerializationError, TransportLost
from autobahn.wamp.message import Authenticate, Cancel, Error, Invocation, Yield
from autobahn.wamp.serializer import CBORSerializer, JsonSerializer, MsgPackSerializer

from knowledge_engine.errors import ConfigurationError
from knowledge_wamp.settings import WampSettings

_PONG = 2
_MAX_REASON_CHARS = 200
_SERIALIZERS: Mapping[str, Callable[[], Any]] = {
    "cbor": CBORSerializer,
    "msgpack": MsgPackSerializer,
    "json": JsonSerializer,
}


class Linked(Protocol):
    """A session, as its connection sees it."""

    def note_link(self, transport: Any) -> None:
        """There is a connection; no session yet."""
        ...

    def note_lost(self, reason: str) -> None:
        """The connection is gone."""
        ...


async def open_link(settings: WampSettings, session: Linked, *, ping_interval_s: float, ping_timeout_s: float) -> None:
    """Connects, and begins the handshake; the session hears of all that follows. Whoever calls bounds the time.

    Raises:
        ConfigurationError: When the address cannot be one, or the certificates to trust cannot be read.
        OSError: When nobody listens there, or is not trusted.
    """
    loop = asyncio.get_running_loop()
    parts = urlsplit(settings.url)
    secure = parts.scheme in ("wss", "rss")
    serializers = [_SERIALIZERS[name]() for name in settings.serializers]
    if parts.scheme in ("ws", "wss"):
        state = random.getstate()
        factory: Any = WampWebSocketClientFactory(lambda: session, url=settings.url, serializers=serializers, loop=loop)
        random.setstate(state)  # it seeds the numbers of the whole process anew, which a host may have seeded
        factory.setProtocolOptions(
            openHandshakeTimeout=0,
            closeHandshakeTimeout=1.0,
            autoPingInterval=ping_interval_s,
            autoPingTimeout=ping_timeout_s,
            tcpNoDelay=True,
        )
        factory.protocol = _WebSocket
    else:
        factory = WampRawSocketClientFactory(lambda: session, serializer=serializers[0])
        factory.protocol = _RawSocket
    factory.linked = session
    port = parts.port or (443 if secure else 80)
    try:
        await loop.create_connection(factory, parts.hostname or "", port, ssl=_tls(settings) if secure else None)
    except UnicodeError as error:
        raise ConfigurationError(
            "The URL of the router names a host that none can have", mend="Correct KNOWLEDGE_WAMP_URL."
        ) from error


class Outlet:
    """A transport as its session sees it. False, and silent, once it is shut.

    autobahn answers calls in callbacks: what is raised there reaches nobody, and leaves the caller without an answer.
    So answers that come too late are dropped, and those that cannot be sent become an error for the caller.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._open = True

    def __bool__(self) -> bool:
        return self._open

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def shut(self) -> None:
        """Sends nothing any more."""
        self._open = False

    def send(self, message: Any) -> None:
        """Sends a message.

        Raises:
            TransportLost: When the connection is going away; for nothing once it is shut.
            PayloadExceededError, SerializationError: Where it is no answer.
        """
        if not self._open:
            return
        answer = isinstance(message, Yield | Error)
        try:
            self._send(message)
        except (TransportLost, Disconnected) as error:
            if not answer and not isinstance(message, Cancel):
                raise TransportLost() from error
        except (ValueError, PayloadExceededError) as error:  # ValueError: too long for a RawSocket
            if not answer:
                raise PayloadExceededError(str(error)) from error
            self._refuse(message, ApplicationError.PAYLOAD_SIZE_EXCEEDED)
        except SerializationError:
            if not answer:
                raise
            self._refuse(message, ApplicationError.INVALID_PAYLOAD)

    def _send(self, message: Any) -> None:
        if not isinstance(message, Authenticate):
            self._transport.send(message)
            return
        # A ticket is sent as it is, and a host may have told autobahn to log all that it sends.
        self._transport.log = Mute()
        try:
            self._transport.send(message)
        finally:
            del self._transport.log

    def _refuse(self, answer: Any, uri: str) -> None:
        self._transport.send(Error(Invocation.MESSAGE_TYPE, answer.request, uri, args=["The answer cannot be sent."]))


class Mute:
    """A logger of nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class _Noting:
    """Tells the session of the connection also before a handshake is done, when autobahn does not."""

    factory: Any
    wasNotCleanReason: str | None = None  # noqa: N815

    def connection_made(self, transport: Any) -> None:
        self.factory.linked.note_link(transport)
        super().connection_made(transport)  # type: ignore[misc]

    def connection_lost(self, error: Exception | None) -> None:
        try:
            super().connection_lost(error)  # type: ignore[misc]
        finally:
            reason = self.wasNotCleanReason or (type(error).__name__ if error else "closed")
            self.factory.linked.note_lost(" ".join(reason.split())[:_MAX_REASON_CHARS])


class _WebSocket(_Noting, WampWebSocketClientProtocol):  # type: ignore[misc]
    pass


class _RawSocket(_Noting, WampRawSocketClientProtocol):  # type: ignore[misc]
    def ping(self, data: bytes) -> None:
        """Answers a ping, for which autobahn has no answer."""
        self.transport.write(struct.pack("!L", _PONG << 24 | len(data)) + data)

    def pong(self, data: bytes) -> None:
        """Nothing: none is asked for."""

    def _on_connection_lost(self, error: Exception | None) -> None:
        if self.isOpen():
            super()._on_connection_lost(error)


def _tls(settings: WampSettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:
        raise ConfigurationError(
            f"The file that KNOWLEDGE_WAMP_CA_FILE names holds no certificates ({error.strerror})",
            mend="Name a PEM file.",
        ) from error
