"""Near duplicates are found, merged so that nothing is lost, and taken apart again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub_bench import Model, OpenHub
from knowledge_engine.errors import ConflictError, NotFoundError, UnavailableError
from knowledge_hub.entries import EntryUpdate, NewEntry
from knowledge_hub.service import HubService
from knowledge_hub.similarity import Bands, Groups, shingles, similarity

GOLDEN = [json.loads(line) for line in Path(__file__, "..", "golden_entries.jsonl").resolve().read_text().splitlines()]


def save(hub: HubService, scenario: str, content: str, **given: object) -> str:
    return hub.save(NewEntry.model_validate({"scenario": scenario, "content": content} | given)).id


def twins(hub: HubService) -> tuple[str, str]:
    text = "Use pdfplumber and its extract_tables, page by page, and join what goes on overleaf."
    one = save(hub, "Read tables out of a PDF", text, urls=("https://a.example",), tags_type=("tool",), score=4)
    other = save(
        hub, "Read tables out of a PDF", f"{text} It works.", urls=("https://b.example",), tags_type=("usecase",)
    )
    return one, other


def test_a_plan_changes_nothing_and_a_merge_keeps_sources_cases_and_counts(open_hub: OpenHub) -> None:
    hub = open_hub()
    one, other = twins(hub)
    save(hub, "Choose a database", "Use SQLite where one file is enough, and PostgreSQL else.")
    hub.update(other, EntryUpdate(add_helpful_case={"case_id": "1"}))
    hub.update(one, EntryUpdate(add_harmful_case={"case_id": "2"}))
    hub.update(one, EntryUpdate(add_helpful_case={"case_id": "3"}))
    before = list(hub.export())
    plan = hub.plan_slim()
    assert list(hub.export()) == before
    [merge] = plan.merges
    assert (plan.entries, {merge.keep, *merge.merged}) == (3, {one, other})
    answer = hub.apply_slim(plan, who="tidy")
    assert (answer.before, answer.after, answer.skipped) == (3, 2, ())
    kept = hub.get(merge.keep)
    assert set(kept.source.urls) == {"https://a.example", "https://b.example"}
    assert set(kept.tags.type) == {"tool", "usecase"}
    assert (kept.eval.helpful, kept.eval.harmful, kept.eval.score) == (2, 1, 4)
    assert (kept.metrics.helpful, kept.metrics.harmful) == (2, 1)
    assert {case["case_id"] for case in kept.eval.helpful_history} == {"1", "3"}
    gone = hub.get(merge.merged[0])
    assert (gone.status, gone.superseded_by) == ("superseded", merge.keep)
    assert [each.id for each in hub.search("pdf").results] == [merge.keep]
    assert [each.who for each in hub.merges()] == ["tidy"]


def test_a_merge_is_undone_as_if_it_had_not_been(open_hub: OpenHub) -> None:
    hub = open_hub()
    one, other = twins(hub)
    hub.update(other, EntryUpdate(add_helpful_case={"case_id": "1"}))
    hub.update(one, EntryUpdate(add_harmful_case={"case_id": "2"}))
    before = {each: hub.get(each) for each in (one, other)}
    [merged] = hub.apply_slim(hub.plan_slim()).applied
    hub.undo_merge(merged.merge_id, who="me")
    for each, was in before.items():
        now = hub.get(each)
        changed = {"version": was.version, "updated_at": was.updated_at}
        assert now.model_copy(update=changed) == was
    assert {each.id for each in hub.search("pdf").results} == {one, other}
    assert hub.merges()[0].undone
    with pytest.raises(ConflictError):
        hub.undo_merge(merged.merge_id)
    with pytest.raises(NotFoundError):
        hub.undo_merge(99)


def test_a_merged_entry_that_says_something_else_by_now_is_not_taken_apart(open_hub: OpenHub) -> None:
    hub = open_hub(routing=Model(lambda *_: {"content": "Else."}))
    twins(hub)
    [merged] = hub.apply_slim(hub.plan_slim()).applied
    hub.update(merged.keep, EntryUpdate(evolve_feedback="Say else."))
    with pytest.raises(ConflictError, match="after the merge"):
        hub.undo_merge(merged.merge_id)
    hub.revert(merged.keep, 2)
    with pytest.raises(ConflictError):
        hub.undo_merge(merged.merge_id)


def test_what_changed_since_the_plan_is_left_alone(open_hub: OpenHub) -> None:
    hub = open_hub(routing=Model(lambda *_: {"content": "Else."}))
    one, other = twins(hub)
    plan = hub.plan_slim()
    hub.update(other, EntryUpdate(evolve_feedback="Say else."))
    answer = hub.apply_slim(plan)
    assert answer.applied == ()
    assert len(answer.skipped) == 1
    hub.delete(one)
    assert len(hub.apply_slim(plan).skipped) == 1


def test_a_plan_is_applied_once_and_only_what_was_chosen_of_it(open_hub: OpenHub) -> None:
    hub = open_hub()
    twins(hub)
    plan = hub.plan_slim()
    assert hub.apply_slim(plan, chosen=("knowledge-other",)).applied == ()
    assert len(hub.apply_slim(plan, chosen=(plan.merges[0].keep,)).applied) == 1
    again = hub.apply_slim(plan)
    assert (again.applied, len(again.skipped)) == ((), 1)


def test_what_an_entry_stood_for_is_active_again_when_it_is_deleted(open_hub: OpenHub) -> None:
    hub = open_hub()
    _, other = twins(hub)
    hub.update(other, EntryUpdate(add_helpful_case={"case_id": "1"}))
    before = {each.id: hub.get(each.id) for each in hub.listed()}
    [merged] = hub.apply_slim(hub.plan_slim()).applied
    hub.delete(merged.keep)
    back = hub.get(merged.merged[0])
    assert back.status == "active"
    assert back.eval == before[back.id].eval
    assert [each.id for each in hub.search("pdf").results] == [back.id]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Set the timeout to 30 seconds before the first call.",
            "Set the timeout to 60 seconds before the first call.",
        ),
        ("Restart the service after each change of a key.", "Do not restart the service after each change of a key."),
    ],
)
def test_entries_that_contradict_each_other_stay_apart(open_hub: OpenHub, one: str, other: str) -> None:
    hub = open_hub()
    tail = " This holds for the pump, the valve and the boiler alike, in every plant that we have seen so far."
    save(hub, "Set up the service", one + tail * 3)
    save(hub, "Set up the service", other + tail * 3)
    assert hub.plan_slim().merges == ()


def test_entries_with_few_words_are_compared_by_all_of_them(open_hub: OpenHub) -> None:
    hub = open_hub()
    same = {save(hub, "Water", "水温"), save(hub, "Water", "水温")}
    save(hub, "!?", "...")
    save(hub, "??", "---")
    plan = hub.plan_slim()
    assert [{each.keep, *each.merged} for each in plan.merges] == [same]


# A model


def proposing(sets: Any) -> Model:
    return Model(lambda *_: {"sets": sets})


def test_a_model_says_what_is_the_same_and_writes_what_stands_for_it(open_hub: OpenHub) -> None:
    plain = open_hub()
    one, other = twins(plain)
    model = proposing([{"ids": [other, one], "types": ["tool"], "scenario": "PDF tables", "content": "Both."}])
    hub = open_hub(slimming=model)
    [merge] = hub.plan_slim().merges
    assert (merge.keep, merge.merged, merge.content, merge.by) == (one, (other,), "Both.", "fake:model")
    hub.apply_slim(hub.plan_slim())
    assert hub.get(one).content == "Both."
    assert model.prompts[0].split("\n").count("END DATA") == 1


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        (["{one}", "knowledge-invented"], "not in the group"),
        (["{one}", "{one}"], "twice"),
        (["{one}"], "with nothing"),
        ([], "with nothing"),
    ],
)
def test_a_set_with_invented_or_lost_ids_is_dropped_alone(open_hub: OpenHub, ids: list[str], why: str) -> None:
    plain = open_hub()
    one, other = twins(plain)
    third = save(plain, "Read tables out of a PDF", plain.get(one).content)
    written = {"types": [], "scenario": "S", "content": "C"}
    wrong = {"ids": [each.format(one=one) for each in ids], **written}
    plan = open_hub(slimming=proposing([wrong, {"ids": [other, third], **written}])).plan_slim()
    assert [{each.keep, *each.merged} for each in plan.merges] == [{other, third}]
    assert len(plan.dropped) == 1
    assert why in plan.dropped[0]


def test_a_model_is_shown_what_has_the_same_words_in_another_order(open_hub: OpenHub) -> None:
    plain = open_hub()
    one = save(plain, "Rows of a PDF", "Take pdfplumber; extract_tables gives rows; join rows that overflow.")
    other = save(plain, "PDF: its rows", "Rows that overflow: join. Rows come from extract_tables. pdfplumber it is.")
    save(plain, "Choose a database", "SQLite where one file is enough.")
    assert plain.plan_slim().merges == ()
    model = proposing([{"ids": [one, other], "types": ["tool"], "scenario": "PDF rows", "content": "Both."}])
    [merge] = open_hub(slimming=model).plan_slim().merges
    assert {merge.keep, *merge.merged} == {one, other}
    assert "database" not in model.prompts[0]


def test_a_model_that_fails_proposes_nothing(open_hub: OpenHub) -> None:
    def fails(*_: object) -> object:
        raise UnavailableError("slow", mend="Wait.")

    hub = open_hub(slimming=Model(fails))
    twins(hub)
    plan = hub.plan_slim()
    assert (plan.merges, len(plan.dropped)) == ((), 1)
    assert len(hub.plan_slim(model="none").merges) == 1


# How much is found


def changed(text: str, draw: random.Random) -> str:
    """The same, said a little otherwise: a word left out, one doubled, other case and signs."""
    words = text.split()
    plain = [at for at, word in enumerate(words) if word.isalpha() and len(word) > 4]
    if plain:
        del words[draw.choice(plain)]
    words[draw.randrange(len(words))] += ","
    return " ".join(words).replace(". ", " - ") if draw.random() < 0.5 else " ".join(words).upper()


def test_nearly_all_seeded_duplicates_are_found_and_no_others(open_hub: OpenHub) -> None:
    hub = open_hub()
    draw = random.Random(5)
    pairs = set()
    for number, one in enumerate(GOLDEN):
        first = save(hub, one["scenario"], one["content"])
        if number % 2 == 0:
            pairs.add(frozenset((first, save(hub, one["scenario"], changed(one["content"], draw)))))
    found = {frozenset((each.keep, other)) for each in hub.plan_slim().merges for other in each.merged}
    assert found <= pairs
    assert len(found) >= 0.95 * len(pairs)


words = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=30).map(" ".join)


@given(words, words)
def test_similarity_is_even_and_between_nothing_and_all(one: str, other: str) -> None:
    first, second = (shingles(NewEntry(scenario=text, content=text)) for text in (one, other))  # type: ignore[arg-type]
    assert similarity(first, second) == similarity(second, first)
    assert 0 <= similarity(first, second) <= similarity(first, first) == 1


def test_entries_that_are_the_same_meet_once_and_others_never() -> None:
    bands = Bands()
    assert list(bands.near()) == []
    same = frozenset(range(50))
    for number, found in enumerate(
        (same, frozenset(range(1_000, 1_050)), same, frozenset[int](), frozenset[int](), same)
    ):
        bands.add(number, found)
    assert list(bands.near()) == [(0, 2), (0, 5), (2, 5)]


def test_very_many_that_are_the_same_are_all_brought_together() -> None:
    bands, groups = Bands(), Groups()
    for number in range(300):
        bands.add(number, frozenset(range(50)))
    pairs = list(bands.near())
    assert len(pairs) < 300 * 10
    for one, other in pairs:
        groups.join(one, other)
    assert list(groups.of(range(300))) == [list(range(300))]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=30))
def test_groups_hold_what_was_joined_however_far(pairs: list[tuple[int, int]]) -> None:
    groups = Groups()
    members = {one: {one} for one in range(21)}
    for one, other in pairs:
        groups.join(one, other)
        together = members[one] | members[other]
        for each in together:
            members[each] = together
    wanted = sorted({tuple(sorted(each)) for each in members.values() if len(each) > 1})
    assert sorted(map(tuple, groups.of(range(21)))) == wanted


def test_a_set_for_which_a_model_writes_nothing_is_dropped(open_hub: OpenHub) -> None:
    plain = open_hub()
    ids = list(twins(plain))
    wrong = {"ids": ids, "types": [], "scenario": " ", "content": "C"}
    plan = open_hub(slimming=proposing([wrong])).plan_slim()
    assert plan.merges == ()
    assert "wrote nothing" in plan.dropped[0]


def test_a_group_that_is_too_large_for_a_prompt_is_shown_in_parts(open_hub: OpenHub) -> None:
    plain = open_hub()
    for _ in range(15):
        save(plain, "Read a PDF", "Use pdfplumber and its extract_tables, page by page.")
    model = Model(lambda *_: {"sets": []})
    assert open_hub(slimming=model).plan_slim().merges == ()
    assert [prompt.count('"id"') for prompt in model.prompts] == [12, 3]
