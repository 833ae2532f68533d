"""The contract over the hub's active entries; and how it is resolved by name and URL."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from knowledge_engine.contract import Opened, provider_contract
from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import Query
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_hub.entries import NewEntry
from knowledge_hub.rendering import document_of
from knowledge_hub.service import HubService
from knowledge_hub.settings import HubSettings
from knowledge_hub.sqlite_store import SqliteEntryStore

GOLDEN = Path(__file__).resolve().parent / "golden_entries.jsonl"


def filled(path: str) -> HubService:
    """A hub of the golden entries, the same each time."""
    numbers = count()
    hub = HubService(
        SqliteEntryStore(path),
        clock=lambda: datetime(2026, 3, 5, tzinfo=UTC),
        random_hex=lambda: f"{next(numbers):04x}",
    )
    for line in GOLDEN.read_text().splitlines():
        given = json.loads(line)
        hub.save(NewEntry.model_validate({key: given[key] for key in ("tags_type", "scenario", "content")}))
    return hub


def corpus() -> dict[str, bytes]:
    hub = filled(":memory:")
    found = {entry.id: document_of(entry) for entry in hub.listed(limit=1_000)}
    hub.close()
    return found


@contextmanager
def open_provider(_: Mapping[str, bytes]) -> Iterator[Opened]:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/hub.db"
        hub = filled(path)
        yield Opened(hub.provider, lambda: HubService(SqliteEntryStore(path)).provider)
        hub.close()


TestHub = provider_contract(open_provider, corpus(), max_examples=5)


@pytest.mark.parametrize("by", ["name", "url"])
def test_the_hub_is_resolved_by_name_and_by_url(by: str, tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    filled(str(path)).close()
    environ = {"KNOWLEDGE_HUB_PATH": str(path)} if by == "name" else {}
    handle = resolve_knowledge_backend("hub" if by == "name" else f"hub:///{path}", environ=environ)
    provider = handle.provider()
    try:
        assert provider.query(Query(query="pdfplumber")).hits[0].source_id == "knowledge-20260305-0000"
    finally:
        provider.dispose()


def test_a_path_that_is_none_is_named() -> None:
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_HUB_PATH"):
        HubSettings.from_env({"KNOWLEDGE_HUB_PATH": "  "})


def test_one_model_may_be_named_for_everything() -> None:
    settings = HubSettings.from_env({"KNOWLEDGE_HUB_MODEL": "openai:gpt-4o"})
    assert (settings.routing_model, settings.slimming_model) == ("openai:gpt-4o", "openai:gpt-4o")
