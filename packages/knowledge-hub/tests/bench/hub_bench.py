"""Hubs made for one test, and models that answer as they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from knowledge_hub.service import HubService
from knowledge_hub.settings import HubSettings
from knowledge_hub.sqlite_store import SqliteEntryStore


class Model:
    """A language model: `answer` is called with prompt and schema; it gives what the schema is made of, or raises."""

    name = "fake:model"

    def __init__(self, answer: Callable[[str, type[BaseModel]], Any]) -> None:
        self._answer = answer
        self.prompts: list[str] = []
        self.instructions: list[str] = []

    def ask(self, prompt: str, schema: type[Any], *, instructions: str = "", timeout_s: float = 60.0) -> Any:
        self.prompts.append(prompt)
        self.instructions.append(instructions)
        return schema.model_validate(self._answer(prompt, schema))


class Clock:
    """A minute passes with each look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 5, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now


OpenHub = Callable[..., HubService]


@pytest.fixture
def open_hub(tmp_path: Path) -> Iterator[OpenHub]:
    """Opens the hub of the test's folder; closed at the end."""
    opened: list[HubService] = []

    def opening(path: str = "", **given: Any) -> HubService:
        settings = HubSettings(path=path or str(tmp_path / "hub.db"), **given.pop("settings", {}))
        store = SqliteEntryStore(settings.path, busy_timeout_s=settings.busy_timeout_s, read_only=settings.read_only)
        opened.append(HubService(store, settings, **({"clock": Clock()} | given)))
        return opened[-1]

    yield opening
    for each in opened:
        each.close()
