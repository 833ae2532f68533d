"""Clients for applications in this process, and for bytes on a socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.testclient import TestClient

from http_bench.servers import services
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_http import HttpSettings, create_app

DOCS: Mapping[str, bytes] = {
    "guides/start.md": b"---\nid: start\ntitle: First steps\nkind: guide\n---\n# First steps\n\n"
    b"Open the valve.\n\n## Next\n\nSee [pump](../pump.md).\n",
    "pump.md": b"---\ntitle: The pump\nkind: device\n---\n# Pump\n\nA pump has a valve and a seal.\n",
}  # fmt: skip


def client(settings: HttpSettings | None = None, environ: Mapping[str, str] | None = None, **given: Any) -> TestClient:
    """A client of an application over documents, providers or services, by name; by default over `DOCS`."""
    made = services(**(given or {"docs": DOCS}))
    app = create_app(made, settings or HttpSettings(quiet=True), environ=environ or {})
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


def writable(**given: IKnowledgeProvider | Mapping[str, bytes]) -> TestClient:
    """The same, where everyone may write."""
    return client(HttpSettings(writable=True, quiet=True), **given)


class Reply(NamedTuple):
    """What came over a socket."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


def port_of(url: str) -> int:
    """The port of a URL."""
    return int(url.rpartition(":")[2].strip("/"))


def connected(url: str) -> socket.socket:
    """A connection."""
    return socket.create_connection(("127.0.0.1", port_of(url)), 20)


def exchange(url: str, data: bytes) -> list[Reply]:
    """All that is answered to these bytes, until the other side closes or has nothing more to say."""
    with connected(url) as made:
        made.sendall(data)
        made.settimeout(3)
        return read_replies(made)


def read_replies(made: socket.socket, count: int = 100) -> list[Reply]:
    """Up to so many answers."""
    held = b""
    found: list[Reply] = []
    while len(found) < count:
        reply, held = _parsed(held)
        if reply is not None:
            found.append(reply)
            if reply.headers.get("connection") == "close":
                return found
            continue
        try:
            part = made.recv(65_536)
        except (TimeoutError, ConnectionResetError):
            return found
        if not part:
            return found
        held += part
    return found


def _parsed(held: bytes) -> tuple[Reply | None, bytes]:
    head, end, rest = held.partition(b"\r\n\r\n")
    if not end:
        return None, held
    line, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    size = int(headers.get("content-length", "0"))
    if len(rest) < size:
        return None, held
    return Reply(int(line.split()[1]), headers, rest[:size]), rest[size:]
