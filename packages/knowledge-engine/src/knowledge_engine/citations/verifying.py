"""Whether cited bytes are still where a citation says."""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from knowledge_engine.citations.cutting import content_hash
from knowledge_engine.errors import NotFoundError
from knowledge_engine.models import ByteSpan, Sha256, SourceContent, Value, Verification

#: Bytes that are hashed in the search for moved ones whose text is not known.
SEARCH_BYTES = 64 << 20
#: What hashing a span costs besides its bytes, as a number of bytes.
_HASH_OVERHEAD = 512
#: Where passages begin: at the first letter of a line.
_LINE_START = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])[ \t\r\n]*")


class Cited(Protocol):
    """What a citation says. A `Hit` does; its `text` helps to find bytes that moved."""

    @property
    def source_id(self) -> str:
        """The document."""
        ...

    @property
    def span(self) -> ByteSpan:
        """Where its words stood in the document's raw bytes."""
        ...

    @property
    def content_hash(self) -> str:
        """SHA-256 of those bytes, in lower-case hex."""
        ...


class Citation(Value):
    """A citation that comes from outside, without the hit it was taken from."""

    source_id: str
    span: ByteSpan
    content_hash: Sha256


class SourceReader(Protocol):
    """The part of a provider that verifying needs."""

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """As `IKnowledgeProvider.read_source`."""
        ...


def verify_citation(provider: SourceReader, citation: Cited) -> Verification:
    """What became of the cited bytes; `span` is where they are now.

    ok: they are there. moved: they are elsewhere in the source; of several places that whose start is nearest, of two
    as near the earlier. changed: they are not found in it. gone: no source has that id.

    Where the citation has the text (as a hit has, unless bytes in it are not UTF-8), moved bytes are always
    found. Where it has only the hash, the places to try are those where lines begin, then all others, each from the
    nearest on, until `SEARCH_BYTES` are hashed, half of them for lines: a moved passage is found in any source of
    moderate size, and near its old place in a huge one.

    An empty citation is ok up to the end of the source, and moves to the end of one that became shorter.

    Raises:
        KnowledgeError: What the provider raises, except `NotFoundError`.
    """
    source_id, span = citation.source_id, citation.span
    try:
        there = provider.read_source(source_id, span)
        if span.start == span.end:
            return _verified_empty(citation, there.total_bytes)
        if there.span == span and content_hash(there.content) == citation.content_hash:
            return Verification(status="ok", source_id=source_id, span=span)
        data = provider.read_source(source_id).content
    except NotFoundError:
        return Verification(status="gone", source_id=source_id)
    words = _words(citation)
    if words is None:
        words = _find_by_hash(data, span, citation.content_hash)
    start = -1 if words is None else _nearest(data, words, span.start)
    if start < 0:
        return Verification(status="changed", source_id=source_id)
    found = ByteSpan(start=start, end=start + span.end - span.start)
    # It is in its old place after all when it was written back between the two reads.
    return Verification(status="ok" if found == span else "moved", source_id=source_id, span=found)


def _verified_empty(citation: Cited, size: int) -> Verification:
    if citation.content_hash != content_hash(b""):
        return Verification(status="changed", source_id=citation.source_id)
    start = min(citation.span.start, size)
    status = "ok" if start == citation.span.start else "moved"
    return Verification(status=status, source_id=citation.source_id, span=ByteSpan(start=start, end=start))


def _words(citation: Cited) -> bytes | None:
    """The cited bytes themselves, if the citation has them."""
    text = getattr(citation, "text", None)
    if not isinstance(text, str):
        return None
    words = text.encode("utf-8", "surrogatepass")
    is_cited = len(words) == citation.span.end - citation.span.start and content_hash(words) == citation.content_hash
    return words if is_cited else None


def _nearest(data: bytes, words: bytes, start: int) -> int:
    """Where `words` begin nearest to `start`, of two as near the earlier; -1 if nowhere."""
    after = data.find(words, start)
    lowest = 0 if after < 0 else max(0, 2 * start - after)
    # Backwards, as `rfind` is quadratic on hostile bytes and `find` is not.
    region = data[lowest : max(lowest, start - 1 + len(words))][::-1]
    before = region.find(words[::-1])
    return after if before < 0 else lowest + len(region) - before - len(words)


def _find_by_hash(data: bytes, span: ByteSpan, wanted: str) -> bytes | None:
    """Bytes as many as the span has and with that hash, from anywhere in `data`."""
    length = span.end - span.start
    last = len(data) - length
    if last < 0:
        return None
    start = min(span.start, last)
    tries = max(8, SEARCH_BYTES // 2 // (length + _HASH_OVERHEAD))
    view = memoryview(data)
    for places in (_line_starts(data, start, tries), _outward(range(start - 1, -1, -1), range(start, last + 1), start)):
        for place in islice((place for place in places if place <= last), tries):
            if hashlib.sha256(view[place : place + length]).hexdigest() == wanted:
                return data[place : place + length]
    return None


def _line_starts(data: bytes, start: int, most: int) -> Iterable[int]:
    before = deque((match.end() for match in _LINE_START.finditer(data, 0, start)), maxlen=most)
    after = (match.end() for match in _LINE_START.finditer(data, start))
    return _outward(reversed(before), after, start)


def _outward(before: Iterable[int], after: Iterable[int], start: int) -> Iterable[int]:
    return heapq.merge(before, after, key=lambda place: abs(place - start))
