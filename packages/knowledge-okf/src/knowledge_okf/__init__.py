"""Concept bundles in the Open Knowledge Format, made from documents and kept up to date.

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knowledge_engine.errors import FetchError, KnowledgeError
    from knowledge_okf.headings import HeadingExtractor
    from knowledge_okf.llm import LLMExtractor
    from knowledge_okf.manager import KnowledgeBundleManager, Report
    from knowledge_okf.models import Concept, FailedSection, KnowledgeGraph, Rejected, SourceRef, Stamp
    from knowledge_okf.reading import read_bundle
    from knowledge_okf.sdk import Knowledge
    from knowledge_okf.serializer import BundleSerializer
    from knowledge_okf.settings import OkfSettings
    from knowledge_okf.sources import SourceText, fetch_url, read_source
    from knowledge_okf.validating import BundleCheck, validate_bundle

_HOMES = {
    "BundleCheck": "knowledge_okf.validating",
    "BundleSerializer": "knowledge_okf.serializer",
    "Concept": "knowledge_okf.models",
    "FailedSection": "knowledge_okf.models",
    "FetchError": "knowledge_engine.errors",
    "HeadingExtractor": "knowledge_okf.headings",
    "Knowledge": "knowledge_okf.sdk",
    "KnowledgeBundleManager": "knowledge_okf.manager",
    "KnowledgeError": "knowledge_engine.errors",
    "KnowledgeGraph": "knowledge_okf.models",
    "LLMExtractor": "knowledge_okf.llm",
    "OkfSettings": "knowledge_okf.settings",
    "Rejected": "knowledge_okf.models",
    "Report": "knowledge_okf.manager",
    "SourceRef": "knowledge_okf.models",
    "SourceText": "knowledge_okf.sources",
    "Stamp": "knowledge_okf.models",
    "fetch_url": "knowledge_okf.sources",
    "read_bundle": "knowledge_okf.reading",
    "read_source": "knowledge_okf.sources",
    "validate_bundle": "knowledge_okf.validating",
}

__all__ = [
    "BundleCheck",
    "BundleSerializer",
    "Concept",
    "FailedSection",
    "FetchError",
    "HeadingExtractor",
    "Knowledge",
    "KnowledgeBundleManager",
    "KnowledgeError",
    "KnowledgeGraph",
    "LLMExtractor",
    "OkfSettings",
    "Rejected",
    "Report",
    "SourceRef",
    "SourceText",
    "Stamp",
    "fetch_url",
    "read_bundle",
    "read_source",
    "validate_bundle",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
