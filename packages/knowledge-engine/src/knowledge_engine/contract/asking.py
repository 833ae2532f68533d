"""Short ways to ask a provider, and what every answer is checked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from knowledge_engine.contract.law import Breach, need, same, shown
from knowledge_engine.models import MAX_TOP_K, Hit, Query, QueryResult, Source
from knowledge_engine.passages import not_text
from knowledge_engine.ports import IKnowledgeProvider

_MAX_PAGES = 10_000


def ask(provider: IKnowledgeProvider, text: str, **fields: Any) -> QueryResult:
    """A query by words: what the laws say holds for these, not for nearness of meaning."""
    capabilities = provider.capabilities
    if capabilities.vector_search or capabilities.hybrid_search:
        fields.setdefault("mode", "keyword")
    return provider.query(Query(query=text, **fields))


def found(provider: IKnowledgeProvider, text: str, **fields: Any) -> set[str]:
    """Ids of all documents that a query finds."""
    return {hit.source_id for hit in every_hit(provider, text, **fields)}


def every_hit(provider: IKnowledgeProvider, text: str, **fields: Any) -> list[Hit]:
    """The hits of all pages."""
    fields.setdefault("top_k", MAX_TOP_K)
    return pages(lambda cursor: _page(ask(provider, text, cursor=cursor, **fields)), "query")


def _page(result: QueryResult) -> tuple[tuple[Hit, ...], str | None]:
    return result.hits, result.next_cursor


def every_source(provider: IKnowledgeProvider, limit: int = 1000, **fields: Any) -> list[Source]:
    """The sources of all pages."""

    def page(cursor: str | None) -> tuple[tuple[Source, ...], str | None]:
        found = provider.list_sources(limit=limit, cursor=cursor, **fields)
        return found.sources, found.next_cursor

    return pages(page, "list_sources")


def pages(page: Callable[[str | None], tuple[tuple[Any, ...], str | None]], what: str) -> list[Any]:
    """All items, page by page; a cursor that comes again would never end."""
    items, cursor, seen = list[Any](), None, set[str | None]()
    for _ in range(_MAX_PAGES):
        more, cursor = page(cursor)
        items += more
        if cursor is None:
            return items
        need(more, f"{what} gave an empty page that has a next_cursor")
        need(cursor not in seen, f"{what} gave the cursor {shown(cursor)} twice, so that paging never ends")
        seen.add(cursor)
    raise Breach(f"{what} gave {_MAX_PAGES} pages and no end")


def places(hits: list[Hit] | tuple[Hit, ...]) -> list[tuple[str, int]]:
    """What hits are told apart by."""
    return [(hit.source_id, hit.span.start) for hit in hits]


def plain(result: QueryResult) -> dict[str, Any]:
    """An answer without what may differ each time."""
    shape = result.model_dump(mode="json", exclude={"took_ms", "next_cursor"})
    return {**shape, "more": result.next_cursor is not None}


def texts(docs: Mapping[str, bytes]) -> dict[str, bytes]:
    """The documents that are text, and so can be found."""
    return {one: raw for one, raw in docs.items() if not not_text(raw)}


def equal_answers(left: QueryResult, right: QueryResult, what: str) -> None:
    """Needs two answers to be equal, and names the first field that is not."""
    one, other = plain(left), plain(right)
    for field in one:
        same(one[field], other[field], f"{what}: `{field}`")
