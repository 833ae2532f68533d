"""The guide to models runs as it is written, and names all that is read of the environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from knowledge_llm.endpoints import SERVICES
from knowledge_llm.settings import VARIABLES
from llm_bench import stub as stubs
from llm_bench.stub import Stub, running

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs" / "llm.md").read_text(encoding="utf-8")
README = (ROOT / "packages" / "adapter-llm" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [GUIDE, README], ids=["guide", "readme"])
def test_its_code_runs(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    stub = Stub(stubs.json_of({"concepts": ["valve"]}))
    with running(stub) as url:
        monkeypatch.setenv("KNOWLEDGE_LLM_BASE_URL", url)
        exec(compile(block, "llm.md", "exec"), names)
    assert names["model"].usage.requests == 1
    assert stub.requests[0]["messages"][1]["content"] == "The valve opens slowly."


def test_the_guide_names_all_variables_and_services() -> None:
    for variable in VARIABLES.values():
        assert f"`{variable}`" in GUIDE
    assert all(service in GUIDE.lower() for service in SERVICES)
