"""What callers see, and how many may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from knowledge_engine.errors import BusyError, NotFoundError, UnavailableError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import IndexState, Query, QueryResult
from knowledge_mcp import create_app, views
from knowledge_mcp.views import HostAccess, Views
from mcp_bench.serving import inside, run, services


class Only:
    """May read some backends."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def allows(self, scope: str, backend: str | None = None) -> bool:
        return scope == "read" and backend in self._names

    def visible(self, names: Iterable[str]) -> Sequence[str]:
        return tuple(name for name in names if name in self._names)


def test_who_may_read_nothing_is_told_so() -> None:
    with pytest.raises(NotFoundError, match="nothing here that you may read"):
        Views(services(a={}), timeout_s=1).view(Only())


def test_views_are_shared_by_those_who_see_the_same_and_the_oldest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_MAX_VIEWS", 2)
    made = Views(services(a={}, b={}, c={}), timeout_s=1)
    one = made.view(Only("a"))
    assert made.view(Only("a")) is one
    assert made.view(Only("a", "b")) is not one
    made.view(Only("c"))
    assert made.view(Only("a")) is not one
    with pytest.raises(UnavailableError):
        one.lane.submit(lambda: None)
    made.close()


def test_one_of_several_has_the_ids_that_all_see() -> None:
    made = Views(services(a={"x.md": b"x"}, b={"x.md": b"x"}), timeout_s=5)
    view = made.view(Only("a"))
    assert [source.id for source in view.service.list().sources] == ["a:x.md"]
    made.close()


class Hanging(MemoryProvider):
    """Answers when it is let go."""

    def __init__(self) -> None:
        super().__init__({"a.md": b"water"})
        self.free = threading.Event()

    def query(self, query: Query) -> QueryResult:
        self.free.wait(60)
        return super().query(query)


def test_calls_that_wait_are_limited_and_more_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_MAX_HELD", 10)
    provider = Hanging()

    async def main() -> None:
        async with inside(services(docs=provider)) as client:
            calls = [asyncio.ensure_future(client.call_tool("query", {"query": f"water {n}"})) for n in range(15)]
            done: set[Any] = set()
            while len(done) < 5:
                done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            codes = {each.result().structured_content["code"] for each in done}
            assert codes == {BusyError.code}
            provider.free.set()
            answers = [each.structured_content for each in await asyncio.gather(*calls)]
            assert sum("error" not in each for each in answers) == 10

    run(main)


class Building(MemoryProvider):
    """Has no index yet, and says how long it was asked to wait for one."""

    waits: float | None = None

    def query(self, query: Query) -> QueryResult:
        self.waits = query.wait_s
        return QueryResult(engine="x", mode_used="none", index=IndexState(state="building"))


def test_of_an_index_that_is_being_built_is_told_before_the_call_is_given_up() -> None:
    provider = Building({})

    async def main() -> None:
        async with inside(services(docs=provider), timeout_s=10) as client:
            answer = (await client.call_tool("query", {"query": "water"})).structured_content
            assert answer["index"]["state"] == "building"
            assert "ask again" in answer["hint"]

    run(main)
    assert provider.waits is not None
    assert 0 < provider.waits < 10


def test_a_web_socket_is_closed() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def main() -> None:
        app = create_app(services(docs={}), environ={})
        await app({"type": "websocket"}, lambda: asyncio.sleep(0, {}), send)  # type: ignore[arg-type]

    run(main)
    assert sent == [{"type": "websocket.close", "code": 1003}]


def test_the_host_may_do_what_its_user_allowed() -> None:
    for write in (False, True):
        access = HostAccess(write=write)
        assert access.allows("read", "a")
        assert (access.allows("write", "a"), access.allows("admin")) == (write, write)
        assert access.visible(["a", "b"]) == ("a", "b")
