"""The commands create, update, remove and bundle, with their exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge
from knowledge_engine.errors import ProviderError
from knowledge_okf.commands import _Bar


def run(*args: str) -> Result:
    return CliRunner().invoke(knowledge, args, obj=Session(environ={}))


def code_of(*args: str) -> tuple[int, str]:
    """As the process would end: errors have codes too."""
    done = subprocess.run(
        [sys.executable, "-c", "from knowledge_engine.cli.root import main; main()", *args],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def bundle(guide: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    assert run("--model", "none", "create", str(guide), str(folder)).exit_code == 0
    return folder


@pytest.fixture
def failing_model(monkeypatch: pytest.MonkeyPatch, stub: Any) -> None:
    def answer(prompt: str) -> Any:
        text = prompt.partition("\nTEXT\n")[2].partition("\n</source")[0]
        if "Alarm" in text:
            return ProviderError("It refused", mend="Ask otherwise.")
        quote = text.split("\n")[0]
        return {"concepts": [{"title": quote[:20], "quote": quote}, {"title": "Invented", "quote": "not there"}]}

    monkeypatch.setattr("knowledge_engine.language_models.find_model", lambda name, **_: stub(answer))


def test_a_bundle_is_made_and_checked(guide: Path, tmp_path: Path) -> None:
    done = run("--model", "none", "create", "--validate", str(guide), str(tmp_path / "b"))
    assert done.exit_code == 0
    assert "5 concepts" in done.stdout
    assert "conformant, not clean" in done.stderr
    assert (tmp_path / "b/install.md").exists()


def test_folders_are_given_by_tag(guide: Path, tmp_path: Path) -> None:
    args = ("create", "--path", "pump-guide=pumps/all", str(guide), str(tmp_path / "b"))
    assert run("--model", "none", *args).exit_code == 0
    assert (tmp_path / "b/pumps/all/install.md").exists()


@pytest.mark.parametrize("path", ["x", "=a", "a=../b", "a=/etc", "a="])
def test_folders_that_leave_the_bundle_are_refused(guide: Path, tmp_path: Path, path: str) -> None:
    assert run("--model", "none", "create", "--path", path, str(guide), str(tmp_path / "b")).exit_code != 0
    assert not (tmp_path / "b").exists()


def test_sections_that_fail_are_named_and_make_code_two(failing_model: None, guide: Path, tmp_path: Path) -> None:
    done = run("--model", "stub", "create", str(guide), str(tmp_path / "b"))
    assert done.exit_code == 2
    assert "'Pump guide > Alarms' failed (provider)" in done.stderr
    assert "rejected: 'Invented'" in done.stderr
    assert "4 of 4 sections, 1 failed" in done.stderr
    again = run("--model", "stub", "update", "--json", str(guide), str(tmp_path / "b"))
    assert again.exit_code == 2
    assert [one["section"] for one in json.loads(again.stdout)["failed"]] == ["Pump guide > Alarms"]


def test_an_update_tells_what_changed(guide: Path, bundle: Path) -> None:
    (bundle / "install.md").write_text((bundle / "install.md").read_text() + "mine\n")
    guide.write_text(guide.read_text().replace("flat", "level").replace("Alarm 7", "Alarm 8"))
    plan = run("--model", "none", "update", "--dry-run", str(guide), str(bundle))
    assert plan.exit_code == 0
    assert "+Alarm 8 means dry running." in plan.stdout
    done = run("--model", "none", "update", str(guide), str(bundle))
    assert "1 changed" in done.stdout
    assert "1 proposed" in done.stdout
    assert "proposed: install.md.proposed" in done.stderr
    assert "nothing changed" in run("--model", "none", "update", str(guide), str(bundle)).stdout
    quiet = run("--model", "none", "update", "--dry-run", str(guide), str(bundle))
    assert "no text would change" in quiet.stdout


def test_pruning_and_replacing_contradict_each_other(guide: Path, bundle: Path) -> None:
    assert run("--model", "none", "update", "--prune", "--replace", str(guide), str(bundle)).exit_code != 0
    assert run("--model", "none", "update", "--replace", str(guide), str(bundle)).exit_code == 0


def test_unknown_ids_are_named_and_make_code_two(bundle: Path) -> None:
    done = run("remove", "alarms", "nope", "neither", str(bundle))
    assert done.exit_code == 2
    assert "removed: 1 concept, 4 left" in done.stdout
    assert "'nope'" in done.stderr
    assert "'neither'" in done.stderr
    done = run("remove", "--json", "install", str(bundle))
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"removed": 1, "written": 3, "unknown": []})


def test_validate_has_two_verdicts(bundle: Path) -> None:
    assert run("bundle", "validate", str(bundle)).exit_code == 0
    assert run("bundle", "validate", "--strict", str(bundle)).exit_code == 1
    (bundle / "bad.md").write_text("no block")
    done = run("bundle", "validate", "--json", str(bundle))
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (found["conformant"], found["clean"]) == (False, False)


def test_show_lists_concepts_or_shows_one(bundle: Path) -> None:
    done = run("bundle", "show", str(bundle))
    assert done.exit_code == 0
    assert "earthing" in done.stdout
    assert json.loads(run("bundle", "show", "--json", str(bundle)).stdout)["concepts"][1]["id"] == "install"
    one = run("bundle", "show", str(bundle), "wiring")
    assert "Wiring (wiring.md, stable, unverified)" in one.stdout
    assert "see also: pump-guide" in one.stdout
    assert "Connect the supply" in one.stdout
    assert json.loads(run("bundle", "show", "--json", str(bundle), "wiring").stdout)["title"] == "Wiring"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--model", "none", "create", "missing.md", "out"), 1),
        (("--model", "none", "create", "http://127.0.0.1/x", "out"), 1),
        (("create", "missing.md", "out"), 1),
        (("--model", "none", "update", "missing.md", "out"), 1),
        (("remove", "x", "nowhere"), 1),
        (("bundle", "validate", "nowhere"), 1),
        (("bundle", "show", "nowhere"), 1),
        (("create",), 64),
    ],
)
def test_what_cannot_be_done_is_said_with_its_code(args: tuple[str, ...], code: int) -> None:
    found, text = code_of(*args)
    assert found == code, text
    assert "Traceback" not in text


def test_an_unknown_concept_is_named(bundle: Path) -> None:
    code, text = code_of("bundle", "show", str(bundle), "nope")
    assert code == 1
    assert "'nope'" in text


def test_a_check_that_fails_makes_code_one(guide: Path, tmp_path: Path) -> None:
    (tmp_path / "b/notes").mkdir(parents=True)
    (tmp_path / "b/notes/log.md.txt").write_text("x")
    done = run("--model", "none", "create", "--validate", "--json", str(guide), str(tmp_path / "b"))
    assert done.exit_code == 0
    assert json.loads(done.stdout)["check"]["conformant"] is True


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = _Bar()
    bar.show(1, 3, 0)
    bar.show(2, 3, 1)
    bar.clear()
    monkeypatch.undo()
    assert terminal.getvalue() == "\r\x1b[K1 of 3 sections\r\x1b[K2 of 3 sections, 1 failed\r\x1b[K"


def test_the_commands_are_listed_without_being_loaded() -> None:
    script = (
        "import sys; from click.testing import CliRunner; from knowledge_engine.cli import knowledge;"
        "text = CliRunner().invoke(knowledge, ['--help']).output;"
        "assert 'create' in text and '--model' in text, text;"
        "print([name for name in sys.modules if name.startswith('knowledge_okf')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['knowledge_okf', 'knowledge_okf.plugin']"
