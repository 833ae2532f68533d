"""Which names of procedures a router would take, told before it is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from knowledge_wamp.topics import DEFAULT_TOPICS, MAX_URI_CHARS, uri_problem
from wamp_bench.python_client import connect
from wamp_bench.router import Router

SECONDS = 30.0


@pytest.mark.parametrize(
    "uri",
    [
        "app_knowledge.list",
        "a",
        "7.11.42.DEV.app_knowledge.get",
        "größe.漢字",
        "a-b.c_d",
        "wamper.x",
        "x.wamp.y",
        "a/b",
    ],
)
def test_a_name_that_routers_take_has_no_problem(uri: str) -> None:
    assert uri_problem(uri) == ""


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("", "empty"),
        (".", "empty part"),
        ("a..b", "empty part"),
        ("a.b.", "empty part"),
        (".a", "empty part"),
        ("a b", "blank"),
        ("a#b", "#"),
        ("a\tb", "cannot be printed"),
        ("a\nb", "cannot be printed"),
        ("a\x00b", "cannot be printed"),
        ("a\u2028b", "cannot be printed"),
        ("a\ud800", "cannot be printed"),
        ("wamp", "belong to the router"),
        ("wamp.x", "belong to the router"),
        ("wamp.session.count", "belong to the router"),
        ("a" * (MAX_URI_CHARS + 1), "characters"),
        (None, "NoneType"),
        (5, "int"),
        (b"a.b", "bytes"),
        (["a"], "list"),
    ],
)
def test_the_problem_of_a_name_is_told(uri: object, why: str) -> None:
    assert why in uri_problem(uri)


@given(st.one_of(st.text(), st.integers(), st.binary(), st.none(), st.text(alphabet="aw.m p#\x00\ud800")))
def test_any_value_is_judged_in_one_line_without_an_exception(uri: Any) -> None:
    assert uri_problem(uri).isprintable()


def test_the_topics_of_the_tools_are_names_that_routers_take() -> None:
    assert dict(DEFAULT_TOPICS) == {"list": "app_knowledge.list", "get": "app_knowledge.get"}
    assert not any(map(uri_problem, DEFAULT_TOPICS.values()))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    uris=st.sets(st.text(alphabet=st.one_of(st.sampled_from("ab.-_/~*%$:;,'\"(){}[]"), st.characters()), max_size=8))
)
def test_the_router_takes_every_name_without_a_problem_and_keeps_the_session(router: Router, uris: set[str]) -> None:
    fine = sorted(uri for uri in uris if not uri_problem(uri))
    assume(fine)

    async def register_all() -> bool:
        async with connect(router.url, router.realm) as callee:
            for uri in fine:
                registration = await asyncio.wait_for(callee.register(lambda: None, f"topics.{uri}"), SECONDS)
                await asyncio.wait_for(registration.unregister(), SECONDS)
            return bool(callee.is_attached())

    assert asyncio.run(register_all())
