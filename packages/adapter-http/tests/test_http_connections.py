"""What comes over a socket that is no request, or none that ends."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from http_bench.clients import DOCS, connected, exchange, read_replies
from http_bench.servers import running, served, services
from knowledge_http import HttpSettings, create_app
from knowledge_http.server import protocol
from knowledge_http.server.protocol import Connections

HOST = b"Host: 127.0.0.1\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"

LAST = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served({"docs": DOCS}, HttpSettings(writable=True, quiet=True, timeout_s=3)) as found:
        yield found


def is_well(url: str) -> bool:
    return [reply.status for reply in exchange(url, LAST)] == [200]


def post(body: bytes, *headers: bytes) -> bytes:
    lines = [b"POST /v1/query HTTP/1.1", b"Host: 127.0.0.1", b"Content-Type: application/json", *headers, b"", body]
    return b"\r\n".join(lines)


VALVE = b'{"query":"valve"}'


@pytest.mark.parametrize(
    "data",
    [
        post(VALVE, b"Content-Length: 17", b"Transfer-Encoding: chunked"),
        post(VALVE, b"Transfer-Encoding: chunked", b"Content-Length: 17"),
        post(VALVE, b"Content-Length: 17", b"Content-Length: 5"),
        post(VALVE, b"Content-Length: 17, 5"),
        post(VALVE, b"Content-Length: +17"),
        post(VALVE, b"Content-Length: 0x11"),
        post(VALVE, b"Content-Length: -1"),
        post(VALVE, b"Content-Length : 17"),
        post(VALVE, b"Transfer-Encoding: xchunked"),
        post(b"zz\r\n" + VALVE, b"Transfer-Encoding: chunked"),
        post(b"-1\r\n" + VALVE, b"Transfer-Encoding: chunked"),
        post(b"fffffffffffffffff\r\n" + VALVE, b"Transfer-Encoding: chunked"),
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n folded: x\r\nX\x00: y\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\nX: y\x00\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n" + HOST + b"\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n",
        b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\r\n\r\nnonsense\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_two_readers_could_read_differently_is_no_request(url: str, data: bytes) -> None:
    # A second request hidden behind the first must not be answered as one of its own.
    replies = exchange(url, data + b"GET /v1/status?hidden HTTP/1.1\r\n" + HOST + b"\r\n")
    assert [reply.status for reply in replies][:1] != [200]
    assert len(replies) <= 1
    for reply in replies:
        assert 400 <= reply.status < 500
        assert reply.json["error"]["mend"]
    assert is_well(url)


@given(st.binary(max_size=300))
@settings(max_examples=30)
def test_any_bytes_leave_the_server_well(data: bytes) -> None:
    # On a server of its own, as hypothesis has no fixtures of a module.
    for reply in exchange(_shared(), data + b"\r\n\r\n"):
        assert reply.status < 500


_servers: list[tuple[object, str]] = []


def _shared() -> str:
    if not _servers:
        manager = served({"docs": DOCS})
        _servers.append((manager, manager.__enter__()))
    return _servers[0][1]


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    for manager, _ in _servers:
        manager.__exit__(None, None, None)  # type: ignore[attr-defined]
    _servers.clear()


def test_headers_that_are_too_long_or_too_many_are_refused(url: str) -> None:
    huge = [
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"".join(b"X%d: y\r\n" % number for number in range(300)) + b"\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 200_000,
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"a" * 200_000,
    ]
    for data in huge:
        replies = exchange(url, data)
        # Where it still sends when it is refused, the connection may break before it reads why.
        assert [reply.json["error"]["code"] for reply in replies] in (["headers-too-large"], [])
    assert is_well(url)


def test_a_head_that_never_ends_is_refused_while_it_comes(url: str) -> None:
    with connected(url) as made:
        made.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: ")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            made.sendall(b"a" * 100_000_000)


def test_a_body_in_parts_of_one_byte_is_taken(url: str) -> None:
    body = json.dumps({"query": "valve " * 500}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    replies = exchange(url, post(chunks, b"Transfer-Encoding: chunked", b"Connection: close"))
    assert [reply.status for reply in replies] == [200]


def test_requests_that_come_together_are_answered_in_order(url: str) -> None:
    asked = [b"GET /v1/sources?limit=%d HTTP/1.1\r\n" % number + HOST + b"\r\n" for number in (1, 2)]
    replies = exchange(url, b"".join([asked[0], GET, asked[1], LAST]))
    assert [reply.status for reply in replies] == [200] * 4
    assert [len(replies[at].json.get("sources", [])) for at in (0, 2)] == [1, 2]


def test_a_body_that_does_not_come_is_waited_for_and_no_longer(url: str) -> None:
    with connected(url) as made:
        made.sendall(post(b'{"query":', b"Content-Length: 500"))
        replies = read_replies(made)
    assert [(reply.status, reply.json["error"]["code"]) for reply in replies] == [(408, "timeout")]


def test_a_body_that_says_it_is_too_long_is_refused_before_it_comes(url: str) -> None:
    with connected(url) as made:
        made.sendall(post(b"", b"Content-Length: 99999999999", b"Expect: 100-continue"))
        replies = read_replies(made)
    assert [reply.status for reply in replies] == [413]


def test_who_goes_away_before_the_answer_leaves_nothing_behind(url: str) -> None:
    for data in (post(VALVE, b"Content-Length: 17"), post(b"{", b"Content-Length: 500"), GET[:20], post(b"", b"")):
        for _ in range(20):
            made = connected(url)
            made.sendall(data)
            made.close()
    assert is_well(url)


def test_who_breaks_off_while_it_is_answered_leaves_nothing_behind() -> None:
    with served({"docs": {"big.md": b"word " * 2_000_000}}) as found:
        for _ in range(5):
            made = connected(found)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.sendall(b"GET /v1/sources/big.md/content HTTP/1.1\r\n" + HOST + b"\r\n")
            made.recv(100)
            made.close()
        assert is_well(found)


# Those that keep one waiting. The times are given, not waited for.


class Fake:
    """A connection for the queue."""

    def __init__(self, is_waiting: bool = True, late_at: float = float("inf")) -> None:
        self.is_waiting, self.late_at, self.dropped = is_waiting, late_at, False

    def is_late(self, now: float) -> bool:
        return now > self.late_at

    def drop(self) -> None:
        self.dropped = True


def test_where_there_are_too_many_that_goes_which_waited_longest() -> None:
    pool = Connections(3)
    busy, first, second, third, fourth = Fake(is_waiting=False), Fake(), Fake(), Fake(), Fake()
    for each in (busy, first, second):
        pool.add(each)  # type: ignore[arg-type]
    pool.touch(first)  # type: ignore[arg-type]
    pool.add(third)  # type: ignore[arg-type]
    assert [each.dropped for each in (busy, first, second, third)] == [False, False, True, False]
    pool.remove(second)  # type: ignore[arg-type]
    pool.touch(second)  # type: ignore[arg-type]
    pool.add(fourth)  # type: ignore[arg-type]
    assert [each.dropped for each in (busy, first, third, fourth)] == [False, True, False, False]


def test_where_all_are_busy_the_newest_goes() -> None:
    pool = Connections(1)
    busy, new = Fake(is_waiting=False), Fake(is_waiting=False)
    pool.add(busy)  # type: ignore[arg-type]
    pool.add(new)  # type: ignore[arg-type]
    assert (busy.dropped, new.dropped) == (False, True)


def test_the_late_ones_are_dropped_and_no_others() -> None:
    pool = Connections(10)
    late, early = Fake(late_at=5), Fake(late_at=15)
    for each in (late, early):
        pool.add(each)  # type: ignore[arg-type]
    pool.sweep(10)
    assert (late.dropped, early.dropped) == (True, False)


def test_slow_heads_are_closed_and_a_normal_client_is_answered_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEADER_TIMEOUT_S", 1.0)
    monkeypatch.setattr(protocol, "SWEEP_S", 0.05)
    with served({"docs": DOCS}) as found:
        slow = [connected(found) for _ in range(20)]
        counter = itertools.count()
        open_ones = set(slow)
        until = time.monotonic() + 20
        while open_ones and time.monotonic() < until:
            for each in [*open_ones]:
                try:
                    each.sendall(GET[next(counter) % 5 : next(counter) % 5 + 1])
                    each.settimeout(0.001)
                    if each.recv(100) == b"":
                        open_ones.discard(each)
                except TimeoutError:
                    pass
                except OSError:
                    open_ones.discard(each)
            assert is_well(found)
        assert not open_ones
        for each in slow:
            each.close()


def test_an_answer_that_nobody_takes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "STALLED_S", 0.3)
    monkeypatch.setattr(protocol, "SWEEP_S", 0.05)
    with served({"docs": {"big.md": b"word " * 3_000_000}}) as found:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect(("127.0.0.1", int(found.rpartition(":")[2])))
        made.sendall(b"GET /v1/sources/big.md/content HTTP/1.1\r\n" + HOST + b"\r\n")
        made.settimeout(20)
        until = time.monotonic() + 20
        peek = b"x"
        # The other side resets it; what had come before is in our own buffer.
        while time.monotonic() < until:
            try:
                made.send(b"x")
            except OSError:
                peek = b""
                break
            time.sleep(0.01)
        assert peek == b""
        made.close()


@pytest.mark.slow
def test_two_thousand_slow_connections_do_not_stop_a_normal_client() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 5_000:
        pytest.skip("too few files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (5_000, hard))
    app = create_app(services(docs=DOCS), HttpSettings(quiet=True), environ={})
    with running(app) as found:
        slow = []
        for number in range(2_000):
            made = connected(found)
            made.sendall((GET if number % 2 else post(b"{", b"Content-Length: 900"))[: 20 if number % 2 else None])
            slow.append(made)
        for _ in range(50):
            assert is_well(found)
            asked = exchange(found, post(VALVE, b"Content-Length: 17", b"Connection: close"))
            assert [reply.status for reply in asked] == [200]
        for each in slow:
            each.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
