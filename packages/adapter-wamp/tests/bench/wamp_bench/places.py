"""Where the programs from outside are, and ports for them."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

ROOT = Path(__file__).resolve().parents[5]
# Below the ports that the system gives to outgoing connections: a client that keeps dialling a port nobody
# listens on may otherwise be given that very port, and is then connected to itself.
_PORTS = range(20_000, 32_000)


def program(path: str) -> Path:
    """A program that `make outside` sets up; `path` is relative to the repository.

    Raises:
        RuntimeError: When it is not there.
    """
    found = ROOT / path
    if not found.exists():
        raise RuntimeError(f"{path} is missing. Run `make outside` (`make test` does it, too).")
    return found


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    for port in random.sample(_PORTS, 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("200 ports in a row are taken. End the programs that hold them.")


def listens(port: int) -> bool:
    """Whether a connection to `port` on loopback is accepted."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def clean_environment() -> dict[str, str]:
    """Ours without what would change the Python that a program from outside runs in."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE", "COV_"))}
