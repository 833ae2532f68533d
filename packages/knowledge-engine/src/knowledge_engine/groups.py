"""Where plugins are found, and what the kit itself brings there. Names only: nothing is imported for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

PROVIDERS = "knowledge_engine.providers"
TRANSPORTS = "knowledge_engine.transports"
COMMANDS = "knowledge_engine.commands"
MODELS = "knowledge_engine.models"
EXTENSIONS = "knowledge_engine.extensions"
GROUPS = (PROVIDERS, TRANSPORTS, COMMANDS, MODELS, EXTENSIONS)


class KitPart(NamedTuple):
    """Something that a distribution of this kit brings, installed or not."""

    distribution: str
    description: str


#: By group and name, so that an error can say what to install. Third parties need no entry here.
KIT_PARTS: Mapping[str, Mapping[str, KitPart]] = MappingProxyType(
    {
        PROVIDERS: {
            "files": KitPart("kpkit-files", "Folders of markdown, text, YAML and JSON, ranked by BM25 in process"),
            "sqlite": KitPart("kpkit-sqlite", "One SQLite file that several processes can read and write"),
            "http": KitPart("kpkit-http", "A knowledge server elsewhere, over HTTP"),
            "wamp": KitPart("kpkit-wamp", "Knowledge served over WAMP"),
            "hub": KitPart("kpkit-hub", "What agents learn: entries, feedback, routing"),
        },
        TRANSPORTS: {
            "http": KitPart("kpkit-http", "REST and agent tools over HTTP, and a page to search in"),
            "wamp": KitPart("kpkit-wamp", "Procedures on a WAMP router"),
            "mcp": KitPart("kpkit-mcp", "Tools for agents over the Model Context Protocol"),
        },
        MODELS: {"llm": KitPart("kpkit-llm", "Language models by name, such as openai:gpt-4o or ollama/llama3")},
    }
)


def install_hint(group: str, name: str) -> str:
    """What to install for a name that the kit knows; empty for others."""
    part = KIT_PARTS.get(group, {}).get(name)
    return f"Install the distribution {part.distribution}." if part else ""
