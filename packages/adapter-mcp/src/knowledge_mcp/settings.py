"""All that the adapter takes from the environment; nothing else in it reads that."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import Field

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import Value

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
_LONGEST_S = 86_400.0


class McpSettings(Value):
    """What is offered, and how long a call may take."""

    #: On standard input and output; over HTTP the caller's token decides.
    allow_write: bool = False
    connector: bool = False
    #: With no slash at its end; empty for none.
    public_url: str = ""
    timeout_s: float = Field(default=30.0, gt=0, le=_LONGEST_S)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> McpSettings:
        """Settings from `KNOWLEDGE_MCP_*`.

        Raises:
            ConfigurationError: Naming the variable that is wrong.
        """

        def given(name: str) -> str:
            return environ.get(f"KNOWLEDGE_MCP_{name.upper()}", "").strip()

        return cls(
            allow_write=_flag("allow_write", given("allow_write")),
            connector=_flag("connector", given("connector")),
            public_url=_url(given("public_url")),
            timeout_s=_seconds(given("timeout_s") or "30"),
        )


def _flag(name: str, given: str) -> bool:
    if given.lower() in _TRUE:
        return True
    if given.lower() not in _FALSE:
        raise ConfigurationError(f"KNOWLEDGE_MCP_{name.upper()} is {given[:60]!r}", mend="Use true or false.")
    return False


def _seconds(given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = float("nan")
    if not 0.001 <= number <= _LONGEST_S:
        raise ConfigurationError(
            f"KNOWLEDGE_MCP_TIMEOUT_S is {given[:60]!r}", mend=f"Use a number from 0.001 to {_LONGEST_S:g}."
        )
    return number


def _url(given: str) -> str:
    if not given:
        return ""
    mend = "Write it as https://HOST or https://HOST/PATH."
    try:
        parts = urlsplit(given)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and given.isascii() and given.isprintable()
    except ValueError:
        is_url = False
    if not is_url or parts.query or parts.fragment:
        raise ConfigurationError("KNOWLEDGE_MCP_PUBLIC_URL is no address of a server", mend=mend)
    if "@" in parts.netloc:
        raise ConfigurationError("KNOWLEDGE_MCP_PUBLIC_URL holds a user or a password", mend=mend)
    return given.rstrip("/")
