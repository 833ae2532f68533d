"""The adapter over an archive and over other file systems, from the URL to the proved citation."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from knowledge_engine.citations import verify_citation
from knowledge_engine.errors import ConfigurationError, ReadOnlyError, UnknownBackendError
from knowledge_engine.fs import FsspecFs, MemoryFs
from knowledge_engine.models import IngestRequest, Query
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_files import FilesKnowledgeAdapter
from knowledge_files.settings import FilesSettings
from knowledge_files.standalone import create_files_adapter

DOCS = {
    "guides/pump.md": b"---\ntitle: Pumps\nkind: guide\n---\n# Pumps\n\nPrime it.\n\n## Leaks\n\nTighten a gland.",
    "guides/valve.md": b"# Valves\n\nA valve leaks when its seat is worn.",
    "notes.txt": b"The gland of pump two is new.",
}


def _pack(path: Path, documents: dict[str, bytes]) -> None:
    fresh = path.with_suffix(".new")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in documents.items():
            archive.writestr(zipfile.ZipInfo(name, (2024, 5, 1, 12, 0, 0)), data, zipfile.ZIP_DEFLATED)
    fresh.replace(path)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    _pack(tmp_path / "docs.zip", DOCS)
    return tmp_path / "docs.zip"


def _open(archive: Path) -> IKnowledgeProvider:
    return resolve_knowledge_backend(f"files:zip://{archive}", environ={}).provider()


def test_an_archive_answers_as_the_same_files_do_and_its_citations_are_proved(archive: Path) -> None:
    provider, plain = _open(archive), FilesKnowledgeAdapter(MemoryFs(DOCS), ".")
    for text in ("gland", "leaks", "pump"):
        found = provider.query(Query(query=text, per_source=3)).hits
        assert found == plain.query(Query(query=text, per_source=3)).hits
        assert {verify_citation(provider, hit).status for hit in found} == {"ok"}
    assert [one.id for one in provider.list_sources(filter={"kind": "guide"}).sources] == ["guides/pump.md"]
    assert provider.read_source("notes.txt").content == DOCS["notes.txt"]


def test_an_archive_is_read_only(archive: Path) -> None:
    provider = _open(archive)
    assert not provider.capabilities.writable
    assert isinstance(provider, FilesKnowledgeAdapter)
    with pytest.raises(ReadOnlyError):
        provider.ingest(IngestRequest(id="new.md", text="x"))


def test_a_replaced_archive_is_taken_in_and_old_citations_are_found_out(archive: Path) -> None:
    provider = _open(archive)
    assert isinstance(provider, FilesKnowledgeAdapter)
    (old,) = provider.query(Query(query="seat")).hits
    _pack(archive, {**DOCS, "guides/valve.md": b"# Valves\n\nA valve leaks when its disc is worn.", "new.md": b"Seat."})
    assert verify_citation(provider, old).status == "changed"
    assert provider.refresh()
    assert [hit.source_id for hit in provider.query(Query(query="seat")).hits] == ["new.md"]
    assert not provider.refresh()


def test_hostile_entries_are_told_and_hide_nothing(archive: Path) -> None:
    _pack(archive, {**DOCS, "../../up.md": b"gland", "/etc/passwd.md": b"gland", "a\\b.md": b"gland"})
    provider = _open(archive)
    assert {hit.source_id for hit in provider.query(Query(query="gland")).hits} == {"guides/pump.md", "notes.txt"}
    skipped = provider.health_check().skipped
    assert {(one.path, one.reason) for one in skipped} == {
        ("../../up.md", "name-invalid"),
        ("/etc/passwd.md", "name-invalid"),
        ("a\\b.md", "name-invalid"),
    }


def test_the_settings_may_name_a_place_too(archive: Path) -> None:
    settings = FilesSettings.from_env(
        {
            "KNOWLEDGE_FILES_ROOT": f"zip://{archive}",
            "KNOWLEDGE_FILES_PATH": "guides",
            "KNOWLEDGE_FILES_EXCLUDE": "valve.md",
        }
    )
    assert [one.id for one in create_files_adapter(settings).list_sources().sources] == ["guides/pump.md"]


def test_nothing_is_opened_before_it_is_asked_for(tmp_path: Path) -> None:
    provider = _open(tmp_path / "docs.zip")
    _pack(tmp_path / "docs.zip", DOCS)
    assert provider.list_sources().total == 3


def test_a_scheme_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no file system 'nope'") as caught:
        resolve_knowledge_backend("files:nope://x", environ={}).provider()
    assert not isinstance(caught.value, UnknownBackendError)


def test_documents_are_written_where_the_file_system_can() -> None:
    fs = FsspecFs(MemoryFileSystem(global_store=False, skip_instance_cache=True), "kb")
    adapter = FilesKnowledgeAdapter(fs, ".")
    assert adapter.capabilities.writable
    adapter.ingest(IngestRequest(id="tea.md", text="Green tea."))
    (hit,) = adapter.query(Query(query="tea")).hits
    assert verify_citation(adapter, hit).status == "ok"
    adapter.ingest(IngestRequest(id="tea.md", text="Black tea."))
    assert verify_citation(adapter, hit).status == "changed"
    adapter.delete_source("tea.md")
    assert adapter.query(Query(query="tea")).hits == ()
