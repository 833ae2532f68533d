"""URIs of documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_mcp.uris import MAX_URI_CHARS, SCHEME, ids_of, media_type, uri_of

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@given(IDS)
def test_every_id_comes_back_from_its_uri(source_id: str) -> None:
    assert ids_of(uri_of(source_id))[0] == source_id


@given(IDS)
def test_a_uri_holds_nothing_that_a_reader_of_uris_takes_apart(source_id: str) -> None:
    rest = uri_of(source_id).removeprefix(SCHEME)
    assert rest.isascii()
    assert rest.isprintable()
    assert not set(rest) & set(" :?#@[]\\^|<>\"'`{}")


@given(IDS.filter(lambda text: "%" not in text))
def test_an_id_put_into_the_template_as_it_is_is_understood(source_id: str) -> None:
    assert ids_of(SCHEME + source_id) == (source_id,)


def test_where_a_percent_sign_may_be_its_own_both_readings_are_tried() -> None:
    assert ids_of("knowledge://100%25.md") == ("100%.md", "100%25.md")
    assert ids_of("KNOWLEDGE://a.md") == ("a.md",)


@pytest.mark.parametrize("uri", ["", "knowledge://", "file:///etc/passwd", "knowledge:a", "k" * 10, "\0"])
def test_other_uris_mean_nothing(uri: str) -> None:
    assert ids_of(uri) == ()


def test_a_uri_that_is_too_long_means_nothing() -> None:
    assert ids_of(SCHEME + "a" * MAX_URI_CHARS) == ()


def test_half_a_character_makes_a_uri_all_the_same() -> None:
    assert uri_of("a\ud800") == "knowledge://a%3F"


@pytest.mark.parametrize(
    ("source_id", "expected"),
    [("a.md", "text/markdown"), ("x/b.YML", "application/yaml"), ("c.json", "application/json"), ("d", "text/plain")],
)
def test_the_ending_says_what_a_document_is(source_id: str, expected: str) -> None:
    assert media_type(source_id) == expected
