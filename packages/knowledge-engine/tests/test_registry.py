from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import BrokenPluginError, ConfigurationError, KnowledgeError, UnknownBackendError
from knowledge_engine.plugins import find_plugins, load_plugin
from knowledge_engine.registry import resolve_knowledge_backend

PROVIDERS = "knowledge_engine.providers"

# A backend that is one file of shelves; it keeps what it was opened with.
SHELF = """
    from knowledge_engine.hookspecs import hookimpl
    from knowledge_engine.models import Capabilities

    class Shelf:
        id = "shelf"
        capabilities = Capabilities()

        def __init__(self, url, settings, environ):
            self.opened_with = (url, settings, environ)

        def list_sources(self, *, filter=None, limit=100, cursor=None): ...
        def get_source(self, source_id): ...
        def read_source(self, source_id, span=None): ...
        def query(self, query): ...
        def health_check(self): ...
        def dispose(self): ...

    @hookimpl
    def knowledge_backend():
        return {
            "name": "Shelf",
            "description": "Books on a shelf.",
            "url_schemes": ["shelf", "https"],
            "settings": [
                {"name": "KNOWLEDGE_SHELF_ROOM", "description": "where it stands", "required": True, "in_url": True},
                {"name": "KNOWLEDGE_SHELF_KEY", "secret": True, "default": "factory-key"},
                {"name": "KNOWLEDGE_SHELF_WIDTH", "required": True, "default": "80"},
            ],
        }

    @hookimpl
    def knowledge_open(url, settings, environ):
        return Shelf(url, settings, environ)
"""


@pytest.fixture
def shelf(install_plugin: Any) -> None:
    install_plugin("shelf_plugin", SHELF, distribution="shelf-of-books", name="shelf")


@pytest.fixture
def bare_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """No distribution is installed."""
    monkeypatch.setattr(sys, "path", [])


def opened_with(provider: Any) -> Any:
    return provider.opened_with


@pytest.mark.usefixtures("shelf")
def test_a_handle_says_what_the_plugin_and_its_distribution_say() -> None:
    handle = resolve_knowledge_backend("shelf", environ={})
    assert (handle.slug, handle.name, handle.description) == ("shelf", "Shelf", "Books on a shelf.")
    assert handle.version == "1.2"
    assert handle.requires_setup is True
    assert handle.info()["distribution"] == "shelf-of-books"
    assert handle.info()["url_schemes"] == ["shelf", "https"]
    assert json.loads(json.dumps(handle.info())) == handle.info()
    assert repr(handle) == "<KnowledgeBackendHandle 'shelf' 1.2>"


def test_what_a_plugin_does_not_say_has_defaults(install_plugin: Any) -> None:
    source = SHELF.split("return {")[0] + "return {}\n\n    @hookimpl\n    def knowledge_open(): return 1\n"
    install_plugin("bare_plugin", source, name="bare")
    handle = resolve_knowledge_backend("bare", environ={})
    assert (handle.slug, handle.name, handle.description, handle.version) == ("bare", "bare", "", "1.2")
    assert handle.requires_setup is False
    assert handle.check() == ()
    with pytest.raises(ConfigurationError, match="opens no bare: URL"):
        resolve_knowledge_backend("bare:x")


def test_a_plugin_may_go_by_another_slug_and_say_that_it_needs_setup(install_plugin: Any) -> None:
    source = SHELF.replace('"name": "Shelf",', '"slug": "rack-2", "requires_setup": False, "version": "9",').replace(
        "KNOWLEDGE_SHELF", "KNOWLEDGE_RACK_2"
    )
    install_plugin("rack_plugin", source, name="https")
    handle = resolve_knowledge_backend("HTTPS://host/", environ={}, key="k")
    assert (handle.slug, handle.name, handle.version, handle.requires_setup) == ("rack-2", "rack-2", "9", False)
    assert opened_with(handle.provider())[1] == {"KNOWLEDGE_RACK_2_KEY": "k"}


@pytest.mark.usefixtures("shelf")
def test_settings_that_are_missing_are_named_and_nothing_is_opened() -> None:
    handle = resolve_knowledge_backend("shelf", environ={"KNOWLEDGE_SHELF_ROOM": ""})
    assert handle.check() == ("KNOWLEDGE_SHELF_ROOM is not set (where it stands)",)
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_SHELF_ROOM is not set"):
        handle.provider()


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    "handle",
    [
        lambda: resolve_knowledge_backend("shelf", environ={"KNOWLEDGE_SHELF_ROOM": "attic"}),
        lambda: resolve_knowledge_backend("shelf", environ={}, room="attic"),
        lambda: resolve_knowledge_backend("shelf:attic", environ={}),
    ],
)
def test_a_setting_may_come_from_the_environment_a_keyword_or_the_url(handle: Any) -> None:
    assert handle().check() == ()
    handle().provider()


@pytest.mark.usefixtures("shelf")
def test_a_keyword_comes_before_the_environment_and_other_variables_stay() -> None:
    environ = {"KNOWLEDGE_SHELF_ROOM": "attic", "OTHER": "1"}
    handle = resolve_knowledge_backend("shelf", environ=environ, room="cellar", KNOWLEDGE_SHELF_KEY="k", width=None)
    url, given, merged = opened_with(handle.provider())
    assert url is None
    assert given == {"KNOWLEDGE_SHELF_ROOM": "cellar", "KNOWLEDGE_SHELF_KEY": "k"}
    assert merged == {**environ, **given}
    assert environ["KNOWLEDGE_SHELF_ROOM"] == "attic"


@pytest.mark.usefixtures("shelf")
def test_without_environ_the_process_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWLEDGE_SHELF_ROOM", "hall")
    assert resolve_knowledge_backend("shelf").check() == ()


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (3, "3"), (1.5, "1.5"), (True, "true"), (False, "false"), (Path("a/b"), "a/b")]
)
def test_a_setting_reaches_the_plugin_as_text(value: Any, text: str) -> None:
    provider = resolve_knowledge_backend("shelf", environ={}, room=value).provider()
    assert opened_with(provider)[1] == {"KNOWLEDGE_SHELF_ROOM": text}


@pytest.mark.usefixtures("shelf")
def test_a_setting_of_another_type_is_refused_without_its_value() -> None:
    with pytest.raises(ConfigurationError, match="'room' cannot be a list") as caught:
        resolve_knowledge_backend("shelf", environ={}, room=["hush"])  # type: ignore[arg-type]
    assert "hush" not in str(caught.value)


@pytest.mark.usefixtures("shelf")
def test_an_unknown_setting_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"no setting 'roof'\. Known are: room, key, width"):
        resolve_knowledge_backend("shelf", environ={}, roof="flat")


@pytest.mark.usefixtures("shelf")
def test_an_unknown_name_lists_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(
        UnknownBackendError, match=r"no backend 'shelve' \(did you mean 'shelf'\?\).*Known are: .*shelf"
    ):
        resolve_knowledge_backend("shelve")
    with pytest.raises(UnknownBackendError, match=r"no backend '#'\. Known are: .*shelf.*files:DIR"):
        resolve_knowledge_backend("#")
    with pytest.raises(UnknownBackendError, match="did you mean 'shelf'"):
        resolve_knowledge_backend("SHELF")


@pytest.mark.parametrize("name", ["sqlite", "sqlite:///kb.db", "hub"])
def test_a_backend_of_this_kit_that_is_not_installed_says_what_to_install(name: str, bare_path: None) -> None:
    with pytest.raises(UnknownBackendError, match="is not installed") as caught:
        resolve_knowledge_backend(name)
    assert caught.value.mend == f"Install the distribution kpkit-{name.split(':')[0]}."


@pytest.mark.parametrize(
    ("url", "mend"),
    [
        ("https://host/", "kpkit-http"),
        *((f"{scheme}://host:1/", "kpkit-wamp") for scheme in ("wamp", "wamps", "ws", "wss", "rs", "rss")),
    ],
)
def test_a_scheme_that_an_uninstalled_backend_opens_says_what_to_install(url: str, mend: str, bare_path: None) -> None:
    with pytest.raises(UnknownBackendError) as caught:
        resolve_knowledge_backend(url)
    assert mend in caught.value.mend


def test_where_nothing_is_installed_the_error_says_so(bare_path: None) -> None:
    with pytest.raises(UnknownBackendError, match=r"no adapter is installed\. Install the distribution kpkit-files"):
        resolve_knowledge_backend("files")


@pytest.mark.usefixtures("shelf")
def test_an_unknown_scheme_shows_nothing_of_the_url_after_it() -> None:
    with pytest.raises(UnknownBackendError) as caught:
        resolve_knowledge_backend("gopher://user:hush@host/")
    assert "'gopher'" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_scheme_goes_to_the_plugin_of_its_name_first_then_to_its_kin(bare_path: None, install_plugin: Any) -> None:
    install_plugin("kin_plugin", SHELF, distribution="kin", name="http")
    assert resolve_knowledge_backend("https://host/").info()["distribution"] == "kin"
    install_plugin("own_plugin", SHELF, distribution="own", name="https")
    assert resolve_knowledge_backend("https://host/").info()["distribution"] == "own"
    with pytest.raises(UnknownBackendError, match="no backend 'wss'"):
        resolve_knowledge_backend("wss")


def test_a_backend_is_named_by_text() -> None:
    with pytest.raises(ConfigurationError, match="not by NoneType"):
        resolve_knowledge_backend(None)  # type: ignore[arg-type]


BAD_PLUGINS = {
    "does not load: ModuleNotFoundError": "import no_such_module_anywhere",
    "does not load: SystemExit": "raise SystemExit(3)",
    "does not load: SyntaxError": "def (",
    "does not load: ImportError: cannot import name 'nothing' from 'sys'": "from sys import nothing",
    "has no hook 'knowledge_open'": "",
    r"has unknown hooks: 'knowledge_opne'\. Known are: knowledge_backend, ": SHELF.replace(
        "def knowledge_open(", "def knowledge_opne("
    ),
    "does not load: PluginValidationError": SHELF.replace("def knowledge_open(url,", "def knowledge_open(uri,"),
    "has no hook 'knowledge_backend'": SHELF.replace("@hookimpl\n    def knowledge_backend", "def knowledge_backend"),
    "returns a list from 'knowledge_backend'": SHELF.replace("return {", "return []\n        {"),
    r"failed in 'knowledge_backend' \(ZeroDivisionError\)": SHELF.replace("return {", "1 / 0\n        {"),
    r"says something wrong in 'knowledge_backend': settings.1.name: ": SHELF.replace("KNOWLEDGE_SHELF_KEY", "key"),
    "does not load: ValueError. Update": "raise ValueError('what it read of the environment')",
    r"failed in 'knowledge_backend' .SystemExit": SHELF.replace("return {", "exit()\n        return {"),
    "says something wrong in 'knowledge_backend': naem: ": SHELF.replace('"name": "Shelf"', '"naem": "Shelf"'),
}


WRONG_STATEMENTS = {
    "settings: it is a str, not a sequence": {"settings": "x"},
    "settings: it is a dict, not a sequence": {"settings": {}},
    "settings.0: it is a int, not a Mapping": {"settings": [3]},
    "settings.0.default: it is a int, not a str": {"settings": [{"name": "X", "default": 3}]},
    "settings.0.required: it is a int, not a bool": {"settings": [{"name": "X", "required": 1}]},
    "settings.0.colour: there is no such key; known are default, description, ": {"settings": [{"colour": 1}]},
    "settings.1.name: it is not the name of a variable": {"settings": [{"name": "X"}, {"default": "x"}]},
    "settings.0.name: it is not the name of a variable": {"settings": [{"name": "X=1"}]},
    "url_schemes.1: it is a int, not a str": {"url_schemes": ("a", 3)},
    "requires_setup: it is a str, not a bool": {"requires_setup": "no"},
    "name: it is a NoneType, not a str": {"name": None},
    "3: there is no such key": {3: "x"},
}


@pytest.mark.parametrize("says", WRONG_STATEMENTS)
def test_a_plugin_that_says_something_wrong_of_itself_is_told_where(install_plugin: Any, says: str) -> None:
    source = (
        SHELF.split("return {")[0]
        + f"return {WRONG_STATEMENTS[says]!r}\n\n    @hookimpl\n    def knowledge_open(): ...\n"
    )
    install_plugin("bad_plugin", source, name="bad")
    with pytest.raises(BrokenPluginError, match=f"wrong in 'knowledge_backend': {re.escape(says)}"):
        resolve_knowledge_backend("bad", environ={})


@pytest.mark.parametrize("says", BAD_PLUGINS)
def test_a_broken_plugin_is_named_with_its_distribution_and_breaks_only_itself(install_plugin: Any, says: str) -> None:
    site = install_plugin("bad_plugin", BAD_PLUGINS[says], distribution="bad-one", name="bad")
    install_plugin("shelf_plugin", SHELF, name="shelf")
    with pytest.raises(BrokenPluginError, match=f"plugin 'bad' of bad-one {says}") as caught:
        resolve_knowledge_backend("bad", environ={})
    assert str(site) not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert resolve_knowledge_backend("shelf:x", environ={}).provider()


@pytest.mark.parametrize(
    ("opening", "says"),
    [
        ("import no_such_module_anywhere", "lacks the module 'no_such_module_anywhere'"),
        ("raise ImportError", "cannot import what it needs"),
        ("return 'hush'", "opened a str, which is no IKnowledgeProvider"),
        ("return None", "opened a NoneType"),
    ],
)
def test_a_plugin_that_cannot_open_says_why(install_plugin: Any, opening: str, says: str) -> None:
    install_plugin("bad_plugin", SHELF.replace("return Shelf(", f"{opening}\n        return Shelf("), name="bad")
    handle = resolve_knowledge_backend("bad", environ={"KNOWLEDGE_SHELF_ROOM": "x"})
    with pytest.raises(BrokenPluginError, match=says) as caught:
        handle.provider()
    assert "hush" not in str(caught.value)


def test_an_error_that_the_plugin_raises_on_purpose_comes_as_it_is(install_plugin: Any) -> None:
    raising = (
        "import knowledge_engine.errors as e\n        raise e.BusyError('Full', mend='Wait.')\n        return Shelf("
    )
    install_plugin("busy_plugin", SHELF.replace("return Shelf(", raising), name="busy")
    with pytest.raises(KnowledgeError, match=r"^Full\. Wait\.$"):
        resolve_knowledge_backend("busy", environ={"KNOWLEDGE_SHELF_ROOM": "x"}).provider()


def test_a_name_claimed_by_two_distributions_fails_only_when_asked_for_and_names_both(install_plugin: Any) -> None:
    install_plugin("one_plugin", SHELF, distribution="shelf-one", name="shelf")
    install_plugin("two_plugin", SHELF, distribution="shelf-two", name="shelf")
    install_plugin("fine_plugin", SHELF, distribution="fine", name="fine")
    assert resolve_knowledge_backend("fine").slug == "fine"
    with pytest.raises(BrokenPluginError, match=r"claimed more than once.*shelf-one.*shelf-two"):
        resolve_knowledge_backend("shelf")


def test_one_distribution_found_twice_on_the_path_is_no_clash(install_plugin: Any) -> None:
    install_plugin("one_plugin", SHELF, distribution="the-shelf", name="shelf")
    install_plugin("two_plugin", SHELF, distribution="The_Shelf", name="shelf")
    assert [claim.target for claim in find_plugins(PROVIDERS)["shelf"]] == ["one_plugin"]


def test_metadata_that_is_malformed_hides_no_other_plugin(install_plugin: Any) -> None:
    lines = ["stray", f"[{PROVIDERS}]", "# shelf = no", "no sign", " = nameless", "odd = ((", "fine=shelf_plugin"]
    text = "\n".join([*lines, "[other]", "x = y", ""])
    install_plugin(distribution="a", entry_points=b"[knowledge_engine.providers]\n\xff = x")
    install_plugin(distribution="b", entry_points=text, metadata="")
    install_plugin(distribution="c", entry_points=f"[{PROVIDERS}]\nthird = shelf_plugin", metadata=b"Name: \xff\n")
    install_plugin("shelf_plugin", SHELF, name="shelf")
    assert {"odd", "fine", "third", "shelf"} <= set(find_plugins(PROVIDERS))
    assert not {"stray", "x", "", "# shelf"} & set(find_plugins(PROVIDERS))
    assert resolve_knowledge_backend("fine").slug == "fine"
    with pytest.raises(BrokenPluginError, match="'odd' of an unnamed distribution does not load"):
        resolve_knowledge_backend("odd")


def test_a_distribution_without_a_version_has_none(install_plugin: Any) -> None:
    install_plugin("shelf_plugin", SHELF, name="shelf", metadata="Name: \n")
    assert resolve_knowledge_backend("shelf").version == ""


def test_names_are_found_without_importing_their_modules(install_plugin: Any) -> None:
    install_plugin("loud_plugin", "raise AssertionError('imported')", distribution="loud", name="loud")
    install_plugin("shelf_plugin", SHELF, name="shelf")
    assert {"loud", "shelf"} <= set(find_plugins(PROVIDERS))
    assert resolve_knowledge_backend("shelf")
    assert not {"loud_plugin"} & set(sys.modules)


def test_a_loaded_plugin_shows_its_name_and_distribution(install_plugin: Any) -> None:
    install_plugin("shelf_plugin", SHELF, name="shelf")
    assert repr(load_plugin(find_plugins(PROVIDERS)["shelf"])) == "<Plugin 'shelf' of test-plugin>"


@pytest.mark.usefixtures("shelf")
@given(st.text() | st.text().map(lambda text: f"shelf:{text}"))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_gives_a_handle_or_an_error_with_a_mend(text: str) -> None:
    if text.lower().startswith("shelf:"):
        assert resolve_knowledge_backend(text, environ={}).slug == "shelf"
        return
    with pytest.raises(UnknownBackendError) as caught:
        resolve_knowledge_backend(text, environ={})
    assert len(str(caught.value)) < 1000


def test_importing_the_registry_scans_and_imports_no_plugin() -> None:
    code = (
        "import importlib.metadata as m, sys, knowledge_engine.models  # pydantic scans for plugins of its own\n"
        "def no(*a, **k): raise AssertionError('scanned')\n"
        "m.distributions = m.entry_points = no\n"
        "import knowledge_engine.registry\n"
        "assert 'knowledge_files' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
