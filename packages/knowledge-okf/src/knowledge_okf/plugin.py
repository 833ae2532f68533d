"""What the command line sees of this package; nothing heavy is imported before a command runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge_engine.hookspecs import hookimpl


@hookimpl
def knowledge_commands() -> Mapping[str, Mapping[str, str]]:
    """See `knowledge_engine.hookspecs`."""
    commands = "knowledge_okf.commands"
    return {
        "create": {"command": f"{commands}:create", "help": "Make a bundle of concepts from a document or a URL."},
        "update": {"command": f"{commands}:update", "help": "Bring a bundle of concepts up to date with its source."},
        "remove": {"command": f"{commands}:remove", "help": "Take concepts out of a bundle."},
        "bundle": {"command": f"{commands}:bundle", "help": "Check or show a bundle of concepts."},
    }


@hookimpl
def knowledge_root_options() -> Mapping[str, Mapping[str, Any]]:
    """See `knowledge_engine.hookspecs`."""
    return {
        "--model": {
            "metavar": "NAME",
            "help": "The language model for create and update, such as openai:gpt-4o; none: by headings alone."
            " Default: $KNOWLEDGE_DEFAULT_MODEL.",
        }
    }
