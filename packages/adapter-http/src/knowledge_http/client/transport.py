"""Calls of a knowledge server: pooled connections, deadlines, and one error tree."""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2

from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    KnowledgeError,
    NotSupportedError,
    ProviderError,
    ReadOnlyError,
    TooLargeError,
    UnavailableError,
    error_from_wire,
)
from knowledge_http.settings import HttpSettings

#: Longer answers are not taken.
MAX_ANSWER_BYTES = 500_000_000
_CONNECT_S = 10.0
_MAX_ERROR_BYTES = 100_000
#: How often what only reads is asked again, and for how long to wait before; ever longer, more or less by chance.
_RETRIES = 2
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0
_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 307, 308)
#: Statuses that proxies answer on behalf of a server that is away.
_AWAY = (502, 503, 504)


class Reply(NamedTuple):
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body.

        Raises:
            ProviderError: When it is no JSON.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ProviderError("The server did not answer with JSON", mend="Check that the URL is right.") from None


class Transport:
    """Connections to one server, kept for all threads. Connects when it is first asked.

    The token goes to that server's own scheme, host and port only, whatever it redirects to.
    """

    def __init__(self, settings: HttpSettings) -> None:
        assert settings.url is not None, "settings of a client have a URL"
        self._base = settings.url
        self._settings = settings
        self._client: httpx2.Client | None = None
        self._closed = False
        self._opening = threading.Lock()

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        reads: bool,
    ) -> Reply:
        """What the server answers.

        Args:
            path: Percent-encoded.
            reads: It changes nothing, and may be asked again where no answer came.

        Raises:
            UnavailableError: When it cannot be reached, or does not answer in time.
            KnowledgeError: As the server says.
        """
        deadline = time.monotonic() + self._settings.timeout_s
        wait_s = _FIRST_WAIT_S
        for attempt in range(_RETRIES + 1):
            try:
                return self._once(method, path, params, body, headers, deadline)
            except UnavailableError as error:
                pause = wait_s * random.uniform(0.5, 1.5)  # noqa: S311 - spreads callers, hides nothing
                never_sent = isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout)
                if attempt == _RETRIES or not (reads or never_sent) or time.monotonic() + pause > deadline:
                    raise
            if self._closed:
                raise self._disposed()
            time.sleep(pause)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Closes the connections; later calls raise UnavailableError."""
        with self._opening:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        deadline: float,
    ) -> Reply:
        url = httpx2.URL(f"{self._base}{path}", params=dict(params)) if params else httpx2.URL(f"{self._base}{path}")
        for _ in range(_MAX_REDIRECTS + 1):
            reply = self._sent(method, url, body, headers, deadline)
            target = reply.headers.get("location")
            if reply.status not in _REDIRECTS or target is None:
                return _checked(reply)
            try:
                url = url.join(target)
            except (httpx2.InvalidURL, ValueError):
                raise _strange("a redirect that leads nowhere") from None
            if method not in ("GET", "HEAD") and reply.status not in (307, 308):
                raise _strange("a redirect that would lose what was sent")
            if not self._is_own(url):
                raise ProviderError("The server redirects to another one", mend="Use the URL of that one.")
        raise _strange("redirects without end")

    def _sent(
        self, method: str, url: httpx2.URL, body: bytes | None, headers: Mapping[str, str] | None, deadline: float
    ) -> Reply:
        left = deadline - time.monotonic()
        if left <= 0:
            raise UnavailableError("The server did not answer in time", mend="Try again later.")
        timeout = httpx2.Timeout(left, connect=min(left, _CONNECT_S))
        sent = [*self._credentials(), *((name.encode(), value.encode()) for name, value in (headers or {}).items())]
        try:
            with self._opened().stream(method, url, content=body, headers=sent, timeout=timeout) as response:
                return Reply(response.status_code, response.headers, self._received(response, deadline))
        except httpx2.TimeoutException as error:
            raise UnavailableError("The server did not answer in time", mend="Try again later.") from error
        except httpx2.TransportError as error:
            raise UnavailableError(
                f"The server cannot be reached ({type(error).__name__})", mend="Look whether it runs."
            ) from error
        except (httpx2.InvalidURL, httpx2.DecodingError, UnicodeError) as error:
            raise ProviderError(f"The call failed ({type(error).__name__})", mend="Check the URL.") from error
        except RuntimeError as error:  # another thread closed it
            raise self._disposed() from error

    def _received(self, response: httpx2.Response, deadline: float) -> bytes:
        """The body, within the deadline: a server that drips would hold up a caller for ever."""
        held = bytearray()
        for part in response.iter_bytes():
            held += part
            if len(held) > MAX_ANSWER_BYTES:
                raise TooLargeError("The server's answer is too long", mend="Ask for less at once.")
            if time.monotonic() > deadline:
                raise UnavailableError("The server did not answer in time", mend="Try again later.")
        return bytes(held)

    def _opened(self) -> httpx2.Client:
        with self._opening:
            if self._closed:
                raise self._disposed()
            if self._client is None:
                self._client = httpx2.Client(
                    verify=self._trusted(),
                    follow_redirects=False,
                    trust_env=False,
                    limits=httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=10.0),
                )
            return self._client

    def _trusted(self) -> ssl.SSLContext | bool:
        if self._settings.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=self._settings.ca_file)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                "The file that KNOWLEDGE_HTTP_CA_FILE names holds no certificates", mend="Correct the path."
            ) from error

    def _credentials(self) -> list[tuple[bytes, bytes]]:
        token = self._settings.token
        return [] if token is None else [(b"authorization", b"Bearer " + token.get_secret_value().encode())]

    def _is_own(self, url: httpx2.URL) -> bool:
        own = httpx2.URL(self._base)
        return (url.scheme, url.host, url.port) == (own.scheme, own.host, own.port)

    @staticmethod
    def _disposed() -> UnavailableError:
        return UnavailableError("The provider was disposed of", mend="Open it again.")


def _checked(reply: Reply) -> Reply:
    """The reply itself, unless it is an error."""
    if reply.status < 400:
        return reply
    raise _error(reply)


def _error(reply: Reply) -> KnowledgeError:
    wire: Any = None
    if len(reply.body) <= _MAX_ERROR_BYTES:
        try:
            wire = json.loads(reply.body)["error"]
        except (ValueError, TypeError, KeyError, RecursionError):
            wire = None
    code = wire.get("code") if isinstance(wire, Mapping) else None
    if code == "unauthorized" or (code is None and reply.status == 401):
        return ConfigurationError(
            "The server does not know the token", mend="Set KNOWLEDGE_HTTP_TOKEN to one it knows."
        )
    if code == "forbidden":
        return ReadOnlyError("The server does not allow that", mend="Set KNOWLEDGE_HTTP_TOKEN to one that may.")
    if isinstance(wire, Mapping) and isinstance(code, str) and code != "misdirected":
        return error_from_wire(wire)
    if reply.status == 413:
        return TooLargeError("That is longer than the server takes", mend="Send less at once.")
    if reply.status == 429:
        return BusyError("The server has no capacity just now", mend="Try again later.")
    if reply.status in _AWAY:
        return UnavailableError(f"The server is away (status {reply.status})", mend="Try again later.")
    if reply.status in (404, 405):
        return NotSupportedError(
            f"There is no knowledge server at that URL (status {reply.status})", mend="Check the URL, and its path."
        )
    return ProviderError(f"The server answered with status {reply.status}", mend="Ask whoever runs it.")


def _strange(what: str) -> ProviderError:
    return ProviderError(f"The server answered with {what}", mend="Ask whoever runs it.")
