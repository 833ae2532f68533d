"""A hub elsewhere that is down, overloaded, strange, endless or wants another token."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from knowledge_engine.errors import ConfigurationError, KnowledgeError
from knowledge_hub.entries import EntryUpdate, Feedback, NewEntry
from knowledge_hub.tools import HubAddress, HubTools, RemoteHub
from knowledge_hub.tools import remote as remote_module

TOKEN = "t0p-secret-token-value"
Reply = Callable[[BaseHTTPRequestHandler], None]


def answer(status: int, body: bytes = b"{}", **headers: str) -> Reply:
    """A reply that says all of it."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """Closes in the middle of its answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b'{"resu')
    handler.close_connection = True


class Strange:
    """A server that replies as it is told, one after the other, the last one again and again."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []

    @contextmanager
    def running(self) -> Iterator[str]:
        strange = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                strange.seen.append((self.command, self.path, headers, json.loads(body) if body else None))
                reply = strange.replies.pop(0) if len(strange.replies) > 1 else strange.replies[0]
                reply(self)

            do_POST = do_PUT = do_GET

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@contextmanager
def hub_of(strange: Strange, pauses: list[float] | None = None) -> Iterator[RemoteHub]:
    with strange.running() as url:
        kept: list[float] = [] if pauses is None else pauses
        with closing(RemoteHub(HubAddress(url=url, token=TOKEN), pause=kept.append)) as hub:
            yield hub


FOUND = json.dumps({"results": [], "count": 0, "router": "lexical"}).encode()
NEW = NewEntry(scenario="s", content="c")


def test_calls_are_the_routes_with_the_token() -> None:
    strange = Strange(answer(200, FOUND))
    with hub_of(strange) as hub:
        hub.search("a b&c=d", top_k=2, min_score=4, kinds=("tool", "plan"))
        hub.update("knowledge-1", EntryUpdate(update_score=4))
        hub.batch_update((Feedback(knowledge_id="a", is_effective=True),))
        hub.listed(limit=3, kinds=())
        hub.slim(model="none")
    told = [(method, path, body) for method, path, _, body in strange.seen]
    feedback = {"knowledge_id": "a", "is_effective": True, "feedback": None}
    assert told == [
        ("GET", "/api/knowledge/search?q=a+b%26c%3Dd&top_k=2&min_score=4&tags_type=tool%2Cplan", None),
        ("PUT", "/api/knowledge/knowledge-1", {"update_score": 4}),
        ("POST", "/api/knowledge/batch_update", {"feedback_list": [feedback]}),
        ("GET", "/api/knowledge?limit=3", None),
        ("POST", "/api/knowledge/slim", {"model": "none"}),
    ]
    assert {headers["authorization"] for _, _, headers, _ in strange.seen} == {f"Bearer {TOKEN}"}


def test_what_failed_on_the_way_is_sent_again_under_one_key() -> None:
    strange = Strange(hang_up, answer(503, Retry_After="2"), answer(201, b'{"id": "knowledge-1"}'))
    pauses: list[float] = []
    with hub_of(strange, pauses) as hub:
        assert hub.save(NEW) == {"id": "knowledge-1"}
    keys = {headers["idempotency-key"] for _, _, headers, _ in strange.seen}
    assert (len(strange.seen), len(keys)) == (3, 1)
    assert pauses == [0.25, 2.0]


def test_two_saves_have_two_keys() -> None:
    strange = Strange(answer(201, b'{"id": "knowledge-1"}'))
    with hub_of(strange) as hub:
        hub.save(NEW)
        hub.save(NEW)
    assert len({headers["idempotency-key"] for _, _, headers, _ in strange.seen}) == 2


def test_slimming_is_never_sent_twice() -> None:
    strange = Strange(hang_up)
    with hub_of(strange) as hub, pytest.raises(KnowledgeError):
        hub.slim(model="none")
    assert len(strange.seen) == 1


WIRE = {"code": "conflict", "message": "It changed. Read it.", "mend": "Read it.", "id": ""}


@pytest.mark.parametrize(
    ("reply", "code", "times"),
    [
        (hang_up, "unavailable", 3),
        (answer(503), "unavailable", 3),
        (answer(429, Retry_After="3600"), "unavailable", 1),
        (answer(401), "configuration", 1),
        (answer(403), "configuration", 1),
        (answer(404, b"<html>"), "provider", 1),
        (answer(200, b"[]"), "provider", 1),
        (answer(200, b'{"a": NaN}'), "provider", 1),
        (answer(200, b"[" * 100_000), "provider", 1),
        (answer(200, b"\xff\xfe"), "provider", 1),
        (answer(302, Location="http://127.0.0.1:1/"), "provider", 1),
        (answer(409, json.dumps({"error": WIRE}).encode()), "conflict", 1),
        (answer(200, b"junk", Content_Encoding="gzip"), "provider", 1),
    ],
)
def test_what_goes_wrong_has_a_code_and_shows_no_token(reply: Reply, code: str, times: int) -> None:
    strange = Strange(reply)
    with hub_of(strange) as hub:
        with pytest.raises(KnowledgeError) as caught:
            hub.listed(limit=1, kinds=())
        told = asyncio.run(HubTools(hub).knowledge_list())
    assert (caught.value.code, len(strange.seen)) == (code, 2 * times)
    assert told.metadata["error"]["code"] == code
    assert TOKEN not in str(told) + str(caught.value)
    assert "127.0.0.1" not in told.output


def test_halves_of_surrogate_pairs_come_from_no_hub() -> None:
    body = b'{"results": [{"id": "\\ud83d\\ude00 \\uD800"}], "count": 1}'
    with hub_of(Strange(answer(200, body))) as hub:
        assert hub.listed(limit=1, kinds=())["results"] == [{"id": "\U0001f600 \ufffd"}]


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_module, "_MAX_ANSWER_BYTES", 1_000)
    with hub_of(Strange(answer(200, b" " * 2_000))) as hub, pytest.raises(KnowledgeError) as caught:
        hub.listed(limit=1, kinds=())
    assert caught.value.code == "too-large"


@pytest.mark.parametrize("drips", [False, True])
def test_a_hub_that_hangs_is_left_at_the_deadline(monkeypatch: pytest.MonkeyPatch, drips: bool) -> None:
    monkeypatch.setattr(remote_module, "_TIMEOUT_S", 0.2)
    ended = threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        try:
            while not ended.wait(0.02):
                if drips:
                    handler.wfile.write(b" ")
        except OSError:
            pass
        handler.close_connection = True

    call = RemoteHub._call
    with hub_of(Strange(hang)) as hub:
        try:
            with pytest.raises(KnowledgeError) as caught:
                call(hub, "GET", "", timeout_s=0.2)
        finally:
            ended.set()
    assert caught.value.code == "unavailable"


def test_a_hub_that_is_down_is_told_and_comes_back() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        hub = RemoteHub(HubAddress(url=f"http://127.0.0.1:{taken.getsockname()[1]}"), pause=lambda _: None)
        told = asyncio.run(HubTools(hub).knowledge_search("x"))
        hub.close()
        hub.close()
    assert told.metadata["error"]["code"] == "unavailable"
    assert "KNOWLEDGE_HUB_URL" in told.output


def test_without_an_address_there_is_no_hub_elsewhere() -> None:
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_HUB_URL"):
        RemoteHub(HubAddress())
