"""What the engine's registries see of the hub; nothing heavy is imported before it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from knowledge_engine.hookspecs import hookimpl

if TYPE_CHECKING:
    from knowledge_engine.ports import IKnowledgeProvider

SETTINGS = [
    {
        "name": "KNOWLEDGE_HUB_PATH",
        "description": "The file that the hub is in, or :memory:",
        "default": "knowledge-hub.db",
        "in_url": True,
    },
    {
        "name": "KNOWLEDGE_HUB_MODEL",
        "description": "The language model that chooses, rewrites and merges entries; none for no model",
    },
]


@hookimpl
def knowledge_backend() -> Mapping[str, Any]:
    """See `knowledge_engine.hookspecs`."""
    return {
        "name": "Hub",
        "description": "What agents have learned: active entries, to be searched and cited",
        "url_schemes": ["hub"],
        "settings": SETTINGS,
    }


@hookimpl
def knowledge_open(url: str | None, environ: Mapping[str, str]) -> IKnowledgeProvider:
    """`hub` takes the file from the environment; `hub:///relative.db` and `hub:////absolute.db` name it."""
    from knowledge_hub.opening import open_hub
    from knowledge_sqlite.settings import path_of

    return open_hub({**environ, "KNOWLEDGE_HUB_PATH": path_of(url)} if url else environ).provider


@hookimpl
def knowledge_commands() -> Mapping[str, Mapping[str, str]]:
    """See `knowledge_engine.hookspecs`."""
    return {
        "hub": {"command": "knowledge_hub.commands:hub", "help": "Keep, find and improve what agents have learned."}
    }


@hookimpl
def knowledge_mounts(environ: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """The routes, where a hub is named."""
    if "KNOWLEDGE_HUB_PATH" not in environ:
        return []

    def app() -> Any:
        from knowledge_hub.web.app import make_app

        return make_app(environ)

    return [{"prefix": "/api/knowledge", "scope": "read", "app": app}]


@hookimpl
def knowledge_page_panels(environ: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """Entries, their history, and what slimming would do."""
    if "KNOWLEDGE_HUB_PATH" not in environ:
        return []
    return [{"name": "hub", "title": "Learned", "module": "/api/knowledge/panel.js", "scope": "read"}]
