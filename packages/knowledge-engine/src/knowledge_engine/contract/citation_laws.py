"""Laws of citations: every hit can be proved, whatever was cut, paged or edited."""

from __future__ import annotations

import hashlib
from functools import partial

from hypothesis import strategies as st

from knowledge_engine.citations import decode, verify_citation
from knowledge_engine.contract.asking import ask, every_hit, pages, places
from knowledge_engine.contract.case import ProviderCase
from knowledge_engine.contract.corpora import queries
from knowledge_engine.contract.law import law, need, refused, same
from knowledge_engine.contract.read_laws import FORGED
from knowledge_engine.errors import InvalidCursorError
from knowledge_engine.models import ByteSpan, Hit

_CITED = "Answers carry their own truth: `text` is the raw stored bytes of `span`"


def _proved(case: ProviderCase, hit: Hit) -> None:
    raw = case.docs[hit.source_id]
    data = raw[hit.span.start : hit.span.end]
    same(hit.text, decode(data), f"`text` of [{hit.span.start}, {hit.span.end}) of {hit.source_id!r}")
    same(hit.content_hash, hashlib.sha256(data).hexdigest(), f"`content_hash` of {hit.chunk_id!r}")
    need(hit.span.end <= len(raw), f"{hit.span} ends after {hit.source_id!r} does")


@law(
    "citations",
    source=_CITED,
    hint="bytes, not characters; the BOM, CRLF and frontmatter count; a cut text cuts span and hash",
)
def citation_is_the_bytes(case: ProviderCase) -> None:
    """A hit's text and hash are those of the stored bytes of its span, also when it is cut."""
    provider = case.open()
    query = case.draw(queries(case.docs), "query")
    budget = case.draw(st.none() | st.integers(1, 200), "max_chars")
    for hit in ask(provider, query, per_source=5, top_k=50, max_chars=budget).hits:
        _proved(case, hit)
        need(hit.span.end > hit.span.start, f"{hit.chunk_id!r} cites nothing")


@law("citations", source="spans are on character boundaries", hint="cuts in the middle of a character")
def citation_keeps_characters_whole(case: ProviderCase) -> None:
    """Spans and snippets begin and end between characters."""
    provider, query = case.crowd()
    budget = case.draw(st.none() | st.integers(1, 40), "max_chars")
    for hit in ask(provider, query, per_source=5, max_chars=budget).hits:
        raw = case.docs[hit.source_id]
        if b"\xff" not in raw and decode(raw).encode() == raw:
            for span in (hit.span, hit.snippet.span, *hit.snippet.highlights):
                part = decode(raw[span.start : span.end])
                same(part.encode(), raw[span.start : span.end], f"the characters of {span}")


@law("citations", source="Snippet", hint="knowledge_engine.citations.make_snippet: `base` is where the passage begins")
def snippet_shows_the_hit(case: ProviderCase) -> None:
    """A snippet is a part of its hit's bytes; highlights lie in it, in order, without overlap, and mark words."""
    provider, query = case.crowd()
    for hit in ask(provider, query, per_source=3).hits:
        raw, span, at = case.docs[hit.source_id], hit.snippet.span, hit.snippet.span.start
        need(hit.span.start <= span.start <= span.end <= hit.span.end, f"the snippet {span} leaves its hit {hit.span}")
        same(hit.snippet.text, decode(raw[span.start : span.end]), "the snippet's text")
        for mark in hit.snippet.highlights:
            need(at <= mark.start < mark.end <= span.end, f"the highlight {mark} is empty, or outside of {span}")
            at = mark.end


@law("citations", source="verify_citation", hint="`read_source` with the hit's span, and the hit's hash")
def citation_verifies(case: ProviderCase) -> None:
    """What was just cited verifies as ok."""
    provider = case.open()
    for hit in every_hit(provider, case.draw(queries(case.docs), "query"), per_source=3)[:50]:
        verified = verify_citation(provider, hit)
        same((verified.status, verified.span), ("ok", hit.span), f"the verification of {hit.chunk_id!r}")


@law("citations", source="Query.max_chars", hint="the order in which hits fill the budget, and who sets `truncated`")
def budget_is_kept(case: ProviderCase) -> None:
    """Hits fill `max_chars` in order, the last one cut; `truncated` says exactly whether something was cut off."""
    provider, query = case.crowd()
    budget = case.draw(st.integers(1, 400), "max_chars")
    whole = ask(provider, query, top_k=20, per_source=3)
    cut = ask(provider, query, top_k=20, per_source=3, max_chars=budget)
    same(whole.truncated, False, "`truncated` without a budget")
    used = sum(len(hit.text) for hit in cut.hits)
    need(used <= budget, f"the hits have {used} characters, `max_chars` is {budget}")
    same(places(cut.hits), places(whole.hits[: len(cut.hits)]), "the hits within the budget")
    for hit, full in zip(cut.hits[:-1], whole.hits, strict=False):
        same(hit.text, full.text, "a hit before the last one")
    need(bool(cut.hits) is bool(whole.hits), "the budget left no hit at all")
    lost = [hit.text for hit in cut.hits] != [hit.text for hit in whole.hits]
    same(cut.truncated, lost, "`truncated`")


@law(
    "citations",
    source="QueryResult.next_cursor",
    hint="what the cursor remembers: score, id and start of the last hit, not an offset",
)
def pages_lose_nothing(case: ProviderCase) -> None:
    """Pages of hits together are all hits, each once, with and without a budget."""
    provider, query = case.crowd()
    per_source = case.draw(st.integers(1, 3), "per_source")
    top_k, budget = case.draw(st.integers(1, 3), "top_k"), case.draw(st.none() | st.integers(10, 300), "max_chars")
    whole = every_hit(provider, query, per_source=per_source)
    if len(whole) > 200:  # of a corpus that is large, pages are not the smallest
        top_k, budget = len(whole) // 50, None

    def page(cursor: str | None) -> tuple[tuple[Hit, ...], str | None]:
        result = ask(provider, query, top_k=top_k, per_source=per_source, max_chars=budget, cursor=cursor)
        need(len(result.hits) <= top_k, f"a page of {top_k} has {len(result.hits)} hits")
        return result.hits, result.next_cursor

    same(places(pages(page, "query")), places(whole), "the hits by pages")


@law(
    "citations",
    source=f"{pages_lose_nothing.source}; InvalidCursorError",
    hint="what a cursor holds, and that it is checked against the query",
)
def query_cursor_checked(case: ProviderCase) -> None:
    """A cursor that the method did not make, or made for another query, is an InvalidCursorError."""
    provider, query = case.crowd()
    cursor = case.pick(FORGED, "cursor")
    refused(lambda: ask(provider, "valve", cursor=cursor), InvalidCursorError, "a forged cursor")
    own = ask(provider, query, top_k=1, per_source=3).next_cursor
    if own is not None:
        for text, per_source in ((f"{query} more", 3), (query, 2)):
            other = partial(ask, provider, text, per_source=per_source, cursor=own)
            refused(other, InvalidCursorError, "a cursor of another query")
        refused(lambda: provider.list_sources(cursor=own), InvalidCursorError, "a query's cursor in list_sources")


@law("citations", source=_CITED, hint="whether `read_source` reads the same state that the query cites")
def cited_span_can_be_read(case: ProviderCase) -> None:
    """`read_source` with a hit's span gives the hit's bytes and hash."""
    provider = case.open()
    for hit in ask(provider, case.draw(queries(case.docs), "query"), per_source=3).hits:
        content = provider.read_source(hit.source_id, ByteSpan(start=hit.span.start, end=hit.span.end))
        same((decode(content.content), content.content_hash), (hit.text, hit.content_hash), "text and hash of the span")
