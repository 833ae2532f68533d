"""The contract over files and in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from knowledge_engine.contract import Opened, parity_contract, provider_contract
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import IngestRequest
from knowledge_engine.passages import not_text
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings


@contextmanager
def open_file(docs: Mapping[str, bytes]) -> Iterator[Opened]:
    with tempfile.TemporaryDirectory() as folder:
        settings = SqliteSettings(path=str(Path(folder, "kb.db")))
        provider = SqliteKnowledgeAdapter(settings)
        fill(provider, docs)
        yield Opened(provider, lambda: SqliteKnowledgeAdapter(settings))
        provider.dispose()


@contextmanager
def open_memory(docs: Mapping[str, bytes]) -> Iterator[SqliteKnowledgeAdapter]:
    provider = SqliteKnowledgeAdapter(SqliteSettings(path=":memory:"))
    fill(provider, docs)
    yield provider
    provider.dispose()


def fill(provider: SqliteKnowledgeAdapter, docs: Mapping[str, bytes]) -> None:
    for source_id, raw in docs.items():
        if not not_text(raw):
            provider.ingest(IngestRequest(id=source_id, content=raw))


@contextmanager
def open_reference(docs: Mapping[str, bytes]) -> Iterator[MemoryProvider]:
    yield MemoryProvider(docs)


@contextmanager
def open_as_memory(docs: Mapping[str, bytes]) -> Iterator[SqliteKnowledgeAdapter]:
    """Under the reference's name, which stands in every URI."""
    with tempfile.TemporaryDirectory() as folder:
        provider = SqliteKnowledgeAdapter(SqliteSettings(path=str(Path(folder, "kb.db"))), id="memory")
        fill(provider, docs)
        yield provider
        provider.dispose()


TestFile = provider_contract(open_file)
TestInMemory = provider_contract(open_memory, max_examples=5)
TestParity = parity_contract(open_reference, open_as_memory)
