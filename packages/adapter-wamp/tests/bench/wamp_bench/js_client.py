"""Calls from JavaScript, with autobahn-js in a process of Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from wamp_bench.node_config import Credentials
from wamp_bench.places import ROOT, clean_environment, program

_SCRIPT = ROOT / "packages/adapter-wamp/tests/js/calls.js"


class JsError(Exception):
    """Node ended before every call had its outcome; the message is what it wrote."""


def js_session(
    url: str,
    realm: str,
    calls: Sequence[tuple[str, Sequence[Any], Mapping[str, Any]]],
    *,
    serializer: str = "json",
    auth: Credentials | None = None,
    seconds: float = 60.0,
) -> list[dict[str, Any]]:
    """One outcome a call, one after the other in one session over WebSocket; `auth` by ticket or wampcra.

    Each is `{"result": ...}`, or `{"error": uri, "args": [...], "kwargs": {...}}`. It blocks: beside a callee in the
    same event loop, run it by `asyncio.to_thread`.

    Raises:
        JsError: When the session could not be had or was lost.
        subprocess.TimeoutExpired: After `seconds`.
    """
    modules = program(".node/.ready").parent / "node_modules"
    node = shutil.which("node")
    if node is None:
        raise RuntimeError("there is no `node` on the PATH. Install Node 18 or newer.")
    asked = [{"procedure": procedure, "args": args, "kwargs": kwargs} for procedure, args, kwargs in calls]
    given = {"url": url, "realm": realm, "serializer": serializer, "calls": asked, "auth": auth and asdict(auth)}
    ended = subprocess.run(
        [node, str(_SCRIPT)],
        input=json.dumps(given).encode(),
        capture_output=True,
        timeout=seconds,
        env={**clean_environment(), "NODE_PATH": str(modules)},
    )
    if ended.returncode or not ended.stdout:
        raise JsError(f"node ended with {ended.returncode}: {ended.stderr.decode(errors='replace')}")
    outcomes: list[dict[str, Any]] = json.loads(ended.stdout)
    return outcomes


def call_js(
    url: str,
    realm: str,
    procedure: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    serializer: str = "json",
    seconds: float = 60.0,
) -> dict[str, Any]:
    """The outcome of one call; see `js_session`, which is cheaper for several."""
    (outcome,) = js_session(url, realm, [(procedure, list(args), kwargs or {})], serializer=serializer, seconds=seconds)
    return outcome
