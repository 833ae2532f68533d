"""Out of one hub and into another, line by line; and a copy of the whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hub_bench import Model, OpenHub
from knowledge_engine.errors import ConfigurationError, ConflictError, InvalidArgumentError
from knowledge_hub.entries import EntryUpdate, NewEntry
from knowledge_hub.service import HubService
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings


def filled(open_hub: OpenHub) -> HubService:
    """A hub with all that can be known of entries."""
    hub = open_hub(routing=Model(lambda *_: {"content": "Use camelot – now."}))
    new = NewEntry(scenario="PDF tables", content="Use pdfplumber.", tags_type=("tool",), urls=("https://a.example",))
    one = hub.save(new)
    hub.save(new.model_copy(update={"content": "Use pdfplumber, please."}))
    hub.save(NewEntry(scenario="Other ☃", content="line\nbreak \0 \u2028"))
    hub.update(one.id, EntryUpdate(add_helpful_case={"case_id": "1", "deep": [1, None, {"a": 2.5}]}, update_score=5))
    hub.update(one.id, EntryUpdate(evolve_feedback="Better."))
    hub.update(one.id, EntryUpdate(add_harmful_case={}))
    return open_hub()


def test_what_is_exported_comes_back_as_it_was(open_hub: OpenHub) -> None:
    hub = filled(open_hub)
    lines = list(hub.export())
    assert json.loads(lines[0]) == {"knowledge_hub": 1}
    other = open_hub(path=":memory:")
    assert other.import_lines(lines).model_dump() == {"added": 3, "same": 0}
    assert list(other.export()) == lines
    for entry in hub.listed():
        assert other.get(entry.id) == hub.get(entry.id)
        assert other.history(entry.id) == hub.history(entry.id)
        assert other.ratings(entry.id) == hub.ratings(entry.id)
    assert [one.content for one in other.search("camelot").results] == ["Use camelot – now."]
    assert other.import_lines(line.encode() for line in lines).model_dump() == {"added": 0, "same": 3}


def test_bare_entries_can_be_imported(open_hub: OpenHub) -> None:
    hub = open_hub()
    entry = {
        "id": "knowledge-20260305-a1b2",
        "tags": {"type": ["tool"]},
        "scenario": "PDF",
        "content": "Use it.",
        "eval": {"score": 4, "helpful": 1, "harmful": 0, "helpful_history": [{"case_id": "1"}], "harmful_history": []},
        "metrics": {"helpful": 1, "harmful": 0},
        "created_at": "2026-03-05 12:00:00",
        "updated_at": "2026-03-05 12:00:00",
    }
    assert hub.import_lines(["", json.dumps(entry), "  \n"]).added == 1
    found = hub.get("knowledge-20260305-a1b2")
    assert found.eval.helpful_history == ({"case_id": "1"},)
    assert (found.created_at, found.eval.score) == ("2026-03-05 12:00:00", 4)
    assert [one.why for one in hub.history(found.id)] == ["imported"]
    assert hub.search("pdf").count == 1
    assert hub.import_lines([json.dumps(entry)]).same == 1


GOOD = {"id": "knowledge-1", "scenario": "S", "content": "C"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "no JSON"),
        ("[1]", "no JSON object"),
        (b"\xff{}", "no JSON"),
        ('{"id": NaN}', "no JSON"),
        ("[" * 100_000, "no JSON"),
        (json.dumps(GOOD | {"id": "../x"}), "entry.id"),
        (json.dumps(GOOD | {"eval": {"score": 9}}), "entry.eval.score"),
        (json.dumps(GOOD | {"tags": {"type": ["rumour"]}}), "entry.tags.type"),
        (json.dumps(GOOD | {"content": "\ud83d"}), "Line 2"),
        (json.dumps(GOOD), "line 1 has the same id"),
        (json.dumps({"entry": GOOD | {"id": "b"}, "colour": 1}), "colour"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported(open_hub: OpenHub, line: Any, said: str) -> None:
    hub = open_hub()
    with pytest.raises(InvalidArgumentError, match="Line 2 is wrong") as caught:
        hub.import_lines([json.dumps(GOOD), line])
    assert said in str(caught.value)
    assert "Nothing was imported" in caught.value.mend
    assert hub.status()["entries"] == 0


def version(number: int, content: str) -> dict[str, Any]:
    said = {"scenario": "S", "content": content, "tags": {"type": []}, "who": "", "why": "saved", "at": "2026-03-05"}
    return {"version": number, "content_of": number, **said}


@pytest.mark.parametrize(
    "versions",
    [
        [version(1, "a"), version(1, "b"), version(2, "C")],
        [version(9, "a"), version(2, "C")],
        [version(1, "a"), version(3, "C")],
        [version(1, "a"), version(2, "Other.")],
    ],
)
def test_a_history_that_cannot_have_been_is_refused(open_hub: OpenHub, versions: list[dict[str, Any]]) -> None:
    hub = open_hub()
    with pytest.raises(InvalidArgumentError, match=r"Line 1 is wrong.*version"):
        hub.import_lines([json.dumps({"entry": GOOD | {"version": 2}, "versions": versions})])
    assert hub.status()["entries"] == 0


def test_nobody_waits_for_lines_that_come_slowly(open_hub: OpenHub) -> None:
    hub, other = open_hub(), open_hub(settings={"busy_timeout_s": 0.1})

    def lines() -> Iterator[str]:
        yield json.dumps(GOOD)
        other.save(NewEntry(scenario="Meanwhile", content="Saved."))
        yield json.dumps(GOOD | {"id": "knowledge-2"})

    assert hub.import_lines(lines()).added == 2
    assert hub.status()["entries"] == 3


def test_what_is_merged_meanwhile_is_exported_as_it_was_before(open_hub: OpenHub) -> None:
    hub, other = open_hub(), open_hub()
    for _ in range(2):
        entry = hub.save(NewEntry(scenario="Read a PDF", content="Use pdfplumber, page by page, and join the rows."))
        hub.update(entry.id, EntryUpdate(add_helpful_case={"case_id": entry.id}))
    before = list(hub.export())
    lines = hub.export()
    got = [next(lines), next(lines)]
    assert len(other.apply_slim(other.plan_slim()).applied) == 1
    assert [*got, *lines] == before


def test_a_header_of_a_later_version_is_refused(open_hub: OpenHub) -> None:
    with pytest.raises(InvalidArgumentError, match="later version"):
        open_hub().import_lines([json.dumps({"knowledge_hub": 2})])


def test_another_entry_of_an_id_stops_all_of_an_import(open_hub: OpenHub) -> None:
    hub = open_hub()
    hub.import_lines([json.dumps(GOOD)])
    with pytest.raises(ConflictError, match="knowledge-1"):
        hub.import_lines([json.dumps(GOOD | {"id": "new"}), json.dumps(GOOD | {"content": "Else."})])
    assert hub.status()["entries"] == 1


def test_a_backup_is_a_hub(open_hub: OpenHub, tmp_path: Path) -> None:
    hub = filled(open_hub)
    hub.backup(str(tmp_path / "copy.db"))
    assert list(open_hub(path=str(tmp_path / "copy.db")).export()) == list(hub.export())


def test_a_hub_of_a_later_version_is_left_alone(open_hub: OpenHub, tmp_path: Path) -> None:
    hub = filled(open_hub)
    adapter = SqliteKnowledgeAdapter(SqliteSettings(path=str(tmp_path / "hub.db")))
    with adapter.transaction() as change:
        change.connection.execute("UPDATE hub_state SET version = 9")
    adapter.dispose()
    hub.close()
    later = open_hub()
    for call in (later.listed, lambda: later.save(NewEntry(scenario="S", content="C"))):
        with pytest.raises(ConfigurationError, match="version 9"):
            call()


def test_documents_that_lie_in_the_same_file_stay_what_they_are(open_hub: OpenHub, tmp_path: Path) -> None:
    hub = filled(open_hub)
    hub.search("pdf")
    adapter = SqliteKnowledgeAdapter(SqliteSettings(path=str(tmp_path / "hub.db")))
    assert adapter.check() == ()
    adapter.repair()
    adapter.dispose()
    assert hub.search("camelot").count == 1
