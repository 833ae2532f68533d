"""All that the hub takes from the environment; nothing else in it reads that."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.fs import can_be_path
from knowledge_engine.models import Value

ROUTING_MODEL, SLIMMING_MODEL = "gemini-2.0-flash-001", "anthropic/claude-sonnet-4.5"
NO_MODEL = "none"


class HubSettings(Value):
    """Where the hub is, and which models it may ask."""

    #: A file, or `:memory:` for one that lives as long as the hub.
    path: str = "knowledge-hub.db"
    #: Chooses candidates and rewrites entries; `none` for no model.
    routing_model: str = ROUTING_MODEL
    #: Proposes merges; `none` for the rule.
    slimming_model: str = SLIMMING_MODEL
    read_only: bool = False
    #: How long a writer waits for another one, in seconds.
    busy_timeout_s: float = Field(default=30.0, ge=0, le=3600)
    #: How long a search waits for a model, and how long a rewrite or a merge does.
    routing_timeout_s: float = Field(default=10.0, gt=0, le=3600)
    writing_timeout_s: float = Field(default=120.0, gt=0, le=3600)
    #: The most that a prompt for routing holds, in characters.
    prompt_chars: int = Field(default=60_000, ge=2_000, le=2_000_000)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> HubSettings:
        """Settings from `KNOWLEDGE_HUB_PATH` and `KNOWLEDGE_HUB_MODEL`, which is one model for everything.

        Raises:
            ConfigurationError: Naming the variable that is wrong.
        """
        values: dict[str, str] = {}
        if "KNOWLEDGE_HUB_PATH" in environ:
            path = environ["KNOWLEDGE_HUB_PATH"].strip()
            if not can_be_path(path):
                raise ConfigurationError("KNOWLEDGE_HUB_PATH names no file", mend="Set it, or unset it.")
            values["path"] = path
        if model := environ.get("KNOWLEDGE_HUB_MODEL", "").strip():
            values["routing_model"] = values["slimming_model"] = model
        return cls.model_validate(values)
