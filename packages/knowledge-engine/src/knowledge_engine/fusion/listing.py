"""One list of sources over several backends, page by page."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from knowledge_engine.cursors import decode_cursor, encode_cursor
from knowledge_engine.errors import InvalidArgumentError, InvalidCursorError
from knowledge_engine.filters import compile_filter
from knowledge_engine.fusion.asking import Backends
from knowledge_engine.fusion.ids import joined, local_filter
from knowledge_engine.fusion.merging import merge_warnings
from knowledge_engine.models import MAX_PAGE, Source, SourcePage
from knowledge_engine.ports import IKnowledgeProvider


def list_page(
    backends: Backends, *, filter: Mapping[str, JsonValue] | None, limit: int, cursor: str | None
) -> SourcePage:
    """A page of all sources by outer id; a backend that does not answer is left out, with a warning.

    In order of outer ids come the backends' own lists, one after the other: so a place in the list is a backend and
    that backend's own cursor. All are asked for each page, as `total` counts all sources.

    Raises:
        InvalidArgumentError, InvalidFilterError, InvalidCursorError: For what their names say.
        KnowledgeError: When no backend answers.
    """
    if limit < 1:
        raise InvalidArgumentError(f"limit is {limit!r}", mend=f"Use 1 to {MAX_PAGE}.")
    limit = min(limit, MAX_PAGE)
    compiled = compile_filter(filter)
    request = json.dumps(["federated list", compiled.canonical])
    place, inner = decode_cursor(cursor, request, str, str).after if cursor is not None else ("", "")
    order = sorted(backends.providers, key=_place)
    rest = order if cursor is None else [name for name in order if _place(name) >= _place(place)]

    def ask(name: str, provider: IKnowledgeProvider, count: int) -> SourcePage:
        own = inner if name == place and inner else None
        return provider.list_sources(filter=local_filter(filter, name), limit=count, cursor=own)

    first = rest[0] if rest else None
    answers = backends.ask_all(lambda name, provider: ask(name, provider, limit if name == first else 1))
    if isinstance(error := answers.errors.get(place), InvalidCursorError):
        raise error
    pages = answers.need_one().results
    sources: list[Source] = []
    following = None
    for name in rest:
        if name not in pages or not pages[name].sources:
            continue
        left = limit - len(sources)
        if not left:
            following = encode_cursor(request, "", [name, ""])
            break
        if name != first and left > 1:  # so far only its first source is here
            again = backends.ask_all(lambda name, provider, left=left: ask(name, provider, left), [name])  # type: ignore[misc]
            answers.errors |= again.errors
            if name in again.errors:
                continue
            pages[name] = again.results[name]
        sources += [source.model_copy(update={"id": joined(name, source.id)}) for source in pages[name].sources]
        if pages[name].next_cursor is not None:
            following = encode_cursor(request, "", [name, pages[name].next_cursor])
            break
    warnings = merge_warnings(compiled, {name: page.warnings for name, page in pages.items()})
    if cursor is not None and place not in backends.providers:
        warnings.append("The corpus has changed since the page before.")
    return SourcePage(
        sources=tuple(sources),
        total=sum(page.total for page in pages.values()),
        warnings=(*answers.warnings(), *warnings),
        next_cursor=following,
    )


def _place(name: str) -> str:
    """Outer ids of a backend sort as this does."""
    return joined(name, "")
