"""What the engine itself takes from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Self

from knowledge_engine.models import Value

DEFAULT_BACKEND = "files"


class EngineSettings(Value):
    """All that the engine and its command line take from the environment; adapters have settings of their own."""

    #: Name or URL of the backend that is used where none is named.
    backend: str = DEFAULT_BACKEND
    #: Whether a terminal may be drawn on in colour.
    color: bool = True

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Reads `KNOWLEDGE_BACKEND`, `NO_COLOR` and `TERM`; a blank value is as good as none."""
        environ = os.environ if environ is None else environ
        return cls(
            backend=environ.get("KNOWLEDGE_BACKEND", "").strip() or DEFAULT_BACKEND,
            color=not environ.get("NO_COLOR") and environ.get("TERM") != "dumb",
        )
