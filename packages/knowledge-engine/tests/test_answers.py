"""From a ranking to an answer: pages, budgets, citations that hold."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer
from knowledge_engine.answers import Candidate, Loaded, answer, page_sources, plan_query
from knowledge_engine.errors import (
    InvalidArgumentError,
    InvalidCursorError,
    InvalidFilterError,
    QueryTooLongError,
)
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import (
    MAX_PAGE,
    MAX_QUERY_CHARS,
    MAX_TOP_K,
    Hit,
    IndexState,
    Query,
    QueryResult,
    Source,
    SourcePage,
)

ANALYZER = Analyzer()
TEXT = "The valve opens. The valve shuts when the pressure falls.\nA spring holds it; 水 is let out. "

sections = st.lists(
    st.sampled_from(["valve", "valve valve", "spring", "valve 水", "pump\n\nvalve", "", "\u00e9 valve. " * 30]),
    max_size=4,
)
corpora = st.dictionaries(
    st.sampled_from([f"{name}.md" for name in "abcdefgh"]), sections.map(lambda parts: _document(parts)), min_size=1
)


def _document(parts: Sequence[str]) -> bytes:
    return "".join(f"## Part {number}\n\n{part}\n\n" for number, part in enumerate(parts)).encode()


def ask(
    query: Query, ranking: Sequence[Candidate], texts: dict[str, bytes | str], revision: str = "1", **extra: Any
) -> QueryResult:
    """An answer over texts that all begin at byte 0 of their source; a text that is a string is why it fails."""

    def load(candidate: Candidate) -> Loaded | str:
        data = texts[candidate.source_id]
        return (
            data if isinstance(data, str) else Loaded(data[candidate.start : candidate.end], "T", ("H",), {"kind": "x"})
        )

    options: dict[str, Any] = {"known_keys": {"kind"}, **extra}
    index = IndexState(revision=revision)
    return answer(plan_query(query, ANALYZER), ranking, load, analyzer=ANALYZER, engine="test", index=index, **options)


def ranked(texts: dict[str, bytes | str]) -> list[Candidate]:
    return [Candidate(9.0 - number, one, 0, len(text)) for number, (one, text) in enumerate(texts.items())]


def places(hits: Sequence[Hit]) -> list[tuple[float, str, int]]:
    return [(hit.score, hit.source_id, hit.span.start) for hit in hits]


def pages(provider: MemoryProvider, query: Query) -> Iterator[QueryResult]:
    cursor = None
    for _ in range(100):
        page = provider.query(query.model_copy(update={"cursor": cursor}))
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return
    pytest.fail("pages without end")


def check(hit: Hit, raw: bytes) -> None:
    data = raw[hit.span.start : hit.span.end]
    assert hit.text == data.decode(errors="replace")
    assert hit.content_hash == hashlib.sha256(data).hexdigest()
    shown = hit.snippet
    assert hit.span.start <= shown.span.start <= shown.span.end <= hit.span.end
    assert shown.text == raw[shown.span.start : shown.span.end].decode(errors="replace")
    at = shown.span.start
    for mark in shown.highlights:
        assert at <= mark.start < mark.end <= shown.span.end
        at = mark.end


@settings(deadline=None)
@given(corpora, st.integers(1, 9), st.integers(1, 3), st.sampled_from([None, 0.2, 0.5]))
def test_pages_put_together_are_the_whole_answer(
    corpus: dict[str, bytes], top_k: int, per_source: int, min_score: float | None
) -> None:
    provider = MemoryProvider(corpus)
    whole = provider.query(Query(query="valve", top_k=1000, per_source=per_source, min_score=min_score))
    assert whole.next_cursor is None
    query = Query(query="valve", top_k=top_k, per_source=per_source, min_score=min_score)
    found = list(pages(provider, query))
    assert [hit for page in found for hit in page.hits] == list(whole.hits)
    assert all(len(page.hits) == top_k for page in found[:-1])
    assert all(page.hits or not whole.hits for page in found)
    assert not any(page.truncated or page.warnings for page in found)
    assert max(Counter(hit.source_id for hit in whole.hits).values(), default=0) <= per_source
    assert all(min_score is None or hit.score >= min_score for hit in whole.hits)
    assert places(whole.hits) == sorted(places(whole.hits), key=lambda one: (-one[0], one[1], one[2]))


@settings(deadline=None)
@given(corpora, st.integers(1, 200), st.integers(1, 4))
def test_pages_within_a_budget_bring_every_hit_once(corpus: dict[str, bytes], max_chars: int, top_k: int) -> None:
    provider = MemoryProvider(corpus)
    whole = provider.query(Query(query="valve", top_k=1000, per_source=3)).hits
    seen: list[Hit] = []
    for page in pages(provider, Query(query="valve", top_k=top_k, per_source=3, max_chars=max_chars)):
        assert sum(len(hit.text) for hit in page.hits) <= max_chars
        assert page.hits or not whole
        assert all(hit.text for hit in page.hits)
        for hit in page.hits:
            check(hit, corpus[hit.source_id])
        cut = [hit != full for hit, full in zip(page.hits, whole[len(seen) :], strict=False)]
        assert not any(cut[:-1])
        assert not any(cut) or page.truncated
        seen += page.hits
    assert places(seen) == places(whole)


@settings(deadline=None)
@given(corpora)
def test_every_citation_holds(corpus: dict[str, bytes]) -> None:
    for hit in MemoryProvider(corpus).query(Query(query="valve spring 水", top_k=99, per_source=9)).hits:
        check(hit, corpus[hit.source_id])
        assert hit.snippet.highlights


@settings(deadline=None)
@given(corpora, st.integers(1, 8), st.integers(1, 8))
def test_a_shorter_answer_is_the_beginning_of_a_longer_one(corpus: dict[str, bytes], one: int, other: int) -> None:
    provider = MemoryProvider(corpus)
    few, more = sorted([one, other])
    shorter, longer = (provider.query(Query(query="valve", top_k=top_k)).hits for top_k in (few, more))
    assert longer[: len(shorter)] == shorter


def test_a_text_over_budget_is_cut_with_its_span_and_hash() -> None:
    raw = TEXT.encode()
    texts: dict[str, bytes | str] = {"a": raw, "b": raw}
    page = ask(Query(query="valve", max_chars=40), ranked(texts), texts)
    (hit,) = page.hits
    assert hit.text.strip() == "The valve opens. The valve shuts when"
    check(hit, raw)
    assert hit.chunk_id == f"a#0-{len(raw)}"
    assert page.truncated
    rest = ask(Query(query="valve", max_chars=40, cursor=page.next_cursor), ranked(texts), texts)
    assert places(rest.hits) == [(8.0, "b", 0)]
    assert rest.next_cursor is None


def test_a_budget_that_is_just_enough_cuts_nothing() -> None:
    texts: dict[str, bytes | str] = {"a": b"valve", "b": b"valve"}
    page = ask(Query(query="valve", max_chars=10), ranked(texts), texts)
    assert (len(page.hits), page.truncated, page.next_cursor) == (2, False, None)


def test_a_budget_counts_characters_and_not_bytes() -> None:
    texts: dict[str, bytes | str] = {"a": "水温水温".encode(), "b": "水温水温".encode()}
    page = ask(Query(query="valve", max_chars=8), ranked(texts), texts)
    assert (len(page.hits), page.truncated) == (2, False)


def test_the_least_score_is_still_wanted() -> None:
    texts: dict[str, bytes | str] = {"a": b"valve", "b": b"valve", "c": b"valve"}
    page = ask(Query(query="valve", min_score=8.0), ranked(texts), texts)
    assert [hit.score for hit in page.hits] == [9.0, 8.0]
    assert page.next_cursor is None


def test_a_budget_that_leaves_no_room_for_the_next_hit_says_so() -> None:
    texts: dict[str, bytes | str] = {"a": b"valve", "b": b"valve"}
    page = ask(Query(query="valve", max_chars=5), ranked(texts), texts)
    assert (len(page.hits), page.truncated) == (1, True)
    assert page.next_cursor


def test_a_budget_counts_what_is_shown_of_broken_bytes() -> None:
    texts: dict[str, bytes | str] = {"a": b"\xff" * 50}
    page = ask(Query(query="valve", max_chars=7), ranked(texts), texts)
    assert page.hits[0].text == "\ufffd" * 7
    check(page.hits[0], b"\xff" * 50)


def test_a_page_that_ends_with_the_ranking_has_no_next() -> None:
    texts: dict[str, bytes | str] = {"a": b"valve", "b": b"valve"}
    assert ask(Query(query="valve", top_k=2), ranked(texts), texts).next_cursor is None
    assert ask(Query(query="valve", top_k=1), ranked(texts), texts).next_cursor is not None
    assert ask(Query(query="valve"), [], {}).next_cursor is None


def test_the_ranking_is_read_only_as_far_as_needed() -> None:
    texts: dict[str, bytes | str] = {str(number): b"valve" for number in range(100)}
    read = []

    def lazily() -> Iterator[Candidate]:
        for candidate in ranked(texts):
            read.append(candidate)
            yield candidate

    ask(Query(query="valve", top_k=3), lazily(), texts)  # type: ignore[arg-type]
    assert len(read) == 4


def test_what_cannot_be_loaded_is_warned_of_and_makes_room_for_others() -> None:
    texts: dict[str, bytes | str] = {"a": "a is gone.", "b": b"valve", "c": "c is gone.", "d": b"valve", "e": b"valve"}
    page = ask(Query(query="valve", top_k=2), ranked(texts), texts)
    assert [hit.source_id for hit in page.hits] == ["b", "d"]
    assert page.warnings == ("a is gone.", "c is gone.")
    rest = ask(Query(query="valve", top_k=2, cursor=page.next_cursor), ranked(texts), texts)
    assert [hit.source_id for hit in rest.hits] == ["e"]
    assert rest.warnings == ()


def test_an_answer_of_nothing_but_failures_ends() -> None:
    texts: dict[str, bytes | str] = {"a": "No.", "b": "No."}
    page = ask(Query(query="valve", top_k=1), ranked(texts), texts)
    assert (page.hits, page.warnings, page.next_cursor, page.truncated) == ((), ("No.",), None, False)


def test_warnings_come_once_and_in_order() -> None:
    texts: dict[str, bytes | str] = {"a": "late", "b": "early"}
    query = Query(query="valve", filter={"knid": "guide"})
    page = ask(query, ranked(texts), texts, warnings=["early", "early"])
    assert page.warnings[0] == "early"
    assert "'kind'" in page.warnings[1]
    assert page.warnings[2:] == ("late",)


def test_a_cursor_outlives_a_change_of_the_index() -> None:
    before: dict[str, bytes | str] = {"a": b"valve", "b": b"valve", "c": b"valve"}
    cursor = ask(Query(query="valve", top_k=2), ranked(before), before, revision="1").next_cursor
    # `b`, where the page before ended, is gone; two others came.
    after: dict[str, bytes | str] = {"a": b"valve", "a2": b"valve", "c": b"valve", "d": b"valve"}
    ranking = [
        Candidate(9.0, "a", 0, 5),
        Candidate(8.5, "a2", 0, 5),
        Candidate(7.0, "c", 0, 5),
        Candidate(1.0, "d", 0, 5),
    ]
    rest = ask(Query(query="valve", cursor=cursor), ranking, after, revision="2")
    assert [hit.source_id for hit in rest.hits] == ["c", "d"]
    assert len(rest.warnings) == 1
    assert "changed" in rest.warnings[0]


def test_ties_are_neither_lost_nor_repeated_between_pages() -> None:
    texts: dict[str, bytes | str] = dict.fromkeys("ab", b"valve valve")
    ranking = [Candidate(1.0, one, start, 11) for one in "ab" for start in (0, 6)]
    query, seen = Query(query="valve", top_k=1, per_source=2), []
    for _ in ranking:
        page = ask(query, ranking, texts)
        seen += places(page.hits)
        query = query.model_copy(update={"cursor": page.next_cursor})
    assert seen == [(1.0, "a", 0), (1.0, "a", 6), (1.0, "b", 0), (1.0, "b", 6)]
    assert query.cursor is None


@pytest.mark.parametrize(
    "change",
    [{"query": "other"}, {"filter": {"kind": "x"}}, {"min_score": 0.1}, {"per_source": 2}, {"mode": "keyword"}],
)
def test_a_cursor_belongs_to_its_question(change: dict[str, Any]) -> None:
    texts: dict[str, bytes | str] = {"a": b"valve", "b": b"valve"}
    cursor = ask(Query(query="valve", top_k=1), ranked(texts), texts).next_cursor
    with pytest.raises(InvalidCursorError, match="another request"):
        plan_query(Query.model_validate({"query": "valve", "cursor": cursor, **change}), ANALYZER)


@pytest.mark.parametrize("change", [{"top_k": 7}, {"max_chars": 9}, {"wait_s": 1.0}, {"filter": {}}])
def test_a_page_may_have_another_size_than_the_one_before(change: dict[str, Any]) -> None:
    texts: dict[str, bytes | str] = {"a": b"valve", "b": b"valve"}
    cursor = ask(Query(query="valve", top_k=1), ranked(texts), texts).next_cursor
    assert plan_query(Query.model_validate({"query": "valve", "cursor": cursor, **change}), ANALYZER).after


def test_filters_that_mean_the_same_share_their_pages() -> None:
    texts: dict[str, bytes | str] = {"a": b"valve", "b": b"valve"}
    query = Query(query="valve", top_k=1, filter={"kind": "x"})
    cursor = ask(query, ranked(texts), texts).next_cursor
    assert plan_query(query.model_copy(update={"filter": {"kind": {"eq": "x"}}, "cursor": cursor}), ANALYZER).after


def test_a_huge_page_is_taken_as_the_largest() -> None:
    assert plan_query(Query(query="valve", top_k=10**9), ANALYZER).top_k == MAX_TOP_K
    texts: dict[str, bytes | str] = {f"{number:05}": b"valve" for number in range(MAX_TOP_K + 5)}
    page = ask(Query(query="valve", top_k=10**9), ranked(texts), texts)
    assert len(page.hits) == MAX_TOP_K
    assert page.next_cursor


def test_a_query_has_a_longest_length() -> None:
    assert plan_query(Query(query="x" * MAX_QUERY_CHARS), ANALYZER).terms
    with pytest.raises(QueryTooLongError, match=str(MAX_QUERY_CHARS)):
        plan_query(Query(query="x" * (MAX_QUERY_CHARS + 1)), ANALYZER)


def test_a_wrong_filter_or_cursor_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InvalidFilterError):
        plan_query(Query(query="valve", filter={"kind": {"like": "x"}}), ANALYZER)
    with pytest.raises(InvalidCursorError):
        plan_query(Query(query="valve", cursor="page2"), ANALYZER)


def test_an_answer_says_how_it_was_made() -> None:
    page = ask(Query(query="valve", mode="vector"), [], {}, mode_used="none")
    assert (page.engine, page.mode_used, page.index.revision) == ("test", "none", "1")
    assert page.took_ms >= 0
    assert ask(Query(query="valve", mode="vector"), [], {}).mode_used == "keyword"


def test_a_hit_brings_what_was_loaded() -> None:
    texts: dict[str, bytes | str] = {"a": b"A valve."}
    (hit,) = ask(Query(query="valves"), ranked(texts), texts).hits
    assert (hit.title, hit.heading_path, hit.metadata, hit.backend) == ("T", ("H",), {"kind": "x"}, "")
    assert hit.snippet.marked("<", ">") == "A <valve>."


IDS = ["a.md", "b.md", "c/d.md", "z.md", "é.md"]


def page(**options: Any) -> SourcePage:
    asked = {"filter": None, "limit": 2, "cursor": None, "revision": "1", "known_keys": {"kind"}, "ids": IDS, **options}
    return page_sources(
        asked.pop("ids"),
        lambda one: Source(id=one, origin="text", uri="", title=one, bytes=0),
        lambda one: {"kind": "guide" if one < "c" else "note"},
        **asked,
    )


def listed(**options: Any) -> list[str]:
    found, cursor = [], None
    for _ in range(100):
        part = page(cursor=cursor, **options)
        found += [source.id for source in part.sources]
        cursor = part.next_cursor
        if cursor is None:
            return found
    return pytest.fail("pages without end")


@given(st.lists(st.text(max_size=3), unique=True), st.integers(1, 5))
def test_pages_of_a_listing_put_together_are_the_listing(ids: list[str], limit: int) -> None:
    assert listed(ids=sorted(ids), limit=limit) == sorted(ids)


def test_a_listing_counts_all_that_match() -> None:
    first = page(filter={"kind": "note"})
    assert ([source.id for source in first.sources], first.total) == (["c/d.md", "z.md"], 3)
    assert listed(filter={"kind": "note"}) == ["c/d.md", "z.md", "é.md"]
    assert page(filter={}).total == page().total == 5
    assert page(limit=5).next_cursor is None


def test_a_listing_has_a_largest_page() -> None:
    ids = [f"{number:05}" for number in range(MAX_PAGE + 1)]
    assert len(page(ids=ids, limit=10**9).sources) == MAX_PAGE
    assert len(listed(ids=ids, limit=10**9)) == MAX_PAGE + 1


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_holds_at_least_one(limit: int) -> None:
    with pytest.raises(InvalidArgumentError, match="limit"):
        page(limit=limit)


def test_only_the_sources_of_a_page_are_looked_up() -> None:
    asked: list[str] = []

    def source(one: str) -> Source:
        asked.append(one)
        return Source(id=one, origin="text", uri="", title=one, bytes=0)

    page_sources(IDS, source, lambda _: {}, filter=None, limit=2, cursor=None, revision="", known_keys=())
    assert asked == IDS[:2]


def test_a_listing_goes_on_after_a_change_and_says_so() -> None:
    cursor = page().next_cursor
    rest = page(ids=["a.md", "aa.md", "c/d.md"], cursor=cursor, revision="2")
    assert [source.id for source in rest.sources] == ["c/d.md"]
    assert "changed" in rest.warnings[0]
    assert page(cursor=cursor).warnings == ()


def test_a_listing_warns_of_keys_that_no_document_has() -> None:
    assert "'kind'" in page(filter={"kin": "note"}).warnings[0]
    with pytest.raises(InvalidFilterError):
        page(filter={"kind": {"~": "x"}})


def test_a_listing_takes_its_own_cursors_only() -> None:
    texts: dict[str, bytes | str] = {"a": b"valve", "b": b"valve"}
    of_query = ask(Query(query="valve", top_k=1), ranked(texts), texts).next_cursor
    for cursor in (of_query, "x", page(filter={"kind": "note"}).next_cursor):
        with pytest.raises(InvalidCursorError):
            page(cursor=cursor)
