"""`backends`, `serve` and the root options of plugins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge
from knowledge_engine.groups import GROUPS, KIT_PARTS, TRANSPORTS, KitPart

NEEDY = """
    from knowledge_engine.hookspecs import hookimpl

    @hookimpl
    def knowledge_backend():
        return {"settings": [{"name": "KNOWLEDGE_NEEDY_ROOM", "required": True}]}

    @hookimpl
    def knowledge_open(): ...
"""
WIRE = """
    from knowledge_engine.hookspecs import hookimpl

    @hookimpl
    def knowledge_transport():
        return {
            "description": "Writes answers down.",
            "settings": [
                {"name": "KNOWLEDGE_WIRE_BIND_TO", "description": "Where to", "default": "here"},
                {"name": "KNOWLEDGE_WIRE_LOUD", "flag": True},
                {"name": "KNOWLEDGE_WIRE_TOKEN", "secret": True, "description": "Who may ask."},
            ],
        }

    @hookimpl
    def knowledge_serve(services, settings, environ):
        total = {name: service.list().total for name, service in services.items()}
        print(total, settings, environ.get("KNOWLEDGE_WIRE_TOKEN"))
"""
COMMANDS = """
    from knowledge_engine.hookspecs import hookimpl

    @hookimpl
    def knowledge_commands():
        return {"paint": {"command": "painting:paint", "help": "Paint."}}

    @hookimpl
    def knowledge_root_options():
        return {
            "--paint-color": {"help": "Which colour.", "metavar": "COLOR"},
            "--shiny": {"help": "Shiny.", "flag": True},
        }
"""
PAINTING = """
    import click

    @click.command()
    @click.pass_obj
    def paint(session):
        click.echo(session.options)
"""


def invoke(*args: str, environ: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(knowledge, args, obj=Session(environ=environ or {}))


def test_backends_are_listed_with_their_status_and_what_they_lack(install_plugin: Any) -> None:
    install_plugin("needy_plugin", NEEDY, distribution="needy-dist", name="needy")
    install_plugin("broken_plugin", "import no_such_module_anywhere", distribution="broken-dist", name="broken")
    result = invoke("backends")
    assert result.exit_code == 0
    status = {line.split()[0]: line.split()[1] for line in result.stdout.split("\n\n")[0].splitlines()}
    assert status["needy"] == "available"
    assert status["broken"] == "broken"
    assert status["files"] == "ready"
    notes = result.stdout.split("\n\n")[1]
    assert "needy: KNOWLEDGE_NEEDY_ROOM is not set. Set what is missing.\n" in notes
    assert "broken: The plugin 'broken' of broken-dist does not load: ModuleNotFoundError" in notes
    assert "files:" not in notes


def test_where_nothing_is_lacking_nothing_is_noted(install_plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge_engine.backends.KIT_PARTS", {each: {} for each in GROUPS})
    monkeypatch.setattr(sys, "path", [])
    install_plugin("needy_plugin", NEEDY, name="needy")
    assert len(invoke("backends", environ={"KNOWLEDGE_NEEDY_ROOM": "attic"}).stdout.splitlines()) == 2


@pytest.mark.parametrize("args", [("backends", "--json"), ("--json", "backends")])
def test_backends_as_json_show_no_value(install_plugin: Any, args: tuple[str, ...]) -> None:
    install_plugin("needy_plugin", NEEDY, name="needy")
    result = invoke(*args, environ={"KNOWLEDGE_NEEDY_ROOM": "hush-hush"})
    listed = {each["slug"]: each for each in json.loads(result.stdout)["backends"]}
    assert listed["needy"]["status"] == "ready"
    assert listed["files"]["distribution"] == "kpkit-files"
    assert "hush" not in result.stdout


def squeezed(text: str) -> str:
    """Lines of help break anywhere, within names too."""
    return "".join(text.split())


def install_wire(install_plugin: Any, source: str = WIRE, name: str = "wire") -> None:
    install_plugin(
        f"{name}_plugin", source, distribution=f"{name}-dist", group="knowledge_engine.transports", name=name
    )


@pytest.fixture
def tube(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the kit that is not installed."""
    parts = {**KIT_PARTS, TRANSPORTS: {**KIT_PARTS[TRANSPORTS], "tube": KitPart("kpkit-tube", "Through tubes")}}
    monkeypatch.setattr("knowledge_engine.backends.KIT_PARTS", parts)
    monkeypatch.setattr("knowledge_engine.groups.KIT_PARTS", parts)


@pytest.mark.usefixtures("tube")
def test_serve_lists_the_transports_that_are_there_could_be_there_and_are_broken(install_plugin: Any) -> None:
    install_wire(install_plugin)
    install_wire(install_plugin, "import no_such_module_anywhere", name="torn")
    text = " ".join(invoke("serve", "--help").stdout.split())
    assert "Transports: http REST and agent tools over HTTP" in text
    assert "wamp Procedures on a WAMP router" in text
    assert "wire Writes answers down. Not installed:" in text
    assert "tube Install the distribution kpkit-tube." in text
    assert "Not available: The plugin 'torn' of torn-dist does not load: ModuleNotFoundError" in text


def test_serve_alone_is_wrong_usage_and_says_that_none_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    result = invoke("serve")
    assert result.exit_code == 64
    assert "None is installed." in result.stderr


def test_where_every_known_transport_is_installed_none_is_offered(install_plugin: Any) -> None:
    for name in ("http", "mcp", "wamp"):
        install_wire(install_plugin, name=name)
    assert "Not installed" not in invoke("serve", "--help").stdout


@pytest.mark.usefixtures("tube")
def test_serving_by_a_transport_that_is_not_there_says_what_to_install() -> None:
    result = invoke("serve", "tube")
    assert (result.exit_code, "Install the distribution kpkit-tube." in result.stderr) == (1, True)
    result = invoke("--json", "serve", "nothing")
    assert json.loads(result.stdout)["error"]["code"] == "configuration"


def test_a_transports_settings_are_options_but_for_the_secret_ones(install_plugin: Any) -> None:
    install_wire(install_plugin)
    text = " ".join(invoke("serve", "wire", "--help").stdout.split())
    assert "--bind-to TEXT Where to. Default: here. [KNOWLEDGE_WIRE_BIND_TO]" in text
    assert "--loud " in text
    assert "--token" not in text
    assert "From the environment only, as they are secret: KNOWLEDGE_WIRE_TOKEN." in text
    assert invoke("serve", "wire", "--token", "x").exit_code == 64


def test_serve_opens_each_backend_by_its_name_and_hands_the_settings_over(install_plugin: Any, shelf: Any) -> None:
    install_wire(install_plugin)
    shelf.put("tea.md", "Green tea.")
    args = ("--backend", f"tea={shelf.url}", "--backend", shelf.url, "--bind-to", "there", "--loud", "--json")
    result = invoke("serve", "wire", *args, environ={"KNOWLEDGE_WIRE_TOKEN": "t"})
    assert result.exit_code == 0
    settings = {"KNOWLEDGE_WIRE_BIND_TO": "there", "KNOWLEDGE_WIRE_LOUD": "true"}
    assert result.stdout == f"{ {'tea': 1, 'shelf': 1} } {settings} t\n"


def test_serve_takes_the_backend_from_before_the_command_or_from_the_environment(
    install_plugin: Any, shelf: Any
) -> None:
    install_wire(install_plugin)
    assert invoke("--backend", shelf.url, "serve", "wire").stdout == "{'shelf': 0} {} None\n"
    assert invoke("serve", "wire", environ={"KNOWLEDGE_BACKEND": shelf.url}).stdout == "{'shelf': 0} {} None\n"
    assert "'nowhere'" in invoke("serve", "wire", "--backend", "nowhere").stderr


def complete(site: Path, words: str, index: int) -> str:
    code = [sys.executable, "-c", "from knowledge_engine.cli import main; main()"]
    environ = {**os.environ, "_KNOWLEDGE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    environ["PYTHONPATH"] = str(site)
    return subprocess.run(code, env=environ, capture_output=True, text=True, check=True).stdout


def test_transports_and_their_options_complete_and_unknown_ones_are_passed_over_in_silence(install_plugin: Any) -> None:
    site = install_plugin("wire_plugin", WIRE, group="knowledge_engine.transports", name="wire")
    assert complete(site, "knowledge serve wi", 2) == "plain,wire\n"
    assert complete(site, "knowledge serve wire --bi", 3) == "plain,--bind-to\n"
    assert complete(site, "knowledge serve nothing --bi", 3).strip() == ""


def install_commands(install_plugin: Any, source: str = COMMANDS, name: str = "painter") -> None:
    site = install_plugin(
        f"{name}_plugin", source, distribution=f"{name}-dist", group="knowledge_engine.commands", name=name
    )
    (site / "painting.py").write_text(textwrap.dedent(PAINTING))


def test_a_root_option_of_a_plugin_reaches_its_command(install_plugin: Any) -> None:
    install_commands(install_plugin)
    assert invoke("--paint-color", "red", "--shiny", "paint").stdout == "{'paint-color': 'red', 'shiny': True}\n"
    assert invoke("--json", "paint").stdout == "{}\n"
    assert invoke("paint").stdout == "{}\n"
    assert "--paint-color COLOR" in invoke("--help").stdout
    assert "--shiny" in invoke().stderr


def test_a_root_option_goes_before_the_commands_name(install_plugin: Any) -> None:
    install_commands(install_plugin)
    assert invoke("paint", "--shiny").exit_code == 64
    assert invoke("--no-such-option", "paint").exit_code == 64


def test_a_plugin_may_bring_options_only(install_plugin: Any) -> None:
    install_commands(install_plugin, COMMANDS.replace("@hookimpl\n    def knowledge_commands", "def x"))
    text = invoke("--help").stdout
    assert "--shiny" in text
    assert "Not available" not in text


WRONG_OPTIONS = {
    "brings a root option '-p', which is not written like --model": ('"--shiny"', '"-p"'),
    "brings a root option '--json', which there is already": ('"--shiny"', '"--json"'),
    "brings a root option '--help', which there is already": ('"--shiny"', '"--help"'),
    "does not give names with `help` in 'knowledge_root_options'": ('"help": "Shiny.", ', ""),
    "returns a list from 'knowledge_root_options'": ("return {\n            ", "return [] or [] and {\n            "),
    "failed in 'knowledge_root_options' (ZeroDivisionError)": ('"Shiny."', "1 / 0"),
}


@pytest.mark.parametrize("says", WRONG_OPTIONS)
def test_root_options_that_cannot_be_are_named_and_stop_no_command(install_plugin: Any, says: str) -> None:
    install_commands(install_plugin, COMMANDS.replace(*WRONG_OPTIONS[says]))
    result = invoke("--help")
    assert squeezed(f"Not available: The plugin 'painter' of painter-dist {says}") in squeezed(result.stdout)
    assert invoke("paint").stdout == "{}\n"


def test_a_root_option_that_two_plugins_bring_belongs_to_neither(install_plugin: Any) -> None:
    install_commands(install_plugin)
    install_commands(install_plugin, COMMANDS.replace('"paint"', '"repaint"'), name="other")
    assert invoke("--shiny", "paint").exit_code == 64
    says = "'painter' of painter-dist brings a root option '--shiny', and so does other-dist"
    assert squeezed(says) in squeezed(invoke("--help").stdout)


def test_a_command_named_first_loads_no_plugin_for_its_options(install_plugin: Any, shelf: Any) -> None:
    install_commands(install_plugin)
    assert invoke("list", "--backend", shelf.url).exit_code == 0
    assert "painter_plugin" not in sys.modules
