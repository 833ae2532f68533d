"""From several rankings to one answer."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from knowledge_engine.analysis import Analyzer
from knowledge_engine.answers import Plan
from knowledge_engine.citations import content_hash, cut_text, decode, make_snippet
from knowledge_engine.cursors import encode_cursor
from knowledge_engine.errors import InvalidCursorError, KnowledgeError
from knowledge_engine.filters import Filter
from knowledge_engine.fusion.ids import joined
from knowledge_engine.models import MAX_TOP_K, ByteSpan, Hit, IndexState, Mode, Query, QueryResult
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.ranking import sort_key

#: Reads the raw bytes of a hit, given under its outer id.
ReadHit = Callable[[Hit], bytes]


class Reach(NamedTuple):
    """The part of a backend's ranking that a page may need: `size` hits from rank `first` on, counted from 1."""

    first: int
    size: int


@dataclass(frozen=True)
class Ranked:
    """What one backend found: hits with their ranks, and the answer that they came with."""

    hits: tuple[tuple[int, Hit], ...]
    result: QueryResult
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fusion:
    """Reciprocal rank fusion: a hit of rank r weighs 1 / (k + r).

    Source: Cormack, Clarke & Buettcher 2009, with their k of 60. As each hit is of one backend alone, its score is the
    one term of the sum.
    """

    k: float = 60.0

    def score(self, rank: int) -> float:
        """Of a hit with that rank in its backend, counted from 1."""
        return 1.0 / (self.k + rank)

    def reach(self, plan: Plan) -> Reach:
        """What a page needs of each backend: from the rank where the page before ended, one hit more than fits.

        Of that rank itself some backends' hits were on the page before, and some were not.

        Raises:
            InvalidCursorError: For a cursor with a score that no hit has.
        """
        rank = 1
        if plan.after is not None:
            score = -plan.after[0]
            rank = round(1.0 / score - self.k) if 1e-15 < score <= 1.0 else 0
            if rank < 1 or self.score(rank) != score:
                raise InvalidCursorError("The cursor is not one of ours", mend="Pass `next_cursor` as it was given.")
        return Reach(rank, plan.top_k + 1 + (plan.after is not None))


def fetch(provider: IKnowledgeProvider, query: Query, reach: Reach) -> Ranked:
    """That part of a backend's ranking, page by page where it gives no more at once."""
    hits: list[tuple[int, Hit]] = []
    warnings: list[str] = []
    rank, last = 1, reach.first + reach.size - 1
    while True:
        result = provider.query(query.model_copy(update={"top_k": min(MAX_TOP_K, last - rank + 1)}))
        for hit in result.hits:
            if rank >= reach.first:
                hits.append((rank, hit))
            rank += 1
        warnings += result.warnings
        if rank > last or result.next_cursor is None or not result.hits:
            return Ranked(tuple(hits), result, tuple(dict.fromkeys(warnings)))
        query = query.model_copy(update={"cursor": result.next_cursor})


@dataclass
class Page:
    """Hits in the order of the fused ranking, as far as they fit."""

    budget: int | None
    hits: list[Hit] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    truncated: bool = False
    #: The last hit that was looked at, if there are more after it.
    last: Hit | None = None

    def fill(self, plan: Plan, ranking: Iterable[Hit], read: ReadHit, analyzer: Analyzer) -> None:
        """Takes hits until nothing more is wanted or fits."""
        last = None
        for hit in ranking:
            if len(self.hits) == plan.top_k or self.budget == 0:
                self.truncated |= len(self.hits) < plan.top_k
                self.last = last
                return
            last = hit
            try:
                self.hits.append(self._fitted(hit, plan, read, analyzer))
            except KnowledgeError as error:
                self.warnings.append(f"A hit of {hit.source_id} is left out: {error}")

    def _fitted(self, hit: Hit, plan: Plan, read: ReadHit, analyzer: Analyzer) -> Hit:
        if self.budget is None or len(hit.text) <= self.budget:
            self.budget = None if self.budget is None else self.budget - len(hit.text)
            return hit
        raw = hit.text.encode()
        if content_hash(raw) != hit.content_hash:  # bytes that are not UTF-8
            raw = read(hit)
        data = raw[: cut_text(raw, ByteSpan(start=0, end=len(raw)), self.budget).end]
        self.truncated, self.budget = True, 0
        span = ByteSpan(start=hit.span.start, end=hit.span.start + len(data))
        snippet = hit.snippet
        if snippet.span.end > span.end:
            snippet = make_snippet(data, span.start, frozenset(plan.terms), analyzer)
        return hit.model_copy(
            update={"text": decode(data), "span": span, "content_hash": content_hash(data), "snippet": snippet}
        )


def merge(
    fusion: Fusion,
    plan: Plan,
    found: Mapping[str, Ranked],
    index: IndexState,
    warnings: Sequence[str],
    *,
    read: ReadHit,
    analyzer: Analyzer,
) -> QueryResult:
    """The answer that several backends give together. `warnings` are about those that gave none."""
    said = [*warnings, *merge_warnings(plan.filter, {name: ranked.warnings for name, ranked in found.items()})]
    if plan.revision and plan.revision != index.revision:
        said.append("The index has changed since the page before: hits may be missing or come twice.")
    page = Page(plan.query.max_chars)
    page.fill(plan, _ranking(fusion, plan, found), read, analyzer)
    cursor = None
    if page.last is not None:
        key = [page.last.score, page.last.source_id, page.last.span.start]
        cursor = encode_cursor(plan.request, index.revision, key)
    return QueryResult(
        hits=tuple(page.hits),
        took_ms=(time.perf_counter() - plan.started) * 1000,
        engine="rrf",
        mode_used=_mode({ranked.result.mode_used for ranked in found.values()}),
        index=index,
        warnings=tuple(dict.fromkeys([*said, *page.warnings])),
        truncated=page.truncated,
        next_cursor=cursor,
    )


def _ranking(fusion: Fusion, plan: Plan, found: Mapping[str, Ranked]) -> list[Hit]:
    """The hits from where the page before ended, best first, under their outer ids."""
    ranked = [
        (sort_key(fusion.score(rank), joined(name, hit.source_id), hit.span.start), name, hit)
        for name, one in found.items()
        for rank, hit in one.hits
    ]
    least = plan.query.min_score
    chosen = [
        each
        for each in ranked
        if (plan.after is None or each[0] > plan.after) and (least is None or -each[0][0] >= least)
    ]
    return [
        hit.model_copy(
            update={"score": -key[0], "source_id": key[1], "chunk_id": joined(name, hit.chunk_id), "backend": name}
        )
        for key, name, hit in sorted(chosen, key=lambda each: each[0])
    ]


def _mode(used: set[Mode]) -> Mode:
    worked = used - {"none"}
    return worked.pop() if len(worked) == 1 else "hybrid" if worked else "none"


def merge_warnings(filter: Filter, said: Mapping[str, Sequence[str]]) -> list[str]:
    """What backends warn of, under their names; once and without a name what is true of all of them.

    That no document has some metadata key is told only where every backend says so.
    """
    doubts = filter.warnings(filter.keys)
    missing = [sentence.removesuffix(".") for sentence in filter.warnings(()) if sentence not in doubts]
    shared: dict[str, list[str]] = {stem: [] for stem in missing}
    rest = []
    for name, warnings in said.items():
        for warning in warnings:
            stem = next((stem for stem in missing if warning.startswith(stem)), None)
            if stem is not None:
                shared[stem].append(warning)
            elif warning not in doubts:
                rest.append(f"{name}: {warning}")
    return [*doubts, *(warnings[0] for warnings in shared.values() if warnings and len(warnings) == len(said)), *rest]


def merge_index(states: Mapping[str, IndexState | None]) -> IndexState:
    """The state of all backends together; None stands for one that did not answer."""
    known = [state for state in states.values() if state is not None]
    if len(known) == len(states) and all(state.state == "ready" for state in known):
        state = "ready"
    else:
        state = "building" if any(state.state == "building" for state in known) else "stale"
    revision = ""
    if all(each.revision for each in known):
        names = [[name, each.revision if each else None] for name, each in sorted(states.items())]
        revision = hashlib.blake2b(json.dumps(names).encode(), digest_size=12).hexdigest()
    return IndexState.model_validate(
        {
            "state": state,
            "documents": sum(each.documents for each in known),
            "skipped": sum(each.skipped for each in known),
            "revision": revision,
        }
    )
