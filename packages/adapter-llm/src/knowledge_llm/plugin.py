"""What the engine's registry sees of this adapter; nothing heavy is imported before a model is asked."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_engine.hookspecs import hookimpl


@hookimpl
def knowledge_model(name: str, environ: Mapping[str, str]) -> object | None:
    """A model of any service that speaks as OpenAI's do."""
    from knowledge_llm.endpoints import find_endpoint

    endpoint = find_endpoint(name, environ)
    if endpoint is None:
        return None
    from knowledge_llm.model import LlmModel
    from knowledge_llm.settings import LlmSettings

    return LlmModel(endpoint, LlmSettings.from_env(environ))
