"""What the guide to HTTP says, is so: its examples run, its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from http_bench.clients import DOCS
from http_bench.servers import served
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_http.errors import STATUS
from knowledge_http.server import protocol, serving
from knowledge_http.server.table import OPERATIONS
from knowledge_http.setting_infos import CLIENT_SETTINGS, SERVER_SETTINGS

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
APP, BACKEND = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


def test_every_operation_and_setting_is_named() -> None:
    written = GUIDE.replace("{list,get,query}", "{tool}")
    for operation in OPERATIONS:
        assert operation.path in written, operation.path
    for setting in (*CLIENT_SETTINGS, *SERVER_SETTINGS):
        assert setting["name"] in GUIDE
        if default := setting.get("default"):
            assert f"`{default}`" in GUIDE


def test_each_code_stands_beside_its_status() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| (.*) \|$", GUIDE, re.MULTILINE)
    said = {code: numbers for numbers, text in rows for code in re.findall(r"`([a-z-]+)`", text)}
    assert {code for code, status in STATUS.items() if str(status) not in said.get(code, "")} == set()


def test_the_limits_are_those_that_there_are() -> None:
    assert f"{protocol.HEADER_TIMEOUT_S:g} s for its headers ({protocol.MAX_HEADER_BYTES // 1024} KB)" in GUIDE
    assert f"for up to {serving.DRAIN_TIMEOUT_S} s" in GUIDE


def test_the_application_of_the_guide_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(APP, "docs/http.md", "exec"), names)
    with TestClient(names["app"]) as docs:  # type: ignore[arg-type]
        assert docs.get("/v1/query?q=byte+order&top_k=3").json()["hits"]


def test_the_backend_of_the_guide_prints_hits(capsys: pytest.CaptureFixture[str]) -> None:
    with served({"docs": DOCS}) as url:
        source = BACKEND.replace("https://kb.example/", f"{url}/").replace("byte order", "valve")
        exec(compile(source, "docs/http.md", "exec"), {"resolve_knowledge_backend": resolve_knowledge_backend})
    assert "pump.md" in capsys.readouterr().out
