"""Each law bites: a provider that differs from the reference in one behaviour breaks it, and the cause is named."""

from __future__ import annotations

import itertools
import posixpath
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from knowledge_engine.citations import content_hash, decode
from knowledge_engine.contract import LAWS, PROFILES, BrokenLawError, Opened, OpenProvider, check_law
from knowledge_engine.errors import InvalidCursorError, InvalidFilterError, InvalidFrontmatterError, KnowledgeError
from knowledge_engine.filters import compile_filter
from knowledge_engine.frontmatter import compose_document
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import ByteSpan, Capabilities, Hit, IngestRequest, Query, QueryResult

Base: Any = MemoryProvider
QUICK = PROFILES["default"]._replace(shrink_s=0.2)


class Shelf(Base):  # type: ignore[misc]
    """The reference over a mapping that outlives it: it can be opened again, and changed behind its back."""

    def __init__(self, shelf: dict[str, bytes]) -> None:
        super().__init__(shelf)
        self.shelf = shelf

    def ingest(self, request: IngestRequest) -> Any:
        source = super().ingest(request)
        self.shelf[source.id] = self.read_source(source.id).content
        return source

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        super().delete_source(source_id, if_match=if_match)
        del self.shelf[source_id]

    def refresh(self, paths: Any = None) -> bool:
        held = {one: found.raw for one, found in self._corpus().stored.items()}
        for one in held.keys() - self.shelf.keys():
            super().delete_source(one)
        for one, raw in self.shelf.items():
            if held.get(one) != raw:
                super().ingest(IngestRequest(id=one, content=raw))
        return held != self.shelf

    def invalidate(self) -> None:
        self.refresh()


def opener(make: Callable[[dict[str, bytes]], Any]) -> OpenProvider:
    @contextmanager
    def opened(docs: Mapping[str, bytes]) -> Iterator[Any]:
        shelf = dict(docs)
        provider = make(shelf)

        def outside(one: str, raw: bytes | None) -> None:
            if raw is None:
                del shelf[one]
            else:
                shelf[one] = raw

        yield Opened(provider, lambda: make(shelf), outside) if isinstance(provider, Shelf) else provider
        provider.dispose()

    return opened


class Breakage(NamedTuple):
    says: str
    make: Any


def a(says: str, base: Any = MemoryProvider, **members: Any) -> Breakage:
    """A class that differs from `base` in these members; what the broken law says of it."""
    return Breakage(says, type("Broken", (base,), members))


def changed(value: Any, **fields: Any) -> Any:
    return value.model_copy(update=fields)


def asking(change: Callable[[Query], Query]) -> Any:
    return lambda self, query: MemoryProvider.query(self, change(query))


def answering(change: Callable[[Any, Query, QueryResult], QueryResult]) -> Any:
    return lambda self, query: change(self, query, MemoryProvider.query(self, query))


def each(change: Callable[[Hit], Hit]) -> Any:
    return answering(lambda self, query, result: changed(result, hits=tuple(map(change, result.hits))))


def keeping(wanted: Callable[[Query, Hit], bool]) -> Any:
    return answering(
        lambda self, query, result: changed(result, hits=tuple(hit for hit in result.hits if wanted(query, hit)))
    )


def getting(**fields: Callable[[Any], Any]) -> Any:
    def get_source(self: Any, source_id: str) -> Any:
        source = MemoryProvider.get_source(self, source_id)
        return changed(source, **{name: change(source) for name, change in fields.items()})

    return get_source


def reading(change: Callable[[Any, ByteSpan | None], Any]) -> Any:
    return lambda self, source_id, span=None: change(MemoryProvider.read_source(self, source_id, span), span)


def listing(change: Callable[[Any, dict[str, Any]], Any]) -> Any:
    return lambda self, **options: change(self, options)


def ingesting(change: Callable[[Any, IngestRequest], Any]) -> Any:
    return lambda self, request: MemoryProvider.ingest(self, change(self, request))


def content(data: bytes, read: Any) -> Any:
    return changed(read, content=data, content_hash=content_hash(data))


def healed(call: Callable[[], Any], error: type[KnowledgeError], otherwise: Callable[[], Any]) -> Any:
    try:
        return call()
    except error:
        return otherwise()


def counted(self: Any) -> int:
    """How often it was called for that provider, from 0."""
    return next(self.__dict__.setdefault("calls", itertools.count()))


def stale(self: Any, query: Query) -> QueryResult:
    """Answers from the corpus as it was at the first query."""
    then = self.__dict__.setdefault("then", dict(self._stored))
    now, self._stored = self._stored, then
    try:
        return MemoryProvider.query(self, query)
    finally:
        self._stored = now


def shorter(hit: Hit) -> Hit:
    data = hit.text.encode()[:-1]
    span = ByteSpan(start=hit.span.start, end=hit.span.end - 1)
    return changed(hit, span=span, text=decode(data), content_hash=content_hash(data))


def shifted(span: ByteSpan) -> ByteSpan:
    return ByteSpan(start=span.start + 1, end=span.end + 1)


def post_filtered(self: Any, query: Query) -> QueryResult:
    asked, result = compile_filter(query.filter), MemoryProvider.query(self, changed(query, filter=None))
    kept = tuple(hit for hit in result.hits if asked.matches(hit.metadata, hit.source_id))
    return changed(result, hits=kept, warnings=asked.warnings(()))


def numbers_for_strings(self: Any, query: Query) -> QueryResult:
    value = (query.filter or {}).get("value")
    filter = {"value": int(value)} if isinstance(value, str) and value.isdigit() else query.filter
    return MemoryProvider.query(self, changed(query, filter=filter))


def every_word(self: Any, query: Query, result: QueryResult) -> QueryResult:
    sets = [
        {hit.source_id for hit in MemoryProvider.query(self, Query(query=word, top_k=1000)).hits}
        for word in query.query.split()
    ]
    return changed(result, hits=tuple(hit for hit in result.hits if all(hit.source_id in one for one in sets)))


def rewritten(self: Any, request: IngestRequest) -> Any:
    def anew() -> Any:
        fixed = compose_document(request.metadata, "")
        return MemoryProvider.ingest(self, IngestRequest(id=request.id, content=fixed))

    return healed(lambda: MemoryProvider.ingest(self, request), InvalidFrontmatterError, anew)


def entombed(self: Any, source_id: str, *, if_match: str | None = None) -> None:
    MemoryProvider.delete_source(self, source_id, if_match=if_match)
    self.__dict__.setdefault("tombs", set()).add(source_id)


def pause() -> None:
    threading.Event().wait(0.02)


def lost_update(self: Any, request: IngestRequest) -> Any:
    apart = MemoryProvider()
    apart._stored = dict(self._stored)
    source = apart.ingest(request)
    if threading.current_thread() is not threading.main_thread():
        pause()
    self._stored = apart._stored
    return source


def late_write(self: Any, request: IngestRequest) -> Any:
    if request.if_match == "" and request.id in self._stored:
        return MemoryProvider.ingest(self, request)
    if request.if_match and request.if_match != self.get_source(request.id).content_hash:
        return MemoryProvider.ingest(self, request)
    pause()
    return MemoryProvider.ingest(self, changed(request, if_match=None))


def in_halves(self: Any, request: IngestRequest) -> Any:
    if threading.current_thread() is not threading.main_thread() and not counted(self):
        MemoryProvider.ingest(self, changed(request, content=b"# Torn\n\nvalve"))
        pause()
    return MemoryProvider.ingest(self, request)


def third_is_lost(self: Any, request: IngestRequest) -> Any:
    if counted(self) < 2:
        return MemoryProvider.ingest(self, request)
    before = dict(self._stored)
    source = MemoryProvider.ingest(self, request)
    self._stored = before
    return source


def waiting_for_the_end(self: Any, query: Query) -> QueryResult:
    self.__dict__.setdefault("end", threading.Event()).wait(1)
    if self._disposed:
        raise KeyError("postings")
    return MemoryProvider.query(self, query)


def end(self: Any) -> None:
    MemoryProvider.dispose(self)
    self.__dict__.setdefault("end", threading.Event()).set()


def _list(self: Any, **options: Any) -> Any:
    return MemoryProvider.list_sources(self, **options)


def off_main(self: Any, query: Query, result: QueryResult) -> QueryResult:
    return result if threading.current_thread() is threading.main_thread() else changed(result, hits=())


def dropped(*names: str) -> Any:
    """A request without these fields, as a transport that forgets them sends it."""
    return lambda *values: changed(values[-1], **dict.fromkeys(names))


def unlimited(self: Any, options: dict[str, Any]) -> Any:
    return _list(self, **{**options, "limit": options.get("limit", 100) + 1})


def only_described(self: Any, options: dict[str, Any]) -> Any:
    filter = options.get("filter") or {}
    return _list(
        self, **{**options, "filter": {"and": [filter, {"kind": {"exists": True}}]} if "not" in filter else filter}
    )


class Forgetful(MemoryProvider):
    def __init__(self, documents: Mapping[str, bytes]) -> None:
        super().__init__({one: raw for one, raw in documents.items() if raw})


QUIET = property(lambda self: Capabilities(writable=False))
HIT_IN_TEXT = keeping(lambda query, hit: any(word in hit.text for word in query.query.split()))
WHOLE_WORDS = keeping(lambda query, hit: query.query.casefold() in hit.text.casefold().replace(",", " ").split())

BREAKAGES: dict[str, Breakage] = {
    "protocol-shape": a("`id` is ''", id=property(lambda self: "")),
    "capabilities-true": a(
        "`vector_search` is False",
        query=answering(lambda self, query, result: changed(result, mode_used=query.mode or "none")),
    ),
    "list-ascending": a(
        "the order of ids",
        list_sources=listing(lambda self, o: changed(p := _list(self, **o), sources=p.sources[::-1])),
    ),
    "list-complete": a(
        "`total` is", list_sources=listing(lambda self, o: changed(p := _list(self, **o), total=p.total + 1))
    ),
    "list-pages": a("a page of at most", list_sources=listing(unlimited)),
    "list-limit-checked": a(
        "limit=0", list_sources=listing(lambda self, o: _list(self, **{**o, "limit": max(o.get("limit", 1), 1)}))
    ),
    "list-cursor-checked": a(
        "a forged cursor",
        list_sources=listing(lambda self, o: healed(lambda: _list(self, **o), InvalidCursorError, lambda: _list(self))),
    ),
    "get-agrees-with-list": a("`uri` of get_source", get_source=getting(uri=lambda source: source.uri + "?")),
    "source-facts": a("id and size", get_source=getting(bytes=lambda source: source.bytes + 1)),
    "metadata-is-the-documents-own": a(
        "metadata of",
        get_source=getting(metadata=lambda source: {key: str(value) for key, value in source.metadata.items()}),
    ),
    "read-exact": a(
        "the bytes of", read_source=reading(lambda read, span: content(read.content.replace(b"\r\n", b"\n"), read))
    ),
    "read-spans": a(
        "bytes [",
        read_source=lambda self, one, span=None: MemoryProvider.read_source(self, one, shifted(span) if span else None),
    ),
    "unknown-id": a(
        "raised KeyError",
        get_source=lambda self, one: MemoryProvider.get_source(
            self, {one: one}["a.md" if one in self._stored else one + "?"]
        ),
    ),
    "hostile-id": a(
        "did not raise NotFoundError",
        get_source=lambda self, one: MemoryProvider.get_source(self, posixpath.normpath(one)),
    ),
    "bad-document-hides-none": a(
        "neither issues nor skipped",
        health_check=lambda self: changed(MemoryProvider.health_check(self), issues=(), skipped=()),
    ),
    "odd-documents": a("the list of ids", Forgetful),
    "health-agrees": a(
        "`index` in health",
        health_check=lambda self: changed(h := MemoryProvider.health_check(self), index=changed(h.index, revision="?")),
    ),
    "dispose-ends": a("after dispose", dispose=lambda self: None),
    "query-without-words": a(
        "hits, next_cursor",
        query=lambda self, query: MemoryProvider.query(
            self, query if query.query.strip() else Query(query="the valve")
        ),
    ),
    "query-finds-every-word": a(
        "does not find it", query=asking(lambda q: changed(q, query=q.query.encode("ascii", "ignore").decode()))
    ),
    "query-matches-any-word": a("with other words it does not", query=answering(every_word)),
    "query-finds-other-spellings": a(
        "does not find", query=asking(lambda q: changed(q, query=q.query.replace("\u200b", " ")))
    ),
    "query-finds-single-characters": a("finds is set()", query=keeping(lambda query, hit: len(query.query) > 1)),
    "query-finds-identifiers": a("finds is set()", query=WHOLE_WORDS),
    "query-finds-nothing-else": a(
        "finds is {",
        query=answering(
            lambda self, q, r: (
                r if r.hits else MemoryProvider.query(self, changed(q, query="the valve pump", cursor=None))
            )
        ),
    ),
    "scores-positive": a("the score of", query=each(lambda hit: changed(hit, score=0.0))),
    "order-of-hits": a(
        "the order of",
        query=answering(
            lambda s, q, r: changed(
                r, hits=tuple(sorted(r.hits, key=lambda hit: (-hit.score, [-ord(c) for c in hit.source_id])))
            )
        ),
    ),
    "answers-repeat": a(
        "asked again: `hits`", query=answering(lambda s, q, r: changed(r, hits=r.hits[counted(s) % 2 :]))
    ),
    "top-k-cuts": a("the first", query=asking(lambda q: changed(q, top_k=q.top_k + 1))),
    "per-source-counts": a("hits with per_source", query=asking(lambda q: changed(q, per_source=q.per_source + 1))),
    "min-score-bounds": a(
        "hits with min_score", query=asking(lambda q: changed(q, min_score=q.min_score and q.min_score + 1e-9))
    ),
    "query-is-no-language": a("does not find", query=asking(lambda q: changed(q, query=q.query.split('"')[0]))),
    "query-too-long": a("a query over the limit", query=asking(lambda q: changed(q, query=q.query[:10_000]))),
    "hit-names-its-source": a("title and metadata", query=each(lambda hit: changed(hit, title=""))),
    "reference-ranking": a("`score` of", query=each(lambda hit: changed(hit, score=hit.score * 1.001))),
    "catalogue-fields-are-searched": a("finds is set()", query=HIT_IN_TEXT),
    "filter-list": a("the filtered list", list_sources=listing(lambda self, o: _list(self, **{**o, "filter": None}))),
    "filter-query": a("the filtered hits", query=post_filtered),
    "filter-types": a("finds is", query=numbers_for_strings),
    "filter-negation": a("both lists together", list_sources=listing(only_described)),
    "filter-strict": a(
        "a malformed filter",
        list_sources=listing(lambda self, o: healed(lambda: _list(self, **o), InvalidFilterError, lambda: _list(self))),
    ),
    "filter-unknown-key": a("does not name", query=answering(lambda s, q, r: changed(r, warnings=()))),
    "filter-agrees": a("which the filtered list lacks", query=asking(lambda q: changed(q, filter=None))),
    "citation-is-the-bytes": a("`text` of", query=each(lambda hit: changed(hit, span=shifted(hit.span)))),
    "citation-keeps-characters-whole": a("the characters of", query=each(shorter)),
    "snippet-shows-the-hit": a(
        "snippet", query=each(lambda hit: changed(hit, snippet=changed(hit.snippet, span=shifted(hit.snippet.span))))
    ),
    "citation-verifies": a("the verification of", query=each(lambda hit: changed(hit, content_hash="0" * 64))),
    "budget-is-kept": a("`truncated` is", query=answering(lambda s, q, r: changed(r, truncated=False))),
    "pages-lose-nothing": a(
        "the hits by pages", query=answering(lambda s, q, r: changed(r, hits=r.hits[1:] or r.hits) if q.cursor else r)
    ),
    "query-cursor-checked": a(
        "a forged cursor",
        query=lambda self, q: healed(
            lambda: MemoryProvider.query(self, q),
            InvalidCursorError,
            lambda: MemoryProvider.query(self, changed(q, cursor=None)),
        ),
    ),
    "cited-span-can-be-read": a(
        "text and hash", read_source=reading(lambda read, span: changed(read, content_hash="0" * 64))
    ),
    "writable-flag-true": a("did not raise ReadOnlyError", capabilities=QUIET),
    "ingest-is-found": a("find is", query=stale),
    "ingest-keeps-bytes": a("hash and size", ingest=ingesting(lambda s, r: changed(r, content=r.content.strip()))),
    "ingest-again-changes-nothing": a(
        "after the same bytes again: `index`",
        query=answering(lambda s, q, r: changed(r, index=changed(r.index, revision=str(counted(s))))),
    ),
    "ingest-text-with-metadata": a("title and metadata", ingest=ingesting(lambda s, r: changed(r, metadata={}))),
    "if-match-decides": a("with if_match=''", ingest=ingesting(lambda s, r: changed(r, if_match=r.if_match or None))),
    "delete-removes": a("finds the deleted document", query=stale),
    "deleted-can-return": a(
        "after deleting and storing again",
        delete_source=entombed,
        query=answering(
            lambda s, q, r: changed(r, hits=tuple(h for h in r.hits if h.source_id not in s.__dict__.get("tombs", ())))
        ),
    ),
    "delete-unknown": a(
        "of an unknown id",
        delete_source=lambda self, one: healed(
            lambda: MemoryProvider.delete_source(self, one), KnowledgeError, lambda: None
        ),
    ),
    "metadata-update": a("a change of metadata", ingest=rewritten),
    "ingest-checks-the-request": a("an unknown kind", ingest=ingesting(lambda s, r: changed(r, kind="text"))),
    "ingest-refuses-hostile-ids": a(
        "ingest under", ingest=ingesting(lambda s, r: changed(r, id=posixpath.normpath(r.id).strip("/")))
    ),
    "revision-follows-content": a(
        "the revision stays", query=answering(lambda s, q, r: changed(r, index=changed(r.index, revision="1")))
    ),
    "ingested-is-as-opened": a(
        "ingested, not opened",
        ingest=lambda s, r: (counted(s), MemoryProvider.ingest(s, r))[1],
        query=answering(lambda s, q, r: changed(r, warnings=("late",)) if "calls" in s.__dict__ else r),
    ),
    "citation-after-an-edit": a(
        "after other text took its place",
        read_source=lambda self, one, span=None: self.__dict__.setdefault("read", {}).setdefault(
            (one, span), MemoryProvider.read_source(self, one, span)
        ),
    ),
    "cursor-outlives-a-change": a("has no warning", query=answering(lambda s, q, r: changed(r, warnings=()))),
    "refresh-changes-nothing": a("whether refresh found", Shelf, refresh=lambda self, paths=None: True),
    "refresh-takes-in": a("what is found", Shelf, refresh=lambda self, paths=None: True),
    "explain-agrees": a("is None", explain=lambda self, one: None),
    "supersede-replaces": a(
        "what is found after", supersede=lambda self, one, by: (self.get_source(one), self.get_source(by))
    ),
    "agrees-with-the-model": a("the sources is", ingest=third_is_lost),
    "reopening-keeps": a(
        "what is stored",
        Shelf,
        ingest=lambda self, r: MemoryProvider.ingest(self, r),
        delete_source=lambda s, one: MemoryProvider.delete_source(s, one),
    ),
    "threads-get-one-answer": a("asked by several threads: `hits`", query=answering(off_main)),
    "readers-see-whole-versions": a("what was never stored", ingest=in_halves),
    "concurrent-writes-all-land": a("the ids that are", ingest=lost_update),
    "concurrent-if-match-has-one-winner": a("the number of writers", ingest=late_write),
    "dispose-amid-queries": a("KeyError", query=waiting_for_the_end, dispose=end),
    "parity-of-reading": a("`title` of get_source", get_source=getting(title=lambda source: "")),
    "parity-of-queries": a("of page 1 of query", query=asking(dropped("max_chars"))),
    "parity-of-state": a(
        "of health_check", health_check=lambda self: changed(MemoryProvider.health_check(self), status="degraded")
    ),
    "parity-of-writing": a("is", ingest=ingesting(dropped("if_match"))),
}


@pytest.mark.parametrize("name", LAWS)
def test_a_provider_that_differs_in_one_behaviour_breaks_the_law_on_it(name: str) -> None:
    breakage = BREAKAGES[name]
    with pytest.raises(BrokenLawError) as caught:
        check_law(name, opener(breakage.make), reference=opener(MemoryProvider), depth=QUICK)
    assert breakage.says in caught.value.problem
    message, law = str(caught.value), LAWS[name]
    for part in (name, law.source, law.hint, law.statement, caught.value.problem, "smallest example"):
        assert part in message


@pytest.mark.parametrize(
    "name", [name for name, law in LAWS.items() if law.needs & {"refreshable", "outside", "reopen"}]
)
def test_a_provider_that_keeps_its_documents_elsewhere_passes_what_the_reference_cannot_show(name: str) -> None:
    check_law(name, opener(Shelf))


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if law.level == "parity"])
def test_a_provider_is_on_a_par_with_itself(name: str) -> None:
    check_law(name, opener(MemoryProvider), reference=opener(MemoryProvider))
