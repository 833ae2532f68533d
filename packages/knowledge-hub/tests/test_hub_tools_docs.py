"""The guide to the tools runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowledge_hub.tools import close_tools
from knowledge_hub.tools.specs import TOOLS, parameters_of

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "hub-tools.md").read_text(encoding="utf-8")


def test_the_guides_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KNOWLEDGE_HUB_URL", raising=False)
    monkeypatch.setenv("KNOWLEDGE_HUB_MODEL", "none")
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    try:
        for block in blocks:
            exec(compile(block, "hub-tools.md", "exec"), {})
    finally:
        close_tools()
    told = capsys.readouterr().out
    assert len(blocks) == 3
    assert re.search(r"^knowledge-\d{8}-", told, re.MULTILINE)
    assert "📚 相关知识 (1 条)" in told
    assert (tmp_path / "goals" / "run-1.json").exists()


def test_the_guide_names_all_tools_and_their_arguments() -> None:
    for name in TOOLS:
        row = next(line for line in GUIDE.splitlines() if line.startswith(f"| `{name}`"))
        assert all(f"`{key}" in row for key in parameters_of(name)["properties"])
