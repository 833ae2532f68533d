"""What only shows when documents are seen together."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.corpus_issues import corpus_issues
from knowledge_engine.models import Metadata


def found(documents: dict[str, Metadata]) -> list[tuple[str, str]]:
    return [(issue.path, issue.code) for issue in corpus_issues(documents)]


def test_documents_of_their_own_have_no_issues() -> None:
    assert found({"a.md": {"id": "a"}, "b.md": {"id": "b"}, "c.md": {}, "d.md": {}}) == []


def test_of_equal_ids_the_later_paths_are_at_fault() -> None:
    documents: dict[str, Metadata] = {"z.md": {"id": "pump"}, "b.md": {"id": "pump"}, "c/a.md": {"id": "pump"}}
    assert found(documents) == [("c/a.md", "duplicate-id"), ("z.md", "duplicate-id")]
    issue = corpus_issues(documents)[0]
    assert (issue.severity, issue.line) == ("error", 0)
    assert "'pump'" in issue.message
    assert "b.md" in issue.message


def test_ids_that_are_no_text_claim_nothing() -> None:
    assert (
        found({"a.md": {"id": ""}, "b.md": {"id": ""}, "c.md": {"id": 1}, "d.md": {"id": 1}, "e.md": {"id": ["x"]}})
        == []
    )


def test_paths_that_differ_only_in_case_are_named() -> None:
    assert found({"Pump.md": {}, "pump.md": {}, "STRASSE.md": {}, "straße.md": {}}) == [
        ("pump.md", "id-case-collision"),
        ("straße.md", "id-case-collision"),
    ]


@given(
    st.dictionaries(st.text("abAB/", min_size=1, max_size=3), st.sampled_from(["", "x", "y"]), max_size=12),
    st.randoms(),
)
def test_issues_do_not_depend_on_the_order_of_documents(ids: dict[str, str], random: Random) -> None:
    documents: dict[str, Metadata] = {path: {"id": claimed} for path, claimed in ids.items()}
    items = list(documents.items())
    random.shuffle(items)
    assert corpus_issues(dict(items)) == corpus_issues(documents)
    assert found(documents) == sorted(found(documents))
