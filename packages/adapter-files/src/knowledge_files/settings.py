"""All that the adapter takes from the environment; nothing else in it reads that."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from typing import Literal, get_args

from knowledge_engine.errors import ConfigurationError, InvalidIdError
from knowledge_engine.fs import check_path
from knowledge_engine.models import Value

Ranking = Literal["bm25", "okapi", "l", "plus"]


class FilesSettings(Value):
    """Where the documents are and how they are ranked."""

    #: `KNOWLEDGE_FILES_ROOT`: the folder that paths are relative to.
    root: str = "."
    #: `KNOWLEDGE_FILES_PATH`: the folder below the root that is walked; "." for all of it.
    path: str = "knowledge"
    #: `KNOWLEDGE_FILES_EXCLUDE`: globs on paths, separated by commas or line ends.
    exclude: tuple[str, ...] = ()
    #: `KNOWLEDGE_FILES_RANKING`: `bm25`, or a class of rank-bm25 (small corpora only).
    ranking: Ranking = "bm25"
    #: `KNOWLEDGE_FILES_LANGUAGE`: a Snowball language, or `none`.
    language: str = "english"

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> FilesSettings:
        """Settings from `KNOWLEDGE_FILES_*`.

        Raises:
            ConfigurationError: Naming the variable that is wrong.
        """
        given = {
            name: environ[f"KNOWLEDGE_FILES_{name.upper()}"]
            for name in cls.model_fields
            if f"KNOWLEDGE_FILES_{name.upper()}" in environ
        }
        for name in ("root", "path", "ranking", "language"):
            if name in given and not given[name].strip():
                raise ConfigurationError(f"KNOWLEDGE_FILES_{name.upper()} is empty", mend="Set it, or unset it.")
        ranking = given.get("ranking", "bm25")
        if ranking not in get_args(Ranking):
            known = ", ".join(get_args(Ranking))
            raise ConfigurationError(f"KNOWLEDGE_FILES_RANKING is {ranking!r}", mend=f"Use one of: {known}.")
        exclude = tuple(glob.strip() for glob in given.pop("exclude", "").replace("\n", ",").split(",") if glob.strip())
        if "path" in given:
            given["path"] = _folder(given["path"])
        return cls.model_validate({**given, "exclude": exclude})


def _folder(given: str) -> str:
    """A folder below the root, without `./` before and `/` after it."""
    path = posixpath.normpath(given.strip())
    if path != ".":
        try:
            check_path(path)
        except InvalidIdError as error:
            raise ConfigurationError(
                f"KNOWLEDGE_FILES_PATH is {given!r}", mend="Name a folder below KNOWLEDGE_FILES_ROOT, or '.' for it."
            ) from error
    return path


def load_files_knowledge_env(environ: Mapping[str, str] = os.environ) -> FilesSettings:
    """The settings that the environment gives, see `FilesSettings.from_env`."""
    return FilesSettings.from_env(environ)
