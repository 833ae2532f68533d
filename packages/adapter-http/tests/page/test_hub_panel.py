"""The hub's panel in a browser: entries, what changed, and a slimming that is looked at first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from http_bench.servers import running, services
from knowledge_http import HttpSettings, create_app
from knowledge_hub import EntryUpdate, HubService, HubSettings, NewEntry, create_hub

HOSTILE = "<img src=x onerror=alert(1)> Read a PDF"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubService]:
    """A hub with two entries that say the same, and one that has a history."""
    opened = create_hub(HubSettings(path=str(tmp_path / "hub.db"), routing_model="none", slimming_model="none"), {})
    text = "Use pdfplumber and its extract_tables, page by page, and join what goes on overleaf."
    for _ in range(2):
        opened.save(NewEntry(scenario=HOSTILE, content=text, tags_type=("tool",)))
    one = opened.save(NewEntry(scenario="Choose a database", content="Use SQLite <b>here</b>.", score=2))
    opened.update(one.id, EntryUpdate(update_score=5))
    yield opened
    opened.close()


def test_entries_are_looked_at_and_merged_by_keyboard(page: Page, hub: HubService, tmp_path: Path) -> None:
    environ = {"KNOWLEDGE_HUB_PATH": str(tmp_path / "hub.db"), "KNOWLEDGE_HUB_MODEL": "none"}
    settings = HttpSettings(quiet=True, writable=True)
    with running(create_app(services(docs={"a.md": b"# A\n"}), settings, environ=environ)) as url:
        page.goto(url)
        page.get_by_role("link", name="Learned").focus()
        page.keyboard.press("Enter")
        panel = page.frame_locator("iframe")
        expect(panel.get_by_role("status")).to_contain_text("3 entries")
        expect(panel.get_by_role("button", name=HOSTILE).first).to_be_visible()

        panel.get_by_role("searchbox").fill("sqlite database")
        panel.get_by_role("searchbox").press("Enter")
        expect(panel.get_by_role("status")).to_contain_text("1 found by words")
        panel.get_by_role("button", name="Choose a database").press("Enter")
        expect(panel.get_by_role("heading", name="Choose a database")).to_be_focused()
        expect(panel.locator("article")).to_contain_text("Use SQLite <b>here</b>.")
        expect(panel.locator("figcaption")).to_contain_text("2 (")
        expect(panel.locator("figcaption")).to_contain_text("5 (")

        panel.get_by_role("button", name="What could be merged").press("Enter")
        expect(panel.get_by_role("status")).to_contain_text("1 merges proposed; nothing was changed")
        assert hub.status()["active"] == 3
        panel.get_by_role("button", name="Merge what is ticked").press("Enter")
        expect(panel.get_by_role("status")).to_contain_text("1 merged, 0 left alone; 2 entries")
        assert hub.status()["active"] == 2
