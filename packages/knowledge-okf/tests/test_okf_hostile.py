"""Bundles and folders as they should not be, and processes that end half-way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from knowledge_engine.cli import Session, knowledge
from knowledge_engine.errors import ConfigurationError, ConflictError, NotFoundError
from knowledge_okf import Knowledge, read_bundle, validate_bundle

#: `source bundle asked`: writes a line into `asked` for each question, and hangs at the third.
ASKING = """
import sys, time
from knowledge_okf import Knowledge

class Model:
    name = "stub"
    def ask(self, prompt, schema, *, instructions="", timeout_s=60.0):
        with open(sys.argv[3], "a") as asked:
            asked.write("x\\n")
        if sys.argv[4] == "hang" and len(open(sys.argv[3]).readlines()) == 3:
            print("hangs", flush=True)
            time.sleep(600)
        text = prompt.partition("\\nTEXT\\n")[2].partition("\\n</source-")[0]
        return schema.model_validate({"concepts": [{"title": text[:9], "quote": text.split("\\n")[0]}]})

Knowledge(Model(), environ={}, concurrency=1).create(sys.argv[1], sys.argv[2])
"""


@pytest.fixture
def bundle(guide: Path, tmp_path: Path) -> Path:
    Knowledge("none", environ={}).create(guide, tmp_path / "place" / "bundle")
    return tmp_path / "place" / "bundle"


def update(guide: Path, bundle: Path, **how: Any) -> Any:
    knowledge = Knowledge("none", environ={})
    knowledge.update(guide, bundle, **how)
    return knowledge.report


def test_a_killed_run_goes_on_where_it_ended(guide: Path, tmp_path: Path) -> None:
    asked, folder = tmp_path / "asked", tmp_path / "place" / "bundle"
    command = [sys.executable, "-c", ASKING, str(guide), str(folder), str(asked)]
    run = subprocess.Popen([*command, "hang"], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "hangs\n"
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    assert not folder.exists()
    subprocess.run([*command, "go"], check=True)
    # Four sections have text: two were answered before, the third is asked about again.
    assert len(asked.read_text().splitlines()) == 3 + 2
    assert len(read_bundle(folder)) == 5
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]


def test_a_plain_file_of_the_name_of_a_new_concept_stays(guide: Path, bundle: Path) -> None:
    (bundle / "Spares.md").write_text("my own list\n")
    guide.write_text(guide.read_text() + "\n## Spares\n\nGaskets.\n")
    update(guide, bundle)
    assert (bundle / "Spares.md").read_text() == "my own list\n"
    assert (bundle / "spares-1.md").exists()


def test_links_and_folders_named_as_concepts_are_not_written_over(guide: Path, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "out.md").write_text("outside")
    (bundle / "spares.md").symlink_to(tmp_path / "out.md")
    (bundle / "parts.md").mkdir()
    (bundle / "parts.md" / "x.txt").write_text("x")
    guide.write_text(guide.read_text() + "\n## Spares\n\nGaskets.\n\n## Parts\n\nBolts.\n")
    update(guide, bundle)
    assert (bundle / "spares.md").is_symlink()
    assert (bundle / "parts.md").is_dir()
    assert (tmp_path / "out.md").read_text() == "outside"
    assert {"spares-1", "parts-1"} <= {one.id for one in read_bundle(bundle).concepts}


def test_a_link_in_the_place_of_an_index_is_told(guide: Path, bundle: Path, tmp_path: Path) -> None:
    (bundle / "index.md").unlink()
    (bundle / "index.md").symlink_to(tmp_path / "nowhere.md")
    guide.write_text(guide.read_text() + "\n## Spares\n\nGaskets.\n")
    with pytest.raises(ConflictError, match=re.escape("'index.md' is in the way")):
        update(guide, bundle)
    assert (bundle / "index.md").is_symlink()


def test_pipes_loops_and_odd_names_are_no_obstacle(guide: Path, bundle: Path) -> None:
    os.mkfifo(bundle / "pipe.md")
    (bundle / "loop").symlink_to(".")
    (bundle / "line\nbreak.md").write_text("---\ntype: x\n---\n")
    os.close(os.open(os.fsencode(bundle) + b"/bad\xff.md", os.O_CREAT | os.O_WRONLY))
    guide.write_text(guide.read_text().replace("flat", "level"))
    update(guide, bundle)
    assert "level" in (bundle / "install.md").read_text()
    assert os.path.lexists(os.fsencode(bundle) + b"/bad\xff.md")
    assert (bundle / "loop").is_symlink()
    check = validate_bundle(bundle)
    assert {"not-regular", "name-encoding", "name-invalid"} <= {issue.code for issue in check.issues}


@pytest.mark.parametrize("left", ["index.md", ".knowledge-okf.json", "install.md", "log.md"])
def test_a_half_written_bundle_is_made_whole(guide: Path, bundle: Path, left: str) -> None:
    (bundle / left).write_bytes((bundle / left).read_bytes()[:20])
    guide.write_text(guide.read_text().replace("Alarm 7", "Alarm 8"))
    update(guide, bundle, replace=True)
    check = validate_bundle(bundle)
    assert check.conformant
    assert {issue.code for issue in check.issues} == {"unverified"}


def test_a_folder_of_many_other_files_is_not_taken_for_a_bundle(guide: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for number in range(1001):
        (home / f"{number}.txt").touch()
    with pytest.raises(ConflictError, match="many other files"):
        Knowledge("none", environ={}).create(guide, home)
    with pytest.raises(NotFoundError, match="no bundle"):
        update(guide, home)
    with pytest.raises(NotFoundError, match="no bundle"):
        Knowledge("none", environ={}).remove_with_unknowns(["x"], home)


def test_the_root_and_a_file_are_no_bundles(guide: Path) -> None:
    for place in ("/", guide):
        with pytest.raises(ConfigurationError):
            Knowledge("none", environ={}).create(guide, place)


@pytest.mark.parametrize("kind", ["md", "html"])
def test_headings_of_any_length_make_concepts(tmp_path: Path, kind: str) -> None:
    words = "long " * 20_000
    text = f"# {words}\n\n## {words}x\n\ntext\n" if kind == "md" else f"<h1>{words}</h1><h2>{words}x</h2>text"
    source = tmp_path / f"s.{kind}"
    source.write_text(text)
    graph = Knowledge("none", environ={}).create(source, tmp_path / "b")
    assert len(graph) == 2
    assert validate_bundle(tmp_path / "b").conformant
    assert update(source, tmp_path / "b").changes == ()


def test_two_updates_at_once_lose_nothing(guide: Path, bundle: Path, stub: Any) -> None:
    guide.write_text(guide.read_text().replace("flat", "level"))

    def answer(prompt: str) -> Any:
        update(guide, bundle)
        return {"concepts": []}

    with pytest.raises(ConflictError, match="meanwhile"):
        Knowledge(stub(answer), environ={}).update(guide, bundle)
    assert "level" in (bundle / "install.md").read_text()


def test_a_bundle_is_updated_from_within(guide: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle)
    guide.write_text(guide.read_text().replace("flat", "level"))
    update(guide, Path("."))
    assert "level" in (bundle / "install.md").read_text()
    monkeypatch.chdir(bundle)
    for args in (["remove", "alarms", "."], ["bundle", "validate", "."]):
        assert CliRunner().invoke(knowledge, args, obj=Session(environ={})).exit_code == 0
    assert not (bundle / "alarms.md").exists()


README = Path(__file__).parents[1] / "README.md"


def test_the_readme_runs(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    code = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert "'Wiring'" in capsys.readouterr().out


def test_the_documentation_names_what_there_is() -> None:
    text = (README.parents[2] / "docs" / "okf.md").read_text()
    import knowledge_okf
    from knowledge_okf.validating import NOT_CONFORMANT

    assert all(f"`{code}`" in text for code in NOT_CONFORMANT)
    assert all(hasattr(knowledge_okf, name) for name in knowledge_okf.__all__)
    assert set(knowledge_okf.__all__) <= set(dir(knowledge_okf))
    with pytest.raises(AttributeError):
        _ = knowledge_okf.nothing
