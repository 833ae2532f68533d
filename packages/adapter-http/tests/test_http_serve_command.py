"""`knowledge serve http`: a process that serves, drains and ends, and says nothing that it should not."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from http_bench.clients import DOCS
from knowledge_engine.errors import UnavailableError
from knowledge_http.server.serving import listen

KNOWLEDGE = str(Path(sys.executable).with_name("knowledge"))


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
    return {**kept, **more}


class Process:
    """A server, its URL and what it logs."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [KNOWLEDGE, "serve", "http", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**variables),
        )
        self.lines: list[str] = []
        assert self.process.stderr is not None
        while True:
            line = self.process.stderr.readline()
            assert line, self.lines
            self.lines.append(line)
            if '"listening"' in line:
                self.url = json.loads(line)["url"]
                break
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines += self.process.stderr.readlines()

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(30)
        self._reading.join()
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        self.process.stdout.close()
        self.process.stderr.close()  # type: ignore[union-attr]
        return code

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@contextmanager
def serving(folder: Path, *arguments: str, **variables: str) -> Iterator[Process]:
    process = Process("--backend", f"docs=files:{folder}", *arguments, **variables)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.end()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "docs", DOCS)
    return tmp_path / "docs"


def write(folder: Path, docs: Mapping[str, bytes]) -> None:
    for name, data in docs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def test_it_serves_until_it_is_told_to_stop(folder: Path) -> None:
    with serving(folder, KNOWLEDGE_HTTP_TOKENS="s3cret-token:read") as process:
        headers = {"Authorization": "Bearer s3cret-token"}
        asked = httpx2.get(f"{process.url}v1/query?q=private+words", headers=headers)
        assert asked.json()["index"]["documents"] == 2
        assert (
            httpx2.get(f"{process.url}v1/sources", headers={"Authorization": "Bearer wr0ng-token"}).status_code == 401
        )
        assert process.end() == 0
    events = [event["event"] for event in process.events]
    assert (events[0], events[-2:]) == ("listening", ["stopping", "stopped"])
    requests = [event for event in process.events if event["event"] == "request"]
    assert [(each["path"], each["status"]) for each in requests] == [("/v1/query", 200), ("/v1/sources", 401)]
    assert requests[0]["request"] == asked.headers["x-request-id"]
    text = "".join(process.lines)
    for hidden in ("s3cret", "wr0ng", "private", str(folder)):
        assert hidden not in text


def test_it_can_be_quiet_and_ends_by_an_interrupt(folder: Path) -> None:
    with serving(folder, "--quiet", "--writable") as process:
        assert httpx2.put(f"{process.url}v1/sources/new.md", content=b"# New heron").status_code == 201
        assert (folder / "new.md").read_bytes() == b"# New heron"
        assert httpx2.get(f"{process.url}v1/query?q=heron").json()["hits"]
        assert process.end(signal.SIGINT) == 0
    assert [event["event"] for event in process.events if event["event"] == "request"] == []


def test_what_is_under_way_is_answered_before_the_end(folder: Path) -> None:
    with serving(folder) as process:
        host, port = process.url[7:-1].split(":")
        with socket.create_connection((host, int(port)), 20) as made:
            body = b'{"query":"valve"}'
            head = b"POST /v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            made.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:5])
            # It has begun: the server waits for the rest.
            assert httpx2.get(f"{process.url}healthz").status_code == 200
            process.process.send_signal(signal.SIGTERM)
            while not _refused(host, int(port)):
                pass
            made.sendall(body[5:])
            answer = b""
            while part := made.recv(65_536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer.lower()
        assert process.end(0) == 0


def _refused(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 5).close()
    except OSError:
        return True
    return False


def failing(*arguments: str, **variables: str) -> str:
    ended = subprocess.run(
        [KNOWLEDGE, "serve", "http", *arguments],
        capture_output=True,
        text=True,
        env=environment(**variables),
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_it_does_not_listen_beyond_this_machine_without_a_token(folder: Path) -> None:
    backend = ("--backend", f"files:{folder}")
    assert "--insecure" in failing(*backend, "--host", "0.0.0.0")
    assert "KNOWLEDGE_HTTP_TOKENS" in failing(*backend, KNOWLEDGE_HTTP_TOKENS="")
    with serving(folder, "--host", "0.0.0.0", "--insecure") as process:
        assert httpx2.get(process.url.replace("0.0.0.0", "127.0.0.1") + "v1/sources").status_code == 200


def test_a_port_that_is_taken_and_an_address_that_is_not_there_are_told(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        told = failing("--backend", f"files:{folder}", "--port", str(taken.getsockname()[1]))
    assert "--port" in told
    for host in ("192.0.2.1", "no such host", "x" * 300):
        with pytest.raises(UnavailableError, match="--host"):
            listen(host, 0)


def test_several_backends_are_served_as_one(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "notes", {"n.md": b"# Note\n\nvalve"})
    with serving(folder, "--backend", f"notes=files:{tmp_path / 'notes'}") as process:
        found = httpx2.get(f"{process.url}v1/query?q=valve").json()["hits"]
        assert {each["source_id"].split(":")[0] for each in found} == {"docs", "notes"}


def test_help_says_what_may_be_set() -> None:
    ended = subprocess.run(
        [KNOWLEDGE, "serve", "http", "--help"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=True,
    )
    text = " ".join(ended.stdout.split())
    for option in ("--host", "--port", "--tokens-file", "--writable", "--insecure", "--allowed-hosts", "--max-body"):
        assert option in text
    assert "From the environment only, as they are secret: KNOWLEDGE_HTTP_TOKENS." in text
    assert "--tokens " not in text


@pytest.mark.slow
def test_many_requests_leave_nothing_behind(folder: Path) -> None:
    with serving(folder, "--quiet") as process:
        root = Path(f"/proc/{process.process.pid}")

        def state() -> tuple[int, int, int]:
            status = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines())
            return int(status["VmRSS"].split()[0]), int(status["Threads"]), len(list((root / "fd").iterdir()))

        with httpx2.Client() as client:
            for _ in range(2_000):
                client.get(f"{process.url}v1/query?q=valve")
            before = state()
            for number in range(10_000):
                client.get(f"{process.url}v1/query?q=valve+word{number % 3000}")
            after = state()
    assert after[0] - before[0] < 60_000
    assert after[1] <= before[1] + 2
    assert after[2] <= before[2] + 5
