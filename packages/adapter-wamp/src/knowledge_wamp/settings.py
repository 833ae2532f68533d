"""All that the adapter takes from the environment; nothing else in it reads that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import Field, SecretStr

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.fs import can_be_path
from knowledge_engine.models import Value
from knowledge_wamp.topics import uri_problem

AuthMethod = Literal["anonymous", "ticket", "wampcra", "cryptosign"]

#: What each scheme of a URL stands for, as WAMP libraries write it.
SCHEMES: Mapping[str, str] = {"ws": "ws", "wss": "wss", "rs": "rs", "rss": "rss", "wamp": "ws", "wamps": "wss"}
#: The first is the one that no caller's arguments upset: JSON takes a text that begins with NUL for bytes, and CBOR
#: refuses what is nested deeply; either way autobahn closes the connection.
SERIALIZERS = ("msgpack", "cbor", "json")
MAX_SECRET_BYTES = 100_000

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
#: By method: the setting that holds what it proves itself with.
_PROOFS: Mapping[str, AuthMethod] = {"ticket": "ticket", "secret": "wampcra", "private_key": "cryptosign"}


class WampSettings(Value):
    """Where the router is, how to join, and what to call there. Shows no secret when it is printed."""

    url: str
    realm: str = "realm1"
    #: With no dot at its end; empty for none.
    prefix: str = ""
    authid: str | None = None
    ticket: SecretStr | None = None
    ticket_file: str | None = None
    secret: SecretStr | None = None
    secret_file: str | None = None
    private_key: SecretStr | None = None
    private_key_file: str | None = None
    #: In the order in which they are offered.
    serializers: tuple[str, ...] = SERIALIZERS
    ca_file: str | None = None
    timeout_s: float = Field(default=30.0, gt=0, le=86_400)
    shared: bool = False
    writable: bool = False
    health_file: str | None = None
    #: Bytes of an answer, as JSON.
    max_payload: int = Field(default=1_000_000, ge=10_000, le=100_000_000)

    @classmethod
    def from_env(cls, environ: Mapping[str, str], url: str | None = None) -> WampSettings:
        """Settings from `KNOWLEDGE_WAMP_*`.

        Args:
            url: Comes before `KNOWLEDGE_WAMP_URL`; its parameters `realm` and `prefix` before those variables.

        Raises:
            ConfigurationError: Naming the variable that is wrong.
        """
        names = ["serializer" if name == "serializers" else name for name in cls.model_fields]
        given = {name: value for name in names if (value := environ.get(f"KNOWLEDGE_WAMP_{name.upper()}", "").strip())}
        _check_text(given)
        if url is not None:
            given |= _from_url(url)
        elif "url" in given:
            given |= _from_url(given["url"])
        else:
            raise ConfigurationError("KNOWLEDGE_WAMP_URL is not set", mend="Set it, such as ws://127.0.0.1:8080/ws.")
        values: dict[str, Any] = dict(given)
        if serializer := values.pop("serializer", None):
            values["serializers"] = _serializers(serializer)
        for name in ("shared", "writable"):
            values[name] = _flag(name, given.get(name, ""))
        values["timeout_s"] = _number("timeout_s", given.get("timeout_s", "30"), 0.001, 86_400)
        values["max_payload"] = int(_number("max_payload", given.get("max_payload", "1000000"), 10_000, 100_000_000))
        values["prefix"] = given.get("prefix", "").rstrip(".")
        _check_names(values)
        _check_proofs(values)
        return cls(**values)

    @property
    def auth_method(self) -> AuthMethod:
        """How to join: by the one proof that is set; anonymous without any."""
        for name, method in _PROOFS.items():
            if getattr(self, name) is not None or getattr(self, f"{name}_file") is not None:
                return method
        return "anonymous"

    def proof(self) -> str:
        """What to join with, read from its file now; empty for anonymous.

        Raises:
            ConfigurationError: When the file cannot be read, or holds nothing.
        """
        for name in _PROOFS:
            value, file = getattr(self, name), getattr(self, f"{name}_file")
            if value is not None:
                return str(value.get_secret_value())
            if file is not None:
                return _read_secret(f"KNOWLEDGE_WAMP_{name.upper()}_FILE", file)
        return ""

    def procedure(self, topic: str) -> str:
        """The URI of a topic, with the prefix before it."""
        return f"{self.prefix}.{topic}" if self.prefix else topic


def _from_url(url: str) -> dict[str, str]:
    """The URL as WAMP libraries write it, and what its own parameters `realm` and `prefix` say."""
    mend = "Write it as ws://HOST:PORT/PATH, wss://HOST/PATH, rs://HOST:PORT or rss://HOST:PORT."
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        url.encode()
    except ValueError as error:
        raise ConfigurationError("The URL of the router cannot be read", mend=mend) from error
    if parts.scheme not in SCHEMES or not host:
        raise ConfigurationError("The URL of the router names no host, or no scheme that WAMP has", mend=mend)
    if "@" in parts.netloc:
        raise ConfigurationError(
            "The URL of the router holds a user or a password", mend="Set KNOWLEDGE_WAMP_AUTHID and a ticket instead."
        )
    scheme = SCHEMES[parts.scheme]
    if scheme.startswith("rs") and parts.port is None:
        raise ConfigurationError("The URL of the router has no port", mend=mend)
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    own = {key: value for key, value in parameters if key in ("realm", "prefix") and value}
    rest = urlencode([(key, value) for key, value in parameters if key not in ("realm", "prefix")])
    return {**own, "url": urlunsplit((scheme, parts.netloc, parts.path, rest, ""))}


def _serializers(given: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in given.split(","))
    if not set(names) <= set(SERIALIZERS):
        raise ConfigurationError(
            f"KNOWLEDGE_WAMP_SERIALIZER is {given[:60]!r}", mend=f"Use some of {', '.join(SERIALIZERS)}."
        )
    return names


def _flag(name: str, given: str) -> bool:
    if given.lower() in _TRUE:
        return True
    if given.lower() not in _FALSE:
        raise ConfigurationError(f"KNOWLEDGE_WAMP_{name.upper()} is {given[:60]!r}", mend="Use true or false.")
    return False


def _number(name: str, given: str, least: float, most: float) -> float:
    try:
        number = float(given)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise ConfigurationError(
            f"KNOWLEDGE_WAMP_{name.upper()} is {given[:60]!r}", mend=f"Use a number from {least:g} to {most:g}."
        )
    return number


def _check_text(given: Mapping[str, str]) -> None:
    for name, value in given.items():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(
                f"KNOWLEDGE_WAMP_{name.upper()} holds bytes that are no UTF-8", mend="Write it as text."
            ) from None


def _check_names(values: Mapping[str, Any]) -> None:
    for name in ("realm", "prefix"):
        value = values.get(name)
        if value and (problem := uri_problem(value)):
            raise ConfigurationError(
                f"KNOWLEDGE_WAMP_{name.upper()} is {value[:100]!r}: {problem}", mend="Write words with dots in between."
            )


def _check_proofs(values: Mapping[str, Any]) -> None:
    given = [name for each in _PROOFS for name in (each, f"{each}_file") if values.get(name)]
    if len(given) > 1:
        names = ", ".join(f"KNOWLEDGE_WAMP_{name.upper()}" for name in given)
        raise ConfigurationError(f"Several ways to join are set: {names}", mend="Set one of them.")
    if given and given[0].removesuffix("_file") != "private_key" and not values.get("authid"):
        raise ConfigurationError(
            f"KNOWLEDGE_WAMP_{given[0].upper()} is set without KNOWLEDGE_WAMP_AUTHID", mend="Set whom to join as."
        )


def _read_secret(variable: str, file: str) -> str:
    if not can_be_path(file):
        raise ConfigurationError(f"{variable} names no file", mend="Correct the path.")
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_SECRET_BYTES + 1)
        text = data.decode().strip()
    except OSError as error:
        raise ConfigurationError(
            f"The file that {variable} names cannot be read ({error.strerror})", mend="Correct the path, or allow it."
        ) from error
    except UnicodeDecodeError:
        text = ""
    if not text or len(data) > MAX_SECRET_BYTES:
        raise ConfigurationError(f"The file that {variable} names holds no secret", mend="Put it there, as text.")
    return text
