"""One tree of errors, and the form in which they leave the process."""

from __future__ import annotations

import copy
import json
import logging
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine import errors
from knowledge_engine.errors import (
    ConfigurationError,
    KnowledgeError,
    NotFoundError,
    ProviderError,
    error_from_wire,
    wire_error,
)


def tree(root: type[KnowledgeError] = KnowledgeError) -> list[type[KnowledgeError]]:
    return [
        root,
        *(one for child in root.__subclasses__() if child.__module__ == errors.__name__ for one in tree(child)),
    ]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [error.code for error in tree()]
    assert len(set(codes)) == len(codes) > 20


def test_every_error_of_the_module_belongs_to_the_tree() -> None:
    public = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)}
    assert public == set(tree())


def test_only_what_may_pass_by_itself_is_worth_trying_again() -> None:
    assert {error.code for error in tree() if error.retryable} == {"busy", "unavailable"}


@pytest.mark.parametrize("problem", ["No such pump", "No such pump."])
def test_the_message_is_the_problem_and_the_mend(problem: str) -> None:
    error = NotFoundError(problem, mend="Name another.")
    assert str(error) == "No such pump. Name another."
    assert (error.problem, error.mend) == (problem, "Name another.")


@pytest.mark.parametrize("error", tree(), ids=lambda error: error.code)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_can_cross_processes(error: type[KnowledgeError], again: object) -> None:
    assert callable(again)
    other = again(error("It broke", mend="Mend it."))
    assert type(other) is error
    assert (str(other), other.problem, other.mend) == ("It broke. Mend it.", "It broke", "Mend it.")


def test_an_error_raised_on_purpose_is_told_as_it_is() -> None:
    told = wire_error(NotFoundError("No 'a'", mend="Try 'b'."))
    assert told == {"code": "not-found", "message": "No 'a'. Try 'b'.", "mend": "Try 'b'.", "id": ""}


def test_any_other_error_is_logged_once_and_hidden(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "knowledge_engine"):
        told = wire_error(ZeroDivisionError("/home/someone secret"))
    assert told["code"] == "internal"
    assert "secret" not in json.dumps(told)
    assert told["id"]
    assert told["id"] in told["mend"]
    assert [record.getMessage() for record in caplog.records] == [f"internal error {told['id']}"]
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[0] is ZeroDivisionError


def test_two_hidden_errors_have_two_ids() -> None:
    assert wire_error(ValueError())["id"] != wire_error(ValueError())["id"]


@pytest.mark.parametrize("error", tree()[1:], ids=lambda error: error.code)
def test_an_error_that_went_over_the_wire_is_the_same_again(error: type[KnowledgeError]) -> None:
    sent = error("It broke", mend="Mend it.")
    again = error_from_wire(json.loads(json.dumps(wire_error(sent))))
    assert type(again) is error
    assert (str(again), again.problem, again.mend) == ("It broke. Mend it.", "It broke.", "Mend it.")


@pytest.mark.parametrize("code", ["internal", "of-another-version", "", None, 7, ["not-found"]])
def test_an_error_of_an_unknown_code_is_one_of_the_backend(code: object) -> None:
    error = error_from_wire({"code": code, "message": "It broke. Mend it.", "mend": "Mend it.", "id": "x"})
    assert type(error) is ProviderError
    assert str(error) == "It broke. Mend it."


def test_a_class_of_somebody_else_takes_no_code_away() -> None:
    class Mine(ConfigurationError):
        code = "not-found"

    assert type(error_from_wire(wire_error(Mine("It broke", mend="Mend it.")))) is NotFoundError


def test_rubbish_is_an_error_of_the_backend_that_says_something() -> None:
    error = error_from_wire({})
    assert type(error) is ProviderError
    assert str(error) == "The other side failed. Ask whoever runs it."
    assert len(str(error_from_wire({"message": "x" * 10**6, "mend": "y" * 10**6}))) < 5_000


@given(st.dictionaries(st.sampled_from(["code", "message", "mend", "id"]), st.none() | st.text() | st.integers()))
def test_whatever_comes_is_an_error_with_a_mend(wire: dict[str, object]) -> None:
    error = error_from_wire(wire)
    assert error.mend.strip() or wire.get("mend")
    assert str(error)
