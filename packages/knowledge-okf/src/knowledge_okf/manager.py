"""Bundles made, brought up to date, and concepts taken out of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import NamedTuple

from knowledge_engine.errors import (
    ConfigurationError,
    ConflictError,
    FetchError,
    KnowledgeError,
    NotFoundError,
    ProviderError,
    UnavailableError,
)
from knowledge_okf.concept_files import ConceptFile
from knowledge_okf.extraction import Extraction, Extractor, Task, finish, shortened, tasks_of
from knowledge_okf.indexes import log_entry, named
from knowledge_okf.kept import KEPT, Kept, read_kept, render_kept
from knowledge_okf.models import Concept, FailedSection, KnowledgeGraph, Rejected
from knowledge_okf.names import NO_PATHS, check_path_map
from knowledge_okf.planning import Change, Kind, State, diff_of, summary
from knowledge_okf.reading import INDEX, LOG, PROPOSED, Bundle, load_bundle, root_of, title_of
from knowledge_okf.sections import Outline
from knowledge_okf.serializer import BundleSerializer, Clock, gone, now
from knowledge_okf.sources import SourceText, split_source
from knowledge_okf.swapping import locked, replace_folder, state_of

#: A folder with more files is none that somebody meant for a bundle.
_MAX_FOREIGN = 1000
#: Makes the extractor for a bundle's folder, beside which it may keep things; None where nothing is written.
MakeExtractor = Callable[[Path | None], Extractor]


class Report(NamedTuple):
    """What was done, or with a dry run would be."""

    graph: KnowledgeGraph
    changes: tuple[Change, ...] = ()
    #: Sections that the extractor was given.
    asked: int = 0

    @property
    def failed(self) -> tuple[FailedSection, ...]:
        """Sections of which nothing could be made."""
        return self.graph.failed

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """Items of answers that were not taken."""
        return self.graph.rejected

    @property
    def proposals(self) -> tuple[str, ...]:
        """Files with new text for what a person changed."""
        return tuple(change.path for change in self.changes if change.path.endswith(PROPOSED) and change.new)

    @property
    def diff(self) -> str:
        """The changes as a unified diff, but for those that only bring places in the source up to date."""
        return diff_of(change for change in self.changes if change.kind not in ("kept", "moved"))


class KnowledgeBundleManager:
    """Creates, updates and prunes bundles.

    Args:
        extractor: Makes the extractor of concepts.
        path_map: Folders by tag, for new concepts.
        clock: Tells the time.

    Raises:
        ConfigurationError: For a folder that leaves the bundle.
    """

    def __init__(self, extractor: MakeExtractor, *, path_map: Mapping[str, str] = NO_PATHS, clock: Clock = now) -> None:
        self._extractor = extractor
        self._path_map = check_path_map(path_map)
        self._clock = clock
        self._serializer = BundleSerializer(clock=clock)

    def extract(self, source: SourceText) -> KnowledgeGraph:
        """The concepts of a source, written nowhere."""
        return self._all_of(source, None)[0]

    def create(self, source: SourceText, output: str | os.PathLike[str]) -> Report:
        """Makes a new bundle. Other files that are in the folder stay.

        Raises:
            ConflictError: When there is a bundle already, or a folder of many other files.
            FetchError: When the source holds no text.
            UnavailableError, ProviderError: When no section could be read.
            ReadOnlyError, StorageFullError, BusyError: For what their names say; nothing was written.
        """
        root = place_of(output)
        before = state_of(root, _MAX_FOREIGN)
        if any(path.endswith(".md") for path in before):
            raise ConflictError(
                f"{root.name!r} holds documents already",
                mend="Use `knowledge update`, with --replace to write all of it anew, or name another folder.",
            )
        graph, hashes, count = self._all_of(source, root)
        files = self._serializer.files(graph, sections=hashes)
        with locked(root):
            replace_folder(root, files, before)
        changes = tuple(Change("added", path, None, data) for path, data in files.items())
        return Report(graph, changes, count)

    def _all_of(self, source: SourceText, root: Path | None) -> tuple[KnowledgeGraph, list[str], int]:
        outline, tasks = _sections_of(source)
        found = self._extractor(root).extract(source, outline, tasks)
        _require_some(found, tasks)
        concepts = finish(found, source, outline, self._at(), path_map=self._path_map)
        graph = _graph(outline.title, concepts, found)
        return graph, [task.hash for task in tasks if task.place not in found.failed_tasks], len(tasks)

    def _at(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="seconds")

    def update(
        self,
        source: SourceText,
        bundle: str | os.PathLike[str],
        *,
        prune: bool = False,
        replace: bool = False,
        dry_run: bool = False,
    ) -> Report:
        """Brings a bundle up to date with its source.

        Sections that did not change are not extracted again. A file that a person changed stays, and new text for it
        is put beside it. Concepts whose section is gone are marked deprecated; as long as a section fails, none is.

        Args:
            source: The source as it is now.
            bundle: The bundle's folder.
            prune: Take concepts away whose section is gone, unless a person changed them.
            replace: Write all of it anew, and lose what persons changed.
            dry_run: Write nothing.

        Raises:
            NotFoundError: When there is no bundle.
            ConflictError: When it was changed meanwhile; nothing was written.
            UnavailableError, ProviderError, ReadOnlyError, StorageFullError, BusyError: As `create`.
        """
        root = _place_of_bundle(bundle)
        with locked(root):  # puts right what a process left that died
            _require_bundle(root)
            before = state_of(root)
        loaded = load_bundle(root)
        if replace:
            return self._replace(source, root, before, loaded, dry_run=dry_run)
        state = State(loaded, read_kept(loaded.root))
        outline, tasks = _sections_of(source)
        known = state.known_sections()
        changed = [task for task in tasks if task.hash not in known]
        found = self._extractor(root).extract(source, outline, changed)
        if len(changed) == len(tasks):
            _require_some(found, changed)
        fresh = self._take(state, found, source, outline, tasks)
        if not found.failed:
            state.retire(tasks, fresh, self._at(), prune=prune)
        state.restore(tasks)
        state.move(tasks, source.raw)
        state.drop_links([own for own in loaded.concepts if own not in state.files])
        done = {task.hash for task in tasks if task.place not in found.failed_tasks}
        order = _source_order(state, tasks)
        changes = self._finished(state, shortened(outline.title), order, done, "Update", found)
        return self._written(
            root, before, changes, _of_state(state, outline.title, order, found), len(changed), dry_run
        )

    def _take(
        self, state: State, found: Extraction, source: SourceText, outline: Outline, tasks: Sequence[Task]
    ) -> set[str]:
        """Puts new concepts where they belong; gives their ids."""
        live = {task.hash for task in tasks}
        concepts = finish(found, source, outline, self._at(), path_map=self._path_map, taken=state.taken(live))
        for concept in concepts:
            state.put(concept)
        return {concept.id for concept in concepts}

    def _finished(
        self,
        state: State,
        title: str,
        order: Sequence[str],
        sections: Iterable[str],
        kind: str,
        found: Extraction | None = None,
    ) -> tuple[Change, ...]:
        state.settle()
        indexes = state.index(title, order)
        text = summary(state.changes)
        if found and found.failed:
            text = "; ".join(filter(None, [text, f"not read: {named(each.section for each in found.failed)}"]))
        changes = dict(state.changes)
        old_log = state.bundle.files.get(LOG, b"")
        if text:
            day = self._clock().astimezone(UTC).date().isoformat()
            changes[LOG] = Change("log", LOG, old_log or None, log_entry(old_log, day, kind, text))
        kept = Kept(title, tuple(order), frozenset(sections), indexes)
        if changes or kept != state.kept._replace(known=False):
            changes[KEPT] = Change("kept", KEPT, None, render_kept(kept))
        return tuple(changes[path] for path in sorted(changes))

    def _replace(
        self, source: SourceText, root: Path, before: Mapping[str, tuple[object, ...]], loaded: Bundle, *, dry_run: bool
    ) -> Report:
        graph, hashes, count = self._all_of(source, root)
        files: dict[str, bytes | None] = {
            **self._serializer.files(graph, sections=hashes, log=loaded.files.get(LOG, b"")),
        }
        files |= gone(before, {path: data for path, data in files.items() if data is not None})
        changes = tuple(
            Change(_replaced(loaded.files.get(path), data), path, loaded.files.get(path), data)
            for path, data in sorted(files.items())
            if loaded.files.get(path) != data
        )
        return self._written(root, before, changes, graph, count, dry_run)

    def _written(
        self,
        root: Path,
        before: Mapping[str, tuple[object, ...]],
        changes: tuple[Change, ...],
        graph: KnowledgeGraph,
        asked: int,
        dry_run: bool,
    ) -> Report:
        if changes and not dry_run:
            with locked(root):
                replace_folder(root, {change.path: change.new for change in changes}, before)
        return Report(graph, changes, asked)

    def remove(self, ids: Iterable[str], bundle: str | os.PathLike[str]) -> int:
        """Takes concepts out of a bundle; gives how many are left.

        Raises:
            NotFoundError: Naming the ids that the bundle does not have; then nothing is removed.
        """
        return self._remove(ids, bundle, refuse_unknown=True)[0]

    def remove_with_unknowns(self, ids: Iterable[str], bundle: str | os.PathLike[str]) -> tuple[int, tuple[str, ...]]:
        """Takes concepts out of a bundle, links to them too, as far as no person changed the file that links.

        Args:
            ids: Of concepts, or their paths.
            bundle: The bundle's folder.

        Returns:
            How many concepts are left, and the ids that the bundle does not have, each once.

        Raises:
            NotFoundError: When there is no bundle.
            ConflictError, ReadOnlyError, StorageFullError, BusyError: For what their names say.
        """
        return self._remove(ids, bundle, refuse_unknown=False)

    def _remove(
        self, ids: Iterable[str], bundle: str | os.PathLike[str], *, refuse_unknown: bool
    ) -> tuple[int, tuple[str, ...]]:
        root = _place_of_bundle(bundle)
        with locked(root):
            _require_bundle(root)
            before = state_of(root)
            loaded = load_bundle(root)
            found = {each: _named(loaded, each) for each in dict.fromkeys(ids)}
            unknown = tuple(each for each, own in found.items() if own is None)
            if unknown and refuse_unknown:
                names = named(map(repr, unknown))
                raise NotFoundError(f"There is no concept {names}", mend="See `knowledge bundle show`.")
            state = State(loaded, read_kept(loaded.root))
            removed = {own for own in found.values() if own is not None}
            for own in removed:
                state.remove(own)
            if removed:
                state.drop_links(removed)
                order = state.order(())
                title = title_of(loaded, state.kept)
                sections = state.kept.sections or _hashes(loaded.concepts.values())
                changes = self._finished(state, title, order, sections, "Removal")
                replace_folder(root, {change.path: change.new for change in changes}, before)
        return len(state.files), unknown


def place_of(folder: str | os.PathLike[str]) -> Path:
    """Where a bundle really is.

    Raises:
        ConfigurationError: For what cannot be a bundle's folder.
    """
    root = Path(os.path.realpath(root_of(folder)))
    if root.parent == root:
        raise ConfigurationError("The root of all folders is no bundle", mend="Name a folder of its own for it.")
    if root.exists() and not root.is_dir():
        raise ConfigurationError(f"{os.fspath(folder)!r} is no folder", mend="Name another one.")
    return root


def _place_of_bundle(folder: str | os.PathLike[str]) -> Path:
    """Where a bundle should be; makes no folder."""
    root = place_of(folder)
    if not root.parent.is_dir():
        raise _no_bundle(root)
    return root


def _no_bundle(root: Path) -> NotFoundError:
    return NotFoundError(f"There is no bundle in {root.name!r}", mend="Make one by `knowledge create INPUT OUTPUT`.")


def _require_bundle(root: Path) -> None:
    """Looks before all of a folder is read: it may be somebody's home.

    Raises:
        NotFoundError: When nothing says that it is a bundle.
    """
    if (root / KEPT).exists() or any(root.glob("*.md")) or any(root.glob(f"*/{INDEX}")):
        return
    raise _no_bundle(root)


def _sections_of(source: SourceText) -> tuple[Outline, list[Task]]:
    outline = split_source(source)
    tasks = tasks_of(outline)
    if not tasks:
        raise FetchError(f"{source.name!r} holds no text", mend="Name a document that has some.")
    return outline, tasks


def _hashes(files: Iterable[ConceptFile]) -> frozenset[str]:
    """Of the sections that concepts were made from."""
    return frozenset(
        ref.section_hash for file in files if file.concept for ref in file.concept.sources if ref.section_hash
    )


def _replaced(old: bytes | None, new: bytes | None) -> Kind:
    return "removed" if new is None else "added" if old is None else "changed"


def _named(bundle: Bundle, name: str) -> str | None:
    """The id that is meant by an id or a path."""
    if name in bundle.concepts:
        return name
    path = name.lstrip("/").removesuffix(".md")
    return next((own for own, file in bundle.concepts.items() if file.path == f"{path}.md"), None)


def _require_some(found: Extraction, tasks: Sequence[Task]) -> None:
    """Refuses to make a bundle of nothing because nothing worked."""
    if not found.failed or len(found.failed) < sum(bool(task.section.text.strip()) for task in tasks):
        return
    first = found.failed[0]
    kind: type[KnowledgeError] = UnavailableError if first.code == UnavailableError.code else ProviderError
    raise kind(
        f"Of {len(found.failed)} sections none could be read: {first.message}",
        mend="Try again, or use another model, or `--model none`.",
    )


def _graph(title: str, concepts: Iterable[Concept], found: Extraction) -> KnowledgeGraph:
    return KnowledgeGraph(
        title=shortened(title), concepts=tuple(concepts), failed=found.failed, rejected=found.rejected
    )


def _of_state(state: State, title: str, order: Iterable[str], found: Extraction) -> KnowledgeGraph:
    return _graph(title, (file.concept for own in order if (file := state.files[own]).concept), found)


def _source_order(state: State, tasks: Sequence[Task]) -> list[str]:
    by_hash: dict[str, list[str]] = {}
    for own in state.order(()):
        concept = state.files[own].concept
        for ref in concept.sources[:1] if concept else ():
            by_hash.setdefault(ref.section_hash, []).append(own)
    return state.order(own for task in tasks for own in by_hash.get(task.hash, ()))
