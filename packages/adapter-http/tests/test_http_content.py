"""Conditions and ranges, as headers say them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_http.server.content import Range, is_known, media_type, parse_range, parse_tags
from knowledge_http.server.rendering import header_text, takes_gzip


@pytest.mark.parametrize("header", ["", "a", '"a', 'a"', '"a" "b"', 'w/"a"', '"a", *', "*, *x", '"a\x7f"'])
def test_a_malformed_header_names_no_version(header: str) -> None:
    assert parse_tags(header) is None
    assert not is_known(header, "a")


def test_versions_are_told_apart_from_weak_ones_and_from_any() -> None:
    tags = parse_tags('"a",W/"b" , "c"')
    assert tags is not None
    assert (tags.strong, tags.weak, tags.any) == (("a", "c"), ("b",), False)
    assert is_known('"x", W/"a"', "a")
    assert is_known("*", "whatever")
    assert not is_known(None, "a")


@pytest.mark.parametrize(
    "header",
    [None, "", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "lines=0-1", "bytes=0-1,3-4", "bytes=٣-٤"],
)
def test_what_is_no_single_range_asks_for_everything(header: str | None) -> None:
    assert parse_range(header) is None


@given(st.integers(0, 60), st.none() | st.integers(0, 60), st.integers(0, 50))
def test_a_range_is_the_slice_that_it_says(start: int, more: int | None, total: int) -> None:
    data = bytes(range(total))
    wanted = parse_range(f"bytes={start}-{'' if more is None else start + more}")
    assert wanted is not None
    expected = data[start:] if more is None else data[start : start + more + 1]
    found = wanted.resolve(total)
    assert (b"" if found is None else data[slice(*found)]) == expected


@given(st.integers(0, 60), st.integers(0, 50))
def test_a_suffix_is_the_end(count: int, total: int) -> None:
    data = bytes(range(total))
    found = (parse_range(f"bytes=-{count}") or Range()).resolve(total)
    assert (b"" if found is None else data[slice(*found)]) == (data[-count:] if count else b"")


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        ("", False), ("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0", False), ("gzip;q=0.000", False),
        ("identity", False), ("*", False), ("gzip; q=0.001", True), ("x-gzip", True), ("notgzip", False),
    ],
)  # fmt: skip
def test_gzip_is_for_those_who_name_it(header: str, asked: bool) -> None:
    assert takes_gzip(header) is asked


@given(st.text())
def test_any_text_can_stand_in_a_header(text: str) -> None:
    shown = header_text(text)
    assert all(0x20 <= byte < 0x7F for byte in shown)


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.js", "a.xhtml", "a", "a.json"])
def test_no_document_is_named_as_what_a_browser_runs(name: str) -> None:
    assert media_type(name) == b"text/plain; charset=utf-8"
