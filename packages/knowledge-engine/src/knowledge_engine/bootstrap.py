"""From names to services, for people in a hurry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from knowledge_engine.errors import InvalidArgumentError
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_engine.service import KnowledgeService
from knowledge_engine.settings import EngineSettings

# A URL's scheme ends before any `=` that it may hold.
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)=(?P<backend>.+)", re.DOTALL)


def open_knowledge(
    backend: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    refresh: bool = True,
    fresh_for_s: float = 0.0,
) -> KnowledgeService:
    """A service over the backend of a name or URL; by default `KNOWLEDGE_BACKEND`, else `files`.

    Each call opens a provider of its own: keep the service, or use it as a context manager.

    Args:
        backend: Such as `files:./docs`.
        environ: The settings; by default the process's environment.
        refresh: Lets the backend take in what changed before each answer. Without it, what was indexed stays until
            `service.provider.refresh()`.
        fresh_for_s: How old what was taken in may be, in seconds.

    Raises:
        UnknownBackendError, ConfigurationError, BrokenPluginError: As `resolve_knowledge_backend` and its handle.
    """
    name = backend or EngineSettings.from_env(environ).backend
    provider = resolve_knowledge_backend(name, environ=environ).provider()
    return KnowledgeService(provider, refresh_before_answer=refresh, fresh_for_s=fresh_for_s)


@contextmanager
def open_services(
    backends: Iterable[str | None],
    *,
    environ: Mapping[str, str] | None = None,
    refresh: bool = True,
    fresh_for_s: float = 0.0,
) -> Iterator[dict[str, KnowledgeService]]:
    """Services over several backends, by name; all are disposed of at the end.

    A backend is written as for `open_knowledge`, or `NAME=` and that; without a name it goes by its slug.

    Raises:
        InvalidArgumentError: When two go by one name.
        KnowledgeError: As `open_knowledge`.
    """
    with ExitStack() as stack:
        services: dict[str, KnowledgeService] = {}
        for backend in backends:
            named = _NAMED.fullmatch(backend or "")
            service = stack.enter_context(
                open_knowledge(
                    named["backend"] if named else backend, environ=environ, refresh=refresh, fresh_for_s=fresh_for_s
                )
            )
            name = named["name"] if named else service.provider.id
            if name in services:
                raise InvalidArgumentError(f"Two backends go by the name {name!r}", mend="Name one: OTHER=BACKEND.")
            services[name] = service
        yield services
