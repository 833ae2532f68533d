"""Who may ask: tokens, hosts and sites."""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.fs import can_be_path
from knowledge_http.errors import ForbiddenError, MisdirectedError, UnauthorizedError
from knowledge_http.grants import Grant, Token, grant_of, parse_tokens
from knowledge_http.settings import HttpSettings

_MAX_TOKENS_BYTES = 1_000_000
_BEARER = re.compile(rb"bearer[ \t]+([^\s,]+)[ \t]*", re.IGNORECASE)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/@\[\]]+)(?::\d{0,5})?", re.IGNORECASE)
_log = logging.getLogger("knowledge_http")

_Identity = tuple[int, int, int, int]


class Tokens:
    """The tokens of the settings and of their file, which is read again when it changes.

    A file that cannot be read has no tokens: nobody gets in by it. Of its lines those that are malformed are left out.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._fixed = settings.tokens
        self._file = settings.tokens_file
        self._anonymous = Grant("admin" if settings.writable else "read")
        self._identity: _Identity | None = None
        self._read: tuple[Token, ...] = ()
        if self._file is not None:
            self._read_first(self._file)

    def grant(self, headers: list[tuple[bytes, bytes]]) -> Grant:
        """What the sender of these headers may do.

        Raises:
            UnauthorizedError: When it shows no token, or one that is not known.
        """
        if not self._fixed and self._file is None:
            return self._anonymous
        given = [value for name, value in headers if name == b"authorization"]
        shown = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        found = grant_of(shown[1], self._now()) if shown else None
        if found is None:
            what = "The token is not known" if shown else "A token is needed"
            raise UnauthorizedError(
                what, mend="Send 'Authorization: Bearer TOKEN'.", headers={"www-authenticate": "Bearer"}
            )
        return found

    def _now(self) -> tuple[Token, ...]:
        if self._file is None:
            return self._fixed
        try:
            identity = _identity(self._file)
            if identity != self._identity:
                self._identity, self._read = identity, _lines(_text(self._file))
                _log.info("tokens read", extra={"tokens": len(self._read)})
        except (OSError, ValueError) as error:
            if self._read or self._identity is not None:
                _log.error(
                    "tokens cannot be read: none of the file's is valid", extra={"problem": type(error).__name__}
                )
            self._identity, self._read = None, ()
        return (*self._fixed, *self._read)

    def _read_first(self, file: str) -> None:
        if not can_be_path(file):
            raise ConfigurationError("KNOWLEDGE_HTTP_TOKENS_FILE names no file", mend="Correct the path.")
        try:
            self._identity = _identity(file)
            text = _text(file)
        except OSError as error:
            raise ConfigurationError(
                f"The file that KNOWLEDGE_HTTP_TOKENS_FILE names cannot be read ({error.strerror})",
                mend="Correct the path, or allow it.",
            ) from error
        except ValueError:
            text = ""
        # A mistake in the first place is told; later ones must not end a server.
        self._read = tuple(token for line in _written(text) for token in parse_tokens(line))
        if not self._read:
            raise ConfigurationError(
                "The file that KNOWLEDGE_HTTP_TOKENS_FILE names holds no token",
                mend="Write one SECRET:SCOPE or SECRET:SCOPE:BACKEND a line.",
            )


def _identity(file: str) -> _Identity:
    found = Path(file).stat()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _text(file: str) -> str:
    with Path(file).open("rb") as opened:
        data = opened.read(_MAX_TOKENS_BYTES + 1)
    if len(data) > _MAX_TOKENS_BYTES:
        raise ValueError("too long")
    return data.decode()


def _written(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _lines(text: str) -> tuple[Token, ...]:
    found: list[Token] = []
    for number, line in enumerate(_written(text), 1):
        try:
            found += parse_tokens(line)
        except ConfigurationError as error:
            _log.error("a token is left out", extra={"number": number, "problem": error.problem})
    return tuple(found)


class Hosts:
    """Under which names the server may be asked, and by whose pages.

    A page of another site that has its name point here, or that simply sends requests here, is refused.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._any = "*" in settings.allowed_hosts
        self._names = {*settings.allowed_hosts, "localhost", settings.host.lower().strip("[]")}
        self._loopback_only = settings.is_loopback
        if not self._loopback_only:
            self._names.add(socket.gethostname().lower())
        self._origins = frozenset(settings.cors_origins)

    def check(self, headers: list[tuple[bytes, bytes]]) -> str | None:
        """The site that asks and is told so, if any.

        Raises:
            MisdirectedError: When the request is for another host.
            ForbiddenError: When it comes from another site's page.
        """
        hosts = [value for name, value in headers if name == b"host"]
        host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
        if not self._allows(host):
            raise MisdirectedError(
                f"Nothing is served here as {host[:100]!r}",
                mend="Ask by an address of the server, or name the host in KNOWLEDGE_HTTP_ALLOWED_HOSTS.",
            )
        origins = [value for name, value in headers if name == b"origin"]
        if not origins:
            return None
        origin = origins[0].decode("latin-1").lower()
        if len(origins) == 1 and origin in self._origins:
            return origin
        if len(origins) == 1 and _netloc(origin) == host:
            return None
        raise ForbiddenError(
            f"Pages of {origin[:100]!r} may not ask here", mend="Name the site in KNOWLEDGE_HTTP_CORS_ORIGINS."
        )

    def _allows(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found[1].strip("[]").rstrip(".")
        if self._any or name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback_only


def _netloc(origin: str) -> str:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc if parts.scheme in ("http", "https") else ""
