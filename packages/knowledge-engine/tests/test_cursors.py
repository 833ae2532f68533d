"""Cursors come back as they went or not at all; revisions follow a corpus."""

from __future__ import annotations

import base64
import json
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_engine.cursors import Revision, decode_cursor, encode_cursor
from knowledge_engine.errors import InvalidCursorError

KEY = (float, str, int)
texts = st.text(st.characters() | st.sampled_from("\ud800\U0001f9ea"))
keys = st.tuples(st.floats(allow_nan=False), texts, st.integers(0, 1 << 60))
documents = st.lists(st.tuples(texts, st.sampled_from("abc")), unique=True)


def forged(data: object, request: str = "q") -> str:
    """A cursor with any content, and the right mark of the request."""
    digest = json.loads(base64.urlsafe_b64decode(encode_cursor(request, "", []) + "=="))[0]
    return base64.urlsafe_b64encode(json.dumps([digest, *data] if isinstance(data, list) else data).encode()).decode()


@given(texts, texts, keys)
def test_a_cursor_brings_back_what_it_was_made_of(request: str, revision: str, key: tuple[float, str, int]) -> None:
    cursor = decode_cursor(encode_cursor(request, revision, list(key)), request, *KEY)
    assert (cursor.revision, tuple(cursor.after)) == (revision, key)


@pytest.mark.parametrize("char", ["a", "ä", "水", "\U0001f9ea"])
def test_the_longest_ids_fit_into_a_cursor(char: str) -> None:
    source_id = char * (4096 // len(char.encode()))
    assert decode_cursor(encode_cursor("q", "r" * 24, [1.25, source_id, 10**12]), "q", *KEY).after[1] == source_id


@given(texts, keys)
def test_a_cursor_can_stand_in_a_url(request: str, key: tuple[float, str, int]) -> None:
    assert set(encode_cursor(request, "", list(key))) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    )


@given(texts, texts)
def test_a_cursor_serves_its_own_request_only(request: str, other: str) -> None:
    cursor = encode_cursor(request, "r", ["a"])
    if request != other:
        with pytest.raises(InvalidCursorError, match="another request"):
            decode_cursor(cursor, other, str)


@given(st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
@example("A")
@example("====")
@example("Ω")
@example("\ud800")
@example("MQ\n")
@example("x" * 5_000_000)
@example(base64.urlsafe_b64encode(b"[" * 10_000).decode())
@example(base64.urlsafe_b64encode(b"1" * 6_000).decode())
@example(base64.urlsafe_b64encode(b'{"a":1,"b":2,"c":3}').decode())
@example(base64.urlsafe_b64encode(b'"abc"').decode())
@example(base64.urlsafe_b64encode('["é","r",["a"]]'.encode("utf-16")).decode())
def test_what_is_not_a_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursorError):
        decode_cursor(text, "q", str)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=4)
)


@given(json_values)
@example(["r", [True, "a", 1]])
@example(["r", [1, "a", 1]])
@example(["r", [1.0, "a", True]])
@example(["r", [1.0, "a", 1, 1]])
@example(["r", [1.0, "a"]])
@example([1, [1.0, "a", 1]])
@example(["r", "abc"])
@example(["r"])
@example(None)
def test_a_forged_cursor_is_refused_unless_its_key_has_the_right_types(data: object) -> None:
    try:
        cursor = decode_cursor(forged(data), "q", *KEY)
    except InvalidCursorError:
        return
    assert isinstance(cursor.revision, str)
    assert tuple(map(type, cursor.after)) == KEY


def test_a_cursor_has_a_longest_length() -> None:
    with pytest.raises(InvalidCursorError):
        decode_cursor(encode_cursor("q", "r", ["x" * 40_000]), "q", str)


@given(st.data())
def test_a_cut_cursor_is_refused(data: st.DataObject) -> None:
    whole = encode_cursor("q", "revision", [2.5, "guides/start.md", 7])
    with pytest.raises(InvalidCursorError):
        decode_cursor(whole[: data.draw(st.integers(0, len(whole) - 1))], "q", *KEY)


def revision(parts: list[tuple[str, str]]) -> Revision:
    made = Revision()
    for part in parts:
        made.add(*part)
    return made


@given(documents, st.randoms())
def test_a_revision_does_not_depend_on_the_order_of_documents(parts: list[tuple[str, str]], random: Random) -> None:
    shuffled = parts[:]
    random.shuffle(shuffled)
    assert revision(parts).value == revision(shuffled).value


@given(documents, documents)
def test_taking_out_undoes_taking_in(parts: list[tuple[str, str]], others: list[tuple[str, str]]) -> None:
    changed = revision(parts)
    for other in others:
        changed.add(*other)
    for other in reversed(others):
        changed.remove(*other)
    assert changed.value == revision(parts).value


@given(documents, documents)
def test_other_documents_have_another_revision(parts: list[tuple[str, str]], others: list[tuple[str, str]]) -> None:
    assert (revision(parts).value == revision(others).value) == (set(parts) == set(others))


def test_a_copied_revision_goes_its_own_way() -> None:
    first = revision([("a", "1")])
    second = first.copy()
    second.remove("a", "1")
    assert first.value == revision([("a", "1")]).value
    assert second.value == Revision().value == "0" * 24
