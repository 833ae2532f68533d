"""The whole kit over the reference and over `MemoryFs` and `LocalFs`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from knowledge_engine.contract import fs_contract, parity_contract, provider_contract
from knowledge_engine.fs import LocalFs, MemoryFs
from knowledge_engine.memory import MemoryProvider


@contextmanager
def open_memory(docs: Mapping[str, bytes]) -> Iterator[MemoryProvider]:
    yield MemoryProvider(docs)


@contextmanager
def open_memory_fs(files: Mapping[str, bytes]) -> Iterator[MemoryFs]:
    yield MemoryFs(files)


@contextmanager
def open_local_fs(files: Mapping[str, bytes]) -> Iterator[LocalFs]:
    with tempfile.TemporaryDirectory() as folder:
        for path, data in files.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        yield LocalFs(folder)


TestMemoryProvider = provider_contract(open_memory)
TestAFixedCorpus = provider_contract(
    open_memory, corpus={"a.md": b"# Valve\n\nvalve pump", "b.md": b"pump"}, max_examples=3
)
TestParityWithItself = parity_contract(open_memory, open_memory, max_examples=5)
TestMemoryFs = fs_contract(open_memory_fs)
TestLocalFs = fs_contract(open_local_fs)
