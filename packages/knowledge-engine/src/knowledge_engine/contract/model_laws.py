"""The stateful law: whatever is done to a provider, in whatever order, the reference to which it is done agrees."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st

from knowledge_engine.citations import verify_citation
from knowledge_engine.contract.asking import ask, every_hit, every_source
from knowledge_engine.contract.case import ProviderCase
from knowledge_engine.contract.corpora import PATHS, documents, filters, queries
from knowledge_engine.contract.law import law, need, same
from knowledge_engine.errors import KnowledgeError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import IngestRequest, Source
from knowledge_engine.ports import IKnowledgeProvider

_PATHS = st.sampled_from(PATHS[:5])
_STEPS = st.sampled_from(["ingest", "delete", "metadata", "text", "refresh", "invalidate"])


def outcome(call: Callable[[], Any]) -> Any:
    """What came of a call: errors count by code."""
    try:
        return call()
    except KnowledgeError as error:
        return f"error {error.code!r}"


def drawn_step(case: ProviderCase, stored: dict[str, bytes]) -> tuple[str, Callable[[Any], Any]]:
    """A change that is drawn, as a call on any provider."""
    kind = case.draw(_STEPS, "step")
    if kind in ("refresh", "invalidate"):
        return kind, lambda provider: _freshened(provider, kind)
    one = case.draw(_PATHS, "id")
    match: str | None = None
    if case.draw(st.booleans(), "conditional"):
        present = hashlib.sha256(stored[one]).hexdigest() if one in stored else ""
        match = case.draw(st.sampled_from([present, "", "0" * 64]), "if_match")
    if kind == "delete":
        return kind, lambda provider: provider.delete_source(one, if_match=match)
    fields: dict[str, Any] = {"content": case.draw(documents(), "content")} if kind == "ingest" else {}
    if kind != "ingest":
        fields = {"metadata": {"kind": case.draw(st.sampled_from(["guide", "yes", 5]), "kind")}}
    if kind == "text":
        fields |= {"text": "valve and pump", "title": "Valve"}
    request = IngestRequest(id=one, if_match=match, **fields)
    return kind, lambda provider: _facts(provider.ingest(request))


def _freshened(provider: Any, kind: str) -> None:
    # What it returns is another law's; MemoryProvider has nothing to refresh.
    getattr(provider, kind, lambda: None)()


def _facts(source: Source) -> tuple[Any, ...]:
    return source.id, source.title, source.metadata, source.bytes, source.content_hash, source.status


def _look(case: ProviderCase, provider: IKnowledgeProvider, model: IKnowledgeProvider) -> dict[str, bytes]:
    """Compares everything that two providers say; gives what is stored."""
    mine, theirs = every_source(provider), every_source(model)
    same(list(map(_facts, mine)), list(map(_facts, theirs)), "the sources")
    stored = {source.id: model.read_source(source.id).content for source in theirs}
    for one, raw in stored.items():
        same(provider.read_source(one).content, raw, f"the bytes of {one!r}")
    text, filter = case.draw(queries(stored), "query"), case.draw(st.none() | filters(stored), "filter")
    hits, expected = (every_hit(one, text, filter=filter) for one in (provider, model))
    same({hit.source_id for hit in hits}, {hit.source_id for hit in expected}, "what a query finds")
    for hit in hits:
        same(verify_citation(model, hit).status, "ok", f"the citation of {hit.chunk_id!r} in the reference")
    if ask(provider, text).engine == "bm25":
        same([_cited(hit) for hit in hits], [_cited(hit) for hit in expected], "hits, spans, texts and scores")
    if filter is not None:
        said, wanted = (provider.list_sources(filter=filter).warnings, model.list_sources(filter=filter).warnings)
        need(set(wanted) <= set(said), f"the warnings of the filter are {said}, not {wanted}")
    return stored


def _cited(hit: Any) -> tuple[Any, ...]:
    return hit.source_id, hit.span, hit.text, hit.content_hash, hit.score, hit.snippet


@law(
    "write",
    source="any backend gives the same answer to the same question",
    needs=["writable", "corpus"],
    hint="the last step: what it leaves behind in the index, or takes from it",
)
def agrees_with_the_model(case: ProviderCase) -> None:
    """After any changes in any order, sources, bytes, hits and warnings are those of MemoryProvider."""
    provider: Any = case.open()
    model = MemoryProvider(case.docs)
    stored = dict(case.docs)
    for _ in range(case.draw(st.integers(0, 8), "steps")):
        kind, call = drawn_step(case, stored)
        mine, theirs = outcome(partial(call, provider)), outcome(partial(call, model))
        same(mine, theirs, f"what came of {kind!r}")
        stored = _look(case, provider, model)
    _look(case, provider, model)
