"""What the adapter knows of each file: enough to list it, to cite it, and to see whether it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from knowledge_engine.corpus_issues import corpus_issues
from knowledge_engine.cursors import Revision
from knowledge_engine.filters import metadata_keys
from knowledge_engine.models import DocumentIssue, FileInfo, IndexState, Metadata, Skipped, Source
from knowledge_engine.passages import Document, Passage
from knowledge_files.index import Index

#: Frontmatter key that names where an ingested document was fetched from.
SOURCE_URL = "source_url"

# A file that was written this shortly before it was read may be written again within the same tick of its clock:
# then only its bytes tell. Network file systems may keep whole seconds, FAT every other one.
_SETTLED_NS = 2_500_000_000


@dataclass(frozen=True, slots=True)
class Record:
    """A file as it was when it was read."""

    info: FileInfo
    #: When its reading began.
    read_ns: int
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    content_hash: str = ""
    passages: tuple[Passage, ...] = ()
    issues: tuple[DocumentIssue, ...] = ()
    #: Why it is not indexed; None for a document.
    problem: Skipped | None = None

    @classmethod
    def of(cls, info: FileInfo, read_ns: int, document: Document) -> Record:
        """The record of a document."""
        return cls(
            info=info,
            read_ns=read_ns,
            title=document.title,
            metadata=document.metadata,
            content_hash=document.content_hash,
            passages=document.passages,
            issues=document.issues,
        )

    @classmethod
    def unusable(cls, info: FileInfo, read_ns: int, reason: str, message: str) -> Record:
        """The record of a file that cannot be a document, so that it is not tried again until it changes."""
        return cls(info, read_ns, problem=Skipped(path=info.path, reason=reason, message=message))

    @property
    def settled(self) -> bool:
        """Whether an unchanged `info` proves that reading the file again would give the same."""
        if self.problem is not None and self.problem.reason == "unreadable":
            return False  # a disk or a network may have come back
        return max(self.info.mtime_ns, self.info.ctime_ns) + _SETTLED_NS < self.read_ns

    @property
    def shown(self) -> Metadata:
        """Metadata with `slug` mirrored to `entrySlug`, by which hosts find the corpus entry of a hit."""
        return {**self.metadata, "entrySlug": self.metadata["slug"]} if "slug" in self.metadata else self.metadata

    def source(self, uri: str) -> Source:
        """The source that this record describes."""
        url = self.metadata.get(SOURCE_URL)
        fetched = isinstance(url, str) and bool(url)
        return Source(
            id=self.info.path,
            origin="url" if fetched else "file",
            uri=str(url) if fetched else uri,
            title=self.title,
            metadata=self.shown,
            bytes=self.info.size,
            status="ready",
            indexed_at=datetime.fromtimestamp(self.read_ns / 1e9, UTC).isoformat(timespec="seconds"),
            content_hash=self.content_hash,
        )


@dataclass(frozen=True)
class Snapshot:
    """One consistent state of the corpus. Readers keep the one they began with."""

    #: By path, documents and files that cannot be one.
    records: Mapping[str, Record] = field(default_factory=dict)
    #: What the walk could not give.
    problems: tuple[Skipped, ...] = ()
    #: Files of other kinds, which are no documents.
    others: int = 0
    index: Index = field(default_factory=Index)
    #: How many documents have each metadata key, nested ones by their dotted path.
    keys: Counter[str] = field(default_factory=Counter)
    revision: Revision = field(default_factory=Revision)
    unusable: int = 0

    @property
    def state(self) -> IndexState:
        """What answers from this snapshot say of it."""
        return IndexState(
            documents=len(self.records) - self.unusable,
            skipped=self.unusable + len(self.problems),
            revision=self.revision.value,
        )

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """All that is not indexed, by path."""
        found = [record.problem for record in self.records.values() if record.problem] if self.unusable else []
        return tuple(sorted([*found, *self.problems], key=lambda one: one.path))

    @cached_property
    def paths(self) -> list[str]:
        """Ids of all documents, ascending."""
        return sorted(path for path, record in self.records.items() if record.problem is None)

    @cached_property
    def issues(self) -> tuple[DocumentIssue, ...]:
        """What is wrong with documents, by path, and then between them."""
        documents = {path: self.records[path] for path in self.paths}
        own = [issue for record in documents.values() for issue in record.issues]
        return (*own, *corpus_issues({path: record.metadata for path, record in documents.items()}))

    @cached_property
    def inodes(self) -> frozenset[int]:
        """Those of all known files, as far as the port tells them."""
        return frozenset(record.info.inode for record in self.records.values()) - {0}

    def document(self, path: str) -> Record | None:
        """The record of a document; None for anything else."""
        record = self.records.get(path)
        return None if record is None or record.problem else record

    def updated(
        self,
        gone: Collection[str],
        fresh: Mapping[str, Record],
        index: Index,
        problems: tuple[Skipped, ...],
        others: int,
    ) -> Snapshot:
        """The snapshot after a change."""
        records, keys, revision, unusable = dict(self.records), Counter(self.keys), self.revision.copy(), self.unusable
        for path in [*gone, *(path for path in fresh if path in records)]:
            old = records.pop(path)
            unusable -= old.problem is not None
            if old.problem is None:
                keys.subtract(Counter(metadata_keys(old.shown)))
                revision.remove(path, old.content_hash)
        for path, record in fresh.items():
            records[path] = record
            unusable += record.problem is not None
            if record.problem is None:
                keys.update(metadata_keys(record.shown))
                revision.add(path, record.content_hash)
        return Snapshot(records, problems, others, index, +keys, revision, unusable)
