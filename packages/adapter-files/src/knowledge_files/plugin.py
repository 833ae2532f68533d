"""What the engine's registry sees of this adapter; nothing heavy is imported before a backend is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from knowledge_engine.hookspecs import hookimpl

if TYPE_CHECKING:
    from knowledge_engine.ports import IKnowledgeProvider


@hookimpl
def knowledge_backend() -> Mapping[str, Any]:
    """See `knowledge_engine.hookspecs`."""
    return {
        "name": "Files",
        "description": "Folders of markdown, text, YAML and JSON, ranked by BM25 in process",
        "url_schemes": ["files"],
        "settings": [
            {
                "name": "KNOWLEDGE_FILES_ROOT",
                "description": "The folder that ids are relative to",
                "default": ".",
                "in_url": True,
            },
            {
                "name": "KNOWLEDGE_FILES_PATH",
                "description": "The folder below the root that is indexed",
                "default": "knowledge",
                "in_url": True,
            },
            {"name": "KNOWLEDGE_FILES_EXCLUDE", "description": "Globs of paths to leave out, separated by commas"},
            {
                "name": "KNOWLEDGE_FILES_RANKING",
                "description": "bm25, or a class of rank-bm25 for small corpora: okapi, l, plus",
                "default": "bm25",
            },
            {
                "name": "KNOWLEDGE_FILES_LANGUAGE",
                "description": "Whose word endings are taken off: a Snowball language, or none",
                "default": "english",
            },
        ],
    }


@hookimpl
def knowledge_open(url: str | None, environ: Mapping[str, str]) -> IKnowledgeProvider:
    """`files` takes root and path from the environment; in `files:DIR` the folder is both. Needs the extra `search`."""
    from knowledge_engine.errors import ConfigurationError
    from knowledge_engine.fs import can_be_path
    from knowledge_files.search_extra import needs_search
    from knowledge_files.settings import FilesSettings

    with needs_search():
        from knowledge_files.standalone import create_files_adapter
    settings = FilesSettings.from_env(environ)
    if url is not None:
        folder = url.partition(":")[2]
        if not can_be_path(folder):
            raise ConfigurationError("The URL names no folder", mend="Write files:FOLDER, such as files:./docs.")
        settings = settings.model_copy(update={"root": folder, "path": "."})
    return create_files_adapter(settings)
