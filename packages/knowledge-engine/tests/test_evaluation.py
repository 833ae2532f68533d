from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine import (
    IngestRequest,
    InvalidArgumentError,
    KnowledgeService,
    MemoryProvider,
    evaluate,
    read_golden,
)
from knowledge_engine.evaluation import GoldenQuery
from knowledge_engine.models import MAX_QUERY_CHARS, Query, QueryResult

GOOD = {"query": "valve", "expected": ["a.md"]}


like_a_line = st.recursive(
    st.text() | st.floats() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["query", "expected", "id", "filter"]), inner),
)


def lines(*told: object) -> bytes:
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in told)


def service(**documents: str) -> KnowledgeService:
    provider = MemoryProvider()
    for name, text in documents.items():
        provider.ingest(IngestRequest(id=f"{name}.md", content=text.encode()))
    return KnowledgeService(provider)


def test_a_line_is_a_query_with_its_documents_and_may_have_a_name_and_a_filter() -> None:
    raw = b"\xef\xbb\xbf" + lines(
        GOOD, b"  \r", GOOD | {"id": "q", "expected": {"a": 2, "b": 0}, "filter": {"kind": "x"}}
    )
    golden = read_golden(raw)
    assert golden.errors == golden.warnings == ()
    assert golden.queries == (
        GoldenQuery(id="line 1", line=1, query="valve", expected={"a.md": 1}),
        GoldenQuery(id="q", line=3, query="valve", expected={"a": 2, "b": 0}, filter={"kind": "x"}),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "It is not JSON, from column 2 on"),
        (b"[]", "It is not a JSON object"),
        (b"\xff", "It is not UTF-8"),
        (b"[" * 100_000, "It is no JSON that can be read"),
        (b'{"query": ' + b"1" * 5_000 + b"}", "It is no JSON that can be read"),
        (b'{"query": "a", "expected": {"a": NaN}}', "NaN is not JSON"),
        (b'{"query": "a", "query": "b", "expected": ["a"]}', "The key 'query' is there twice"),
        (b'{"query": "a", "expected": {"a": 1, "a": 2}}', "The key 'a' is there twice"),
        (b'{"query": "\\ud800", "expected": ["a"]}', "It holds half of a surrogate pair"),
        ({"expected": ["a"]}, "`query` has to be a text with at least one word"),
        (GOOD | {"query": " \t"}, "`query` has to be a text with at least one word"),
        (GOOD | {"query": 3}, "`query` has to be a text with at least one word"),
        (GOOD | {"query": "x" * (MAX_QUERY_CHARS + 1)}, "`query` has more than 10,000 characters"),
        (GOOD | {"id": 3}, "`id` has to be a text"),
        (GOOD | {"id": ""}, "`id` has to be a text"),
        (GOOD | {"filter": ["a"]}, "`filter` has to be an object"),
        (GOOD | {"expect": 1}, "There is no key 'expect'"),
        ({"query": "a"}, "`expected` has to be a list of document ids, or grades by document id"),
        (GOOD | {"expected": "a"}, "`expected` has to be a list of document ids, or grades by document id"),
        (GOOD | {"expected": [1]}, "`expected` holds something that is no text"),
        (GOOD | {"expected": []}, "`expected` names no relevant document"),
        (GOOD | {"expected": {"a": 0}}, "`expected` names no relevant document"),
        (GOOD | {"expected": ["", "a"]}, "`expected` names no relevant document"),
        (GOOD | {"expected": {"a": True}}, "The grade of 'a' is no number from 0 to 30"),
        (GOOD | {"expected": {"a": -1}}, "The grade of 'a' is no number from 0 to 30"),
        (GOOD | {"expected": {"a": 1e308}}, "The grade of 'a' is no number from 0 to 30"),
        (GOOD | {"expected": {"a" * 200: "1"}}, f"The grade of '{'a' * 80}…' is no number from 0 to 30"),
    ],
)
def test_a_wrong_line_is_told_with_its_number_and_hides_no_other(line: object, message: str) -> None:
    golden = read_golden(lines(GOOD, line, GOOD | {"query": "other"}), "g.jsonl")
    assert [(one.line, one.path, one.code, one.message) for one in golden.errors] == [
        (2, "g.jsonl", "golden-line", message)
    ]
    assert golden.errors[0].mend
    assert [query.line for query in golden.queries] == [1, 3]


def test_a_filter_that_no_backend_takes_is_told_by_its_line() -> None:
    (error,) = read_golden(lines(GOOD | {"filter": {"kind": {"$nope": 1}}})).errors
    assert (error.line, "$nope" in error.message) == (1, True)


@pytest.mark.parametrize("raw", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_a_file_without_a_query_is_an_error(raw: bytes) -> None:
    assert [one.code for one in read_golden(raw).errors] == ["golden-empty"]


def test_a_query_id_that_is_there_already_is_told_with_the_line_of_the_first() -> None:
    golden = read_golden(lines(GOOD | {"id": "q"}, GOOD, GOOD | {"id": "q", "query": "other"}))
    assert [(one.line, one.message) for one in golden.errors] == [(3, "The query id 'q' is on line 1 already")]


def test_a_query_asked_twice_is_a_warning_and_counts_twice() -> None:
    golden = read_golden(lines(GOOD, GOOD, GOOD | {"filter": {"kind": "x"}}))
    assert [(one.line, one.severity, one.message) for one in golden.warnings] == [
        (2, "warning", "The same is asked on line 1, so it counts twice")
    ]
    assert len(golden.queries) == 3


@given(st.binary(max_size=200) | like_a_line.map(lambda told: json.dumps(told).encode()))
def test_whatever_a_file_holds_is_read_or_told(raw: bytes) -> None:
    golden = read_golden(raw)
    assert golden.queries or golden.errors
    for query in golden.queries:
        assert query.query.strip()
        assert any(query.expected.values())


def test_figures_are_means_over_the_queries() -> None:
    corpus = service(a="valve valve", b="valve and a longer text about pumps", c="pumps")
    golden = read_golden(
        lines({"query": "valve", "expected": {"b.md": 1}}, {"query": "pumps", "expected": ["c.md", "z.md"]})
    )
    found = evaluate(corpus, golden.queries, (2, 1, 2))
    assert [query.found for query in found.queries] == [("a.md", "b.md"), ("c.md", "b.md")]
    assert found.metrics == pytest.approx(
        {
            "recall@1": (0 + 1 / 2) / 2,
            "mrr@1": (0 + 1) / 2,
            "ndcg@1": (0 + 1) / 2,
            "recall@2": (1 + 1 / 2) / 2,
            "mrr@2": (1 / 2 + 1) / 2,
            "ndcg@2": (0.6309297535714575 + 1 / 1.6309297535714575) / 2,
        }
    )
    assert list(found.metrics)[:3] == ["recall@1", "mrr@1", "ndcg@1"]
    assert [(query.line, query.missed) for query in found.misses] == [(2, ("z.md",))]


def test_an_expected_document_that_is_not_there_is_a_warning_and_a_miss() -> None:
    golden = read_golden(lines(GOOD | {"expected": ["a.md", "gone.md", "../x"]}))
    found = evaluate(service(a="valve"), golden.queries, path="g.jsonl")
    assert [str(one).split(": ", 2)[:2] for one in found.warnings] == [["g.jsonl:1", "warning"]] * 2
    assert {one.message for one in found.warnings} == {
        "'gone.md' is not in this backend",
        "'../x' is not in this backend",
    }
    assert found.queries[0].missed == ("../x", "gone.md")
    assert found.metrics["recall@10"] == pytest.approx(1 / 3)


def test_documents_may_be_named_by_their_frontmatter_id_and_count_once_with_the_higher_grade() -> None:
    corpus = service(a="---\nid: guide.a\n---\nvalve", b="---\nid: twice\n---\n", c="---\nid: twice\n---\n")
    expected = {"a.md": 1, "guide.a": 3, "twice": 1}
    found = evaluate(corpus, [GoldenQuery(id="q", query="valve", expected=expected)])
    assert found.queries[0].expected == {"a.md": 3, "twice": 1}
    assert [(one.code, one.message) for one in found.warnings] == [
        ("golden-same-document", "'guide.a' is there under another name"),
        ("golden-unknown-id", "'twice' means several documents of this backend"),
    ]


def test_the_misses_begin_with_the_worst_query_and_the_missed_with_the_highest_grade() -> None:
    corpus = service(a="valve", b="pump")
    asked = lines(
        {"query": "valve", "expected": ["a.md", "z.md"]},
        {"query": "pump", "expected": {"x.md": 1, "y.md": 2}},
        {"query": "pump valve", "expected": ["b.md"]},
    )
    found = evaluate(corpus, read_golden(asked).queries)
    assert [(query.id, query.missed) for query in found.misses] == [("line 2", ("y.md", "x.md")), ("line 1", ("z.md",))]


class Paging(MemoryProvider):
    """Gives one hit a page, however many are asked for."""

    def query(self, query: Query) -> QueryResult:
        return super().query(query.model_copy(update={"top_k": 1}))


def test_a_backend_with_small_pages_is_asked_for_the_next_ones() -> None:
    provider = Paging()
    for name in "abc":
        provider.ingest(IngestRequest(id=f"{name}.md", content=b"valve"))
    asked = [GoldenQuery(id="q", query="valve", expected={"c.md": 1})]
    assert evaluate(KnowledgeService(provider), asked).queries[0].found == ("a.md", "b.md", "c.md")
    assert evaluate(KnowledgeService(provider), asked, (2,)).queries[0].found == ("a.md", "b.md")


def test_filters_of_a_query_are_obeyed() -> None:
    corpus = service(a="---\nkind: x\n---\nvalve", b="valve valve")
    asked = GoldenQuery(id="q", query="valve", expected={"a.md": 1}, filter={"kind": "x"})
    assert evaluate(corpus, [asked]).queries[0].found == ("a.md",)


@pytest.mark.parametrize("at", [(), (0,), (1_001,)])
def test_depths_out_of_range_are_refused(at: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"from 1 to 1,000"):
        evaluate(service(), [], at)


def test_no_query_has_no_figures() -> None:
    with pytest.raises(InvalidArgumentError, match="no query"):
        evaluate(service(a="valve"), [])


def test_below_names_the_figures_that_are_lower_and_refuses_those_not_measured() -> None:
    found = evaluate(service(a="valve", b="valve"), [GoldenQuery(id="q", query="valve", expected={"b.md": 1})])
    assert found.below({"recall@10": 1, "mrr@10": 0.5, "ndcg@10": 0.64}) == {"ndcg@10": found.metrics["ndcg@10"]}
    with pytest.raises(InvalidArgumentError, match="recall@10, mrr@10, ndcg@10"):
        found.below({"recall@5": 1})


def test_progress_is_told_after_each_query() -> None:
    seen = list[int]()
    evaluate(service(a="valve"), read_golden(lines(GOOD, GOOD)).queries, told=seen.append)
    assert seen == [1, 2]
