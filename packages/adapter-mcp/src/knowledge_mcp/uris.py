"""Documents as resources: `knowledge://{+id}`, for ids with slashes and any characters."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import quote, unquote

SCHEME = "knowledge://"
TEMPLATE = "knowledge://{+id}"
#: No longer one can be of a document.
MAX_URI_CHARS = 60_000

_TEXT_TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".json": "application/json",
}


def uri_of(source_id: str) -> str:
    """The URI of a document.

    Colons and the like are encoded although the template would not: readers of URIs take what follows a colon for a
    port.

    >>> uri_of("manuals:guides/käse 100%.md")
    'knowledge://manuals%3Aguides/k%C3%A4se%20100%25.md'
    """
    return SCHEME + quote(source_id, safe="/-._~", errors="replace")


def ids_of(uri: str) -> tuple[str, ...]:
    """What document a URI may mean, the likeliest first; empty for a URI that is none of these.

    Whoever fills in the template leaves `%` of an id as it is, which then reads as an encoded character.

    >>> ids_of("knowledge://a%20b"), ids_of("file:///etc/passwd")
    (('a b', 'a%20b'), ())
    """
    if not uri.lower().startswith(SCHEME) or len(uri) > MAX_URI_CHARS:
        return ()
    written = uri[len(SCHEME) :]
    read = unquote(written, errors="replace")
    return tuple(name for name in dict.fromkeys((read, written)) if name)


def media_type(source_id: str) -> str:
    """What a document is, by its ending; text where that says nothing.

    >>> media_type("a/B.MD"), media_type("notes")
    ('text/markdown', 'text/plain')
    """
    return _TEXT_TYPES.get(PurePosixPath(source_id).suffix.lower(), "text/plain")
