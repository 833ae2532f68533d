"""The files and their index, kept together: built once for all who wait, brought up to date file by file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from knowledge_engine.analysis import Analyzer
from knowledge_engine.errors import BusyError, KnowledgeError, ProviderError, UnavailableError
from knowledge_engine.ports import FsPort
from knowledge_files.building import SegmentBuilder
from knowledge_files.documents import Record, Snapshot
from knowledge_files.looking import Look, Looker, affected
from knowledge_files.reading import read_file

# Longer than anyone waits, and short enough for every clock and lock.
_FOREVER_S = 1e8


class _Obsolete(Exception):  # noqa: N818 - no error: the work was overtaken
    """The state was forgotten while it was being made."""


@dataclass
class _Build:
    done: threading.Event = field(default_factory=threading.Event)
    error: KnowledgeError | None = None


class Corpus:
    """Documents behind an `FsPort`, with their index.

    Readers take a snapshot and keep it: they never wait for a change. Changes are made one at a time.

    Args:
        path: The folder that is walked.
        wanted: Whether a path names a document.
    """

    def __init__(self, fs: FsPort, path: str, wanted: Callable[[str], bool], analyzer: Analyzer) -> None:
        self._fs, self._analyzer = fs, analyzer
        self._looker = Looker(fs, path, wanted)
        self._changing = threading.Lock()
        self._state = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._build: _Build | None = None
        #: Paths written since they were last taken in, with the number of the write.
        self._touched: dict[str, int] = {}
        self._writes = 0
        self._listed: frozenset[str] = frozenset()
        self._generation = 0
        self._disposed = False
        #: Progress of the build that is under way.
        self.documents_read = 0

    @property
    def snapshot(self) -> Snapshot | None:
        """The present state; None before the first build."""
        return self._snapshot

    @property
    def building(self) -> bool:
        """Whether a build is under way."""
        return self._build is not None

    @property
    def behind(self) -> bool:
        """Whether something was written that is not yet taken in."""
        return bool(self._touched)

    def current(self, wait_s: float | None = None) -> Snapshot | None:
        """The state, with all that `touch` named; built if need be, by one thread for all who ask.

        None if none is ready within `wait_s` seconds. What was touched may be missing if taking it in takes longer.

        Raises:
            KnowledgeError: When the build failed; the next call tries again.
        """
        deadline = time.monotonic() + (_FOREVER_S if wait_s is None else min(wait_s, _FOREVER_S))
        while True:
            if self._snapshot is None:
                build = self._start_build()
                if not build.done.wait(max(0.0, deadline - time.monotonic())):
                    return None
                if build.error is not None:
                    raise build.error
            if self._touched and self._changing.acquire(timeout=max(0.0, deadline - time.monotonic())):
                try:
                    self._take_touched()
                finally:
                    self._changing.release()
            # Looked up only now: an older state may lack what another thread has just taken in.
            if (snapshot := self._snapshot) is not None:
                return snapshot

    def record(self, path: str) -> Record | None:
        """What is known of a file that was found, document or not; read now if it is not indexed yet. Never waits."""
        snapshot = self._snapshot
        if snapshot is not None and path not in self._touched:
            return snapshot.records.get(path)
        info = self._looker.stat(path)
        if info is None or not (path in self._touched or self._lists(path)):
            return None
        reading = read_file(self._fs, info)
        return None if reading is None else reading.record

    def touch(self, path: str) -> None:
        """A file was written or deleted: the next answer takes that in, also when a build is under way."""
        with self._state:
            self._writes += 1
            self._touched[path] = self._writes

    def invalidate(self) -> None:
        """Forgets what is indexed; a build under way starts again."""
        with self._state:
            self._generation += 1
            self._snapshot = None

    def dispose(self) -> None:
        """Forgets what is indexed, for good; a build under way stops."""
        self._disposed = True
        self.invalidate()

    def refresh(self, paths: Sequence[str] | None = None) -> bool:
        """Reads what changed: files whose size, times or inode differ, or all at or below `paths`.

        True if the documents are others than before.

        Raises:
            InvalidIdError: For what cannot be a path.
        """
        region = None if paths is None else self._looker.region(paths)
        before = self._snapshot
        if before is None:
            self.current()
            return True
        with self._changing:
            noted = self._noted()
            self._apply(region)
            if region is None:
                self._settle(noted)
        after = self._snapshot
        return after is None or after.revision.value != before.revision.value

    # The first build

    def _start_build(self) -> _Build:
        with self._state:
            if self._build is None:
                build = _Build()
                thread = threading.Thread(target=self._run, args=(build,), name="knowledge-files", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise BusyError("No thread can be started to build the index", mend="Try again later.") from error
                self._build = build
            return self._build

    def _run(self, build: _Build) -> None:
        try:
            with self._changing:
                while self._snapshot is None:
                    self._build_all()
        except KnowledgeError as error:
            build.error = error
        except Exception as error:  # whoever waits must be told, whatever it was
            build.error = ProviderError("Building the index failed", mend="The cause of this error says why.")
            build.error.__cause__ = error
        finally:
            with self._state:
                self._build = None
            build.done.set()

    def _build_all(self) -> None:
        generation, self.documents_read = self._generation, 0
        if self._disposed:
            raise UnavailableError("The provider was disposed of", mend="Open it again.")
        noted = self._noted()
        with suppress(_Obsolete):
            self._publish(self._changed(Snapshot(), self._looker.walk(), generation), generation)
            self._settle(noted)
            self._take_touched()

    # Changes; the caller holds `_changing`

    def _take_touched(self) -> None:
        if noted := self._noted():
            self._apply(tuple(noted))
            self._settle(noted)

    def _noted(self) -> dict[str, int]:
        with self._state:
            return dict(self._touched)

    def _settle(self, noted: Mapping[str, int]) -> None:
        """These are taken in; only now, as whoever asks meanwhile has to wait for them."""
        with self._state:
            for path, write in noted.items():
                if self._touched[path] == write:
                    del self._touched[path]

    def _apply(self, region: tuple[str, ...] | None) -> None:
        generation = self._generation
        before = self._snapshot
        if before is not None:
            with suppress(_Obsolete):
                self._publish(self._changed(before, self._looker.look(region, before), generation), generation)

    def _publish(self, snapshot: Snapshot, generation: int) -> None:
        with self._state:
            if generation != self._generation:
                raise _Obsolete
            self._snapshot = snapshot

    def _changed(self, before: Snapshot, look: Look, generation: int) -> Snapshot:
        builder, fresh, reindexed = SegmentBuilder(self._analyzer), dict[str, Record](), list[str]()
        gone = [path for path in affected(before, look) if path not in look.files]
        for path, info in look.files.items():
            if generation != self._generation:
                raise _Obsolete
            old = before.records.get(path)
            if old is not None and old.info == info and old.settled and look.region is None:
                continue
            reading = read_file(self._fs, info, old)
            self.documents_read += 1
            if reading is None:
                gone += [path] if old is not None else []
                continue
            fresh[path] = record = reading.record
            if (document := reading.document) is not None:
                builder.take(document, reading.raw)
            if old is not None and old.content_hash != record.content_hash:
                reindexed.append(path)
        problems = tuple(look.problems)
        if not fresh and not gone and problems == before.problems and look.others == before.others:
            return before
        index = before.index.changed([*gone, *reindexed], builder.build())
        return before.updated(gone, fresh, index, problems, look.others)

    def _lists(self, path: str) -> bool:
        """Whether a walk gives that path: a link's other name, say, can be read and is not listed.

        What is not there any more is found out by looking at the file, so that old walks will do for the rest.
        """
        if path not in self._listed:
            self._listed = frozenset(self._looker.walk().files)
        return path in self._listed
