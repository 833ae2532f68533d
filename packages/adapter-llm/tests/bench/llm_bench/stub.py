"""A small server that speaks as OpenAI's chat completions do: on a real socket, and steered by the test.

    stub = Stub(json_of({"title": "Valve"}))          # or several, one after the other
    with running(stub) as url:                        # http://127.0.0.1:PORT/v1
        ...
    stub.requests                                     # what came, as JSON

Each script takes the request's JSON and writes the answer itself, so that it may also break off, drip or hang. What
hangs is let go when the server ends.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Exchange:
    """One request, and the means to answer it."""

    def __init__(self, handler: BaseHTTPRequestHandler, request: dict[str, Any], ended: threading.Event) -> None:
        self.request, self.ended = request, ended
        self._handler = handler

    def head(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        """Status and headers."""
        self._handler.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(length),
            **(headers or {}),
        }.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()

    def write(self, data: bytes) -> bool:
        """Some of the body; False once nobody listens."""
        try:
            self._handler.wfile.write(data)
            self._handler.wfile.flush()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """No more requests over this connection."""
        self._handler.close_connection = True


Script = Callable[[Exchange], None]


def completion(text: str | None, finish: str = "stop", refusal: str | None = None) -> bytes:
    """The body of an answer; ten tokens in, five out."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    answer = {
        "id": "stub-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "stub",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    return json.dumps(answer).encode()


def raw(body: bytes, status: int = 200, **headers: str) -> Script:
    """That body."""

    def answer(exchange: Exchange) -> None:
        exchange.head(status, len(body), {name.replace("_", "-"): value for name, value in headers.items()})
        exchange.write(body)

    return answer


def says(text: str, finish: str = "stop") -> Script:
    """A model that writes that."""
    return raw(completion(text, finish))


def json_of(value: object) -> Script:
    """A model that writes that value, and nothing else."""
    return says(json.dumps(value))


def fenced(value: object) -> Script:
    """A model that wraps its answer."""
    return says(f"Here it is:\n```json\n{json.dumps(value)}\n```\nAnything else?")


def truncated(value: object) -> Script:
    """A model that is cut off at two thirds."""
    text = json.dumps(value)
    return says(text[: len(text) * 2 // 3], "length")


def refuses() -> Script:
    """A model that will not."""
    return raw(completion(None, refusal="I will not do that."))


def filtered() -> Script:
    """A service that takes the answer away."""
    return raw(completion("", "content_filter"))


def fails(status: int, message: str = "no", **headers: str) -> Script:
    """A service that answers with an error."""
    return raw(json.dumps({"error": {"message": message, "type": "stub", "code": None}}).encode(), status, **headers)


def breaks_off() -> Script:
    """A connection that ends in the middle of the answer."""

    def answer(exchange: Exchange) -> None:
        body = completion("{}")
        exchange.head(200, len(body))
        exchange.write(body[: len(body) // 2])
        exchange.close()

    return answer


def hangs(*, drips: bool = False) -> Script:
    """A service that never comes to an end; one that drips sends a blank now and then."""

    def answer(exchange: Exchange) -> None:
        exchange.close()
        if drips:
            exchange.head(200, 1_000_000)
        while not exchange.ended.wait(0.02):
            if drips and not exchange.write(b" "):
                return

    return answer


class Stub:
    """Answers by one script after the other; the last one again and again."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.ended = threading.Event()

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        """Answers one request."""
        request = json.loads(handler.rfile.read(int(handler.headers.get("content-length") or 0)))
        with self._lock:
            self.requests.append(request)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            self.paths.append(handler.path)
            script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        script(Exchange(handler, request, self.ended))


@contextmanager
def running(stub: Stub) -> Iterator[str]:
    """The stub on a free port of this machine; its base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            stub.take(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="llm-stub")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        stub.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
