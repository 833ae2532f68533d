"""What `ingest` writes: the bytes and the id of a document, the same in every backend that stores documents."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable

from knowledge_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, NotSupportedError
from knowledge_engine.frontmatter import compose_document, parse_frontmatter, update_frontmatter
from knowledge_engine.models import IngestRequest

#: Where documents without an id go.
DEFAULT_FOLDER = "sources"
_MAX_SLUG_BYTES = 120
_NO_SLUG = re.compile(r"[\W_]+")


def slugify(text: str, fallback: bytes = b"") -> str:
    """A file name for a title, in any script; a hash of `fallback` where no letter is left.

    >>> slugify("Größe & Wasser: 水温?")
    'größe-wasser-水温'
    """
    lower = unicodedata.normalize("NFC", text[: 2 * _MAX_SLUG_BYTES]).lower().replace("i\u0307", "i")
    # Many scripts write vowels as marks, which are no word characters to `re`.
    words = "".join(char if unicodedata.category(char)[0] == "M" else _NO_SLUG.sub("-", char) for char in lower)
    words = unicodedata.normalize("NFC", re.sub("-+", "-", words).strip("-"))
    words = words.encode()[:_MAX_SLUG_BYTES].decode(errors="ignore").strip("-")
    if _NO_SLUG.sub("", words):
        return words
    return hashlib.sha256(fallback or text.encode("utf-8", "replace")).hexdigest()[:16]


def document_id(request: IngestRequest, data: bytes) -> str:
    """The id to store under: the given one, else `sources/<slug>.md` of the title or the content's hash."""
    if request.id is not None:
        return request.id
    return f"{DEFAULT_FOLDER}/{slugify(request.title or '', data)}.md"


def free_id(request: IngestRequest, data: bytes, stored: Callable[[str], bytes | None]) -> str:
    """`document_id`, with a hash of the title where a document of another title (`C`, `C++`) has that id.

    Args:
        stored: The present bytes of an id, if any.
    """
    path = document_id(request, data)
    if request.id is not None or not request.title:
        return path
    own = f"{path.removesuffix('.md')}-{hashlib.sha256(request.title.encode('utf-8', 'replace')).hexdigest()[:8]}.md"
    present = stored(path)
    is_other = present is not None and parse_frontmatter(present).metadata.get("title") != request.title
    return own if is_other or stored(own) is not None else path


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
    if if_match is not None:
        check_hash(if_match, "" if stored is None else hashlib.sha256(stored).hexdigest())


def check_hash(if_match: str | None, present: str) -> None:
    """As `check_match`, where the hash of the stored bytes is known ("" for no bytes)."""
    if if_match is not None and if_match != present:
        raise ConflictError(
            "The document is not the version that you named" if if_match else "The document exists already",
            mend="Read it again and repeat the change on what is there now.",
        )


def unsupported_kind(kind: str, known: str) -> NotSupportedError:
    """The error for an `ingest` of a kind that a backend does not take."""
    return NotSupportedError(f"This backend cannot ingest {kind!r}", mend=f"Use one of: {known}.")
