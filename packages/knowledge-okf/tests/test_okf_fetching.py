"""Reading sources: files of every kind, and the web over a real socket, guarded and tried again."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.errors import (
    BlockedAddressError,
    BlockedSchemeError,
    ConfigurationError,
    FetchError,
    TooLargeError,
)
from knowledge_okf import OkfSettings, SourceText, fetch_url, read_source
from knowledge_okf.sources import is_url, split_source

Page = tuple[int, str, bytes]


class Site:
    """Answers with the next of its pages; the last one again and again."""

    def __init__(self) -> None:
        self.pages: list[Page | None] = []
        self.requests = 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests += 1
                page = site.pages.pop(0) if len(site.pages) > 1 else site.pages[0]
                if page is None:
                    self.close_connection = True
                    return
                status, kind, body = page
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://guide.test:{self.server.server_address[1]}/docs/guide"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield site
    site.server.shutdown()
    thread.join()
    site.server.server_close()


OPEN: dict[str, Any] = {"resolve": lambda host: ["127.0.0.1"], "address_ok": lambda address: True}


def fetched(site: Site, *pages: Page | None, **how: Any) -> tuple[Any, list[float]]:
    site.pages = list(pages)
    pauses: list[float] = []
    return fetch_url(site.url, sleep=pauses.append, **OPEN, **how), pauses


GOOD = (200, "text/markdown", b"# A\n")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again_after_longer_and_longer_pauses(site: Site, status: int) -> None:
    found, pauses = fetched(site, *[(status, "text/plain", b"")] * 3, GOOD)
    assert found.text == "# A\n"
    assert pauses == [0.5, 1.0, 2.0]


def test_a_connection_that_breaks_is_tried_again(site: Site) -> None:
    found, pauses = fetched(site, None, GOOD)
    assert (found.text, len(pauses)) == ("# A\n", 1)


@pytest.mark.parametrize("page", [(404, "text/plain", b""), (403, "text/plain", b""), (200, "image/png", b"x")])
def test_what_will_not_pass_is_not_tried_again(site: Site, page: Page) -> None:
    with pytest.raises(FetchError):
        fetched(site, page)
    assert site.requests == 1


def test_the_attempts_are_bounded(site: Site) -> None:
    with pytest.raises(FetchError, match="503"):
        fetched(site, (503, "text/plain", b""), settings=OkfSettings(max_retries=1))
    assert site.requests == 2


def test_a_page_over_the_limit_is_refused(site: Site) -> None:
    with pytest.raises(TooLargeError):
        fetched(site, (200, "text/plain", b"x" * 2000), settings=OkfSettings(max_body_size=1000))


def test_nobody_listening_is_told_after_all_attempts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        pauses: list[float] = []
        with pytest.raises(FetchError):
            fetch_url(f"http://h.test:{taken.getsockname()[1]}/", sleep=pauses.append, **OPEN)
        assert len(pauses) == 3


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://127.0.0.1/x", BlockedAddressError),
        ("http://[::ffff:127.0.0.1]/", BlockedAddressError),
        ("http://2130706433/", BlockedAddressError),
        ("http://loop.test/", BlockedAddressError),
        ("http://user:pw@127.0.0.1/", BlockedAddressError),
        ("HTTP://LOCALHOST.:80/", BlockedAddressError),
        ("file:///etc/passwd", BlockedSchemeError),
        ("ftp://h/x", BlockedSchemeError),
        ("data:text/html,x", BlockedSchemeError),
    ],
)
def test_what_is_not_public_is_never_connected_to(url: str, kind: type[Exception]) -> None:
    pauses: list[float] = []
    with pytest.raises(kind):
        read_source(url, resolve=lambda host: ["127.0.0.1"], sleep=pauses.append)
    assert pauses == []


@pytest.mark.parametrize(
    ("kind", "body", "headings"),
    [
        ("text/html", "<meta charset=iso-8859-1><h2>Für</h2>".encode("latin-1"), ["Für"]),
        ("text/html", "<meta charset='shift_jis'><h2>水温</h2>".encode("shift_jis"), ["水温"]),
        ("text/html", "<h2>水温 straße</h2>".encode(), ["水温 straße"]),
        ("text/html; charset=nonsense", "<h2>xé</h2>".encode(), ["xé"]),
        ("text/plain", b"<!doctype html><h2>A</h2>", ["A"]),
        ("text/plain", b"# A <h2>b</h2>\n", ["A b"]),
        ("text/x-markdown", b"# A\n", ["A"]),
        ("application/json", b"{}", []),
    ],
)
def test_a_fetched_page_is_split_by_what_it_is(site: Site, kind: str, body: bytes, headings: list[str]) -> None:
    site.pages = [(200, kind, body)]
    found = read_source(site.url, **OPEN)
    assert found.url == found.name == site.url
    assert [each.title for each in split_source(found).sections if each.level] == headings


def test_links_of_a_fetched_page_lead_where_they_did(site: Site) -> None:
    site.pages = [(200, "text/html", b"<h2>A</h2><a href='other'>x</a>")]
    text = split_source(read_source(site.url, **OPEN)).sections[0].text
    assert text == f"[x]({site.url.removesuffix('guide')}other)"


def test_links_of_fetched_markdown_lead_where_they_did() -> None:
    text = '# Ä\n\nä [a](a.md) ![i](i.png) [b](https://h/x) `[c](c.md)` [d](#d) [e](<e f>) [f](/f "t") [g](//[bad)\n'
    source = SourceText("n", "https://example.org/docs/x", "markdown", text.encode())
    assert split_source(source).sections[0].text == (
        "ä [a](https://example.org/docs/a.md) ![i](https://example.org/docs/i.png) [b](https://h/x) `[c](c.md)` "
        '[d](#d) [e](<e f>) [f](https://example.org/f "t") [g](//[bad)'
    )


@pytest.mark.parametrize(
    ("name", "raw", "kind"),
    [
        ("a.md", b"# x", "markdown"),
        ("a.HTM", b"x", "html"),
        ("a.txt", b"\xef\xbb\xbf <!-- c --> <HTML>", "html"),
        ("a.txt", b"a <html>", "text"),
        ("a", b"", "text"),
    ],
)
def test_a_file_is_what_its_name_says_or_else_how_it_begins(tmp_path: Path, name: str, raw: bytes, kind: str) -> None:
    (tmp_path / name).write_bytes(raw)
    assert read_source(tmp_path / name) == SourceText(name, "", kind, raw)


def test_a_file_in_another_charset_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("# Für\n".encode("latin-1"))
    (tmp_path / "b.txt").write_bytes("# Für\n".encode("utf-16"))
    assert read_source(tmp_path / "a.txt").text == read_source(tmp_path / "b.txt").text == "# Für\n"


def test_a_file_that_looks_like_a_url_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("note:a.md").write_text("# A\n")
    assert not is_url("note:a.md")
    assert is_url("nothing:there")
    assert read_source("note:a.md").name == "note:a.md"


@pytest.mark.parametrize("name", ["missing.md", "", "a\x00b", "."])
def test_what_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FetchError):
        read_source(name)


def test_a_pipe_is_no_file_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FetchError, match="is no file"):
        read_source(tmp_path / "pipe")


def test_pictures_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\x00\x01")
    with pytest.raises(FetchError, match="is no text"):
        read_source(tmp_path / "a.png")


def test_a_file_over_the_limit_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("12345")
    with pytest.raises(TooLargeError, match="KNOWLEDGE_MAX_BODY_SIZE"):
        read_source(tmp_path / "a.md", settings=OkfSettings(max_body_size=4))


def test_a_source_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        split_source(SourceText("a", "", "pdf", b""))


def test_settings_come_from_the_environment() -> None:
    found = OkfSettings.from_env(
        {
            "KNOWLEDGE_DEFAULT_MODEL": " m ",
            "KNOWLEDGE_MAX_BODY_SIZE": "10",
            "KNOWLEDGE_REQUEST_TIMEOUT": "1.5",
            "KNOWLEDGE_MAX_RETRIES": "0",
        }
    )
    assert found == OkfSettings(default_model="m", max_body_size=10, request_timeout=1.5, max_retries=0)
    assert OkfSettings.from_env({"KNOWLEDGE_MAX_RETRIES": " "}) == OkfSettings()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MAX_BODY_SIZE", "0"),
        ("MAX_BODY_SIZE", "1.5"),
        ("REQUEST_TIMEOUT", "nan"),
        ("MAX_RETRIES", "-1"),
        ("REQUEST_TIMEOUT", "x"),
        ("MAX_RETRIES", "1e9"),
        ("REQUEST_TIMEOUT", "inf"),
    ],
)
def test_a_wrong_setting_is_named(variable: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"KNOWLEDGE_{variable}"):
        OkfSettings.from_env({f"KNOWLEDGE_{variable}": value})
