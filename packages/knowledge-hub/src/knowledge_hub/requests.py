"""What every request is checked for, and the keys under which it may be sent again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from knowledge_engine.errors import InvalidArgumentError
from knowledge_engine.models import Value
from knowledge_hub.entries import KINDS, Kind
from knowledge_hub.store import Once

_MAX_KEY_CHARS = 200


def check_key(key: str) -> None:
    """Raises InvalidArgumentError for an idempotency key that cannot be kept; none is no fault."""
    if len(key) > _MAX_KEY_CHARS or not key.isprintable():
        raise InvalidArgumentError(
            "The idempotency key cannot be kept", mend=f"Use at most {_MAX_KEY_CHARS} printable characters."
        )


def once(key: str, what: str, asked: Value, *, part: str = "") -> Once | None:
    """The key of a request, or of one part of it, which then is done once; None without a key.

    Args:
        what: The kind of request, so that a key does not stand for two.
        part: One of several steps, each of which may fail and be done later.
    """
    if not key:
        return None
    check_key(key)
    digest = hashlib.sha256(f"{what}\n{asked.model_dump_json()}".encode()).hexdigest()
    return Once(f"{key}\n{part}" if part else key, digest)


def checked_kinds(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """Types, each once. Raises InvalidArgumentError for one that there is not."""
    if wrong := next((one for one in kinds if one not in KINDS), None):
        raise InvalidArgumentError(f"There is no type {str(wrong)[:60]!r}", mend=f"Use some of {', '.join(KINDS)}.")
    return tuple(dict.fromkeys(kinds))


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Raises InvalidArgumentError for a number that is too small or too large."""
    if not least <= value <= most:
        raise InvalidArgumentError(f"`{name}` is {value!r}", mend=f"Use a whole number from {least} to {most}.")


def check_text(text: str) -> None:
    """Raises InvalidArgumentError for half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            "The question holds half of a surrogate pair", mend="Send whole characters."
        ) from error
