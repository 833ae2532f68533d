"""Two verdicts on a bundle: whether programs can read it, and whether anything is to be mended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_okf import BundleSerializer, Concept, KnowledgeGraph, validate_bundle

GOOD = "---\nid: {id}\ntitle: T {id}\ntype: concept\ndescription: D.\n---\nbody of {id}\n"


@pytest.fixture
def bundle(tmp_path: Path, clock: Callable[[], datetime]) -> Path:
    concepts = tuple(Concept(id=each, title=each, description="D.", body=f"{each}\n") for each in ("one", "two"))
    BundleSerializer(clock=clock).serialize(KnowledgeGraph(title="T", concepts=concepts), tmp_path)
    return tmp_path


def add(bundle: Path, name: str, text: str, listed: bool = True) -> None:
    path = bundle / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if listed:
        with (bundle / "index.md").open("a") as index:
            index.write(f"* [x]({name})\n")


def codes(bundle: Path, clock: Callable[[], datetime]) -> list[tuple[str, str]]:
    return [(issue.code, issue.path) for issue in validate_bundle(bundle, clock=clock).issues]


def test_a_bundle_in_good_order_is_clean(bundle: Path, clock: Callable[[], datetime]) -> None:
    check = validate_bundle(bundle, clock=clock)
    assert (check.conformant, check.clean, check.concepts) == (True, True, 2)


BROKEN = [
    ("a.md", "no block\n", "frontmatter-missing"),
    ("a.md", "---\ntitle: x\n---\n", "missing-type"),
    ("a.md", "---\ntype: ''\n---\n", "missing-type"),
    ("a.md", "---\ntype: [\n---\n", "frontmatter-missing"),
    ("f/index.md", "---\ntitle: x\n---\n# F\n", "index-form"),
    ("f/index.md", "# F\n\n## Deeper\n", "index-form"),
    ("f/index.md", "text before\n\n# F\n", "index-form"),
    ("f/log.md", "## Yesterday\n\n* x\n", "log-form"),
]


@pytest.mark.parametrize(("name", "text", "code"), BROKEN)
def test_what_breaks_the_format_is_not_conformant(
    bundle: Path, clock: Callable[[], datetime], name: str, text: str, code: str
) -> None:
    add(bundle, name, text)
    check = validate_bundle(bundle, clock=clock)
    assert not check.conformant
    assert (code, name) in codes(bundle, clock)


def with_keys(keys: str) -> str:
    return GOOD.format(id="a").replace("type: concept\n", f"type: concept\n{keys}\n")


UNCLEAN = [
    ("a.md", with_keys("status: odd"), "unknown-status"),
    ("a.md", with_keys("stale_after: '2026-05-04T11:59:00+00:00'"), "stale"),
    ("a.md", with_keys("stale_after: soon"), "invalid-time"),
    ("a.md", with_keys("generated: {by: tool/1}"), "unverified"),
    (
        "a.md",
        with_keys("generated: {by: t, at: '2026-02-01T00:00:00+00:00'}\nverified: {by: 'human:a', at: '2026-01-01'}"),
        "unverified",
    ),
    ("a.md", with_keys("see_also: [gone]"), "dead-link"),
    ("a.md", GOOD.format(id="a").replace("description: D.\n", ""), "empty-description"),
    ("a.md", GOOD.format(id="a").replace("title: T a\n", ""), "missing-title"),
    ("a.md", GOOD.format(id="b"), "id-mismatch"),
    ("A_b.md", GOOD.format(id="A_b"), "invalid-id"),
    ("a.md", GOOD.format(id="a") + "[x](gone.md) [y](/one.md) [z](https://example.org/x.md) [w](#here)\n", "dead-link"),
    ("a.md", GOOD.format(id="a") + "[up](../../etc/passwd)\n", "dead-link"),
    ("z/one.md", GOOD.format(id="one"), "duplicate-id"),
    ("z.md", "---\ntitle: ONE\ntype: x\ndescription: D.\n---\n one \n", "duplicate-concept"),
    ("a.md.proposed", "x", "proposal"),
    ("f/index.md", "# F\n\n* no link\n", "index-item"),
    ("f/log.md", "## 2026-01-01\n\n## 2026-01-02\n", "log-order"),
]


@pytest.mark.parametrize(("name", "text", "code"), UNCLEAN)
def test_what_is_to_be_mended_is_not_clean_and_conformant_all_the_same(
    bundle: Path, clock: Callable[[], datetime], name: str, text: str, code: str
) -> None:
    add(bundle, name, text)
    check = validate_bundle(bundle, clock=clock)
    assert check.conformant
    assert codes(bundle, clock) == [(code, name)]


def test_only_links_that_lead_nowhere_are_dead(bundle: Path, clock: Callable[[], datetime]) -> None:
    add(
        bundle,
        "f/g/a.md",
        GOOD.format(id="a") + "[a](../../one.md) [b](/two.md#x) [c](/f) [d](a.md) [e](/one) [f](/)\n",
    )
    assert codes(bundle, clock) == []


def test_what_nothing_leads_to_is_an_orphan(bundle: Path, clock: Callable[[], datetime]) -> None:
    add(bundle, "a.md", GOOD.format(id="a"), listed=False)
    assert codes(bundle, clock) == [("orphan", "a.md")]


def test_a_verification_of_the_present_text_counts(bundle: Path, clock: Callable[[], datetime]) -> None:
    add(bundle, "a.md", with_keys("generated: {by: t, at: '2026-01-01'}\nverified: [{by: p, at: '2026-01-02'}]"))
    assert codes(bundle, clock) == []


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("", [("okf-version", "index.md")]),
        ('---\nokf_version: "9"\n---\n', [("okf-version", "index.md")]),
        ('---\nokf_version: "0.3"\ntitle: T\nlicense: x\n---\n', []),
        ("---\ntype: bundle\ntitle: T\n---\n", []),
    ],
)
def test_the_root_says_its_version(
    bundle: Path, clock: Callable[[], datetime], head: str, code: list[tuple[str, str]]
) -> None:
    text = (bundle / "index.md").read_text()
    (bundle / "index.md").write_text(head + text[text.index("# T") :])
    assert codes(bundle, clock) == code


def test_a_missing_index_is_no_fault_of_the_format(bundle: Path, clock: Callable[[], datetime]) -> None:
    (bundle / "index.md").unlink()
    check = validate_bundle(bundle, clock=clock)
    assert check.conformant
    assert {issue.code for issue in check.issues} == {"orphan"}


LINES = st.sampled_from(
    [
        "# A",
        "## 2026-01-01",
        "* [x](one.md) - t",
        "* x",
        "---",
        "type: x",
        "text",
        "",
        "[a](b.md)",
        "stale_after: 5",
        "\x00",
    ]
)


@given(st.sampled_from(["index.md", "log.md", "a.md"]), st.lists(LINES, max_size=8).map("\n".join))
def test_no_text_of_any_file_is_a_crash(tmp_path_factory: pytest.TempPathFactory, name: str, text: str) -> None:
    folder = tmp_path_factory.mktemp("b")
    (folder / name).write_text(text)
    for issue in validate_bundle(folder).issues:
        assert issue.mend
        assert issue.path
