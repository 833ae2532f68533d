"""The bench must be right before anything that is tested on it can be."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from autobahn.wamp.exception import ApplicationError

from wamp_bench.ironflock_app import VERSIONS, ironflock_app, run_ironflock
from wamp_bench.js_client import JsError, call_js, js_session
from wamp_bench.node_config import DENIED_PREFIX, IRONFLOCK, SERIALIZERS, Credentials
from wamp_bench.proxy import CuttingProxy
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


def test_a_port_where_nobody_listens_is_an_error_at_once(tmp_path: Path) -> None:
    never_started = Router(tmp_path)
    with pytest.raises(OSError, match="Connect"):
        asyncio.run(wamp_call(never_started.url, never_started.realm, "bench.any"))


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_javascript_gets_results_and_errors(router: Router, serializer: str) -> None:
    def refuse() -> None:
        raise ApplicationError("bench.refused", "for a reason", at=7)

    procedure = f"bench.js.{serializer}"

    async def calls() -> list[dict[str, Any]]:
        async with connect(router.url, router.realm) as callee:
            await callee.register(echo, procedure)
            await callee.register(refuse, f"{procedure}.refuse")
            asked = [(procedure, [1, "two"], PAYLOAD), (f"{procedure}.refuse", [], {}), ("bench.js.none", [], {})]
            return await asyncio.to_thread(js_session, router.url, router.realm, asked, serializer=serializer)

    result, refused, missing = asyncio.run(calls())
    assert result == {"result": {"args": [1, "two"], "kwargs": PAYLOAD}}
    assert refused == {"error": "bench.refused", "args": ["for a reason"], "kwargs": {"at": 7}}
    assert missing["error"] == "wamp.error.no_such_procedure"


def test_one_call_from_javascript_has_one_outcome(router: Router) -> None:
    outcome = call_js(router.url, router.realm, "bench.js.nobody")
    assert outcome["error"] == "wamp.error.no_such_procedure"


def test_javascript_tells_why_it_had_no_session(router: Router) -> None:
    with pytest.raises(JsError, match="no_such_realm"):
        call_js(router.url, "no-such-realm", "bench.any")


def test_a_restarted_router_lost_its_sessions_and_takes_new_ones_on_the_same_port(own_router: Router) -> None:
    async def restart(*, gently: bool) -> Any:
        async with connect(own_router.url, own_router.realm) as callee:
            await callee.register(echo, "bench.restart")
            await asyncio.to_thread(own_router.restart, gently=gently)
            await asyncio.wait_for(callee.lost, 20)
        async with connect(own_router.url, own_router.realm) as callee:
            with pytest.raises(ApplicationError, match="no_such_procedure"):
                await callee.call("bench.restart")
            await callee.register(echo, "bench.restart")
            return await callee.call("bench.restart")

    assert asyncio.run(restart(gently=True)) == {"args": [], "kwargs": {}}
    assert asyncio.run(restart(gently=False)) == {"args": [], "kwargs": {}}


def test_a_frozen_router_answers_only_when_it_is_thawed(own_router: Router) -> None:
    async def freeze() -> Any:
        async with connect(own_router.url, own_router.realm) as callee:
            await callee.register(echo, "bench.freeze")
            own_router.freeze()
            waiting = asyncio.ensure_future(callee.call("bench.freeze"))
            with pytest.raises(JoinError, match="no answer"):
                await wamp_call(own_router.url, own_router.realm, "bench.freeze", seconds=0.3)
            assert not waiting.done()
            own_router.thaw()
            return await asyncio.wait_for(waiting, 20)

    assert asyncio.run(freeze()) == {"args": [], "kwargs": {}}


def test_a_router_does_not_take_the_port_of_another_for_its_own(tmp_path: Path) -> None:
    router = Router(tmp_path)
    with socket.create_server(("127.0.0.1", router.small_port)), pytest.raises(RuntimeError, match="are taken"):
        router.start()
    assert not router.running


def test_a_router_that_ends_at_its_start_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wamp_bench.router.node_config", lambda **_ports: {"version": "none"})
    with pytest.raises(RuntimeError, match="Its log ends so") as caught:
        Router(tmp_path).start()
    assert "version" in str(caught.value)


def test_a_cut_resets_every_connection_and_lets_new_ones_in(
    router: Router, cutting_proxy: Callable[[int], CuttingProxy]
) -> None:
    proxy = cutting_proxy(router.port)

    async def cut() -> Any:
        async with connect(proxy.url, router.realm) as first, connect(proxy.url, router.realm) as second:
            assert (proxy.accepted, proxy.open) == (2, 2)
            assert proxy.cut() == 2
            await asyncio.wait_for(asyncio.gather(first.lost, second.lost), 20)
            assert proxy.open == 0
        async with connect(proxy.url, router.realm) as callee:
            await callee.register(echo, "bench.cut")
            return await callee.call("bench.cut")

    assert asyncio.run(cut()) == {"args": [], "kwargs": {}}
    assert proxy.accepted == 3


def test_a_stalled_link_holds_what_it_is_given_until_it_resumes(
    router: Router, cutting_proxy: Callable[[int], CuttingProxy]
) -> None:
    proxy = cutting_proxy(router.rawsocket_port)

    async def stall() -> Any:
        async with connect(proxy.rawsocket_url, router.realm) as callee:
            await callee.register(echo, "bench.stall")
            proxy.stall()
            waiting = asyncio.ensure_future(callee.call("bench.stall"))
            with pytest.raises(JoinError, match="no answer"):
                await wamp_call(proxy.rawsocket_url, router.realm, "bench.stall", seconds=0.3)
            assert not waiting.done()
            proxy.resume()
            return await asyncio.wait_for(waiting, 20)

    assert asyncio.run(stall()) == {"args": [], "kwargs": {}}


def test_a_refusing_link_keeps_what_there_is_and_takes_nothing_new(
    router: Router, cutting_proxy: Callable[[int], CuttingProxy]
) -> None:
    proxy = cutting_proxy(router.port)

    async def refuse() -> Any:
        async with connect(proxy.url, router.realm) as callee:
            proxy.refuse()
            with pytest.raises(OSError, match="Connect"):
                await wamp_call(proxy.url, router.realm, "bench.any")
            await callee.register(echo, "bench.refuse")
            proxy.resume()
            return await wamp_call(proxy.url, router.realm, "bench.refuse")

    assert asyncio.run(refuse()) == {"args": [], "kwargs": {}}


IRONFLOCK_APP = """
import asyncio
from ironflock import IronFlock

def echo(*args, **kwargs):
    return {"args": list(args), "kwargs": kwargs}

async def main():
    await flock.register_device_function("bench.echo", echo)
    print("READY")
    await asyncio.Event().wait()

flock = IronFlock(mainFunc=main)
flock.run()
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_function_of_a_real_ironflock_app_is_called_under_its_full_name(router: Router, version: str) -> None:
    with ironflock_app(version, IRONFLOCK_APP, router) as app:
        app.wait_for("READY")
        called = wamp_call(
            router.url,
            IRONFLOCK.realm,
            f"{IRONFLOCK.prefix}.bench.echo",
            [1],
            PAYLOAD,
            auth=IRONFLOCK.credentials,
        )
        assert asyncio.run(called) == {"args": [1], "kwargs": PAYLOAD}
    assert app.process.returncode is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_python_of_an_sdk_has_our_packages_and_that_version(router: Router, version: str) -> None:
    script = """
import importlib.metadata, knowledge_engine, knowledge_files, knowledge_wamp
print(importlib.metadata.version("ironflock"), importlib.metadata.version("autobahn"))
"""
    assert run_ironflock(version, script, router) == [f"{version} 25.12.2"]


def test_a_script_that_fails_is_quoted(router: Router) -> None:
    with pytest.raises(RuntimeError, match="no such thing"):
        run_ironflock(VERSIONS[0], "raise SystemExit('no such thing')", router)
    with (
        ironflock_app(VERSIONS[0], "print('something else')", router) as app,
        pytest.raises(RuntimeError, match="something else"),
    ):
        app.wait_for("READY")
