"""The promise that this backend keeps: every law of the engine's contract, none waived."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from knowledge_engine.contract import Opened, provider_contract
from notes_knowledge.notes import read_lines, stored_in, write_line
from notes_knowledge.provider import NotesProvider


def save(path: Path, docs: Mapping[str, bytes]) -> None:
    path.write_bytes(b"".join(write_line(one, raw).data + b"\n" for one, raw in docs.items()))


@contextmanager
def open_provider(docs: Mapping[str, bytes]) -> Iterator[Opened]:
    """A file of these notes; `reopen` and `outside` let the kit try what lasts, and what others write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "notes.jsonl")
        save(path, docs)

        def outside(source_id: str, raw: bytes | None) -> None:
            notes = stored_in(read_lines(path.read_bytes()))
            others = {one: kept for one, kept in notes.items() if one != source_id}
            save(path, others if raw is None else {**others, source_id: raw})

        provider = NotesProvider(path)
        yield Opened(provider, reopen=lambda: NotesProvider(path), outside=outside)
        provider.dispose()


TestNotes = provider_contract(open_provider)
