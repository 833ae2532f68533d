from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import pytest

from knowledge_engine.backends import BackendListing, list_knowledge_backends, list_knowledge_transports
from knowledge_engine.groups import KIT_PARTS, PROVIDERS, KitPart

NEEDY = """
    from knowledge_engine.hookspecs import hookimpl

    @hookimpl
    def knowledge_backend():
        return {
            "name": "Needy",
            "description": "Needs a room.",
            "version": "9",
            "url_schemes": ["needy"],
            "settings": [{"name": "KNOWLEDGE_NEEDY_ROOM", "description": "where it is", "required": True}],
        }

    @hookimpl
    def knowledge_open():
        raise AssertionError("opened")
"""


def listed(slug: str, environ: dict[str, str] | None = None) -> BackendListing:
    (found,) = [each for each in list_knowledge_backends(environ=environ or {}) if each.slug == slug]
    return found


def test_backends_of_this_kit_that_are_not_installed_are_supported_and_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [])
    found = list_knowledge_backends(environ={})
    assert [each.slug for each in found] == ["files", "http", "hub", "sqlite", "wamp"]
    for each in found:
        assert (each.status, each.installed, each.version, each.problem) == ("supported", False, "", "")
        assert each.distribution == f"kpkit-{each.slug}"
        assert each.mend == f"Install the distribution kpkit-{each.slug}."
        assert each.description
    assert [each.slug for each in list_knowledge_transports(environ={})] == ["http", "mcp", "wamp"]


def test_a_backend_is_available_until_its_settings_are_complete(install_plugin: Any) -> None:
    install_plugin("needy_plugin", NEEDY, distribution="needy-one", name="needy")
    lacking, complete = listed("needy"), listed("needy", {"KNOWLEDGE_NEEDY_ROOM": "attic"})
    assert (lacking.status, complete.status) == ("available", "ready")
    assert lacking.missing == ("KNOWLEDGE_NEEDY_ROOM is not set (where it is)",)
    assert (lacking.mend, complete.mend) == ("Set what is missing.", "")
    assert (complete.name, complete.version, complete.url_schemes) == ("Needy", "9", ("needy",))
    assert (complete.distribution, complete.description) == ("needy-one", "Needs a room.")


def test_without_environ_the_environment_of_the_listing_counts_not_a_later_one(
    install_plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin("needy_plugin", NEEDY, name="needy")
    monkeypatch.setenv("KNOWLEDGE_NEEDY_ROOM", "attic")
    (found,) = [each for each in list_knowledge_backends() if each.slug == "needy"]
    monkeypatch.delenv("KNOWLEDGE_NEEDY_ROOM")
    assert found.status == "ready"


def test_a_plugin_that_says_little_is_listed_by_its_entry(install_plugin: Any) -> None:
    source = NEEDY.split("return {")[0] + "return {}\n\n    @hookimpl\n    def knowledge_open(): ...\n"
    install_plugin("bare_plugin", source, name="bare")
    found = listed("bare")
    assert (found.status, found.name, found.description, found.version) == ("ready", "bare", "", "1.2")


BROKEN = {
    "import no_such_module_anywhere": "does not load: ModuleNotFoundError: No module named 'no_such_module_anywhere'",
    NEEDY.replace("def knowledge_open", "def knowledge_opne"): "has unknown hooks: 'knowledge_opne'",
    NEEDY.replace('"name": "Needy"', '"name": 3'): "says something wrong",
    NEEDY.replace("return {", "exit(1)\n        return {"): "failed in 'knowledge_backend' (SystemExit)",
}


@pytest.mark.parametrize("source", BROKEN)
def test_a_broken_plugin_is_listed_with_the_reason_and_hides_no_other(install_plugin: Any, source: str) -> None:
    install_plugin("broken_plugin", source, distribution="broken-one", name="broken")
    install_plugin("needy_plugin", NEEDY, name="needy")
    found = listed("broken")
    assert (found.status, found.installed, found.distribution) == ("broken", True, "broken-one")
    assert BROKEN[source] in found.problem
    assert found.mend == "Update or uninstall broken-one."
    assert (found.name, found.missing, found.version) == ("broken", (), "1.2")
    assert listed("needy").status == "available"


def test_a_name_that_two_distributions_claim_is_listed_once_as_broken_with_both(install_plugin: Any) -> None:
    install_plugin("one_plugin", NEEDY, distribution="needy-one", name="needy")
    install_plugin("two_plugin", NEEDY, distribution="needy-two", name="needy")
    found = listed("needy")
    assert (found.status, found.distribution) == ("broken", "needy-one, needy-two")
    assert "claimed more than once: by needy-one (one_plugin), needy-two (two_plugin)" in found.problem


def test_a_broken_backend_of_this_kit_is_not_called_supported(
    install_plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {**KIT_PARTS, PROVIDERS: {**KIT_PARTS[PROVIDERS], "new": KitPart("kpkit-new", "A part to come")}}
    monkeypatch.setattr("knowledge_engine.backends.KIT_PARTS", parts)
    assert listed("new").status == "supported"
    install_plugin("new_plugin", "import no_such_module_anywhere", distribution="kpkit-new", name="new")
    assert listed("new").status == "broken"


def test_a_misspelt_group_is_listed_as_broken_with_the_right_one(install_plugin: Any) -> None:
    install_plugin("needy_plugin", NEEDY, distribution="a", group="knowledge_engine.provider", name="needy")
    install_plugin("needy_plugin", NEEDY, distribution="b", group="knowledge-engine.transport", name="wire")
    install_plugin("needy_plugin", NEEDY, distribution="c", group="knowledge_engine.something", name="other")
    found = listed("needy")
    assert found.status == "broken"
    assert found.problem == "a names 'needy' under 'knowledge_engine.provider', where nothing looks"
    assert found.mend == "Name it under 'knowledge_engine.providers'."
    assert "needy_plugin" not in sys.modules
    (wire,) = [each for each in list_knowledge_transports(environ={}) if each.slug == "wire"]
    assert "knowledge_engine.transports" in wire.mend
    assert "other" not in [each.slug for each in list_knowledge_backends(environ={})]


def test_a_listing_is_a_json_object_that_shows_no_setting(install_plugin: Any) -> None:
    install_plugin("needy_plugin", NEEDY, name="needy")
    found = listed("needy", {"KNOWLEDGE_NEEDY_ROOM": "hush-hush"})
    shown = json.dumps(found.info())
    assert json.loads(shown) == found.info()
    assert found.info()["status"] == "ready"
    assert repr(found) == "<BackendListing 'needy' of test-plugin>"
    assert "hush" not in shown
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            copying(found)


def modules_after(code: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


HEAVY = {"numpy", "pydantic", "yaml", "Stemmer", "knowledge_engine.ports", "knowledge_engine.models"}


def test_listing_imports_no_plugin_and_nothing_heavy() -> None:
    code = "from knowledge_engine import list_knowledge_backends as f; assert 'files' in [each.slug for each in f()]"
    modules = modules_after(code)
    assert not [name for name in modules if name.startswith("knowledge_files")]
    assert not modules & {*HEAVY, "pluggy"}


def test_finding_out_which_are_ready_imports_only_the_light_plugin_module() -> None:
    code = "from knowledge_engine import list_knowledge_backends as f; assert 'ready' in [each.status for each in f()]"
    modules = modules_after(code)
    assert {name for name in modules if name.startswith("knowledge_files")} == {
        "knowledge_files",
        "knowledge_files.plugin",
    }
    assert not modules & HEAVY
