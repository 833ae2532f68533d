"""The adapter by itself, wired from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from knowledge_engine.analysis import Analyzer
from knowledge_engine.errors import ConfigurationError, InvalidArgumentError
from knowledge_engine.fs import FsspecFs, LocalFs
from knowledge_engine.models import Health
from knowledge_engine.ports import FsPort
from knowledge_files.adapter import FilesKnowledgeAdapter
from knowledge_files.folders import why_unreadable
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
    kind = FilesKnowledgeAdapter if "://" in settings.root else partial(_LocalFiles, settings.root)
    return kind(
        _open_root(settings),
        settings.path,
        ranking=settings.ranking,
        analyzer=analyzer,
    )


class _LocalFiles(FilesKnowledgeAdapter):
    """Says of a folder that is not there, or cannot be looked into, that it is so.

    It is no error to open one: the first write creates it, and what is put there later is found.
    """

    def __init__(self, root: str, fs: FsPort, path: str, **options: Any) -> None:
        super().__init__(fs, path, **options)
        self._place = os.path.join(root, path)  # noqa: PTH118
        self._name = "The root folder" if path == "." else f"The folder {path!r}"

    def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`. `details["unreadable"]` says why nothing can be read, and what to do.

        It names no path of the host: that is for whoever gave it.
        """
        health = super().health_check()
        why = why_unreadable(self._place, self._name)
        if health.status == "down" or not why:
            return health
        details = {**health.details, "unreadable": why}
        return health.model_copy(update={"status": "degraded", "message": why, "details": details})


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
