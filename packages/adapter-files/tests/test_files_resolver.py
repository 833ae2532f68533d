"""The files backend by name: its catalogue entry, its resolver, and hosts that do not share by accident."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import knowledge_engine
import knowledge_files
from knowledge_engine import Query
from knowledge_engine.errors import ConfigurationError
from knowledge_files import (
    KNOWLEDGE_FILES_CATALOG,
    FilesKnowledgeAdapter,
    make_knowledge_files_resolver,
    resolve_knowledge_backend,
)


def folder(tmp_path: Path, name: str, text: str) -> Path:
    root = tmp_path / name
    (root / "knowledge").mkdir(parents=True)
    (root / "knowledge" / "note.md").write_text(text)
    return root


def found(handle: knowledge_engine.KnowledgeBackendHandle | None, words: str) -> list[str]:
    assert handle is not None
    return [hit.text for hit in handle.provider().query(Query(query=words)).hits]


def test_the_resolver_gives_the_files_backend_by_name_and_by_url(tmp_path: Path) -> None:
    root = folder(tmp_path, "one", "Valves leak.")
    resolve = make_knowledge_files_resolver(environ={"KNOWLEDGE_FILES_ROOT": str(root)})
    assert found(resolve("files"), "leak") == ["Valves leak."]
    assert found(resolve(f"files:{root}/knowledge"), "leak") == ["Valves leak."]
    handle = resolve("files", root=root, path=".")
    assert handle is not None
    assert isinstance(handle.provider(), FilesKnowledgeAdapter)
    assert (handle.slug, handle.requires_setup, handle.check()) == ("files", False, ())


@pytest.mark.parametrize("name", ["sqlite", "https://host/", "file:./docs", "Files", "", "files.plugin"])
def test_the_resolver_gives_none_for_all_else(name: str) -> None:
    assert make_knowledge_files_resolver()(name) is None


def test_the_catalogue_says_what_the_backend_says_of_itself() -> None:
    entry = KNOWLEDGE_FILES_CATALOG["files"]
    info = resolve_knowledge_backend("files", environ={}).info()
    for key in ("slug", "name", "description", "distribution", "url_schemes"):
        assert entry[key] == info[key]
    assert [each["name"] for each in entry["settings"]] == [each["name"] for each in info["settings"]]
    assert json.loads(json.dumps(dict(entry)))["slug"] == "files"
    with pytest.raises(TypeError):
        KNOWLEDGE_FILES_CATALOG["other"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        entry["slug"] = "other"  # type: ignore[index]


def test_the_resolving_function_of_the_package_is_the_engines() -> None:
    assert resolve_knowledge_backend is knowledge_engine.resolve_knowledge_backend
    assert {"KNOWLEDGE_FILES_CATALOG", "make_knowledge_files_resolver", "resolve_knowledge_backend"} <= set(
        dir(knowledge_files)
    )


def test_the_catalogue_and_the_resolver_import_no_adapter() -> None:
    code = (
        "import sys\nfrom knowledge_files import KNOWLEDGE_FILES_CATALOG, make_knowledge_files_resolver as make\n"
        "handle = make(environ={})('files')\nassert handle.info() and not handle.check()\nprint(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(run.stdout.split())
    assert not modules & {"numpy", "pydantic", "Stemmer", "yaml", "knowledge_files.adapter", "knowledge_files.settings"}


def test_two_hosts_with_different_settings_answer_from_their_own_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [folder(tmp_path, "one", "Valves leak."), folder(tmp_path, "two", "Pumps leak.")]
    hosts = [make_knowledge_files_resolver(environ={"KNOWLEDGE_FILES_ROOT": str(root)}) for root in roots]
    monkeypatch.setenv("KNOWLEDGE_FILES_ROOT", str(tmp_path / "nowhere"))
    monkeypatch.setenv("KNOWLEDGE_FILES_LANGUAGE", "no language")
    one, two = hosts[0]("files"), hosts[1]("files")
    assert (found(one, "leak"), found(two, "leak")) == (["Valves leak."], ["Pumps leak."])
    assert one is not None
    one.close()
    assert found(two, "leaks") == ["Pumps leak."]
    same = hosts[0]("files")
    assert same is not None
    assert same.provider() is not one.provider()


def test_a_url_that_names_no_folder_is_refused_without_being_repeated() -> None:
    for url in ("files:", "files:hush@\0"):
        handle = resolve_knowledge_backend(url, environ={})
        with pytest.raises(ConfigurationError, match="names no folder") as caught:
            handle.provider()
        assert "hush" not in str(caught.value)
