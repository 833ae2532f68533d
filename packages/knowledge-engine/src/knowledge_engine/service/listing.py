"""A page of a catalogue search: best first, filtered, resumable."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from knowledge_engine.catalogue import Catalogue, Match, Matches
from knowledge_engine.cursors import decode_cursor, encode_cursor
from knowledge_engine.filters import compile_filter
from knowledge_engine.models import Source
from knowledge_engine.service.facets import facets
from knowledge_engine.service.results import Facet, SourceList

_CHANGED = "The corpus has changed since the page before: documents may be missing or come twice."


def search_page(
    catalogue: Catalogue,
    query: str,
    *,
    filter: Mapping[str, JsonValue] | None,
    limit: int,
    cursor: str | None,
    with_facets: bool,
) -> SourceList:
    """The documents whose catalogue fields match `query`, after `cursor`.

    Raises:
        InvalidFilterError, InvalidCursorError: For what their names say.
    """
    compiled = compile_filter(filter)
    request = json.dumps(["catalogue", query, compiled.canonical])
    warnings = list(compiled.warnings(catalogue.keys))
    matches = catalogue.search(query)
    chosen = [match for match in matches.found if compiled.matches(match.source.metadata, match.source.id)]
    rest = chosen
    if cursor is not None:
        known, (score, source_id) = decode_cursor(cursor, request, float, str)
        if known != catalogue.revision:
            warnings.append(_CHANGED)
        rest = [match for match in chosen if _order(match) > (-score, source_id)]
    page = rest[:limit]
    following = None
    if len(rest) > len(page):
        following = encode_cursor(request, catalogue.revision, [page[-1].score, page[-1].source.id])
    return SourceList(
        sources=tuple(match.source for match in page),
        total=len(chosen),
        facets=facets(match.source for match in chosen) if with_facets else {},
        warnings=tuple(warnings),
        hint=_corrected(matches),
        next_cursor=following,
    )


def filtered_facets(catalogue: Catalogue, filter: Mapping[str, JsonValue] | None) -> dict[str, Facet]:
    """Facets over every source that the filter lets through."""
    compiled = compile_filter(filter)

    def wanted(source: Source) -> bool:
        return compiled.matches(source.metadata, source.id)

    return facets(source for source in catalogue.sources if wanted(source))


def _order(match: Match) -> tuple[float, str]:
    return (-match.score, match.source.id)


def _corrected(matches: Matches) -> str:
    if not matches.corrections:
        return ""
    said = ", ".join(f"{word!r} as {' or '.join(map(repr, used))}" for word, used in matches.corrections)
    return f"Nothing matched as written; searched {said} instead."
