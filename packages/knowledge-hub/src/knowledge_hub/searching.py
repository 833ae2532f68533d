"""A search in two stages: candidates, and which of them are good enough."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from knowledge_hub.entries import MAX_TOP_K, Found, Kind, SearchAnswer
from knowledge_hub.requests import check_range, check_text, checked_kinds
from knowledge_hub.routing import Router
from knowledge_hub.store import EntryStore

#: Entries read at a time while those that are out are passed over, and the most that are looked at.
_READ_AT_ONCE, _LOOKED_AT = 10, 1_000


class HubSearch:
    """Finds the entries that help most with a question."""

    def __init__(self, store: EntryStore, router: Router) -> None:
        self._store, self._router = store, router

    def find(self, query: str, *, top_k: int, min_score: int, kinds: Sequence[Kind]) -> SearchAnswer:
        """See `HubService.search`."""
        check_range("top_k", top_k, 1, MAX_TOP_K)
        check_range("min_score", min_score, 1, 5)
        check_text(query)
        candidates = self._router.candidates(query, checked_kinds(kinds), 2 * top_k)
        ids, looked_at = iter(candidates.ids), 0
        results, warnings = list[Found](), list(candidates.warnings)
        while some := list(islice(ids, max(_READ_AT_ONCE, 2 * top_k))):
            results += self._good(some, min_score)
            looked_at += len(some)
            if len(results) >= top_k:
                break
            if looked_at >= _LOOKED_AT:
                warnings.append(f"Of the entries with these words only the {looked_at} best fitting were looked at.")
                break
        if candidates.router == "model":
            results.sort(key=lambda one: -one.quality_score)
        results = results[:top_k]
        return SearchAnswer(
            results=tuple(results),
            count=len(results),
            router=candidates.router,
            invented=candidates.invented,
            warnings=tuple(warnings),
        )

    def _good(self, ids: Sequence[str], min_score: int) -> list[Found]:
        entries = self._store.some(ids)
        return [
            Found.model_construct(
                id=one.id,
                scenario=one.scenario,
                content=one.content,
                tags=one.tags,
                score=one.eval.score,
                quality_score=one.eval.quality,
                metrics=one.metrics,
            )
            for one in (entries[each] for each in ids if each in entries)
            if one.status == "active" and one.eval.score >= min_score and one.eval.quality >= 0
        ]
