"""Each seam end to end, through distributions made for the test."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.bootstrap import open_knowledge, open_services
from knowledge_engine.errors import (
    BrokenPluginError,
    ConfigurationError,
    InvalidArgumentError,
    KnowledgeError,
    UnavailableError,
)
from knowledge_engine.extensions import collect_extensions
from knowledge_engine.language_models import find_model
from knowledge_engine.transports import find_transport

HOOKIMPL = "from knowledge_engine.hookspecs import hookimpl\n\n"


def dedented(source: str) -> str:
    import textwrap

    return HOOKIMPL + textwrap.dedent(source)


# Answers one question of each service into a folder that the environment names.
WIRE = dedented("""
    @hookimpl
    def knowledge_transport():
        return {
            "name": "Wire",
            "description": "Writes answers down.",
            "settings": [
                {"name": "KNOWLEDGE_WIRE_QUESTION", "required": True},
                {"name": "KNOWLEDGE_WIRE_TOKEN", "secret": True},
            ],
        }

    @hookimpl
    def knowledge_serve(services, settings, environ):
        from wire_server import run

        run(services, settings, environ)
""")
SERVER = """
answers = []

def run(services, settings, environ):
    question = environ["KNOWLEDGE_WIRE_QUESTION"]
    for name, service in services.items():
        answers.append((name, [hit.source_id for hit in service.query({"query": question}).hits], settings))
"""
TRANSPORTS = "knowledge_engine.transports"


@pytest.fixture
def wire(install_plugin: Any) -> None:
    site = install_plugin("wire_plugin", WIRE, distribution="wire-dist", group=TRANSPORTS, name="wire")
    (site / "wire_server.py").write_text(SERVER)


@pytest.mark.usefixtures("wire")
def test_a_transport_serves_the_services_it_is_given(shelf: Any) -> None:
    shelf.put("tea.md", "Green tea is steamed.")
    transport = find_transport("wire")
    assert (transport.slug, transport.name, transport.description) == ("wire", "Wire", "Writes answers down.")
    assert transport.version == "1.2"
    assert repr(transport) == "<KnowledgeTransport 'wire' 1.2>"
    assert list(transport.settings()) == ["question", "token"]
    assert "wire_server" not in sys.modules
    with open_services([f"tea={shelf.url}"], environ={}) as services:
        transport.serve(services, environ={}, question="steamed")
        transport.serve(services, environ={"KNOWLEDGE_WIRE_QUESTION": "coffee"})
    assert sys.modules["wire_server"].answers == [
        ("tea", ["tea.md"], {"KNOWLEDGE_WIRE_QUESTION": "steamed"}),
        ("tea", [], {}),
    ]


PREPARING = WIRE.replace("run(services, settings, environ)", "run(prepared)").replace(
    "environ):", "environ, prepared):"
) + dedented("""
    from contextlib import contextmanager

    @contextmanager
    def held():
        import wire_server

        wire_server.answers.append("begun")
        yield "the pipe"
        wire_server.answers.append("ended")

    @hookimpl
    def knowledge_prepare():
        return held()
""")


def test_what_a_transport_prepares_holds_while_it_serves(install_plugin: Any) -> None:
    site = install_plugin("wire_plugin", PREPARING, group=TRANSPORTS, name="wire")
    (site / "wire_server.py").write_text("answers = []\nrun = answers.append\n")
    transport = find_transport("wire")
    with transport.prepared() as prepared:
        transport.serve({}, prepared, environ={}, question="x")
    assert sys.modules["wire_server"].answers == ["begun", "the pipe", "ended"]


@pytest.mark.usefixtures("wire")
def test_most_transports_prepare_nothing() -> None:
    with find_transport("wire").prepared() as prepared:
        assert prepared is None


def test_a_transport_that_prepares_something_else_is_broken(install_plugin: Any) -> None:
    install_plugin("wire_plugin", PREPARING.replace("held()\n", "3\n"), group=TRANSPORTS, name="wire")
    with (
        pytest.raises(BrokenPluginError, match="returns a int from 'knowledge_prepare', no context manager"),
        find_transport("wire").prepared(),
    ):
        raise AssertionError("prepared")


@pytest.mark.usefixtures("wire")
def test_a_transport_checks_its_settings_before_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="transport 'wire' is not set up: KNOWLEDGE_WIRE_QUESTION is not set"):
        find_transport("wire").serve({}, environ={})
    with pytest.raises(
        ConfigurationError, match=r"transport 'wire' has no setting 'port'\. Known are: question, token"
    ):
        find_transport("wire").serve({}, environ={}, port=1)
    monkeypatch.setenv("KNOWLEDGE_WIRE_QUESTION", "x")
    find_transport("wire").serve({})


@pytest.mark.usefixtures("wire")
def test_a_transport_that_fails_shows_no_secret(install_plugin: Any) -> None:
    source = WIRE.replace("from wire_server import run", "raise OSError(environ['KNOWLEDGE_WIRE_TOKEN'])")
    install_plugin("leaky_plugin", source, group=TRANSPORTS, distribution="leaky-dist", name="leaky")
    with pytest.raises(
        BrokenPluginError, match=r"'leaky' of leaky-dist failed in 'knowledge_serve' .OSError"
    ) as caught:
        find_transport("leaky").serve({}, environ={"KNOWLEDGE_WIRE_TOKEN": "hush-hush", "KNOWLEDGE_WIRE_QUESTION": "x"})
    assert caught.value.__cause__ is None


def test_a_transport_that_is_not_there_says_what_to_install_or_what_there_is(
    install_plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])  # where plugins are looked for
    with pytest.raises(ConfigurationError, match=r"no transport 'mcp'.*Install the distribution kpkit-mcp"):
        find_transport("mcp")
    install_plugin("wire_plugin", WIRE, group=TRANSPORTS, name="wire")
    with pytest.raises(ConfigurationError, match=r"no transport 'wier'\. Installed are: .*wire.*Name one"):
        find_transport("wier")


def test_a_module_that_only_says_what_it_is_does_not_serve(install_plugin: Any) -> None:
    install_plugin(
        "wire_plugin", WIRE.replace("@hookimpl\ndef knowledge_serve", "def x"), group=TRANSPORTS, name="wire"
    )
    with pytest.raises(BrokenPluginError, match="has no hook 'knowledge_serve'"):
        find_transport("wire")


def test_one_module_may_serve_several_groups(install_plugin: Any) -> None:
    source = WIRE + dedented("""
        @hookimpl
        def knowledge_model(name): return name.upper()
    """)
    entries = f"[{TRANSPORTS}]\nwire = wire_plugin\n[knowledge_engine.models]\nwire = wire_plugin\n"
    install_plugin("wire_plugin", source, entry_points=entries)
    assert find_transport("wire").name == "Wire"
    assert find_model("wire:x", environ={}) == "WIRE:X"


def test_services_go_by_the_name_given_or_the_backends_and_end_together(shelf: Any) -> None:
    shelf.put("a=b/tea.md", "Green tea.")
    with open_services([f"one={shelf.url}", shelf.url, f"{shelf.url}/a=b".replace("shelf:", "two=shelf:")]) as services:
        assert list(services) == ["one", "shelf", "two"]
        assert services["two"].list().total == 1
    for service in services.values():
        with pytest.raises(UnavailableError):
            service.list()
    with open_services([None], environ={"KNOWLEDGE_BACKEND": f"{shelf.url}/a=b"}) as services:
        assert services["shelf"].list().total == 1


def test_two_services_of_one_name_are_refused_and_the_first_is_let_go_of(shelf: Any) -> None:
    with (
        pytest.raises(InvalidArgumentError, match="Two backends go by the name 'shelf'"),
        open_services([shelf.url, f"shelf={shelf.url}"]),
    ):
        raise AssertionError("opened")


MODELS = "knowledge_engine.models"


def model_plugin(knows: str) -> str:
    return dedented(f"""
        @hookimpl
        def knowledge_model(name, environ):
            {knows}
    """)


def test_a_model_is_found_by_the_plugin_that_knows_its_name(install_plugin: Any) -> None:
    install_plugin("a_plugin", model_plugin("return None"), group=MODELS, name="alpha", distribution="a")
    install_plugin("b_plugin", model_plugin("return (name, environ['K'])"), group=MODELS, name="beta", distribution="b")
    install_plugin("c_plugin", model_plugin("return 'gamma'"), group=MODELS, name="gamma", distribution="c")
    assert find_model("small", environ={"K": "v"}) == ("small", "v")
    assert "c_plugin" not in sys.modules
    assert find_model("gamma:small", environ={"K": "v"}) == "gamma"
    assert find_model("gamma/small", environ={"K": "v"}) == "gamma"


def test_the_process_environment_counts_for_a_model_where_none_is_given(
    install_plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin("b_plugin", model_plugin("return environ['THE_KEY']"), group=MODELS, name="beta")
    monkeypatch.setenv("THE_KEY", "v")
    assert find_model("x") == "v"


def test_a_broken_model_plugin_stops_only_names_that_begin_with_its_own(install_plugin: Any) -> None:
    install_plugin("a_plugin", "import no_such_module_anywhere", group=MODELS, name="alpha", distribution="a")
    install_plugin("b_plugin", model_plugin("return name if name == 'small' else None"), group=MODELS, name="beta")
    assert find_model("small", environ={}) == "small"
    with pytest.raises(BrokenPluginError, match="'alpha' of a does not load"):
        find_model("alpha:small", environ={})
    with pytest.raises(
        ConfigurationError,
        match=r"no model 'large'\. Asked were: alpha, beta(, \w+)*\. The plugin 'alpha' of a does not load",
    ):
        find_model("large", environ={})


def test_without_a_plugin_for_models_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ConfigurationError, match=r"No plugin for models is installed\. Install .*kpkit-llm"):
        find_model("small", environ={})


def test_a_model_that_lacks_a_setting_says_so_without_its_key(install_plugin: Any) -> None:
    raising = "import knowledge_engine.errors as e; raise e.ConfigurationError(f'Bad {environ}', mend='Set it.')"
    install_plugin("b_plugin", model_plugin(raising), group=MODELS, name="beta")
    with pytest.raises(ConfigurationError, match="Bad") as caught:
        find_model("small", environ={"BETA_API_KEY": "hush-hush"})
    assert "hush-hush" not in str(caught.value)


EXTENSIONS = "knowledge_engine.extensions"
#: What the kit itself mounts.
THE_KITS = {"/mcp"}
GARDEN = dedented("""
    @hookimpl
    def knowledge_mounts(services, environ):
        def app():
            async def serve(scope, receive, send): ...
            return serve
        return [{"prefix": "/api/garden", "scope": "read", "app": app}]

    @hookimpl
    def knowledge_agent_tools(services, environ):
        def call(arguments):
            return {"found": services["docs"].list().total, "room": environ["ROOM"], **arguments}
        says = {"name": "garden_water", "description": "Waters.", "parameters": {"type": "object"}}
        return [{**says, "scope": "write", "call": call}]

    @hookimpl
    def knowledge_page_panels():
        return ({"name": "garden", "title": "Garden", "module": "/api/garden/panel.js", "scope": "read"},)
""")


def install_garden(install_plugin: Any, source: str = GARDEN, name: str = "garden") -> None:
    install_plugin(f"{name}_plugin", source, distribution=f"{name}-dist", group=EXTENSIONS, name=name)


def test_mounts_tools_and_panels_of_extensions_are_collected_and_work(install_plugin: Any, shelf: Any) -> None:
    install_garden(install_plugin)
    shelf.put("tea.md", "Green tea.")
    with open_services([f"docs={shelf.url}"], environ={}) as services:
        found = collect_extensions(services, environ={"ROOM": "attic"})
        assert found.problems == ()
        (tool,), (panel,) = found.agent_tools.values(), found.page_panels.values()
        mount = found.mounts["/api/garden"]
        assert (mount.prefix, mount.scope, callable(mount.app())) == ("/api/garden", "read", True)
        assert (tool.name, tool.scope, tool.parameters["type"]) == ("garden_water", "write", "object")
        assert tool.call({"x": 1}) == {"found": 1, "room": "attic", "x": 1}
        assert (panel.title, panel.module) == ("Garden", "/api/garden/panel.js")


def test_an_extension_may_bring_one_kind_only(install_plugin: Any) -> None:
    install_garden(install_plugin, GARDEN.split("@hookimpl\ndef knowledge_agent")[0])
    found = collect_extensions({}, environ={})
    assert (found.agent_tools, found.page_panels, found.problems) == ({}, {}, ())
    assert found.mounts.keys() - THE_KITS == {"/api/garden"}


WRONG = {
    "returns a dict from 'knowledge_page_panels', not a sequence": 'return {}\n    ({"name"',
    "'knowledge_page_panels': 0: it is a int, not a mapping": 'return [3]\n    ({"name"',
    "0: it should have exactly the keys module, name, scope, title; look at icon": 'return ({"icon": 1, "name"',
    "0: it should have exactly the keys module, name, scope, title; look at name": 'return ({"title"',
    "0: scope is not one of read, write, admin": 'return ({**x, "scope": "all"},)\n    ({"name"',
    "0: scope is not one of": 'return ({**x, "scope": []},)\n    ({"name"',
    "0: module is not a path such as": 'return ({**x, "module": "/a/../b"},)\n    ({"name"',
    "0: module is not a path": 'return ({**x, "module": "https://host/x.js"},)\n    ({"name"',
    "0: name is not letters": 'return ({**x, "name": "a b"},)\n    ({"name"',
    "0: title is not text": 'return ({**x, "title": None},)\n    ({"name"',
    r"failed in 'knowledge_page_panels' \(ZeroDivisionError\)": '1 / 0\n    ({"name"',
}


@pytest.mark.parametrize("says", WRONG)
def test_an_extension_that_fails_costs_only_what_it_would_have_brought_there(install_plugin: Any, says: str) -> None:
    x = 'x = {"name": "garden", "title": "Garden", "module": "/p.js", "scope": "read"}\n'
    source = GARDEN.replace('"name": "garden", ', "") if "look at name" in says else GARDEN
    start = 'return ({"title"' if "look at name" in says else 'return ({"name"'
    install_garden(install_plugin, x + source.replace(start, WRONG[says]))
    install_garden(install_plugin, GARDEN.replace("garden", "pond"), name="pond")
    install_garden(install_plugin, "import no_such_module_anywhere", name="bog")
    found = collect_extensions({}, environ={})
    assert list(found.page_panels) == ["pond"]
    assert list(found.agent_tools) == ["garden_water", "pond_water"]
    assert len(found.problems) == 2
    assert "'bog' of bog-dist does not load" in str(found.problems[0])
    with pytest.raises(BrokenPluginError, match=f"'garden' of garden-dist .*{says}"):
        raise found.problems[1]


def test_names_and_paths_that_clash_belong_to_neither_nor_do_those_of_the_host(install_plugin: Any) -> None:
    install_garden(install_plugin)
    shed = GARDEN.replace("/api/garden", "/api/garden/shed").replace('"garden"', '"shed"')
    install_garden(install_plugin, shed, name="shed")
    install_garden(install_plugin, GARDEN.replace("garden", "pond").replace("/api/pond", "/v1/pond"), name="pond")
    found = collect_extensions({}, environ={}, reserved={"/v1", "pond"})
    assert (found.mounts.keys() - THE_KITS, list(found.agent_tools)) == (set(), ["pond_water"])
    assert list(found.page_panels) == ["garden", "shed"]
    assert [error.problem for error in found.problems] == [
        "The plugin 'pond' of pond-dist brings a mount '/v1/pond', which there is already",
        "The plugin 'shed' of shed-dist brings a mount '/api/garden/shed', and so does garden-dist",
        "The plugin 'shed' of shed-dist brings a tool 'garden_water', and so does garden-dist",
        "The plugin 'pond' of pond-dist brings a panel 'pond', which there is already",
    ]


def test_one_extension_cannot_change_what_the_others_are_told(install_plugin: Any) -> None:
    clearing = dedented("""
        @hookimpl
        def knowledge_mounts(services, environ):
            services.clear(), environ.clear()
            return []
    """)
    install_garden(install_plugin, clearing, name="axe")
    install_garden(install_plugin)
    environ = {"ROOM": "attic"}
    (tool,) = collect_extensions({}, environ=environ).agent_tools.values()
    with pytest.raises(KeyError, match="docs"):
        tool.call({})
    assert environ == {"ROOM": "attic"}


def test_an_extension_that_fails_shows_no_secret_of_the_environment(
    install_plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = dedented("""
        @hookimpl
        def knowledge_mounts(environ):
            raise ValueError(environ["THE_PASSWORD"])
    """)
    install_garden(install_plugin, source)
    monkeypatch.setenv("THE_PASSWORD", "hush-hush")
    (problem,) = collect_extensions({}).problems
    assert isinstance(problem, KnowledgeError)
    assert problem.__cause__ is None


def test_the_backend_that_the_documentation_writes_works_as_it_says(install_plugin: Any, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "backends.md").read_text()
    (source,) = re.findall(r"`my_notes\.py`:\n\n```python\n(.*?)```", page, re.DOTALL)
    (entries,) = re.findall(r'^\[project\.entry-points\."(.*?)"\]\n(.*?)```', page, re.DOTALL | re.MULTILINE)
    text = f"[{entries[0]}]\n{entries[1].replace(chr(34), '')}"
    install_plugin("my_notes", source, distribution="my-notes", entry_points=text)
    notes = tmp_path / "todo.txt"
    notes.write_text("Order tea.\n\nWater the garden.")
    with open_knowledge(f"notes:{notes}") as service:
        assert [hit.source_id for hit in service.query({"query": "garden"}).hits] == ["note-2.md"]
    with pytest.raises(ConfigurationError, match=r"KNOWLEDGE_NOTES_FILE is not set \(the file\)"):
        open_knowledge("notes", environ={})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        open_knowledge("notes", environ={"KNOWLEDGE_NOTES_FILE": str(tmp_path / "nowhere")})
