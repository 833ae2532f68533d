"""What the documentation shows runs as it is written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from knowledge_hub.entries import KINDS
from knowledge_hub.settings import ROUTING_MODEL, SLIMMING_MODEL

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "hub.md").read_text(encoding="utf-8")


def test_the_python_of_the_guide_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Use pdfplumber.\n"), done.stderr


def test_the_guide_names_what_there_is() -> None:
    for name in (*KINDS, ROUTING_MODEL, SLIMMING_MODEL):
        assert f"`{name}`" in GUIDE
