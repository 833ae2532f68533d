"""Sessions are kept: routers that end, freeze, come back half-ready, and links that lead nowhere."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.errors import ConfigurationError, UnavailableError
from knowledge_engine.models import Query
from knowledge_wamp import WampKnowledgeAdapter, WampSettings, keeping, topics
from knowledge_wamp import session as session_module
from knowledge_wamp.keeping import MAX_DELAY_S, delays, keep_session
from knowledge_wamp.session import Session, open_session, watch
from wamp_bench.node_config import node_config
from wamp_bench.places import listens
from wamp_bench.proxy import CuttingProxy
from wamp_bench.python_client import wamp_call
from wamp_bench.router import Router
from wamp_bench.servers import LIMIT_S, Gated, new_prefix, serving, until, without_complaints

#: A server is to be callable within 5 s of the router's port being open. Seen: 0.1 to 1.1 s. More, for a machine
#: that does other things meanwhile.
CALLABLE_S = 15.0
PUMP = Query(query="pump")
MakeProxy = Callable[[int], CuttingProxy]
each_transport = pytest.mark.parametrize("transport", ["url", "rawsocket_url"])


@pytest.fixture(scope="module")
def one_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Router]:
    router = Router(tmp_path_factory.mktemp("breakable"))
    yield router
    router.kill()


@pytest.fixture
def breakable(one_for_all: Router) -> Router:
    """A running router that the tests of this file may break."""
    if not one_for_all.running:
        one_for_all.start()
    return one_for_all


def be_quick(monkeypatch: pytest.MonkeyPatch, transport: str) -> None:
    """Short pings and deadlines; autobahn rounds those of its own pings down to whole seconds."""
    scale = 1.0 if transport == "url" else 0.3
    monkeypatch.setattr(session_module, "PING_INTERVAL_S", scale)
    monkeypatch.setattr(session_module, "PING_TIMEOUT_S", 2 * scale)
    monkeypatch.setattr(session_module, "CONNECT_TIMEOUT_S", 0.5)


async def port_opening(router: Router) -> float:
    """Starts a router; the moment at which its first port was open."""
    loop = asyncio.get_running_loop()
    starting = asyncio.create_task(asyncio.to_thread(router.start))
    while not await asyncio.to_thread(listens, router.port):
        await asyncio.sleep(0.01)
    opened = loop.time()
    await starting
    return opened


async def answered(router: Router, prefix: str) -> None:
    """Returns when a stranger who calls gets an answer."""
    while True:
        try:
            await wamp_call(router.url, router.realm, f"{prefix}.{topics.STATUS}", seconds=5)
        except Exception:
            await asyncio.sleep(0.05)
        else:
            return


# Delays


@given(st.integers())
def test_delays_begin_small_grow_to_half_a_minute_and_never_beyond(seed: int) -> None:
    random.seed(seed)
    waited = list(itertools.islice(delays(), 100))
    assert all(0 < delay <= MAX_DELAY_S == 30 for delay in waited)
    assert waited[0] < 0.5
    assert sum(waited[:5]) < 4
    assert min(waited[30:]) > 20


def test_delays_of_a_fleet_are_spread() -> None:
    fleet = [list(itertools.islice(delays(), 31)) for _ in range(100)]
    for attempt in (0, 5, 30):
        waited = [each[attempt] for each in fleet]
        assert len({round(delay, 3) for delay in waited}) > 40
        assert max(waited) / min(waited) > 1.2


# Routers that end


@pytest.mark.parametrize(("transport", "gently"), [("url", True), ("rawsocket_url", False)])
def test_no_caller_hangs_when_the_router_ends_and_the_server_is_there_soon_after_it(
    breakable: Router, transport: str, gently: bool
) -> None:
    prefix = new_prefix()
    settings = WampSettings(url=getattr(breakable, transport), prefix=prefix)
    provider, adapter = Gated(), WampKnowledgeAdapter(settings)

    async def main() -> None:
        async with serving(settings, provider) as server:
            through_adapter = asyncio.create_task(asyncio.to_thread(adapter.query, PUMP))
            raw = await open_session(settings)
            asked = asyncio.create_task(raw.ask(f"{prefix}.{topics.QUERY}", {"query": "pump"}, LIMIT_S))
            for _ in range(2):
                assert await asyncio.to_thread(provider.entered.acquire, True, LIMIT_S)
            await asyncio.to_thread(breakable.stop if gently else breakable.kill)

            outcomes = await asyncio.wait_for(
                asyncio.gather(asked, through_adapter, return_exceptions=True), LIMIT_S / 2
            )
            assert [type(outcome) for outcome in outcomes] == [UnavailableError, UnavailableError]
            await until(lambda: server.health["state"] == "connecting")
            assert server.health["registered"] == []
            provider.gate.set()

            opened = await port_opening(breakable)
            await asyncio.wait_for(answered(breakable, prefix), opened + CALLABLE_S - asyncio.get_running_loop().time())
            await until(lambda: server.health["state"] == "ready")
            found = await asyncio.to_thread(adapter.query, PUMP)
            assert [hit.source_id for hit in found.hits] == ["pump.md"]
            await asyncio.to_thread(adapter.dispose)

    without_complaints(main)


def test_a_router_that_comes_back_without_its_realm_is_tried_again(
    breakable: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_realm(**ports: int) -> Any:
        config: Any = node_config(**ports)
        config["workers"][0]["realms"][0]["name"] = "another.realm"
        return config

    async def main() -> None:
        async with serving(WampSettings(url=breakable.url, prefix=new_prefix())) as server:
            with monkeypatch.context() as patch:
                patch.setattr("wamp_bench.router.node_config", without_realm)
                await asyncio.to_thread(breakable.restart, gently=False)
                await until(lambda: "no_such_realm" in server.health.get("reason", ""))
            await asyncio.to_thread(breakable.restart, gently=False)
            await until(lambda: server.health["state"] == "ready")
            assert "reason" not in server.health

    without_complaints(main)


@each_transport
def test_a_frozen_router_is_noticed_and_served_again_when_it_thaws(
    breakable: Router, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_quick(monkeypatch, transport)
    prefix = new_prefix()
    settings = WampSettings(url=getattr(breakable, transport), prefix=prefix)
    provider, adapter = Gated(), WampKnowledgeAdapter(settings)

    async def main() -> None:
        async with serving(settings, provider) as server:
            waiting = asyncio.create_task(asyncio.to_thread(adapter.query, PUMP))
            assert await asyncio.to_thread(provider.entered.acquire, True, LIMIT_S)
            breakable.freeze()
            try:
                # Long before a call may time out.
                with pytest.raises(UnavailableError):
                    await asyncio.wait_for(waiting, settings.timeout_s / 2)
                await until(lambda: server.health["state"] == "connecting", LIMIT_S / 2)
            finally:
                breakable.thaw()
            provider.gate.set()
            await asyncio.wait_for(answered(breakable, prefix), LIMIT_S)
            found = await asyncio.to_thread(adapter.query, PUMP)
            assert [hit.source_id for hit in found.hits] == ["pump.md"]
            await asyncio.to_thread(adapter.dispose)

    without_complaints(main)


@each_transport
def test_a_session_that_the_router_ends_is_lost_at_once_for_the_reason_that_it_gives(
    router: Router, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = WampSettings(url=getattr(router, transport), prefix=new_prefix())

    async def main() -> None:
        async with serving(settings, Gated()) as server:
            caller = await open_session(settings)
            first = server.health["session"]
            asked = asyncio.create_task(caller.ask(settings.procedure(topics.QUERY), {"query": "pump"}, LIMIT_S))
            for session in (first, caller.session_id):
                await wamp_call(router.url, router.realm, "wamp.session.kill", [session], {"reason": "a.b.tired"})
            with pytest.raises(UnavailableError):
                await asyncio.wait_for(asked, LIMIT_S)
            assert await asyncio.wait_for(caller.lost, LIMIT_S) == "a.b.tired"
            await until(lambda: server.health["state"] == "ready" and server.health["session"] != first)

    without_complaints(main)
    assert "a.b.tired" in [vars(record).get("reason") for record in caplog.records]


# Links


@each_transport
def test_a_link_into_nowhere_is_tried_for_ever(
    router: Router, cutting_proxy: MakeProxy, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_quick(monkeypatch, transport)
    port = router.port if transport == "url" else router.rawsocket_port
    proxy = cutting_proxy(port)

    async def main() -> None:
        async with serving(WampSettings(url=getattr(proxy, transport), prefix=new_prefix())) as server:
            before = proxy.accepted
            proxy.stall()
            proxy.cut()
            await until(lambda: proxy.accepted >= before + 3)
            assert server.health["state"] == "connecting"
            proxy.resume()
            await until(lambda: server.health["state"] == "ready")

    without_complaints(main)


def test_a_server_may_start_before_its_router(router: Router, cutting_proxy: MakeProxy) -> None:
    proxy = cutting_proxy(router.port)
    proxy.refuse()

    async def main() -> None:
        opening = asyncio.create_task(asyncio.to_thread(proxy.resume))
        async with serving(WampSettings(url=proxy.url, prefix=new_prefix())) as server:
            assert server.health["state"] == "ready"
        await opening

    without_complaints(main)


def test_a_router_that_answers_keeps_its_session(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "PING_INTERVAL_S", 0.01)
    answers = Session.answers
    answered: list[bool] = []

    async def counted(self: Session, timeout_s: float) -> bool:
        answered.append(await answers(self, timeout_s))
        return answered[-1]

    async def main() -> None:
        monkeypatch.setattr(Session, "answers", counted)
        session = await open_session(WampSettings(url=router.rawsocket_url))
        watching = asyncio.create_task(watch(session))
        await until(lambda: len(answered) > 20)
        assert session.is_attached()
        await session.close()
        await watching

    without_complaints(main)
    assert all(answered[:20])


def test_a_ticket_that_is_away_for_a_while_is_waited_for_once_there_was_a_session(
    router: Router, cutting_proxy: MakeProxy, tmp_path: Path
) -> None:
    proxy = cutting_proxy(router.port)
    file = tmp_path / "ticket"
    file.write_text(router.ticket.secret)
    settings = WampSettings(
        url=proxy.url,
        realm=router.secured_realm,
        authid=router.ticket.authid,
        ticket_file=str(file),
        prefix=new_prefix(),
    )

    async def main() -> None:
        async with serving(settings) as server:
            file.unlink()
            proxy.cut()
            await until(lambda: "KNOWLEDGE_WAMP_TICKET_FILE" in server.health.get("reason", ""))
            file.write_text(router.ticket.secret)
            await until(lambda: server.health["state"] == "ready")

    without_complaints(main)


def test_what_fails_after_joining_ends_that_session_and_is_tried_again(
    router: Router, caplog: pytest.LogCaptureFixture
) -> None:
    sessions: list[Session] = []
    reasons: list[str] = []

    async def joined(session: Session) -> None:
        sessions.append(session)
        if len(sessions) == 1:
            raise RuntimeError("a fault of ours")
        if len(sessions) == 2:
            raise UnavailableError("Not now", mend="Later.")

    async def main() -> None:
        kept = asyncio.create_task(
            keep_session(WampSettings(url=router.url), joined, lambda reason, _: reasons.append(reason))
        )
        await until(lambda: len(sessions) == 3)
        assert [session.lost.done() for session in sessions] == [True, True, False]
        kept.cancel()
        await asyncio.wait({kept})
        assert sessions[2].lost.done()

    without_complaints(main)
    assert reasons == ["RuntimeError", "Not now. Later."]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == [
        "the session failed"
    ]


def test_a_refusal_before_there_ever_was_a_session_ends_it(router: Router) -> None:
    async def never(_: Session) -> None:
        raise AssertionError("it joined")

    with pytest.raises(ConfigurationError, match="no_such_realm"):
        asyncio.run(
            asyncio.wait_for(keep_session(WampSettings(url=router.url, realm="none.such"), never, print), LIMIT_S)
        )


def test_after_each_session_the_delays_begin_anew(
    router: Router, cutting_proxy: MakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = cutting_proxy(router.rawsocket_port)
    monkeypatch.setattr(keeping, "FIRST_DELAY_S", 0.001)
    sessions: list[Session] = []
    waited: list[float] = []

    async def joined(session: Session) -> None:
        sessions.append(session)

    async def main() -> None:
        settings = WampSettings(url=proxy.rawsocket_url)
        kept = asyncio.create_task(keep_session(settings, joined, lambda _, delay: waited.append(delay)))
        for number in range(1, 31):
            await until(lambda number=number: len(sessions) == number)  # type: ignore[misc]
            await asyncio.to_thread(proxy.cut)
        kept.cancel()
        await asyncio.wait({kept})

    without_complaints(main)
    assert max(waited) < 0.05
