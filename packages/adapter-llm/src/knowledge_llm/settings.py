"""All that this adapter takes from the environment, beside addresses and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import Field, ValidationError

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.fs import can_be_path
from knowledge_engine.models import Value

#: By field.
VARIABLES = {
    "retries": "KNOWLEDGE_LLM_RETRIES",
    "repairs": "KNOWLEDGE_LLM_REPAIRS",
    "max_tokens": "KNOWLEDGE_LLM_MAX_TOKENS",
    "cache": "KNOWLEDGE_LLM_CACHE",
    "cache_mb": "KNOWLEDGE_LLM_CACHE_MB",
    "proxy": "KNOWLEDGE_LLM_PROXY",
}


class LlmSettings(Value):
    """How models are asked."""

    #: How often a request is sent again that failed on the way, or for lack of capacity.
    retries: int = Field(default=3, ge=0, le=20)
    #: How often a model is shown what is wrong with its answer.
    repairs: int = Field(default=2, ge=0, le=10)
    #: The most that an answer may hold; None leaves it to the service.
    max_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    #: The folder of kept answers; None keeps none.
    cache: str | None = None
    #: How much the folder may hold, in 2**20 bytes.
    cache_mb: int = Field(default=256, ge=1, le=1_000_000)
    #: A proxy on the way to the services; may hold a password.
    proxy: str | None = Field(default=None, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Reads `KNOWLEDGE_LLM_...`; a blank value is as good as none.

        Raises:
            ConfigurationError: Naming the variable that is wrong.
        """
        values = {key: environ.get(variable, "").strip() for key, variable in VARIABLES.items()}
        if values["cache"] and not can_be_path(values["cache"]):
            raise ConfigurationError("KNOWLEDGE_LLM_CACHE names no folder", mend="Set it to a path, or unset it.")
        try:
            return cls.model_validate({key: value for key, value in values.items() if value})
        except ValidationError as error:
            first = error.errors()[0]
            variable = VARIABLES[str(first["loc"][0])]
            raise ConfigurationError(f"{variable} is wrong: {first['msg']}", mend="Correct it, or unset it.") from None
