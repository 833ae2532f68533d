"""What a fetch gives."""

from __future__ import annotations

from knowledge_engine.models import Value


class Fetched(Value):
    """A document from the web, after all redirects."""

    #: As it was asked for.
    url: str
    #: Where it was found.
    final_url: str
    status: int
    #: Media type in lower case, without parameters.
    content_type: str
    #: The body, decompressed.
    content: bytes
    #: Python name of the charset that `text` was read with; see `knowledge_engine.fetch.charsets`.
    charset: str
    text: str
