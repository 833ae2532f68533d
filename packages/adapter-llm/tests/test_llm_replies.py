"""What models write, read: any wrapping, no invented halves, and no exception but the one."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue, RootModel

from knowledge_llm.replies import ReplyProblem, read_reply


class Concept(BaseModel):
    id: str
    title: str


class Found(BaseModel):
    concepts: list[Concept]


class Anything(RootModel[JsonValue]):
    pass


def found(*titles: str) -> str:
    return json.dumps({"concepts": [{"id": "valve", "title": title} for title in titles]})


TITLES = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3)


@given(
    TITLES, st.sampled_from(["```json\n{}\n```", "~~~\n{}\n~~~", "```\n{}", "So:\n\n```JSON\n{}\n```\nDone.", " {}\n"])
)
def test_whatever_it_is_wrapped_in_it_reads_the_same(titles: list[str], wrapping: str) -> None:
    assert [each.title for each in read_reply(wrapping.replace("{}", found(*titles)), Found).concepts] == titles


def test_fences_within_strings_end_nothing() -> None:
    inner = "Write ```yaml blocks\n```\nx\n```"
    for text in (
        found(inner),
        f"```json\n{found(inner)}\n```",
        f"```json\n{json.dumps(json.loads(found(inner)), indent=2)}\n```",
    ):
        assert read_reply(text, Found).concepts[0].title == inner


def test_the_first_of_two_blocks_is_the_answer() -> None:
    assert read_reply(f"```json\n{found('a')}\n```\nor\n```json\n{found('b')}\n```", Found).concepts[0].title == "a"


@given(st.integers(min_value=0, max_value=200))
def test_no_piece_of_an_answer_that_was_cut_off_is_taken(length: int) -> None:
    whole = found("Valve", "Pump")
    for text in (whole[:length], f"```json\n{whole[:length]}", f"So: {whole[:length]}"):
        if length >= len(whole):
            assert len(read_reply(text, Found).concepts) == 2
        else:
            with pytest.raises(ReplyProblem):
                read_reply(text, Found)


@given(st.text() | st.text(alphabet='{}[]",:`\n\\ax1'))
def test_any_text_is_an_answer_or_a_problem(text: str) -> None:
    with contextlib.suppress(ReplyProblem):
        assert read_reply(text, Found)


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=5))
def test_json_of_any_kind_is_read_where_the_schema_takes_it(value: JsonValue) -> None:
    text = json.dumps(value)
    if "\\ud" not in text:
        assert read_reply(text, Anything).root == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"concepts": [{"id": 5, "title": null}]}', "concepts.0.id: string_type; concepts.0.title: string_type"),
        ('{"concepts": 1, "concepts": 2}', "one key twice"),
        ('{"concepts": NaN}', "NaN"),
        ("no", "not one whole JSON value"),
        (json.dumps({"concepts": [{}] * 9}), "..."),
    ],
)
def test_a_problem_names_the_place(text: str, said: str) -> None:
    with pytest.raises(ReplyProblem) as caught:
        read_reply(text, Found)
    assert said in str(caught.value)


def test_a_place_made_of_the_models_words_is_cut_and_clean() -> None:
    class Named(BaseModel):
        items: dict[str, int]

    with pytest.raises(ReplyProblem) as caught:
        read_reply(json.dumps({"items": {"\x1b" + "k" * 1_000: "x"}}), Named)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("open_with", ["[", '{"a":', '{"concepts": ['])
def test_what_is_nested_without_end_is_a_problem(open_with: str) -> None:
    for text in (open_with * 100_000, f"```\n{open_with * 100_000}\n```"):
        with pytest.raises(ReplyProblem):
            read_reply(text, Found)
