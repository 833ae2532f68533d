"""What is ingested is stored as it was given or not at all, and what is deleted is gone."""

from __future__ import annotations

import builtins
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import (
    BlockedAddressError,
    BlockedSchemeError,
    ConfigurationError,
    ConflictError,
    InvalidArgumentError,
    InvalidFrontmatterError,
    NotFoundError,
    NotSupportedError,
    ReadOnlyError,
    StorageFullError,
)
from knowledge_engine.fetch import Fetched
from knowledge_engine.fs import LocalFs, MemoryFs
from knowledge_engine.models import IngestRequest, Query
from knowledge_files import FilesKnowledgeAdapter


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def page(text: str, url: str = "https://example.org/p", content_type: str = "text/html") -> Fetched:
    return Fetched(
        url=url, final_url=url, status=200, content_type=content_type, content=text.encode(), charset="utf-8", text=text
    )


class Web(dict[str, Fetched]):
    def __call__(self, url: str) -> Fetched:
        return self[url]


# Text and content


def test_text_is_written_with_title_and_metadata_and_found_at_once(folder) -> None:
    folder.adapter.refresh()
    request = IngestRequest(
        id="guides/new.md", title="A: guide", text="# Use\n\nvalve\n", metadata={"tags": ["1", "x"]}
    )
    source = folder.adapter.ingest(request)
    assert (source.id, source.title, source.origin) == ("guides/new.md", "A: guide", "file")
    assert source.metadata == {"tags": ["1", "x"], "title": "A: guide"}
    raw = folder.tree()["guides/new.md"]
    assert (source.bytes, source.content_hash) == (len(raw), digest(raw))
    assert raw.endswith(b"# Use\n\nvalve\n")
    assert folder.found("valve") == ["guides/new.md"]
    assert folder.adapter.get_source("guides/new.md").content_hash == source.content_hash
    assert list(folder.tree()) == ["guides/new.md"]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_content_is_stored_byte_for_byte_or_refused(data: bytes, before: bool) -> None:
    fs = MemoryFs({"a.md": b"old"} if before else {})
    adapter = FilesKnowledgeAdapter(fs, ".")
    try:
        source = adapter.ingest(IngestRequest(id="a.md", content=data))
    except InvalidArgumentError:
        assert [fs.read(info.path) for info in fs.walk()] == ([b"old"] if before else [])
    else:
        assert fs.read("a.md") == data
        assert (source.bytes, source.content_hash) == (len(data), digest(data))
        assert adapter.read_source("a.md").content == data
        assert adapter.list_sources().sources == (adapter.get_source("a.md"),)


SCALARS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.sampled_from(
        ["yes", "null", "1.0", "0x1F", "2024-05-01", "a: b", "# c", "- d", "'", '"', "1:30", "~", "\n", ""]
    ),
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(["owner", "a b", "état", "k.1", "on"]), SCALARS), st.text(max_size=40))
def test_metadata_and_text_come_back_as_they_were(metadata: dict[str, Any], text: str) -> None:
    adapter = FilesKnowledgeAdapter(MemoryFs(), ".")
    try:
        source = adapter.ingest(IngestRequest(id="a.md", text=text, metadata=metadata))
    except InvalidArgumentError:
        return  # what cannot be written so that it reads the same is refused
    assert source.metadata == metadata
    assert adapter.list_sources().sources[0].metadata == metadata
    assert adapter.read_source("a.md").content.endswith(text.encode())


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Größe & Wasser: 水温?", "größe-wasser-水温"),
        ("Клапан открыт", "клапан-открыт"),
        ("../../etc/passwd", "etc-passwd"),
        (".hidden", "hidden"),
        ("x" * 500, "x" * 120),
    ],
)
def test_a_title_names_the_file_in_any_script(folder, title: str, name: str) -> None:
    source = folder.adapter.ingest(IngestRequest(title=title, text="valve"))
    assert source.id == f"sources/{name}.md"
    assert source.title == title
    assert list(folder.tree()) == [source.id]


def test_documents_without_id_go_below_the_folder(tmp_path: Path) -> None:
    adapter = FilesKnowledgeAdapter(LocalFs(tmp_path))
    assert adapter.ingest(IngestRequest(title="Pump", text="x")).id == "knowledge/sources/pump.md"


def test_the_same_title_is_the_same_document(folder) -> None:
    first = folder.adapter.ingest(IngestRequest(title="Pump", text="old words"))
    again = folder.adapter.ingest(IngestRequest(title="Pump", text="new words"))
    assert first.id == again.id
    assert (folder.found("old"), folder.found("new")) == ([], [first.id])


def test_other_titles_of_one_slug_do_not_overwrite_each_other(folder) -> None:
    titles = ["A/B", "a b", "A-B", "a_b"]
    ids = [folder.adapter.ingest(IngestRequest(title=title, text=f"word{n}")).id for n, title in enumerate(titles)]
    assert ids[0] == "sources/a-b.md"
    assert len(set(ids)) == len(ids)
    for number, title in enumerate(titles):
        again = folder.adapter.ingest(IngestRequest(title=title, text=f"again{number}"))
        assert (again.id, again.title) == (ids[number], title)
    assert len(folder.tree()) == len(titles)
    # A place of its own is kept when the first one goes.
    folder.adapter.delete_source(ids[0])
    assert folder.adapter.ingest(IngestRequest(title=titles[1], text="x")).id == ids[1]


def test_titles_of_one_slug_at_the_same_time_all_get_a_place(folder) -> None:
    titles = [f"Pump{mark}" for mark in " !?.:;,-"]
    together = threading.Barrier(len(titles))

    def store(title: str) -> str:
        together.wait(30)
        return folder.adapter.ingest(IngestRequest(title=title, text=f"of {title}")).id

    with ThreadPoolExecutor(len(titles)) as pool:
        ids = list(pool.map(store, titles))
    assert len(set(ids)) == len(titles) == len(folder.tree())
    assert [folder.adapter.get_source(one).title for one in ids] == [title.strip() for title in titles]


def test_a_namesake_that_another_process_writes_first_is_not_overwritten(folder) -> None:
    inner = folder.fs.inner.write

    def late(path: str, data: bytes, if_match: str | None = None) -> object:
        folder.fs.inner.write = inner
        other = FilesKnowledgeAdapter(LocalFs(folder.root), ".").ingest(IngestRequest(title="C", text="theirs"))
        assert other.id == path
        return inner(path, data, if_match=if_match)

    folder.fs.inner.write = late
    ours = folder.adapter.ingest(IngestRequest(title="C++", text="ours"))
    assert folder.tree()["sources/c.md"].endswith(b"theirs")
    assert folder.tree()[ours.id].endswith(b"ours")


def test_without_a_usable_title_the_content_names_the_file(folder) -> None:
    ids = [
        folder.adapter.ingest(IngestRequest(title=title, text=text)).id
        for title, text in [(None, "one"), (None, "two"), (None, "one"), ("???", "one"), ("!!!", "one"), ("", "three")]
    ]
    assert ids[0] == ids[2]
    assert len(set(ids)) == 5 == len(folder.tree())


# Only metadata


def test_changed_metadata_leaves_every_other_byte(folder) -> None:
    folder.put("a.md", "\ufeff---\r\n# note\r\nid: a\r\nkind:   'old'\r\nn: 1.50\r\n---\r\nText  \r\nvalve\xa0\r\n")
    before = folder.tree()["a.md"]
    source = folder.adapter.ingest(IngestRequest(id="a.md", metadata={"kind": "new"}))
    assert source.metadata["kind"] == "new"
    assert folder.tree()["a.md"] == before.replace(b"kind:   'old'", b"kind: new")
    assert folder.adapter.ingest(IngestRequest(id="a.md", title="T")).title == "T"
    assert folder.adapter.ingest(IngestRequest(id="a.md", metadata={"kind": None})).metadata == {
        "id": "a",
        "n": "1.50",
        "title": "T",
    }
    assert [one.metadata for one in folder.adapter.list_sources(filter={"title": "T"}).sources] == [
        {"id": "a", "n": "1.50", "title": "T"}
    ]


def test_metadata_that_does_not_parse_is_not_rewritten(folder) -> None:
    folder.put("a.md", '---\nid: a\ntitle: "run "slow" mode"\n---\n## Use\n\nText.\n')
    before = folder.tree()
    with pytest.raises(InvalidFrontmatterError):
        folder.adapter.ingest(IngestRequest(id="a.md", metadata={"tags": ["new"]}))
    assert folder.tree() == before


def test_metadata_of_nothing_cannot_be_changed(folder) -> None:
    with pytest.raises(NotFoundError):
        folder.adapter.ingest(IngestRequest(id="a.md", metadata={"kind": "x"}))
    for request in (IngestRequest(id="a.md"), IngestRequest(), IngestRequest(metadata={"a": 1})):
        with pytest.raises(InvalidArgumentError):
            folder.adapter.ingest(request)
    assert folder.tree() == {}


def test_concurrent_changes_of_one_documents_metadata_are_all_kept(folder) -> None:
    folder.put("a.md", "---\nkind: x\n---\nvalve\n")
    # Two adapters: what one process does not lock against another, the comparison of bytes does.
    other = FilesKnowledgeAdapter(LocalFs(folder.root), ".")

    def change(number: int) -> None:
        adapter = (folder.adapter, other)[number % 2]
        for turn in range(5):
            adapter.ingest(IngestRequest(id="a.md", metadata={f"k{number}x{turn}": number}))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(change, range(6)))
    folder.adapter.refresh()
    metadata = folder.adapter.get_source("a.md").metadata
    assert metadata == {"kind": "x", **{f"k{n}x{t}": n for n in range(6) for t in range(5)}}


def test_a_document_that_is_rewritten_each_time_is_given_up_in_the_end(folder) -> None:
    folder.put("a.md", "valve")
    count = iter(range(10**6))
    inner = folder.fs.inner.write
    folder.fs.inner.write = lambda path, data, if_match=None: (
        folder.put("a.md", f"valve {next(count)}") and inner(path, data, if_match=if_match)
    )
    with pytest.raises(ConflictError):
        folder.adapter.ingest(IngestRequest(id="a.md", metadata={"kind": "x"}))
    assert 1 < next(count) < 1000


# Conditions


@pytest.mark.parametrize(
    "change", [{"text": "new"}, {"content": b"new"}, {"metadata": {"kind": "new"}}, {"text": "new", "title": "T"}]
)
def test_a_condition_that_does_not_hold_changes_nothing(folder, change: dict[str, Any]) -> None:
    folder.put("a.md", "old")
    for wrong in ("", digest(b"other")):
        with pytest.raises(ConflictError):
            folder.adapter.ingest(IngestRequest(id="a.md", if_match=wrong, **change))
        assert folder.tree() == {"a.md": b"old"}
    source = folder.adapter.ingest(IngestRequest(id="a.md", if_match=digest(b"old"), **change))
    assert source.content_hash == digest(folder.tree()["a.md"]) != digest(b"old")


def test_a_document_can_be_created_only_once(folder) -> None:
    assert folder.adapter.ingest(IngestRequest(id="a.md", text="first", if_match="")).bytes == 5
    assert folder.adapter.ingest(IngestRequest(title="Pump", text="first", if_match="")).id == "sources/pump.md"
    for request in (
        IngestRequest(id="a.md", text="second", if_match=""),
        IngestRequest(title="Pump", text="2", if_match=""),
    ):
        with pytest.raises(ConflictError):
            folder.adapter.ingest(request)
    with pytest.raises(ConflictError):
        folder.adapter.ingest(IngestRequest(id="new.md", text="x", if_match=digest(b"gone")))
    assert set(folder.tree()) == {"a.md", "sources/pump.md"}
    stored = digest(folder.tree()["sources/pump.md"])
    assert folder.adapter.ingest(IngestRequest(title="Pump", text="2", if_match=stored)).id == "sources/pump.md"


def test_after_a_conflict_the_document_is_read_as_it_is_now(folder) -> None:
    folder.put("a.md", "old")
    folder.put("b.md", "old")
    folder.adapter.refresh()
    folder.put("a.md", "theirs")
    (folder.root / "b.md").unlink()
    known = folder.adapter.get_source("a.md").content_hash
    with pytest.raises(ConflictError):
        folder.adapter.delete_source("a.md", if_match=known)
    fresh = folder.adapter.get_source("a.md").content_hash
    assert fresh == digest(b"theirs")
    folder.adapter.ingest(IngestRequest(id="a.md", text="ours", if_match=fresh))
    with pytest.raises(NotFoundError):
        folder.adapter.delete_source("b.md")
    assert folder.ids() == ["a.md"]


def test_answers_can_be_changed_without_changing_the_next_ones(folder) -> None:
    folder.put("a.md", "---\ntags: [x]\nslug: s\n---\nvalve\n")
    for _ in range(2):
        [hit] = folder.adapter.query(Query(query="valve")).hits
        source = folder.adapter.get_source("a.md")
        assert hit.metadata == source.metadata == {"tags": ["x"], "slug": "s", "entrySlug": "s"}
        for metadata in (hit.metadata, source.metadata):
            metadata["tags"].append("y")
            metadata.clear()


# Deleting


def test_a_deleted_document_is_gone_from_disk_and_answers(folder) -> None:
    folder.put("a.md", "valve")
    folder.put("b.md", "valve")
    assert folder.found("valve") == ["a.md", "b.md"]
    with pytest.raises(ConflictError):
        folder.adapter.delete_source("a.md", if_match=digest(b"other"))
    folder.adapter.delete_source("a.md", if_match=digest(b"valve"))
    assert folder.tree() == {"b.md": b"valve"}
    assert (folder.found("valve"), folder.ids()) == (["b.md"], ["b.md"])
    for call in (folder.adapter.get_source, folder.adapter.read_source, folder.adapter.delete_source):
        with pytest.raises(NotFoundError):
            call("a.md")
    assert folder.adapter.explain("a.md") is None
    folder.adapter.delete_source("b.md")
    assert folder.adapter.query(Query(query="valve")).index.documents == 0


# Kinds


def test_a_fetched_page_becomes_markdown_with_its_origin(folder) -> None:
    html = (
        "<html><head><title>Pump\n manual</title><style>p{}</style></head><body><h1>Pump</h1>"
        "<p>Turn the <b>valve</b>.</p><script>alert('never')</script><ul><li>one</li></ul></body></html>"
    )
    web = Web({"https://example.org/p": page(html)})
    adapter = FilesKnowledgeAdapter(folder.fs, ".", fetch=web)
    source = adapter.ingest(IngestRequest(kind="url", uri="https://example.org/p", metadata={"slug": "pump"}))
    assert (source.id, source.title, source.origin) == ("sources/pump-manual.md", "Pump manual", "url")
    assert source.uri == source.metadata["source_url"] == "https://example.org/p"
    text = folder.tree()[source.id].decode()
    assert "# Pump\n" in text
    assert "**valve**" in text
    assert "never" not in text
    assert "p{}" not in text
    explained = adapter.explain(source.id)
    assert explained is not None
    assert (explained.origin, explained.uri, explained.content_hash) == ("url", source.uri, source.content_hash)
    assert explained.details["fetched_at"] == source.metadata["fetched_at"]
    assert [hit.source_id for hit in adapter.query(Query(query="valve")).hits] == [source.id]


def test_pages_of_one_title_keep_their_own_places(folder) -> None:
    urls = ["https://a.example/", "https://b.example/", "https://c.example/"]
    web = Web({url: page("<title>Home</title><p>word", url) for url in urls})
    adapter = FilesKnowledgeAdapter(folder.fs, ".", fetch=web)
    ids = [adapter.ingest(IngestRequest(kind="url", uri=url)).id for url in urls]
    assert len(set(ids)) == 3
    assert [adapter.ingest(IngestRequest(kind="url", uri=url)).id for url in urls] == ids
    assert adapter.ingest(IngestRequest(title="Home", text="mine")).id not in ids
    assert len(folder.tree()) == 4


@pytest.mark.parametrize(
    ("text", "content_type", "stored"),
    [
        ("plain *text*", "text/plain", "plain *text*"),
        ("http://example.org/only.html", "text/html", "http://example.org/only.html"),
        ("<?xml version='1.0'?><svg><p>drawn</p></svg>", "application/xhtml+xml", "drawn\n"),
        ("<div>" * 3000 + "deep" + "</div>" * 3000, "text/html", "deep\n"),
        ("<p>unclosed <b>bold", "text/html", "unclosed **bold**\n"),
    ],
    ids=["plain", "no tag", "xml", "deep", "unclosed"],
)
def test_odd_pages_are_stored_as_text(folder, text: str, content_type: str, stored: str) -> None:
    web = Web({"https://example.org/p": page(text, content_type=content_type)})
    adapter = FilesKnowledgeAdapter(folder.fs, ".", fetch=web)
    source = adapter.ingest(IngestRequest(kind="url", uri="https://example.org/p"))
    assert source.id == "sources/https-example-org-p.md"
    assert folder.tree()[source.id].decode().endswith("---\n" + stored)
    named = adapter.ingest(IngestRequest(kind="url", uri="https://example.org/p", id="a.md", title="Named"))
    assert (named.id, named.title) == ("a.md", "Named")


def test_fetching_is_guarded_by_default(folder) -> None:
    for uri, error in [("http://127.0.0.1:9/x", BlockedAddressError), ("file:///etc/passwd", BlockedSchemeError)]:
        with pytest.raises(error):
            folder.adapter.ingest(IngestRequest(kind="url", uri=uri))
    with pytest.raises(InvalidArgumentError, match="uri"):
        folder.adapter.ingest(IngestRequest(kind="url"))
    assert folder.tree() == {}


def test_a_missing_converter_names_what_to_install(folder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "markdownify":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    adapter = FilesKnowledgeAdapter(folder.fs, ".", fetch=Web({"u": page("<p>x")}))
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=r"kpkit-files\[url\]"):
        adapter.ingest(IngestRequest(kind="url", uri="u"))


def test_other_kinds_are_refused_by_name(folder) -> None:
    with pytest.raises(NotSupportedError, match=r"'video'.*text, url"):
        folder.adapter.ingest(IngestRequest(kind="video", uri="https://example.org/"))


def test_text_that_is_not_utf8_is_refused(folder) -> None:
    for data in ("wide".encode("utf-16"), b"\0" * 50):
        with pytest.raises(InvalidArgumentError, match="UTF-8"):
            folder.adapter.ingest(IngestRequest(id="a.md", content=data))
    assert folder.tree() == {}


# Corpus entries


def test_a_corpus_entry_is_indexed_again_and_nothing_is_written(folder) -> None:
    entry = IngestRequest(kind="connector", metadata={"corpus": {"entrySlug": "pump"}})
    folder.put("entries/p.md", "---\nslug: pump\n---\nold words\n")
    assert folder.found("old") == ["entries/p.md"]
    folder.put("entries/p.md", "---\nslug: pump\n---\nnew words\n")
    before = folder.tree()
    source = folder.adapter.ingest(entry)
    assert (source.id, source.metadata) == ("entries/p.md", {"slug": "pump", "entrySlug": "pump"})
    assert (folder.found("old"), folder.found("new")) == ([], ["entries/p.md"])
    [hit] = folder.adapter.query(Query(query="new", filter={"entrySlug": "pump"})).hits
    assert hit.metadata["entrySlug"] == "pump"
    assert folder.tree() == before
    # One that has come since is looked for.
    folder.put("entries/q.md", "---\nslug: valve\n---\nvalve\n")
    assert folder.adapter.ingest(IngestRequest(metadata={"corpus": {"entrySlug": "valve"}})).id == "entries/q.md"
    with pytest.raises(NotFoundError, match="tank"):
        folder.adapter.ingest(IngestRequest(metadata={"corpus": {"entrySlug": "tank"}}))
    with pytest.raises(InvalidArgumentError):
        folder.adapter.ingest(IngestRequest(metadata={"corpus": "pump"}))


# What cannot be written


def test_a_port_that_only_reads_makes_a_backend_that_only_reads(hooked: type) -> None:
    adapter = FilesKnowledgeAdapter(hooked(MemoryFs({"a.md": b"valve"})), ".")
    assert adapter.capabilities.writable is False
    calls: list[Callable[[], object]] = [
        lambda: adapter.ingest(IngestRequest(id="b.md", text="x")),
        lambda: adapter.ingest(IngestRequest(metadata={"corpus": {"entrySlug": "a"}})),
        lambda: adapter.delete_source("a.md"),
    ]
    for call in calls:
        with pytest.raises(ReadOnlyError):
            call()
    assert adapter.list_sources().total == 1


def test_a_full_disk_leaves_file_and_index_as_they_were(folder) -> None:
    folder.put("a.md", "valve")
    assert folder.found("valve") == ["a.md"]

    def full(path: str, data: bytes, if_match: str | None = None) -> None:
        raise StorageFullError(f"No room to write {path!r}", mend="Free some space.")

    folder.fs.inner.write = full
    with pytest.raises(StorageFullError):
        folder.adapter.ingest(IngestRequest(id="a.md", text="tank"))
    assert (folder.tree(), folder.found("valve")) == ({"a.md": b"valve"}, ["a.md"])
