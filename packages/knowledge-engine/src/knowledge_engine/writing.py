"""What `ingest` writes: the bytes and the id of a document, the same in every backend that stores documents."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from knowledge_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, NotSupportedError
from knowledge_engine.frontmatter import compose_document, update_frontmatter
from knowledge_engine.models import IngestRequest

#: Where documents without an id go.
DEFAULT_FOLDER = "sources"
_NO_SLUG = re.compile(r"[^\w]+|_+")


def slugify(text: str, fallback: bytes = b"") -> str:
    """A file name for a title, in any script; a hash of `fallback` where no letter is left.

    >>> slugify("Größe & Wasser: 水温?")
    'größe-wasser-水温'
    """
    words = _NO_SLUG.sub("-", unicodedata.normalize("NFC", text).casefold()).strip("-")
    while len(words.encode()) > 120:
        words = words[:-1]
    return words.strip("-") or hashlib.sha256(fallback or text.encode("utf-8", "replace")).hexdigest()[:16]


def document_id(request: IngestRequest, data: bytes) -> str:
    """The id to store under: the given one, else `sources/<slug>.md` of the title or the content's hash."""
    if request.id is not None:
        return request.id
    return f"{DEFAULT_FOLDER}/{slugify(request.title or '', data)}.md"


def document_bytes(request: IngestRequest, stored: bytes | None) -> bytes:
    """The bytes to store.

    Args:
        stored: The present bytes under the request's id, if any: a request without a body changes their metadata.

    Raises:
        NotFoundError: No body is given and nothing is stored under that id.
        InvalidArgumentError: There is nothing to store, or `content` comes with a title or metadata.
        InvalidFrontmatterError: The stored metadata does not parse, so it is not rewritten.
    """
    changes = {**request.metadata, **({"title": request.title} if request.title is not None else {})}
    if request.content is not None:
        if changes:
            raise InvalidArgumentError(
                "`content` is stored as it is, so title and metadata cannot be added",
                mend="Pass `text` instead of `content`, or leave out title and metadata.",
            )
        return request.content
    if request.text is not None:
        return compose_document(changes, request.text)
    if request.id is None or not changes:
        raise InvalidArgumentError("There is nothing to store", mend="Pass `text` or `content`, or an id and metadata.")
    if stored is None:
        raise NotFoundError(f"No document {request.id!r}", mend="Pass `text` or `content` to create it.")
    return update_frontmatter(stored, changes)


def check_match(if_match: str | None, stored: bytes | None) -> None:
    """Raises ConflictError unless the stored bytes are those that `if_match` names ("" names no bytes)."""
    if if_match is None:
        return
    present = "" if stored is None else hashlib.sha256(stored).hexdigest()
    if if_match != present:
        raise ConflictError(
            "The document is not the version that you named" if if_match else "The document exists already",
            mend="Read it again and repeat the change on what is there now.",
        )


def unsupported_kind(kind: str, known: str) -> NotSupportedError:
    """The error for an `ingest` of a kind that a backend does not take."""
    return NotSupportedError(f"This backend cannot ingest {kind!r}", mend=f"Use one of: {known}.")
