"""What the engine's registry sees of this adapter; nothing heavy is imported before a backend is opened or served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from knowledge_engine.hookspecs import hookimpl

if TYPE_CHECKING:
    from knowledge_engine.ports import IKnowledgeProvider


@hookimpl
def knowledge_backend() -> Mapping[str, Any]:
    """See `knowledge_engine.hookspecs`."""
    from knowledge_http.setting_infos import CLIENT_SETTINGS

    return {
        "name": "HTTP",
        "description": "A backend that `knowledge serve http` serves elsewhere",
        "url_schemes": ["http", "https"],
        "settings": [*CLIENT_SETTINGS],
    }


@hookimpl
def knowledge_open(url: str | None, environ: Mapping[str, str]) -> IKnowledgeProvider:
    """`http` takes the server from the environment; `https://host/` says it."""
    from knowledge_http.extras import require
    from knowledge_http.settings import HttpSettings

    settings = HttpSettings.from_env(environ, url)
    require("client", "httpx2")
    from knowledge_http.client.adapter import HttpKnowledgeAdapter

    return HttpKnowledgeAdapter(settings)


@hookimpl
def knowledge_transport() -> Mapping[str, Any]:
    """See `knowledge_engine.hookspecs`."""
    from knowledge_http.setting_infos import SERVER_SETTINGS

    return {
        "name": "HTTP",
        "description": "REST and agent tools over HTTP, for programs, agents and browsers",
        "settings": [*SERVER_SETTINGS],
    }


@hookimpl
def knowledge_serve(services: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Serves until SIGINT or SIGTERM."""
    from knowledge_http.extras import require
    from knowledge_http.settings import HttpSettings

    settings = HttpSettings.from_env(environ)
    settings.check_serving()
    require("server", "fastapi", "uvicorn", "httptools", "prometheus_client")
    from knowledge_http.server.serving import serve

    serve(services, settings, environ)
