from __future__ import annotations

from typing import Any

import pytest

from knowledge_engine import open_knowledge
from knowledge_engine.errors import ConfigurationError, UnavailableError, UnknownBackendError
from knowledge_engine.settings import EngineSettings


def test_a_url_gives_a_service_that_answers(shelf: Any) -> None:
    shelf.put("tea.md", "# Tea\n\nGreen tea is steamed.\n")
    with open_knowledge(shelf.url) as service:
        assert [hit.source_id for hit in service.query({"query": "steamed"}).hits] == ["tea.md"]
    with pytest.raises(UnavailableError):
        service.query({"query": "steamed"})


def test_without_a_name_the_environment_says_which_backend(shelf: Any) -> None:
    shelf.put("tea.md", "Green tea.")
    environ = {"KNOWLEDGE_BACKEND": "shelf", "KNOWLEDGE_SHELF_ROOT": str(shelf.root)}
    assert open_knowledge(environ=environ).list().total == 1
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_SHELF_ROOT is not set"):
        open_knowledge("shelf", environ={})
    with pytest.raises(UnknownBackendError, match="'nowhere'"):
        open_knowledge(environ={"KNOWLEDGE_BACKEND": "nowhere"})


def test_each_call_opens_a_provider_of_its_own(shelf: Any) -> None:
    assert open_knowledge(shelf.url).provider is not open_knowledge(shelf.url).provider


@pytest.mark.parametrize("refresh", [True, False])
def test_the_backend_takes_in_changes_before_an_answer_only_where_asked(
    install_plugin: Any, monkeypatch: pytest.MonkeyPatch, refresh: bool
) -> None:
    source = """
        from knowledge_engine.hookspecs import hookimpl

        @hookimpl
        def knowledge_backend(): return {}

        @hookimpl
        def knowledge_open():
            from knowledge_engine.memory import MemoryProvider
            class Counting(MemoryProvider):
                refreshed = 0
                def refresh(self, paths=None): self.refreshed += 1
                def invalidate(self): ...
            return Counting()
    """
    install_plugin("counting_plugin", source, name="counting")
    service = open_knowledge("counting", refresh=refresh)
    service.list()
    assert (service.provider.refreshed > 0) is refresh  # type: ignore[attr-defined]


@pytest.mark.parametrize("environ", [{}, {"KNOWLEDGE_BACKEND": ""}, {"KNOWLEDGE_BACKEND": "  "}])
def test_where_no_backend_is_named_it_is_files(environ: dict[str, str]) -> None:
    assert EngineSettings.from_env(environ).backend == "files"


@pytest.mark.parametrize(
    ("environ", "color"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm"}, True),
    ],
)
def test_colours_can_be_switched_off(environ: dict[str, str], color: bool) -> None:
    assert EngineSettings.from_env(environ).color is color


def test_settings_come_from_the_process_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWLEDGE_BACKEND", " shelf ")
    assert EngineSettings.from_env().backend == "shelf"
