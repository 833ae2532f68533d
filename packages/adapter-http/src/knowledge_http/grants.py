"""Bearer tokens: what each allows, and where."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Literal, NamedTuple, get_args

from knowledge_engine.errors import ConfigurationError

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
#: What a header can hold. A colon or a comma would end it.
_SECRET = re.compile(r"[^\s,:\x00-\x20\x7f]+")
#: A name is shown and kept.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_MEND = "Write SECRET:SCOPE, SECRET:SCOPE:BACKEND or SECRET:SCOPE:BACKEND:NAME; the scope is read, write or admin."


class Token(NamedTuple):
    """A secret, as the hash of its bytes, and what it allows."""

    digest: bytes
    scope: Scope
    #: The only backend that it allows something of; None: all.
    backend: str | None = None
    #: Whom it stands for.
    name: str = ""


class Grant:
    """What a caller may do. Each scope has those before it: read, write, admin.

    Args:
        overall: For all backends; None: nothing.
        by_backend: For single ones, beside that.
        name: Whom the caller's token stands for.
    """

    __slots__ = ("_by_backend", "_overall", "name")

    def __init__(self, overall: Scope | None, by_backend: Mapping[str, Scope] | None = None, name: str = "") -> None:
        self._overall = overall
        self._by_backend = dict(by_backend or {})
        self.name = name

    def allows(self, scope: str, backend: str | None = None) -> bool:
        """Whether that may be done there; without a backend: with all of them, or with the server itself."""
        wanted = SCOPES.index(scope)
        held = [self._overall] if backend is None else [self._overall, self._by_backend.get(backend)]
        return any(one is not None and SCOPES.index(one) >= wanted for one in held)

    def allows_somewhere(self, scope: str) -> bool:
        """Whether that may be done with any backend."""
        return self.allows(scope) or any(self.allows(scope, name) for name in self._by_backend)

    def visible(self, names: Iterable[str]) -> tuple[str, ...]:
        """Of the names of backends those that may be read."""
        return tuple(name for name in names if self.allows("read", name))


def parse_tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a text such as `s3cret:read,0ther:write:docs`; empty items are left out.

    Raises:
        ConfigurationError: For one that is malformed. It quotes no secret.
    """
    items = (item.strip() for item in text.split(","))
    return tuple(_token(number, item) for number, item in enumerate(items, 1) if item)


def _token(number: int, item: str) -> Token:
    secret, *rest = item.split(":")
    if not _SECRET.fullmatch(secret) or len(rest) not in (1, 2, 3):
        raise ConfigurationError(f"Token {number} is malformed", mend=_MEND)
    scope = next((each for each in SCOPES if each == rest[0]), None)
    if scope is None or (len(rest) == 2 and not rest[1]):
        raise ConfigurationError(f"Token {number} has no scope that there is", mend=_MEND)
    if len(rest) == 3 and not _NAME.fullmatch(rest[2]):
        raise ConfigurationError(
            f"Token {number} has a name that cannot be one", mend="Use letters, digits, and . _ @ - between them."
        )
    try:
        data = secret.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"Token {number} holds bytes that are no UTF-8", mend="Write it as text.") from None
    # An empty backend, before a name, is none.
    backend = rest[1] or None if len(rest) > 1 else None
    return Token(sha256(data).digest(), scope, backend, rest[2] if len(rest) == 3 else "")


def grant_of(secret: bytes, tokens: Iterable[Token]) -> Grant | None:
    """What a secret allows, by all tokens that have it; None if none has. Takes as long for any secret."""
    digest = sha256(secret).digest()
    overall: Scope | None = None
    by_backend: dict[str, Scope] = {}
    known, name = False, ""
    for token in tokens:
        if not hmac.compare_digest(token.digest, digest):
            continue
        known, name = True, name or token.name
        if token.backend is None:
            overall = _greater(overall, token.scope)
        else:
            by_backend[token.backend] = _greater(by_backend.get(token.backend), token.scope)
    return Grant(overall, by_backend, name) if known else None


def _greater(one: Scope | None, other: Scope) -> Scope:
    return other if one is None or SCOPES.index(one) < SCOPES.index(other) else one
