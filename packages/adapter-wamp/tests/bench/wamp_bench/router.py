"""A crossbar router of one's own, to use and to break."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from wamp_bench.node_config import CRYPTOSIGN, OPEN_REALM, SECURED_REALM, TICKET, WAMPCRA, node_config
from wamp_bench.places import clean_environment, free_port, listens, program

START_SECONDS = 60.0
STOP_SECONDS = 20.0
# crossbar is ended when our end of its input closes, which the system does even when the tests are killed.
_SUPERVISED = (
    'exec 3<&0; "$@" </dev/null 3<&- & child=$!; '
    '{ read -r _ <&3; kill -TERM "$child"; } 2>/dev/null & exec 3<&-; wait "$child"'
)


class Router:
    """Not running until `start`; keeps its ports over every restart. May be called from any thread."""

    realm = OPEN_REALM
    secured_realm = SECURED_REALM
    ticket = TICKET
    wampcra = WAMPCRA
    cryptosign = CRYPTOSIGN

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "crossbar.log"
        self.port, self.small_port, self.rawsocket_port = free_port(), free_port(), free_port()
        self.url = f"ws://127.0.0.1:{self.port}/ws"
        self.small_url = f"ws://127.0.0.1:{self.small_port}/ws"
        self.rawsocket_url = f"rs://127.0.0.1:{self.rawsocket_port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ports(self) -> tuple[int, int, int]:
        """All it listens on, in the order in which they open."""
        return self.port, self.small_port, self.rawsocket_port

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns when every port is open.

        Raises:
            RuntimeError: When it ends before that, or 60 s pass; the end of its log is quoted.
        """
        if self.running:
            raise RuntimeError("this router runs already. Stop it first.")
        if taken := [port for port in self.ports if listens(port)]:
            raise RuntimeError(f"ports {taken} are taken. End what listens there, or make another Router.")
        self.folder.mkdir(parents=True, exist_ok=True)
        config = node_config(websocket=self.port, small=self.small_port, rawsocket=self.rawsocket_port)
        (self.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (self.folder / "node.pid").unlink(missing_ok=True)
        crossbar = [str(program(".venv-crossbar/bin/crossbar")), "start", "--cbdir", str(self.folder)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SUPERVISED, "sh", *crossbar, "--color", "false", "--loglevel", "warn"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=clean_environment(),
            )
        self._wait_open()

    def stop(self) -> None:
        """Ends it as an operator does (SIGTERM), and by force when that takes over 20 s."""
        self._end(gently=True)

    def kill(self) -> None:
        """Ends all of its processes at once (SIGKILL): no goodbye; the system resets the connections."""
        self._end(gently=False)

    def restart(self, *, gently: bool = True) -> None:
        """Ends it and starts it again on the same ports; sessions and registrations are gone."""
        self._end(gently=gently)
        self.start()

    def freeze(self) -> None:
        """Halts all of its processes: connections stay open, and nothing answers until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def tail(self, lines: int = 30) -> str:
        """The end of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _wait_open(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        for port in self.ports:
            while not listens(port):
                if not self.running:
                    code = self._process.poll() if self._process else None
                    self._end(gently=False)
                    raise RuntimeError(f"the router ended at its start with {code}. Its log ends so:\n{self.tail()}")
                if time.monotonic() > deadline:
                    self._end(gently=False)
                    raise RuntimeError(f"port {port} is not open after {START_SECONDS} s. Log:\n{self.tail()}")
                time.sleep(0.05)

    def _wait_closed(self) -> None:
        """The supervisor is gone; a worker may still be dying with its ports open."""
        deadline = time.monotonic() + STOP_SECONDS
        while any(listens(port) for port in self.ports):
            if time.monotonic() > deadline:
                raise RuntimeError(f"a port of {self.ports} is open {STOP_SECONDS} s after the end. See who listens.")
            time.sleep(0.02)

    def _end(self, *, gently: bool) -> None:
        process = self._process
        if process is None:
            return
        if gently:
            self._signal(signal.SIGCONT)  # a frozen one would not read its end
            _close_input(process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        self._signal(signal.SIGKILL)
        _close_input(process)
        process.wait(STOP_SECONDS)
        self._process = None
        self._wait_closed()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError("this router does not run. Start it first.")
        with contextlib.suppress(ProcessLookupError):  # all of them have ended by themselves
            os.killpg(self._process.pid, number)


def _close_input(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
