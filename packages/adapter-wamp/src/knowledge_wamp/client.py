"""Whether the client library is there."""

from __future__ import annotations

from importlib.util import find_spec

from knowledge_engine.errors import ConfigurationError


def require_client() -> None:
    """Checks that autobahn is installed, without importing it.

    Raises:
        ConfigurationError: When it is not.
    """
    if find_spec("autobahn") is None:
        raise ConfigurationError("Connecting to a router needs autobahn", mend="Run: pip install 'kpkit-wamp[client]'.")
