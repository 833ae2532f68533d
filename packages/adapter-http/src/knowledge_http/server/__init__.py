"""The server: `create_app` gives an ASGI application, `serve` runs one until it is told to stop."""

from knowledge_http.server.app import create_app
from knowledge_http.server.serving import serve

__all__ = ["create_app", "serve"]
