"""All that the adapter takes from the environment; nothing else in it reads that."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from pydantic import Field, SecretStr

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import Value
from knowledge_http.grants import Token, parse_tokens

DEFAULT_PORT = 8765
MAX_URL_CHARS = 2_000

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
_FLAGS = ("writable", "insecure", "quiet")
#: By name: the default, the least and the most.
_NUMBERS: Mapping[str, tuple[str, float, float]] = {
    "port": (str(DEFAULT_PORT), 0, 65_535),
    "timeout_s": ("30", 0.001, 86_400),
    "max_body": ("16000000", 10_000, 2_000_000_000),
    "max_concurrent": ("8", 1, 1_000),
}
_WHOLE = ("port", "max_body", "max_concurrent")


class HttpSettings(Value):
    """How to serve, and where to call. Shows no secret when it is printed."""

    # For the server
    host: str = "127.0.0.1"
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65_535)
    tokens: tuple[Token, ...] = Field(default=(), repr=False)
    tokens_file: str | None = None
    writable: bool = False
    insecure: bool = False
    #: In lower case; `*` stands for any.
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    max_body: int = Field(default=16_000_000, ge=10_000)
    max_concurrent: int = Field(default=8, ge=1)
    quiet: bool = False
    # For the client
    url: str | None = None
    #: The backend of the server that is meant; None: all that it has.
    backend: str | None = None
    token: SecretStr | None = None
    ca_file: str | None = None
    # For both
    timeout_s: float = Field(default=30.0, gt=0, le=86_400)

    @classmethod
    def from_env(cls, environ: Mapping[str, str], url: str | None = None) -> HttpSettings:
        """Settings from `KNOWLEDGE_HTTP_*`.

        Args:
            url: Of a server to call; comes before `KNOWLEDGE_HTTP_URL`.

        Raises:
            ConfigurationError: Naming the variable that is wrong.
        """
        names = [*cls.model_fields, "url"]
        given = {name: value for name in names if (value := environ.get(f"KNOWLEDGE_HTTP_{name.upper()}", "").strip())}
        given.pop("backend", None)
        _check_text(given)
        values: dict[str, Any] = dict(given)
        if "KNOWLEDGE_HTTP_TOKENS" in environ:
            values["tokens"] = _tokens(given.get("tokens", ""))
        for name in _FLAGS:
            values[name] = _flag(name, given.get(name, ""))
        for name, (default, least, most) in _NUMBERS.items():
            number = _number(name, given.get(name, default), least, most)
            values[name] = int(number) if name in _WHOLE else number
        values["allowed_hosts"] = tuple(each.lower() for each in _items(given.get("allowed_hosts", "")))
        values["cors_origins"] = tuple(map(_origin, _items(given.get("cors_origins", ""))))
        if (address := url or given.get("url")) is not None:
            values["url"], values["backend"] = split_url(address)
        return cls(**values)

    @property
    def has_tokens(self) -> bool:
        """Whether callers must show a token."""
        return bool(self.tokens) or self.tokens_file is not None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.host)

    def check_serving(self) -> None:
        """Whether it may be served so.

        Raises:
            ConfigurationError: When others would reach it without a token, and nothing says that they may.
        """
        if not self.is_loopback and not self.has_tokens and not self.insecure:
            raise ConfigurationError(
                f"Everyone who reaches {self.host!r} could read all documents, as there are no tokens",
                mend="Set KNOWLEDGE_HTTP_TOKENS or KNOWLEDGE_HTTP_TOKENS_FILE, or say --insecure.",
            )


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def split_url(url: str) -> tuple[str, str | None]:
    """The base of a server's URLs, without a slash at its end, and the backend that `?backend=` names.

    Raises:
        ConfigurationError: For what is no such URL.
    """
    mend = "Write it as https://HOST/ or http://HOST:PORT/, with ?backend=NAME for one backend of several."
    try:
        if len(url) > MAX_URL_CHARS:
            raise ValueError("too long")
        url.encode()
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError("The URL of the server cannot be read", mend=mend) from error
    if parts.scheme not in ("http", "https") or not host or set(parts.netloc) & set("\\ \t"):
        raise ConfigurationError("The URL of the server names no host, or is not http or https", mend=mend)
    if "@" in parts.netloc:
        raise ConfigurationError(
            "The URL of the server holds a user or a password", mend="Set KNOWLEDGE_HTTP_TOKEN instead."
        )
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    if any(name != "backend" or not value for name, value in parameters) or len(parameters) > 1 or parts.fragment:
        raise ConfigurationError("The URL of the server has parameters that it does not take", mend=mend)
    base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    return base, parameters[0][1] if parameters else None


def _tokens(given: str) -> tuple[Token, ...]:
    """The tokens; none at all would open what somebody meant to close."""
    tokens = parse_tokens(given)
    if not tokens:
        raise ConfigurationError("KNOWLEDGE_HTTP_TOKENS is set and holds no token", mend="Put one there, or unset it.")
    return tokens


def _items(given: str) -> Iterator[str]:
    return (item.strip() for item in given.split(",") if item.strip())


def _origin(given: str) -> str:
    parts = urlsplit(given.rstrip("/"))
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path or parts.query or parts.fragment:
        raise ConfigurationError(
            f"KNOWLEDGE_HTTP_CORS_ORIGINS names {given[:100]!r}", mend="Write origins such as https://app.example."
        )
    return f"{parts.scheme}://{parts.netloc}".lower()


def _flag(name: str, given: str) -> bool:
    if given.lower() in _TRUE:
        return True
    if given.lower() not in _FALSE:
        raise ConfigurationError(f"KNOWLEDGE_HTTP_{name.upper()} is {given[:60]!r}", mend="Use true or false.")
    return False


def _number(name: str, given: str, least: float, most: float) -> float:
    try:
        number = float(given)
    except ValueError:
        number = float("nan")
    if not least <= number <= most or (name in _WHOLE and number != int(number)):
        what = "whole number" if name in _WHOLE else "number"
        raise ConfigurationError(
            f"KNOWLEDGE_HTTP_{name.upper()} is {given[:60]!r}", mend=f"Use a {what} from {least:.10g} to {most:.10g}."
        )
    return number


def _check_text(given: Mapping[str, str]) -> None:
    for name, value in given.items():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(
                f"KNOWLEDGE_HTTP_{name.upper()} holds bytes that are no UTF-8", mend="Write it as text."
            ) from None
