"""The values that go in and out: strict, frozen, and the same on the wire."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    DocumentIssue,
    Hit,
    IngestRequest,
    Query,
    QueryResult,
    Snippet,
    Value,
)


def span(start: int, end: int) -> ByteSpan:
    return ByteSpan(start=start, end=end)


def snippet(raw: bytes, *marks: tuple[int, int], base: int = 0) -> Snippet:
    return Snippet(
        text=raw.decode(errors="replace"),
        span=span(base, base + len(raw)),
        highlights=tuple(span(base + start, base + end) for start, end in marks),
    )


def hit(**changes: Any) -> Hit:
    fields: dict[str, Any] = {
        "source_id": "a.md",
        "chunk_id": "a.md#0-3",
        "title": "A",
        "text": "tea",
        "snippet": snippet(b"tea", (0, 3)),
        "score": 1.5,
        "span": span(0, 3),
        "content_hash": hashlib.sha256(b"tea").hexdigest(),
    }
    return Hit(**{**fields, **changes})


def test_a_query_needs_its_text_alone() -> None:
    query = Query(query="tea")
    assert query.model_dump() == {
        "query": "tea",
        "top_k": 10,
        "filter": None,
        "mode": None,
        "min_score": None,
        "per_source": 1,
        "max_chars": None,
        "cursor": None,
        "wait_s": None,
    }


def test_names_may_come_in_either_spelling() -> None:
    camel = {"query": "q", "topK": 3, "minScore": 0.5, "perSource": 2, "maxChars": 9, "waitS": 0}
    snake = {"query": "q", "top_k": 3, "min_score": 0.5, "per_source": 2, "max_chars": 9, "wait_s": 0}
    assert (
        Query.model_validate(camel)
        == Query.model_validate(snake)
        == Query(query="q", top_k=3, min_score=0.5, per_source=2, max_chars=9, wait_s=0)
    )
    assert Query.model_validate_json(json.dumps(camel)) == Query.model_validate(snake)
    assert IngestRequest.model_validate({"id": "a", "text": "x", "ifMatch": ""}).if_match == ""


def test_what_goes_out_is_spelt_one_way() -> None:
    assert "top_k" in json.loads(Query(query="q").model_dump_json())


@pytest.mark.parametrize(
    "fields",
    [
        {"top_k": "3"},
        {"top_k": 3.0},
        {"top_k": True},
        {"top_k": 0},
        {"topK": -1},
        {"query": 7},
        {"query": b"q"},
        {"per_source": 0},
        {"max_chars": 0},
        {"min_score": "1"},
        {"min_score": float("nan")},
        {"wait_s": -0.1},
        {"wait_s": float("inf")},
        {"mode": "magic"},
        {"filter": []},
        {"cursor": 1},
        {"top-k": 3},
        {"limit": 3},
    ],
)
def test_a_query_of_the_wrong_shape_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Query.model_validate({"query": "q", **fields})


def test_a_value_does_not_change() -> None:
    with pytest.raises(ValidationError):
        Query(query="q").top_k = 3  # type: ignore[misc]


@given(st.integers(0, 99), st.integers(0, 99))
def test_a_span_ends_where_it_starts_or_later(start: int, end: int) -> None:
    if end >= start:
        assert span(start, end).end == end
    else:
        with pytest.raises(ValidationError, match="ends where it starts"):
            span(start, end)


def test_a_span_does_not_begin_before_the_document() -> None:
    with pytest.raises(ValidationError):
        span(-1, 3)


def test_an_issue_reads_like_a_compiler_s() -> None:
    issue = DocumentIssue(code="fence-unclosed", severity="warning", path="a.md", line=7, message="A fence is open")
    assert str(issue) == "a.md:7: warning: A fence is open [fence-unclosed]"
    assert str(issue.model_copy(update={"mend": "Close it."})).endswith("[fence-unclosed] Close it.")


def test_marks_go_around_the_matching_words() -> None:
    raw = "naïve tea für 水温!".encode()
    at = raw.index("水".encode())
    shown = snippet(raw, (0, 6), (at, at + 6), base=40)
    assert shown.marked("<", ">") == "<naïve> tea für <水温>!"
    assert snippet(b"tea").marked("<", ">") == "tea"
    assert snippet(b"").marked("<", ">") == ""


def test_marks_without_signs_change_nothing() -> None:
    assert snippet("ä tea".encode(), (0, 2), (3, 6)).marked("", "") == "ä tea"


@pytest.mark.parametrize("raw", [b"\xff tea", b"tea \xe6\xb0", b"\xf0\x9f tea"])
def test_bytes_that_are_not_utf8_come_back_unmarked(raw: bytes) -> None:
    assert snippet(raw, (0, 1)).marked("<", ">") == raw.decode(errors="replace")


def test_a_hole_as_wide_as_its_sign_can_be_marked() -> None:
    assert snippet(b"\xf0\x9f\xa7 tea", (4, 7)).marked("<", ">") == "\ufffd <tea>"


def test_marks_that_cut_letters_apart_do_not_fail() -> None:
    assert "<" in snippet("水 tea".encode(), (1, 2)).marked("<", ">")
    assert Snippet(text="\ud800", span=span(0, 1), highlights=(span(0, 1),)).marked("<", ">") == "<?>"


def test_a_hit_is_untrusted_and_cannot_say_otherwise() -> None:
    assert hit().untrusted is True
    with pytest.raises(ValidationError):
        hit(untrusted=False)


@pytest.mark.parametrize("wrong", ["", "abc", "A" * 64, "g" * 64, "0" * 65, "0" * 64 + "\n"])
def test_a_hash_is_64_small_hex_digits(wrong: str) -> None:
    with pytest.raises(ValidationError):
        hit(content_hash=wrong)


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_is_a_number(score: float) -> None:
    with pytest.raises(ValidationError):
        hit(score=score)


def test_an_answer_is_the_same_after_a_journey() -> None:
    result = QueryResult(hits=(hit(metadata={"kind": "guide", "tags": ["a"]}),), engine="bm25", mode_used="keyword")
    assert QueryResult.model_validate_json(result.model_dump_json()) == result
    assert QueryResult.model_validate(json.loads(result.model_dump_json())) == result


def test_an_ingest_takes_one_body() -> None:
    with pytest.raises(ValidationError, match="not both"):
        IngestRequest(content=b"", text="")
    assert IngestRequest(content=b"").text is None


def test_unknown_fields_are_refused() -> None:
    for model, fields in ((Capabilities, {"search": True}), (IngestRequest, {"body": "x"}), (ByteSpan, {"length": 1})):
        kind: type[Value] = model
        with pytest.raises(ValidationError):
            kind.model_validate({"start": 0, "end": 0, **fields} if kind is ByteSpan else fields)
