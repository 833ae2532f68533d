"""The files and their index, kept together: built once for all who wait, brought up to date file by file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from knowledge_engine.analysis import Analyzer
from knowledge_engine.errors import KnowledgeError, NotFoundError, ProviderError, TooLargeError
from knowledge_engine.models import FileInfo, Skipped
from knowledge_engine.passages import not_text, parse_document, passage_terms
from knowledge_engine.ports import FsPort
from knowledge_files.documents import Record, Snapshot
from knowledge_files.segments import SegmentBuilder

_REASONS = {
    "symlink-escape": "The link leads out of the root.",
    "not-regular": "It is not a regular file.",
    "unreadable": "It may not be read.",
    "dangling-link": "The link leads nowhere.",
    "link-loop": "The link leads back to itself.",
    "name-encoding": "Its name is not UTF-8.",
}


@dataclass
class _Scan:
    """What a look at the files found."""

    files: dict[str, FileInfo] = field(default_factory=dict)
    problems: list[Skipped] = field(default_factory=list)
    others: int = 0
    #: Only what lies at or below these paths was looked at; None: everything.
    region: tuple[str, ...] | None = None


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
        self._fs, self._path, self._wanted, self._analyzer = fs, path, wanted, analyzer
        self._changing = threading.Lock()
        self._state = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._build: _Build | None = None
        self._touched: set[str] = set()
        self._generation = 0
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

    def current(self, wait_s: float | None = None) -> Snapshot | None:
        """The state, with all that `touch` named; built if need be, by one thread for all who ask.

        None if it is not ready within `wait_s` seconds.

        Raises:
            KnowledgeError: When the build failed; the next call tries again.
        """
        while (snapshot := self._snapshot) is None:
            build = self._start_build()
            if not build.done.wait(wait_s):
                return None
            if build.error is not None:
                raise build.error
        if not self._touched:
            return snapshot
        with self._changing:
            self._take_touched()
        return self._snapshot or snapshot

    def touch(self, path: str) -> None:
        """A file was written or deleted: the next answer takes that in, also when a build is under way."""
        with self._state:
            self._touched.add(path)

    def invalidate(self) -> None:
        """Forgets what is indexed; a build under way starts again."""
        with self._state:
            self._generation += 1
            self._snapshot = None

    def refresh(self, paths: Sequence[str] | None = None) -> bool:
        """Reads what changed: files whose size, times or inode differ, or all at or below `paths`.

        True if the documents are others than before.
        """
        before = self._snapshot
        if before is None:
            self.current()
            return True
        with self._changing:
            self._apply(self._walk(self._path) if paths is None else self._look(paths))
        after = self._snapshot
        return after is None or after.revision.value != before.revision.value

    # The first build

    def _start_build(self) -> _Build:
        with self._state:
            if self._build is None:
                self._build = _Build()
                threading.Thread(target=self._run, args=(self._build,), name="knowledge-files", daemon=True).start()
            return self._build

    def _run(self, build: _Build) -> None:
        try:
            with self._changing:
                while not self._build_all():
                    pass
        except KnowledgeError as error:
            build.error = error
        except Exception as error:  # whoever waits must be told, whatever it was
            build.error = ProviderError("Building the index failed", mend="The cause of this error says why.")
            build.error.__cause__ = error
        finally:
            with self._state:
                self._build = None
            build.done.set()

    def _build_all(self) -> bool:
        generation, self.documents_read = self._generation, 0
        snapshot = self._changed(Snapshot(), self._walk(self._path))
        with self._state:
            if generation != self._generation:
                return False
            self._snapshot = snapshot
        self._take_touched()
        return True

    # Changes; the caller holds `_changing`

    def _take_touched(self) -> None:
        with self._state:
            paths, self._touched = sorted(self._touched), set()
        if paths:
            self._apply(self._look(paths))

    def _apply(self, scan: _Scan) -> None:
        before = self._snapshot
        if before is None:
            return
        after = self._changed(before, scan)
        with self._state:
            if self._snapshot is before:  # not invalidated meanwhile
                self._snapshot = after

    def _changed(self, before: Snapshot, scan: _Scan) -> Snapshot:
        builder, fresh, reindexed = SegmentBuilder(), dict[str, Record](), list[str]()
        gone = [path for path in _affected(before, scan) if path not in scan.files]
        for path, info in scan.files.items():
            old = before.records.get(path)
            if old is not None and old.info == info and old.settled and scan.region is None:
                continue
            record = self._read(info, old, builder)
            self.documents_read += 1
            if record is None:
                gone += [path] if old is not None else []
                continue
            fresh[path] = record
            if old is not None and old.content_hash != record.content_hash:
                reindexed.append(path)
        problems = tuple(scan.problems)
        if not fresh and not gone and problems == before.problems and scan.others == before.others:
            return before
        index = before.index.changed([*gone, *reindexed], builder.build())
        return before.updated(gone, fresh, index, problems, scan.others)

    def _read(self, info: FileInfo, old: Record | None, builder: SegmentBuilder) -> Record | None:
        """Reads a file and indexes it, unless its bytes are those of `old`; None if it has vanished."""
        try:
            raw = self._fs.read(info.path)
        except NotFoundError:
            return None
        except TooLargeError as error:
            return Record.unusable(info, "too-large", error.problem)
        except ProviderError as error:
            return Record.unusable(info, "unreadable", error.problem)
        if problem := not_text(raw):
            return Record.unusable(info, "encoding-invalid", problem)
        document = parse_document(info.path, raw)
        # The size is that of the bytes read: a file that grew since the walk differs at the next look.
        record = Record.of(info, document)
        if old is None or old.content_hash != record.content_hash:
            builder.add(info.path, document.passages, passage_terms(document, raw, self._analyzer))
        return record

    # Looking

    def _walk(self, path: str) -> _Scan:
        scan = _Scan()
        self._sort(self._fs.walk(path), scan)
        return scan

    def _look(self, paths: Iterable[str]) -> _Scan:
        """A scan of some files and folders only; what was known of the rest stays."""
        before, region = self._snapshot or Snapshot(), tuple(paths)
        scan = _Scan(region=region, others=before.others)
        scan.problems = [one for one in before.problems if not _inside(one.path, region)]
        for path in region:
            try:
                found: Iterable[FileInfo] = [self._fs.stat(path)] if self._wanted(path) else self._fs.walk(path)
            except NotFoundError:
                found = self._fs.walk(path)
            self._sort(found, scan)
        scan.others = before.others
        return scan

    def _sort(self, found: Iterable[FileInfo], scan: _Scan) -> None:
        for info in found:
            if info.problem:
                message = _REASONS.get(info.problem, "It cannot be read.")
                scan.problems.append(Skipped(path=info.path, reason=info.problem, message=message))
            elif self._wanted(info.path):
                scan.files[info.path] = info
            else:
                scan.others += 1


def _affected(before: Snapshot, scan: _Scan) -> Iterator[str]:
    """Known paths that the scan would have found if they were still there."""
    if scan.region is None:
        yield from before.records
        return
    folders = []
    for path in scan.region:
        if path in before.records:
            yield path
        elif path not in scan.files:
            folders.append(path)
    if folders:
        yield from (path for path in before.records if _inside(path, tuple(folders)))


def _inside(path: str, region: tuple[str, ...]) -> bool:
    return any(one == "." or path == one or path.startswith(f"{one}/") for one in region)
