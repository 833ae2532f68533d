"""An app on the real SDK, in each version: documents, two tools, and nothing else to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine import validate_library
from wamp_bench.ironflock_app import VERSIONS, IronflockApp, ironflock_app, run_ironflock
from wamp_bench.js_client import js_session
from wamp_bench.node_config import IRONFLOCK
from wamp_bench.python_client import wamp_calls
from wamp_bench.router import Router

DOCUMENT = """---
id: {0}
title: "{1}"
kind: {2}
summary: What it covers.
protocol: modbus
drivers: [modbus-tcp]
updated: 2024-05-01
---
## Overview

{1} reads register 40001, documented from 1 on.

## Config

```yaml
{3}
```
"""

#: As an app is written; only what it prints at the end is for the test.
USAGE = """
import asyncio, contextlib, io, json, os
from ironflock import IronFlock

from knowledge_files import KnowledgeLibrary
from knowledge_wamp import register_knowledge_tools

DOCS_DIR = os.environ["DOCS_DIR"]


class Adapter:
    async def start_background(self, collector):
        from functools import partial
        library = KnowledgeLibrary(
            DOCS_DIR,
            vocab={"kind": {"device", "protocol", "guide"}},
        )
        library.load()
        for warning in library.warnings:
            await collector.report_error(f"knowledge doc skipped: {warning}", level="warn")
        return await register_knowledge_tools(
            collector.ironflock, library,
            report=partial(collector.report_error, level="warn"),
        )


class Collector:
    def __init__(self, ironflock):
        self.ironflock = ironflock
        self.reported = []

    async def report_error(self, text, level="error"):
        self.reported.append([level, text])


async def printed(call):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = await call
    return result, out.getvalue()


async def by_hand():
    for name in ("list", "get"):
        await flock.register_device_function(f"by_hand.{name}", dict)


async def main():
    collector = Collector(flock)
    failed, ours = await printed(Adapter().start_background(collector))
    _, theirs = await printed(by_hand())
    print("READY", json.dumps([failed, collector.reported, ours, theirs]))
    await asyncio.Event().wait()


flock = IronFlock(mainFunc=main)
flock.run()
"""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number, (name, title, kind) in enumerate(
        [("device.acme.x1", "Acme X1", "device"), ("protocol.modbus", "Modbus", "protocol"), ("odd", "Odd", "poem")]
    ):
        text = DOCUMENT.format(name, title, kind, f"driver: modbus-tcp\nunit: {number}")
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "draft.md").write_text("---\nid: draft\ntitle: Draft\nkind: guide\n---\n## Use\n", encoding="utf-8")
    return folder


@contextmanager
def app(version: str, router: Router, docs: Path) -> Iterator[tuple[IronflockApp, list[Any]]]:
    """The app, and what it said when it was ready."""
    with ironflock_app(version, USAGE, router, env={"DOCS_DIR": str(docs)}) as running:
        yield running, json.loads(running.wait_for("READY").removeprefix("READY "))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_documents_of_an_app_are_served_as_its_device_functions(version: str, router: Router, docs: Path) -> None:
    prefix = f"{IRONFLOCK.prefix}.app_knowledge"
    asked: list[tuple[str, list[Any], dict[str, Any]]] = [
        (f"{prefix}.list", [], {}),
        (f"{prefix}.list", [], {"protocol": "modbus", "query": "acme"}),
        (f"{prefix}.list", [{"kind": "poem"}], {}),
        (f"{prefix}.get", [], {"doc_id": "device.acme.x1"}),
        (f"{prefix}.get", [], {"doc_id": "device.acme.x1", "section": "Config"}),
        (f"{prefix}.get", [], {"doc_id": "device.acme.x2"}),
        (f"{prefix}.list", [], {"fun": 1}),
        (f"{prefix}.get", [[1, 2]], {}),
        (f"{prefix}.query", [], {"query": "acme"}),
    ]
    auth = IRONFLOCK.credentials
    with app(version, router, docs) as (running, (failed, reported, ours, theirs)):
        from_python = asyncio.run(wamp_calls(router.url, IRONFLOCK.realm, asked, auth=auth))
        from_js = js_session(router.url, IRONFLOCK.realm, [*asked, (f"{prefix}.list", [], {"self": 1})], auth=auth)
        assert running.process.poll() is None
    assert failed == []
    assert [level for level, _ in reported] == ["warn", "warn"]
    assert "draft.md" in reported[0][1]
    assert "summary" in reported[0][1]
    assert "'poem'" in reported[1][1]
    # The SDK prints; what it prints of our functions is what it prints of any.
    assert sorted(ours.splitlines()) == sorted(theirs.replace("by_hand", "app_knowledge").splitlines())

    assert from_js[:-1] == from_python
    everything, acme, poem, device, config, near, unknown, odd, query = from_python
    assert [entry["id"] for entry in everything["result"]["docs"]] == ["device.acme.x1", "odd", "protocol.modbus"]
    assert [entry["id"] for entry in acme["result"]["docs"]] == ["device.acme.x1"]
    assert [entry["id"] for entry in poem["result"]["docs"]] == ["odd"]
    assert device["result"]["found"] is True
    assert device["result"]["sections"] == ["Overview", "Config"]
    assert device["result"]["metadata"]["updated"] == "2024-05-01"
    assert config["result"]["content"].startswith("## Config\n\n```yaml\ndriver: modbus-tcp\nunit: 0\n")
    assert near["result"]["found"] is False
    assert near["result"]["suggestions"][0] == "device.acme.x1"
    assert unknown["result"]["count"] == 0
    assert odd["result"]["code"] == "invalid-argument"
    assert query["error"] == "wamp.error.no_such_procedure"
    assert from_js[-1]["result"]["count"] == 0


#: Handles that come to nothing; each failure in one report, whatever the SDK does about it.
FAILURES = """
import asyncio, json
from ironflock import IronFlock

from knowledge_engine.memory import MemoryProvider
from knowledge_wamp import register_knowledge_tools

async def attempt(handle, **more):
    reported = []
    failed = await register_knowledge_tools(handle, MemoryProvider({}), reported.append, **more)
    return [failed, reported]

async def main():
    try:
        handle = IronFlock(reconnect_window=0.2)
    except TypeError:  # the older SDK has no such thing
        handle = IronFlock()
        handle._connection._session_wait_timeout = 0.2
    refused = await attempt(handle)
    bad = await attempt(handle, topics={"list": "a..b", "get": ""})
    gone = await attempt(object())
    print("OUTCOMES", json.dumps([refused, bad, gone]))

asyncio.run(main())
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handle_that_is_not_connected_fails_its_topics_and_not_the_app(version: str, router: Router) -> None:
    output = run_ironflock(version, FAILURES, router)
    (line,) = [line for line in output if line.startswith("OUTCOMES ")]
    refused, bad, gone = json.loads(line.removeprefix("OUTCOMES "))
    both = ["app_knowledge.list", "app_knowledge.get"]
    assert refused[0] == gone[0] == both
    assert bad[0] == ["a..b", ""]
    assert [len(reports) for _, reports in (refused, bad, gone)] == [1, 1, 1]
    assert refused[1][0].count("refused:") == 2
    assert gone[1][0].count("needs ironflock >= 1.5.3") == 2


def my_app_snippet_check(text: str) -> list[str]:
    """What an app's own parser of its configuration would say."""
    return [] if "driver:" in text else ["no driver is named"]


def test_an_app_validates_its_documents_with_its_own_parser(docs: Path) -> None:
    bad = DOCUMENT.format("device.acme.x9", "Acme X9", "device", "unit: 1")
    (docs / "x9.md").write_text(bad, encoding="utf-8")
    errors, warnings = validate_library(
        docs,
        vocab={"kind": {"device", "protocol", "guide"}},
        snippet_validators={"yaml": my_app_snippet_check},
    )
    assert sorted((error.path, error.code) for error in errors) == [
        ("draft.md", "required-key"),
        ("odd.md", "vocabulary"),
        ("x9.md", "snippet-invalid"),
    ]
    (snippet,) = [error for error in errors if error.path == "x9.md"]
    assert "no driver is named" in str(snippet)
    assert bad.splitlines()[snippet.line - 1] in ("```yaml", "unit: 1")
    assert all(str(each).isprintable() for each in [*errors, *warnings])
