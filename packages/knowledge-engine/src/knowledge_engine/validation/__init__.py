"""Judging the documents of a library: what an application's CI asks before it ships them."""

from knowledge_engine.validation.asking import SNIPPET_TIMEOUT_S, SnippetValidator
from knowledge_engine.validation.library import Validation, check_library, open_folder, validate_library

__all__ = [
    "SNIPPET_TIMEOUT_S",
    "SnippetValidator",
    "Validation",
    "check_library",
    "open_folder",
    "validate_library",
]
