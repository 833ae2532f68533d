"""The bench must be right before anything that is tested on it can be."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from autobahn.wamp.exception import ApplicationError

from wamp_bench.node_config import DENIED_PREFIX, SERIALIZERS, Credentials
from wamp_bench.python_client import JoinError, connect, wamp_call, wamp_calls
from wamp_bench.router import Router

PAYLOAD: Mapping[str, Any] = {"text": "größer \u2603", "list": [1, 2.5, None, True], "map": {"a": {"b": []}}}


def echo(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"args": list(args), "kwargs": kwargs}


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("transport", ["url", "rawsocket_url"])
def test_a_call_comes_back_as_it_was_sent(router: Router, transport: str, serializer: str) -> None:
    url = getattr(router, transport)
    procedure = f"bench.{transport}.{serializer}"

    async def there_and_back() -> Any:
        async with connect(url, router.realm, serializer=serializer) as callee:
            await callee.register(echo, procedure)
            return await wamp_call(url, router.realm, procedure, [1, "two"], PAYLOAD, serializer=serializer)

    assert asyncio.run(there_and_back()) == {"args": [1, "two"], "kwargs": PAYLOAD}


def test_several_calls_share_one_session_and_tell_results_from_errors(router: Router) -> None:
    def refuse() -> None:
        raise ApplicationError("bench.refused", "for a reason", at=7)

    async def calls() -> list[dict[str, Any]]:
        async with connect(router.url, router.realm) as callee:
            await callee.register(echo, "bench.calls.echo")
            await callee.register(refuse, "bench.calls.refuse")
            asked = [("bench.calls.echo", [1], {"a": 2}), ("bench.calls.refuse", [], {}), ("bench.calls.none", [], {})]
            return await wamp_calls(router.url, router.realm, asked)

    result, refused, missing = asyncio.run(calls())
    assert result == {"result": {"args": [1], "kwargs": {"a": 2}}}
    assert refused == {"error": "bench.refused", "args": ["for a reason"], "kwargs": {"at": 7}}
    assert missing["error"] == "wamp.error.no_such_procedure"


@pytest.mark.parametrize("method", ["ticket", "wampcra", "cryptosign"])
@pytest.mark.parametrize("transport", ["url", "rawsocket_url"])
def test_a_principal_of_the_secured_realm_joins_and_registers(router: Router, transport: str, method: str) -> None:
    auth: Credentials = getattr(router, method)
    procedure = f"bench.secured.{transport}.{method}"

    async def there_and_back() -> Any:
        async with connect(getattr(router, transport), router.secured_realm, auth=auth) as callee:
            await callee.register(echo, procedure)
            return await callee.call(procedure, 1)

    assert asyncio.run(there_and_back()) == {"args": [1], "kwargs": {}}


@pytest.mark.parametrize("method", ["ticket", "wampcra", "cryptosign"])
def test_a_wrong_secret_does_not_join(router: Router, method: str) -> None:
    right: Credentials = getattr(router, method)
    wrong = Credentials(method, right.authid, "00" * 32)
    with pytest.raises(JoinError, match=r"wamp\.error"):
        asyncio.run(wamp_call(router.url, router.secured_realm, "bench.any", auth=wrong))


def test_a_realm_that_is_not_there_is_refused(router: Router) -> None:
    with pytest.raises(JoinError, match=r"no_such_realm"):
        asyncio.run(wamp_call(router.url, "no-such-realm", "bench.any"))


def test_an_anonymous_session_may_do_nothing_in_the_secured_realm(router: Router) -> None:
    with pytest.raises(ApplicationError, match="not_authorized"):
        asyncio.run(wamp_call(router.url, router.secured_realm, "bench.any"))


def test_a_denied_registration_is_refused_and_the_session_stays(router: Router) -> None:
    async def attempt() -> Any:
        async with connect(router.url, router.secured_realm, auth=router.ticket) as callee:
            with pytest.raises(ApplicationError, match="not_authorized"):
                await callee.register(echo, f"{DENIED_PREFIX}bench")
            await callee.register(echo, "bench.allowed")
            return await callee.call("bench.allowed")

    assert asyncio.run(attempt()) == {"args": [], "kwargs": {}}


def test_the_small_port_drops_whoever_sends_more_than_its_limit(router: Router) -> None:
    async def attempt() -> None:
        async with connect(router.small_url, router.realm) as callee:
            await callee.register(echo, "bench.small")
            assert await callee.call("bench.small", "x" * 10_000) == {"args": ["x" * 10_000], "kwargs": {}}
            unanswered = asyncio.ensure_future(callee.call("bench.small", "x" * 100_000))
            await asyncio.wait_for(callee.lost, 20)
            unanswered.cancel()

    asyncio.run(attempt())


def test_a_session_leaves_no_task_behind(router: Router) -> None:
    async def tasks_after() -> set[asyncio.Task[Any]]:
        async with connect(router.url, router.realm) as callee:
            await callee.register(echo, "bench.tasks")
            await callee.call("bench.tasks")
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    assert asyncio.run(tasks_after()) == set()


def test_a_port_where_nobody_listens_is_an_error_at_once(own_router: Router) -> None:
    own_router.stop()
    with pytest.raises(OSError, match="Connect"):
        asyncio.run(wamp_call(own_router.url, own_router.realm, "bench.any"))
