"""The server: what it registers and what it does when it cannot, calls under way, and its end."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from autobahn.exception import Disconnected, PayloadExceededError
from autobahn.wamp.exception import ApplicationError, SerializationError, TransportLost
from autobahn.wamp.message import Call, Cancel, Error, Invocation, Publish, Unregistered, Yield
from autobahn.wamp.types import RegisterOptions

from knowledge_engine.errors import InvalidArgumentError, NotFoundError, UnavailableError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Capabilities, Query
from knowledge_engine.service import KnowledgeService
from knowledge_wamp import WampKnowledgeAdapter, WampServer, WampSettings, topics
from knowledge_wamp import serving as serving_module
from knowledge_wamp.link import Outlet
from knowledge_wamp.session import TAKEN, Session, open_session
from wamp_bench.node_config import DENIED_PREFIX
from wamp_bench.proxy import CuttingProxy
from wamp_bench.python_client import connect, wamp_call
from wamp_bench.router import Router
from wamp_bench.servers import DOCS, LIMIT_S, Gated, new_prefix, serving, until, without_complaints

MakeProxy = Callable[[int], CuttingProxy]
READING = {topics.QUERY, topics.SOURCES, topics.READ, topics.STATUS, *topics.DEFAULT_TOPICS.values()}
each_transport = pytest.mark.parametrize("transport", ["url", "rawsocket_url"])


class Counting(MemoryProvider):
    def __init__(self) -> None:
        super().__init__(DOCS)
        self.calls = 0

    def query(self, query: Query) -> Any:
        self.calls += 1
        return super().query(query)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused registrations are tried again after a moment."""
    monkeypatch.setattr(serving_module, "RETRY_S", 0.1)


def asks_for(prefix: str, session: Session, text: str = "pump") -> asyncio.Task[Any]:
    return asyncio.create_task(session.ask(f"{prefix}.{topics.QUERY}", {"query": text}, LIMIT_S))


@asynccontextmanager
async def asking(router: Router, prefix: str) -> AsyncIterator[Callable[[], asyncio.Task[Any]]]:
    """Asks the server of that prefix through a session of its own."""
    session = await open_session(WampSettings(url=router.rawsocket_url))
    try:
        yield lambda: asks_for(prefix, session)
    finally:
        await session.close()


async def time_passes(router: Router) -> None:
    """Long enough for whatever a router and a session have to say to each other."""
    async with connect(router.rawsocket_url, router.realm) as session:
        for _ in range(100):
            await session.call("wamp.session.count")


def errors_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.levelno >= logging.ERROR]


# Registering


@pytest.mark.parametrize("writable", [False, True])
def test_a_server_registers_all_there_is_to_ask_and_the_writing_only_where_it_is_allowed(
    router: Router, writable: bool
) -> None:
    settings = WampSettings(url=router.url, prefix=new_prefix(), writable=writable)
    expected = READING | ({topics.INGEST, topics.DELETE} if writable else set())

    async def main() -> None:
        async with serving(settings) as server:
            assert server.health["state"] == "ready"
            assert set(server.health["registered"]) == {settings.procedure(topic) for topic in expected}
            assert server.health["failed"] == {}
            assert isinstance(server.health["session"], int)
        assert server.health["state"] == "stopped"
        assert server.health["registered"] == []
        with pytest.raises(ApplicationError, match="no callee"):
            await wamp_call(router.url, router.realm, settings.procedure(topics.STATUS))

    without_complaints(main)


def test_a_backend_that_cannot_be_written_gets_no_procedures_that_write(router: Router) -> None:
    class ReadOnly(MemoryProvider):
        @property
        def capabilities(self) -> Capabilities:
            return super().capabilities.model_copy(update={"writable": False})

    settings = WampSettings(url=router.url, prefix=new_prefix(), writable=True)

    async def main() -> None:
        async with serving(settings, ReadOnly(DOCS)) as server:
            assert {uri.removeprefix(f"{settings.prefix}.") for uri in server.health["registered"]} == READING

    without_complaints(main)


def test_several_services_are_served_as_one_with_ids_by_name(router: Router) -> None:
    settings = WampSettings(url=router.url, prefix=new_prefix())
    services = {"one": KnowledgeService(MemoryProvider(DOCS)), "two": KnowledgeService(MemoryProvider(DOCS))}

    async def main() -> None:
        async with serving(settings, services=services):
            listed = await wamp_call(router.url, router.realm, settings.procedure(topics.SOURCES))
            assert [source["id"] for source in listed["sources"]] == ["one:pump.md", "two:pump.md"]

    without_complaints(main)


def test_nothing_to_serve_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="nothing to serve"):
        WampServer({}, WampSettings(url="ws://127.0.0.1:1"))


def test_a_backend_that_fails_at_the_start_ends_the_server(router: Router) -> None:
    class Broken(MemoryProvider):
        @property
        def capabilities(self) -> Capabilities:
            raise NotFoundError("The store is gone", mend="Bring it back.")

    async def main() -> None:
        server = WampServer({"docs": KnowledgeService(Broken(DOCS))}, WampSettings(url=router.url, writable=True))
        with pytest.raises(NotFoundError):
            await server.run()
        assert server.health["state"] == "stopped"
        assert "The store is gone" in server.health["reason"]

    without_complaints(main)


def test_a_backend_that_hangs_at_the_start_does_not_hold_up_the_end() -> None:
    provider = Gated()

    class Hanging(MemoryProvider):
        @property
        def capabilities(self) -> Capabilities:
            provider.entered.release()
            provider.gate.wait(LIMIT_S)
            return super().capabilities

    async def main() -> None:
        settings = WampSettings(url="ws://127.0.0.1:1", writable=True)
        server = WampServer({"docs": KnowledgeService(Hanging(DOCS))}, settings)
        running = asyncio.create_task(server.run())
        await until(lambda: provider.entered.acquire(blocking=False))
        server.stop()
        await asyncio.wait_for(running, LIMIT_S / 2)

    without_complaints(main)
    provider.gate.set()


def test_a_refused_registration_is_named_and_the_others_serve(
    router: Router, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = WampSettings(
        url=router.url,
        realm=router.secured_realm,
        authid=router.ticket.authid,
        ticket=router.ticket.secret,  # type: ignore[arg-type]
        prefix=new_prefix(),
    )
    denied = f"{DENIED_PREFIX}status"
    procedure = WampSettings.procedure

    def with_a_denied_one(self: WampSettings, topic: str) -> str:
        return denied if topic == topics.STATUS else procedure(self, topic)

    async def main() -> None:
        monkeypatch.setattr(WampSettings, "procedure", with_a_denied_one)
        async with serving(settings) as server:
            assert server.health["state"] == "degraded"
            assert server.health["failed"] == {denied: "wamp.error.not_authorized"}
            uri = settings.procedure(topics.SOURCES)
            assert await wamp_call(router.url, router.secured_realm, uri, auth=router.ticket)

    without_complaints(main)
    (error,) = errors_of(caplog)
    assert (error["procedure"], error["problem"]) == (denied, "wamp.error.not_authorized")
    assert "permissions" in error["mend"]


def test_a_registration_of_a_session_that_broke_off_is_taken_over(router: Router, cutting_proxy: MakeProxy) -> None:
    proxy = cutting_proxy(router.rawsocket_port)
    prefix = new_prefix()

    async def main() -> None:
        stale = await open_session(WampSettings(url=proxy.rawsocket_url))
        uri = f"{prefix}.{topics.STATUS}"
        assert await stale.offer(lambda: "stale", uri, RegisterOptions(), LIMIT_S) == ""
        proxy.stall()
        async with serving(WampSettings(url=router.url, prefix=prefix)) as server:
            assert server.health["state"] == "ready"
            assert (await wamp_call(router.url, router.realm, uri))["status"] == "ok"
        stale.abort()
        await stale.lost

    without_complaints(main)


def test_a_server_that_is_robbed_says_so_and_takes_back_what_becomes_free(
    router: Router, caplog: pytest.LogCaptureFixture, soon: None
) -> None:
    settings = WampSettings(url=router.url, prefix=new_prefix())

    async def main() -> None:
        async with serving(settings) as robbed:
            uris = robbed.health["registered"]
            async with serving(settings) as robber:
                await until(lambda: len(robbed.health["failed"]) == len(uris))
                assert robbed.health["state"] == "degraded"
                assert (
                    robbed.health["failed"]
                    == dict.fromkeys(uris, TAKEN)
                    == dict.fromkeys(uris, "taken over by another server")
                )
                assert robbed.health["registered"] == []
                # It goes on trying, and robs nobody for it.
                calls = [wamp_call(router.url, router.realm, settings.procedure(topics.STATUS)) for _ in range(20)]
                assert all([(await call)["status"] == "ok" for call in calls])
                assert robber.health["state"] == "ready"
            await until(lambda: robbed.health["state"] == "ready")
            assert robbed.health["registered"] == uris
            assert (await wamp_call(router.url, router.realm, settings.procedure(topics.STATUS)))["status"] == "ok"

    without_complaints(main)
    errors = errors_of(caplog)
    assert {error["problem"] for error in errors} == {TAKEN}
    assert len(errors) == len(READING)
    assert all("KNOWLEDGE_WAMP_SHARED" in error["mend"] for error in errors)


def test_what_the_router_takes_besides_is_no_concern_of_a_session(router: Router) -> None:
    async def main() -> None:
        session = await open_session(WampSettings(url=router.url))
        assert await session.offer(lambda: None, new_prefix(), RegisterOptions(), LIMIT_S) == ""
        session.onMessage(Unregistered(0, registration=7))
        (known,) = session._registrations
        session.onMessage(Unregistered(0, registration=known))
        assert session.is_attached()
        await session.close()

    without_complaints(main)


def test_shared_servers_take_calls_in_turn_and_losing_one_loses_no_further_call(
    router: Router, cutting_proxy: MakeProxy
) -> None:
    proxy = cutting_proxy(router.rawsocket_port)
    prefix = new_prefix()
    first, second = Counting(), Counting()
    adapter = WampKnowledgeAdapter(WampSettings(url=router.url, prefix=prefix))

    async def main() -> None:
        through = WampSettings(url=proxy.rawsocket_url, prefix=prefix, shared=True)
        directly = WampSettings(url=router.rawsocket_url, prefix=prefix, shared=True)
        async with serving(through, first) as lost, serving(directly, second):
            for _ in range(20):
                await asyncio.to_thread(adapter.query, Query(query="pump"))
            assert (first.calls, second.calls) == (10, 10)
            proxy.refuse()
            proxy.cut()
            await until(lambda: lost.health["state"] == "connecting")
            failures = 0
            for _ in range(20):
                try:
                    await asyncio.to_thread(adapter.query, Query(query="pump"))
                except UnavailableError:
                    failures += 1
            # One may have gone to the other before the router knew that it is gone.
            assert failures <= 1
            assert second.calls >= 29
            proxy.resume()
            await until(lambda: lost.health["state"] == "ready")
            before = first.calls
            for _ in range(4):
                await asyncio.to_thread(adapter.query, Query(query="pump"))
            assert first.calls == before + 2
        await asyncio.to_thread(adapter.dispose)

    without_complaints(main)


def test_a_server_that_shares_beside_one_that_does_not_says_what_to_do_and_serves_when_it_can(
    router: Router, caplog: pytest.LogCaptureFixture, soon: None
) -> None:
    alone = WampSettings(url=router.url, prefix=new_prefix())
    sharing = alone.model_copy(update={"shared": True})

    async def main() -> None:
        async with serving(sharing) as late:
            uris = late.health["registered"]
            async with serving(alone) as first:
                assert first.health["state"] == "ready"
                await until(lambda: late.health["failed"] == dict.fromkeys(uris, TAKEN))
                async with serving(sharing) as third:
                    assert third.health["state"] == "degraded"
                    assert set(third.health["failed"]) == set(uris)
                    (problem,) = set(third.health["failed"].values())
                    assert problem == "wamp.error.procedure_already_exists"
            await until(lambda: late.health["state"] == "ready")

    without_complaints(main)
    assert all("KNOWLEDGE_WAMP_SHARED" in error["mend"] for error in errors_of(caplog))


def test_a_connection_that_is_lost_while_registering_is_tried_again_without_a_complaint(
    router: Router, cutting_proxy: MakeProxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = cutting_proxy(router.rawsocket_port)
    offer = Session.offer
    offered = 0

    async def cut_at_the_third(self: Session, *args: Any) -> str:
        nonlocal offered
        offered += 1
        if offered == 3:
            await asyncio.to_thread(proxy.cut)
        return await offer(self, *args)

    async def main() -> None:
        monkeypatch.setattr(Session, "offer", cut_at_the_third)
        async with serving(WampSettings(url=proxy.rawsocket_url, prefix=new_prefix())) as server:
            assert server.health["state"] == "ready"
            assert proxy.accepted == 2

    without_complaints(main)
    assert errors_of(caplog) == []


def test_a_router_that_does_not_answer_a_registration_is_left(router: Router, cutting_proxy: MakeProxy) -> None:
    proxy = cutting_proxy(router.port)

    async def main() -> None:
        session = await open_session(WampSettings(url=proxy.url))
        proxy.stall()
        with pytest.raises(UnavailableError, match="does not answer a registration"):
            await session.offer(lambda: None, new_prefix(), RegisterOptions(), 0.1)
        assert not await session.answers(0.1)
        session.abort()
        with pytest.raises(UnavailableError, match="lost"):
            await session.offer(lambda: None, new_prefix(), RegisterOptions(), LIMIT_S)
        await session.lost
        assert not await session.answers(LIMIT_S)
        with pytest.raises(UnavailableError, match="lost"):
            await session.offer(lambda: None, new_prefix(), RegisterOptions(), LIMIT_S)
        with pytest.raises(UnavailableError, match="lost"):
            await session.ask("a.b", {}, LIMIT_S)
        await session.close()

    without_complaints(main)


def test_trying_again_ends_with_the_connection(
    router: Router, cutting_proxy: MakeProxy, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = cutting_proxy(router.port)
    monkeypatch.setattr(serving_module, "_REGISTER_TIMEOUT_S", 0.2)
    settings = WampSettings(url=proxy.url, prefix=new_prefix())

    async def main() -> None:
        async with serving(settings) as robbed:
            async with serving(settings.model_copy(update={"url": router.url})):
                await until(lambda: robbed.health["state"] == "degraded")
                proxy.stall()
                # The next attempt gets no answer.
                await until(lambda: robbed.health["state"] == "connecting")
            proxy.resume()
            await until(lambda: robbed.health["state"] == "ready")

    without_complaints(main)


# Calls under way


@each_transport
def test_calls_under_way_are_answered_before_the_server_ends(router: Router, transport: str) -> None:
    settings = WampSettings(url=getattr(router, transport), prefix=new_prefix())
    provider = Gated()

    async def main() -> None:
        async with asking(router, settings.prefix) as ask:
            async with serving(settings, provider) as server:
                # More than run at once.
                asked = [ask() for _ in range(12)]
                await until(lambda: provider.calls == 8)
                server.stop()
                await until(lambda: server.health["state"] == "stopping")
                # No more calls are taken, and nothing ends before those under way do.
                await time_passes(router)
                with pytest.raises(ApplicationError, match="no callee"):
                    await wamp_call(router.url, router.realm, settings.procedure(topics.STATUS))
                assert server.health["state"] == "stopping"
                provider.gate.set()
            answers = await asyncio.wait_for(asyncio.gather(*asked), LIMIT_S)
            assert [answer["count"] for answer in answers] == [1] * 12

    without_complaints(main)


def test_a_call_that_hangs_does_not_hold_up_the_end(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_module, "DRAIN_TIMEOUT_S", 0.2)
    settings = WampSettings(url=router.url, prefix=new_prefix())
    provider = Gated()

    async def main() -> None:
        async with asking(router, settings.prefix) as ask:
            async with serving(settings, provider):
                asked = ask()
                await until(lambda: provider.calls == 1)
            with pytest.raises(UnavailableError):
                await asyncio.wait_for(asked, LIMIT_S)

    without_complaints(main)
    provider.gate.set()


def test_a_server_that_is_told_to_stop_while_it_has_no_connection_stops(
    router: Router, cutting_proxy: MakeProxy
) -> None:
    proxy = cutting_proxy(router.port)

    async def main() -> None:
        async with serving(WampSettings(url=proxy.url, prefix=new_prefix())) as server:
            proxy.refuse()
            proxy.cut()
            await until(lambda: server.health["state"] == "connecting")
        assert server.health["state"] == "stopped"

    without_complaints(main)


def test_a_connection_that_is_lost_while_calls_end_does_not_hold_up_the_end(
    router: Router, cutting_proxy: MakeProxy
) -> None:
    proxy = cutting_proxy(router.port)
    settings = WampSettings(url=proxy.url, prefix=new_prefix())
    provider = Gated()

    async def main() -> None:
        async with asking(router, settings.prefix) as ask:
            async with serving(settings, provider) as server:
                asked = ask()
                await until(lambda: provider.calls == 1)
                server.stop()
                await until(lambda: server.health["state"] == "stopping")
                proxy.cut()
            with pytest.raises(UnavailableError):
                await asyncio.wait_for(asked, LIMIT_S)

    without_complaints(main)
    provider.gate.set()


def test_a_server_that_is_cancelled_leaves_nothing_behind(router: Router) -> None:
    async def main() -> None:
        service = KnowledgeService(MemoryProvider(DOCS))
        server = WampServer({"docs": service}, WampSettings(url=router.url, prefix=new_prefix()))
        running = asyncio.create_task(server.run())
        await until(lambda: server.health.get("state") == "ready")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert server.health["state"] == "stopped"

    without_complaints(main)


def test_a_call_that_takes_too_long_is_given_up_on_both_sides(router: Router) -> None:
    settings = WampSettings(url=router.url, prefix=new_prefix())
    provider = Gated()

    async def main() -> None:
        async with serving(settings, provider) as server:
            session = await open_session(settings)
            asked = asyncio.create_task(session.ask(settings.procedure(topics.QUERY), {"query": "pump"}, 2))
            await until(lambda: provider.calls == 1)
            with pytest.raises(UnavailableError, match="did not answer within 2 s"):
                await asked
            await until(lambda: server._lane.abandoned == 1)
            await session.close()
            provider.gate.set()

    without_complaints(main)


@each_transport
def test_a_caller_who_cancels_frees_the_place_of_the_call(router: Router, transport: str) -> None:
    settings = WampSettings(url=getattr(router, transport), prefix=new_prefix())
    provider = Gated()

    async def main() -> None:
        async with serving(settings, provider) as server, connect(router.url, router.realm) as caller:
            lane = server._lane
            calls = [caller.call(settings.procedure(topics.QUERY), query="pump") for _ in range(9)]
            await until(lambda: provider.calls == 8)
            calls[0].cancel()
            # The ninth runs, in the place of the first, which nobody waits for.
            await until(lambda: provider.calls == 9)
            assert (lane.running, lane.abandoned) == (8, 1)
            provider.gate.set()
            answers = await asyncio.wait_for(asyncio.gather(*calls[1:]), LIMIT_S)
            assert [answer["count"] for answer in answers] == [1] * 8
            await until(lambda: lane.running + lane.abandoned == 0)

    without_complaints(main)


@pytest.mark.parametrize("topic", [topics.QUERY, topics.SOURCES])
@each_transport
def test_what_ends_after_the_connection_is_lost_disturbs_nobody_and_what_waits_never_runs(
    router: Router, cutting_proxy: MakeProxy, transport: str, topic: str
) -> None:
    proxy = cutting_proxy(router.port if transport == "url" else router.rawsocket_port)
    settings = WampSettings(url=getattr(proxy, transport), prefix=new_prefix())
    provider = Gated()
    arguments = {"query": "pump"} if topic == topics.QUERY else {"source_id": "none"}

    async def main() -> None:
        async with serving(settings, provider) as server, connect(router.url, router.realm) as caller:
            lane = server._lane
            calls = [caller.call(settings.procedure(topic), **arguments) for _ in range(10)]
            await until(lambda: provider.calls == 8)
            proxy.cut()
            outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), LIMIT_S)
            assert {type(outcome) for outcome in outcomes} == {ApplicationError}
            await until(lambda: lane.abandoned == 8)
            provider.gate.set()
            await until(lambda: lane.abandoned == 0)
            assert provider.calls == 8
            await until(lambda: server.health["state"] == "ready")

    without_complaints(main)


# What is below a session


class FakeTransport:
    log = "a logger"

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.sent.append(message)

    def isOpen(self) -> bool:
        return True


ANSWERS = [Yield(7, args=["x"]), Error(Invocation.MESSAGE_TYPE, 7, "a.b")]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("failure", [TransportLost(), Disconnected("closed")])
def test_an_answer_that_comes_too_late_is_dropped(answer: Any, failure: Exception) -> None:
    transport = FakeTransport(failure)
    Outlet(transport).send(answer)
    assert transport.sent == []


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize(
    ("failure", "uri"),
    [
        (ValueError("Data too big"), "wamp.error.payload_size_exceeded"),
        (PayloadExceededError("too big"), "wamp.error.payload_size_exceeded"),
        (SerializationError("no way"), "wamp.error.invalid_payload"),
    ],
)
def test_an_answer_that_cannot_be_sent_becomes_an_error_of_few_words(answer: Any, failure: Exception, uri: str) -> None:
    transport = FakeTransport(failure)
    Outlet(transport).send(answer)
    (sent,) = transport.sent
    assert (type(sent), sent.request, sent.error) == (Error, 7, uri)
    assert len(str(sent.args)) < 100


def test_a_call_that_cannot_be_sent_is_told_of() -> None:
    call = Call(1, "a.b")
    for failure, raised in (
        (Disconnected("closed"), TransportLost),
        (TransportLost(), TransportLost),
        (ValueError("Data too big"), PayloadExceededError),
        (SerializationError("no way"), SerializationError),
    ):
        with pytest.raises(raised):
            Outlet(FakeTransport(failure)).send(call)


def test_cancelling_a_call_of_a_lost_connection_is_silent() -> None:
    Outlet(FakeTransport(TransportLost())).send(Cancel(1))


def test_an_outlet_that_is_shut_is_false_and_silent() -> None:
    transport = FakeTransport()
    outlet = Outlet(transport)
    assert outlet
    assert outlet.isOpen()
    outlet.send(Publish(1, "a.b"))
    outlet.shut()
    assert not outlet
    outlet.send(Publish(2, "a.b"))
    assert len(transport.sent) == 1


def test_an_answer_beyond_the_limit_of_a_rawsocket_becomes_an_error(router: Router) -> None:
    async def main() -> None:
        async with connect(router.url, router.realm) as caller:
            session = await open_session(WampSettings(url=router.rawsocket_url))
            limit = session._outlet.max_length_send
            uri = new_prefix()
            assert await session.offer(lambda: "x" * (limit + 1), uri, RegisterOptions(), LIMIT_S) == ""
            with pytest.raises(PayloadExceededError, match="cannot be sent"):
                await asyncio.wait_for(caller.call(uri), LIMIT_S)
            assert session.is_attached()
            await session.close()

    without_complaints(main)


def test_a_router_that_pings_over_rawsocket_gets_its_answer() -> None:
    answers: list[bytes] = []

    async def main() -> None:
        done = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            shaken = await reader.readexactly(4)
            writer.write(bytes([0x7F, 0xF0 | shaken[1] & 0x0F, 0, 0]))
            (length,) = struct.unpack("!L", await reader.readexactly(4))
            await reader.readexactly(length)  # HELLO
            writer.write(struct.pack("!L", 2 << 24 | 2) + b"no")  # a pong that nobody asked for
            writer.write(struct.pack("!L", 1 << 24 | 5) + b"there")
            answers.append(await reader.readexactly(9))
            done.set()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(UnavailableError, match="ended the connection"):
                await open_session(WampSettings(url=f"rs://127.0.0.1:{port}"))
            await done.wait()

    without_complaints(main)
    assert answers == [struct.pack("!L", 2 << 24 | 5) + b"there"]
