"""The adapter by itself, wired from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from knowledge_engine.analysis import Analyzer
from knowledge_engine.errors import ConfigurationError, InvalidArgumentError
from knowledge_engine.fs import FsspecFs, LocalFs
from knowledge_engine.ports import FsPort
from knowledge_files.adapter import FilesKnowledgeAdapter
from knowledge_files.settings import FilesSettings, load_files_knowledge_env


def create_files_adapter(settings: FilesSettings) -> FilesKnowledgeAdapter:
    """An adapter over a local folder, or over what fsspec finds at a URL such as `zip://docs.zip`.

    Opens no folder and no archive until it is asked.

    Raises:
        ConfigurationError: For a language that there is not, or a URL that cannot be opened with what is installed.
    """
    try:
        analyzer = Analyzer(settings.language)
    except InvalidArgumentError as error:
        raise ConfigurationError(f"KNOWLEDGE_FILES_LANGUAGE is {settings.language!r}", mend=error.mend) from error
    return FilesKnowledgeAdapter(
        _open_root(settings),
        settings.path,
        ranking=settings.ranking,
        analyzer=analyzer,
    )


def _open_root(settings: FilesSettings) -> FsPort:
    if "://" in settings.root:
        return FsspecFs.from_url(settings.root, exclude=settings.exclude)
    return LocalFs(settings.root, exclude=settings.exclude)


def create_standalone_files_adapter(environ: Mapping[str, str] = os.environ) -> FilesKnowledgeAdapter:
    """An adapter from `KNOWLEDGE_FILES_*` alone.

    Raises:
        ConfigurationError: Naming the variable that is wrong.
    """
    return create_files_adapter(load_files_knowledge_env(environ))
