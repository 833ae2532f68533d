"""The guide to libraries runs as it is written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.agent_tools import GUIDANCE, template_blocks

GUIDE = (Path(__file__).resolve().parents[1] / "docs" / "library.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


class Handle:
    """What the app's SDK offers: functions are registered by topic."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., Awaitable[Any]]] = {}

    async def register_device_function(self, topic: str, function: Callable[..., Awaitable[Any]]) -> object:
        self.functions[topic] = function
        return object()


class Collector:
    def __init__(self) -> None:
        self.ironflock = Handle()
        self.reports: list[str] = []

    async def report_error(self, message: str, *, level: str) -> None:
        self.reports.append(f"{level}: {message}")


@pytest.fixture
def app(tmp_path: Path) -> dict[str, Any]:
    """The guide's example of an app, beside its example of a document."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "x1.md").write_text(blocks("markdown")[0], encoding="utf-8")
    names: dict[str, Any] = {"__file__": str(tmp_path / "app.py")}
    exec(blocks("python")[0], names)
    return names


def test_the_app_of_the_guide_serves_the_document_of_the_guide(app: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "docs" / "bad.md").write_text("no frontmatter")
    collector = Collector()

    async def run() -> tuple[Any, Any]:
        await app["start_background"](None, collector)
        functions = collector.ironflock.functions
        return (
            await functions["app_knowledge.list"](query="pressure"),
            await functions["app_knowledge.get"](doc_id="device.acme.x1", section="Registers"),
        )

    listed, got = asyncio.run(run())
    assert [entry["id"] for entry in listed["docs"]] == ["device.acme.x1"]
    assert got["content"].startswith("## Registers")
    [report] = collector.reports
    assert report.startswith("warn: knowledge doc skipped: bad.md:")


def test_the_document_of_the_guide_validates_as_the_guide_does_it(
    app: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        exec(blocks("python")[1], {})
    assert (ended.value.code, capsys.readouterr().out.strip()) == (False, "")
    (tmp_path / "docs" / "x1.md").write_text(blocks("markdown")[0].replace("driver: modbus-tcp", "driver modbus-tcp"))
    (tmp_path / "docs" / "bad.md").write_text("no frontmatter")
    with pytest.raises(SystemExit) as ended:
        exec(blocks("python")[1], {})
    assert ended.value.code is True
    assert "bad.md:1: error:" in capsys.readouterr().out


def test_the_first_example_takes_no_more_than_twenty_lines() -> None:
    assert len([line for line in blocks("python")[0].splitlines() if line.strip()]) <= 20


def test_the_guide_says_no_more_of_the_prompt_than_is_so() -> None:
    def said(tools: Sequence[str]) -> int:
        blocks = template_blocks(tools).values()
        properties = [each for block in blocks for each in block["parameters"]["properties"].values()]
        return len(GUIDANCE) + sum(len(each["description"]) for each in (*blocks, *properties))

    assert "about 1,500 of them, 1,800 with" in GUIDE
    assert (round(said(["list", "get"]), -2), round(said(["list", "get", "query"]), -2)) == (1_500, 1_800)
