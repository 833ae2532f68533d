from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge
from knowledge_engine.frontmatter import parse_frontmatter
from knowledge_engine.markdown import split_sections
from knowledge_engine.validation import validate_library
from knowledge_engine.validation.templates import template

VOCAB = {"kind": {"device", "protocol", "guide", "recipe"}}


def new(*args: object) -> Result:
    return CliRunner().invoke(knowledge, ["new", *map(str, args)], obj=Session(environ={}))


@pytest.mark.parametrize(
    ("doc_id", "kind", "title"),
    [
        ("device.acme.x1", "device", "Acme X1"),
        ("device.x1", "device", "X1"),
        ("protocol.modbus_tcp", "protocol", "Modbus tcp"),
        ("guide.größe.水温", "guide", "Größe 水温"),
        ("recipe.tea", "recipe", "Tea"),
    ],
)
def test_what_it_writes_validates_without_an_error_or_a_warning(
    tmp_path: Path, doc_id: str, kind: str, title: str
) -> None:
    result = new(doc_id, "--dir", tmp_path)
    assert (result.exit_code, result.stdout) == (0, f"written: {tmp_path}/{doc_id}.md\n")
    raw = (tmp_path / f"{doc_id}.md").read_bytes()
    metadata = parse_frontmatter(raw).metadata
    assert (metadata["id"], metadata["kind"], metadata["title"]) == (doc_id, kind, title)
    assert validate_library(tmp_path, VOCAB) == ((), ())


def test_several_templates_in_one_library_do_not_disturb_each_other(tmp_path: Path) -> None:
    for doc_id in ("device.acme.x1", "device.acme.x2", "protocol.s7", "guide.cabling"):
        assert new(doc_id, "--dir", tmp_path).exit_code == 0
    assert validate_library(tmp_path, VOCAB) == ((), ())


def test_a_device_document_states_the_address_base_and_ends_with_a_configuration() -> None:
    text = template("device.acme.x1", "device").decode()
    assert "0-based" in text
    assert "verified: unverified" in text
    assert split_sections(text.encode(), parse_frontmatter(text.encode()).body_start)[-1].title == "Configuration"
    assert text.endswith("```\n")
    assert yaml.safe_load(text.rpartition("```yaml")[2].rstrip("`\n"))["address_base"] == 0


@pytest.mark.parametrize("kind", ["device", "protocol", "guide", "recipe"])
def test_each_section_says_what_belongs_there(kind: str) -> None:
    raw = template(f"{kind}.a", kind)
    sections = split_sections(raw, parse_frontmatter(raw).body_start)
    assert next(each.title for each in sections if each.level) == "Overview"
    assert all(len(raw[each.body_start : each.end].split()) > 10 for each in sections if each.level)


@pytest.mark.parametrize("doc_id", ["_", "...", "a..b", "a._"])
def test_any_id_makes_a_template(doc_id: str) -> None:
    assert parse_frontmatter(template(doc_id, "device")).metadata["id"] == doc_id


def test_kind_and_title_can_be_given(tmp_path: Path) -> None:
    title = 'A: "title" # with signs'
    assert new("acme", "--kind", " guide ", "--title", title, "--dir", tmp_path).exit_code == 0
    metadata = parse_frontmatter((tmp_path / "acme.md").read_bytes()).metadata
    assert (metadata["kind"], metadata["title"]) == ("guide", title)


def test_it_makes_the_folder_and_names_what_to_do_next(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    result = new("guide.tea", "--dir", folder)
    assert (folder / "guide.tea.md").is_file()
    assert result.stderr == f"Fill it in, then run: knowledge validate {folder}\n"


def test_by_default_it_writes_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert json.loads(new("guide.tea", "--json").stdout) == {"id": "guide.tea", "path": "guide.tea.md"}
    assert (tmp_path / "guide.tea.md").is_file()


@pytest.mark.parametrize("way", [["-"], ["--stdout"]])
def test_it_can_print_instead_of_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    result = new("guide.größe", *way)
    assert result.stdout_bytes == template("guide.größe", "guide")
    assert json.loads(new("guide.größe", *way, "--json").stdout)["content"].encode() == result.stdout_bytes
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_that_name_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "guide.tea.md").write_text("mine")
    result = new("guide.tea", "--dir", tmp_path)
    assert result.exit_code == 1
    assert f"{tmp_path}/guide.tea.md is there already" in result.stderr
    assert (tmp_path / "guide.tea.md").read_text() == "mine"


def test_a_link_of_that_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "guide.tea.md").symlink_to(tmp_path / "elsewhere")
    assert new("guide.tea", "--dir", tmp_path).exit_code == 1
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("claimed", ["guide.tea", "GUIDE.Tea"])
def test_an_id_that_another_document_has_is_refused_with_its_path(tmp_path: Path, claimed: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "other.md").write_text(f"---\nid: {claimed}\n---\n")
    (tmp_path / "bad.md").symlink_to("nowhere")
    (tmp_path / "none.md").write_text("no id")
    result = new("guide.tea", "--dir", tmp_path)
    assert result.exit_code == 1
    assert "The id 'guide.tea' belongs to deep/other.md." in result.stderr
    assert not (tmp_path / "guide.tea.md").exists()


def test_a_document_that_cannot_be_read_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from knowledge_engine.errors import ProviderError
    from knowledge_engine.fs import LocalFs

    def read(*_: object) -> bytes:
        raise ProviderError("It is ill", mend="Heal it.")

    (tmp_path / "other.md").write_text("---\nid: guide.tea\n---\n")
    monkeypatch.setattr(LocalFs, "read", read)
    assert new("guide.tea", "--dir", tmp_path).exit_code == 0


def test_of_many_at_once_one_writes_the_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from knowledge_engine.cli import main; main()", "new", "guide.tea", "--dir"]

    def run(_: int) -> int:
        return subprocess.run([*command, str(tmp_path)], capture_output=True).returncode

    with ThreadPoolExecutor(4) as pool:
        codes = sorted(pool.map(run, range(4)))
    assert codes == [0, 1, 1, 1]
    assert (tmp_path / "guide.tea.md").read_bytes() == template("guide.tea", "guide")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["tea"], "give --kind"),
        (["guide."], "give --kind"),
        (["guide.a b"], "blanks"),
        (["guide.../../x"], "'/'"),
        (["Guide.Tea"], "Write 'guide.tea'"),
        ([".hidden.x"], "begins with a sign"),
        ([" "], "The id is empty"),
        (["水" * 100, "--kind", "guide"], "is too long"),
        (["guide.a", "--kind", " "], "--kind is empty"),
        (["guide.a", "--title", ""], "--title is empty"),
        (["guide.a", "file.md"], "file.md"),
    ],
)
def test_wrong_usage_is_exit_64_and_writes_nothing(tmp_path: Path, args: list[str], told: str) -> None:
    result = new(*args, "--dir", tmp_path)
    assert (result.exit_code, told in result.stderr) == (64, True), result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_folder_that_cannot_be_one_is_told(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("x")
    result = new("guide.tea", "--dir", tmp_path / folder)
    assert result.exit_code == 1
    assert "is not a folder" in result.stderr


def test_a_name_too_long_for_the_disk_is_told(tmp_path: Path) -> None:
    result = new("guide.tea", "--dir", tmp_path / ("x" * 300))
    assert result.exit_code == 1
    assert "too long for the disk" in result.stderr


def test_a_disk_that_is_full_leaves_no_half_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    result = new("guide.tea", "--dir", tmp_path)
    assert result.exit_code == 1
    assert "No room to write" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_not_ascii_is_utf8_on_disk_in_every_locale(tmp_path: Path) -> None:
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [
        sys.executable,
        "-c",
        "from knowledge_engine.cli import main; main()",
        "new",
        "guide.größe",
        "--dir",
        "水",
    ]
    run = subprocess.run(command, capture_output=True, env=environ, cwd=tmp_path)
    assert (run.returncode, run.stdout.decode()) == (0, "written: 水/guide.größe.md\n")
    assert os.listdir(os.fsencode(tmp_path / "水")) == ["guide.größe.md".encode()]
