"""Errors over WAMP: what goes out says enough and no more, and what comes in is never taken at its word."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from autobahn.exception import PayloadExceededError
from autobahn.wamp.exception import ApplicationError, SerializationError, TransportLost
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    InvalidArgumentError,
    KnowledgeError,
    NotFoundError,
    NotSupportedError,
    ProviderError,
    ReadOnlyError,
    TooLargeError,
    UnavailableError,
)
from knowledge_wamp.errors import REFUSALS, error_uri, from_call, raised, refusal
from knowledge_wamp.topics import uri_problem


def kinds(of: type[KnowledgeError] = KnowledgeError) -> list[type[KnowledgeError]]:
    own = [kind for kind in of.__subclasses__() if kind.__module__ == "knowledge_engine.errors"]
    return [of, *(each for kind in own for each in kinds(kind))]


@pytest.mark.parametrize("kind", kinds())
def test_each_code_has_a_uri_and_comes_back_as_the_same_error(kind: type[KnowledgeError]) -> None:
    sent = raised(kind("It went wrong", mend="Do this."))
    assert sent.error == error_uri(kind.code)
    assert uri_problem(sent.error) in ("", "names that begin with wamp. belong to the router")
    assert sent.kwargs == {"code": kind.code, "message": "It went wrong. Do this.", "mend": "Do this.", "id": ""}
    back = from_call(sent, "a.b")
    assert type(back) is (ProviderError if kind is KnowledgeError else kind)
    assert (str(back), back.mend) == ("It went wrong. Do this.", "Do this.")


@pytest.mark.parametrize(
    ("code", "uri"),
    [
        ("not-found", "app_knowledge.error.not_found"),
        ("internal", "app_knowledge.error.internal"),
        ("invalid-argument", "wamp.error.invalid_argument"),
        ("not-supported", "wamp.error.no_such_procedure"),
        ("read-only", "wamp.error.not_authorized"),
        ("unavailable", "wamp.error.unavailable"),
    ],
)
def test_uris_are_stable(code: str, uri: str) -> None:
    assert error_uri(code) == uri


def test_an_unforeseen_error_goes_out_without_a_word_of_it_and_into_the_log_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        sent = raised(RuntimeError("/srv/kb/secret path SELECT * FROM docs"))
    assert set(sent.kwargs) == {"code", "message", "mend", "id"}
    assert "/srv" not in str((sent.args, sent.kwargs, sent))
    assert sent.kwargs["id"] in sent.kwargs["mend"]
    (record,) = caplog.records
    assert sent.kwargs["id"] in record.getMessage()
    assert record.exc_info is not None
    assert "SELECT" in str(record.exc_info[1])


def test_what_a_message_quotes_fits_every_transport() -> None:
    sent = raised(InvalidArgumentError("\0\ud800 is no name", mend="\0"))
    json.dumps([sent.args, sent.kwargs], ensure_ascii=False).encode()
    assert not any(str(value).startswith("\0") for value in [*sent.args, *sent.kwargs.values()])


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refusal_for_good_says_what_to_check(reason: str) -> None:
    error = refusal(reason, "plant.north")
    assert isinstance(error, ConfigurationError)
    assert reason in str(error)
    assert "KNOWLEDGE_WAMP_REALM" in error.mend


@pytest.mark.parametrize("reason", ["", "closed", "wamp.close.normal", "wamp.close.system_shutdown"])
def test_other_reasons_may_pass(reason: str) -> None:
    assert refusal(reason, "realm1") is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApplicationError("wamp.error.no_such_procedure"), UnavailableError),
        (ApplicationError("wamp.error.not_authorized"), ProviderError),
        (ApplicationError("wamp.error.authorization_failed"), ProviderError),
        (ApplicationError("wamp.error.payload_size_exceeded"), TooLargeError),
        (ApplicationError("wamp.error.invalid_payload"), TooLargeError),
        (ApplicationError("wamp.error.canceled"), UnavailableError),
        (ApplicationError("wamp.error.timeout"), UnavailableError),
        (ApplicationError("wamp.error.unavailable"), UnavailableError),
        (ApplicationError("wamp.error.system_shutdown"), UnavailableError),
        (ApplicationError("wamp.error.runtime_error", "/srv/kb/secret"), ProviderError),
        (ApplicationError("x" * 10_000), ProviderError),
        (PayloadExceededError("/srv/kb/secret"), TooLargeError),
        (SerializationError("/srv/kb/secret"), ProviderError),
        (TransportLost("/srv/kb/secret"), UnavailableError),
        (RuntimeError("/srv/kb/secret"), UnavailableError),
    ],
)
def test_a_failed_call_says_what_to_do_and_repeats_no_foreign_text(
    error: Exception, kind: type[KnowledgeError]
) -> None:
    told = from_call(error, "a.app_knowledge.query")
    assert type(told) is kind
    assert told.mend
    assert "/srv" not in str(told)
    assert len(str(told)) < 500


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("not-found", NotFoundError),
        ("busy", BusyError),
        ("read-only", ReadOnlyError),
        ("not-supported", NotSupportedError),
        ("internal", ProviderError),
        ("none-such", ProviderError),
        ("", ProviderError),
    ],
)
def test_a_code_says_which_error_it_was(code: str, kind: type[KnowledgeError]) -> None:
    told = from_call(ApplicationError("app.x", code=code, message="It failed. Wait.", mend="Wait."), "a.b")
    assert type(told) is kind
    assert str(told) == "It failed. Wait."


@given(
    st.dictionaries(
        st.sampled_from(["code", "message", "mend", "id", "x"]),
        st.recursive(st.one_of(st.none(), st.text(), st.integers(), st.binary()), lambda inner: st.lists(inner)),
    )
)
def test_whatever_an_error_carries_it_is_a_knowledge_error(kwargs: dict[str, Any]) -> None:
    error = from_call(ApplicationError("app.x", **kwargs), "a.b")
    assert isinstance(error, KnowledgeError)
    assert error.mend


def test_an_error_that_carries_bottomless_keywords_is_a_knowledge_error() -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    error = from_call(ApplicationError("app.x", code=deep, message=deep, mend=deep), "a.b")
    assert type(error) is ProviderError


def test_an_error_without_keywords_is_a_knowledge_error() -> None:
    bare = ApplicationError("app.x")
    bare.kwargs = None
    assert type(from_call(bare, "a.b")) is ProviderError
