"""A file port that counts and can be interfered with, and a folder to put documents into."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knowledge_engine.fs import LocalFs, MemoryFs
from knowledge_engine.models import ByteSpan, FileInfo, Query
from knowledge_files import FilesKnowledgeAdapter


def _nothing(_path: str) -> None:
    return None


class HookedFs:
    """Passes everything on to another port, notes what was asked, and lets a test act before each answer."""

    def __init__(self, inner: LocalFs | MemoryFs) -> None:
        self.inner = inner
        self.walks: list[str] = []
        self.stats: list[str] = []
        self.reads: list[str] = []
        self.before_walk: Callable[[str], None] = _nothing
        self.before_stat: Callable[[str], None] = _nothing
        self.before_read: Callable[[str], None] = _nothing

    def walk(self, path: str = ".") -> Iterator[FileInfo]:
        self.walks.append(path)
        self.before_walk(path)
        return self.inner.walk(path)

    def stat(self, path: str) -> FileInfo:
        self.stats.append(path)
        self.before_stat(path)
        return self.inner.stat(path)

    def read(self, path: str, span: ByteSpan | None = None) -> bytes:
        self.reads.append(path)
        self.before_read(path)
        return self.inner.read(path, span)

    def forget(self) -> None:
        """Begins counting anew."""
        self.walks, self.stats, self.reads = [], [], []


class WritableHookedFs(HookedFs):
    def write(self, path: str, data: bytes, *, if_match: str | None = None) -> FileInfo:
        return self.inner.write(path, data, if_match=if_match)

    def delete(self, path: str, *, if_match: str | None = None) -> None:
        self.inner.delete(path, if_match=if_match)


class Folder:
    """A folder on disk, the port over it, and an adapter over that."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.fs = WritableHookedFs(LocalFs(root))
        self.adapter = FilesKnowledgeAdapter(self.fs, ".")

    def put(self, path: str, data: bytes | str, *, age_s: float = 3600) -> Path:
        """Writes a file, by default with times long past."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        self.age(path, age_s)
        return file

    def age(self, path: str, age_s: float = 3600) -> None:
        found = os.stat(self.root / path)
        moment = found.st_mtime_ns - int(age_s * 1e9)
        os.utime(self.root / path, ns=(moment, moment))

    def found(self, words: str) -> list[str]:
        return [hit.source_id for hit in self.adapter.query(Query(query=words)).hits]

    def ids(self) -> list[str]:
        return [source.id for source in self.adapter.list_sources(limit=1000).sources]

    def skipped(self) -> dict[str, str]:
        health = self.adapter.health_check()
        assert health.index.skipped == len(health.skipped)
        reasons = {one.path: one.reason for one in health.skipped}
        assert len(reasons) == len(health.skipped)
        return reasons

    def tree(self) -> dict[str, bytes]:
        """Every file there is, hidden ones too."""
        files = (path for path in self.root.rglob("*") if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "docs")


@pytest.fixture
def hooked() -> type[HookedFs]:
    return HookedFs


@pytest.fixture
def writable_hooked() -> type[WritableHookedFs]:
    return WritableHookedFs


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once: for tests of what is opened and what is not (ctime cannot be set back)."""
    monkeypatch.setattr("knowledge_files.documents._SETTLED_NS", -(10**18))
