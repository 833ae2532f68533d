"""The driving port: `KnowledgeService`, and the values that it answers with."""

from knowledge_engine.service.core import KnowledgeService
from knowledge_engine.service.results import (
    Changes,
    Facet,
    Loaded,
    OutlineEntry,
    ResolvedLink,
    SourceDetail,
    SourceList,
    Status,
)
from knowledge_engine.service.sections import find_section, labels, main_sections, outline

__all__ = [
    "Changes",
    "Facet",
    "KnowledgeService",
    "Loaded",
    "OutlineEntry",
    "ResolvedLink",
    "SourceDetail",
    "SourceList",
    "Status",
    "find_section",
    "labels",
    "main_sections",
    "outline",
]
