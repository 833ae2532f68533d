"""The guarded fetch itself."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from knowledge_engine.errors import ConfigurationError, FetchError, TooLargeError
from knowledge_engine.fetch.addresses import (
    IPAddress,
    Resolver,
    Target,
    checked_addresses,
    is_public,
    look_up,
    parse_url,
)
from knowledge_engine.fetch.charsets import decode
from knowledge_engine.fetch.result import Fetched

if TYPE_CHECKING:
    import ssl

    from urllib3.connection import HTTPConnection
    from urllib3.response import HTTPResponse

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_DOCUMENTS = frozenset({200, 203})
_TEXT_TYPE = re.compile(
    r"text/[\w.+-]+|application/(?:[\w.-]+\+)?(?:json|xml|yaml)|application/x-(?:yaml|markdown|ndjson)"
    r"|application/(?:markdown|ndjson|jsonl|toml)"
)
_ENCODINGS = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
_HEADERS = {
    "User-Agent": "kpkit-engine",
    "Accept": "text/markdown, text/html, text/plain;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}
_CHUNK = 1 << 16


def fetch_url(
    url: str,
    *,
    max_bytes: int = 10 << 20,
    timeout_s: float = 30.0,
    max_redirects: int = 5,
    resolve: Resolver = look_up,
    address_ok: Callable[[IPAddress], bool] = is_public,
    ssl_context: ssl.SSLContext | None = None,
) -> Fetched:
    """Gets a text document from the public internet.

    Every address that a host has must pass `address_ok`, and the connection goes to one of those very addresses:
    there is no second look-up for someone to answer differently. The same holds for each redirect. No proxy, cookie
    or credential is used.

    Args:
        url: http or https.
        max_bytes: Limit for the body, both as received and decompressed.
        timeout_s: Limit for everything together: look-ups, redirects, a body that drips.
        max_redirects: How many are followed.
        resolve: Takes a host name, gives its addresses as text.
        address_ok: Says which addresses may be connected to. Widen it only for hosts that you run yourself.
        ssl_context: Instead of the system's certificate authorities.

    Raises:
        BlockedSchemeError, BlockedAddressError: Before any connection is made.
        TooLargeError: Over `max_bytes`.
        FetchError: No such host, no answer in time, not a document, or not text.
        ConfigurationError: When urllib3 is not installed.
    """
    deadline = time.monotonic() + timeout_s
    target = parse_url(url)
    for _ in range(max_redirects + 1):
        addresses = checked_addresses(target, resolve, address_ok, _left(deadline))
        with _answer(target, addresses, deadline, ssl_context) as response:
            if response.status not in _REDIRECTS:
                return _fetched(url, target, response, max_bytes, deadline)
            target = _redirected(target, response)
    raise FetchError(f"There were more than {max_redirects} redirects", mend="Give the URL that they lead to.")


def _redirected(target: Target, response: HTTPResponse) -> Target:
    location = response.headers.get("Location", "")
    # Headers come as Latin-1, while servers that do not escape send UTF-8.
    with suppress(UnicodeError):
        location = location.encode("latin-1").decode()
    if not location:
        raise FetchError("A redirect leads nowhere", mend="Give the URL that it should lead to.")
    try:
        return parse_url(urljoin(target.url, location))
    except ValueError as error:
        raise FetchError("A redirect has a malformed URL", mend="Give the URL that it should lead to.") from error


def _fetched(url: str, target: Target, response: HTTPResponse, max_bytes: int, deadline: float) -> Fetched:
    if response.status not in _DOCUMENTS:
        raise FetchError(f"{target.host!r} answered with status {response.status}", mend="Check the URL.")
    header = response.headers.get("Content-Type", "")
    media_type = header.partition(";")[0].strip().lower()
    if not _TEXT_TYPE.fullmatch(media_type):
        shown = media_type[:60] or "nothing"
        raise FetchError(f"The content type is {shown!r}, not text", mend="Give the URL of a text or an HTML page.")
    if response.headers.get("Content-Encoding", "").strip().lower() not in _ENCODINGS:
        raise FetchError("The content encoding is not one that was asked for", mend="Give another URL.")
    content = _body(response, max_bytes, deadline)
    charset, text = decode(content, header)
    return Fetched(
        url=url,
        final_url=target.url,
        status=response.status,
        content_type=media_type,
        content=content,
        charset=charset,
        text=text,
    )


def _body(response: HTTPResponse, max_bytes: int, deadline: float) -> bytes:
    """The whole body; stops as soon as it is known to be too much."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read1(_CHUNK, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if max(size, response.tell()) > max_bytes:
            raise TooLargeError(f"The page is over the limit of {max_bytes:,} bytes", mend="Give a smaller page.")
        _left(deadline)
    # A connection that was cut at the deadline looks like one that ended.
    _left(deadline)
    return b"".join(chunks)


def _left(deadline: float) -> float:
    """Seconds until the deadline.

    Raises:
        FetchError: When it has passed.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise FetchError("The page did not come in time", mend="Try again, or allow more time.")
    return left


@contextmanager
def _answer(
    target: Target, addresses: list[IPAddress], deadline: float, ssl_context: ssl.SSLContext | None
) -> Iterator[HTTPResponse]:
    """The response to a GET, its body still to come. Failures of the network come out as FetchError."""
    # Only now: a URL that is blocked needs no library.
    from http.client import HTTPException

    try:
        from urllib3.exceptions import HTTPError
    except ImportError as error:
        raise ConfigurationError(
            "Fetching URLs needs urllib3, which is not installed", mend="Install kpkit-engine[fetch]."
        ) from error
    try:
        connection = _connected(target, addresses, deadline, ssl_context)
        try:
            with _cut_off(connection.sock, deadline):
                headers = {**_HEADERS, "Host": target.netloc}
                connection.request("GET", target.path, headers=headers, preload_content=False)
                response = connection.getresponse()
                try:
                    # Headers that were cut off look like headers that ended.
                    _left(deadline)
                    yield response
                finally:
                    response.close()
        finally:
            connection.close()
    except (HTTPError, HTTPException, OSError) as error:
        # Late failures are those of the cut connection.
        _left(deadline)
        reason = type(error).__name__
        raise FetchError(f"{target.host!r} did not answer as it should ({reason})", mend="Try again later.") from error


def _connected(
    target: Target, addresses: list[IPAddress], deadline: float, ssl_context: ssl.SSLContext | None
) -> HTTPConnection:
    """A connection to the first of the addresses that takes one; the time left is shared out among them."""
    from urllib3.exceptions import HTTPError

    def attempt(address: IPAddress, timeout_s: float) -> HTTPConnection:
        connection = _connection(target, address, timeout_s, ssl_context)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connection.timeout = _left(deadline)
        return connection

    for position, address in enumerate(addresses[:-1]):
        with suppress(HTTPError, OSError):
            return attempt(address, _left(deadline) / (len(addresses) - position))
    return attempt(addresses[-1], _left(deadline))


def _connection(
    target: Target, address: IPAddress, timeout_s: float, ssl_context: ssl.SSLContext | None
) -> HTTPConnection:
    """An unopened connection to exactly this address; the certificate must still be the host's."""
    from urllib3.connection import HTTPConnection, HTTPSConnection

    if target.scheme == "http":
        return HTTPConnection(str(address), target.port, timeout=timeout_s)
    if ssl_context is None:
        import ssl

        ssl_context = ssl.create_default_context()
    return HTTPSConnection(
        str(address), target.port, timeout=timeout_s, ssl_context=ssl_context, server_hostname=target.host
    )


@contextmanager
def _cut_off(sock: socket.socket, deadline: float) -> Iterator[None]:
    """Ends the connection at the deadline, whatever is being read then.

    A socket's own timeout starts anew with each byte, so a server that drips could hold on for hours.
    """
    timer = threading.Timer(max(deadline - time.monotonic(), 0), _shut_down, [sock])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut_down(sock: socket.socket) -> None:
    # Not the method of a TLS socket, which is not made for a second thread.
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
