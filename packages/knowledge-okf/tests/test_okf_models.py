"""Concepts and graphs: frozen, hashable, and ids that are given once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from knowledge_engine.errors import ConfigurationError, ConflictError, NotFoundError
from knowledge_okf import Concept, KnowledgeGraph, Stamp
from knowledge_okf.names import MAX_ID_CHARS, Names, check_path_map, folder_of, is_concept_id, slug


def graph(*ids: str) -> KnowledgeGraph:
    return KnowledgeGraph(concepts=tuple(Concept(id=each, title=each, see_also=ids) for each in ids))


def test_a_graph_cannot_be_changed_and_can_be_a_key() -> None:
    one = graph("a", "b")
    with pytest.raises(ValidationError):
        one.title = "x"
    assert {one: 1}[graph("a", "b")] == 1
    assert hash(one) != hash(graph("a"))


def test_adding_gives_a_new_graph() -> None:
    one = graph("a")
    two = one.add_concept(Concept(id="b", title="B"))
    assert ([c.id for c in one.concepts], [c.id for c in two.concepts]) == (["a"], ["a", "b"])
    with pytest.raises(ConflictError, match="'b'"):
        two.add_concept(Concept(id="b", title="B"))


def test_removing_gives_a_new_graph_to_which_nothing_leads() -> None:
    one = graph("a", "b")
    two = one.remove_concept("a")
    assert [c.id for c in two.concepts] == ["b"]
    assert two.concepts[0].see_also == ("b",)
    assert len(one) == 2
    with pytest.raises(NotFoundError, match="'x'"):
        one.remove_concept("x")


def test_unknown_ids_are_named_once_each() -> None:
    left, unknown = graph("a", "b").without(["x", "a", "x", "y"])
    assert (len(left), unknown) == (1, ("x", "y"))


def test_two_concepts_of_one_id_are_no_graph() -> None:
    with pytest.raises(ValidationError):
        KnowledgeGraph(concepts=(Concept(id="a", title="1"), Concept(id="a", title="2")))


@pytest.mark.parametrize(
    "name", ["", "index", "log", "a/b", "..", ".x", "a\\b", "a\x00", "a:b", "x.md", "\ud800", "a."]
)
def test_a_name_that_is_no_files_is_no_id(name: str) -> None:
    with pytest.raises(ValidationError):
        Concept(id=name, title="t")


@pytest.mark.parametrize(
    "folder", ["/etc", "../up", "a//b", "a/./b", "a/", "~/x", ".git", "a\\b", "c:d", "x.md", " ", "a" * 300]
)
def test_a_folder_never_leaves_the_bundle(folder: str) -> None:
    with pytest.raises(ValidationError):
        Concept(id="a", title="t", folder=folder)
    with pytest.raises(ConfigurationError, match="'tag'"):
        check_path_map({"tag": folder})


@pytest.mark.parametrize("folder", ["", "\ud800", "a\x00b"])
def test_what_is_no_name_is_no_folder(folder: str) -> None:
    with pytest.raises(ConfigurationError):
        check_path_map({"tag": folder})


def test_the_first_tag_with_a_folder_decides() -> None:
    paths = check_path_map({"b": "two", "a": "one/deep"})
    assert folder_of(("x", "a", "b"), paths) == "one/deep"
    assert folder_of(("x",), paths) == ""


def test_a_key_that_is_a_field_is_no_extra() -> None:
    with pytest.raises(ValidationError):
        Concept(id="a", title="t", extra=(("title", '"x"'),))


@pytest.mark.parametrize(
    ("stamps", "trust"),
    [
        ((), "unverified"),
        (("process:ci",), "machine-confirmed"),
        (("process:ci", "human:ann"), "human-reviewed"),
    ],
)
def test_trust_is_that_of_whoever_verified(stamps: tuple[str, ...], trust: str) -> None:
    assert Concept(id="a", title="t", verified=tuple(Stamp(by=each) for each in stamps)).trust == trust


@given(st.text(max_size=200))
def test_every_title_has_a_slug_that_is_an_id(title: str) -> None:
    name = Names().take(slug(title))
    assert is_concept_id(name)
    assert slug(name) == name


@given(
    st.lists(
        st.sampled_from(["Setup", "setup!", "Setup 1", "Setup 1-1", "index", "Log", "水", "水温", ""]), max_size=40
    )
)
def test_ids_that_collide_stay_apart(titles: list[str]) -> None:
    names = Names(["taken"])
    given_out = [names.take(slug(title)) for title in titles]
    assert len(set(given_out)) == len(given_out)
    assert all(map(is_concept_id, given_out))
    again = Names(["taken"])
    assert [again.take(slug(title)) for title in titles] == given_out


def test_long_ids_that_collide_stay_short() -> None:
    names = Names()
    long = slug("x" * 500)
    assert {len(names.take(long)) <= MAX_ID_CHARS for _ in range(1000)} == {True}
    assert "index" in names


@pytest.mark.parametrize("field", ["title", "body", "description", "source", "status"])
def test_halves_of_characters_are_no_text(field: str) -> None:
    with pytest.raises(ValidationError):
        Concept(**{"id": "a", "title": "t", field: "x\ud800"})
