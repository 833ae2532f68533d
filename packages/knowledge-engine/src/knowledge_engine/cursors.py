"""Cursors: where a page ended, opaque to callers, checked when they come back. And revisions of a corpus."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any, NamedTuple

from knowledge_engine.errors import InvalidCursorError

# Room for the longest id, with its characters escaped.
_MAX_CHARS = 32_768


class Cursor(NamedTuple):
    """What a cursor says: the revision that its page was made from, and the key of the page's last item."""

    revision: str
    after: list[Any]


def encode_cursor(request: str, revision: str, after: list[Any]) -> str:
    """A cursor for the request that `request` describes (any text that is equal for equal requests)."""
    data = json.dumps([_digest(request), revision, after], separators=(",", ":"))
    return base64.urlsafe_b64encode(data.encode()).decode().rstrip("=")


def decode_cursor(text: str, request: str, *types: type) -> Cursor:
    """The cursor, if `encode_cursor` made it for the same request and its key has these types.

    Raises:
        InvalidCursorError: Otherwise.
    """
    try:
        if len(text) > _MAX_CHARS:
            raise ValueError("too long")
        digest, revision, after = json.loads(
            base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        )
        fits = (
            isinstance(revision, str)
            and isinstance(after, list)
            and len(after) == len(types)
            and all(type(value) is kind for value, kind in zip(after, types, strict=True))
        )
    except (ValueError, TypeError, RecursionError):
        fits = False
    if not fits:
        raise InvalidCursorError("The cursor is not one of ours", mend="Pass `next_cursor` as it was given, or none.")
    if digest != _digest(request):
        raise InvalidCursorError(
            "The cursor belongs to another request", mend="Change only the page size between pages."
        )
    return Cursor(revision, after)


def _digest(request: str) -> str:
    return hashlib.blake2b(request.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


class Revision:
    """A fingerprint of a corpus that follows each change without reading the rest.

    Equal sets of (id, content hash) have equal values, in whatever order they came to be. It tells corpora apart; it
    is no defence against someone who builds a clash.
    """

    def __init__(self) -> None:
        self._sum = 0

    @classmethod
    def of(cls, value: str) -> Revision:
        """The revision that had that value."""
        revision = cls()
        revision._sum = int(value, 16)
        return revision

    def add(self, source_id: str, content_hash: str) -> None:
        """Takes in a document."""
        self._sum += self._weight(source_id, content_hash)

    def remove(self, source_id: str, content_hash: str) -> None:
        """Takes out a document that was taken in."""
        self._sum -= self._weight(source_id, content_hash)

    def copy(self) -> Revision:
        """Another one of the same value."""
        other = Revision()
        other._sum = self._sum
        return other

    @property
    def value(self) -> str:
        """24 hex digits."""
        return f"{self._sum % (1 << 96):024x}"

    @staticmethod
    def _weight(source_id: str, content_hash: str) -> int:
        key = f"{content_hash} {source_id}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(key, digest_size=12).digest())
