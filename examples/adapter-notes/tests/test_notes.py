"""What the laws cannot know: how a file of notes looks, and what becomes of lines that are none."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knowledge_engine import KnowledgeService, Query, resolve_knowledge_backend
from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import IngestRequest
from notes_knowledge.notes import read_lines, stored_in
from notes_knowledge.provider import NotesProvider

NOTE = '{"id": "n1", "title": "Pump", "tags": ["plant"], "text": "The pump hums.\\n", "created": "2024-05-01"}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.jsonl"


def found(provider: NotesProvider, text: str) -> list[str]:
    return [hit.source_id for hit in provider.query(Query(query=text)).hits]


def test_fields_of_a_note_are_its_metadata_and_its_text_is_cited(path: Path) -> None:
    path.write_text(NOTE)
    with KnowledgeService(NotesProvider(path)) as service:
        hit = service.query(Query(query="hums", filter={"tags": "plant", "created": {"gte": "2024-01-01"}})).hits[0]
        assert (hit.source_id, hit.title, hit.text.strip()) == ("n1", "Pump", "The pump hums.")
        assert service.verify(hit).status == "ok"
        assert service.provider.get_source("n1").uri == "notes:notes.jsonl#n1"


def test_stored_note_keeps_its_fields_apart(path: Path) -> None:
    provider = NotesProvider(path)
    provider.ingest(IngestRequest(id="a", title="Valve", text="It sticks.", metadata={"tags": ["plant"]}))
    provider.ingest(IngestRequest(id="a", metadata={"tags": ["plant", "old"]}))
    provider.ingest(IngestRequest(id="b", content=b"\xff"))
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"id": "a", "tags": ["plant", "old"], "title": "Valve", "text": "It sticks."},
        {"id": "b", "base64": "/w=="},
    ]


@pytest.mark.parametrize(
    "bad",
    [
        b"{", b"[1]", b'{"id": 5, "text": "x"}', b'{"id": "x"}', b'{"id": "../x", "text": "x"}', b"\xff",
        b'{"id": "x", "text": "\\ud800"}', b'{"id": "x", "text": "x", "n": NaN}', b'{"id": "x", "base64": "?"}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_bad_line_is_named_and_survives_writes(path: Path, bad: bytes) -> None:
    path.write_bytes(b"\n" + bad + b"\r\n" + NOTE.encode())
    provider = NotesProvider(path)
    assert found(provider, "hums") == ["n1"]
    issues = provider.health_check().issues
    assert [(issue.path, issue.line, issue.severity) for issue in issues] == [("notes.jsonl", 2, "error")]
    provider.delete_source("n1")
    assert path.read_bytes() == b"\n" + bad + b"\r\n"


def test_last_line_of_an_id_counts_and_none_returns_after_deletion(path: Path) -> None:
    path.write_text(f"\ufeff{NOTE}\n{NOTE.replace('hums', 'rattles')}")
    provider = NotesProvider(path)
    assert (found(provider, "hums"), found(provider, "rattles")) == ([], ["n1"])
    assert [(issue.line, issue.severity) for issue in provider.health_check().issues] == [(1, "warning")]
    provider.delete_source("n1")
    assert path.read_bytes() == b""


def test_metadata_that_cannot_be_written_stays_in_the_text(path: Path) -> None:
    raw = b"---\n" + b"k" * 1010 + b": 1\n---\ntext"
    NotesProvider(path).ingest(IngestRequest(id="a", content=raw))
    assert NotesProvider(path).read_source("a").content == raw


def test_what_another_program_appends_is_found_after_refresh(path: Path) -> None:
    provider = NotesProvider(path)
    assert provider.health_check().index.state == "stale"
    assert found(provider, "hums") == []
    path.write_text(NOTE)
    assert provider.refresh()
    assert found(provider, "hums") == ["n1"]


def test_writers_that_share_a_file_lose_nothing(path: Path) -> None:
    providers = [NotesProvider(path) for _ in range(4)]

    def write(number: int) -> None:
        for turn in range(5):
            providers[number].ingest(IngestRequest(id=f"{number}-{turn}", content=b"x"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert len(stored_in(read_lines(path.read_bytes()))) == 20


@pytest.mark.parametrize(
    "url", ["notes:", "notes:..", "notes:x/", "notes:.notes.jsonl", "notes:a\0b/notes.jsonl", "notes:{folder}"]
)
def test_url_that_names_no_file_is_a_wrong_setting(url: str, tmp_path: Path) -> None:
    with resolve_knowledge_backend(url.format(folder=tmp_path)) as handle, pytest.raises(ConfigurationError):
        handle.provider().query(Query(query="x"))


def test_variable_names_the_file(path: Path) -> None:
    path.write_text(NOTE)
    missing = resolve_knowledge_backend("notes", environ={}).check()
    assert missing == ("KNOWLEDGE_NOTES_PATH is not set (the JSONL file)",)
    with resolve_knowledge_backend("notes", environ={"KNOWLEDGE_NOTES_PATH": str(path)}) as handle:
        assert handle.provider().get_source("n1").title == "Pump"
