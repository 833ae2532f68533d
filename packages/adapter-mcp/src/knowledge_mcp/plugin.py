"""What the engine's registry sees of this adapter; nothing heavy is imported before something is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from knowledge_engine.hookspecs import hookimpl

_SETTINGS: Sequence[Mapping[str, Any]] = (
    {
        "name": "KNOWLEDGE_MCP_ALLOW_WRITE",
        "description": "Offer the tools ingest and delete, where the backend can be written",
        "flag": True,
    },
    {
        "name": "KNOWLEDGE_MCP_CONNECTOR",
        "description": "Offer the tools search and fetch too, as connectors of ChatGPT expect them",
        "flag": True,
    },
    {
        "name": "KNOWLEDGE_MCP_PUBLIC_URL",
        "description": "Where `knowledge serve http` serves the same documents: what search and fetch link to",
    },
    {"name": "KNOWLEDGE_MCP_TIMEOUT_S", "description": "How long one call may take, in seconds", "default": "30"},
)


@hookimpl
def knowledge_transport() -> Mapping[str, Any]:
    """See `knowledge_engine.hookspecs`."""
    return {
        "name": "MCP",
        "description": "Tools and resources for agents, on standard input and output (Model Context Protocol)",
        "settings": [*_SETTINGS],
    }


@hookimpl
def knowledge_prepare() -> AbstractContextManager[object]:
    """Keeps standard output for the protocol, before a backend can print anything."""
    from knowledge_mcp.pipes import claimed_pipes

    return claimed_pipes()


@hookimpl
def knowledge_serve(services: Mapping[str, Any], environ: Mapping[str, str], prepared: Any) -> None:
    """Serves until the host closes standard input, or until SIGINT or SIGTERM."""
    from knowledge_mcp.settings import McpSettings

    settings = McpSettings.from_env(environ)
    from knowledge_mcp.stdio import serve

    serve(services, settings, environ, prepared)


@hookimpl
def knowledge_mounts(services: Mapping[str, Any], environ: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """The same for `knowledge serve http`, below `/mcp`. What a caller may do is what its token says."""

    def app() -> Any:
        from knowledge_mcp.mounting import create_app
        from knowledge_mcp.settings import McpSettings

        return create_app(services, McpSettings.from_env(environ), environ=environ)

    return [{"prefix": "/mcp", "scope": "read", "app": app}]


@hookimpl
def knowledge_commands() -> Mapping[str, Mapping[str, str]]:
    """See `knowledge_engine.hookspecs`."""
    return {
        "skill": {
            "command": "knowledge_mcp.skill_command:skill",
            "help": "Write a skill that teaches an agent to use a library.",
        }
    }
