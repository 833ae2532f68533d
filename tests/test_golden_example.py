"""The golden file that comes with the example library, and the documentation of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from knowledge_engine import evaluate, open_knowledge, read_golden
from knowledge_engine.cli import Session, knowledge

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "examples" / "golden.jsonl"
LIBRARY = ROOT / "examples" / "library"


def test_the_example_library_answers_its_golden_file_the_same_from_files_and_from_sqlite(tmp_path: Path) -> None:
    golden = read_golden(GOLDEN.read_bytes())
    assert golden.errors == golden.warnings == ()
    database = f"sqlite:///{tmp_path}/kb.db"
    stored = CliRunner().invoke(knowledge, ["import", str(LIBRARY), "--into", database], obj=Session(environ={}))
    assert stored.exit_code == 0, stored.output
    found = []
    for backend in (f"files:{LIBRARY}", database):
        with open_knowledge(backend, environ={}) as service:
            found.append(evaluate(service, golden.queries))
    assert found[0].warnings == found[1].warnings == ()
    assert found[0].below({"recall@10": 1.0, "mrr@10": 0.9, "ndcg@10": 0.9}) == {}
    assert found[0].metrics == pytest.approx(found[1].metrics)


def test_the_documented_golden_lines_are_ones() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "evaluation.md").read_text(), re.DOTALL)
    golden = read_golden(block.encode())
    assert (golden.errors, len(golden.queries)) == ((), 3)


def test_the_documented_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "evaluation.md").read_text(), re.DOTALL)
    monkeypatch.chdir(ROOT)
    exec(block, {})
    assert json.loads(capsys.readouterr().out.split()[0]) == 1.0


def test_the_documented_commands_are_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "evaluation.md").read_text()
    (command,) = re.findall(r"^\$ knowledge (.*)$", text, re.MULTILINE)
    result = CliRunner().invoke(knowledge, command.split(), obj=Session(environ={}))
    assert result.exit_code == 0, result.output
    for command in re.findall(r"(?:run|entry): knowledge (.*)$", text, re.MULTILINE):
        command = command.replace("golden.jsonl", str(GOLDEN)).replace("files:docs", f"files:{LIBRARY}")
        assert CliRunner().invoke(knowledge, command.split(), obj=Session(environ={})).exit_code == 0
