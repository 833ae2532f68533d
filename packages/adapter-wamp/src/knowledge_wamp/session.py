"""One WAMP session from connecting to its end, over autobahn. Imported only by who has the extra `client`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import txaio
from autobahn.asyncio.wamp import ApplicationSession
from autobahn.wamp import auth
from autobahn.wamp.exception import TransportLost
from autobahn.wamp.message import Unregistered
from autobahn.wamp.types import (
    CallOptions,
    Challenge,
    CloseDetails,
    ComponentConfig,
    RegisterOptions,
    SessionDetails,
)

from knowledge_engine.errors import ConfigurationError, UnavailableError
from knowledge_wamp.errors import from_call, refusal
from knowledge_wamp.keywords import allow_any_keyword
from knowledge_wamp.link import Mute, Outlet, open_link
from knowledge_wamp.settings import WampSettings

#: For the TCP connection, the handshakes and joining, together.
CONNECT_TIMEOUT_S = 10.0
#: A router that does not answer a ping is noticed within the sum.
PING_INTERVAL_S, PING_TIMEOUT_S = 10.0, 5.0
_CLOSE_TIMEOUT_S = 2.0
# Over RawSocket autobahn cannot ping; any answer to this call will do.
_PROBE = "wamp.session.count"
#: Instead of a router's reason, when another session took a registration over.
TAKEN = "taken over by another server"


class Session(ApplicationSession):  # type: ignore[misc]
    """A session that knows when it was lost, and lets no call wait for an answer that cannot come.

    Made by `open_session`; all of it in one event loop.
    """

    def __init__(self, settings: WampSettings, proof: str) -> None:
        super().__init__(ComponentConfig(settings.realm, {}))
        # It warns of each refusal, of which whoever opens the session is told.
        self.log = Mute()
        self.settings, self._proof = settings, proof
        loop = asyncio.get_running_loop()
        self.joined: asyncio.Future[SessionDetails] = loop.create_future()
        #: Done when the session is over, or its connection gone; the result says why.
        self.lost: asyncio.Future[str] = loop.create_future()
        #: Called with the URI of a procedure that the router took from this session.
        self.on_taken: Callable[[str], None] | None = None
        self._link: asyncio.Transport | None = None

    async def ask(self, procedure: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """Calls a procedure with keyword arguments; its result.

        Raises:
            UnavailableError: When the connection is lost meanwhile, or no answer comes in time.
            KnowledgeError: As the other side says.
        """
        try:
            # autobahn raises some failures at once, others later.
            call = _watched(self.call(procedure, options=CallOptions(), **arguments))
        except Exception as error:
            raise from_call(error, procedure) from error
        try:
            await asyncio.wait({call, self.lost}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            # What autobahn makes of the end of the session is no answer of the other side.
            if call.done() and not (self.lost.done() and call.exception()):
                if (failure := call.exception()) is not None:
                    raise from_call(failure, procedure) from failure
                return call.result()
        finally:
            # Sends CANCEL where there is no answer yet, so that the other side need not go on.
            call.cancel()
        if self.lost.done():
            raise UnavailableError(f"The connection to the router was lost ({self.lost.result()})", mend="Try again.")
        raise UnavailableError(f"{procedure!r} did not answer within {timeout_s:g} s", mend="Try again later.")

    async def offer(self, handler: Callable[..., Any], uri: str, options: RegisterOptions, timeout_s: float) -> str:
        """Registers a procedure; why the router refused it, and empty if it did not.

        Raises:
            UnavailableError: When the connection is lost meanwhile, or no answer comes in time.
        """
        try:
            registering = _watched(self.register(handler, uri, options=options))
        except TransportLost as error:
            raise UnavailableError("The connection to the router was lost", mend="Try again.") from error
        await asyncio.wait({registering, self.lost}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if self.lost.done():
            raise UnavailableError(f"The connection to the router was lost ({self.lost.result()})", mend="Try again.")
        if not registering.done():
            raise UnavailableError("The router does not answer a registration", mend="Look into its log.")
        if (failure := registering.exception()) is not None:
            return str(getattr(failure, "error", "") or type(failure).__name__)
        # Another one may have taken it in the same moment.
        return "" if registering.result().active else TAKEN

    async def answers(self, timeout_s: float) -> bool:
        """Whether the router answers anything at all, in time."""
        try:
            call = _watched(self.call(_PROBE))
        except TransportLost:
            return False
        await asyncio.wait({call, self.lost}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        answered = call.done()
        call.cancel()
        return answered

    async def retire(self) -> None:
        """Takes its procedures off the router, and returns when the calls under way are answered, or it is lost."""
        with suppress(TransportLost):
            for registration in [*self._registrations.values()]:
                _watched(registration.unregister())
        while not self.lost.done() and (self._unregister_reqs or self._invocations):
            await asyncio.wait({self.lost}, timeout=0.02)

    @property
    def session_id(self) -> int | None:
        """As the router names it."""
        number: int | None = self._session_id
        return number

    async def close(self) -> None:
        """Leaves the realm and closes the connection, in bounded time."""
        with suppress(Exception):
            if self.is_attached():
                self.leave()
                await asyncio.wait({self.lost}, timeout=_CLOSE_TIMEOUT_S)
        self.abort()

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._link is not None:
            self._link.abort()

    # Called by the connection

    def note_link(self, transport: asyncio.Transport) -> None:
        """See `link.Linked`."""
        self._link = transport

    def note_lost(self, reason: str) -> None:
        """See `link.Linked`."""
        if not self.lost.done():
            self.lost.set_result(reason)

    # Called by autobahn

    def onOpen(self, transport: Any) -> None:  # noqa: N802
        """There is a connection."""
        self._outlet = Outlet(transport)
        super().onOpen(self._outlet)

    def onClose(self, was_clean: bool) -> None:  # noqa: N802
        """The connection is gone, and with it whoever waits for the calls under way."""
        super().onClose(was_clean)
        self._outlet.shut()
        self._transport = self._outlet
        # The latest first: those that still wait for their turn must not get it now.
        for invocation in reversed([*self._invocations.values()]):
            invocation.on_reply.cancel()

    def onMessage(self, msg: Any) -> None:  # noqa: N802
        """A message from the router."""
        if not isinstance(msg, Unregistered) or msg.request:
            super().onMessage(msg)
        # What follows autobahn but notes in its log.
        elif (registration := self._registrations.pop(msg.registration, None)) is not None:
            registration.active = False
            if self.on_taken is not None:
                self.on_taken(registration.procedure)

    def onConnect(self) -> None:  # noqa: N802
        """Joins, with the one way that is set."""
        method = self.settings.auth_method
        extra = {"pubkey": _cryptosign_key(self._proof).public_key()} if method == "cryptosign" else None
        self.join(self.settings.realm, [method], self.settings.authid, authextra=extra)

    def onChallenge(self, challenge: Challenge) -> Any:  # noqa: N802
        """Proves who joins."""
        method = self.settings.auth_method
        if challenge.method != method:
            # The secret of another way must not go out as a ticket, because somebody says so.
            raise ValueError(f"the router asks for {challenge.method!r}, and {method!r} is set")
        if method == "ticket":
            return self._proof
        if method == "wampcra":
            return _cra_signature(self._proof, challenge)
        return _cryptosign_key(self._proof).sign_challenge(challenge)

    def onJoin(self, details: SessionDetails) -> None:  # noqa: N802
        """Ready for calls."""
        self.joined.set_result(details)

    def onLeave(self, details: CloseDetails) -> None:  # noqa: N802
        """The router ended the session, or never began it."""
        super().onLeave(details)
        if details.reason != CloseDetails.REASON_TRANSPORT_LOST:  # the connection itself knows more of that
            self.note_lost(str(details.reason))
            self.abort()

    def onUserError(self, fail: object, msg: object) -> None:  # noqa: N802
        """Nothing: what handlers raise is meant for their callers, and is logged where it is made."""


async def open_session(settings: WampSettings) -> Session:
    """Connects and joins.

    Raises:
        ConfigurationError: When the router refuses for good: wrong realm, wrong secret.
        UnavailableError: When it cannot be reached, or does not answer in time.
    """
    # A library in the same process may have named its own loop for all; without that, each thread's own is used.
    txaio.config.loop = None
    allow_any_keyword()
    session = Session(settings, settings.proof())
    if settings.auth_method == "cryptosign":
        _cryptosign_key(session._proof)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await open_link(settings, session, ping_interval_s=PING_INTERVAL_S, ping_timeout_s=PING_TIMEOUT_S)
            either: set[asyncio.Future[Any]] = {session.joined, session.lost}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        session.abort()
        raise UnavailableError(
            f"The router did not answer within {CONNECT_TIMEOUT_S:g} s", mend="Look whether it runs."
        ) from None
    except OSError as error:
        words = error.strerror or type(error).__name__
        raise UnavailableError(f"The router cannot be reached ({words})", mend="Look whether it runs.") from error
    except BaseException:
        session.abort()
        raise
    if session.joined.done():
        return session
    reason = session.lost.result()
    raise refusal(reason, settings.realm) or UnavailableError(
        f"The router ended the connection ({reason})", mend="Look into its log, and at KNOWLEDGE_WAMP_URL."
    )


async def watch(session: Session) -> None:
    """Aborts the session when its router does not answer any more; returns when the session is lost.

    WebSocket connections watch themselves by pings.
    """
    interval = PING_INTERVAL_S if session.settings.url.startswith("rs") else None
    while True:
        await asyncio.wait({session.lost}, timeout=interval)
        if session.lost.done():
            return
        if not await session.answers(PING_TIMEOUT_S):
            session.abort()


def _watched(future: Any) -> asyncio.Future[Any]:
    """Whose failure is seen also when nobody waits for it any more."""
    watched: asyncio.Future[Any] = asyncio.ensure_future(future)
    watched.add_done_callback(lambda done: done.cancelled() or done.exception())
    return watched


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
