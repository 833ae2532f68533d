"""What ingesting stores, and under which id."""

from __future__ import annotations

import hashlib
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    InvalidFrontmatterError,
    NotFoundError,
    NotSupportedError,
)
from knowledge_engine.frontmatter import parse_frontmatter
from knowledge_engine.fs import check_path
from knowledge_engine.fs.paths import is_hidden
from knowledge_engine.models import IngestRequest
from knowledge_engine.writing import check_match, document_bytes, document_id, free_id, slugify, unsupported_kind

titles = st.text() | st.text("./\\ ~-_:C\x00\u0301İßน้ำ水\ud800é", max_size=400)


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Boiler: first start", "boiler-first-start"),
        ("  ../..//etc/passwd  ", "etc-passwd"),
        ("modbus_tcp__notes", "modbus-tcp-notes"),
        ("Größe der Düse", "größe-der-düse"),
        ("İstanbul", "istanbul"),
        ("น้ำมัน", "น้ำมัน"),
        ("हिन्दी में", "हिन्दी-में"),
        ("水温（上限）", "水温-上限"),
        ("cafe\u0301 creme", "café-creme"),
    ],
)
def test_a_slug_is_the_title_in_small_letters_of_its_own_script(title: str, slug: str) -> None:
    assert slugify(title) == slug


@pytest.mark.parametrize("title", ["", "...", "/", "\ud800", "!?", "\u0301", "❤"])
def test_a_title_without_letters_gives_a_hash_of_the_content(title: str) -> None:
    assert slugify(title, b"text") == hashlib.sha256(b"text").hexdigest()[:16]
    assert len(slugify(title)) == 16


@given(titles)
@example("水" * 100)
@example("a" * 119 + "\U0001f9ea" + "é")
def test_a_slug_is_always_a_file_name(title: str) -> None:
    slug = slugify(title)
    check_path(f"sources/{slug}.md")
    assert "/" not in slug
    assert not is_hidden(slug + ".md")
    assert 0 < len(slug.encode()) <= 120
    assert slug == slug.strip("-")


@given(titles)
def test_a_slug_does_not_depend_on_how_letters_are_composed(title: str) -> None:
    short = title[:40]
    assert slugify(unicodedata.normalize("NFC", short), b"x") == slugify(unicodedata.normalize("NFD", short), b"x")


@given(titles)
def test_a_slug_is_its_own_slug(title: str) -> None:
    assert slugify(slugify(title)) == slugify(title)


def test_a_huge_title_is_cut_at_once() -> None:
    assert slugify("ab " * 2_000_000) == ("ab-" * 40).rstrip("-")


def test_a_given_id_is_taken_as_it_is() -> None:
    assert document_id(IngestRequest(id="a/b.md", title="Other", text="x"), b"x") == "a/b.md"


def test_without_an_id_the_title_names_the_document_and_else_its_content() -> None:
    assert document_id(IngestRequest(title="Two words", text="x"), b"x") == "sources/two-words.md"
    digest = hashlib.sha256(b"raw").hexdigest()[:16]
    assert document_id(IngestRequest(content=b"raw"), b"raw") == f"sources/{digest}.md"


def test_titles_with_one_slug_are_two_documents() -> None:
    stored: dict[str, bytes] = {}

    def put(title: str | None, text: str) -> str:
        request = IngestRequest(title=title, text=text)
        data = document_bytes(request, None)
        path = free_id(request, data, stored.get)
        stored[path] = data
        return path

    first, second = put("C++", "one"), put("C#", "two")
    assert first == "sources/c.md"
    assert second != first
    assert (put("C++", "three"), put("C#", "four")) == (first, second)
    assert len(stored) == 2
    # Also when the first is gone: a document keeps its id.
    del stored[first]
    assert put("C#", "five") == second
    assert put(None, "six") == put(None, "six")


def test_a_title_does_not_replace_a_document_that_has_none() -> None:
    request = IngestRequest(title="Notes", text="x")
    assert free_id(request, b"x", {"sources/notes.md": b"# Notes\n"}.get) not in ("sources/notes.md", "")
    assert (
        free_id(IngestRequest(id="sources/notes.md", title="N", text="x"), b"x", lambda _: b"y") == "sources/notes.md"
    )


def test_content_is_stored_byte_for_byte() -> None:
    content = b"\xef\xbb\xbf---\r\ntitle: A\r\n---\r\n\xff\x00"
    assert document_bytes(IngestRequest(content=content), None) == content
    assert document_bytes(IngestRequest(content=b""), b"before") == b""


@pytest.mark.parametrize("extra", [{"title": "T"}, {"title": ""}, {"metadata": {"kind": "guide"}}])
def test_content_cannot_be_given_a_title_or_metadata(extra: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match="`text`"):
        document_bytes(IngestRequest.model_validate({"content": b"x", **extra}), None)


def test_text_is_stored_below_its_metadata() -> None:
    raw = document_bytes(IngestRequest(title="On: off", text="Body\n", metadata={"tags": ["yes"], "n": 1.5}), None)
    front = parse_frontmatter(raw)
    assert front.metadata == {"title": "On: off", "tags": ["yes"], "n": 1.5}
    assert raw[front.body_start :].strip() == b"Body"


def test_the_title_wins_over_a_title_in_the_metadata() -> None:
    raw = document_bytes(IngestRequest(title="A", text="", metadata={"title": "B"}), None)
    assert parse_frontmatter(raw).metadata["title"] == "A"


def test_metadata_alone_changes_what_is_stored_and_not_its_text() -> None:
    before = b"---\ntitle: A # why\nkind: guide\n---\nBody \xff\n"
    raw = document_bytes(IngestRequest(id="a.md", metadata={"kind": "note"}), before)
    assert raw == before.replace(b"guide", b"note")


def test_metadata_of_a_document_that_does_not_exist_is_refused() -> None:
    with pytest.raises(NotFoundError, match=r"a\.md"):
        document_bytes(IngestRequest(id="a.md", title="T"), None)


@pytest.mark.parametrize("request_", [IngestRequest(), IngestRequest(id="a.md"), IngestRequest(title="T")])
def test_there_must_be_something_to_store(request_: IngestRequest) -> None:
    with pytest.raises(InvalidArgumentError, match="nothing to store"):
        document_bytes(request_, b"x")


def test_metadata_that_does_not_parse_is_not_rewritten() -> None:
    with pytest.raises(InvalidFrontmatterError):
        document_bytes(IngestRequest(id="a.md", title="T"), b"---\n: [\n---\nx")


def test_a_version_matches_exactly_when_its_hash_does() -> None:
    check_match(None, None)
    check_match(None, b"x")
    check_match("", None)
    check_match(hashlib.sha256(b"x").hexdigest(), b"x")


@pytest.mark.parametrize(
    ("if_match", "stored", "says"),
    [
        ("", b"x", "exists already"),
        (hashlib.sha256(b"x").hexdigest(), b"y", "not the version"),
        (hashlib.sha256(b"x").hexdigest(), None, "not the version"),
        (hashlib.sha256(b"x").hexdigest().upper(), b"x", "not the version"),
    ],
)
def test_another_version_is_a_conflict(if_match: str, stored: bytes | None, says: str) -> None:
    with pytest.raises(ConflictError, match=says):
        check_match(if_match, stored)


def test_an_unsupported_kind_names_the_supported_ones() -> None:
    error = unsupported_kind("video", "text, url")
    assert isinstance(error, NotSupportedError)
    assert "'video'" in error.problem
    assert "text, url" in error.mend
