"""Laws of lasting and of sharing: other openings, and many threads at once."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from hypothesis import strategies as st

from knowledge_engine.citations import decode
from knowledge_engine.contract.asking import ask, equal_answers, every_source, found
from knowledge_engine.contract.case import ProviderCase
from knowledge_engine.contract.corpora import PATHS, documents, queries
from knowledge_engine.contract.law import Breach, law, need, same
from knowledge_engine.errors import ConflictError, UnavailableError
from knowledge_engine.models import IngestRequest

_WRITABLE = ("writable", "corpus")
_THREADS = "ports: a provider may be called from several threads at once"


@contextmanager
def _impatient() -> Iterator[None]:
    """Threads take turns so often that a race is met soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _at_once(calls: Sequence[Callable[[], object]]) -> list[object]:
    """What each call returns or raises, all begun at the same moment."""
    outcomes: list[object] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def run(number: int) -> None:
        barrier.wait()
        try:
            outcomes[number] = calls[number]()
        except Exception as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(calls))]
    with _impatient():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    need(not any(thread.is_alive() for thread in threads), "calls from several threads do not come to an end")
    return outcomes


def _fine(outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, Breach):
            raise outcome
        if isinstance(outcome, Exception):
            raise Breach(f"a thread met {type(outcome).__name__}: {outcome}") from outcome


@law(
    "durability",
    source="what was stored stays",
    needs=["reopen", *_WRITABLE],
    hint="what is only in memory until `dispose`",
)
def reopening_keeps(case: ProviderCase) -> None:
    """A second opening of the same storage answers as the first, with all that was stored and deleted."""
    provider: Any = case.open()
    query = case.draw(queries(case.docs), "query")
    stored = dict(case.docs)
    changes = case.draw(st.dictionaries(st.sampled_from(PATHS), st.none() | documents(), max_size=4), "changes")
    for one, raw in changes.items():
        if raw is not None:
            provider.ingest(IngestRequest(id=one, content=raw))
            stored[one] = raw
        elif stored.pop(one, None) is not None:
            provider.delete_source(one)
    other = case.reopen()
    same({source.id: other.read_source(source.id).content for source in every_source(other)}, stored, "what is stored")
    equal_answers(ask(other, query, per_source=3), ask(provider, query, per_source=3), "reopened")
    if case.draw(st.booleans(), "disposed"):
        provider.dispose()
        equal_answers(ask(case.reopen(), query), ask(other, query), "reopened after dispose")


@law("durability", source=_THREADS, hint="state that is built by the first query, and locks around it", share=0.3)
def threads_get_one_answer(case: ProviderCase) -> None:
    """Many threads that ask a provider first, at once, all get the answer that one would get."""
    provider = case.open()
    query = case.draw(queries(case.docs), "query")
    results = _at_once([lambda: ask(provider, query)] * 6)
    _fine(results)
    expected: Any = ask(provider, query)
    for result in results:
        answer: Any = result
        equal_answers(answer, expected, "asked by several threads")


@law(
    "durability",
    source=f"{_THREADS}; no torn documents",
    needs=_WRITABLE,
    hint="whether text and span of a hit come from one version of the document",
    share=0.3,
)
def readers_see_whole_versions(case: ProviderCase) -> None:
    """While one thread writes, readers meet no error, and each hit cites one of the versions that were stored."""
    versions = [f"{'# Head ' * n}\n\n{'水 ' * n}valve {n}\n".encode() for n in (1, 9, 4, 30)]
    rounds = case.draw(st.integers(3, 8), "rounds")
    provider: Any = case.open({"a.md": versions[0], "b.md": b"valve"})
    known = {"a.md": versions, "b.md": [b"valve"]}

    def write() -> None:
        for number in range(rounds * len(versions)):
            provider.ingest(IngestRequest(id="a.md", content=versions[number % len(versions)]))

    def read() -> None:
        for _ in range(rounds * 2):
            for hit in ask(provider, "valve", per_source=2).hits:
                parts = [raw[hit.span.start : hit.span.end] for raw in known[hit.source_id]]
                whole = any(hashlib.sha256(part).hexdigest() == hit.content_hash for part in parts)
                need(whole and hit.text in map(decode, parts), f"a hit cites what was never stored: {hit.text[:80]!r}")
            content = provider.read_source("a.md").content
            need(content in versions, f"read_source gave what was never stored: {content[:80]!r}")

    _fine(_at_once([write, read, read, read]))
    same(found(provider, "valve"), {"a.md", "b.md"}, "what is found at the end")
    same(provider.read_source("a.md").content, versions[-1], "the last version")


@law(
    "durability",
    source=f"{_THREADS}; no lost update",
    needs=_WRITABLE,
    hint="read, change and write back of shared state without a lock",
    share=0.3,
)
def concurrent_writes_all_land(case: ProviderCase) -> None:
    """Documents that several threads store under different ids are all there, and all found."""
    provider: Any = case.open({"first.md": b"valve"})
    if case.draw(st.booleans(), "asked before"):
        ask(provider, "valve")
    ids = [f"new/{number}.md" for number in range(case.draw(st.integers(2, 8), "writers"))]
    calls = [lambda one=one: provider.ingest(IngestRequest(id=one, content=f"valve {one}".encode())) for one in ids]
    _fine(_at_once(calls))
    expected = {"first.md", *ids}
    same({source.id for source in every_source(provider)}, expected, "the ids that are listed")
    same(found(provider, "valve"), expected, "the ids that are found")


@law(
    "durability",
    source="IngestRequest.if_match",
    needs=_WRITABLE,
    hint="whether nothing can come between check and write",
    share=0.3,
)
def concurrent_if_match_has_one_winner(case: ProviderCase) -> None:
    """Of several threads that write with one `if_match`, exactly one succeeds; the others get ConflictError."""
    docs = case.draw(st.sampled_from([{}, {"a.md": b"valve"}]), "documents")
    provider: Any = case.open(docs)
    match = hashlib.sha256(docs["a.md"]).hexdigest() if docs else ""
    contents = [b"version %d" % number for number in range(case.draw(st.integers(2, 6), "writers"))]
    outcomes = _at_once(
        [partial(provider.ingest, IngestRequest(id="a.md", content=raw, if_match=match)) for raw in contents]
    )
    won = [raw for raw, outcome in zip(contents, outcomes, strict=True) if not isinstance(outcome, Exception)]
    _fine([outcome for outcome in outcomes if not isinstance(outcome, ConflictError)])
    same(len(won), 1, "the number of writers that succeeded")
    same(provider.read_source("a.md").content, won[0], "what is stored")


@law(
    "durability", source="IKnowledgeProvider.dispose", hint="what `dispose` takes away under a running query", share=0.3
)
def dispose_amid_queries(case: ProviderCase) -> None:
    """Queries that run while the provider is disposed of answer, or raise UnavailableError."""
    provider = case.open()
    query = case.draw(queries(case.docs), "query")
    outcomes = _at_once([*[lambda: [ask(provider, query) for _ in range(5)]] * 3, provider.dispose])
    _fine([outcome for outcome in outcomes if not isinstance(outcome, UnavailableError)])
