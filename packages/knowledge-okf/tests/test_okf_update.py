"""Bundles kept up to date: what persons wrote stays, and only what changed is asked about."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import (
    ConfigurationError,
    ConflictError,
    FetchError,
    NotFoundError,
    ProviderError,
    ReadOnlyError,
    UnavailableError,
)
from knowledge_okf import Knowledge, read_bundle, validate_bundle
from knowledge_okf.kept import KEPT
from knowledge_okf.reading import load_bundle

Make = Callable[..., Knowledge]


@pytest.fixture
def make(clock: Callable[[], datetime]) -> Make:
    return lambda model="none", **how: Knowledge(model, environ={}, clock=clock, **how)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return tmp_path / "place" / "bundle"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def kinds(knowledge: Knowledge) -> dict[str, str]:
    assert knowledge.report is not None
    return {one.path: one.kind for one in knowledge.report.changes if one.kind not in ("index", "log", "kept")}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_bundle_is_made_and_conformant(make: Make, guide: Path, bundle: Path) -> None:
    graph = make().create(guide, bundle)
    assert [one.id for one in graph.concepts] == ["pump-guide", "install", "wiring", "earthing", "alarms"]
    assert read_bundle(bundle) == graph
    check = validate_bundle(bundle)
    assert check.conformant
    assert {issue.code for issue in check.issues} == {"unverified"}
    assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]


def test_without_an_output_nothing_is_written(make: Make, guide: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    assert len(make().create(guide)) == 5
    assert tree(tmp_path) == before


def test_a_bundle_that_is_there_is_not_overwritten(make: Make, guide: Path, bundle: Path) -> None:
    make().create_bundle(guide, bundle)
    before = tree(bundle)
    with pytest.raises(ConflictError, match="knowledge update"):
        make().create(guide, bundle)
    assert tree(bundle) == before


def test_a_folder_without_documents_is_taken_as_it_is(make: Make, guide: Path, bundle: Path) -> None:
    bundle.mkdir(parents=True)
    (bundle / "logo.png").write_bytes(b"x")
    make().create(guide, bundle)
    assert (bundle / "logo.png").exists()


def test_an_update_of_what_did_not_change_writes_nothing(make: Make, guide: Path, bundle: Path, honest: Any) -> None:
    make(honest).create(guide, bundle)
    before, inode, asked = tree(bundle), bundle.stat().st_ino, len(honest.prompts)
    again = make(honest)
    again.update(guide, bundle)
    assert len(honest.prompts) == asked
    assert again.report is not None
    assert again.report.changes == ()
    assert (tree(bundle), bundle.stat().st_ino) == (before, inode)


def test_one_changed_section_is_one_question(make: Make, guide: Path, bundle: Path, honest: Any) -> None:
    make(honest).create(guide, bundle)
    change(guide, "flat base", "level base")
    del honest.prompts[:]
    again = make(honest)
    again.update(guide, bundle)
    assert len(honest.prompts) == 1
    assert kinds(again)["install.md"] == "changed"
    assert "level base" in (bundle / "install.md").read_text()


def test_places_follow_a_source_that_grows(make: Make, guide: Path, bundle: Path, honest: Any) -> None:
    make(honest).create(guide, bundle)
    change(guide, "# Pump guide\n", "# Pump guide\n\nA new beginning.\n")
    again = make(honest)
    again.update(guide, bundle)
    raw = guide.read_bytes()
    for one in read_bundle(bundle).concepts:
        span = one.sources[0].span
        assert span is not None
        assert (one.sources[0].quote or one.title).encode() in raw[span.start : span.end]
    assert kinds(again)["alarms.md"] == "moved"
    assert again.report is not None
    assert "--- alarms.md" not in again.report.diff


def test_what_a_person_changed_stays_and_new_text_lies_beside_it(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    change(bundle / "install.md", "four bolts", "six bolts, says Ann")
    mine = (bundle / "install.md").read_bytes()
    change(guide, "flat base", "level base")
    again = make()
    again.update(guide, bundle)
    assert (bundle / "install.md").read_bytes() == mine
    assert "level base" in (bundle / "install.md.proposed").read_text()
    assert again.report is not None
    assert again.report.proposals == ("install.md.proposed",)
    assert "proposal" in {issue.code for issue in validate_bundle(bundle).issues}
    make().update(guide, bundle)
    assert (bundle / "install.md").read_bytes() == mine


def test_a_proposal_that_is_taken_over_is_no_change_of_a_person(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    change(bundle / "install.md", "four", "six")
    change(guide, "flat base", "level base")
    make().update(guide, bundle)
    (bundle / "install.md.proposed").replace(bundle / "install.md")
    again = make()
    again.update(guide, bundle)
    assert kinds(again) == {}
    change(guide, "level base", "even base")
    make().update(guide, bundle)
    assert "even base" in (bundle / "install.md").read_text()


def test_a_file_that_a_person_wrote_is_never_touched(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    (bundle / "own.md").write_text("---\ntype: note\ntitle: Own\n---\nmine\n")
    (bundle / "plain.md").write_text("no concept\n")
    change(guide, "## Alarms", "## Own\n\nnot that one\n\n## Alarms")
    make().update(guide, bundle, prune=True)
    assert (bundle / "own.md").read_text().endswith("mine\n")
    assert (bundle / "plain.md").read_text() == "no concept\n"
    assert (bundle / "own-1.md").exists()
    assert "(own.md)" in (bundle / "index.md").read_text()


def test_a_file_that_a_person_deleted_stays_away_until_its_section_changes(
    make: Make, guide: Path, bundle: Path
) -> None:
    make().create(guide, bundle)
    (bundle / "alarms.md").unlink()
    make().update(guide, bundle)
    assert not (bundle / "alarms.md").exists()
    assert "alarms" not in (bundle / "index.md").read_text()
    change(guide, "Alarm 7", "Alarm 8")
    make().update(guide, bundle)
    assert "Alarm 8" in (bundle / "alarms.md").read_text()


def without_alarms(guide: Path) -> str:
    text = guide.read_text()
    guide.write_text(text[: text.index("## Alarms")])
    return text


def test_concepts_whose_section_is_gone_are_marked_and_come_back_with_it(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    before = (bundle / "alarms.md").read_bytes()
    text = without_alarms(guide)
    again = make()
    again.update(guide, bundle)
    assert kinds(again) == {"alarms.md": "deprecated"}
    alarms = read_bundle(bundle).get("alarms")
    assert alarms is not None
    assert alarms.status == "deprecated"
    assert "# Deprecated\n\n* [Alarms]" in (bundle / "index.md").read_text()
    make().update(guide, bundle)
    guide.write_text(text)
    again.update(guide, bundle)
    assert kinds(again) == {"alarms.md": "restored"}
    assert (bundle / "alarms.md").read_bytes() == before


def test_what_a_person_deprecated_is_not_restored(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    change(bundle / "alarms.md", "title: Alarms\n", "title: Alarms\nstatus: deprecated\n")
    change(guide, "flat", "level")
    make().update(guide, bundle)
    assert "status: deprecated" in (bundle / "alarms.md").read_text()


def test_pruning_takes_away_what_nobody_changed(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    change(bundle / "earthing.md", "housing", "housing and shield")
    text = guide.read_text()
    guide.write_text(text[: text.index("### Earthing")])
    make().update(guide, bundle, prune=True)
    assert not (bundle / "alarms.md").exists()
    kept = (bundle / "earthing.md").read_text()
    assert "housing and shield" in kept
    assert "status: deprecated" in kept
    assert "alarms" not in (bundle / "pump-guide.md").read_text()
    guide.write_text(text)
    make().update(guide, bundle)
    assert "status" not in (bundle / "earthing.md").read_text()
    assert "housing and shield" in (bundle / "earthing.md").read_text()


def test_a_changed_file_that_cannot_be_marked_is_left_alone(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    raw = (bundle / "alarms.md").read_text()
    section = (
        raw[raw.index("section: ") :].partition("\n    span")[0].replace("\n    section_hash: ", ", section_hash: ")
    )
    mine = f"---\n{{id: alarms, type: concept, title: A, sources: [{{resource: x, {section}}}]}}\n---\nmine\n"
    (bundle / "alarms.md").write_text(mine)
    without_alarms(guide)
    make().update(guide, bundle)
    assert (bundle / "alarms.md").read_text() == mine


def test_a_renamed_heading_moves_the_concept_and_marks_the_old(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    change(guide, "## Alarms", "## Alarms and faults")
    again = make()
    again.update(guide, bundle)
    assert kinds(again)["alarms-and-faults.md"] == "added"
    assert kinds(again)["alarms.md"] == "deprecated"


def test_ids_stay_with_their_sections_when_one_of_the_same_name_comes_before(
    make: Make, tmp_path: Path, bundle: Path
) -> None:
    source = tmp_path / "s.md"
    source.write_text("# G\n\n## A\n\n### Setup\none\n\n## B\n\n### Setup\ntwo\n")
    make().create(source, bundle)
    change(source, "## A\n", "## New\n\n### Setup\nzero\n\n## A\n")
    change(source, "two", "two and more")
    make().update(source, bundle)
    bodies = {one.id: one.body for one in read_bundle(bundle).concepts}
    assert bodies["setup"] == "one\n"
    assert bodies["setup-1"] == "two and more\n"
    assert bodies["setup-2"] == "zero\n"


def test_a_concept_stays_in_its_folder(make: Make, guide: Path, bundle: Path) -> None:
    make(path_map={"pump-guide": "pumps"}).create(guide, bundle)
    assert (bundle / "pumps/install.md").exists()
    change(guide, "flat", "level")
    make().update(guide, bundle)
    assert "level" in (bundle / "pumps/install.md").read_text()
    assert not (bundle / "install.md").exists()


def test_new_text_leads_to_the_files_that_are_there(make: Make, guide: Path, bundle: Path) -> None:
    make(path_map={"pump-guide": "pumps"}).create(guide, bundle)
    assert "[install](/pumps/install.md)" in (bundle / "pumps/wiring.md").read_text()
    change(guide, "Connect the supply", "Connect the mains")
    make().update(guide, bundle)
    assert "mains to terminals 1 and 2. See [install](/pumps/install.md)" in (bundle / "pumps/wiring.md").read_text()
    assert "dead-link" not in {issue.code for issue in validate_bundle(bundle).issues}


def test_a_dry_run_shows_the_text_and_writes_nothing(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    change(guide, "flat base", "level base")
    before = tree(bundle)
    plan = make()
    plan.update(guide, bundle, dry_run=True)
    assert tree(bundle) == before
    assert plan.report is not None
    assert "-Mount the pump on a flat base." in plan.report.diff
    assert "+Mount the pump on a level base." in plan.report.diff
    assert "--- install.md\n+++ install.md\n" in plan.report.diff


def test_answers_of_a_dry_run_are_used_by_the_update(make: Make, guide: Path, bundle: Path, honest: Any) -> None:
    make(honest).create(guide, bundle)
    change(guide, "flat", "level")
    del honest.prompts[:]
    make(honest).update(guide, bundle, dry_run=True)
    make(honest).update(guide, bundle)
    assert len(honest.prompts) == 1
    assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]


def test_replacing_writes_all_anew_and_keeps_only_what_is_no_concept(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    change(bundle / "install.md", "four", "six")
    (bundle / "own.md").write_text("---\ntype: note\n---\n")
    (bundle / "data.csv").write_text("1")
    (bundle / "notes").mkdir()
    (bundle / "notes/mine.md").write_text("x")
    without_alarms(guide)
    again = make()
    again.update(guide, bundle, replace=True)
    assert "four bolts" in (bundle / "install.md").read_text()
    assert not (bundle / "own.md").exists()
    assert not (bundle / "alarms.md").exists()
    assert (bundle / "data.csv").exists()
    assert (bundle / "notes/mine.md").exists()
    assert kinds(again)["alarms.md"] == "removed"
    assert (bundle / "log.md").read_text().count("Creation") == 2


def failing(word: str, error: Exception | None = None) -> Callable[[str], Any]:
    def answer(prompt: str) -> Any:
        text = prompt.partition("\nTEXT\n")[2].partition("\n</source")[0]
        if word in text:
            return error or ProviderError("It refused", mend="Ask otherwise.")
        title = prompt.partition("HEADINGS\n")[2].partition("\n")[0].rpartition(" > ")[2]
        return {"concepts": [{"title": title, "quote": text.split("\n")[0], "description": "D."}]}

    return answer


def test_a_failed_section_is_told_logged_and_asked_about_by_the_next_update(
    make: Make, guide: Path, bundle: Path, stub: Any, honest: Any
) -> None:
    graph = make(stub(failing("Alarm 7"))).create(guide, bundle)
    assert [(one.section, one.code) for one in graph.failed] == [("Pump guide > Alarms", "provider")]
    assert not (bundle / "alarms.md").exists()
    make(honest).update(guide, bundle)
    assert len(honest.prompts) == 1
    assert (bundle / "alarms.md").exists()


def test_nothing_is_marked_as_long_as_a_section_fails(make: Make, guide: Path, bundle: Path, stub: Any) -> None:
    make(stub(failing("nothing"))).create(guide, bundle)
    change(guide, "## Alarms\n\nAlarm 7", "## Faults\n\nFault 7")
    again = make(stub(failing("Fault 7")))
    again.update(guide, bundle, prune=True)
    alarms = read_bundle(bundle).get("alarms")
    assert alarms is not None
    assert alarms.status == "stable"
    assert "not read: Pump guide > Faults" in (bundle / "log.md").read_text()
    make(stub(failing("nothing"))).update(guide, bundle, prune=True)
    assert read_bundle(bundle).get("alarms") is None
    assert read_bundle(bundle).get("faults") is not None


@pytest.mark.parametrize(
    "error",
    [ProviderError("It refused", mend="x"), UnavailableError("Nobody there", mend="x")],
    ids=["refused", "away"],
)
def test_nothing_is_written_when_nothing_could_be_read(
    make: Make, guide: Path, bundle: Path, stub: Any, error: ProviderError
) -> None:
    with pytest.raises(type(error), match="none could be read"):
        make(stub(failing("", error))).create(guide, bundle)
    assert not bundle.exists()


def test_a_source_without_text_changes_nothing(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    guide.write_text("\n")
    before = tree(bundle)
    with pytest.raises(FetchError, match="holds no text"):
        make().update(guide, bundle)
    assert tree(bundle) == before


def test_a_file_saved_while_the_model_thinks_is_not_lost(make: Make, guide: Path, bundle: Path, stub: Any) -> None:
    make().create(guide, bundle)
    change(guide, "flat", "level")

    def answer(prompt: str) -> Any:
        (bundle / "wiring.md").write_text("saved meanwhile")
        return failing("nothing")(prompt)

    with pytest.raises(ConflictError, match="meanwhile"):
        make(stub(answer)).update(guide, bundle)
    assert (bundle / "wiring.md").read_text() == "saved meanwhile"
    assert "flat" in (bundle / "install.md").read_text()


def test_an_index_that_a_person_changed_stays(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    mine = (bundle / "index.md").read_text() + "\n# Mine\n\n* [Install](install.md) - first!\n"
    (bundle / "index.md").write_text(mine)
    make().update(guide, bundle)
    assert not (bundle / "index.md.proposed").exists()
    change(guide, "## Alarms", "## Spares\n\nGaskets.\n\n## Alarms")
    make().update(guide, bundle)
    assert (bundle / "index.md").read_text() == mine
    assert "spares.md" in (bundle / "index.md.proposed").read_text()


def test_a_bundle_of_the_older_form_gets_proposals_and_new_indexes(make: Make, guide: Path, bundle: Path) -> None:
    bundle.mkdir(parents=True)
    (bundle / "install.md").write_text("---\nid: install\ntitle: Install\ntype: concept\nsource: G\n---\nold\n")
    (bundle / "index.md").write_text("---\ntype: bundle\ntitle: G\n---\n")
    make().update(guide, bundle)
    assert (bundle / "install.md").read_text().endswith("old\n")
    assert "four bolts" in (bundle / "install.md.proposed").read_text()
    assert 'okf_version: "0.2"' in (bundle / "index.md").read_text()
    assert (bundle / "wiring.md").exists()


def test_without_its_notes_a_bundle_is_updated_as_well(make: Make, guide: Path, bundle: Path, honest: Any) -> None:
    make(honest).create(guide, bundle)
    (bundle / KEPT).unlink()
    change(guide, "flat", "level")
    del honest.prompts[:]
    make(honest).update(guide, bundle)
    assert len(honest.prompts) == 1


def test_no_bundle_cannot_be_updated(make: Make, guide: Path, bundle: Path) -> None:
    for folder in (bundle, bundle / "deeper" / "still"):
        with pytest.raises(NotFoundError):
            make().update(guide, folder)
        with pytest.raises(NotFoundError):
            make().remove_with_unknowns(["x"], folder)
    assert not bundle.parent.exists()


def test_removing_takes_files_and_links_and_names_unknown_ids(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    left, unknown = make().remove_with_unknowns(["alarms", "nope", "/earthing.md", "nope"], bundle)
    assert (left, unknown) == (3, ("nope",))
    assert sorted(path.name for path in bundle.glob("*.md")) == sorted(
        ["index.md", "log.md", "pump-guide.md", "install.md", "wiring.md"]
    )
    assert "alarms" not in (bundle / "pump-guide.md").read_text()
    assert "Removal" in (bundle / "log.md").read_text()
    assert {issue.code for issue in validate_bundle(bundle).issues} == {"unverified"}
    make().update(guide, bundle)
    assert not (bundle / "alarms.md").exists()


def test_removing_leaves_files_alone_that_persons_changed(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    change(bundle / "pump-guide.md", "See also: ", "See also, all of you: ")
    mine = (bundle / "pump-guide.md").read_bytes()
    make().remove(["alarms"], bundle)
    assert (bundle / "pump-guide.md").read_bytes() == mine
    assert "dead-link" in {issue.code for issue in validate_bundle(bundle).issues}


def test_removing_takes_the_proposal_along(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    change(bundle / "install.md", "four", "six")
    change(guide, "flat", "level")
    make().update(guide, bundle)
    make().remove(["install"], bundle)
    assert not list(bundle.glob("install*"))


def test_removing_what_is_not_there_changes_nothing(make: Make, guide: Path, bundle: Path) -> None:
    make().create(guide, bundle)
    before = tree(bundle)
    with pytest.raises(NotFoundError, match="'nope'"):
        make().remove(["alarms", "nope"], bundle)
    assert make().remove_with_unknowns(["nope"], bundle) == (5, ("nope",))
    assert tree(bundle) == before


def test_a_bundle_that_may_not_be_written_is_as_it_was(make: Make, guide: Path, bundle: Path, monkeypatch: Any) -> None:
    make().create(guide, bundle)
    before = tree(bundle)
    change(guide, "flat", "level")
    # Root may write anything, so the answer of the system stands in for its rules.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ReadOnlyError):
        make().update(guide, bundle)
    assert tree(bundle) == before
    assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]


@pytest.mark.parametrize(("model", "problem"), [("", "No model"), ("nothing:there", "no model")])
def test_a_model_that_is_none_is_told(make: Make, guide: Path, model: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make(model).create(guide)


def test_the_model_is_that_of_the_environment(guide: Path) -> None:
    assert len(Knowledge(environ={"KNOWLEDGE_DEFAULT_MODEL": "None"}).create(guide)) == 5
    assert Knowledge("none").settings.max_retries >= 0


SECTIONS = st.lists(
    st.tuples(st.sampled_from(["A", "B", "C", "Setup"]), st.sampled_from(["one.", "two.", "three."])),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25)
@given(st.lists(SECTIONS, min_size=2, max_size=4), st.booleans(), st.data())
def test_whatever_a_source_becomes_persons_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, versions: list[list[tuple[str, str]]], prune: bool, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("any")
    source, bundle = folder / "s.md", folder / "b"
    knowledge = Knowledge("none", environ={})
    mine: dict[Path, str] = {}
    for number, sections in enumerate(versions):
        source.write_text("".join(f"## {title}\n\n{text}\n\n" for title, text in sections))
        if number:
            knowledge.update(source, bundle, prune=prune)
        else:
            knowledge.create(source, bundle)
        for path, words in mine.items():
            assert words in path.read_text()
        graph = read_bundle(bundle)
        live = [one for one in graph.concepts if one.status != "deprecated"]
        assert len(live) >= len(set(sections)) - len(mine)
        assert validate_bundle(bundle).conformant
        path = bundle / data.draw(st.sampled_from([one.path for one in graph.concepts]))
        words = f"words of a person {number}"
        path.write_text(path.read_text() + words)
        mine[path] = mine.get(path, words)
    assert len(load_bundle(bundle).broken) == 0
