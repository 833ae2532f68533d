"""The example runs as its text says: an agent researches, saves, and finds it again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "agent_loop.py"


def test_the_agent_finds_again_what_it_saved() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=environ, capture_output=True, text=True, timeout=60, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    steps = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("> ")]
    assert steps == ["goal", "goal", "knowledge_save", "goal", "knowledge_batch_update"]
    first, second = done.stdout.split("> knowledge_save")
    assert "📚 相关知识 (0 条)" in first
    assert "📚 相关知识 (1 条)" in second
    assert second.rstrip().endswith("Known at the end: ['Read tables out of PDF files that were scanned']")
