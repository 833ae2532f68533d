"""Documents: lists of them, one with its outline and links, its bytes, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import Field, JsonValue, PositiveInt

from knowledge_engine.citations import content_hash
from knowledge_engine.errors import NotFoundError, UnavailableError
from knowledge_engine.filters import merge_filters, parse_where
from knowledge_engine.models import ByteSpan, Provenance, Source, SourceContent, WireValue
from knowledge_engine.ports import ExplainingProvider
from knowledge_engine.service import KnowledgeService, SourceDetail
from knowledge_http.errors import RangeNotSatisfiableError
from knowledge_http.server.backends import Place
from knowledge_http.server.calls import Call
from knowledge_http.server.content import Range, is_known, media_type, parse_range
from knowledge_http.server.rendering import Answer, header_text, json_answer, not_modified

#: How often a document is read again because it changed meanwhile.
_ATTEMPTS = 3
#: A document that is opened by itself runs nothing and loads nothing.
_INERT = ((b"content-security-policy", b"default-src 'none'; sandbox"),)


class ListRequest(WireValue):
    """What to list."""

    #: Words that the documents' titles, summaries, keywords and the like must match; best first.
    query: str | None = None
    #: Conditions on metadata, as of `Query`.
    filter: dict[str, JsonValue] | None = None
    limit: PositiveInt = 100
    cursor: str | None = None
    #: Whether to count the values of each metadata key.
    facets: bool = Field(default=False)


async def list_sources(call: Call) -> Answer:
    """`GET /v1/sources`."""
    given = call.arguments
    return await _listed(call, ListRequest(
        query=given.get("query"),
        filter=given_filter(given),
        limit=given.get("limit", 100),
        cursor=given.get("cursor"),
        facets=given.get("facets", False),
    ))  # fmt: skip


async def list_by_body(call: Call) -> Answer:
    """`POST /v1/list`: the same for filters that are too long for a URL."""
    return await _listed(call, await call.model(ListRequest))


async def _listed(call: Call, asked: ListRequest) -> Answer:
    service, gzip = call.view.room.service, call.gzip

    def work() -> Answer:
        found = service.list(
            query=asked.query, filter=asked.filter, limit=asked.limit, cursor=asked.cursor, facets=asked.facets
        )
        return json_answer(found, gzip=gzip, keep=not found.warnings)

    return await call.view.room.run(work)


def given_filter(given: Mapping[str, Any]) -> dict[str, JsonValue] | None:
    """The parameters `filter` and `where` as one filter."""
    return merge_filters(given.get("filter"), *map(parse_where, given.get("where", ())))


async def get_source(call: Call) -> Answer:
    """`GET /v1/sources/{id}`."""
    place, gzip = call.view.place(call.source_id), call.gzip
    detail, exact = call.arguments.get("detail", True), call.arguments.get("exact", False)

    def work() -> Answer:
        service, source_id = place.room.service, _exact_id(place, exact)
        found = service.get(source_id) if detail else SourceDetail(source=service.source(source_id))
        answer = _outer(found, place.prefix)
        tag = answer.source.content_hash
        return json_answer(answer, gzip=gzip, headers=[(b"etag", f'"{tag}"'.encode())] if tag else None)

    return await place.room.run(work)


def _exact_id(place: Place, exact: bool) -> str:
    """The source id: any name of the document's is taken for it, unless it must be `exact`."""
    service = place.room.service
    return service.source(place.source_id).id if exact else service.resolve_id(place.source_id)


def outer_source(source: Source, prefix: str) -> Source:
    """The source as it is known outside."""
    return source.model_copy(update={"id": prefix + source.id}) if prefix else source


def _outer(detail: SourceDetail, prefix: str) -> SourceDetail:
    if not prefix:
        return detail
    links = tuple(
        link if link.source_id is None else link.model_copy(update={"source_id": prefix + link.source_id})
        for link in detail.links
    )
    issues = tuple(issue.model_copy(update={"path": prefix + issue.path}) for issue in detail.issues)
    return SourceDetail(source=outer_source(detail.source, prefix), outline=detail.outline, links=links, issues=issues)


async def read_source(call: Call) -> Answer:
    """`GET /v1/sources/{id}/content`."""
    place, given = call.view.place(call.source_id), call.arguments
    section, span = given.get("section"), _span(given)
    wanted = parse_range(call.header(b"range"))
    known, if_range = call.header(b"if-none-match"), call.header(b"if-range")

    def work() -> Answer:
        source_id = _exact_id(place, given.get("exact", False))
        # For `If-Range` the version must be known first.
        part = wanted if section is None and span is None and if_range is None else None
        found, total, tag = _read(place.room.service, source_id, section, span, part)
        headers = [
            (b"knowledge-source-id", header_text(place.prefix + source_id)),
            (b"knowledge-span", f"{found.span.start}-{found.span.end}/{found.total_bytes}".encode()),
            *_INERT,
        ]
        if tag:
            if is_known(known, tag):
                return not_modified(f'"{tag}"')
            headers.append((b"etag", f'"{tag}"'.encode()))
        return _ranged(found, total, wanted if if_range in (None, f'"{tag}"') else None, headers, media_type(source_id))

    return await place.room.run(work)


def _span(given: Mapping[str, Any]) -> ByteSpan | None:
    start, end = given.get("start"), given.get("end")
    if start is None and end is None:
        return None
    first = start or 0
    return ByteSpan(start=first, end=10**18 if end is None else max(first, end))


def _read(
    service: KnowledgeService, source_id: str, section: str | None, span: ByteSpan | None, part: Range | None
) -> tuple[SourceContent, int, str | None]:
    """Bytes of one version, how many there are to choose a range from, and the version's name.

    Of a range of a whole document no more is read than it needs.
    """
    if section is not None:
        found = service.read(source_id, section=section)
        tag = f"{found.content_hash}-section"
        if span is not None:
            found, tag = _within(found, span), f"{tag}-{span.start}-{span.end}"
        return found, len(found.content), tag
    for _ in range(_ATTEMPTS):
        source = service.source(source_id)
        wanted = span
        if part is not None:
            start, end = part.resolve(source.bytes) or (0, 0)
            wanted = ByteSpan(start=start, end=end)
        found = service.provider.read_source(source.id, wanted)
        whole = (found.span.start, found.span.end) == (0, found.total_bytes)
        version = found.content_hash if whole else source.content_hash
        again = source if whole else service.source(source_id)
        if again.content_hash == source.content_hash and found.total_bytes == source.bytes:
            part_of = span is not None and version is not None
            name = f"{version}-{found.span.start}-{found.span.end}" if part_of else version
            return found, found.total_bytes if span is None else len(found.content), name
    raise UnavailableError("The document changes all the while", mend="Try again.")


def _within(found: SourceContent, span: ByteSpan) -> SourceContent:
    """Of a section those bytes, counted from its beginning."""
    content = found.content[span.start : span.end]
    start = min(found.span.start + span.start, found.span.end)
    return found.model_copy(
        update={
            "content": content,
            "span": ByteSpan(start=start, end=start + len(content)),
            "content_hash": content_hash(content),
        }
    )


def _ranged(
    found: SourceContent, total: int, wanted: Range | None, headers: list[tuple[bytes, bytes]], media: bytes
) -> Answer:
    """The bytes, or those of a range of them."""
    headers = [*headers, (b"accept-ranges", b"bytes")]
    if wanted is None:
        return Answer(200, found.content, media, tuple(headers))
    place = wanted.resolve(total)
    if place is None:
        raise RangeNotSatisfiableError(
            f"The range begins behind the end: there are {total} bytes",
            mend="Ask for others.",
            headers={"content-range": f"bytes */{total}"},
        )
    start, end = place
    # What was read may be that range already.
    content = found.content if len(found.content) == end - start else found.content[start:end]
    headers.append((b"content-range", f"bytes {start}-{end - 1}/{total}".encode()))
    return Answer(206, content, media, tuple(headers))


async def explain(call: Call) -> Answer:
    """`GET /v1/sources/{id}/provenance`."""
    place = call.view.place(call.source_id)

    def work() -> Answer:
        found = _provenance(place)
        if found is None:
            raise NotFoundError(f"No source {call.source_id!r:.200}", mend="List the sources to see what there is.")
        return json_answer(found.model_copy(update={"source_id": place.prefix + found.source_id}))

    return await place.room.run(work)


def _provenance(place: Place) -> Provenance | None:
    """What the backend says; of one that says nothing, what the source itself does."""
    provider = place.room.service.provider
    if isinstance(provider, ExplainingProvider):
        return provider.explain(place.source_id)
    source = place.room.service.source(place.source_id)
    return Provenance(
        source_id=source.id,
        origin=source.origin,
        uri=source.uri,
        content_hash=source.content_hash or content_hash(provider.read_source(source.id).content),
        indexed_at=source.indexed_at,
    )


async def changes(call: Call) -> Answer:
    """`GET /v1/changes`."""
    service, gzip = call.view.room.service, call.gzip
    ask = partial(service.changes, call.arguments.get("since"))
    return await call.view.room.run(lambda: json_answer(ask(), gzip=gzip))
