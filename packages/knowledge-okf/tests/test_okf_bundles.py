"""Bundles on the disk: what is written is read again, whatever else lies there, and whoever wrote it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import ConfigurationError, ConflictError, InvalidArgumentError, NotFoundError
from knowledge_engine.models import ByteSpan, Query
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_okf import BundleSerializer, Concept, KnowledgeGraph, SourceRef, Stamp, read_bundle, validate_bundle
from knowledge_okf.concept_files import SEE_ALSO, is_edited, read_concept, render
from knowledge_okf.indexes import Listed, log_entry, named, render_indexes
from knowledge_okf.kept import KEPT, Kept, read_kept, render_kept
from knowledge_okf.models import Extra, as_extra, from_extra
from knowledge_okf.reading import load_bundle
from knowledge_okf.serializer import finder

TEXT = st.text(max_size=40)
IDS = st.from_regex(r"[a-z][a-z0-9-]{0,15}", fullmatch=True).filter(lambda one: one not in ("index", "log"))
JSON = st.recursive(
    st.booleans() | TEXT | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
EXTRA = st.dictionaries(st.sampled_from(["owner", "two words", "x-y", "ä", "superseded_by"]), JSON, max_size=3).map(
    as_extra
)
SPANS = st.builds(lambda at, size: ByteSpan(start=at, end=at + size), st.integers(0, 99), st.integers(0, 99))
STAMPS = st.builds(Stamp, by=TEXT, at=TEXT)
SOURCES = st.builds(
    SourceRef, resource=TEXT, id=TEXT, title=TEXT, section=TEXT, section_hash=TEXT, quote=TEXT, span=st.none() | SPANS
)
FOLDERS = st.sampled_from(["", "a", "a/b", "two words", "ä"])


def several(what: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(what, max_size=3).map(tuple)


CONCEPTS = st.builds(
    Concept,
    id=IDS,
    title=TEXT,
    type=TEXT.filter(str.strip),
    description=TEXT,
    tags=several(TEXT),
    body=st.text(max_size=200) | st.just(SEE_ALSO) | st.just(f"{SEE_ALSO}[a](/a.md)\n"),
    folder=FOLDERS,
    source=TEXT,
    source_url=TEXT,
    resource=TEXT,
    see_also=several(IDS),
    sources=several(SOURCES),
    generated=st.none() | STAMPS,
    verified=several(STAMPS),
    status=TEXT.filter(bool),
    stale_after=TEXT,
    extra=EXTRA,
)
GRAPHS = st.builds(
    lambda title, concepts: KnowledgeGraph(title=title, concepts=tuple(concepts)),
    TEXT,
    st.lists(CONCEPTS, max_size=6, unique_by=lambda one: one.id),
)


def small(*ids: str, folder: str = "") -> KnowledgeGraph:
    return KnowledgeGraph(
        title="Small",
        concepts=tuple(
            Concept(id=each, title=each.title(), description="D.", body="B\n", folder=folder) for each in ids
        ),
    )


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@given(CONCEPTS, CONCEPTS)
def test_a_concept_comes_out_of_its_file_as_it_went_in(concept: Concept, other: Concept) -> None:
    raw = render(concept, finder([concept, other]))
    file = read_concept(concept.path, raw)
    assert file.concept == concept
    assert not file.edited


@given(CONCEPTS, st.data())
def test_any_byte_that_somebody_changes_is_noticed(concept: Concept, data: st.DataObject) -> None:
    raw = render(concept, finder([concept]))
    at = data.draw(st.integers(0, len(raw) - 1))
    other = bytes([raw[at] ^ data.draw(st.integers(1, 255))])
    changed = raw[:at] + other + raw[at + 1 :]
    if changed.replace(b"\r\n", b"\n") != raw.replace(b"\r\n", b"\n"):
        assert is_edited(changed)
    assert is_edited(raw + b"x")


def test_line_ends_of_another_system_are_no_change() -> None:
    raw = render(Concept(id="a", title="A", body="one\ntwo\n"), lambda _: None)
    assert not is_edited(raw.replace(b"\n", b"\r\n"))


@settings(max_examples=40)
@given(GRAPHS)
@example(KnowledgeGraph(title=" \r"))
def test_a_graph_comes_out_of_its_bundle_as_it_went_in(graph: KnowledgeGraph) -> None:
    with TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        assert BundleSerializer().serialize(graph, bundle) == len(graph)
        assert read_bundle(bundle) == graph
        before = tree(bundle)
        BundleSerializer().serialize(read_bundle(bundle), bundle)
        assert {path: data for path, data in tree(bundle).items() if path.endswith(".md")} == {
            path: data for path, data in before.items() if path.endswith(".md")
        }


@pytest.mark.slow
def test_ten_thousand_concepts_come_out_as_they_went_in(tmp_path: Path) -> None:
    concepts = tuple(
        Concept(id=f"c-{n}", title=f"T {n}", body=f"text {n}\n", see_also=(f"c-{n // 2}",), folder=f"f{n % 7}")
        for n in range(10_000)
    )
    graph = KnowledgeGraph(title="Many", concepts=concepts)
    BundleSerializer().serialize(graph, tmp_path / "b")
    assert read_bundle(tmp_path / "b") == graph


def test_what_is_written_is_conformant_with_an_index_at_each_level(
    tmp_path: Path, clock: Callable[[], datetime]
) -> None:
    deep = Concept(id="valve", title="Valve [x]", description="Opens.", folder="a/b", body="see [p](/pump.md)\n")
    old = Concept(id="old", title="Old", description="Gone.", status="deprecated", folder="a")
    graph = KnowledgeGraph(title="Plant", concepts=(deep, Concept(id="pump", title="Pump", description="Moves."), old))
    BundleSerializer(clock=clock).serialize(graph, tmp_path)
    assert (tmp_path / "index.md").read_text() == (
        '---\nokf_version: "0.2"\n---\n\n# Plant\n\n* [Pump](pump.md) - Moves.\n\n'
        "# Folders\n\n* [a](a/index.md) - 2 concepts\n"
    )
    assert (tmp_path / "a/index.md").read_text() == (
        "# a\n\n\n# Folders\n\n* [b](b/index.md) - 1 concept\n\n# Deprecated\n\n* [Old](old.md) - Gone.\n"
    )
    assert (tmp_path / "a/b/index.md").read_text() == "# b\n\n* [Valve \\[x\\]](valve.md) - Opens.\n"
    assert (tmp_path / "log.md").read_text() == "## 2026-05-04\n\n* **Creation**: 3 concepts\n"
    check = validate_bundle(tmp_path)
    assert check.clean, check.issues


def test_concepts_lead_to_each_other_by_links_that_programs_follow(tmp_path: Path) -> None:
    one = Concept(id="one", title="One *x*", see_also=("two", "nowhere"), body="text\n", folder="f")
    two = Concept(id="two", title="", folder="two words")
    BundleSerializer().serialize(KnowledgeGraph(concepts=(one, two)), tmp_path)
    text = (tmp_path / "f/one.md").read_text()
    assert text.endswith("text\n\n\nSee also: [two](/two%20words/two.md)\n")


def test_text_that_a_person_puts_behind_the_links_is_kept_as_text() -> None:
    raw = render(Concept(id="a", title="A", see_also=("b",), body="one\n"), lambda _: None) + b"\nmy own words\n"
    file = read_concept("a.md", raw)
    assert file.edited
    assert file.concept is not None
    assert file.concept.body.endswith("my own words\n")


def test_the_files_backend_serves_a_bundle_at_once(tmp_path: Path) -> None:
    BundleSerializer().serialize(small("valve", "pump"), tmp_path)
    provider = resolve_knowledge_backend(f"files:{tmp_path}").provider()
    try:
        found = {source.id for source in provider.list_sources().sources}
        assert found == {"valve.md", "pump.md", "index.md", "log.md"}
        assert provider.query(Query(query="valve")).hits[0].source_id == "valve.md"
    finally:
        provider.dispose()


OLD = "---\nid: valve\ntitle: Valve\ntype: concept\ntags: a, b\nsource: Manual\n---\nOpens.\n"


def test_a_bundle_of_the_older_form_is_read(tmp_path: Path) -> None:
    (tmp_path / "guides").mkdir()
    (tmp_path / "guides/valve.md").write_text(OLD)
    (tmp_path / "guides/index.md").write_text("---\ntitle: Guides\ntype: index\n---\n* [Valve](valve.md)\n")
    (tmp_path / "index.md").write_text("---\ntitle: Manual\ntype: bundle\n---\n")
    graph = read_bundle(tmp_path)
    assert graph.title == "Manual"
    assert [(one.path, one.tags, one.source) for one in graph.concepts] == [("guides/valve.md", ("a", "b"), "Manual")]
    assert validate_bundle(tmp_path).conformant


def test_what_other_programs_write_is_read_without_complaint() -> None:
    raw = (
        b"---\ntype: API Endpoint\ntitle: 5\ntags: [1, x]\nverified: {by: 'human:ann', at: '2026-01-01'}\n"
        b"generated: tool/2\nsources: [https://example.org, {resource: notes, span: [5, 2], author: Ann}]\n"
        b"owner: {team: x}\nstatus: true\n---\nbody"
    )
    concept = read_concept("x y/Get_User.md", raw).concept
    assert concept is not None
    assert (concept.id, concept.title, concept.tags, concept.status) == ("Get_User", "5", ("1", "x"), "true")
    assert concept.trust == "human-reviewed"
    assert concept.generated == Stamp(by="tool/2")
    assert [(one.resource, one.span, from_extra(one.extra)) for one in concept.sources] == [
        ("https://example.org", None, {}),
        ("notes", None, {"author": "Ann"}),
    ]
    assert from_extra(concept.extra) == {"owner": {"team": "x"}}


@given(
    st.binary(max_size=120)
    | st.sampled_from([b"---\ntype: [\n---\n", b"---\ntype: x\nsources: 5\nsee_also: {a: b}\n---\n"])
)
def test_no_file_of_any_bytes_is_a_crash(raw: bytes) -> None:
    file = read_concept("a.md", raw)
    assert file.concept is not None or file.issues


def test_two_files_of_one_name_are_two_concepts(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "intro.md").write_text("---\ntype: concept\n---\n")
    assert sorted(one.id for one in read_bundle(tmp_path).concepts) == ["b-intro", "intro"]


def test_foreign_files_and_links_come_along_untouched(tmp_path: Path) -> None:
    bundle, outside = tmp_path / "b", tmp_path / "outside.md"
    outside.write_text("---\ntype: secret\n---\n")
    BundleSerializer().serialize(small("one"), bundle)
    (bundle / ".git").mkdir()
    (bundle / ".git/HEAD").write_text("ref")
    (bundle / "picture.png").write_bytes(b"\x89PNG")
    (bundle / "own").mkdir()
    (bundle / "own/notes.md").write_text("# no concept")
    (bundle / "link.md").symlink_to(outside)
    (bundle / "up").symlink_to(tmp_path)
    (bundle / "empty").mkdir(mode=0o700)
    BundleSerializer().serialize(small("two"), bundle)
    assert sorted(path.name for path in bundle.iterdir()) == sorted(
        [".git", KEPT, "empty", "index.md", "log.md", "own", "picture.png", "two.md", "up"]
    )
    assert stat.S_IMODE((bundle / "empty").stat().st_mode) == 0o700
    assert (bundle / "up").readlink() == tmp_path
    assert (bundle / "own/notes.md").read_text() == "# no concept"
    assert outside.read_text() == "---\ntype: secret\n---\n"


def test_links_out_are_told_and_not_followed(tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    BundleSerializer().serialize(small("one"), bundle)
    (tmp_path / "secret.md").write_text("---\ntype: x\n---\n")
    (bundle / "secret.md").symlink_to(tmp_path / "secret.md")
    loaded = load_bundle(bundle)
    assert list(loaded.concepts) == ["one"]
    assert [issue.code for issue in loaded.issues] == ["symlink-escape"]


def test_a_folder_that_loses_its_last_concept_goes(tmp_path: Path) -> None:
    BundleSerializer().serialize(small("one", folder="a/b"), tmp_path / "b")
    BundleSerializer().serialize(small("one"), tmp_path / "b")
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [KEPT, "index.md", "log.md", "one.md"]


def test_a_concept_that_no_frontmatter_can_hold_changes_nothing(tmp_path: Path) -> None:
    BundleSerializer().serialize(small("one"), tmp_path / "b")
    before = tree(tmp_path)
    huge = KnowledgeGraph(concepts=(Concept(id="a", title="x" * 70_000),))
    with pytest.raises(InvalidArgumentError):
        BundleSerializer().serialize(huge, tmp_path / "b")
    assert tree(tmp_path) == before


def test_a_link_to_a_bundle_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real").mkdir()
    BundleSerializer().serialize(small("one"), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/one.md").exists()


@pytest.mark.parametrize("name", ["", "a\x00b", "\ud800"])
def test_a_folder_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        read_bundle(name)


def test_no_bundle_and_no_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="knowledge create"):
        read_bundle(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigurationError, match="no folder"):
        read_bundle(tmp_path / "file")


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"version": 2}',
        b'{"version": 1}',
        b"[" * 100000,
        b"\xff",
        b'{"version": 1, "title": 5, "order": [], "sections": [], "indexes": {}}',
        b'{"version": 1, "title": "", "order": 5, "sections": [], "indexes": []}',
    ],
)
def test_damaged_notes_are_as_good_as_none(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / KEPT).write_bytes(damage)
    assert read_kept(str(tmp_path)) == Kept()


def test_notes_are_read_as_they_were_written(tmp_path: Path) -> None:
    kept = Kept("T\u2028", ("b", "a"), frozenset({"h"}), {"index.md": "x"}, True)
    (tmp_path / KEPT).write_bytes(render_kept(kept))
    assert read_kept(str(tmp_path)) == kept
    assert json.loads(render_kept(kept))["version"] == 1


def test_notes_behind_a_link_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(render_kept(Kept("T")))
    (tmp_path / KEPT).symlink_to("x")
    assert not read_kept(str(tmp_path)).known


def test_an_index_has_every_folder_on_the_way() -> None:
    files = render_indexes("T", [Listed("a/b/c/x.md", "X", "", "stable")])
    assert sorted(files) == ["a/b/c/index.md", "a/b/index.md", "a/index.md", "index.md"]
    assert b"* [b](b/index.md) - 1 concept" in files["a/index.md"]


def test_the_newest_entry_of_the_log_stands_on_top() -> None:
    log = log_entry(b"", "2026-05-01", "Creation", "a")
    log = log_entry(log, "2026-05-01", "Update", "b\nc")
    log = log_entry(log, "2026-05-02", "Update", "d")
    assert log.decode() == (
        "## 2026-05-02\n\n* **Update**: d\n\n## 2026-05-01\n\n* **Update**: b c\n* **Creation**: a\n"
    )
    assert log_entry(b"# Mine\n", "2026-05-01", "K", "t") == b"# Mine\n\n## 2026-05-01\n\n* **K**: t\n"
    assert log_entry(b"# Mine", "2026-05-01", "K", "t") == b"# Mine\n\n## 2026-05-01\n\n* **K**: t\n"
    assert log_entry(b"## 2026-05-01\n* x\n", "2026-05-01", "K", "t") == b"## 2026-05-01\n* **K**: t\n* x\n"
    assert log_entry(b"# T\n\n", "2026-05-01", "K", "t") == b"# T\n\n## 2026-05-01\n\n* **K**: t\n"


def test_long_rows_of_names_are_cut_and_counted() -> None:
    assert named(map(str, range(22))).endswith("19 and 2 more")
    assert named(["a"]) == "a"


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_extra_values_are_kept_as_they_are(values: dict[str, object]) -> None:
    extra: Extra = as_extra(values)  # type: ignore[arg-type]
    assert from_extra(extra) == values
    hash(extra)


def test_a_changed_folder_is_not_overwritten(tmp_path: Path) -> None:
    from knowledge_okf.swapping import locked, replace_folder, state_of

    BundleSerializer().serialize(small("one"), tmp_path / "b")
    before = state_of(tmp_path / "b")
    (tmp_path / "b/one.md").write_text("mine")
    with locked(tmp_path / "b"), pytest.raises(ConflictError, match="meanwhile"):
        replace_folder(tmp_path / "b", {"one.md": b"new"}, before)
    assert (tmp_path / "b/one.md").read_text() == "mine"
    assert os.listdir(tmp_path) == ["b"]
