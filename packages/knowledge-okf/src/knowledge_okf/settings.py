"""All that this package takes from the environment; nothing else in it reads that."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import Value

#: Names the extractor that needs no model.
NO_MODEL = "none"


class OkfSettings(Value):
    """Limits, and the model that is asked where none is named."""

    #: Empty: none is set.
    default_model: str = ""
    #: Bytes of a source, decompressed.
    max_body_size: int = Field(default=52_428_800, gt=0)
    #: Seconds for one attempt to fetch a source.
    request_timeout: float = Field(default=30.0, gt=0, le=86_400)
    #: Attempts after the first that failed.
    max_retries: int = Field(default=3, ge=0, le=100)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> OkfSettings:
        """Reads `KNOWLEDGE_` and `DEFAULT_MODEL`, `MAX_BODY_SIZE`, `REQUEST_TIMEOUT`, `MAX_RETRIES`.

        Raises:
            ConfigurationError: Naming the variable that is wrong.
        """
        return cls(
            default_model=environ.get("KNOWLEDGE_DEFAULT_MODEL", "").strip(),
            max_body_size=int(_number(environ, "KNOWLEDGE_MAX_BODY_SIZE", 52_428_800, 1, 1 << 40, whole=True)),
            request_timeout=_number(environ, "KNOWLEDGE_REQUEST_TIMEOUT", 30.0, 0.001, 86_400),
            max_retries=int(_number(environ, "KNOWLEDGE_MAX_RETRIES", 3, 0, 100, whole=True)),
        )


def _number(
    environ: Mapping[str, str], variable: str, default: float, least: float, most: float, *, whole: bool = False
) -> float:
    given = environ.get(variable, "").strip()
    if not given:
        return default
    try:
        number = float(given) if not whole else float(int(given))
    except (ValueError, OverflowError):
        number = float("nan")
    if not least <= number <= most:
        kind = "a whole number" if whole else "a number"
        raise ConfigurationError(f"{variable} is {given[:60]!r}", mend=f"Use {kind} from {least:,} to {most:,}.")
    return number
