"""The adapter by itself, wired from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from knowledge_engine.analysis import Analyzer
from knowledge_engine.errors import ConfigurationError, InvalidArgumentError
from knowledge_engine.fs import LocalFs
from knowledge_files.adapter import FilesKnowledgeAdapter
from knowledge_files.settings import FilesSettings, load_files_knowledge_env


def create_files_adapter(settings: FilesSettings) -> FilesKnowledgeAdapter:
    """An adapter over a local folder. Opens nothing until it is asked.

    Raises:
        ConfigurationError: For a language that there is not.
    """
    try:
        analyzer = Analyzer(settings.language)
    except InvalidArgumentError as error:
        raise ConfigurationError(f"KNOWLEDGE_FILES_LANGUAGE is {settings.language!r}", mend=error.mend) from error
    return FilesKnowledgeAdapter(
        LocalFs(settings.root, exclude=settings.exclude),
        settings.path,
        ranking=settings.ranking,
        analyzer=analyzer,
    )


def create_standalone_files_adapter(environ: Mapping[str, str] = os.environ) -> FilesKnowledgeAdapter:
    """An adapter from `KNOWLEDGE_FILES_*` alone.

    Raises:
        ConfigurationError: Naming the variable that is wrong.
    """
    return create_files_adapter(load_files_knowledge_env(environ))
