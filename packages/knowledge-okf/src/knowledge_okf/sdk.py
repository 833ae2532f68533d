"""The front door: documents in, bundles out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.ports import LanguageModel
from knowledge_okf.answers import AnswerFolder
from knowledge_okf.extraction import Extractor
from knowledge_okf.headings import HeadingExtractor
from knowledge_okf.llm import LLMExtractor, Progress
from knowledge_okf.manager import KnowledgeBundleManager, Report, place_of
from knowledge_okf.models import KnowledgeGraph
from knowledge_okf.names import NO_PATHS
from knowledge_okf.serializer import Clock, now
from knowledge_okf.settings import NO_MODEL, OkfSettings
from knowledge_okf.sources import SourceText, read_source


class Knowledge:
    """Makes concepts of documents, and keeps bundles of them up to date.

    Args:
        model: A name (`openai:gpt-4o`), `none` for the extractor that needs no model, or a `LanguageModel`. By default
            what `KNOWLEDGE_DEFAULT_MODEL` says.
        path_map: Folders by tag, for new concepts.
        environ: Settings, keys and addresses; by default the process's environment.
        concurrency: How many sections are asked about at once.
        progress: Told after each section: how many are done, how many there are, how many failed.
        clock: Tells the time.
        fetching: What `fetch_url` takes beside the URL, such as `address_ok`.

    Raises:
        ConfigurationError: For a folder that leaves the bundle, or a setting that is wrong.
    """

    def __init__(
        self,
        model: str | LanguageModel | None = None,
        path_map: Mapping[str, str] = NO_PATHS,
        *,
        environ: Mapping[str, str] | None = None,
        concurrency: int = 8,
        progress: Progress | None = None,
        clock: Clock = now,
        fetching: Mapping[str, Any] | None = None,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self.settings = OkfSettings.from_env(self._environ)
        self._model = model
        self._concurrency, self._progress = concurrency, progress
        self._fetching = dict(fetching or {})
        self.manager = KnowledgeBundleManager(self._extractor, path_map=path_map, clock=clock)
        #: Of the last call: failed sections, rejected items, what changed.
        self.report: Report | None = None

    def _extractor(self, bundle: Path | None) -> Extractor:
        model = self._model if self._model is not None else self.settings.default_model
        if isinstance(model, str):
            if model.strip().lower() == NO_MODEL:
                return HeadingExtractor()
            if not model.strip():
                raise ConfigurationError(
                    "No model is named",
                    mend="Name one (--model, KNOWLEDGE_DEFAULT_MODEL), or `none` to do without.",
                )
            from knowledge_engine.language_models import find_model

            model = find_model(model, environ=self._environ)
        assert model is not None
        store = None if bundle is None else AnswerFolder.beside(bundle)
        return LLMExtractor(model, concurrency=self._concurrency, store=store, progress=self._progress)

    def read_source(self, source: str | os.PathLike[str]) -> SourceText:
        """The text of a URL or a file; see `knowledge_okf.sources.read_source`."""
        return read_source(source, settings=self.settings, **self._fetching)

    def create(self, source: str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> KnowledgeGraph:
        """The concepts of a source; with `output`, also written as a bundle there.

        Sections that failed are in `failed` of the graph.

        Raises:
            FetchError: When the source cannot be read.
            ConflictError: When there is a bundle already.
            KnowledgeError: When no section could be read, or nothing could be written.
        """
        text = self.read_source(source)
        if output is None:
            graph = self.manager.extract(text)
            self.report = Report(graph)
            return graph
        # Where the folder is the working directory, its name leads elsewhere once it is replaced.
        place = place_of(output)
        self.report = self.manager.create(text, place)
        AnswerFolder.beside(place).clear()
        return self.report.graph

    def create_bundle(self, source: str | os.PathLike[str], out: str | os.PathLike[str]) -> KnowledgeGraph:
        """As `create` with an output."""
        return self.create(source, out)

    def update(
        self,
        source: str | os.PathLike[str],
        bundle: str | os.PathLike[str],
        *,
        prune: bool = False,
        replace: bool = False,
        dry_run: bool = False,
    ) -> KnowledgeGraph:
        """Brings a bundle up to date with its source, and keeps what persons changed.

        See `KnowledgeBundleManager.update`; `report` says what was changed.
        """
        text = self.read_source(source)
        place = place_of(bundle)
        self.report = self.manager.update(text, place, prune=prune, replace=replace, dry_run=dry_run)
        if not dry_run:
            AnswerFolder.beside(place).clear()
        return self.report.graph

    def remove(self, ids: Iterable[str], bundle: str | os.PathLike[str]) -> int:
        """Takes concepts out of a bundle; gives how many are left.

        Raises:
            NotFoundError: Naming ids that are not there; then nothing is removed.
        """
        return self.manager.remove(ids, bundle)

    def remove_with_unknowns(self, ids: Iterable[str], bundle: str | os.PathLike[str]) -> tuple[int, tuple[str, ...]]:
        """Takes concepts out of a bundle: how many are left, and the ids that are not there."""
        return self.manager.remove_with_unknowns(ids, bundle)
