"""What a tool makes up from the OpenAPI document: no answer of the server's own failing, none that is not described.

The tool is in a place of its own, which `make` sets up: what it pins does not go with our packages.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from http_bench.servers import served
from knowledge_engine.fs import LocalFs
from knowledge_files import FilesKnowledgeAdapter
from knowledge_http import HttpSettings
from knowledge_http.grants import parse_tokens

ROOT = Path(__file__).parents[3]
TOOL = ROOT / ".venv-schemathesis" / "bin" / "schemathesis"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not TOOL.exists(), reason="schemathesis is not there: `make .venv-schemathesis/.ready`"),
]


@pytest.mark.parametrize("several", [False, True])
def test_whatever_is_asked_is_answered_as_described(tmp_path: Path, several: bool) -> None:
    shutil.copytree(ROOT / "examples" / "library", tmp_path / "docs")
    providers = {"docs": FilesKnowledgeAdapter(LocalFs(str(tmp_path / "docs")), ".")}
    settings = HttpSettings(tokens=parse_tokens("chief:admin"), quiet=True)
    more = {"notes": {"n.md": b"# Note"}} if several else {}
    with served({**providers, **more}, settings) as url:
        ended = subprocess.run(
            [
                TOOL,
                "run",
                f"{url}/openapi.json",
                "-H",
                "Authorization: Bearer chief",
                "-n",
                "25",
                "--seed",
                "1",
                "--no-color",
                # Ids are told by a pattern that few of the texts match which the tool draws.
                "--suppress-health-check=filter_too_much",
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=900,
            check=False,
        )
    # A backend may refuse what no schema can tell, such as an id without its backend's name.
    told = ended.stdout[-6_000:] + ended.stderr[-2_000:]
    assert "Server error" not in told, told
    assert ended.returncode == 0, told
