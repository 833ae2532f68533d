from __future__ import annotations

import gzip
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.errors import (
    BlockedAddressError,
    BlockedSchemeError,
    ConfigurationError,
    FetchError,
    TooLargeError,
)
from knowledge_engine.fetch import Fetched, fetch_url, is_public
from knowledge_engine.fetch.addresses import checked_addresses, look_up, parse_url
from knowledge_engine.fetch.charsets import decode, known_charset


class Site:
    """A real web server on loopback; `pages` gives status, headers and body for a path."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        site = self
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests.append((self.headers["Host"], self.path))
                site.headers.append(dict(self.headers))
                status, headers, body = site.pages[self.path]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    return

            def log_message(self, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *args: None  # type: ignore[method-assign]
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.scheme = "http" if context is None else "https"

    def page(self, path: str, body: bytes = b"hello", kind: str = "text/plain", status: int = 200, **more: str) -> str:
        headers = {"Content-Type": kind} if kind else {}
        self.pages[path] = (status, headers | {key.replace("_", "-"): value for key, value in more.items()}, body)
        return f"{self.scheme}://docs.test:{self.port}{path}"

    def __enter__(self) -> Site:
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


def fetch(url: str, **options: Any) -> Fetched:
    """A fetch for which every name means loopback, and loopback is allowed."""
    options = {"resolve": lambda host: ["127.0.0.1"], "address_ok": lambda address: address.is_loopback} | options
    return fetch_url(url, **options)


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that speaks to one connection as it likes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        try:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                serve(connection)
        except OSError:
            return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"http://docs.test:{listener.getsockname()[1]}/x"
    finally:
        # A thread that still waits for its connection is woken by one.
        socket.create_connection(listener.getsockname()).close()
        listener.close()
        thread.join()


# What is fetched


def test_a_page_comes_with_its_type_bytes_and_text(site: Site) -> None:
    url = site.page("/a?b=c", "水温".encode(), "Text/Markdown; charset=UTF-8")
    page = fetch(url)
    assert page == Fetched(
        url=url,
        final_url=url,
        status=200,
        content_type="text/markdown",
        content="水温".encode(),
        charset="utf-8",
        text="水温",
    )
    assert site.requests == [(f"docs.test:{site.port}", "/a?b=c")]
    assert "Cookie" not in site.headers[0]


def test_paths_are_escaped_once(site: Site) -> None:
    site.page("/a%20b/%C3%A9?q=%22x%22")
    assert fetch(f'http://docs.test:{site.port}/a b/%C3%A9?q="x"#part').text == "hello"


def test_redirects_are_followed_to_a_limit(site: Site) -> None:
    site.page("/1", status=301, Location="/2")
    site.page("/2", status=307, Location=f"//other.test:{site.port}/3#part")
    site.page("/3", b"end")
    page = fetch(f"http://docs.test:{site.port}/1")
    assert (page.text, page.final_url) == ("end", f"http://other.test:{site.port}/3")
    assert site.requests[-1] == (f"other.test:{site.port}", "/3")
    with pytest.raises(FetchError, match="more than 1 redirects"):
        fetch(f"http://docs.test:{site.port}/1", max_redirects=1)


def test_a_redirect_that_is_not_escaped_is_followed(site: Site) -> None:
    site.page("/1", status=302, Location="/é".encode().decode("latin-1"))
    site.page("/%C3%A9", b"end")
    assert fetch(f"http://docs.test:{site.port}/1").text == "end"


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("file:///etc/passwd", BlockedSchemeError),
        ("http://10.0.0.1/", BlockedAddressError),
        ("http://2130706434/", BlockedAddressError),
        ("http://evil.test/", BlockedAddressError),
        ("http://u:p@docs.test/", BlockedAddressError),
        ("http://[bad", FetchError),
        ("", FetchError),
    ],
)
def test_each_redirect_is_checked_anew(site: Site, location: str, kind: type[FetchError]) -> None:
    url = site.page("/1", status=302, Location=location)
    addresses = {"docs.test": ["127.0.0.1"], "evil.test": ["127.0.0.2"]}
    with pytest.raises(kind) as caught:
        fetch(url, resolve=addresses.__getitem__, address_ok=lambda address: str(address) == "127.0.0.1")
    assert type(caught.value) is kind
    assert len(site.requests) == 1


@pytest.mark.parametrize("status", [204, 206, 304, 404, 500])
def test_an_answer_that_is_no_document_is_an_error(site: Site, status: int) -> None:
    url = site.page("/x", b"" if status in (204, 304) else b"no", status=status)
    with pytest.raises(FetchError, match=str(status)):
        fetch(url)


@pytest.mark.parametrize(
    "kind",
    ["text/html", "text/x-rst", "application/json", "application/ld+json", "application/xhtml+xml", "application/yaml"],
)
def test_text_of_many_types_is_taken(site: Site, kind: str) -> None:
    assert fetch(site.page("/x", kind=kind)).content_type == kind


@pytest.mark.parametrize("kind", ["image/png", "application/pdf", "application/octet-stream", "", "image/svg+xml", "x"])
def test_what_is_not_text_is_refused(site: Site, kind: str) -> None:
    with pytest.raises(FetchError, match="content type"):
        fetch(site.page("/x", kind=kind))


def test_no_proxy_of_the_environment_is_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert fetch(site.page("/x")).text == "hello"


# Where it may go


@pytest.fixture
def no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*args: object, **options: object) -> None:
        raise AssertionError("connected")

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x",
        "http://localhost/x",
        "http://a.localhost/x",
        "HTTP://LOCALHOST.:80/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001:0:1::1]/",
        "http://[2001:db8::1]/",
        "http://[3fff::1]/",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[2606:4700::1111%25eth0]/",
        "http://[fec0::1]/",
        "http://[fd00::1]/",
        "http://[ff02::1]/",
        "http://169.254.169.254/latest/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://１２７.０.０.１/",
        "http://127。0。0。1/",
        "http://0/",
        "http://10.0.0.5/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://192.0.2.1/",
        "http://198.18.0.1/",
        "http://192.88.99.1/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://user:pw@127.0.0.1/",
        "http://user@93.184.216.34/",
        "http://@93.184.216.34/",
        "http://good.test\\@127.0.0.1/",
        "http://loop.test/",
        "http://mixed.test/",
    ],
)
def test_addresses_that_are_not_public_are_blocked_before_any_connection(url: str, no_connection: None) -> None:
    names = {"loop.test": ["127.0.0.1"], "mixed.test": ["93.184.216.34", "10.0.0.1"]}
    with pytest.raises(BlockedAddressError) as caught:
        fetch_url(url, resolve=names.__getitem__)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://h/x", "gopher://h/", "data:text/html,x", "example.com", "", "//h/x", "httpx://h/"],
)
def test_only_http_and_https_are_fetched(url: str, no_connection: None) -> None:
    with pytest.raises(BlockedSchemeError):
        fetch_url(url, resolve=lambda host: ["93.184.216.34"])


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http:///x",
        "http://[::1",
        "http://[nonsense]/",
        "http://[v1.x]/",
        "http://[v1.x:y]/",
        "https:x",
        "http://h:99999/",
        "http://h:x/",
        "http://h:0/",
        "http://a..b/",
        "http://" + "a" * 64 + "/",
        "http://a b/",
        "http://127.0.0.1\\.good.test/",
        "http://h/\r\nX: y",
        "http://h/\ud800",
    ],
)
def test_malformed_urls_are_refused(url: str, no_connection: None) -> None:
    with pytest.raises(FetchError) as caught:
        fetch_url(url, resolve=lambda host: ["93.184.216.34"])
    assert caught.value.code == "fetch-failed"
    str(caught.value).encode()


@given(st.text(max_size=40), st.sampled_from(["", "http://", "https://[", "http://a:"]))
def test_any_text_is_a_target_or_a_coded_error(text: str, prefix: str) -> None:
    try:
        target = parse_url(prefix + text)
    except FetchError:
        return
    assert parse_url(target.url) == target
    target.url.encode("ascii")


def test_urls_have_one_normal_form() -> None:
    assert parse_url(" HTTPS://Bücher.Example.:443/ä?q=ö#x ").url == "https://xn--bcher-kva.example/%C3%A4?q=%C3%B6"
    assert parse_url("http://[2606:4700:0::1111]:8080").url == "http://[2606:4700::1111]:8080/"


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


def test_the_address_that_was_checked_is_the_one_connected_to(site: Site) -> None:
    url = site.page("/1", status=302, Location="/2")
    site.page("/2")
    answers = iter([["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1"]])
    asked = []

    def rebinding(host: str) -> list[str]:
        asked.append(host)
        return next(answers)

    with pytest.raises(BlockedAddressError):
        fetch(url, resolve=rebinding, address_ok=lambda address: str(address) == "127.0.0.1")
    # One look-up a hop: had there been another for the connection, it would have gone wrong before.
    assert asked == ["docs.test", "docs.test"]
    assert [path for _, path in site.requests] == ["/1"]


def test_one_bad_address_among_good_ones_blocks(site: Site) -> None:
    with pytest.raises(BlockedAddressError):
        fetch(site.page("/x"), resolve=lambda host: ["127.0.0.1", "10.0.0.1"])
    assert site.requests == []


def test_the_next_address_is_tried_when_one_does_not_answer(site: Site) -> None:
    assert fetch(site.page("/x"), resolve=lambda host: ["127.0.0.2", "127.0.0.1"]).text == "hello"


def test_nothing_listening_is_an_error_without_internals() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(FetchError, match=r"docs\.test"):
        fetch(f"http://docs.test:{port}/?token=secret")


@pytest.mark.parametrize(
    "failure", [OSError("no"), socket.gaierror("no"), UnicodeError("no"), KeyError("no"), TimeoutError("no")]
)
def test_a_name_that_cannot_be_resolved_is_an_error(failure: Exception) -> None:
    def resolve(host: str) -> list[str]:
        raise failure

    with pytest.raises(FetchError, match="resolved"):
        fetch("http://docs.test/", resolve=resolve)


@pytest.mark.parametrize("addresses", [[], ["nonsense"]])
def test_a_resolver_without_an_address_is_an_error(addresses: list[str]) -> None:
    with pytest.raises(FetchError):
        fetch("http://docs.test/", resolve=lambda host: addresses)


def test_a_resolver_that_hangs_ends_at_the_time_limit() -> None:
    release = threading.Event()

    def hanging(host: str) -> list[str]:
        release.wait(30)
        return []

    try:
        with pytest.raises(FetchError, match="in time"):
            fetch("http://docs.test/", resolve=hanging, timeout_s=0.05)
    finally:
        release.set()


def test_the_system_resolver_gives_addresses() -> None:
    assert look_up("127.0.0.1") == ["127.0.0.1"]
    assert checked_addresses(parse_url("http://8.8.8.8/"), look_up, is_public, 1) == [ip_address("8.8.8.8")]


# Limits


def test_a_body_over_the_limit_is_refused_whatever_its_header_says(site: Site) -> None:
    assert fetch(site.page("/x", b"x" * 1000), max_bytes=1000).content == b"x" * 1000
    with pytest.raises(TooLargeError):
        fetch(site.page("/x", b"x" * 1001), max_bytes=1000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compression_is_undone_and_bombs_are_refused(site: Site, encoding: str) -> None:
    squeeze = gzip.compress if encoding == "gzip" else zlib.compress
    assert fetch(site.page("/x", squeeze(b"text" * 50_000), Content_Encoding=encoding)).content == b"text" * 50_000
    bomb = site.page("/x", squeeze(bytes(50_000_000)), Content_Encoding=encoding)
    with pytest.raises(TooLargeError):
        fetch(bomb, max_bytes=100_000)


def test_bytes_count_as_received_too(site: Site) -> None:
    # Each member is empty: nothing comes out, however much comes in.
    url = site.page("/x", gzip.compress(b"") * 20_000 + gzip.compress(b"x"), Content_Encoding="gzip")
    with pytest.raises(TooLargeError):
        fetch(url, max_bytes=10_000)


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd", "x"])
def test_encodings_that_were_not_asked_for_are_refused(site: Site, encoding: str) -> None:
    with pytest.raises(FetchError, match="encoding"):
        fetch(site.page("/x", Content_Encoding=encoding))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nnogzi",
        b"HTTP/1.1 200 OK\r\n" + b"X-Many: 1\r\n" * 200,
    ],
)
def test_broken_answers_are_errors(answer: bytes) -> None:
    with raw_server(lambda connection: connection.sendall(answer)) as url, pytest.raises(FetchError) as caught:
        fetch(url)
    assert caught.value.code == "fetch-failed"


def test_chunks_are_put_together() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = head + b"3\r\none\r\n4;x=y\r\n two\r\n0\r\n\r\n"
    with raw_server(lambda connection: connection.sendall(answer)) as url:
        assert fetch(url).content == b"one two"


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_server_that_drips_is_left_at_the_time_limit(start: bytes) -> None:
    stop = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(start)
        while not stop.wait(0.01):
            connection.sendall(b"0")

    began = time.monotonic()
    with raw_server(drip) as url:
        try:
            with pytest.raises(FetchError, match="in time"):
                fetch(url, timeout_s=0.3)
        finally:
            stop.set()
    assert time.monotonic() - began < 10


def test_a_server_that_says_nothing_is_left_at_the_time_limit() -> None:
    stop = threading.Event()

    def wait(connection: socket.socket) -> None:
        stop.wait(30)

    with raw_server(wait) as url:
        try:
            with pytest.raises(FetchError, match="in time"):
                fetch(url, timeout_s=0.1)
        finally:
            stop.set()


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=docs.test -keyout key.pem -out cert.pem"
    extensions = ["-addext", "subjectAltName=DNS:docs.test", "-addext", "keyUsage=digitalSignature,keyCertSign"]
    subprocess.run([*command.split(), *extensions], cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_tls_is_checked_against_the_name_though_the_address_is_pinned(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    named: list[str | None] = []
    context.sni_callback = lambda sock, name, _: named.append(name)
    trusting = ssl.create_default_context(cafile=certificate[0])
    with Site(context) as site:
        url = site.page("/x")
        page = fetch(url, ssl_context=trusting)
        assert (page.text, page.final_url) == ("hello", url)
        assert named == ["docs.test"]
        assert site.requests == [(f"docs.test:{site.port}", "/x")]
        with pytest.raises(FetchError, match="SSL"):
            fetch(url.replace("docs.test", "other.test"), ssl_context=trusting)
        with pytest.raises(FetchError, match="SSL"):
            fetch(url.replace("docs.test", "127.0.0.1"), ssl_context=trusting)
        with pytest.raises(FetchError, match="SSL"):
            fetch(url)
        assert len(site.requests) == 1


def test_a_tls_server_that_never_shakes_hands_is_left_at_the_time_limit(certificate: tuple[Path, Path]) -> None:
    stop = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"\x16\x03\x03\x40\x00")
        while not stop.wait(0.01):
            connection.sendall(b"\0")

    with raw_server(drip) as url:
        try:
            with pytest.raises(FetchError, match="in time"):
                fetch(url.replace("http:", "https:"), timeout_s=0.3)
        finally:
            stop.set()


def test_without_urllib3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "urllib3.exceptions", None)
    with pytest.raises(ConfigurationError, match=r"kpkit-engine\[fetch\]"):
        fetch("http://docs.test/")
    with pytest.raises(BlockedSchemeError):
        fetch("file:///etc/passwd")


# Characters

HTML = "text/html"


@pytest.mark.parametrize(
    ("content", "kind", "charset", "text"),
    [
        (b"<meta charset=iso-8859-1><h2>F\xfcr", HTML, "cp1252", "<meta charset=iso-8859-1><h2>Für"),
        (
            b"<META http-equiv='Content-Type' content='text/html; charset=shift_jis'>\x90\x85",
            HTML,
            "cp932",
            "<META http-equiv='Content-Type' content='text/html; charset=shift_jis'>水",
        ),
        ("<meta charset=iso-8859-1>水".encode(), "text/html; charset=UTF-8", "utf-8", "<meta charset=iso-8859-1>水"),
        (b"<meta charset=utf-8>\xfc", "text/html; charset=ISO-8859-1", "cp1252", "<meta charset=utf-8>ü"),
        ("水温 straße".encode(), HTML, "utf-8", "水温 straße"),
        ("é".encode(), "text/html; charset=nonsense", "utf-8", "é"),
        (b"\xe9", "text/html; charset=nonsense", "cp1252", "é"),
        (b"\xe9\x81", "text/plain", "cp1252", "é\ufffd"),
        (b"\xef\xbb\xbf\xc3\xa9", "text/plain; charset=latin-1", "utf-8", "é"),
        ("é".encode("utf-16"), "text/plain", "utf-16-le", "é"),
        (b"\xfe\xff\x00\xe9", "text/plain", "utf-16-be", "é"),
        (b"<meta charset=utf-16>\xc3\xa9", HTML, "utf-8", "<meta charset=utf-16>é"),
        (b"<meta charset=nonsense>\xc3\xa9", HTML, "utf-8", "<meta charset=nonsense>é"),
        (b"<meta charset=iso-8859-1>\xc3\xa9", "text/plain", "utf-8", "<meta charset=iso-8859-1>é"),
        (b"<?xml version='1.0' encoding='koi8-r'?>\xc1", "application/xml", "koi8-r", None),
        (b"<?xml version='1.0'?><meta charset='koi8-r'/>\xc1", "application/xhtml+xml", "koi8-r", None),
        (b"\xc1", 'text/plain; format=flowed; Charset="KOI8-R"', "koi8-r", "а"),
        (b"", "", "utf-8", ""),
    ],
)
def test_the_charset_is_chosen_as_documented(content: bytes, kind: str, charset: str, text: str | None) -> None:
    found = decode(content, kind)
    assert found[0] == charset
    assert found[1] == (content.decode("koi8-r") if text is None else text)


@pytest.mark.parametrize(
    ("label", "charset"),
    [
        ("UTF8", "utf-8"),
        ("latin1", "cp1252"),
        ("us-ascii", "cp1252"),
        ("GB2312", "gb18030"),
        ("x-sjis", "cp932"),
        ("big5", "big5hkscs"),
        ("iso-8859-15", "iso8859-15"),
        ("unicode_escape", ""),
        ("utf-7", ""),
        ("idna", ""),
        ("zlib", ""),
        ("undefined", ""),
        ("../../etc", ""),
        ("é", ""),
        ("", ""),
    ],
)
def test_only_charsets_of_the_web_are_known(label: str, charset: str) -> None:
    assert known_charset(label) == charset


@given(
    st.binary(max_size=60),
    st.sampled_from(
        ["utf-8", "utf-16", "hz", "iso-2022-jp", "gbk", "johab", "big5", "euc-kr", "shift_jis", "x", "cp1255"]
    ),
)
def test_any_bytes_under_any_label_become_text_without_surrogates(content: bytes, label: str) -> None:
    for kind in (f"text/html; charset={label}", "text/html"):
        charset, text = decode(b"<meta charset=" + label.encode() + b">" + content, kind)
        text.encode()
        assert known_charset(charset) == charset
