"""Commands that plugins bring, by the hook `knowledge_commands`."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import click

from knowledge_engine.errors import KnowledgeError
from knowledge_engine.plugins import Plugin, find_plugins, load_plugin

# `hookspecs.COMMANDS`, without importing pluggy where no plugin brings a command.
_GROUP = "knowledge_engine.commands"


class PluginCommand(NamedTuple):
    """What is known of a command before it is imported."""

    target: str
    help: str
    plugin: Plugin


@dataclass
class PluginCommands:
    """The commands of all plugins that load, and what is wrong with the others, a line each."""

    commands: dict[str, PluginCommand] = field(default_factory=dict)
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


def find_commands(reserved: Collection[str]) -> PluginCommands:
    """Loads the light module of each plugin, none of the commands.

    Of two that bring the same name neither counts; a name of `reserved` stays what it is.
    """
    found = PluginCommands()
    clashing: set[str] = set()
    for claims in find_plugins(_GROUP).values():
        try:
            plugin = load_plugin(claims)
            brought = _brought(plugin)
        except KnowledgeError as error:
            found.problems.append(str(error))
            continue
        for name, command in brought.items():
            if name in reserved:
                found.problems.append(str(plugin.broken(f"brings a command {name!r}, which there is already")))
            elif name in found.commands:
                clashing.add(name)
                other = found.commands[name].plugin.found.distribution
                found.problems.append(str(plugin.broken(f"brings a command {name!r}, and so does {other}")))
            else:
                found.commands[name] = command
    for name in clashing:
        del found.commands[name]
    return found


def _brought(plugin: Plugin) -> dict[str, PluginCommand]:
    stated = plugin.call("knowledge_commands")
    try:
        return {str(name): PluginCommand(says["command"], says["help"], plugin) for name, says in stated.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise plugin.broken("does not give names with `command` and `help` in 'knowledge_commands'") from error
