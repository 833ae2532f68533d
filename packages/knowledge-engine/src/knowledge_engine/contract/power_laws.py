"""Laws of optional powers: what a provider is more than a reader, it is wholly, and says so."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import strategies as st

from knowledge_engine.contract.asking import ask, equal_answers, every_source, found
from knowledge_engine.contract.case import ProviderCase
from knowledge_engine.contract.corpora import queries
from knowledge_engine.contract.law import law, need, refused, same
from knowledge_engine.errors import (
    NotFoundError,
    NotSupportedError,
    ReadOnlyError,
)
from knowledge_engine.models import IngestRequest
from knowledge_engine.ports import IngestingProvider

_WRITABLE = ("writable", "corpus")


def _put(provider: Any, id: str, content: bytes, if_match: str | None = None) -> Any:
    return provider.ingest(IngestRequest(id=id, content=content, if_match=if_match))


@law(
    "write",
    source="Capabilities.writable",
    hint="`capabilities`, and whether the class has `ingest` and `delete_source`",
)
def writable_flag_true(case: ProviderCase) -> None:
    """`writable` is True exactly when documents can be stored and deleted."""
    provider: Any = case.open({} if case.corpus is None else None)
    if provider.capabilities.writable:
        need(isinstance(provider, IngestingProvider), "`writable` is True, and it is no IngestingProvider")
        if case.corpus is None:
            _put(provider, "new.md", b"valve")
            provider.delete_source("new.md")
    elif isinstance(provider, IngestingProvider):
        errors = (ReadOnlyError, NotSupportedError)
        refused(lambda: _put(provider, "new.md", b"valve"), errors, "ingest with `writable` False")
        refused(
            lambda: provider.delete_source("new.md"), (*errors, NotFoundError), "delete_source with `writable` False"
        )


@law(
    "write",
    source="RefreshableProvider",
    needs=["refreshable"],
    hint="what `refresh` compares, and what `invalidate` forgets",
)
def refresh_changes_nothing(case: ProviderCase) -> None:
    """Where nothing changed, `refresh` says so, and neither it nor `invalidate` changes an answer."""
    provider: Any = case.open()
    query = case.draw(queries(case.docs), "query")
    before = ask(provider, query)
    same((provider.refresh(), provider.refresh(["guides"])), (False, False), "whether refresh found a change")
    equal_answers(ask(provider, query), before, "after refresh")
    provider.invalidate()
    equal_answers(ask(provider, query), before, "after invalidate")


@law(
    "write",
    source="RefreshableProvider.refresh",
    needs=["refreshable", "outside", "corpus"],
    hint="how a change is noticed: same sizes and old times happen",
)
def refresh_takes_in(case: ProviderCase) -> None:
    """`refresh` takes in what changed, came and went behind the provider's back."""
    provider: Any = case.open({"a.md": b"zebrafin", "b.md": b"zebrafin", "d/c.md": b"other"})
    outside = case.opened.outside
    assert outside is not None, "the law needs `outside`"
    ask(provider, "zebrafin")
    paths = case.draw(st.sampled_from([None, ["a.md", "b.md", "d"]]), "paths")
    outside("a.md", b"yakmoor!")
    outside("b.md", None)
    outside("d/c.md", b"zebrafin")
    same(provider.refresh(paths), True, "whether refresh found a change")
    same((found(provider, "zebrafin"), found(provider, "yakmoor")), ({"d/c.md"}, {"a.md"}), "what is found")
    same([source.id for source in every_source(provider)], ["a.md", "d/c.md"], "the list of ids")


@law(
    "write",
    source="ExplainingProvider",
    needs=["explaining"],
    hint="where provenance comes from, and the answer for unknown ids",
)
def explain_agrees(case: ProviderCase) -> None:
    """Provenance agrees with the source; for unknown and impossible ids it is None."""
    provider: Any = case.open()
    for source in every_source(provider)[:20]:
        told = provider.explain(source.id)
        need(told is not None, f"explain({source.id!r}) is None")
        same(
            (told.source_id, told.origin, told.uri, told.content_hash),
            (source.id, source.origin, source.uri, source.content_hash),
            "id, origin, uri and hash of the provenance",
        )
    for one in ("no-such.md", "../x.md", ""):
        same(provider.explain(one), None, f"explain({one!r})")


@law(
    "write",
    source="SupersedingProvider",
    needs=["superseding", *_WRITABLE],
    hint="whether the old source still takes part in queries",
)
def supersede_replaces(case: ProviderCase) -> None:
    """A superseded source is not found by queries and can still be read; unknown ids are a NotFoundError."""
    provider: Any = case.open({"old.md": b"zebrafin", "new.md": b"zebrafin"})
    for one, by in (("old.md", "none.md"), ("none.md", "new.md")):
        refused(partial(provider.supersede, one, by), NotFoundError, "supersede with an unknown id")
    same(found(provider, "zebrafin"), {"old.md", "new.md"}, "what is found before")
    provider.supersede("old.md", "new.md")
    same(found(provider, "zebrafin"), {"new.md"}, "what is found after")
    same(provider.read_source("old.md").content, b"zebrafin", "the superseded source")
