"""From a name to a service, for people in a hurry."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_engine.service import KnowledgeService
from knowledge_engine.settings import EngineSettings


def open_knowledge(
    backend: str | None = None, *, environ: Mapping[str, str] | None = None, refresh: bool = True
) -> KnowledgeService:
    """A service over the backend of a name or URL; by default `KNOWLEDGE_BACKEND`, else `files`.

    Each call opens a provider of its own: keep the service, or use it as a context manager.

    Args:
        backend: Such as `files:./docs`.
        environ: The settings; by default the process's environment.
        refresh: Lets the backend take in what changed before each answer. Without it, what was indexed stays until
            `service.provider.refresh()`.

    Raises:
        UnknownBackendError, ConfigurationError, BrokenPluginError: As `resolve_knowledge_backend` and its handle.
    """
    name = backend or EngineSettings.from_env(environ).backend
    provider = resolve_knowledge_backend(name, environ=environ).provider()
    return KnowledgeService(provider, refresh_before_answer=refresh)
