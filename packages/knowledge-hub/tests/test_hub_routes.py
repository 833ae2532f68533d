"""The hub over HTTP, on a real socket: routes, rights, and what is sent wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from http_bench.servers import running, services
from knowledge_http import HttpSettings, create_app
from knowledge_http.grants import parse_tokens

NEW = {
    "scenario": "Read tables out of a PDF",
    "content": "Use pdfplumber.",
    "tags_type": ["tool", "strategy"],
    "urls": ["https://example.com"],
    "agent_id": "research_agent",
    "score": 4,
    "message_id": "msg-1",
}
Open = Callable[..., httpx2.Client]


@pytest.fixture
def open_client(tmp_path: Path) -> Iterator[Open]:
    """A client of a server with a hub; `tokens` as the server takes them, else everyone may write."""
    with ExitStack() as stack:

        def opening(tokens: str = "", token: str = "") -> httpx2.Client:
            settings = HttpSettings(quiet=True, writable=not tokens, tokens=parse_tokens(tokens))
            environ = {
                "KNOWLEDGE_HUB_PATH": str(tmp_path / "hub.db"),
                "KNOWLEDGE_HUB_MODEL": "none",
            }
            url = stack.enter_context(running(create_app(services(docs={"a.md": b"# A\n"}), settings, environ=environ)))
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return stack.enter_context(httpx2.Client(base_url=f"{url}/api/knowledge", headers=headers, timeout=30))

        yield opening


def test_an_entry_goes_all_the_way(open_client: Open) -> None:
    hub = open_client()
    saved = hub.post("", json=NEW)
    assert saved.status_code == 201
    entry = saved.json()
    assert next(iter(entry)) == "id"
    assert entry["source"]["urls"] == ["https://example.com"]
    found = hub.get("/search", params={"q": "pdf tables", "tags_type": "tool,plan"}).json()
    assert found["results"] == [
        {
            "id": entry["id"],
            "scenario": NEW["scenario"],
            "content": NEW["content"],
            "tags": {"type": ["tool", "strategy"]},
            "score": 4,
            "quality_score": 4.0,
            "metrics": {"helpful": 0, "harmful": 0},
        }
    ]
    assert (found["count"], found["router"]) == (1, "lexical")
    case = {"case_id": "c", "scenario": "s", "result": "r"}
    put = hub.put(f"/{entry['id']}", json={"add_helpful_case": case, "update_score": 5}).json()
    assert (put["eval"]["helpful"], put["eval"]["score"], put["eval"]["helpful_history"]) == (1, 5, [case])
    batch = [
        {"knowledge_id": entry["id"], "is_effective": False},
        {"knowledge_id": "knowledge-none", "is_effective": True, "feedback": None},
    ]
    answer = hub.post("/batch_update", json={"feedback_list": batch}).json()
    assert (answer["updated"], answer["unknown"]) == (1, ["knowledge-none"])
    listed = hub.get("", params={"limit": 1, "tags_type": ["plan", "tool"]}).json()
    assert (listed["count"], listed["results"][0]["metrics"]) == (1, {"helpful": 1, "harmful": 1})
    history = hub.get(f"/{entry['id']}/history").json()
    assert [one["version"] for one in history["versions"]] == [1]
    assert [one["score"] for one in history["ratings"]] == [4, 5]
    assert hub.get("/status").json()["entries"] == 1
    assert hub.get(f"/{entry['id']}").json()["id"] == entry["id"]
    assert hub.delete(f"/{entry['id']}").status_code == 204
    assert hub.get(f"/{entry['id']}").status_code == 404


def test_slimming_is_planned_applied_and_undone(open_client: Open) -> None:
    hub = open_client()
    one, other = (hub.post("", json=NEW).json()["id"] for _ in range(2))
    planned = hub.post("/slim", json={"dry_run": True}).json()
    assert planned["applied"] is None
    assert hub.get("/status").json()["active"] == 2
    chosen = hub.post("/slim", json={"plan": planned["plan"], "chosen": []}).json()
    assert chosen["applied"]["applied"] == []
    done = hub.post("/slim", json={"plan": planned["plan"]}).json()["applied"]
    assert (done["before"], done["after"]) == (2, 1)
    assert hub.get("/merges").json()["merges"][0]["keep"] in (one, other)
    assert hub.post(f"/merges/{done['applied'][0]['merge_id']}/undo").status_code == 200
    # What agents send by default: here no model is set up, and the rule merges.
    assert hub.post("/slim", json={"model": "anthropic/claude-sonnet-4.5"}).json()["applied"]["after"] == 1
    assert hub.post("/slim", json={"model": "nobody:knows"}).status_code == 400


def test_what_is_exported_can_be_imported(open_client: Open) -> None:
    hub = open_client()
    entry = hub.post("", json=NEW).json()
    answer = hub.get("/export")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert len(answer.text.splitlines()) == 2
    hub.delete(f"/{entry['id']}")
    assert hub.post("/import", content=answer.content).json() == {"added": 1, "same": 0}
    wrong = hub.post("/import", content=answer.content + b"{")
    assert wrong.status_code == 400
    assert "Line 3" in wrong.json()["error"]["message"]


def test_the_same_key_saves_once(open_client: Open) -> None:
    hub = open_client()
    ids = {hub.post("", json=NEW, headers={"Idempotency-Key": "k"}).json()["id"] for _ in range(3)}
    assert len(ids) == 1
    other = hub.post("", json=NEW | {"score": 1}, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["error"]["code"]) == (412, "conflict")


TOKENS = "reader:read,writer:write::crawler,chief:admin"


@pytest.mark.parametrize(
    ("token", "allowed"),
    [("reader", {"read"}), ("writer", {"read", "write"}), ("chief", {"read", "write", "admin"})],
)
def test_a_token_allows_what_its_scope_says(open_client: Open, token: str, allowed: set[str]) -> None:
    hub = open_client(TOKENS, token)
    asked: dict[str, list[tuple[str, str, Any]]] = {
        "read": [("GET", "/search?q=x", None), ("GET", "", None), ("GET", "/export", None), ("GET", "/merges", None)],
        "write": [("POST", "", NEW), ("POST", "/batch_update", {"feedback_list": []})],
        "admin": [
            ("POST", "/slim", {}),
            ("POST", "/import", None),
            ("DELETE", "/knowledge-none", None),
            ("POST", "/knowledge-none/revert", {"version": 1}),
            ("POST", "/knowledge-none/retire", None),
            ("POST", "/knowledge-none/restore", None),
            ("POST", "/merges/1/undo", None),
        ],
    }
    for scope, calls in asked.items():
        for method, path, body in calls:
            answer = hub.request(method, path, json=body)
            assert (answer.status_code == 403) == (scope not in allowed), (method, path, answer.text)


def test_without_a_token_nothing_is_seen(open_client: Open) -> None:
    assert open_client(TOKENS).get("/search?q=x").status_code == 401


def test_whom_a_token_stands_for_is_kept_beside_whom_the_caller_says_it_is(open_client: Open) -> None:
    entry = open_client(TOKENS, "writer").post("", json=NEW).json()
    assert (entry["source"]["agent_id"], entry["source"]["token_agent"]) == ("research_agent", "crawler")


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "", b'{"scenario": "s", "content": "c", "score": 9}', "score"),
        ("POST", "", b'{"scenario": "s", "content": "c", "score": NaN}', "score"),
        ("POST", "", b'{"scenario": "s", "content": "\\ud800"}', "body"),
        ("POST", "", b'{"scenario": "s", "content": "c", "tags_type": ["rumour"]}', "tags_type"),
        ("POST", "", b'{"scenario": "s"', "body"),
        ("POST", "", b"\xff", "body"),
        ("POST", "", b"[]", "body"),
        ("POST", "", b"", "scenario"),
        ("POST", "/batch_update", b'{"feedback_list": [{"knowledge_id": "k"}]}', "feedback_list.0.is_effective"),
        ("PUT", "/knowledge-1", b"{}", "says nothing"),
        ("PUT", "/knowledge-1", b'{"add_helpful_case": {"x": Infinity}}', "add_helpful_case"),
        ("GET", "/search", None, "question"),
        ("GET", "/search?q=a&q=b", None, "question"),
        ("GET", "/search?q=a&top_k=0", None, "top_k"),
        ("GET", "/search?q=a&top_k=x", None, "top_k"),
        ("GET", "/search?q=a&min_score=9", None, "min_score"),
        ("GET", "/search?q=a&tags_type=rumour", None, "rumour"),
        ("GET", "?limit=1e3", None, "limit"),
    ],
)
def test_what_is_sent_wrongly_is_named(
    open_client: Open, method: str, path: str, body: bytes | None, said: str
) -> None:
    answer = open_client().request(method, path, content=body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "mend", "id"}
    assert said in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/knowledge-none", 404),
        ("GET", "/a/b/c", 404),
        ("PUT", "", 405),
        ("DELETE", "/search", 405),
        ("PUT", "/..%2f..%2fetc", 404),
    ],
)
def test_what_is_not_there_is_said_in_the_servers_own_form(
    open_client: Open, method: str, path: str, status: int
) -> None:
    answer = open_client().request(method, path, content=b'{"update_score": 3}')
    assert answer.status_code == status
    assert answer.json()["error"]["mend"]


def test_a_huge_body_is_refused_before_it_is_read(open_client: Open) -> None:
    hub = open_client()
    answer = hub.post("", content=json.dumps(NEW | {"content": "x" * 17_000_000}))
    assert answer.status_code == 413
    assert hub.get("/status").json()["entries"] == 0


def test_a_server_without_a_hub_has_no_routes_of_one() -> None:
    with (
        running(create_app(services(docs={"a.md": b"# A\n"}), HttpSettings(quiet=True), environ={})) as url,
        httpx2.Client() as client,
    ):
        assert client.get(f"{url}/api/knowledge").status_code == 404


def test_the_panel_is_a_module_and_its_page_knows_it(open_client: Open) -> None:
    hub = open_client()
    module = hub.get("/panel.js")
    assert module.headers["content-type"].startswith("text/javascript")
    assert "export function show" in module.text
    page = httpx2.get(str(hub.base_url).replace("/api/knowledge/", "/page")).json()
    assert [one["name"] for one in page["panels"]] == ["hub"]
