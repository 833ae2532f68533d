"""Who may ask: tokens, hosts, other sites' pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from http_bench.clients import DOCS, client
from knowledge_http import HttpSettings
from knowledge_http.grants import parse_tokens

TOKENS = parse_tokens(
    "reader:read,writer:write,chief:admin,docs-only:read:docs,notes-writer:write:notes,gr\xf6\xdfe:read"
)


def guarded(**more: object) -> TestClient:
    settings = HttpSettings(tokens=TOKENS, quiet=True, **more)  # type: ignore[arg-type]
    return client(settings, docs=DOCS, notes={"n.md": b"# Note valve"})


def as_(token: str) -> dict[str, bytes]:
    return {"Authorization": b"Bearer " + token.encode()}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "given",
    [
        b"Bearer caf\xe9",
        "Bearer “key”".encode(),
        b"Bearer",
        b"bearer   ",
        b"Basic eDp5",
        b"Bearer reader reader",
        b"reader",
        b"Bearer reader,writer",
        b"Bearer Reader",
        b"Bearer readerx",
        b"Bearer \xff",
        b"",
        b"Bearer \x00",
    ],
)
def test_what_is_no_token_is_refused(given: bytes) -> None:
    answer = guarded().get("/v1/sources", headers=[(b"authorization", given)])  # type: ignore[arg-type]
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["error"]["code"] == "unauthorized"


def test_without_a_token_or_with_two_nothing_is_told() -> None:
    docs = guarded()
    for headers in ([], [(b"authorization", b"Bearer reader"), (b"authorization", b"Bearer reader")]):
        for where in (
            "/v1/sources",
            "/v1/query?q=valve",
            "/metrics",
            "/llms.txt",
            "/v1/tools",
            "/nope",
            "/v1/sources/n.md",
        ):
            assert docs.get(where, headers=headers).status_code == 401  # type: ignore[arg-type]


def test_what_holds_no_document_is_for_everyone() -> None:
    docs = guarded()
    for where in ("/healthz", "/readyz", "/openapi.json", "/"):
        assert docs.get(where).status_code == 200
    assert "docs" not in docs.get("/readyz").text
    assert docs.get("/openapi.json").json()["components"]["securitySchemes"]


def test_a_token_opens_however_the_scheme_is_written() -> None:
    docs = guarded()
    for header in (b"Bearer reader", b"bearer reader", b"BEARER \t reader ", "Bearer größe".encode()):
        assert docs.get("/v1/sources", headers=[(b"authorization", header)]).status_code == 200  # type: ignore[arg-type]


def test_scopes_are_kept() -> None:
    docs = guarded()
    for token, put, refresh in (
        ("reader", 403, 403),
        ("writer", 201, 403),
        ("chief", 200, 200),
        ("docs-only", 403, 403),
    ):
        assert docs.put("/v1/sources/docs:x.md", content=b"x", headers=as_(token)).status_code == put
        assert docs.post("/v1/refresh", json={}, headers=as_(token)).status_code == refresh
    assert docs.put("/v1/sources/docs:y.md", content=b"x", headers=as_("notes-writer")).status_code == 404
    assert docs.put("/v1/sources/notes:y.md", content=b"x", headers=as_("notes-writer")).status_code == 201
    assert docs.get("/v1/status", headers=as_("notes-writer")).json()["capabilities"]["writable"] is True
    assert docs.get("/v1/status", headers=as_("reader")).json()["capabilities"]["writable"] is False


def test_a_token_for_one_backend_sees_nothing_of_the_others() -> None:
    docs = guarded()
    only = as_("docs-only")
    assert {each["id"] for each in docs.get("/v1/sources", headers=only).json()["sources"]} == {
        "docs:guides/start.md",
        "docs:pump.md",
    }
    everything = docs.get("/v1/query?q=valve&top_k=50", headers=as_("reader")).json()["hits"]
    assert {each["backend"] for each in everything} == {"docs", "notes"}
    for where in ("/v1/query?q=valve&top_k=50", "/llms.txt", "/v1/status", "/v1/tools", "/v1/changes"):
        assert "note" not in docs.get(where, headers=only).text.lower().replace("notes ", "")
    for where in ("/v1/sources/notes:n.md", "/v1/sources/notes%3An.md/content", "/v1/sources?backend=notes"):
        assert docs.get(where, headers=only).status_code == 404
    assert docs.get("/v1/sources?backend=docs", headers=only).json()["sources"][1]["id"] == "pump.md"
    assert docs.get("/metrics", headers=only).status_code == 403
    assert docs.get("/metrics", headers=as_("reader")).status_code == 200


def test_a_token_that_may_read_nothing_here_is_told_so() -> None:
    elsewhere = client(HttpSettings(tokens=parse_tokens("a:read:other"), quiet=True))
    assert elsewhere.get("/v1/sources", headers=as_("a")).json()["error"]["code"] == "forbidden"


def test_the_file_of_tokens_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("one:read\n")
    docs = client(HttpSettings(tokens_file=str(file), quiet=True))
    assert docs.get("/v1/sources", headers=as_("one")).status_code == 200
    file.write_text("two:read:docs\n")
    assert [docs.get("/v1/sources", headers=as_(each)).status_code for each in ("one", "two")] == [401, 200]


# Hosts


def asked_as(name: str, **settings: object) -> int:
    docs = client(HttpSettings(quiet=True, **settings))  # type: ignore[arg-type]
    return docs.get("/v1/sources", headers={"Host": name}).status_code


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765", "localhost."]
)
def test_this_machine_is_asked_by_its_own_names(host: str) -> None:
    assert asked_as(host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "192.0.2.1",
        "localhost@evil",
        "localhost evil",
        "",
        "a:b:c",
        "[::1",
        "x/y",
    ],
)
def test_another_name_that_points_here_is_refused(host: str) -> None:
    assert asked_as(host) == 421


def test_names_may_be_allowed_and_addresses_are_where_others_reach_the_server() -> None:
    assert asked_as("kb.example:80", allowed_hosts=("kb.example",)) == 200
    assert asked_as("anything", allowed_hosts=("*",)) == 200
    assert asked_as("anything/", allowed_hosts=("*",)) == 421
    assert asked_as("192.0.2.1:80", host="0.0.0.0", insecure=True) == 200
    assert asked_as("evil.example", host="0.0.0.0", insecure=True) == 421


# Other sites


def from_origin(origin: str, method: str = "GET", **more: str):  # type: ignore[no-untyped-def]
    docs = client(HttpSettings(cors_origins=("https://app.example",), quiet=True))
    return docs.request(method, "/v1/sources", headers={"Origin": origin, **more})


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost", "http://127.0.0.1:81", "", "file://", "http://["]
)
def test_the_page_of_another_site_may_not_ask(origin: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        answer = from_origin(origin, method)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_page_of_the_server_itself_may_ask() -> None:
    answer = from_origin("http://127.0.0.1")
    assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (200, False)


def test_a_site_that_is_named_may_ask_and_read() -> None:
    answer = from_origin("https://app.example")
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "origin" in answer.headers["vary"]
    assert "access-control-allow-credentials" not in answer.headers
    before = from_origin("https://app.example", "OPTIONS", **{"Access-Control-Request-Method": "PUT"})
    assert (before.status_code, "PUT" in before.headers["access-control-allow-methods"]) == (204, True)
    refused = client(HttpSettings(cors_origins=("https://app.example",), tokens=TOKENS, quiet=True))
    wrong = refused.get("/v1/sources", headers={"Origin": "https://app.example"})
    assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (401, "https://app.example")


def test_by_default_no_other_site_is_told_anything() -> None:
    answer = client().options("/v1/sources", headers={"Origin": "https://a.b", "Access-Control-Request-Method": "PUT"})
    assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (403, False)


def test_a_socket_that_nobody_allowed_is_closed() -> None:
    for docs, headers in ((guarded(), {"Host": "127.0.0.1"}), (client(), {"Host": "evil.example"})):
        with pytest.raises(WebSocketDisconnect) as caught, docs.websocket_connect("/v1/sources", headers=headers):
            pass
        assert caught.value.code == 1008
