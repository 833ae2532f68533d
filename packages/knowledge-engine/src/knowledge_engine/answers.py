"""From ranked passages to an answer: paging, one hit a source, the text budget, snippets and citations.

Every backend that ranks itself hands its passages here, so that the same ranking gives the same answer.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pydantic import JsonValue

from knowledge_engine.analysis import Analyzer, QueryWord
from knowledge_engine.citations import content_hash, cut_text, decode, make_snippet
from knowledge_engine.cursors import decode_cursor, encode_cursor
from knowledge_engine.errors import InvalidArgumentError, QueryTooLongError
from knowledge_engine.filters import Filter, compile_filter
from knowledge_engine.models import (
    MAX_PAGE,
    MAX_QUERY_CHARS,
    MAX_TOP_K,
    ByteSpan,
    Hit,
    IndexState,
    Metadata,
    Mode,
    Query,
    QueryResult,
    Source,
    SourcePage,
)
from knowledge_engine.passages import chunk_id
from knowledge_engine.ranking import sort_key


class Candidate(NamedTuple):
    """A passage in the ranking. Backends give them in order of `ranking.sort_key`."""

    score: float
    source_id: str
    start: int
    end: int


class Loaded(NamedTuple):
    """What a candidate turns out to be: its raw bytes as they are stored now, and its document's data."""

    data: bytes
    title: str
    heading_path: tuple[str, ...]
    metadata: Metadata


@dataclass(frozen=True)
class Plan:
    """A checked query: what to look for, what may match, and where to go on."""

    query: Query
    words: tuple[QueryWord, ...]
    filter: Filter
    top_k: int
    #: Equal for queries whose pages belong together.
    request: str
    after: tuple[float, str, int] | None
    #: Revision of the index that the page before was made from; empty for a first page.
    revision: str
    started: float = field(default_factory=time.perf_counter)

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """All terms that make a passage match, with repeats."""
        return tuple(term for word in self.words for term in (word.term, *word.parts))


def plan_query(query: Query, analyzer: Analyzer) -> Plan:
    """Checks a query.

    Raises:
        QueryTooLongError, InvalidFilterError, InvalidCursorError: For what their names say.
    """
    if len(query.query) > MAX_QUERY_CHARS:
        raise QueryTooLongError(
            f"The query has {len(query.query)} characters", mend=f"Ask in at most {MAX_QUERY_CHARS} characters."
        )
    compiled = compile_filter(query.filter)
    request = json.dumps(["query", query.query, compiled.canonical, query.mode, query.min_score, query.per_source])
    after, revision = None, ""
    if query.cursor is not None:
        revision, (score, source_id, start) = decode_cursor(query.cursor, request, float, str, int)
        after = sort_key(score, source_id, start)
    words = tuple(analyzer.query_words(query.query))
    return Plan(query, words, compiled, min(query.top_k, MAX_TOP_K), request, after, revision)


def answer(
    plan: Plan,
    ranking: Iterable[Candidate],
    load: Callable[[Candidate], Loaded | str],
    *,
    analyzer: Analyzer,
    engine: str,
    index: IndexState,
    known_keys: Collection[str],
    mode_used: Mode = "keyword",
    warnings: Sequence[str] = (),
) -> QueryResult:
    """Fills an answer from a ranking, in its order.

    Args:
        ranking: Best first; read only as far as needed.
        load: Reads a candidate's passage; a string says why it is dropped and becomes a warning.
        known_keys: Metadata keys of the corpus, to warn of filters on others.
    """
    said = [*warnings, *plan.filter.warnings(known_keys)]
    if plan.revision and plan.revision != index.revision:
        said.append("The index has changed since the page before: hits may be missing or come twice.")
    taken = _Taken(plan.query.max_chars)
    rest = _eligible(plan, ranking)
    last: Candidate | None = None
    for candidate in rest:
        if len(taken.hits) == plan.top_k or taken.full:
            break  # this one begins the next page
        last = candidate
        _take(plan, candidate, load, analyzer, taken, said)
    else:
        last = None
    cursor = None
    if last is not None:
        cursor = encode_cursor(plan.request, index.revision, [last.score, last.source_id, last.start])
    return QueryResult(
        hits=tuple(taken.hits),
        took_ms=(time.perf_counter() - plan.started) * 1000,
        engine=engine,
        mode_used=mode_used,
        index=index,
        warnings=tuple(dict.fromkeys(said)),
        truncated=taken.cut,
        next_cursor=cursor,
    )


@dataclass
class _Taken:
    budget: int | None
    hits: list[Hit] = field(default_factory=list)
    cut: bool = False

    @property
    def full(self) -> bool:
        if self.budget == 0:
            self.cut = True  # asked only when something more would come
        return self.budget == 0


def _eligible(plan: Plan, ranking: Iterable[Candidate]) -> Iterator[Candidate]:
    """Candidates that are wanted, from where the page before ended."""
    per_source = Counter[str]()
    for candidate in ranking:
        if plan.query.min_score is not None and candidate.score < plan.query.min_score:
            return
        per_source[candidate.source_id] += 1
        if per_source[candidate.source_id] > plan.query.per_source:
            continue
        if plan.after is None or sort_key(*candidate[:3]) > plan.after:
            yield candidate


def _take(
    plan: Plan,
    candidate: Candidate,
    load: Callable[[Candidate], Loaded | str],
    analyzer: Analyzer,
    taken: _Taken,
    warnings: list[str],
) -> None:
    loaded = load(candidate)
    if isinstance(loaded, str):
        warnings.append(loaded)
        return
    data, text = loaded.data, decode(loaded.data)
    if taken.budget is not None:
        if len(text) > taken.budget:
            data = data[: cut_text(data, ByteSpan(start=0, end=len(data)), taken.budget).end]
            text, taken.cut, taken.budget = decode(data), True, 0
        else:
            taken.budget -= len(text)
    taken.hits.append(
        Hit(
            source_id=candidate.source_id,
            chunk_id=chunk_id(candidate.source_id, candidate.start, candidate.end),
            title=loaded.title,
            heading_path=loaded.heading_path,
            text=text,
            snippet=make_snippet(data, candidate.start, frozenset(plan.terms), analyzer),
            score=candidate.score,
            span=ByteSpan(start=candidate.start, end=candidate.start + len(data)),
            content_hash=content_hash(data),
            metadata=loaded.metadata,
        )
    )


class Listed(NamedTuple):
    """A part of a listing."""

    #: Ascending.
    ids: Sequence[str]
    #: Of the whole listing.
    total: int


def page_sources(
    ids: Sequence[str],
    source: Callable[[str], Source],
    metadata: Callable[[str], Metadata],
    *,
    filter: Mapping[str, JsonValue] | None,
    limit: int,
    cursor: str | None,
    revision: str,
    known_keys: Collection[str],
) -> SourcePage:
    """One page of a listing. `ids` are all, ascending; `source` is asked only for those on the page.

    Raises:
        InvalidFilterError, InvalidCursorError, InvalidArgumentError: For what their names say.
    """

    def listed(wanted: Filter, after: str | None, count: int) -> Listed:
        chosen = [one for one in ids if wanted.matches(metadata(one), one)] if filter else ids
        rest = chosen if after is None else [one for one in chosen if one > after]
        return Listed(rest[:count], len(chosen))

    return page_listed(
        listed, source, filter=filter, limit=limit, cursor=cursor, revision=revision, known_keys=known_keys
    )


def page_listed(
    listed: Callable[[Filter, str | None, int], Listed],
    source: Callable[[str], Source],
    *,
    filter: Mapping[str, JsonValue] | None,
    limit: int,
    cursor: str | None,
    revision: str,
    known_keys: Collection[str],
) -> SourcePage:
    """As `page_sources`, for a backend that finds the page itself.

    Args:
        listed: Given a filter, an id and a number: the first so many ids, behind that one, of what the filter lets
            through. Asked once.
    """
    if limit < 1:
        raise InvalidArgumentError(f"limit is {limit!r}", mend=f"Use 1 to {MAX_PAGE}.")
    compiled = compile_filter(filter)
    request = json.dumps(["list", compiled.canonical])
    warnings = list(compiled.warnings(known_keys))
    after = None
    if cursor is not None:
        known, (after,) = decode_cursor(cursor, request, str)
        if known != revision:
            warnings.append("The corpus has changed since the page before.")
    size = min(limit, MAX_PAGE)
    ids, total = listed(compiled, after, size + 1)  # one more tells whether another page follows
    page = ids[:size]
    return SourcePage(
        sources=tuple(map(source, page)),
        total=total,
        warnings=tuple(warnings),
        next_cursor=encode_cursor(request, revision, [page[-1]]) if len(ids) > size else None,
    )
