"""The hook that this repository offers to others runs the command as it is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from click.testing import CliRunner

from knowledge_engine.cli import Session, knowledge

ROOT = Path(__file__).resolve().parents[1]


def test_the_hook_runs_validate_on_the_folder_in_its_args() -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *command = hook["entry"].split()
    assert (program, hook["language"], hook["pass_filenames"]) == ("knowledge", "system", False)
    args = [*command, str(ROOT / "examples" / "library"), "--vocab", "kind=device,protocol,guide", "--strict"]
    assert CliRunner().invoke(knowledge, args, obj=Session(environ={})).exit_code == 0


def test_the_hook_looks_at_the_files_that_the_command_looks_at() -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    wanted = re.compile(hook["files"])
    assert [bool(wanted.search(path)) for path in ("docs/a.md", "b.markdown", "c.mdx", "d.txt")] == [
        True,
        True,
        False,
        False,
    ]
