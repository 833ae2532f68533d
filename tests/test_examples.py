"""The examples run as their texts say, the third party's adapter installed as a package of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
NOTES = EXAMPLES / "adapter-notes"
KNOWLEDGE = Path(sys.executable).with_name("knowledge")

Run = Callable[..., subprocess.CompletedProcess[str]]


def installer() -> list[str]:
    """What installs into a folder: uv where the workspace has it, else pip."""
    uv = ROOT / ".uv" / "bin" / "uv"
    found = str(uv) if uv.exists() else shutil.which("uv")
    if found:
        return [found, "pip", "install", "--quiet", "--python", sys.executable]
    return [shutil.which("pip") or "pip", "install", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the notes adapter, built from a copy as whoever downloads it would."""
    folder = tmp_path_factory.mktemp("third-party")
    source = shutil.copytree(NOTES, folder / "source", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    target = folder / "target"
    subprocess.run([*installer(), "--no-deps", "--target", str(target), str(source)], check=True, cwd=folder)
    return target


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Runs a command in an empty folder, where the adapter is installed and no setting is set."""

    def call(*command: object, answers: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        # Coverage would slow the contract down, and is not measured of examples.
        left_out = ("KNOWLEDGE_", "COVERAGE_", "COV_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        return subprocess.run(
            list(map(str, command)),
            input=answers,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=tmp_path,
            env={**kept, "PYTHONPATH": str(installed), "PYTHONUTF8": "1", **environ},
            timeout=300,
        )

    return call


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "my.jsonl"
    lines = [
        {"id": "pump-7", "title": "Pump 7", "tags": ["plant"], "text": "It hums at 40 Hz.\n"},
        {"id": "tank", "text": "The tank leaks."},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_installed_adapter_is_listed_and_answers_on_the_command_line(run: Run, notes: Path) -> None:
    listed = {each["slug"]: each for each in json.loads(run(KNOWLEDGE, "backends", "--json").stdout)["backends"]}
    assert (listed["notes"]["status"], listed["notes"]["distribution"]) == ("available", "notes-knowledge")
    ready = json.loads(run(KNOWLEDGE, "backends", "--json", KNOWLEDGE_NOTES_PATH=str(notes)).stdout)["backends"]
    assert [each["status"] for each in ready if each["slug"] == "notes"] == ["ready"]
    asked = run(KNOWLEDGE, "query", "hums", "--where", "tags=plant", "--json", "--backend", f"notes:{notes}")
    assert [hit["source_id"] for hit in json.loads(asked.stdout)["hits"]] == ["pump-7"]


def test_adapter_keeps_its_contract_where_it_is_installed(run: Run, installed: Path) -> None:
    tests = installed.parent / "source"
    ran = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tests, tests)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "xfailed" not in ran.stdout


def test_host_lets_a_user_pick_a_backend_and_set_it_up(run: Run, notes: Path) -> None:
    host = EXAMPLES / "plugin_host.py"
    ran = run(sys.executable, host, "what hums", answers=f"notes\n{notes}\n")
    assert ran.returncode == 0, ran.stderr
    assert "notes      available  Notes in a JSONL file" in ran.stdout
    assert "Notes needs KNOWLEDGE_NOTES_PATH (the JSONL file):" in ran.stdout
    assert "1. Pump 7" in ran.stdout
    assert "pump-7 bytes" in ran.stdout
    assert "verified: ok" in ran.stdout
    for given in (["--backend", f"notes:{notes}"], ["--backend", "notes", "--set", f"KNOWLEDGE_NOTES_PATH={notes}"]):
        assert "1. Pump 7" in run(sys.executable, host, "what hums", *given).stdout


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ([], "configuration", "Which one"),
        (["--backend", "nots"], "unknown-backend", "did you mean 'notes'"),
        (["--backend", "notes"], "configuration", "KNOWLEDGE_NOTES_PATH"),
        (["--backend", "notes", "--set", "environ=x"], "configuration", "Known are: path"),
    ],
)
def test_host_says_what_it_lacks_where_nobody_answers(run: Run, given: list[str], code: str, said: str) -> None:
    ran = run(sys.executable, EXAMPLES / "plugin_host.py", "x", *given)
    assert ran.returncode == 1
    assert said in ran.stderr
    assert f"[{code}]" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_standalone_takes_its_folder_from_the_environment(run: Run) -> None:
    script = EXAMPLES / "standalone.py"
    ran = run(sys.executable, script, "modbus", KNOWLEDGE_FILES_ROOT=str(EXAMPLES), KNOWLEDGE_FILES_PATH="library")
    assert ran.returncode == 0, ran.stderr
    assert "library/protocols/modbus.md bytes" in ran.stdout
    wrong = run(sys.executable, script, "modbus", KNOWLEDGE_FILES_RANKING="none")
    assert (wrong.returncode, "KNOWLEDGE_FILES_RANKING" in wrong.stderr) == (1, True)


def test_demo_proves_what_it_cites(run: Run, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Pump\n\nIt hums at 40 Hz.\n")
    ran = run(sys.executable, EXAMPLES / "demo.py", tmp_path / "docs", "what hums")
    assert ran.returncode == 0, ran.stderr
    assert "a.md bytes" in ran.stdout
    assert ran.stdout.endswith("verified: ok\n")
    (tmp_path / "docs" / "a.md").write_text("It hums at 40 Hz.\n")
    assert "sections: none\n" in run(sys.executable, EXAMPLES / "demo.py", tmp_path / "docs", "what hums").stdout
    blank = run(sys.executable, EXAMPLES / "demo.py", tmp_path / "docs", " ")
    assert (blank.returncode, blank.stdout.startswith("Ask a question: "), blank.stderr) == (64, True, "")
    empty = run(sys.executable, EXAMPLES / "demo.py", tmp_path / "none", "what hums")
    assert (empty.returncode, "No documents here" in empty.stdout) == (1, True)
