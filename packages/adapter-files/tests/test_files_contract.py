"""The contract over files on disk and in memory; and that it catches what such an adapter can get wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowledge_engine import answers
from knowledge_engine.answers import Candidate
from knowledge_engine.contract import PROFILES, BrokenLawError, Opened, check_law, provider_contract
from knowledge_engine.filters import compile_filter
from knowledge_engine.fs import LocalFs, MemoryFs
from knowledge_engine.models import FileInfo
from knowledge_files import FilesKnowledgeAdapter
from knowledge_files.corpus import Corpus
from knowledge_files.hits import HitLoader
from knowledge_files.index import Index


@contextmanager
def open_memory_fs(docs: Mapping[str, bytes]) -> Iterator[Opened]:
    with _over(MemoryFs(docs)) as opened:
        yield opened


@contextmanager
def open_folder(docs: Mapping[str, bytes]) -> Iterator[Opened]:
    with tempfile.TemporaryDirectory() as folder:
        for path, data in docs.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        with _over(LocalFs(folder)) as opened:
            yield opened


@contextmanager
def _over(fs: MemoryFs | LocalFs) -> Iterator[Opened]:
    provider = FilesKnowledgeAdapter(fs, ".")

    def outside(path: str, data: bytes | None) -> None:
        if data is None:
            fs.delete(path)
        else:
            fs.write(path, data)

    yield Opened(provider, lambda: FilesKnowledgeAdapter(fs, "."), outside)
    provider.dispose()


class ReadOnlyFs:
    """A file port that has no power to write."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        inner = MemoryFs(files)
        self.walk, self.stat, self.read = inner.walk, inner.stat, inner.read


@contextmanager
def open_read_only(docs: Mapping[str, bytes]) -> Iterator[FilesKnowledgeAdapter]:
    yield FilesKnowledgeAdapter(ReadOnlyFs(docs), ".")


TestFolder = provider_contract(open_folder)
TestMemoryFs = provider_contract(open_memory_fs)
TestReadOnly = provider_contract(open_read_only, max_examples=5)


# Seeded faults

_load, _search, _write = HitLoader._bytes, Index.search, MemoryFs.write


def _off_by_one(self: Any, record: Any, candidate: Candidate) -> bytes | None:
    return _load(self, record, candidate._replace(start=candidate.start + 1))


def _unstable(self: Any, terms: Any, **_: Any) -> Iterator[Candidate]:
    found = list(_search(self, terms))
    np.random.default_rng(len(found)).shuffle(found)  # type: ignore[arg-type]
    return iter(sorted(found, key=lambda one: -one.score))


def _blind_write(self: Any, path: str, data: bytes, *, if_match: str | None = None) -> FileInfo:
    return _write(self, path, data)


FAULTS: dict[str, tuple[tuple[str, ...], Any, str, Any]] = {
    "off-by-one spans": (("citation-is-the-bytes", "reference-ranking"), HitLoader, "_bytes", _off_by_one),
    "unstable ties": (("order-of-hits",), Index, "search", _unstable),
    "lost updates": (("if-match-decides", "concurrent-if-match-has-one-winner"), MemoryFs, "write", _blind_write),
    "stale after a write": (("ingest-is-found", "delete-removes"), Corpus, "touch", lambda self, path: None),
    "stale after a refresh": (("refresh-takes-in",), Corpus, "_apply", lambda self, region: None),
    # Only as the adapter sees them: the laws use the same filters to know what is right.
    "ignored filters": (
        ("filter-list", "filter-query"),
        answers,
        "compile_filter",
        lambda filter: compile_filter(None),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_put_into_the_adapter_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laws, owner, name, broken = FAULTS[fault]
    for law in laws:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with pytest.raises(BrokenLawError, match=law):
                check_law(law, open_memory_fs, depth=PROFILES["default"]._replace(shrink_s=0.2))
