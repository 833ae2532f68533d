"""What a request may, and what its parameters say; errors say what to send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knowledge_engine.errors import InvalidArgumentError, KnowledgeError
from knowledge_hub.entries import KINDS, Kind


class ForbiddenError(KnowledgeError):
    """The token does not allow it."""

    code = "forbidden"


def check_scope(grant: Any, scope: str) -> None:
    """Checks that the caller may do that.

    Args:
        grant: What the HTTP server says of the caller; see `knowledge_engine.hookspecs.knowledge_mounts`.
    """
    if not grant.allows(scope):
        raise ForbiddenError(f"That needs the scope {scope!r}", mend=f"Use a token with the scope {scope!r}.")


def number_of(given: Sequence[str], name: str, default: int) -> int:
    """A parameter that is a whole number.

    Raises:
        InvalidArgumentError: When it is none, or comes twice.
    """
    if not given:
        return default
    text = given[0]
    if len(given) > 1 or not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 10):
        raise InvalidArgumentError(f"`{name}` is {text[:40]!r}", mend="Send one whole number.")
    return int(text)


def kinds_of(given: Sequence[str]) -> tuple[Kind, ...]:
    """Types, as a parameter that is repeated or holds commas.

    Raises:
        InvalidArgumentError: For one that there is not.
    """
    names = [name for text in given for each in text.split(",") if (name := each.strip())]
    found = [next((kind for kind in KINDS if kind == name), None) for name in names]
    if None in found:
        wrong = names[found.index(None)]
        raise InvalidArgumentError(f"There is no type {wrong[:60]!r}", mend=f"Use some of {', '.join(KINDS)}.")
    return tuple(kind for kind in found if kind is not None)
