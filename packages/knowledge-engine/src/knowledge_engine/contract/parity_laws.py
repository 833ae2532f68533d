"""Laws of sameness: a provider behind a transport answers as it does without one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any

from hypothesis import strategies as st
from pydantic import JsonValue

from knowledge_engine.contract.asking import every_source
from knowledge_engine.contract.case import ProviderCase
from knowledge_engine.contract.corpora import filters, hostile_ids, queries
from knowledge_engine.contract.law import law, same
from knowledge_engine.contract.model_laws import drawn_step, outcome
from knowledge_engine.models import ByteSpan, Query
from knowledge_engine.ports import ExplainingProvider

_PARITY = "any backend behind any front gives the same answer to the same question"
#: What two answers may differ in. Cursors are opaque: whether there is one counts.
UNLIKE = frozenset({"took_ms", "engine", "backend", "next_cursor", "indexed_at"})


def _alike(value: Any) -> Any:
    """An answer without what may differ; sent over a wire and back it is the same."""
    if isinstance(value, list | tuple):
        return [_alike(one) for one in value]
    if isinstance(value, dict):
        kept = {key: _alike(one) for key, one in value.items() if key not in UNLIKE}
        return {**kept, "more": value["next_cursor"] is not None} if "next_cursor" in value else kept
    return _alike(value.model_dump(exclude={"details"})) if hasattr(value, "model_dump") else value


def _equal(call: Callable[[Any], Any], what: str, pair: tuple[Any, Any]) -> Any:
    mine, theirs = (outcome(partial(call, one)) for one in pair)
    left, right = _alike(mine), _alike(theirs)
    if isinstance(left, dict) and isinstance(right, dict):
        for field in right:
            same(left.get(field), right[field], f"`{field}` of {what}")
    same(left, right, what)
    return mine, theirs


def _equal_pages(page: Callable[[Any, str | None], Any], what: str, pair: tuple[Any, Any]) -> None:
    cursors: tuple[str | None, str | None] = (None, None)
    for number in range(1, 4):
        asked = {id(side): cursor for side, cursor in zip(pair, cursors, strict=True)}

        def call(side: Any, asked: dict[int, str | None] = asked) -> Any:
            return page(side, asked[id(side)])

        mine, theirs = _equal(call, f"page {number} of {what}", pair)
        cursors = (getattr(mine, "next_cursor", None), getattr(theirs, "next_cursor", None))
        if None in cursors:
            return


def _pair(case: ProviderCase) -> tuple[Any, Any]:
    provider = case.open()
    return provider, case.open_reference()


@law("parity", source=_PARITY, hint="fields that the transport drops, renames or retypes")
def parity_of_reading(case: ProviderCase) -> None:
    """Lists, sources and bytes are the same on both sides, field by field; so are the codes of errors."""
    pair = _pair(case)
    filter, limit = case.draw(st.none() | filters(case.docs), "filter"), case.draw(st.integers(1, 4), "limit")
    listed = lambda side, cursor: side.list_sources(filter=filter, limit=limit, cursor=cursor)  # noqa: E731
    _equal_pages(listed, "list_sources", pair)
    other = case.draw(st.one_of(hostile_ids(case.docs), st.just("no-such.md")), "id")
    small = st.integers(0, 100)
    span = case.draw(st.none() | st.builds(lambda a, b: ByteSpan(start=a, end=a + b), small, small), "span")
    for one in (*sorted(case.docs)[:20], other):
        _equal(methodcaller("get_source", one), f"get_source({one[:80]!r})", pair)
        _equal(methodcaller("read_source", one, span), f"read_source({one[:80]!r})", pair)


@law("parity", source=_PARITY, hint="options of the query that the transport drops, and numbers that it rounds")
def parity_of_queries(case: ProviderCase) -> None:
    """Queries with any options have the same hits, index state and warnings, or the same error, on both sides."""
    pair = _pair(case)
    strange: st.SearchStrategy[dict[str, JsonValue] | None] = st.sampled_from([None, {"kind": {"like": "x"}}])
    query = Query(
        query=case.draw(st.one_of(queries(case.docs), st.sampled_from(["", "x" * 10_001, '"(*'])), "query"),
        top_k=case.draw(st.integers(1, 5), "top_k"),
        per_source=case.draw(st.integers(1, 3), "per_source"),
        filter=case.draw(st.one_of(st.none(), filters(case.docs), strange), "filter"),
        max_chars=case.draw(st.none() | st.integers(1, 300), "max_chars"),
        min_score=case.draw(st.sampled_from([None, 0.0, 0.5]), "min_score"),
        cursor=case.draw(st.sampled_from([None, None, "forged"]), "cursor"),
    )
    if query.cursor is not None:
        _equal(lambda side: side.query(query), "query", pair)
    else:
        page = lambda side, cursor: side.query(query.model_copy(update={"cursor": cursor}))  # noqa: E731
        _equal_pages(page, "query", pair)


@law("parity", source=_PARITY, hint="issues, skipped documents and capabilities on their way")
def parity_of_state(case: ProviderCase) -> None:
    """Capabilities, health and provenance are the same on both sides, before and after a query."""
    pair = _pair(case)
    _equal(attrgetter("capabilities"), "capabilities", pair)
    _equal(methodcaller("query", Query(query="valve")), "query", pair)
    _equal(methodcaller("health_check"), "health_check", pair)
    if all(isinstance(side, ExplainingProvider) for side in pair):
        for one in (*sorted(case.docs)[:5], "no-such.md"):
            _equal(methodcaller("explain", one), f"explain({one!r})", pair)


@law("parity", source=_PARITY, needs=["writable", "corpus"], hint="bytes, conditions and errors of writes on their way")
def parity_of_writing(case: ProviderCase) -> None:
    """The same changes have the same outcomes and leave the same documents on both sides."""
    pair = _pair(case)
    stored = dict(case.docs)
    for _ in range(case.draw(st.integers(1, 4), "steps")):
        kind, call = drawn_step(case, stored)
        _equal(call, kind, pair)
        stored = {source.id: pair[1].read_source(source.id).content for source in every_source(pair[1])}
        text = case.draw(queries(stored), "query")
        _equal(methodcaller("query", Query(query=text)), "query", pair)
        _equal(methodcaller("list_sources"), "list_sources", pair)
