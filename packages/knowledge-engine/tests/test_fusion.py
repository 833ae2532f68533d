from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.citations import verify_citation
from knowledge_engine.cursors import encode_cursor
from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    InvalidArgumentError,
    InvalidCursorError,
    InvalidFilterError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    NotSupportedError,
    ProviderError,
    QueryTooLongError,
    ReadOnlyError,
    UnavailableError,
)
from knowledge_engine.filters import compile_filter
from knowledge_engine.fusion import FederatedProvider
from knowledge_engine.fusion.ids import local_filter
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import (
    MAX_TOP_K,
    ByteSpan,
    Capabilities,
    Health,
    Hit,
    IndexState,
    IngestRequest,
    Query,
    QueryResult,
    Source,
    SourcePage,
)
from knowledge_engine.ports import (
    ExplainingProvider,
    IKnowledgeProvider,
    IngestingProvider,
    RefreshableProvider,
    SupersedingProvider,
)
from knowledge_engine.service import KnowledgeService

LIMIT_S = 10
TEA = {"tea.md": b"# Tea\n\nGreen tea and more tea.", "x.md": b"Tea with milk."}
COFFEE = {"coffee.md": b"# Coffee\n\nBlack coffee, no tea.", "tea.md": b"# Tea\n\nGreen tea and more tea."}


def federated(**options: Any) -> FederatedProvider:
    return FederatedProvider({"a": MemoryProvider(TEA), "b": MemoryProvider(COFFEE)}, **options)


class Core:
    """A provider with no power but the contract's, over another one; `broken` is raised instead of any answer."""

    def __init__(self, inner: IKnowledgeProvider, broken: BaseException | None = None) -> None:
        self.inner, self.broken = inner, broken
        self.asked: list[Any] = []

    id = "core"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def _answer(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self.asked.append((name, args, kwargs))
        if self.broken is not None:
            raise self.broken
        return getattr(self.inner, name)(*args, **kwargs)

    def list_sources(self, **kwargs: Any) -> SourcePage:
        return self._answer("list_sources", **kwargs)

    def get_source(self, source_id: str) -> Source:
        return self._answer("get_source", source_id)

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> Any:
        return self._answer("read_source", source_id, span)

    def query(self, query: Query) -> QueryResult:
        return self._answer("query", query)

    def health_check(self) -> Health:
        return self._answer("health_check")

    def dispose(self) -> None:
        return self._answer("dispose")


class Hanging(MemoryProvider):
    """Hangs in queries and lists until it is let go."""

    def __init__(self, documents: Mapping[str, bytes] | None = None) -> None:
        super().__init__(documents)
        self.open = threading.Event()
        self.calls = 0

    def query(self, query: Query) -> QueryResult:
        self.calls += 1
        assert self.open.wait(LIMIT_S)
        return super().query(query)


def gone() -> UnavailableError:
    return UnavailableError("The line is dead", mend="Call again.")


def _all_pages(ask: Callable[[str | None], Any], field: str) -> list[Any]:
    found: list[Any] = []
    cursor = None
    for _ in range(10_000):
        page = ask(cursor)
        found += getattr(page, field)
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise AssertionError("the pages do not end")


# Ids


def test_it_is_a_provider_with_every_power() -> None:
    for port in (
        IKnowledgeProvider,
        IngestingProvider,
        SupersedingProvider,
        ExplainingProvider,
        RefreshableProvider,
    ):
        assert isinstance(federated(), port)
    assert federated().id == "federated"
    assert federated(id="both").id == "both"
    assert list(federated().backends) == ["a", "b"]


def test_ids_carry_the_name_of_their_backend_everywhere() -> None:
    provider = federated()
    assert [one.id for one in provider.list_sources().sources] == ["a:tea.md", "a:x.md", "b:coffee.md", "b:tea.md"]
    assert provider.get_source("b:coffee.md").id == "b:coffee.md"
    content = provider.read_source("b:coffee.md", ByteSpan(start=2, end=8))
    assert (content.source_id, content.content) == ("b:coffee.md", b"Coffee")
    for hit in provider.query(Query(query="tea")).hits:
        assert hit.source_id.startswith(f"{hit.backend}:")
        assert hit.chunk_id.startswith(f"{hit.source_id}#")
        assert verify_citation(provider, hit).status == "ok"
    explained = provider.explain("a:x.md")
    assert explained is not None
    assert explained.source_id == "a:x.md"


def test_an_id_without_a_known_name_is_not_found_and_the_names_are_told() -> None:
    provider = federated()
    for source_id in ("tea.md", "c:tea.md", "A:tea.md"):
        with pytest.raises(NotFoundError, match=r"BACKEND:ID; the backends are a, b\."):
            provider.get_source(source_id)
        assert provider.explain(source_id) is None
    for source_id in ("", "../tea.md", "a:", "a:../x.md", "c:/tea.md"):
        with pytest.raises(InvalidIdError):
            provider.read_source(source_id)
        assert provider.explain(source_id) is None
    with pytest.raises(NotFoundError):
        provider.get_source("a:coffee.md")


def test_a_federation_in_a_federation_keeps_both_names() -> None:
    outer = FederatedProvider({"in": federated(), "c": MemoryProvider(COFFEE)})
    found = outer.query(Query(query="coffee")).hits
    assert [hit.source_id for hit in found] == ["c:coffee.md", "in:b:coffee.md"]
    assert outer.read_source("in:b:coffee.md").content == COFFEE["coffee.md"]
    page = outer.list_sources(filter={"source_id": {"prefix": "in:b:"}})
    assert [one.id for one in page.sources] == ["in:b:coffee.md", "in:b:tea.md"]


@pytest.mark.parametrize("name", ["", "a:b", "1", "-a", "a b", "a/b", "x" * 64, "e\u0301", "a\n"])
def test_names_that_would_make_unclear_ids_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be named"):
        FederatedProvider({"ok": MemoryProvider(), name: MemoryProvider()})


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no backends"):
        FederatedProvider({})
    for options in ({"timeout_s": 0.0}, {"k": -1.0}, {"k": float("nan")}, {"max_abandoned": 0}):
        with pytest.raises(InvalidArgumentError):
            federated(**options)


# Fusion


def test_hits_score_by_their_rank_and_equal_ranks_come_by_id() -> None:
    found = federated().query(Query(query="tea")).hits
    assert [(hit.source_id, hit.score) for hit in found] == [
        ("a:tea.md", 1 / 61),
        ("b:tea.md", 1 / 61),
        ("a:x.md", 1 / 62),
        ("b:coffee.md", 1 / 62),
    ]
    assert [hit.score for hit in federated(k=1).query(Query(query="tea")).hits] == [1 / 2, 1 / 2, 1 / 3, 1 / 3]


def test_equal_documents_of_two_backends_are_two_hits() -> None:
    found = federated().query(Query(query="green tea", top_k=2)).hits
    assert [hit.source_id for hit in found] == ["a:tea.md", "b:tea.md"]
    assert found[0].content_hash == found[1].content_hash


def test_the_answer_says_how_it_was_made() -> None:
    result = federated().query(Query(query="tea"))
    assert (result.engine, result.mode_used, result.warnings, result.next_cursor) == ("rrf", "keyword", (), None)
    assert (result.index.state, result.index.documents) == ("ready", 4)


def test_min_score_is_compared_with_the_fused_score() -> None:
    found = federated().query(Query(query="tea", min_score=1 / 61)).hits
    assert [hit.source_id for hit in found] == ["a:tea.md", "b:tea.md"]
    assert not federated().query(Query(query="tea", min_score=1.0)).hits


def test_what_is_wrong_with_a_query_is_told_before_any_backend_is_asked() -> None:
    backend = Core(MemoryProvider(TEA))
    provider = FederatedProvider({"a": backend})
    with pytest.raises(QueryTooLongError):
        provider.query(Query(query="x" * 20_000))
    with pytest.raises(InvalidFilterError):
        provider.query(Query(query="tea", filter={"x": {"is": 1}}))
    with pytest.raises(InvalidCursorError):
        provider.query(Query(query="tea", cursor="nonsense"))
    with pytest.raises(InvalidFilterError):
        provider.list_sources(filter={"x": {"is": 1}})
    with pytest.raises(InvalidCursorError):
        provider.list_sources(cursor="nonsense")
    with pytest.raises(InvalidArgumentError, match="limit"):
        provider.list_sources(limit=0)
    assert backend.asked == []


def test_modes_that_differ_make_a_hybrid_answer() -> None:
    class Moded(MemoryProvider):
        def __init__(self, mode: str) -> None:
            super().__init__(TEA)
            self.mode = mode

        def query(self, query: Query) -> QueryResult:
            return super().query(query).model_copy(update={"mode_used": self.mode})

    def used(*modes: str) -> str:
        backends = {f"m{at}": Moded(mode) for at, mode in enumerate(modes)}
        return FederatedProvider(backends).query(Query(query="tea")).mode_used

    assert used("keyword", "vector") == "hybrid"
    assert used("vector", "none") == "vector"
    assert used("none", "none") == "none"


_WORDS = st.sampled_from(
    ["tea", "tea tea", "tea milk", "coffee", "tea and coffee", "# Tea\n\ntea\n\n## More\n\ntea sugar"]
)
_CORPUS = st.dictionaries(st.sampled_from(["a.md", "b.md", "d/c.md", "e.txt", "z.md"]), _WORDS, max_size=5)
_CORPORA = st.dictionaries(st.sampled_from(["a", "a-b", "b", "Z"]), _CORPUS, min_size=1, max_size=3)


def _providers(corpora: Mapping[str, Mapping[str, str]]) -> dict[str, MemoryProvider]:
    return {
        name: MemoryProvider({path: text.encode() for path, text in corpus.items()}) for name, corpus in corpora.items()
    }


@settings(deadline=None, max_examples=60)
@given(_CORPORA, st.integers(1, 4), st.integers(1, 3), st.sampled_from([None, 1 / 62, 1 / 63]))
def test_pages_put_together_are_the_whole_answer(
    corpora: dict[str, dict[str, str]], size: int, per_source: int, min_score: float | None
) -> None:
    provider = FederatedProvider(_providers(corpora))
    base = Query(query="tea", per_source=per_source, min_score=min_score)
    whole = provider.query(base.model_copy(update={"top_k": 1000})).hits
    pages = _all_pages(lambda cursor: provider.query(base.model_copy(update={"top_k": size, "cursor": cursor})), "hits")
    assert pages == list(whole)
    keys = [(-hit.score, hit.source_id, hit.span.start) for hit in whole]
    assert keys == sorted(set(keys))
    provider.dispose()


@settings(deadline=None, max_examples=60)
@given(_CORPUS, st.integers(1, 4), st.sampled_from([None, 1, 7, 12, 40]), st.integers(1, 2))
def test_one_backend_alone_gives_what_it_gives_itself(
    corpus: dict[str, str], top_k: int, max_chars: int | None, per_source: int
) -> None:
    (backend,) = _providers({"a": corpus}).values()
    query = Query(query="tea", top_k=top_k, max_chars=max_chars, per_source=per_source)
    own, outer = backend.query(query), FederatedProvider({"a": backend}).query(query)
    told = [
        hit.model_copy(update={"source_id": hit.source_id[2:], "backend": "", "score": 0.0, "chunk_id": ""})
        for hit in outer.hits
    ]
    assert told == [hit.model_copy(update={"score": 0.0, "chunk_id": ""}) for hit in own.hits]
    assert (outer.truncated, outer.next_cursor is None) == (own.truncated, own.next_cursor is None)


@settings(deadline=None, max_examples=60)
@given(_CORPORA, st.integers(1, 30))
def test_the_text_budget_holds_over_all_backends_and_pages_go_on_after_it(
    corpora: dict[str, dict[str, str]], max_chars: int
) -> None:
    provider = FederatedProvider(_providers(corpora))
    whole = provider.query(Query(query="tea", top_k=100)).hits

    def ask(cursor: str | None) -> QueryResult:
        page = provider.query(Query(query="tea", max_chars=max_chars, cursor=cursor))
        assert sum(len(hit.text) for hit in page.hits) <= max_chars
        assert page.next_cursor is None or page.truncated
        return page

    found: list[Hit] = _all_pages(ask, "hits")
    assert [hit.source_id for hit in found] == [hit.source_id for hit in whole]
    for hit, full in zip(found, whole, strict=True):
        assert full.text.startswith(hit.text)
        assert hit.text
        assert verify_citation(provider, hit).status == "ok"
        assert hit.span.start <= hit.snippet.span.start <= hit.snippet.span.end <= hit.span.end
    provider.dispose()


def test_the_snippet_of_a_cut_hit_stays_as_the_backend_made_it_where_it_fits() -> None:
    text = b"tea comes first. " + b"and then a lot of other words follow. " * 40
    provider = FederatedProvider({"a": MemoryProvider({"x.md": text})})
    (whole,), (cut,) = (provider.query(Query(query="tea", max_chars=limit)).hits for limit in (None, 600))
    assert len(cut.text) <= 600 < len(whole.text)
    assert cut.snippet == whole.snippet
    assert verify_citation(provider, cut).status == "ok"


def test_a_hit_that_is_no_text_is_cut_by_its_bytes() -> None:
    provider = FederatedProvider({"a": MemoryProvider({"x.md": b"tea \xff\xfe more and more tea"})})
    (hit,) = provider.query(Query(query="tea", max_chars=6)).hits
    assert (hit.text, hit.span) == ("tea \ufffd\ufffd", ByteSpan(start=0, end=6))
    assert verify_citation(provider, hit).status == "ok"


def test_a_hit_whose_bytes_cannot_be_had_for_the_cut_is_left_out() -> None:
    class Forgetful(MemoryProvider):
        def read_source(self, source_id: str, span: ByteSpan | None = None) -> Any:
            raise gone()

    backend = Forgetful({"x.md": b"tea \xff\xfe more and more tea"})
    result = FederatedProvider({"a": backend}).query(Query(query="tea", max_chars=6))
    assert result.hits == ()
    assert result.warnings == ("A hit of a:x.md is left out: The line is dead. Call again.",)


def test_a_backend_that_gives_few_at_once_is_asked_again() -> None:
    class Sparing(MemoryProvider):
        def query(self, query: Query) -> QueryResult:
            return super().query(query.model_copy(update={"top_k": min(2, query.top_k)}))

    documents = {f"{at:02}.md": b"tea" + b" filler" * at for at in range(9)}
    sparing, plain = FederatedProvider({"a": Sparing(documents)}), FederatedProvider({"a": MemoryProvider(documents)})
    whole = plain.query(Query(query="tea", top_k=9)).hits
    assert len(whole) == 9
    assert sparing.query(Query(query="tea", top_k=9)).hits == whole
    assert _all_pages(lambda cursor: sparing.query(Query(query="tea", top_k=4, cursor=cursor)), "hits") == list(whole)


def test_a_backend_whose_pages_are_empty_does_not_hold_up_the_others() -> None:
    class Endless(MemoryProvider):
        def query(self, query: Query) -> QueryResult:
            return QueryResult(engine="none", mode_used="none", next_cursor="more")

    result = FederatedProvider({"a": Endless(), "b": MemoryProvider(COFFEE)}).query(Query(query="coffee"))
    assert [hit.source_id for hit in result.hits] == ["b:coffee.md"]


def test_the_largest_page_still_knows_whether_there_is_more() -> None:
    documents = {f"{at:04}.md": b"tea" for at in range(MAX_TOP_K + 1)}
    provider = FederatedProvider({"a": MemoryProvider(documents)}, timeout_s=60)
    page = provider.query(Query(query="tea", top_k=5000))
    assert len(page.hits) == MAX_TOP_K
    rest = provider.query(Query(query="tea", top_k=5000, cursor=page.next_cursor))
    assert [hit.source_id for hit in rest.hits] == [f"a:{MAX_TOP_K:04}.md"]
    assert rest.next_cursor is None


@pytest.mark.parametrize("score", [0.0, -1.0, 2.0, 1e-300, 0.0151, 1 / 60, float("nan")])
def test_a_cursor_with_a_score_that_no_hit_has_is_refused(score: float) -> None:
    request = json.dumps(["query", "tea", compile_filter(None).canonical, None, None, 1])
    provider = federated()
    good = encode_cursor(request, "", [1 / 61, "a:tea.md", 0])
    assert provider.query(Query(query="tea", cursor=good)).hits[0].source_id == "b:tea.md"
    with pytest.raises(InvalidCursorError):
        provider.query(Query(query="tea", cursor=encode_cursor(request, "", [score, "a:tea.md", 0])))


def test_a_cursor_outlives_a_change_and_says_so() -> None:
    changing = MemoryProvider(COFFEE)
    provider = FederatedProvider({"a": MemoryProvider(TEA), "b": changing})
    page = provider.query(Query(query="tea", top_k=2))
    changing.ingest(IngestRequest(id="new.md", text="tea"))
    rest = provider.query(Query(query="tea", top_k=9, cursor=page.next_cursor))
    assert rest.hits
    assert rest.warnings == ("The index has changed since the page before: hits may be missing or come twice.",)


# Backends that fail


def test_a_broken_backend_is_a_warning_that_names_it() -> None:
    provider = FederatedProvider({"a": MemoryProvider(TEA), "sick": Core(MemoryProvider(), gone())})
    result = provider.query(Query(query="tea"))
    assert [hit.source_id for hit in result.hits] == ["a:tea.md", "a:x.md"]
    assert result.warnings == ("The backend 'sick' is left out: The line is dead. Call again.",)
    assert result.index.state == "stale"
    page = provider.list_sources()
    assert [one.id for one in page.sources] == ["a:tea.md", "a:x.md"]
    assert page.total == 2
    assert page.warnings == result.warnings
    with pytest.raises(UnavailableError, match="dead"):
        provider.get_source("sick:x.md")


def test_an_unforeseen_failure_leaks_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    broken = Core(MemoryProvider(), RuntimeError("password=hunter2"))
    result = FederatedProvider({"a": MemoryProvider(TEA), "sick": broken}).query(Query(query="tea"))
    assert len(result.hits) == 2
    (warning,) = result.warnings
    assert "'sick'" in warning
    assert "hunter2" not in warning
    assert "hunter2" in caplog.text
    with pytest.raises(ProviderError) as caught:
        FederatedProvider({"sick": broken}).query(Query(query="tea"))
    assert caught.value.__cause__ is broken.broken


def test_when_no_backend_answers_their_error_is_raised() -> None:
    def ask(*errors: KnowledgeError) -> None:
        backends = {f"b{at}": Core(MemoryProvider(), error) for at, error in enumerate(errors)}
        FederatedProvider(backends).query(Query(query="tea"))

    with pytest.raises(InvalidFilterError, match="First"):
        ask(InvalidFilterError("First", mend="Less."), InvalidFilterError("Second", mend="Less."))
    with pytest.raises(UnavailableError, match=r"No backend answers\. b0: The line is dead\..* b1: Full") as caught:
        ask(gone(), BusyError("Full", mend="Wait."))
    assert isinstance(caught.value.__cause__, UnavailableError)


def test_a_slow_backend_is_a_warning_and_the_others_answer() -> None:
    slow = Hanging(COFFEE)
    provider = FederatedProvider({"a": MemoryProvider(TEA), "slow": slow}, timeout_s=0.5)
    result = provider.query(Query(query="tea"))
    assert len(result.hits) == 2
    assert result.warnings == (
        "The backend 'slow' is left out: The backend 'slow' did not answer within 0.5 s. Try again later.",
    )
    slow.open.set()


def test_threads_that_hang_are_bounded_and_then_the_backend_is_left_out_at_once() -> None:
    slow = Hanging(COFFEE)
    provider = FederatedProvider(
        {"a": MemoryProvider(TEA), "slow": slow}, timeout_s=0.5, max_concurrent=1, max_abandoned=2
    )
    for _ in range(6):
        result = provider.query(Query(query="tea"))
        assert len(result.hits) == 2
    assert "2 calls to the backend 'slow' hang" in result.warnings[0]
    assert slow.calls == 2
    with pytest.raises(BusyError):
        provider.get_source("slow:coffee.md")
    slow.open.set()
    provider.dispose()


def test_a_backend_that_builds_its_index_is_asked_to_say_so_in_time() -> None:
    class Building(MemoryProvider):
        def query(self, query: Query) -> QueryResult:
            self.wait_s = query.wait_s
            return QueryResult(
                engine="bm25", mode_used="none", index=IndexState(state="building"), warnings=("Being built.",)
            )

    backend = Building()
    provider = FederatedProvider({"a": MemoryProvider(TEA), "b": backend}, timeout_s=5)
    result = provider.query(Query(query="tea"))
    assert (result.index.state, result.mode_used, result.warnings) == ("building", "keyword", ("b: Being built.",))
    assert backend.wait_s == 4
    provider.query(Query(query="tea", wait_s=0))
    assert backend.wait_s == 0


# Filters


_IDS = ["x", "0.5", "docs/x", "docs/y.md", "b:x", "a:x", "5", "true", "b", "2024-05-01", "é", "e\u0301"]
_TEXTS = st.one_of(
    st.sampled_from(
        ["a:x", "b:docs/x", "docs", "x", "", "a", "a:", ":", ":x", "b:b", "b:b:x", "a:docs/y.md", "a:é", "a:5"]
    ),
    st.text("ab:x/d.", max_size=5),
)
_SCALARS = st.one_of(_TEXTS, st.integers(0, 9), st.booleans(), st.none())
_LEAVES = st.one_of(
    st.tuples(st.sampled_from(["eq", "ne"]), _SCALARS),
    st.tuples(st.sampled_from(["in", "nin"]), st.lists(_SCALARS, max_size=3)),
    st.tuples(st.just("prefix"), _TEXTS),
    st.tuples(st.just("contains"), st.one_of(_TEXTS, st.integers(0, 9), st.booleans(), st.just(0.5))),
    st.tuples(st.sampled_from(["gt", "gte", "lt", "lte"]), st.one_of(_TEXTS, st.integers(0, 9))),
    st.tuples(st.just("exists"), st.booleans()),
)
_ON_KEY = st.recursive(
    st.one_of(_SCALARS, st.lists(_SCALARS, max_size=2), st.lists(_LEAVES, min_size=1, max_size=2).map(dict)),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"or": each}),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"and": each}),
        inner.map(lambda each: {"not": each}),
    ),
    max_leaves=3,
)
_FILTERS = st.recursive(
    st.dictionaries(st.sampled_from(["source_id", "kind"]), _ON_KEY, min_size=1, max_size=2),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"or": each}),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"and": each}),
        inner.map(lambda each: {"not": each}),
    ),
    max_leaves=3,
)


@settings(deadline=None, max_examples=300)
@given(_FILTERS)
def test_a_condition_on_the_outer_id_means_the_same_to_each_backend(filter: dict[str, Any]) -> None:
    outer = compile_filter(filter)
    for name in ("a", "b"):
        own = compile_filter(local_filter(filter, name))
        for source_id in _IDS:
            for metadata in ({}, {"kind": "x"}, {"kind": ["a:x", 5]}):
                assert own.matches(metadata, source_id) == outer.matches(metadata, f"{name}:{source_id}")


def test_no_filter_is_no_filter() -> None:
    assert local_filter(None, "a") is None
    assert local_filter({}, "a") is None


def test_queries_are_filtered_by_outer_ids() -> None:
    found = federated().query(Query(query="tea", filter={"source_id": ["a:x.md", "b:tea.md"]})).hits
    assert sorted(hit.source_id for hit in found) == ["a:x.md", "b:tea.md"]


def test_a_key_that_only_one_backend_knows_is_no_reason_to_warn() -> None:
    backends = {
        "a": MemoryProvider({"x.md": b"---\nkind: guide\n---\ntea"}),
        "b": MemoryProvider({"y.md": b"tea"}),
    }
    provider = FederatedProvider(backends)
    assert provider.query(Query(query="tea", filter={"kind": "guide"})).warnings == ()
    (warning,) = provider.list_sources(filter={"knd": "guide"}).warnings
    assert warning.startswith("No document has the metadata key 'knd'")
    assert "kind" in warning
    doubtful = provider.query(Query(query="tea", filter={"kind": {"gt": "soon"}})).warnings
    assert len(doubtful) == 1
    assert doubtful[0].startswith("'soon' is neither number nor date")


# Lists


@settings(deadline=None, max_examples=60)
@given(_CORPORA, st.integers(1, 4), st.sampled_from([None, {"source_id": {"contains": "b"}}, {"kind": "none"}]))
def test_listed_pages_put_together_are_the_whole_list(
    corpora: dict[str, dict[str, str]], limit: int, filter: dict[str, Any] | None
) -> None:
    provider = FederatedProvider(_providers(corpora))
    whole = provider.list_sources(filter=filter, limit=1000)
    ids = [one.id for one in whole.sources]
    every = sorted(f"{name}:{path}" for name, corpus in corpora.items() for path in corpus)
    assert ids == [one for one in every if compile_filter(filter).matches({}, one)]
    assert whole.total == len(ids)
    assert whole.next_cursor is None

    def ask(cursor: str | None) -> SourcePage:
        page = provider.list_sources(filter=filter, limit=limit, cursor=cursor)
        assert page.total == whole.total
        assert len(page.sources) == limit or page.next_cursor is None
        return page

    assert _all_pages(ask, "sources") == list(whole.sources)
    provider.dispose()


def test_a_list_goes_on_behind_a_backend_that_fails_meanwhile() -> None:
    flaky = Core(MemoryProvider(COFFEE))
    provider = FederatedProvider({"a": MemoryProvider(TEA), "b": flaky, "c": MemoryProvider(TEA)})
    page = provider.list_sources(limit=3)
    assert [one.id for one in page.sources] == ["a:tea.md", "a:x.md", "b:coffee.md"]
    flaky.broken = gone()
    rest = provider.list_sources(limit=3, cursor=page.next_cursor)
    assert [one.id for one in rest.sources] == ["c:tea.md", "c:x.md"]
    assert "'b' is left out" in rest.warnings[0]


def test_a_backend_that_fails_while_a_page_is_filled_is_left_out() -> None:
    class Once(MemoryProvider):
        def list_sources(self, *, limit: int = 100, **kwargs: Any) -> SourcePage:
            if limit > 1:
                raise gone()
            return super().list_sources(limit=limit, **kwargs)

    provider = FederatedProvider({"a": MemoryProvider(TEA), "b": Once(COFFEE), "c": MemoryProvider(COFFEE)})
    page = provider.list_sources()
    assert [one.id for one in page.sources] == ["a:tea.md", "a:x.md", "c:coffee.md", "c:tea.md"]
    assert "'b' is left out" in page.warnings[0]


def test_the_cursor_of_a_list_is_checked() -> None:
    provider = federated()
    page = provider.list_sources(limit=1)
    with pytest.raises(InvalidCursorError, match="another request"):
        provider.list_sources(cursor=page.next_cursor, filter={"kind": "x"})
    request = json.dumps(["federated list", compile_filter(None).canonical])
    with pytest.raises(InvalidCursorError):
        provider.list_sources(cursor=encode_cursor(request, "", ["a", "nonsense"]))
    removed = provider.list_sources(cursor=encode_cursor(request, "", ["aa", "whatever"]))
    assert [one.id for one in removed.sources] == ["b:coffee.md", "b:tea.md"]
    assert removed.warnings == ("The corpus has changed since the page before.",)
    assert provider.list_sources(cursor=encode_cursor(request, "", ["zz", ""])).sources == ()


# State


def test_the_index_is_ready_when_all_are_and_has_the_documents_of_all() -> None:
    def state(*states: IndexState | None) -> IndexState:
        class Stated(MemoryProvider):
            def __init__(self, index: IndexState | None) -> None:
                super().__init__()
                self.index = index

            def health_check(self) -> Health:
                return Health(index=self.index) if self.index else Health(status="down")

        return FederatedProvider({f"s{at}": Stated(one) for at, one in enumerate(states)}).health_check().index

    ready, building = IndexState(documents=2, skipped=1, revision="r"), IndexState(state="building", revision="q")
    both = state(ready, ready)
    assert (both.state, both.documents, both.skipped) == ("ready", 4, 2)
    assert state(ready, building).state == "building"
    assert state(ready, IndexState(state="stale", revision="q")).state == "stale"
    assert state(ready, None).state == "stale"
    revisions = {state(ready, ready).revision, state(ready, building).revision, state(ready, None).revision}
    assert len(revisions | {state(building, ready).revision, state(None, ready).revision}) == 5
    assert state(ready, IndexState()).revision == ""


def test_answers_and_health_tell_the_same_revision_and_it_follows_each_backend() -> None:
    changing = MemoryProvider(COFFEE)
    provider = FederatedProvider({"a": MemoryProvider(TEA), "b": changing})
    again = FederatedProvider({"b": MemoryProvider(COFFEE), "a": MemoryProvider(TEA)})
    before = provider.health_check().index
    assert before == provider.query(Query(query="tea")).index == again.health_check().index
    changing.ingest(IngestRequest(id="new.md", text="tea"))
    assert provider.health_check().index.revision != before.revision


def test_health_is_degraded_when_some_backend_is_and_down_when_all_are() -> None:
    sick, well = Core(MemoryProvider(), gone()), MemoryProvider({"bad.md": b"---\nno: [end\n", "b.md": b"\xff\xfea\0"})
    health = FederatedProvider({"well": well, "sick": sick}).health_check()
    assert (health.status, health.message) == ("degraded", "sick: The line is dead. Call again.")
    assert {issue.path for issue in health.issues} == {"well:bad.md"}
    assert [one.path for one in health.skipped] == ["well:b.md"]
    assert health.details["sick"] == {"status": "down", "message": "The line is dead. Call again.", "details": {}}
    assert FederatedProvider({"sick": sick, "other": sick}).health_check().status == "down"
    assert FederatedProvider({"well": MemoryProvider()}).health_check().status == "ok"


def test_capabilities_are_those_of_all_together() -> None:
    class Able(MemoryProvider):
        def __init__(self, **stated: Any) -> None:
            super().__init__()
            self.stated = Capabilities(**stated)

        @property
        def capabilities(self) -> Capabilities:
            return self.stated

    def together(*backends: IKnowledgeProvider) -> Capabilities:
        return FederatedProvider({f"b{at}": backend for at, backend in enumerate(backends)}).capabilities

    assert together(Able(vector_search=True), Able()).vector_search
    assert together(Able(hybrid_search=True), Able()).hybrid_search
    assert not together(Able(citations=False), Able()).citations
    assert together(Able(max_chunk_bytes=5), Able(max_chunk_bytes=7)).max_chunk_bytes == 7
    assert together(Able(max_chunk_bytes=5), Able()).max_chunk_bytes is None
    assert together(Able(writable=True), Able()).writable
    assert not together(Able(), Able()).writable
    assert not together(Core(MemoryProvider())).writable


def test_the_service_works_over_a_federation() -> None:
    service = KnowledgeService(federated())
    assert service.resolve_id("a:tea.md") == "a:tea.md"
    assert [one.id for one in service.list(query="coffee").sources] == ["b:coffee.md"]
    assert len(service.changes().added) == 4
    assert service.status().backend == "federated"


# Writing


def test_documents_are_written_to_the_backend_that_the_id_names() -> None:
    provider = federated()
    assert provider.ingest(IngestRequest(id="b:new.md", text="oolong")).id == "b:new.md"
    (hit,) = provider.query(Query(query="oolong")).hits
    assert hit.source_id == "b:new.md"
    with pytest.raises(NotFoundError):
        provider.get_source("a:new.md")
    provider.delete_source("b:new.md", if_match=provider.get_source("b:new.md").content_hash)
    assert provider.query(Query(query="oolong")).hits == ()


def test_an_id_that_names_no_backend_is_refused_for_writing() -> None:
    provider = federated()
    for source_id in ("new.md", "c:new.md"):
        with pytest.raises(InvalidIdError, match=r"names no backend.*the backends are a, b"):
            provider.ingest(IngestRequest(id=source_id, text="x"))
    with pytest.raises(NotFoundError):
        provider.delete_source("c:new.md")


def test_a_document_without_an_id_goes_to_the_only_backend_that_can_be_written() -> None:
    with pytest.raises(InvalidArgumentError, match=r"could go to any.*a, b"):
        federated().ingest(IngestRequest(title="New", text="x"))
    provider = FederatedProvider({"a": Core(MemoryProvider(TEA)), "b": MemoryProvider()})
    assert provider.ingest(IngestRequest(title="New", text="x")).id.startswith("b:sources/new")
    with pytest.raises(InvalidArgumentError, match="No backend can be written"):
        FederatedProvider({"a": Core(MemoryProvider(TEA))}).ingest(IngestRequest(title="New", text="x"))


def test_a_backend_that_cannot_be_written_says_so() -> None:
    class Locked(MemoryProvider):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities()

    provider = FederatedProvider({"core": Core(MemoryProvider(TEA)), "locked": Locked(TEA)})
    for name, error in (("core", NotSupportedError), ("locked", ReadOnlyError)):
        with pytest.raises(error, match=repr(name)):
            provider.ingest(IngestRequest(id=f"{name}:new.md", text="x"))
        with pytest.raises(error, match=repr(name)):
            provider.delete_source(f"{name}:x.md")


def test_one_document_replaces_another_of_the_same_backend_only() -> None:
    provider = FederatedProvider(
        {"a": MemoryProvider(TEA), "b": MemoryProvider(COFFEE), "core": Core(MemoryProvider(TEA))}
    )
    provider.supersede("a:tea.md", by="a:x.md")
    found = provider.query(Query(query="tea", filter={"source_id": {"prefix": "a:"}})).hits
    assert [hit.source_id for hit in found] == ["a:x.md"]
    with pytest.raises(NotSupportedError, match="another backend"):
        provider.supersede("a:x.md", by="b:tea.md")
    with pytest.raises(NotSupportedError, match="'core'"):
        provider.supersede("core:x.md", by="core:tea.md")


def test_a_backend_that_does_not_explain_is_explained_by_its_sources() -> None:
    class Hashless(Core):
        def get_source(self, source_id: str) -> Source:
            return super().get_source(source_id).model_copy(update={"content_hash": None})

    explained = MemoryProvider(TEA).explain("x.md")
    assert explained is not None
    for backend in (Core(MemoryProvider(TEA)), Hashless(MemoryProvider(TEA))):
        found = FederatedProvider({"core": backend}).explain("core:x.md")
        assert found is not None
        assert (found.source_id, found.content_hash) == ("core:x.md", explained.content_hash)
        assert FederatedProvider({"core": backend}).explain("core:y.md") is None
    assert federated().explain("a:y.md") is None


# Freshness


class Fresh(MemoryProvider):
    def __init__(self, changed: bool | KnowledgeError = False) -> None:
        super().__init__(TEA)
        self.changed = changed
        self.refreshed: list[Sequence[str] | None] = []
        self.forgotten = 0

    def refresh(self, paths: Sequence[str] | None = None) -> bool:
        self.refreshed.append(paths)
        if isinstance(self.changed, KnowledgeError):
            raise self.changed
        return self.changed

    def invalidate(self) -> None:
        self.forgotten += 1


def test_refreshing_reaches_every_backend_that_can() -> None:
    still, changed = Fresh(), Fresh(changed=True)
    assert FederatedProvider({"a": still, "b": changed, "c": MemoryProvider()}).refresh()
    assert not FederatedProvider({"a": still, "c": MemoryProvider()}).refresh()
    assert not FederatedProvider({"c": MemoryProvider()}).refresh()
    assert (still.refreshed, changed.refreshed) == ([None, None], [None])


def test_refreshing_some_paths_reaches_their_backends_only() -> None:
    first, second = Fresh(), Fresh(changed=True)
    provider = FederatedProvider({"a": first, "b": second})
    assert not provider.refresh(["a:x.md", "a:docs"])
    assert provider.refresh(["b:"])
    assert provider.refresh(["a:x.md", "."])
    assert first.refreshed == [["x.md", "docs"], None]
    assert second.refreshed == [["."], None]
    assert not provider.refresh(["x.md", "c:x.md"])
    assert len(first.refreshed) == 2
    with pytest.raises(InvalidIdError):
        provider.refresh(["../x.md"])


def test_a_refresh_that_fails_somewhere_does_not_stop_the_answers() -> None:
    assert FederatedProvider({"a": Fresh(gone()), "b": Fresh(changed=True)}).refresh()
    with pytest.raises(UnavailableError, match="dead"):
        FederatedProvider({"a": Fresh(gone()), "b": Fresh(gone())}).refresh()


def test_forgetting_reaches_every_backend_that_can() -> None:
    first, second = Fresh(), Fresh()
    FederatedProvider({"a": first, "b": second, "c": MemoryProvider()}).invalidate()
    assert (first.forgotten, second.forgotten) == (1, 1)


# The end


def test_after_dispose_every_backend_is_disposed_of_and_calls_are_refused() -> None:
    backends = {"a": MemoryProvider(TEA), "b": MemoryProvider(COFFEE)}
    provider = FederatedProvider(backends)
    provider.query(Query(query="tea"))
    provider.dispose()
    provider.dispose()
    assert [backend.health_check().status for backend in backends.values()] == ["down", "down"]
    assert provider.health_check().status == "down"
    calls: list[Callable[[], object]] = [
        lambda: provider.query(Query(query="tea")),
        lambda: provider.list_sources(),
        lambda: provider.get_source("a:x.md"),
        lambda: provider.ingest(IngestRequest(id="a:x.md", text="x")),
        lambda: provider.refresh(),
        lambda: provider.invalidate(),
    ]
    for call in calls:
        with pytest.raises(UnavailableError, match="disposed of"):
            call()


def test_a_backend_that_fails_or_hangs_in_dispose_does_not_keep_the_others() -> None:
    class Stuck(MemoryProvider):
        open = threading.Event()

        def dispose(self) -> None:
            assert self.open.wait(LIMIT_S)

    last = MemoryProvider(TEA)
    provider = FederatedProvider(
        {"stuck": Stuck(), "sick": Core(MemoryProvider(), gone()), "last": last}, timeout_s=0.5
    )
    with pytest.raises(UnavailableError, match="dead"):
        provider.dispose()
    assert last.health_check().status == "down"
    Stuck.open.set()


def test_many_threads_may_ask_at_once() -> None:
    provider = federated(max_concurrent=2)
    answers: list[list[str]] = []

    def ask() -> None:
        answers.extend([hit.source_id for hit in provider.query(Query(query="tea")).hits] for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 60
    assert all(answer == answers[0] for answer in answers)
    provider.dispose()


def test_what_one_backend_raises_comes_out_coded_and_without_its_words() -> None:
    class Broken(MemoryProvider):
        def get_source(self, source_id: str) -> Source:
            raise RuntimeError("hunter22 in /srv/kb")

    provider = FederatedProvider({"one": Broken({"a.md": b"x"})})
    with pytest.raises(ProviderError) as raised:
        provider.get_source("one:a.md")
    assert "hunter22" not in str(raised.value)
    provider.dispose()
