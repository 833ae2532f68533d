"""Conditions and byte ranges of requests (RFC 9110): pure functions of headers."""

from __future__ import annotations

import re
from typing import NamedTuple

_ETAG = re.compile(r'\s*(?:(W/)?"([\x21\x23-\x7e\x80-\xff]*)"|(\*))\s*(?:,|$)')
_RANGE = re.compile(r"\s*bytes\s*=\s*(?:(\d{1,18})\s*-\s*(\d{1,18})?|-\s*(\d{1,18}))\s*", re.ASCII | re.IGNORECASE)


class Tags(NamedTuple):
    """The versions that a header names; `any` for `*`."""

    strong: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    any: bool = False


class Range(NamedTuple):
    """One range of bytes as asked for: from `start` on, to `last` inclusive; or the last `suffix` of them."""

    start: int = 0
    last: int | None = None
    suffix: int | None = None

    def resolve(self, total: int) -> tuple[int, int] | None:
        """Start and end (exclusive) among that many bytes; None if there are none of these."""
        if self.suffix is not None:
            start, end = max(0, total - self.suffix), total
        else:
            start, end = self.start, total if self.last is None else min(total, self.last + 1)
        return (start, end) if start < end else None


def parse_tags(header: str) -> Tags | None:
    """What `If-Match` or `If-None-Match` says; None if it is malformed.

    >>> parse_tags('"a", W/"b"')
    Tags(strong=('a',), weak=('b',), any=False)
    """
    strong: list[str] = []
    weak: list[str] = []
    at, star = 0, False
    while at < len(header):
        found = _ETAG.match(header, at)
        if found is None:
            return None
        if found[3]:
            star = True
        else:
            (weak if found[1] else strong).append(found[2])
        at = found.end()
    if not (strong or weak or star) or (star and (strong or weak)):
        return None
    return Tags(tuple(strong), tuple(weak), star)


def is_known(header: str | None, tag: str) -> bool:
    """Whether `If-None-Match` names that version. What is malformed names none."""
    tags = parse_tags(header) if header is not None else None
    return tags is not None and (tags.any or tag in tags.strong or tag in tags.weak)


def parse_range(header: str | None) -> Range | None:
    """The one range that is asked for. None for all bytes: also for several ranges, and for what is malformed.

    >>> parse_range("bytes=0-9"), parse_range("bytes=-5"), parse_range("bytes=0-1,4-5")
    (Range(start=0, last=9, suffix=None), Range(start=0, last=None, suffix=5), None)
    """
    found = _RANGE.fullmatch(header or "")
    if found is None:
        return None
    if found[3] is not None:
        return Range(suffix=int(found[3]))
    start, last = int(found[1]), None if found[2] is None else int(found[2])
    return None if last is not None and last < start else Range(start, last)


def media_type(source_id: str) -> bytes:
    """How a document's bytes are named: never as what a browser would run.

    >>> media_type("a.md"), media_type("a.html")
    (b'text/markdown; charset=utf-8', b'text/plain; charset=utf-8')
    """
    if source_id.lower().endswith((".md", ".markdown")):
        return b"text/markdown; charset=utf-8"
    return b"text/plain; charset=utf-8"
