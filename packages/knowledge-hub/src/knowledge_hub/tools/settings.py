"""Which hub the tools use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import Value

URL, TOKEN = "KNOWLEDGE_HUB_URL", "KNOWLEDGE_HUB_TOKEN"


class HubAddress(Value):
    """A hub elsewhere; without a `url` it is the one here."""

    #: The server's root, without `/api/knowledge`.
    url: str | None = None
    token: str = Field(default="", repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Reads `KNOWLEDGE_HUB_URL` and `KNOWLEDGE_HUB_TOKEN`; a blank value is as good as none.

        Raises:
            ConfigurationError: Naming the variable that is wrong; its value is not shown.
        """
        url, token = environ.get(URL, "").strip(), environ.get(TOKEN, "").strip()
        if not (token.isascii() and token.isprintable()):
            raise ConfigurationError(f"{TOKEN} is no token", mend="Copy it again, in plain characters.")
        return cls(url=_root(url) if url else None, token=token)


def _root(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    odd = parts.query or parts.fragment or "@" in parts.netloc or not url.isascii() or not url.isprintable()
    if parts.scheme not in {"http", "https"} or not parts.hostname or odd or " " in url:
        raise ConfigurationError(
            f"{URL} is not the address of a server", mend=f"Write it like http://localhost:8000; the token is {TOKEN}."
        )
    return url.rstrip("/").removesuffix("/api/knowledge")
