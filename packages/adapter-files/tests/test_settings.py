"""Settings, the plugin, and what an import costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import knowledge_files
from knowledge_engine import resolve_knowledge_backend
from knowledge_engine.citations import content_hash
from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import IngestRequest, Query
from knowledge_files import (
    FilesSettings,
    create_files_adapter,
    create_standalone_files_adapter,
    load_files_knowledge_env,
)
from knowledge_files.plugin import knowledge_backend, knowledge_open


def put(root: Path, path: str, text: str = "valve") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_an_empty_environment_gives_the_defaults() -> None:
    assert load_files_knowledge_env({}) == FilesSettings()
    assert FilesSettings() == FilesSettings(root=".", path="knowledge", exclude=(), ranking="bm25", language="english")


def test_each_variable_is_taken() -> None:
    given = FilesSettings.from_env(
        {
            "KNOWLEDGE_FILES_ROOT": "/srv/kb",
            "KNOWLEDGE_FILES_PATH": "./docs/",
            "KNOWLEDGE_FILES_EXCLUDE": " drafts/ , *.json\n\n,b/**/c.md",
            "KNOWLEDGE_FILES_RANKING": "plus",
            "KNOWLEDGE_FILES_LANGUAGE": "german",
            "KNOWLEDGE_FILES_OTHER": "x",
        }
    )
    assert given == FilesSettings(
        root="/srv/kb", path="docs", exclude=("drafts/", "*.json", "b/**/c.md"), ranking="plus", language="german"
    )
    assert FilesSettings.from_env({"KNOWLEDGE_FILES_EXCLUDE": ""}).exclude == ()
    assert FilesSettings.from_env({"KNOWLEDGE_FILES_PATH": "."}).path == "."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("ROOT", "PATH", "RANKING", "LANGUAGE") for value in ("", "  ")),
        ("RANKING", "bm42"),
        ("PATH", "../elsewhere"),
        ("PATH", "/srv/kb"),
        ("PATH", "a\0b"),
        ("LANGUAGE", "klingon"),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str) -> None:
    variable = f"KNOWLEDGE_FILES_{name}"
    with pytest.raises(ConfigurationError, match=variable):
        create_standalone_files_adapter({variable: value})


def test_the_environment_alone_makes_an_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "knowledge/a.md")
    put(tmp_path, "knowledge/b.json")
    put(tmp_path, "elsewhere/c.md")
    adapter = create_standalone_files_adapter(
        {"KNOWLEDGE_FILES_ROOT": str(tmp_path), "KNOWLEDGE_FILES_EXCLUDE": "*.json", "PATH": "/bin"}
    )
    assert [hit.source_id for hit in adapter.query(Query(query="valve")).hits] == ["knowledge/a.md"]
    monkeypatch.setenv("KNOWLEDGE_FILES_PATH", "elsewhere")
    monkeypatch.chdir(tmp_path)
    assert load_files_knowledge_env().path == "elsewhere"
    assert create_standalone_files_adapter().list_sources().sources[0].id == "elsewhere/c.md"


def test_the_language_is_that_of_index_and_query(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "Die Häuser")
    for language, found in [("german", 1), ("none", 0)]:
        adapter = create_files_adapter(FilesSettings(root=str(tmp_path), path=".", language=language))
        assert len(adapter.query(Query(query="Haus")).hits) == found


@pytest.mark.parametrize("name", ["docs", "mit Leerzeichen", "100%20%2e%2e", "资料 é", "a:b?c=d#e"])
def test_a_url_names_a_folder_letter_by_letter(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / name, "sub/a.md", "# Use\n\nOpen the valve.\n")
    monkeypatch.chdir(tmp_path)
    for url in (f"files:{tmp_path / name}", f"files:./{name}", f"files:{name}/", f"files:///{tmp_path / name}"):
        provider = resolve_knowledge_backend(url, environ={"KNOWLEDGE_FILES_PATH": "ignored"}).provider()
        [hit] = provider.query(Query(query="valves")).hits
        assert hit.source_id == "sub/a.md"
        data = (tmp_path / name / "sub" / "a.md").read_bytes()[hit.span.start : hit.span.end]
        assert (data.decode(), content_hash(data)) == (hit.text, hit.content_hash)
        provider.dispose()


def test_the_name_takes_root_and_folder_from_the_settings(tmp_path: Path) -> None:
    put(tmp_path, "kb/a.md")
    handle = resolve_knowledge_backend("files", environ={"KNOWLEDGE_FILES_PATH": "kb"}, root=tmp_path)
    assert handle.requires_setup is False
    assert handle.check() == ()
    provider = handle.provider()
    assert provider is handle.provider()
    assert provider.list_sources().sources[0].id == "kb/a.md"
    assert provider.ingest(IngestRequest(title="New", text="x")).id == "kb/sources/new.md"


@pytest.mark.parametrize("url", ["files:", "files:a\0b", "files:\ud800", "files:a\ude00/b"])
def test_a_url_without_a_folder_says_how_to_write_one(url: str) -> None:
    with pytest.raises(ConfigurationError, match="files:FOLDER"):
        resolve_knowledge_backend(url).provider()


def test_a_url_of_a_folder_that_does_not_exist_opens_and_says_so(tmp_path: Path) -> None:
    provider = resolve_knowledge_backend(f"files:{tmp_path}/typo").provider()
    result = provider.query(Query(query="valve"))
    assert result.hits == ()
    assert "does not exist" in result.warnings[0]
    health = provider.health_check()
    assert (health.status, "does not exist: create it" in health.message) == ("degraded", True)
    assert health.details["unreadable"] == health.message
    assert str(tmp_path) not in health.message
    put(tmp_path / "typo", "a.md", "A valve.")
    assert provider.refresh() is True
    assert [hit.source_id for hit in provider.query(Query(query="valve")).hits] == ["a.md"]
    assert (provider.health_check().status, "unreadable" in provider.health_check().details) == ("ok", False)


def test_a_root_that_is_a_file_and_a_missing_folder_below_the_root_are_told_apart(tmp_path: Path) -> None:
    put(tmp_path, "a.md")
    file = resolve_knowledge_backend(f"files:{tmp_path}/a.md").provider()
    assert file.health_check().message.startswith("The root folder is a file, not a folder")
    below = resolve_knowledge_backend("files", environ={"KNOWLEDGE_FILES_ROOT": str(tmp_path)}).provider()
    assert below.health_check().message.startswith("The folder 'knowledge' does not exist")
    below.dispose()
    assert below.health_check().status == "down"


def test_a_root_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    provider = resolve_knowledge_backend(f"files:{tmp_path}").provider()
    monkeypatch.setattr("knowledge_files.standalone.os.scandir", refuse)
    health = provider.health_check()
    assert (health.status, str(tmp_path) in health.message) == ("degraded", False)
    assert "The root folder cannot be read (Permission denied)" in health.message


def test_the_plugin_states_every_setting_and_its_default() -> None:
    stated = knowledge_backend()
    settings = {one["name"]: one for one in stated["settings"]}
    assert set(settings) == {f"KNOWLEDGE_FILES_{name.upper()}" for name in FilesSettings.model_fields}
    defaults = FilesSettings()
    for name in ("root", "path", "ranking", "language"):
        assert settings[f"KNOWLEDGE_FILES_{name.upper()}"]["default"] == getattr(defaults, name)
    assert stated["url_schemes"] == ["files"]
    assert knowledge_open(None, {}).id == "files"


def test_importing_the_package_or_its_plugin_loads_nothing_heavy() -> None:
    script = (
        "import sys, knowledge_files, knowledge_files.plugin; knowledge_files.plugin.knowledge_backend();"
        "print([name for name in ('numpy', 'pydantic', 'Stemmer', 'yaml', 'rank_bm25', 'bs4', 'urllib3')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"


def test_the_root_gives_each_name_once_it_is_asked_for() -> None:
    for name in knowledge_files.__all__:
        assert getattr(getattr(knowledge_files, name), "__name__", name) == name
        assert name in dir(knowledge_files)
    with pytest.raises(AttributeError, match="nothing_such"):
        knowledge_files.nothing_such  # noqa: B018
