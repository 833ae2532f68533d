"""The reference provider: what every port promises, over documents in memory."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine import memory
from knowledge_engine.analysis import Analyzer, QueryWord
from knowledge_engine.citations import verify_citation
from knowledge_engine.errors import (
    ConflictError,
    InvalidArgumentError,
    InvalidCursorError,
    InvalidIdError,
    NotFoundError,
    NotSupportedError,
    UnavailableError,
)
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import ByteSpan, Hit, IngestRequest, Query, QueryResult, Skipped
from knowledge_engine.passages import MAX_PASSAGE_BYTES, Document, PassageTerms, not_text, parse_document
from knowledge_engine.ports import (
    ExplainingProvider,
    IKnowledgeProvider,
    IngestingProvider,
    RefreshableProvider,
    SupersedingProvider,
)


def provider(_files: dict[str, str | bytes] | None = None, /, **files: str | bytes) -> MemoryProvider:
    """A provider over `name=text`, each a document `name.md`."""
    named = {**(_files or {}), **{f"{name}.md": text for name, text in files.items()}}
    return MemoryProvider({path: text.encode() if isinstance(text, str) else text for path, text in named.items()})


def found(source: MemoryProvider, query: str, **options: Any) -> list[str]:
    return [hit.source_id.removesuffix(".md") for hit in source.query(Query(query=query, **options)).hits]


def test_it_is_every_port_but_the_refreshing_one() -> None:
    source = MemoryProvider(id="mine")
    for port in (IKnowledgeProvider, IngestingProvider, SupersedingProvider, ExplainingProvider):
        assert isinstance(source, port)
    assert not isinstance(source, RefreshableProvider)
    assert source.id == "mine"
    assert MemoryProvider().id == "memory"
    assert (source.capabilities.writable, source.capabilities.citations) == (True, True)
    assert source.capabilities.max_chunk_bytes == MAX_PASSAGE_BYTES


def test_sources_are_listed_by_code_point_page_by_page() -> None:
    source = provider({"b.md": "", "B.md": "", "a/z.md": "", "ä.md": "", "\U0001f9ea.md": "", "\uffee.md": ""})
    ids, cursor = [], None
    for _ in range(3):
        page = source.list_sources(limit=2, cursor=cursor)
        ids += [one.id for one in page.sources]
        assert page.total == 6
        cursor = page.next_cursor
    assert cursor is None
    assert ids == ["B.md", "a/z.md", "b.md", "ä.md", "\uffee.md", "\U0001f9ea.md"]


def test_a_foreign_cursor_is_refused() -> None:
    source = provider(a="valve", b="valve")
    listing, answer = source.list_sources(limit=1).next_cursor, source.query(Query(query="valve", top_k=1)).next_cursor
    with pytest.raises(InvalidCursorError):
        source.list_sources(cursor=answer)
    with pytest.raises(InvalidCursorError):
        source.query(Query(query="valve", cursor=listing))


def test_a_source_says_what_is_stored() -> None:
    raw = b"---\ntitle: Pump\nkind: device\n---\nx"
    source = MemoryProvider({"p/a.md": raw}).get_source("p/a.md")
    assert (source.id, source.title, source.bytes) == ("p/a.md", "Pump", len(raw))
    assert (source.origin, source.uri, source.status, source.error) == ("text", "memory:p/a.md", "ready", None)
    assert source.metadata == {"title": "Pump", "kind": "device"}
    assert source.content_hash == hashlib.sha256(raw).hexdigest()
    assert (source.indexed_at or "").endswith("+00:00")


@given(st.binary(max_size=20).filter(lambda raw: not not_text(raw)), st.integers(0, 25), st.integers(0, 25))
def test_a_span_is_read_as_far_as_there_are_bytes(raw: bytes, start: int, length: int) -> None:
    part = MemoryProvider({"a.md": raw}).read_source("a.md", ByteSpan(start=start, end=start + length))
    assert part.content == raw[start : start + length]
    assert part.span.end - part.span.start == len(part.content)
    assert (part.total_bytes, part.content_hash) == (len(raw), hashlib.sha256(part.content).hexdigest())
    assert part.span.end <= len(raw)


def test_without_a_span_all_is_read() -> None:
    part = MemoryProvider({"a.md": b"\x00\xfftext"}).read_source("a.md")
    assert (part.content, part.span) == (b"\x00\xfftext", ByteSpan(start=0, end=6))


Call = Callable[[MemoryProvider, str], object]
CALLS: dict[str, Call] = {
    "get": lambda source, one: source.get_source(one),
    "read": lambda source, one: source.read_source(one),
    "delete": lambda source, one: source.delete_source(one),
    "supersede": lambda source, one: source.supersede(one, "a.md"),
    "supersede by": lambda source, one: source.supersede("a.md", one),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "hostile", ["", "/etc/passwd", "../a.md", "a/../a.md", "a\\b.md", "a\x00.md", "\ud800", "~/a", "C:a", "x" * 9999]
)
def test_what_cannot_be_an_id_is_refused(call: Call, hostile: str) -> None:
    with pytest.raises(InvalidIdError):
        call(provider(a="x"), hostile)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("missing", ["b.md", "A.md", "a", "a.md ", "pump"])
def test_only_an_exact_id_names_a_source(call: Call, missing: str) -> None:
    with pytest.raises(NotFoundError):
        call(provider(a="---\nid: pump\n---\nx"), missing)


def test_hostile_ids_do_not_get_in() -> None:
    with pytest.raises(InvalidIdError):
        MemoryProvider({"../a.md": b"x"})
    source = provider(a="x")
    with pytest.raises(InvalidIdError):
        source.ingest(IngestRequest(id="../a.md", text="x"))
    assert len(source.list_sources().sources) == 1


# Health


def test_a_document_that_is_no_text_hides_no_other() -> None:
    source = provider(a="valve", wide="valve".encode("utf-16"), broken=b"valve \xff")
    assert sorted(found(source, "valve")) == ["a", "broken"]
    health = source.health_check()
    assert [(one.path, one.reason) for one in health.skipped] == [("wide.md", "encoding-invalid")]
    assert "UTF-16" in health.skipped[0].message
    assert (health.index.documents, health.index.skipped, health.status) == (2, 1, "ok")
    assert ("broken.md", "encoding-invalid") in [(issue.path, issue.code) for issue in health.issues]
    assert [one.id for one in source.list_sources().sources] == ["a.md", "broken.md"]
    with pytest.raises(NotFoundError):
        source.get_source("wide.md")
    source.ingest(IngestRequest(id="wide.md", content=b"valve"))
    assert source.health_check().skipped == ()
    assert len(found(source, "valve")) == 3


def test_health_names_ids_that_are_claimed_twice() -> None:
    health = provider(a="---\nid: x\n---\n", b="---\nid: x\n---\n").health_check()
    assert [(issue.path, issue.code) for issue in health.issues] == [("b.md", "duplicate-id")]


def test_a_disposed_provider_says_so() -> None:
    source = provider(a="x")
    source.dispose()
    source.dispose()
    health = source.health_check()
    assert health.status == "down"
    assert "disposed" in health.message
    calls: list[Callable[[], object]] = [
        source.list_sources,
        lambda: source.get_source("a.md"),
        lambda: source.read_source("a.md"),
        lambda: source.query(Query(query="x")),
        lambda: source.ingest(IngestRequest(text="x")),
        lambda: source.delete_source("a.md"),
        lambda: source.supersede("a.md", "a.md"),
        lambda: source.explain("a.md"),
    ]
    for call in calls:
        with pytest.raises(UnavailableError):
            call()
    assert source.capabilities.writable


# Writing


def test_an_ingested_document_is_found_at_once_and_a_replaced_one_is_gone() -> None:
    source = provider(a="old words")
    stored = source.ingest(IngestRequest(id="a.md", text="new words", uri="urn:x"))
    assert (stored.id, stored.uri) == ("a.md", "urn:x")
    assert (found(source, "new"), found(source, "old")) == (["a"], [])
    assert stored == source.get_source("a.md")
    assert stored.content_hash == hashlib.sha256(source.read_source("a.md").content).hexdigest()


def test_content_is_kept_byte_for_byte() -> None:
    source = MemoryProvider()
    source.ingest(IngestRequest(id="a.bin", content=b"\xef\xbb\xbfx\r\n\xff"))
    assert source.read_source("a.bin").content == b"\xef\xbb\xbfx\r\n\xff"


def test_bytes_that_the_caller_changes_later_are_not_changed_here() -> None:
    buffer = bytearray(b"before")
    source = MemoryProvider({"a.md": buffer})  # type: ignore[dict-item]
    buffer[:] = b"after!"
    assert source.read_source("a.md").content == b"before"


def test_documents_without_an_id_are_named_by_their_title() -> None:
    source = MemoryProvider()
    first = source.ingest(IngestRequest(title="Gear Box", text="one")).id
    assert first == "sources/gear-box.md"
    assert source.ingest(IngestRequest(title="Gear Box", text="two")).id == first
    assert source.ingest(IngestRequest(title="Gear-Box", text="three")).id != first
    assert len(source.list_sources().sources) == 2


def test_metadata_alone_can_be_changed() -> None:
    source = provider(a="---\nkind: note\n---\nvalve")
    source.ingest(IngestRequest(id="a.md", metadata={"kind": "guide"}))
    assert source.get_source("a.md").metadata == {"kind": "guide"}
    assert found(source, "valve", filter={"kind": "guide"}) == ["a"]
    with pytest.raises(NotFoundError):
        source.ingest(IngestRequest(id="b.md", metadata={"kind": "guide"}))


def test_a_write_goes_on_top_of_the_named_version_only() -> None:
    source = provider(a="one")
    version = source.get_source("a.md").content_hash
    second = source.ingest(IngestRequest(id="a.md", text="two", if_match=version))
    for request in (
        IngestRequest(id="a.md", text="three", if_match=version),
        IngestRequest(id="a.md", text="three", if_match=""),
        IngestRequest(id="b.md", text="three", if_match=version),
        IngestRequest(id="a.md", metadata={"kind": "x"}, if_match=version),
    ):
        with pytest.raises(ConflictError):
            source.ingest(request)
    with pytest.raises(ConflictError):
        source.delete_source("a.md", if_match=version)
    assert found(source, "two") == ["a"]
    assert source.ingest(IngestRequest(id="b.md", text="three", if_match="")).id == "b.md"
    source.delete_source("a.md", if_match=second.content_hash)
    assert found(source, "two") == []


def test_kinds_other_than_text_are_refused() -> None:
    with pytest.raises(NotSupportedError, match="text"):
        MemoryProvider().ingest(IngestRequest(kind="url", uri="https://example.org"))


def test_what_is_no_text_is_not_taken_in() -> None:
    source = provider(a="x")
    with pytest.raises(InvalidArgumentError, match="UTF-16"):
        source.ingest(IngestRequest(id="a.md", content="x".encode("utf-16")))
    assert source.read_source("a.md").content == b"x"


def test_deleting_leaves_no_trace() -> None:
    source, never = provider(a="valve", b="pump"), provider(b="pump")
    source.delete_source("a.md")
    assert found(source, "valve") == []
    assert source.query(Query(query="pump")).hits == never.query(Query(query="pump")).hits
    assert source.health_check().index == never.health_check().index
    assert source.explain("a.md") is None
    with pytest.raises(NotFoundError):
        source.delete_source("a.md")


def test_a_revision_names_the_documents_and_not_their_history() -> None:
    source = provider(a="valve", b="pump")
    before = source.health_check().index.revision
    source.ingest(IngestRequest(id="a.md", content=b"other"))
    assert source.health_check().index.revision != before
    source.ingest(IngestRequest(id="a.md", content=b"valve"))
    assert source.health_check().index.revision == before == source.query(Query(query="x")).index.revision


def test_a_page_after_a_change_warns_and_goes_on() -> None:
    source = provider(a="valve valve", b="valve", c="a valve of some length")
    first = source.query(Query(query="valve", top_k=1))
    source.delete_source("a.md")
    rest = source.query(Query(query="valve", cursor=first.next_cursor))
    assert any("changed" in warning for warning in rest.warnings)
    assert {hit.source_id for hit in rest.hits} <= {"b.md", "c.md"}


def test_a_superseded_document_is_read_and_not_found() -> None:
    source = provider(old="valve", new="valve", other="valve")
    source.supersede("old.md", "new.md")
    assert found(source, "valve") == ["new", "other"]
    assert source.read_source("old.md").content == b"valve"
    explained = source.explain("old.md")
    assert explained is not None
    assert explained.details == {"superseded_by": "new.md"}


def test_a_document_is_found_again_when_nothing_stands_for_it() -> None:
    source = provider(old="valve", new="valve")
    source.supersede("old.md", "new.md")
    source.delete_source("new.md")
    assert found(source, "valve") == ["old"]


def test_a_new_document_of_a_superseded_id_is_found() -> None:
    source = provider(old="valve", new="valve")
    source.supersede("old.md", "new.md")
    source.delete_source("old.md")
    source.ingest(IngestRequest(id="old.md", text="valve"))
    assert found(source, "valve") == ["new", "old"]


def test_documents_cannot_stand_for_each_other_in_a_circle() -> None:
    source = provider(a="valve", b="valve", c="valve")
    source.supersede("a.md", "b.md")
    source.supersede("b.md", "c.md")
    for old, by in (("a", "a"), ("b", "a"), ("c", "a")):
        with pytest.raises(InvalidArgumentError):
            source.supersede(f"{old}.md", f"{by}.md")
    source.supersede("a.md", "c.md")
    assert found(source, "valve") == ["c"]


def test_an_explanation_names_the_origin() -> None:
    source = provider(a="x")
    source.ingest(IngestRequest(id="b.md", text="y", uri="urn:y"))
    explained = source.explain("b.md")
    assert explained is not None
    assert (explained.origin, explained.uri, explained.details) == ("text", "urn:y", {})
    assert explained.content_hash == source.get_source("b.md").content_hash
    assert source.explain("c.md") is None
    assert source.explain("../c.md") is None


def test_citations_hold_until_the_words_change() -> None:
    source = provider(a="one\n\n# V\nvalve\n")
    (hit,) = source.query(Query(query="valve")).hits
    assert verify_citation(source, hit).status == "ok"
    source.ingest(IngestRequest(id="a.md", content=b"more\n\none\n\n# V\nvalve\n"))
    assert verify_citation(source, hit).status == "moved"
    source.ingest(IngestRequest(id="a.md", content=b"pump"))
    assert verify_citation(source, hit).status == "changed"
    source.delete_source("a.md")
    assert verify_citation(source, hit).status == "gone"


def holds(hit: Hit, versions: set[bytes]) -> bool:
    return any(hashlib.sha256(raw[hit.span.start : hit.span.end]).hexdigest() == hit.content_hash for raw in versions)


def test_threads_that_read_and_write_at_once_see_whole_documents() -> None:
    versions = {f"valve {'and more ' * number}end".encode() for number in range(8)}
    source = MemoryProvider({f"{number}.md": b"valve end" for number in range(4)})
    failures: list[object] = []
    done = threading.Event()

    def write(path: str) -> None:
        try:
            for raw in sorted(versions) * 4:
                source.ingest(IngestRequest(id=path, content=raw))
                source.delete_source(path)
                source.ingest(IngestRequest(id=path, content=raw))
        except Exception as error:
            failures.append(error)

    def read() -> None:
        while not done.is_set():
            try:
                result: QueryResult = source.query(Query(query="valve end", top_k=9))
                failures.extend(hit for hit in result.hits if not holds(hit, versions | {b"valve end"}))
                source.list_sources(filter={"kind": {"exists": False}})
                source.health_check()
            except Exception as error:
                failures.append(error)

    writers = [threading.Thread(target=write, args=(f"{number}.md",)) for number in range(4)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in [*writers, *readers]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert failures == []
    assert source.health_check().index.documents == 4


def test_an_answer_is_made_of_one_state() -> None:
    class Meddling(Analyzer):
        def query_words(self, text: str) -> list[QueryWord]:
            source.delete_source("a.md")
            return super().query_words(text)

    source = MemoryProvider({"a.md": b"valve", "b.md": b"valve"}, analyzer=Meddling())
    result = source.query(Query(query="valve"))
    assert [hit.source_id for hit in result.hits] == ["a.md", "b.md"]
    assert result.index.documents == 2
    assert source.health_check().index.documents == 1


def test_of_writers_on_one_version_one_wins() -> None:
    source = provider(a="start")
    version = source.get_source("a.md").content_hash
    outcomes: list[str] = []
    ready = threading.Barrier(8)

    def write(number: int) -> None:
        ready.wait()
        try:
            source.ingest(IngestRequest(id="a.md", text=f"writer {number}", if_match=version))
            outcomes.append("stored")
        except ConflictError:
            outcomes.append("conflict")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["conflict"] * 7 + ["stored"]


def test_only_queries_work_out_the_terms_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    terms = memory.passage_terms

    def noted(document: Document, raw: bytes, analyzer: Analyzer) -> Iterator[PassageTerms]:
        asked.append(document.source_id)
        return terms(document, raw, analyzer)

    monkeypatch.setattr(memory, "passage_terms", noted)
    shelf = MemoryProvider({"a.md": b"tea", "b.md": b"coffee"})
    shelf.list_sources(filter={"kind": "x"})
    shelf.read_source("a.md")
    shelf.health_check()
    assert asked == []
    shelf.query(Query(query="tea"))
    shelf.query(Query(query="coffee"))
    assert sorted(asked) == ["a.md", "b.md"]


def test_what_was_parsed_before_is_served_as_files() -> None:
    raw = b"---\ntitle: Tea\n---\nHow to brew.\n"
    left_out = Skipped(path="b.md", reason="unreadable")
    shelf = MemoryProvider.of_files([(parse_document("a/tea.md", raw), raw)], skipped=[left_out], id="shelf")
    source = shelf.get_source("a/tea.md")
    assert (source.origin, source.uri, source.title, source.bytes) == ("file", "a/tea.md", "Tea", len(raw))
    assert shelf.id == "shelf"
    health = shelf.health_check()
    assert health.index.revision == MemoryProvider({"a/tea.md": raw}).health_check().index.revision
    assert (health.skipped, health.index.skipped, health.index.documents) == ((left_out,), 1, 1)
    assert [hit.source_id for hit in shelf.query(Query(query="brew")).hits] == ["a/tea.md"]
