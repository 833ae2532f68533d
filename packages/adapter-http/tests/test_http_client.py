"""The backend that calls a server: what it asks again, who gets its token, and servers that lie, hang or break off."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from http_bench.clients import DOCS
from http_bench.servers import served
from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    ConflictError,
    InvalidArgumentError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    NotSupportedError,
    ProviderError,
    ReadOnlyError,
    TooLargeError,
    UnavailableError,
)
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import ByteSpan, Capabilities, IngestRequest, Query
from knowledge_http import HttpKnowledgeAdapter, HttpSettings, create_standalone_http_adapter
from knowledge_http.client import transport
from knowledge_http.grants import parse_tokens
from knowledge_http.settings import split_url


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FIRST_WAIT_S", 0.001)


@contextmanager
def adapter(url: str, **more: Any) -> Iterator[HttpKnowledgeAdapter]:
    base, backend = split_url(url)
    found = HttpKnowledgeAdapter(HttpSettings(url=base, backend=backend, **{"timeout_s": 5.0, **more}))
    yield found
    found.dispose()


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class Fake:
    """A server that does what it is told, and remembers what it was asked."""

    def __init__(self, answer: Answer) -> None:
        asked: list[tuple[str, str, dict[str, str]]] = []
        self.asked = asked

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def respond(self) -> None:
                size = int(self.headers.get("content-length", 0))
                self.rfile.read(size)
                asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
                answer(self)

            do_GET = do_POST = do_PUT = do_DELETE = respond

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Fake:
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def send(handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes | object = b"", **headers: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def always(status: int, body: bytes | object = b"", **headers: str) -> Answer:
    return lambda handler: send(handler, status, body, **headers)


# Against a real server


def test_what_the_server_has_is_what_the_backend_behind_it_has() -> None:
    behind = MemoryProvider(DOCS)
    with served(behind) as url, adapter(url) as remote:
        assert remote.list_sources() == behind.list_sources()
        assert remote.get_source("pump.md") == behind.get_source("pump.md")
        assert remote.read_source("pump.md", ByteSpan(start=3, end=9)) == behind.read_source(
            "pump.md", ByteSpan(start=3, end=9)
        )
        assert remote.query(Query(query="valve")).hits == behind.query(Query(query="valve")).hits
        assert (remote.capabilities.writable, remote.id) == (False, "http")
        with pytest.raises(ReadOnlyError, match="KNOWLEDGE_HTTP_TOKEN"):
            remote.ingest(IngestRequest(id="a.md", content=b"x"))
        assert (remote.refresh(), remote.refresh(["a"])) == (False, False)
        remote.invalidate()
        with pytest.raises(NotFoundError):
            remote.get_source("missing.md")


def test_one_of_several_backends_is_named_in_the_url() -> None:
    with served({"docs": DOCS, "notes": {"n.md": b"# Note"}}) as url:
        with adapter(f"{url}/?backend=notes") as remote:
            assert [each.id for each in remote.list_sources().sources] == ["n.md"]
            assert remote.query(Query(query=" ")).hits == ()
        with adapter(url) as remote:
            assert "notes:n.md" in [each.id for each in remote.list_sources().sources]
        with adapter(f"{url}/?backend=other") as remote, pytest.raises(KnowledgeError, match="docs, notes"):
            remote.list_sources()


def test_the_token_is_shown_and_one_that_is_wrong_is_told() -> None:
    settings = HttpSettings(tokens=parse_tokens("größe:write"), quiet=True)
    with served({"docs": DOCS}, settings) as url:
        with adapter(url, token="größe") as remote:
            assert remote.capabilities.writable
            remote.ingest(IngestRequest(id="new.md", content=b"x", if_match=""))
            with pytest.raises(ConflictError):
                remote.ingest(IngestRequest(id="new.md", content=b"y", if_match=""))
            with pytest.raises(ConflictError):
                remote.delete_source("new.md", if_match="0" * 64)
            with pytest.raises(InvalidArgumentError):
                remote.delete_source("new.md", if_match='"')
            remote.delete_source("new.md")
        for token in (None, "other"):
            with adapter(url, token=token) as remote:
                with pytest.raises(ConfigurationError, match="KNOWLEDGE_HTTP_TOKEN"):
                    remote.list_sources()
                assert (remote.capabilities, remote.health_check().status) == (Capabilities(), "down")
                with pytest.raises(ConfigurationError):
                    remote.ingest(IngestRequest(id="a.md", content=b"x"))


def test_many_threads_share_one_adapter() -> None:
    with served({"docs": DOCS}) as url, adapter(url) as remote:
        found: list[int] = []

        def ask() -> None:
            found.extend(len(remote.query(Query(query="valve")).hits) for _ in range(10))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [2] * 80


def test_what_cannot_be_sent_is_refused_here() -> None:
    with adapter("http://127.0.0.1:9") as remote:
        for odd in ("", "\ud800", 5):
            with pytest.raises(InvalidIdError):
                remote.get_source(odd)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError):
            remote.query(Query(query="a\ud800"))
        with pytest.raises(InvalidArgumentError):
            remote.list_sources(limit=0)
        assert remote.explain("") is None


# When something goes wrong


def test_what_only_reads_is_asked_again_and_what_writes_is_not() -> None:
    status = {"capabilities": {"writable": True}}

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        if handler.path == "/v1/status":
            return send(handler, 200, status)
        return send(handler, 503, b"away")

    with Fake(answer) as fake, adapter(fake.url) as remote:
        with pytest.raises(UnavailableError):
            remote.query(Query(query="valve"))
        assert [path for _, path, _ in fake.asked] == ["/v1/query"] * 3
        fake.asked.clear()
        for write in (
            lambda: remote.ingest(IngestRequest(id="a.md", text="x")),
            lambda: remote.delete_source("a.md"),
            lambda: remote.supersede("a.md", "b.md"),
        ):
            with pytest.raises(UnavailableError):
                write()
        assert [method for method, path, _ in fake.asked if path != "/v1/status"] == ["POST", "DELETE", "POST"]


def test_a_connection_that_breaks_is_made_again() -> None:
    count = [0]

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        count[0] += 1
        if count[0] == 1:
            handler.connection.close()
            handler.close_connection = True
        else:
            send(handler, 200, {"sources": [], "total": 0})

    with Fake(answer) as fake, adapter(fake.url) as remote:
        assert remote.list_sources().sources == ()
    assert count == [2]


def test_nobody_there_is_unavailable_and_not_an_error_to_ask_about() -> None:
    with adapter("http://127.0.0.1:9") as remote:
        with pytest.raises(UnavailableError):
            remote.list_sources()
        assert remote.capabilities == Capabilities()
        assert remote.health_check().status == "down"
        remote.dispose()
        with pytest.raises(UnavailableError, match="disposed"):
            remote.list_sources()


def test_a_server_that_drips_is_not_waited_for_beyond_the_deadline() -> None:
    going_on = threading.Event()

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        while not going_on.wait(0.05):
            try:
                handler.wfile.write(b" ")
                handler.wfile.flush()
            except OSError:
                return

    with Fake(answer) as fake, adapter(fake.url, timeout_s=0.4) as remote:
        with pytest.raises(UnavailableError):
            remote.list_sources()
        assert not going_on.is_set()
        going_on.set()


def test_the_token_goes_nowhere_else() -> None:
    with Fake(always(200, {"sources": [], "total": 0})) as other:
        for status in (301, 302, 307, 308):
            with (
                Fake(always(status, Location=f"{other.url}/v1/list")) as fake,
                adapter(fake.url, token="hush") as remote,
            ):
                with pytest.raises(ProviderError):
                    remote.list_sources()
                with pytest.raises(ProviderError):
                    remote.get_source("a.md")
        assert other.asked == []


def test_a_redirect_of_the_same_server_is_followed_without_losing_what_was_sent() -> None:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        if handler.path.startswith("/base/"):
            send(handler, 308, Location=handler.path.removeprefix("/base"))
        else:
            send(handler, 200, {"sources": [], "total": 0})

    with Fake(answer) as fake, adapter(f"{fake.url}/base/", token="hush") as remote:
        assert remote.list_sources().total == 0
        assert [(path, headers.get("authorization")) for _, path, headers in fake.asked] == [
            ("/base/v1/list", "Bearer hush"),
            ("/v1/list", "Bearer hush"),
        ]


@pytest.mark.parametrize("location", ["http://[", "ftp://x/", "http://127.0.0.1:1/", "//evil/", "/v1/list"])
def test_redirects_that_lead_nowhere_are_errors(location: str) -> None:
    with Fake(always(307, Location=location)) as fake, adapter(fake.url) as remote, pytest.raises(ProviderError):
        remote.list_sources()


WIRE = {"code": "internal", "message": "m. n", "mend": "n", "id": ""}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, {"error": {**WIRE, "code": "not-found"}}, NotFoundError),
        (412, {"error": {**WIRE, "code": "conflict"}}, ConflictError),
        (503, {"error": {**WIRE, "code": "busy"}}, BusyError),
        (418, {"error": {**WIRE, "code": "never-heard-of"}}, ProviderError),
        (500, {"error": WIRE}, ProviderError),
        (401, {"error": {**WIRE, "code": "unauthorized"}}, ConfigurationError),
        (401, b"proxy", ConfigurationError),
        (403, {"error": {**WIRE, "code": "forbidden"}}, ReadOnlyError),
        (421, {"error": {**WIRE, "code": "misdirected"}}, ProviderError),
        (404, b"<html>", NotSupportedError),
        (405, b"", NotSupportedError),
        (413, b"", TooLargeError),
        (429, b"", BusyError),
        (502, b"", UnavailableError),
        (504, b"", UnavailableError),
        (400, [], ProviderError),
        (400, {"error": "text"}, ProviderError),
        (400, {"error": {"code": 5}}, ProviderError),
        (400, b"[" * 50_000, ProviderError),
        (400, b"x" * 200_000, ProviderError),
    ],
)
def test_each_failure_has_its_place_in_the_one_tree(status: int, body: Any, kind: type[KnowledgeError]) -> None:
    with Fake(always(status, body)) as fake, adapter(fake.url) as remote:
        with pytest.raises(kind) as caught:
            remote.list_sources()
        assert type(caught.value) is kind
        assert caught.value.mend


SOURCE = {"id": "a.md", "origin": "file", "uri": "", "title": "", "bytes": 1}
LIES: list[tuple[str, Any]] = [
    ("list_sources", b""),
    ("list_sources", b"not json"),
    ("list_sources", []),
    ("list_sources", {"sources": [{}]}),
    ("list_sources", {"sources": [SOURCE] * 3, "total": 3}),
    ("list_sources", b"[" * 100_000),
    ("get", {}),
    ("get", []),
    ("get", {"source": {**SOURCE, "id": "other.md"}}),
    ("query", {"hits": [], "engine": "x"}),
    ("query", {"hits": [{}], "engine": "x", "mode_used": "keyword"}),
    ("read", b"abc"),
]


@pytest.mark.parametrize(("call", "body"), LIES)
def test_a_server_that_lies_is_not_believed(call: str, body: Any) -> None:
    with Fake(always(200, body)) as fake, adapter(fake.url) as remote:
        calls: dict[str, Callable[[], object]] = {
            "list_sources": lambda: remote.list_sources(limit=2),
            "get": lambda: remote.get_source("a.md"),
            "query": lambda: remote.query(Query(query="x")),
            "read": lambda: remote.read_source("a.md"),
        }
        with pytest.raises(ProviderError):
            calls[call]()
        assert remote.health_check().status == "down"


@pytest.mark.parametrize("span", ["", "0-3", "0-3/x", "0-2/3", "1-3/3", "3-0/3", "0-4/4", "-1-3/3"])
def test_bytes_that_are_not_where_they_should_be_are_refused(span: str) -> None:
    with (
        Fake(always(200, b"abc", Knowledge_Span=span)) as fake,
        adapter(fake.url) as remote,
        pytest.raises(ProviderError),
    ):
        remote.read_source("a.md")


def test_more_hits_than_were_asked_for_are_refused() -> None:
    with served({"docs": DOCS}) as url, adapter(url) as remote:
        two = remote.query(Query(query="valve"))
    with Fake(always(200, json.loads(two.model_dump_json()))) as fake, adapter(fake.url) as remote:
        assert len(remote.query(Query(query="valve")).hits) == 2
        with pytest.raises(ProviderError, match="more hits"):
            remote.query(Query(query="valve", top_k=1))


def test_an_answer_without_end_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 1_000)
    with Fake(always(200, b" " * 2_000)) as fake, adapter(fake.url) as remote, pytest.raises(TooLargeError):
        remote.list_sources()


def test_a_file_of_certificates_that_holds_none_is_told(tmp_path: Any) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("none")
    for name in (str(file), str(tmp_path / "missing")):
        wrong = pytest.raises(ConfigurationError, match="KNOWLEDGE_HTTP_CA_FILE")
        with adapter("https://127.0.0.1:9", ca_file=name) as remote, wrong:
            remote.list_sources()


def test_a_standalone_adapter_needs_the_environment_only() -> None:
    remote = create_standalone_http_adapter({"KNOWLEDGE_HTTP_URL": "http://127.0.0.1:9/"})
    assert remote.capabilities == Capabilities()
    remote.dispose()
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_HTTP_URL"):
        create_standalone_http_adapter({})
