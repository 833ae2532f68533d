"""Knowledge from folders of markdown: `FilesKnowledgeAdapter` for all of them, `KnowledgeLibrary` for an app's own.

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_engine.fs import LocalFs
    from knowledge_files.adapter import FilesKnowledgeAdapter
    from knowledge_files.bm25 import Bm25Index, build_index, score, tokenize
    from knowledge_files.library import KnowledgeLibrary
    from knowledge_files.resolver import (
        KNOWLEDGE_FILES_CATALOG,
        make_knowledge_files_resolver,
        resolve_knowledge_backend,
    )
    from knowledge_files.settings import FilesSettings, load_files_knowledge_env
    from knowledge_files.standalone import create_files_adapter, create_standalone_files_adapter

_HOMES = {
    "KNOWLEDGE_FILES_CATALOG": "knowledge_files.resolver",
    "Bm25Index": "knowledge_files.bm25",
    "FilesKnowledgeAdapter": "knowledge_files.adapter",
    "FilesSettings": "knowledge_files.settings",
    "KnowledgeLibrary": "knowledge_files.library",
    "LocalFs": "knowledge_engine.fs",
    "build_index": "knowledge_files.bm25",
    "create_files_adapter": "knowledge_files.standalone",
    "create_standalone_files_adapter": "knowledge_files.standalone",
    "load_files_knowledge_env": "knowledge_files.settings",
    "make_knowledge_files_resolver": "knowledge_files.resolver",
    "resolve_knowledge_backend": "knowledge_files.resolver",
    "score": "knowledge_files.bm25",
    "tokenize": "knowledge_files.bm25",
}

__all__ = [
    "KNOWLEDGE_FILES_CATALOG",
    "Bm25Index",
    "FilesKnowledgeAdapter",
    "FilesSettings",
    "KnowledgeLibrary",
    "LocalFs",
    "build_index",
    "create_files_adapter",
    "create_standalone_files_adapter",
    "load_files_knowledge_env",
    "make_knowledge_files_resolver",
    "resolve_knowledge_backend",
    "score",
    "tokenize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from knowledge_files.search_extra import needs_search

    with needs_search():
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
