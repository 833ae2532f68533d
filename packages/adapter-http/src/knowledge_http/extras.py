"""What is installed only by an extra, and how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from knowledge_engine.errors import ConfigurationError


def require(extra: str, *modules: str) -> None:
    """Checks that these modules can be imported.

    Raises:
        ConfigurationError: Saying what to install.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ConfigurationError(
            f"{', '.join(missing)} is not installed", mend=f"Run: pip install 'kpkit-http[{extra}]'."
        )
