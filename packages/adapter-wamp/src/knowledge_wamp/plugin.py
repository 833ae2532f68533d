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
    from knowledge_wamp.setting_infos import setting_infos

    return {
        "name": "WAMP",
        "description": "A backend that `knowledge serve wamp` serves elsewhere, called over a WAMP router",
        "url_schemes": ["wamp", "wamps", "ws", "wss", "rs", "rss"],
        "settings": setting_infos(serving=False),
    }


@hookimpl
def knowledge_open(url: str | None, environ: Mapping[str, str]) -> IKnowledgeProvider:
    """`wamp` takes the router from the environment; in `ws://host/path?realm=...&prefix=...` the URL says it."""
    from knowledge_wamp.adapter import WampKnowledgeAdapter
    from knowledge_wamp.client import require_client
    from knowledge_wamp.settings import WampSettings

    settings = WampSettings.from_env(environ, url)
    require_client()
    return WampKnowledgeAdapter(settings)


@hookimpl
def knowledge_transport() -> Mapping[str, Any]:
    """See `knowledge_engine.hookspecs`."""
    from knowledge_wamp.setting_infos import setting_infos

    return {
        "name": "WAMP",
        "description": "Procedures on a WAMP router: list and get for agents, and all that the wamp backend needs",
        "settings": setting_infos(serving=True),
    }


@hookimpl
def knowledge_serve(services: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Serves until SIGINT or SIGTERM."""
    from knowledge_wamp.client import require_client
    from knowledge_wamp.settings import WampSettings

    settings = WampSettings.from_env(environ)
    require_client()
    from knowledge_wamp.serving import serve

    serve(services, settings)
