"""From a URL to the addresses that it may be fetched from."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from knowledge_engine.errors import BlockedAddressError, BlockedSchemeError, FetchError

IPAddress = IPv4Address | IPv6Address
Resolver = Callable[[str], Iterable[str]]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_HOST = re.compile(r"[a-z0-9._-]{1,253}")
_PORTS = {"http": 80, "https": 443}
_MEND = "Give the http or https URL of a public page."
_NAT64 = IPv6Network("64:ff9b::/96")
#: Not for public use, whatever the `ipaddress` of this Python says.
_NEVER = tuple(map(ip_network, ("192.88.99.0/24", "64:ff9b:1::/48", "3fff::/20", "fec0::/10")))


class Target(NamedTuple):
    """A URL taken apart, in normal form."""

    scheme: str
    #: A name in ASCII, or an address.
    host: str
    port: int
    #: Path and query.
    path: str

    @property
    def netloc(self) -> str:
        """Host and port as they stand in a URL and in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL."""
        return f"{self.scheme}://{self.netloc}{self.path}"


def is_public(address: IPAddress) -> bool:
    """Whether an address, and any IPv4 address inside it, belongs to the public internet."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(inner)
        if address.scope_id is not None:
            return False
    if address.is_multicast or address.is_reserved:
        return False
    return address.is_global and not any(address in network for network in _NEVER)


def parse_url(url: str) -> Target:
    """Takes a URL apart.

    Host names are normalised: case, one trailing dot, IDNA (2003, as in Python), and the old spellings of IPv4
    addresses (`2130706433`, `0x7f.1`).

    Raises:
        BlockedSchemeError: For anything but http and https.
        BlockedAddressError: For a URL with a user name or a password.
        FetchError: For what is no URL.
    """
    url = url.strip(" \t\r\n")
    if _CONTROL.search(url):
        raise FetchError("The URL has a control character in it", mend=_MEND)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise FetchError("The URL is malformed", mend=_MEND) from error
    if parts.scheme not in _PORTS:
        raise BlockedSchemeError(f"URLs of the scheme {parts.scheme!r} are not fetched", mend=_MEND)
    if "@" in parts.netloc:
        raise BlockedAddressError("The URL has a user name or password in it", mend="Leave it out.")
    if port == 0 or not parts.hostname:
        raise FetchError("The URL has no host, or an impossible port", mend=_MEND)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?[]") if parts.query else ""
    host = _normal_address(parts.hostname) if "[" in parts.netloc else _normal_name(parts.hostname)
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path + query)


def _normal_address(host: str) -> str:
    try:
        return str(IPv6Address(host))
    except ValueError as error:
        raise FetchError("The URL has a malformed address", mend=_MEND) from error


def _normal_name(host: str) -> str:
    try:
        host = host.encode("idna").decode().lower().removesuffix(".")
    except UnicodeError as error:
        raise FetchError("The URL's host is not a name", mend=_MEND) from error
    if not _HOST.fullmatch(host):
        raise FetchError("The URL's host is not a name", mend=_MEND)
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return host


def look_up(host: str) -> list[str]:
    """Addresses of a host, by the operating system's resolver."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


def checked_addresses(
    target: Target, resolve: Resolver, address_ok: Callable[[IPAddress], bool], timeout_s: float
) -> list[IPAddress]:
    """The addresses of a target, from one look-up, if every one of them may be fetched from.

    Raises:
        BlockedAddressError: If one may not.
        FetchError: If there is none.
    """
    literal = _literal(target.host)
    if literal is not None:
        addresses = [literal]
    elif target.host == "localhost" or target.host.endswith(".localhost"):
        # By definition (RFC 6761), whatever a resolver says.
        addresses = [IPv4Address("127.0.0.1")]
    else:
        addresses = _resolved(target.host, resolve, timeout_s)
    if not all(map(address_ok, addresses)):
        raise BlockedAddressError(f"{target.host!r} is not a public address", mend=_MEND)
    return addresses


def _literal(host: str) -> IPAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _resolved(host: str, resolve: Resolver, timeout_s: float) -> list[IPAddress]:
    mend = "Check the host's name, and the network."
    try:
        addresses = [ip_address(found) for found in _within(lambda: list(resolve(host)), timeout_s)]
    except TimeoutError as error:
        raise FetchError(f"The name {host!r} was not resolved in time", mend=mend) from error
    except (OSError, ValueError, LookupError) as error:
        raise FetchError(f"The name {host!r} cannot be resolved", mend=mend) from error
    if not addresses:
        raise FetchError(f"The name {host!r} has no address", mend=mend)
    return addresses


def _within(call: Callable[[], list[str]], timeout_s: float) -> list[str]:
    """The result of a call that has no time limit of its own; a late one is left to end by itself."""
    future: Future[list[str]] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="knowledge-resolve").start()
    return future.result(timeout_s)
