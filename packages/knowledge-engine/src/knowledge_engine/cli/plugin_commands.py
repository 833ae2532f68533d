"""Commands and root options that plugins bring."""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import click

from knowledge_engine.cli.session import Session, Text
from knowledge_engine.groups import COMMANDS
from knowledge_engine.plugins import Plugin, collect, load_group

_OPTION = re.compile(r"--[a-z][a-z0-9]*(-[a-z0-9]+)*")


class PluginCommand(NamedTuple):
    """What is known of a command before it is imported."""

    target: str
    help: str
    plugin: Plugin


@dataclass
class PluginCommands:
    """Commands and root options of all plugins that load, and what is wrong with the others, a line each."""

    commands: dict[str, PluginCommand] = field(default_factory=dict)
    options: dict[str, click.Option] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def load(self, name: str) -> click.Command:
        """Imports a command.

        Raises:
            BrokenPluginError: When it does not import, or is none.
        """
        target, _, plugin = self.commands[name]
        try:
            command = import_command(target)
        except (Exception, SystemExit) as error:  # importing runs a stranger's code
            raise plugin.broken(f"does not give its command {name!r} ({type(error).__name__})") from error
        if not isinstance(command, click.Command):
            raise plugin.broken(f"gives a {type(command).__name__} for its command {name!r}")
        return command


def import_command(target: str) -> click.Command:
    """The command `module:attribute`."""
    module, _, attribute = target.partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command


def find_commands(reserved: Collection[str], reserved_options: Collection[str]) -> PluginCommands:
    """Loads the light module of each plugin, none of the commands.

    Of two that bring the same name neither counts; a reserved name stays what it is.
    """
    loaded = load_group(COMMANDS)
    commands = collect(loaded.plugins, _commands, "command", reserved=reserved)
    options = collect(loaded.plugins, _options, "root option", reserved=reserved_options)
    problems = [*loaded.problems, *commands.problems, *options.problems]
    return PluginCommands(commands.items, options.items, list(map(str, problems)))


def _commands(plugin: Plugin) -> Iterator[tuple[str, PluginCommand]]:
    if not plugin.has("knowledge_root_options"):
        plugin.require("knowledge_commands")
    for name, says in _stated(plugin, "knowledge_commands"):
        yield name, PluginCommand(says["command"], says["help"], plugin)


def _options(plugin: Plugin) -> Iterator[tuple[str, click.Option]]:
    for name, says in _stated(plugin, "knowledge_root_options"):
        if not _OPTION.fullmatch(name):
            raise plugin.broken(f"brings a root option {name[:60]!r}, which is not written like --model")
        form: dict[str, Any] = (
            {"is_flag": True} if says.get("flag") else {"metavar": says.get("metavar"), "type": Text()}
        )
        yield name, click.Option([name], help=says["help"], callback=_keep, expose_value=False, **form)


_KEYS = {
    "knowledge_commands": ({"command", "help"}, "`command` and `help`"),
    "knowledge_root_options": ({"help"}, "`help`"),
}


def _stated(plugin: Plugin, hook: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    stated = plugin.call(hook) if plugin.has(hook) else {}
    if not isinstance(stated, Mapping):
        raise plugin.broken(f"returns a {type(stated).__name__} from {hook!r}, not a mapping")
    keys, said = _KEYS[hook]
    for name, says in stated.items():
        if not (
            isinstance(name, str) and isinstance(says, Mapping) and all(isinstance(says.get(key), str) for key in keys)
        ):
            raise plugin.broken(f"does not give names with {said} in {hook!r}")
        yield name, says


def _keep(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value not in (None, False):
        ctx.ensure_object(Session).options[option.opts[0].lstrip("-")] = value
