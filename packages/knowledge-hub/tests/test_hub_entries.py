"""What is saved, and what is said of it."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hub_bench import Clock, Model, OpenHub
from knowledge_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    KnowledgeError,
    NotFoundError,
    NotSupportedError,
    ReadOnlyError,
    UnavailableError,
)
from knowledge_hub.entries import EntryUpdate, Feedback, NewEntry, quality_score

NEW = NewEntry(
    scenario="Read tables out of a PDF",
    content="Use pdfplumber.",
    tags_type=("tool", "usecase"),
    urls=("https://example.com",),
    score=4,
    message_id="msg-1",
)


def test_a_saved_entry_is_the_record_that_was_asked_for(open_hub: OpenHub) -> None:
    hub = open_hub(random_hex=lambda: "a1b2")
    entry = hub.save(NEW, who="crawler")
    assert entry.model_dump(mode="json") == {
        "id": "knowledge-20260305-a1b2",
        "message_id": "msg-1",
        "tags": {"type": ["tool", "usecase"]},
        "scenario": "Read tables out of a PDF",
        "content": "Use pdfplumber.",
        "source": {
            "urls": ["https://example.com"],
            "agent_id": "research_agent",
            "timestamp": "2026-03-05T12:01:00",
            "token_agent": "crawler",
        },
        "eval": {"score": 4, "helpful": 0, "harmful": 0, "helpful_history": [], "harmful_history": []},
        "metrics": {"helpful": 0, "harmful": 0},
        "created_at": "2026-03-05 12:01:00",
        "updated_at": "2026-03-05 12:01:00",
        "version": 1,
        "status": "active",
        "superseded_by": "",
    }
    assert hub.get(entry.id) == entry
    assert open_hub().get(entry.id) == entry


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"score": 0}, "greater than or equal to 1"),
        ({"score": 6}, "less than or equal to 5"),
        ({"score": 3.5}, "int"),
        ({"score": True}, "int"),
        ({"tags_type": ["tool", "rumour"]}, "'tool', 'usecase', 'definition', 'plan' or 'strategy'"),
        ({"content": "  \n"}, "say something"),
        ({"scenario": ""}, "say something"),
        ({"content": "half \ud83d"}, "surrogate"),
        ({"urls": ["x" * 5_000]}, "at most 4000"),
        ({"colour": "red"}, "Extra"),
    ],
)
def test_what_cannot_be_an_entry_is_refused_with_a_reason(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        NewEntry.model_validate({"scenario": "S", "content": "C"} | wrong)


def test_an_id_that_comes_twice_is_drawn_again(open_hub: OpenHub) -> None:
    drawn = iter(["a1b2", "a1b2", "a1b2", "c3d4"])
    hub = open_hub(random_hex=lambda: next(drawn))
    assert hub.save(NEW).id == "knowledge-20260305-a1b2"
    assert hub.save(NEW).id == "knowledge-20260305-c3d4"


def test_a_source_of_chance_that_is_stuck_ends_in_an_error(open_hub: OpenHub) -> None:
    hub = open_hub(random_hex=lambda: "a1b2")
    hub.save(NEW)
    with pytest.raises(ConflictError):
        hub.save(NEW)


def test_the_same_key_saves_once(open_hub: OpenHub) -> None:
    hub = open_hub()
    first = hub.save(NEW, key="k1")
    assert hub.save(NEW, key="k1").id == first.id
    assert hub.save(NEW, key="k2").id != first.id
    with pytest.raises(ConflictError, match="something else"):
        hub.save(NEW.model_copy(update={"score": 1}), key="k1")
    assert hub.status()["entries"] == 2
    with pytest.raises(InvalidArgumentError):
        hub.save(NEW, key="line\nbreak")


def test_feedback_is_counted_for_the_content_and_for_good(open_hub: OpenHub) -> None:
    hub = open_hub(routing=Model(lambda *_: {"content": "Use camelot."}))
    entry = hub.save(NEW)
    hub.update(entry.id, EntryUpdate(add_helpful_case={"case_id": "1", "scenario": "s", "result": "r"}))
    rated = hub.update(entry.id, EntryUpdate(add_harmful_case={"case_id": "2"}, update_score=5))
    assert (rated.eval.score, rated.eval.helpful, rated.eval.harmful) == (5, 1, 1)
    evolved = hub.update(entry.id, EntryUpdate(evolve_feedback="It fails on scans."))
    assert evolved.content == "Use camelot."
    assert (evolved.eval.helpful, evolved.eval.harmful, evolved.eval.score) == (0, 0, 5)
    assert (evolved.metrics.helpful, evolved.metrics.harmful) == (1, 1)
    assert [case["case_id"] for case in evolved.eval.helpful_history] == ["1"]
    assert [case["case_id"] for case in evolved.eval.harmful_history] == ["2"]
    again = hub.update(entry.id, EntryUpdate(add_helpful_case={"case_id": "3"}))
    assert (again.eval.helpful, again.metrics.helpful) == (1, 2)
    assert [one.score for one in hub.ratings(entry.id)] == [4, 5]
    hub.update(entry.id, EntryUpdate(evolve_feedback="More."), who="somebody")
    assert hub.ratings(entry.id)[0].who == "research_agent"


def test_an_earlier_content_comes_back_with_its_feedback(open_hub: OpenHub) -> None:
    hub = open_hub(routing=Model(lambda *_: {"content": "Second."}))
    entry = hub.save(NEW)
    hub.update(entry.id, EntryUpdate(add_harmful_case={"case_id": "1"}))
    hub.update(entry.id, EntryUpdate(evolve_feedback="Better."))
    hub.update(entry.id, EntryUpdate(add_helpful_case={"case_id": "2"}))
    back = hub.revert(entry.id, 1, who="me")
    assert (back.content, back.version, back.eval.helpful, back.eval.harmful) == ("Use pdfplumber.", 3, 0, 1)
    assert open_hub().search("pdfplumber").results[0].id == entry.id
    assert not open_hub().search("second").results
    history = hub.history(entry.id)
    assert [(one.version, one.content_of, one.who) for one in history] == [
        (1, 1, "research_agent"),
        (2, 2, ""),
        (3, 1, "me"),
    ]
    assert [one.why for one in history] == ["saved", "evolved: Better.", "reverted: to version 1"]
    assert history[0].diff == ""
    assert "-Use pdfplumber.\n+Second." in history[1].diff
    with pytest.raises(ConflictError):
        hub.revert(entry.id, 1)
    with pytest.raises(NotFoundError, match="from 1 to 3"):
        hub.revert(entry.id, 9)


def test_a_retired_entry_is_not_found_until_it_is_restored(open_hub: OpenHub) -> None:
    hub = open_hub()
    entry = hub.save(NEW)
    hub.update(entry.id, EntryUpdate(add_helpful_case={"case_id": "1"}))
    assert hub.search("pdf").count == 1
    retired = hub.retire(entry.id, who="me", why="It is outdated.")
    assert (retired.status, retired.version, retired.eval.helpful) == ("retired", 2, 1)
    assert hub.search("pdf").count == 0
    assert hub.listed() == ()
    assert hub.listed(status=None)[0].id == entry.id
    with pytest.raises(ConflictError, match="is retired"):
        hub.retire(entry.id)
    assert hub.restore(entry.id).status == "active"
    assert hub.search("pdf").count == 1
    assert [one.why for one in hub.history(entry.id)] == ["saved", "retired: It is outdated.", "restored"]
    with pytest.raises(ConflictError):
        hub.restore(entry.id)
    with pytest.raises(ConflictError):
        hub.revert(entry.id, 1)


def test_an_update_that_says_nothing_is_refused(open_hub: OpenHub) -> None:
    hub = open_hub()
    with pytest.raises(InvalidArgumentError, match="add_helpful_case"):
        hub.update(hub.save(NEW).id, EntryUpdate(evolve_feedback="  "))


def test_the_same_key_counts_once(open_hub: OpenHub) -> None:
    hub = open_hub()
    entry = hub.save(NEW)
    update = EntryUpdate(add_helpful_case={"case_id": "1"})
    for _ in range(3):
        found = hub.update(entry.id, update, key="once")
    assert found.eval.helpful == 1
    batch = [Feedback(knowledge_id=entry.id, is_effective=False)] * 2
    answer = hub.batch_update(batch, key="b")
    assert answer.updated == 2
    assert hub.batch_update(batch, key="b") == answer
    assert hub.get(entry.id).eval.harmful == 2


def test_a_repeat_under_the_same_key_does_what_failed_the_first_time_and_nothing_twice(open_hub: OpenHub) -> None:
    down = UnavailableError("down", mend="Wait.")
    written = iter([down, {"content": "Second."}, down, {"content": "Third."}])

    def answer(*_: object) -> object:
        found = next(written)
        if isinstance(found, Exception):
            raise found
        return found

    hub = open_hub(routing=Model(answer))
    entry = hub.save(NEW)
    update = EntryUpdate(add_helpful_case={"case_id": "1"}, evolve_feedback="Better.")
    with pytest.raises(UnavailableError):
        hub.update(entry.id, update, key="k")
    for _ in range(2):
        found = hub.update(entry.id, update, key="k")
        assert (found.content, found.version, found.metrics.helpful) == ("Second.", 2, 1)
    batch = [Feedback(knowledge_id=entry.id, is_effective=False, feedback="Better still.")]
    assert hub.batch_update(batch, key="b").failed[0].code == "unavailable"
    for _ in range(2):
        assert hub.batch_update(batch, key="b").evolved == (entry.id,)
    found = hub.get(entry.id)
    assert (found.content, found.version, found.metrics.harmful) == ("Third.", 3, 1)
    with pytest.raises(ConflictError, match="something else"):
        hub.update(entry.id, EntryUpdate(evolve_feedback="Other."), key="k")


def test_without_a_model_feedback_counts_and_nothing_is_rewritten(open_hub: OpenHub) -> None:
    hub = open_hub()
    entry = hub.save(NEW)
    with pytest.raises(NotSupportedError, match="KNOWLEDGE_HUB_MODEL"):
        hub.update(entry.id, EntryUpdate(add_harmful_case={}, evolve_feedback="Better."))
    assert hub.get(entry.id).eval.harmful == 1
    assert hub.get(entry.id).version == 1


@pytest.mark.parametrize("failure", [UnavailableError("slow", mend="Wait."), NotSupportedError("no", mend="Ask.")])
def test_a_model_that_fails_changes_nothing(open_hub: OpenHub, failure: KnowledgeError) -> None:
    def fails(*_: object) -> object:
        raise failure

    hub = open_hub(routing=Model(fails))
    entry = hub.save(NEW)
    with pytest.raises(type(failure)):
        hub.update(entry.id, EntryUpdate(evolve_feedback="Better."))
    assert hub.get(entry.id) == entry


@pytest.mark.parametrize("written", ["   ", "\n"])
def test_a_model_that_writes_nothing_changes_nothing(open_hub: OpenHub, written: str) -> None:
    hub = open_hub(routing=Model(lambda *_: {"content": written}))
    entry = hub.save(NEW)
    with pytest.raises(KnowledgeError, match="nothing"):
        hub.update(entry.id, EntryUpdate(evolve_feedback="Better."))
    assert hub.get(entry.id).content == entry.content


def test_what_is_written_while_a_model_writes_is_not_lost(open_hub: OpenHub) -> None:
    other = open_hub()
    entry = other.save(NEW)
    calls = []

    def answer(prompt: str, _: object) -> object:
        calls.append(prompt)
        other.update(entry.id, EntryUpdate(add_helpful_case={"case_id": str(len(calls))}))
        if len(calls) == 1:
            open_hub(routing=Model(lambda *_: {"content": "Between."})).update(
                entry.id, EntryUpdate(evolve_feedback="Meanwhile.")
            )
        return {"content": f"Written {len(calls)}."}

    evolved = open_hub(routing=Model(answer)).update(entry.id, EntryUpdate(evolve_feedback="Better."))
    assert "Between." in calls[1]
    assert evolved.content == "Written 2."
    assert [one.content for one in other.history(entry.id)] == ["Use pdfplumber.", "Between.", "Written 2."]
    assert evolved.metrics.helpful == 2
    assert evolved.eval.helpful == 0


def test_an_entry_that_changes_again_and_again_is_left_to_the_others(open_hub: OpenHub) -> None:
    other = open_hub(routing=Model(lambda *_: {"content": "Other."}))
    entry = other.save(NEW)

    def answer(*_: object) -> object:
        other.update(entry.id, EntryUpdate(evolve_feedback="Meanwhile."))
        return {"content": "Mine."}

    with pytest.raises(ConflictError):
        open_hub(routing=Model(answer)).update(entry.id, EntryUpdate(evolve_feedback="Better."))
    assert other.get(entry.id).content == "Other."


def test_many_feedbacks_at_once_name_the_ids_that_there_are_not(open_hub: OpenHub) -> None:
    hub = open_hub(routing=Model(lambda *_: {"content": "Evolved."}))
    one, other = hub.save(NEW), hub.save(NEW)
    answer = hub.batch_update(
        [
            Feedback(knowledge_id=one.id, is_effective=True),
            Feedback(knowledge_id="knowledge-none", is_effective=True),
            Feedback(knowledge_id=other.id, is_effective=False, feedback="It is wrong."),
        ]
    )
    assert (answer.updated, answer.unknown, answer.evolved, answer.failed) == (2, ("knowledge-none",), (other.id,), ())
    assert hub.get(one.id).eval.helpful == 1
    assert hub.get(other.id).content == "Evolved."
    assert hub.get(other.id).metrics.harmful == 1
    failing = open_hub().batch_update([Feedback(knowledge_id=one.id, is_effective=True, feedback="More.")])
    assert failing.updated == 1
    assert [(each.id, each.code) for each in failing.failed] == [(one.id, "not-supported")]
    with pytest.raises(InvalidArgumentError):
        hub.batch_update([Feedback(knowledge_id=one.id, is_effective=True)] * 1_001)


def test_a_clock_that_goes_back_makes_nothing_younger(open_hub: OpenHub) -> None:
    clock = Clock()
    hub = open_hub(clock=clock)
    entry = hub.save(NEW)
    clock.now = datetime(1999, 1, 1, tzinfo=UTC)
    updated = hub.update(entry.id, EntryUpdate(add_helpful_case={}))
    assert updated.updated_at == entry.updated_at
    assert hub.save(NEW).id.startswith("knowledge-19990101-")


def test_lists_are_cut_at_the_limit_and_go_on_where_they_ended(open_hub: OpenHub) -> None:
    hub = open_hub()
    kinds = ("tool", "plan", "strategy")
    ids = [hub.save(NEW.model_copy(update={"tags_type": (kinds[at % 3],)})).id for at in range(9)]
    assert [one.id for one in hub.listed(limit=4)] == ids[:4:-1]
    assert [one.id for one in hub.listed(limit=4, after=ids[5])] == ids[4:0:-1]
    assert [one.id for one in hub.listed(kinds=("plan",))] == ids[7::-3]
    assert len(hub.listed(kinds=("plan", "tool"))) == 6
    for wrong in (0, 1_001):
        with pytest.raises(InvalidArgumentError):
            hub.listed(limit=wrong)
    with pytest.raises(InvalidArgumentError, match="definition"):
        hub.listed(kinds=("rumour",))  # type: ignore[arg-type]


def test_an_entry_that_is_not_there_is_named(open_hub: OpenHub) -> None:
    hub = open_hub()
    calls = (
        hub.get,
        hub.history,
        hub.ratings,
        hub.delete,
        lambda one: hub.revert(one, 1),
        lambda one: hub.update(one, EntryUpdate(update_score=3)),
        lambda one: hub.listed(after=one),
    )
    for call in calls[:3]:  # before there is a file
        with pytest.raises(NotFoundError, match="knowledge-none"):
            call("knowledge-none")
    hub.save(NEW)
    for call in calls:
        with pytest.raises(NotFoundError, match="knowledge-none"):
            call("knowledge-none")


def test_a_hub_that_is_only_read_says_so(open_hub: OpenHub) -> None:
    hub = open_hub()
    entry = hub.save(NEW)
    reader = open_hub(settings={"read_only": True})
    found = reader.search("pdf")
    assert not found.results  # nobody has put it into the index yet
    assert reader.get(entry.id) == entry
    assert hub.search("pdf").results[0].id == entry.id
    assert reader.search("pdf").results[0].id == entry.id
    with pytest.raises(ReadOnlyError):
        reader.save(NEW)


COUNTING = """
import sys
from knowledge_hub import HubSettings, create_hub, EntryUpdate
hub = create_hub(HubSettings(path=sys.argv[1], routing_model="none", slimming_model="none", busy_timeout_s=120), {})
ids = sys.argv[3:]
for number in range(int(sys.argv[2])):
    case = {"case_id": str(number)}
    update = EntryUpdate(add_helpful_case=case) if number % 3 else EntryUpdate(add_harmful_case=case)
    hub.update(ids[number % len(ids)], update)
"""


def test_processes_that_count_at_once_lose_nothing(open_hub: OpenHub, tmp_path: Path) -> None:
    hub = open_hub()
    ids = [hub.save(NEW).id for _ in range(3)]
    command = [sys.executable, "-c", COUNTING, str(tmp_path / "hub.db"), "60", *ids]
    running = [subprocess.Popen(command) for _ in range(4)]
    assert [each.wait() for each in running] == [0, 0, 0, 0]
    found = [hub.get(one) for one in ids]
    assert sum(one.eval.helpful for one in found) == 4 * 40
    assert sum(one.metrics.harmful for one in found) == 4 * 20
    assert sum(len(one.eval.helpful_history) for one in found) == 4 * 40


@given(st.integers(1, 5), st.integers(0, 50), st.integers(0, 50))
def test_quality_is_the_rating_and_what_speaks_for_and_against(score: int, helpful: int, harmful: int) -> None:
    assert quality_score(score, helpful, harmful) == score + helpful - 2 * harmful
