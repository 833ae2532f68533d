"""A model at the port, a clock that stands, and a source to make bundles of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

Answer = TypeVar("Answer", bound=BaseModel)

GUIDE = """\
# Pump guide

## Install

Mount the pump on a flat base. Use four bolts.

## Wiring

Connect the supply to terminals 1 and 2. See [install](#install).

### Earthing

Earth the housing first.

## Alarms

Alarm 7 means dry running.
"""


class StubModel:
    """Answers by a function of the prompt; notes what it was asked."""

    def __init__(self, answer: Callable[[str], Any], name: str = "stub") -> None:
        self._answer = answer
        self.name = name
        self.prompts: list[str] = []
        self.instructions: set[str] = set()
        self._lock = threading.Lock()

    def ask(self, prompt: str, schema: type[Answer], *, instructions: str = "", timeout_s: float = 60.0) -> Answer:
        with self._lock:
            self.prompts.append(prompt)
            self.instructions.add(instructions)
        found = self._answer(prompt)
        if isinstance(found, Exception):
            raise found
        return schema.model_validate(found)


def text_of(prompt: str) -> str:
    """The section's text in a prompt."""
    return prompt.partition("\nTEXT\n")[2].partition("\n</source-")[0]


def path_of(prompt: str) -> str:
    """The section's headings in a prompt."""
    return prompt.partition("HEADINGS\n")[2].partition("\n")[0]


def faithful(prompt: str) -> dict[str, Any]:
    """One concept that quotes the section's first line."""
    title = path_of(prompt).rpartition(" > ")[2]
    return {
        "concepts": [
            {"id": "", "title": title, "description": f"About {title}.", "quote": text_of(prompt).split("\n")[0]}
        ]
    }


@pytest.fixture
def stub() -> type[StubModel]:
    return StubModel


@pytest.fixture
def honest() -> StubModel:
    return StubModel(faithful)


@pytest.fixture
def guide(tmp_path: Path) -> Path:
    path = tmp_path / "guide.md"
    path.write_text(GUIDE)
    return path


@pytest.fixture
def clock() -> Callable[[], datetime]:
    return lambda: datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
