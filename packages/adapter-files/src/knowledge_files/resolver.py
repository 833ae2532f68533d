"""The files backend as hosts find it: its entry for their catalogues, and a resolver that knows it alone."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from knowledge_engine.registry import KnowledgeResolver, make_knowledge_resolver, resolve_knowledge_backend
from knowledge_files.plugin import knowledge_backend

__all__ = ["KNOWLEDGE_FILES_CATALOG", "make_knowledge_files_resolver", "resolve_knowledge_backend"]

SLUG = "files"

#: What this package brings, by slug: the keys of `knowledge_engine.hookspecs.knowledge_backend`, and the distribution.
KNOWLEDGE_FILES_CATALOG: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {SLUG: MappingProxyType({**knowledge_backend(), "slug": SLUG, "distribution": "kpkit-files"})}
)


def make_knowledge_files_resolver(*, environ: Mapping[str, str] | None = None) -> KnowledgeResolver:
    """A resolver that gives a handle for `files` and `files:DIR`, and None for all else.

    Args:
        environ: The settings; by default the process's environment at each call.
    """
    return make_knowledge_resolver(environ=environ, slugs={SLUG})
