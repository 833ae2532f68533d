from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from knowledge_engine.errors import (
    AmbiguousIdError,
    InvalidArgumentError,
    InvalidCursorError,
    InvalidFilterError,
    InvalidQueryError,
    NotFoundError,
    NotSupportedError,
    ProviderError,
    QueryTooLongError,
    UnavailableError,
)
from knowledge_engine.fusion import FederatedProvider
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import (
    MAX_PAGE,
    ByteSpan,
    Capabilities,
    Health,
    IndexState,
    IngestRequest,
    Query,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.passages import Document, parse_document
from knowledge_engine.service import KnowledgeService, find_section, labels, outline
from knowledge_engine.service.facets import MAX_KEYS, MAX_VALUES
from knowledge_engine.service.links import MAX_LINKS, MAX_LOOKED_UP
from knowledge_engine.service.snapshots import MAX_SNAPSHOTS


def document(body: str = "Text.\n", **metadata: object) -> bytes:
    head = "".join(f"{key}: {value}\n" for key, value in metadata.items())
    return f"---\n{head}---\n{body}".encode() if head else body.encode()


METER = """Before the first heading.

# Meter

## Overview

A meter for [pumps](../pumps/p9.md), see [[protocol.s7]] and [[Pump P9|the pump]].

## Registers

Voltage.

### Holding

Forty-one.

## Registers

Again.
"""

DOCUMENTS: Mapping[str, bytes] = {
    "devices/meter.md": document(METER, id="device.meter", title="Meter", kind="device", protocol="modbus"),
    "pumps/p9.md": document("# P9\n\nPump text.\n", id="device.p9", title="Pump P9", kind="device", protocol="s7"),
    "protocols/s7.md": document("# S7\n\nTalks to pumps.\n", id="protocol.s7", title="S7", kind="protocol"),
    "same-1.md": document(id="same", title="First"),
    "same-2.md": document(id="same", title="Second"),
}


class Counting(MemoryProvider):
    """Counts calls; `before_listing` runs before each page."""

    def __init__(self, documents: Mapping[str, bytes] | None = None) -> None:
        super().__init__(documents)
        self.listed = 0
        self.refreshed = 0
        self.before_listing: Callable[[], object] = bool

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        self.listed += 1
        self.before_listing()
        return super().list_sources(filter=filter, limit=limit, cursor=cursor)


class Refreshable(Counting):
    def refresh(self, paths: Sequence[str] | None = None) -> bool:
        self.refreshed += 1
        return False

    def invalidate(self) -> None:
        raise AssertionError("nobody asked for that")


class Unrevised(Counting):
    """A backend that names no revision."""

    def health_check(self) -> Health:
        return super().health_check().model_copy(update={"index": IndexState()})


def put(provider: MemoryProvider, source_id: str, content: bytes) -> None:
    provider.ingest(IngestRequest(id=source_id, content=content))


@pytest.fixture
def provider() -> Counting:
    return Counting(DOCUMENTS)


@pytest.fixture
def service(provider: Counting) -> KnowledgeService:
    return KnowledgeService(provider)


# --- ids ---------------------------------------------------------------------------------------------------------


def test_a_source_id_is_resolved_without_listing_anything(service: KnowledgeService, provider: Counting) -> None:
    assert service.resolve_id("devices/meter.md") == "devices/meter.md"
    assert provider.listed == 0


def test_a_frontmatter_id_is_resolved_and_all_sources_are_listed_once_for_it(
    service: KnowledgeService, provider: Counting
) -> None:
    assert service.resolve_id("device.meter") == "devices/meter.md"
    assert service.resolve_id("protocol.s7") == "protocols/s7.md"
    assert provider.listed == 1


def test_an_id_claimed_twice_is_ambiguous_and_names_the_claimants(service: KnowledgeService) -> None:
    with pytest.raises(AmbiguousIdError, match=r"'same-1\.md', 'same-2\.md'"):
        service.resolve_id("same")


def test_another_unicode_spelling_of_an_id_finds_the_document() -> None:
    service = KnowledgeService(MemoryProvider({"cafe\u0301.md": b"x"}))
    assert service.resolve_id("caf\u00e9.md") == "cafe\u0301.md"


@pytest.mark.parametrize(
    "name", ["nothing", "", "../../etc/passwd", "/etc/passwd", "a\x00b", "a\\b", "\ud800", "x" * 100_000]
)
def test_an_id_that_no_document_has_is_not_found_whatever_it_looks_like(service: KnowledgeService, name: str) -> None:
    for ask in (service.resolve_id, service.get, service.read, service.delete):
        with pytest.raises(NotFoundError) as caught:
            ask(name)
        assert len(str(caught.value)) < 1000


def test_an_id_that_is_no_text_is_refused(service: KnowledgeService) -> None:
    with pytest.raises(InvalidArgumentError):
        service.resolve_id(7)  # type: ignore[arg-type]


def test_a_new_document_is_found_by_its_frontmatter_id_and_a_deleted_one_is_not(
    service: KnowledgeService, provider: Counting
) -> None:
    assert service.resolve_id("device.p9") == "pumps/p9.md"
    put(provider, "new.md", document(id="device.new"))
    assert service.resolve_id("device.new") == "new.md"
    provider.delete_source("new.md")
    with pytest.raises(NotFoundError):
        service.resolve_id("device.new")


# --- the catalogue -----------------------------------------------------------------------------------------------


def test_a_backend_without_revisions_is_listed_anew_each_time() -> None:
    provider = Unrevised(DOCUMENTS)
    service = KnowledgeService(provider)
    assert service.catalogue().revision == ""
    assert service.catalogue() is not service.catalogue()
    put(provider, "new.md", document(id="device.new"))
    assert service.resolve_id("device.new") == "new.md"


def test_a_backend_that_knows_its_revision_only_after_listing_is_listed_whole_once() -> None:
    class Late(Counting):
        def health_check(self) -> Health:
            health = super().health_check()
            return health if self.listed else health.model_copy(update={"index": IndexState()})

    provider = Late(DOCUMENTS)
    service = KnowledgeService(provider)
    first = service.catalogue()
    assert first.revision
    assert service.catalogue() is first
    assert provider.listed == 2


def test_a_corpus_that_changes_while_it_is_listed_is_listed_again(provider: Counting) -> None:
    service = KnowledgeService(provider)

    def change() -> None:
        provider.before_listing = bool
        put(provider, "new.md", b"new")

    provider.before_listing = change
    catalogue = service.catalogue()
    assert catalogue.get("new.md") is not None
    assert catalogue.revision == provider.health_check().index.revision
    assert provider.listed == 2


def test_a_corpus_that_never_holds_still_is_answered_but_not_kept(provider: Counting) -> None:
    service = KnowledgeService(provider)
    provider.before_listing = lambda: put(provider, f"new-{provider.listed}.md", b"new")
    first = service.catalogue()
    assert first.revision == ""
    assert len(first.sources) >= 6
    assert service.catalogue() is not first


def test_many_pages_make_one_catalogue() -> None:
    provider = Counting({f"{at:05}.md": b"x" for at in range(MAX_PAGE + 5)})
    assert len(KnowledgeService(provider).catalogue().sources) == MAX_PAGE + 5
    assert provider.listed == 2


def test_a_backend_whose_pages_never_end_is_an_error_and_no_endless_loop() -> None:
    class Endless(Counting):
        def list_sources(
            self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
        ) -> SourcePage:
            return super().list_sources().model_copy(update={"next_cursor": "again"})

    with pytest.raises(ProviderError, match="does not end"):
        KnowledgeService(Endless(DOCUMENTS)).catalogue()


def test_concurrent_callers_share_one_listing() -> None:
    provider = Counting({f"{at}.md": document(id=f"d{at}") for at in range(200)})
    service = KnowledgeService(provider)
    barrier = threading.Barrier(8)
    found: list[str] = []

    def resolve(at: int) -> None:
        barrier.wait()
        found.append(service.resolve_id(f"d{at}"))

    threads = [threading.Thread(target=resolve, args=[at]) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [f"{at}.md" for at in range(8)]
    assert provider.listed == 1


# --- list --------------------------------------------------------------------------------------------------------


def test_without_a_query_sources_come_by_id_in_pages(service: KnowledgeService) -> None:
    page = service.list(limit=3)
    assert [source.id for source in page.sources] == sorted(DOCUMENTS)[:3]
    assert page.total == 5
    assert page.facets == {}
    rest = service.list(limit=3, cursor=page.next_cursor)
    assert [source.id for source in rest.sources] == sorted(DOCUMENTS)[3:]
    assert rest.next_cursor is None


def test_a_filter_narrows_the_list_and_a_key_that_no_document_has_is_warned_of(service: KnowledgeService) -> None:
    assert [source.id for source in service.list(filter={"kind": "protocol"}).sources] == ["protocols/s7.md"]
    for query in (None, "pump"):
        page = service.list(query=query, filter={"protocl": "s7"})
        assert page.sources == ()
        assert any("protocol" in warning for warning in page.warnings)


def test_a_query_searches_the_catalogue_best_first_and_filters_hold(service: KnowledgeService) -> None:
    page = service.list(query="pump s7")
    assert [source.id for source in page.sources] == ["pumps/p9.md", "protocols/s7.md"]
    assert page.total == 2
    assert [source.id for source in service.list(query="pump s7", filter={"kind": "protocol"}).sources] == [
        "protocols/s7.md"
    ]
    assert service.list(query="  ").total == 0


def test_a_corrected_query_says_so(service: KnowledgeService) -> None:
    page = service.list(query="metre")
    assert [source.id for source in page.sources] == ["devices/meter.md"]
    assert "'Meter'" in page.hint
    assert service.list(query="meter").hint == ""


def test_pages_of_a_search_add_up_to_the_whole_search() -> None:
    service = KnowledgeService(
        MemoryProvider({f"{at:02}.md": document(title="Pump " * (1 + at % 3)) for at in range(10)})
    )
    whole = [source.id for source in service.list(query="pump").sources]
    paged: list[str] = []
    cursor = None
    while True:
        page = service.list(query="pump", limit=3, cursor=cursor)
        assert page.total == 10
        paged += [source.id for source in page.sources]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert paged == whole
    assert len(paged) == 10


def test_a_search_cursor_outlives_a_change_and_warns_of_it(service: KnowledgeService, provider: Counting) -> None:
    page = service.list(query="pump s7", limit=1)
    put(provider, "zz.md", document(title="Else"))
    following = service.list(query="pump s7", limit=1, cursor=page.next_cursor)
    assert [source.id for source in following.sources] == ["protocols/s7.md"]
    assert any("changed" in warning for warning in following.warnings)


@pytest.mark.parametrize("cursor", ["", "nonsense", "é", "a" * 100_000, "WyJhIl0"])
def test_a_cursor_that_was_not_given_out_is_refused(service: KnowledgeService, cursor: str) -> None:
    for query in (None, "pump"):
        with pytest.raises(InvalidCursorError):
            service.list(query=query, cursor=cursor)


def test_a_cursor_of_another_search_is_refused(service: KnowledgeService) -> None:
    cursor = service.list(query="pump s7", limit=1).next_cursor
    with pytest.raises(InvalidCursorError):
        service.list(query="pump", limit=1, cursor=cursor)
    with pytest.raises(InvalidCursorError):
        service.list(query="pump s7", filter={"kind": "device"}, cursor=cursor)


@pytest.mark.parametrize("limit", [0, -1, True, 2.5, "3"])
def test_a_limit_that_is_no_count_is_refused(service: KnowledgeService, limit: object) -> None:
    with pytest.raises(InvalidArgumentError):
        service.list(limit=limit)  # type: ignore[arg-type]


def test_a_limit_above_the_largest_page_is_taken_as_that() -> None:
    service = KnowledgeService(MemoryProvider({f"{at:05}.md": document(title="Pump") for at in range(MAX_PAGE + 1)}))
    for query in (None, "pump"):
        assert len(service.list(query=query, limit=10**9).sources) == MAX_PAGE


def test_an_unknown_operator_and_a_long_query_are_refused(service: KnowledgeService) -> None:
    with pytest.raises(InvalidFilterError):
        service.list(filter={"kind": {"like": "x"}})
    with pytest.raises(QueryTooLongError):
        service.list(query="x" * 10_001)


def test_facets_count_values_over_all_pages_and_follow_filter_and_query(service: KnowledgeService) -> None:
    facets = service.list(limit=1, facets=True).facets
    assert facets["kind"].values == {"device": 2, "protocol": 1}
    assert list(facets["protocol"].values) == ["modbus", "s7"]
    assert "title" not in facets
    assert "id" not in facets
    assert service.list(filter={"kind": "device"}, facets=True).facets["kind"].values == {"device": 2}
    searched = service.list(query="pump", facets=True).facets
    assert searched["protocol"].values == {"s7": 1}


def test_facets_are_bounded_in_keys_and_values_and_say_what_is_left_out() -> None:
    documents = {
        f"{at}.md": document(**{f"k{at}": "v", "all": f"v{at:03}", "long": "x" * 201}) for at in range(MAX_VALUES + 7)
    }
    facets = KnowledgeService(MemoryProvider(documents)).list(facets=True).facets
    assert len(facets) == MAX_KEYS
    assert len(facets["all"].values) == MAX_VALUES
    assert facets["all"].more == 7
    assert "long" not in facets


def test_facets_do_not_change_the_cursor_of_a_list(service: KnowledgeService) -> None:
    cursor = service.list(limit=2, facets=True).next_cursor
    assert [source.id for source in service.list(limit=9, cursor=cursor).sources] == sorted(DOCUMENTS)[2:]


# --- get ---------------------------------------------------------------------------------------------------------


def test_the_outline_has_each_section_with_what_is_nested_in_it(service: KnowledgeService) -> None:
    raw = DOCUMENTS["devices/meter.md"]
    detail = service.get("device.meter")
    assert detail.source.id == "devices/meter.md"
    assert [(entry.level, entry.title) for entry in detail.outline] == [
        (0, ""),
        (1, "Meter"),
        (2, "Overview"),
        (2, "Registers"),
        (3, "Holding"),
        (2, "Registers"),
    ]
    registers = detail.outline[3]
    text = raw[registers.span.start : registers.span.end].decode()
    assert text.startswith("## Registers\n\nVoltage.")
    assert text.endswith("Forty-one.\n\n")
    assert registers.line == raw[: registers.span.start].count(b"\n") + 1
    assert detail.outline[4].heading_path == ("Meter", "Registers", "Holding")
    assert detail.outline[1].span.end == len(raw)
    assert len({entry.slug for entry in detail.outline}) == 6


def test_links_lead_to_the_documents_that_they_mean(service: KnowledgeService) -> None:
    raw = DOCUMENTS["devices/meter.md"]
    links = service.get("devices/meter.md").links
    assert [(link.kind, link.source_id) for link in links] == [
        ("markdown", "pumps/p9.md"),
        ("wiki", "protocols/s7.md"),
        ("wiki", "pumps/p9.md"),
    ]
    assert b"[pumps]" in raw[links[0].span.start : links[0].span.end]


def links_of(body: str, **others: bytes) -> list[str | None]:
    documents = {name.replace("_", "/") + ".md": raw for name, raw in others.items()}
    service = KnowledgeService(MemoryProvider({**documents, "a/b/from.md": body.encode()}))
    return [link.source_id for link in service.get("a/b/from.md").links]


@pytest.mark.parametrize(
    ("body", "leads_to"),
    [
        ("[x](to.md)", None),
        ("[x](../to.md)", "a/to.md"),
        ("[x](../to.md#part)", "a/to.md"),
        ("[x](../to.md?raw=1#part)", "a/to.md"),
        ("[x](/a/to.md)", "a/to.md"),
        ("[x](%2e%2e/to.md)", "a/to.md"),
        ("[x](#part)", "a/b/from.md"),
        ("[x](../../../a/to.md)", None),
        ("[x](/../a/to.md)", None),
        ("[x](..)", None),
        ("[x](../../..)", None),
        ("[x](/)", None),
        ("[x](https://example.org/a/to.md)", None),
        ("[x](//example.org/a/to.md)", None),
        ("[x](mailto:me@example.org)", None),
        ("[x](a%00b.md)", None),
        ("[[to]]", "a/to.md"),
        ("[[to.md#part]]", "a/to.md"),
        ("[[a/to]]", "a/to.md"),
        ("[[#part]]", "a/b/from.md"),
        ("[[nowhere]]", None),
    ],
)
def test_where_a_link_leads(body: str, leads_to: str | None) -> None:
    assert links_of(body, a_to=b"there") == [leads_to]


def test_a_wikilink_that_two_documents_could_mean_leads_to_neither() -> None:
    assert links_of("[[to]]", a_to=b"one", c_to=b"two") == [None]


def test_data_and_plain_text_have_no_links() -> None:
    service = KnowledgeService(MemoryProvider({"a.json": b'{"x": "[x](a.json)"}', "a.txt": b"[x](a.json)"}))
    assert service.get("a.json").links == service.get("a.txt").links == ()


def test_many_links_are_resolved_by_one_listing_and_a_few_by_none() -> None:
    targets = {f"t{at:03}.md": b"x" for at in range(MAX_LOOKED_UP + 1)}

    def linked(count: int) -> bytes:
        return "\n".join(f"[x]({name}) [y](none-{name})" for name in list(targets)[:count]).encode()

    provider = Counting({**targets, "many.md": linked(len(targets)), "few.md": linked(3)})
    service = KnowledgeService(provider)
    few = service.get("few.md").links
    assert [link.source_id for link in few] == ["t000.md", None, "t001.md", None, "t002.md", None]
    assert provider.listed == 0
    many = service.get("many.md").links
    assert [link.source_id for link in many[::2]] == list(targets)
    assert {link.source_id for link in many[1::2]} == {None}
    assert provider.listed == 1


def test_no_more_links_than_the_limit_are_given() -> None:
    service = KnowledgeService(MemoryProvider({"a.md": b"[x](b.md) " * (MAX_LINKS + 1)}))
    assert len(service.get("a.md").links) == MAX_LINKS


def test_issues_of_the_document_come_with_it() -> None:
    service = KnowledgeService(MemoryProvider({"a.md": b"---\nid: a\nid: b\n---\nText.\n"}))
    assert [issue.path for issue in service.get("a.md").issues] == ["a.md"]


def test_a_document_that_changes_between_look_up_and_reading_is_looked_up_again() -> None:
    class Changing(MemoryProvider):
        changes = 1

        def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
            if self.changes:
                self.changes -= 1
                put(self, source_id, document("New.\n", title=f"Title {self.changes}"))
            return super().read_source(source_id, span)

    loaded = KnowledgeService(Changing({"a.md": document(title="Old")})).load("a.md")
    assert (loaded.source.title, loaded.document.title) == ("Title 0", "Title 0")
    assert loaded.source.content_hash == hashlib.sha256(loaded.raw).hexdigest()
    restless = Changing({"a.md": document(title="Old")})
    restless.changes = 100
    assert KnowledgeService(restless).load("a.md").raw  # given up, not hung


# --- read --------------------------------------------------------------------------------------------------------


def test_bytes_are_read_whole_or_by_range_with_their_hash(service: KnowledgeService) -> None:
    raw = DOCUMENTS["pumps/p9.md"]
    whole = service.read("device.p9")
    assert (whole.content, whole.source_id, whole.total_bytes) == (raw, "pumps/p9.md", len(raw))
    part = service.read("pumps/p9.md", ByteSpan(start=4, end=10))
    assert part.content == raw[4:10]
    assert part.content_hash == hashlib.sha256(raw[4:10]).hexdigest()


@pytest.mark.parametrize("name", ["Registers", " registers ", "## REGISTERS", "#registers"])
def test_a_section_is_read_by_title_or_slug_in_any_case(service: KnowledgeService, name: str) -> None:
    raw = DOCUMENTS["devices/meter.md"]
    part = service.read("device.meter", section=name)
    assert part.content.startswith(b"## Registers\n\nVoltage.")
    assert part.content == raw[part.span.start : part.span.end]
    assert part.content_hash == hashlib.sha256(part.content).hexdigest()
    assert part.total_bytes == len(raw)


def test_an_unknown_section_names_those_there_are(service: KnowledgeService) -> None:
    with pytest.raises(NotFoundError, match="Overview"):
        service.read("device.meter", section="Wiring")
    with pytest.raises(NotFoundError, match="none"):
        KnowledgeService(MemoryProvider({"a.md": b""})).read("a.md", section="x")


def test_a_span_and_a_section_at_once_are_refused(service: KnowledgeService) -> None:
    with pytest.raises(InvalidArgumentError):
        service.read("device.meter", ByteSpan(start=0, end=1), section="Overview")


headings = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from(
            ["A", "a", "B 1", "b-1", "A-1", "#x", "Å", "A\u030a", "C#", "", "overview", "ss", "ß", "\u00a0x\u00a0"]
        ),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(headings)
def test_the_label_of_each_section_finds_exactly_that_section(chosen: list[tuple[int, str]]) -> None:
    body = "".join(f"{'#' * level} {title}\n\ntext {at}\n\n" for at, (level, title) in enumerate(chosen))
    loaded = KnowledgeService(MemoryProvider({"a.md": f"lead\n\n{body}".encode()})).load("a.md")
    entries = outline(loaded.document.sections)
    for entry, label in zip(entries, labels(entries), strict=True):
        assert find_section(entries, label) is entry


@settings(deadline=None)
@given(headings)
def test_a_section_ends_where_the_next_that_is_not_deeper_begins(chosen: list[tuple[int, str]]) -> None:
    body = "".join(f"{'#' * level} {title}\n\ntext {at}\n\n" for at, (level, title) in enumerate(chosen))
    raw = body.encode()
    entries = outline(KnowledgeService(MemoryProvider({"a.md": raw})).load("a.md").document.sections)
    for at, entry in enumerate(entries):
        after = next((one.span.start for one in entries[at + 1 :] if one.level <= entry.level), len(raw))
        assert entry.span.end == after


# --- query and verify --------------------------------------------------------------------------------------------


def test_a_query_is_answered_from_a_model_or_a_mapping_in_either_case(service: KnowledgeService) -> None:
    asked = service.query(Query(query="voltage", top_k=1))
    assert [hit.source_id for hit in asked.hits] == ["devices/meter.md"]
    assert service.query({"query": "voltage", "topK": 1}).hits == asked.hits


@pytest.mark.parametrize("text", ["", "  \n", "\u00a0"])
def test_a_blank_query_is_refused(service: KnowledgeService, text: str) -> None:
    with pytest.raises(InvalidQueryError, match="empty"):
        service.query(Query(query=text))


def test_a_query_of_signs_only_finds_nothing(service: KnowledgeService) -> None:
    assert service.query(Query(query="???")).hits == ()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "query"),
        ({"query": 7}, "query"),
        ({"query": "x", "top": 1}, "top"),
        ({"query": "x", "top_k": 0}, "top_k"),
        (7, "query"),
    ],
)
def test_a_mapping_that_is_no_query_is_refused_and_the_field_is_named(
    service: KnowledgeService, fields: Mapping[str, object], named: str
) -> None:
    with pytest.raises(InvalidQueryError, match=named):
        service.query(fields)


def test_a_bad_filter_and_a_long_text_are_refused_before_the_backend_is_asked(service: KnowledgeService) -> None:
    with pytest.raises(InvalidFilterError):
        service.query(Query(query="x", filter={"a": {"like": 1}}))
    with pytest.raises(QueryTooLongError):
        service.query(Query(query="x" * 10_001))


def test_a_citation_is_verified_and_a_change_is_seen(service: KnowledgeService, provider: Counting) -> None:
    (hit, *_) = service.query(Query(query="voltage")).hits
    assert service.verify(hit).status == "ok"
    put(provider, "devices/meter.md", b"something else")
    assert service.verify(hit).status == "changed"
    provider.delete_source("devices/meter.md")
    assert service.verify(hit).status == "gone"
    assert service.verify(hit.model_copy(update={"source_id": "../no-such-thing"})).status == "gone"


# --- status, changes, writing ------------------------------------------------------------------------------------


def test_status_says_what_is_behind_and_what_is_wrong_with_documents(provider: Counting) -> None:
    put(provider, "bad.md", b"---\nid: a\nid: b\n---\nText.\n")
    status = KnowledgeService(provider).status()
    assert (status.backend, status.status, status.index.documents) == ("memory", "ok", 6)
    assert status.capabilities.writable
    assert [(issue.path, issue.code) for issue in status.issues] == [
        ("bad.md", "yaml-duplicate-key"),
        ("same-2.md", "duplicate-id"),
    ]


def test_status_of_a_disposed_backend_says_down_and_other_calls_raise(provider: Counting) -> None:
    with KnowledgeService(provider) as service:
        assert service.status().status == "ok"
    assert service.status().status == "down"
    with pytest.raises(UnavailableError):
        service.query(Query(query="x"))


def test_status_survives_a_refresh_that_fails() -> None:
    class Sick(Refreshable):
        def refresh(self, paths: Sequence[str] | None = None) -> bool:
            raise ProviderError("The disk is gone", mend="Find it.")

    service = KnowledgeService(Sick(DOCUMENTS), refresh_before_answer=True)
    assert service.status().index.documents == 5
    with pytest.raises(ProviderError):
        service.list()


def test_a_backend_is_refreshed_before_each_answer_only_where_asked() -> None:
    provider = Refreshable(DOCUMENTS)
    for ask in (lambda service: service.list(), lambda service: service.resolve_id("same-1.md")):
        ask(KnowledgeService(provider))
    assert provider.refreshed == 0
    fresh = KnowledgeService(provider, refresh_before_answer=True)
    fresh.list()
    fresh.get("same-1.md")
    fresh.read("same-1.md")
    fresh.query(Query(query="x"))
    fresh.status()
    fresh.changes()
    assert provider.refreshed == 6
    KnowledgeService(Counting(DOCUMENTS), refresh_before_answer=True).list()  # cannot be refreshed: no matter


def test_a_server_looks_for_changes_as_often_as_it_was_told() -> None:
    provider = Refreshable(DOCUMENTS)
    rarely = KnowledgeService(provider, refresh_before_answer=True, fresh_for_s=3600)
    for _ in range(5):
        rarely.list()
        rarely.query(Query(query="x"))
        rarely.source("same-1.md")
        rarely.revision()
    assert provider.refreshed == 1
    at_once = KnowledgeService(provider, refresh_before_answer=True, fresh_for_s=1e-9)
    at_once.list()
    at_once.list()
    assert provider.refreshed == 3
    KnowledgeService(provider, fresh_for_s=3600).list()  # it was not told to look at all
    assert provider.refreshed == 3


def test_a_look_that_fails_is_made_again() -> None:
    class Failing(Refreshable):
        def refresh(self, paths: Sequence[str] | None = None) -> bool:
            super().refresh(paths)
            raise ProviderError("The disk is away", mend="Bring it back.")

    provider = Failing(DOCUMENTS)
    service = KnowledgeService(provider, refresh_before_answer=True, fresh_for_s=3600)
    for _ in range(2):
        with pytest.raises(ProviderError, match="The disk is away"):
            service.list()
    assert provider.refreshed == 2


class Building(Refreshable):
    """Its index is not there yet, and says so."""

    state: Literal["ready", "building", "stale"] = "building"

    def health_check(self) -> Health:
        return Health(index=IndexState(state=self.state))


def test_an_index_that_is_being_built_is_not_waited_for_by_looking_for_changes() -> None:
    provider = Building(DOCUMENTS)
    for fresh_for_s in (0.0, 3600.0):
        service = KnowledgeService(provider, refresh_before_answer=True, fresh_for_s=fresh_for_s)
        service.list()
        service.query(Query(query="x"))
    assert provider.refreshed == 0


def test_who_does_not_want_to_wait_asks_a_backend_that_has_no_index_at_once() -> None:
    provider = Building(DOCUMENTS)
    provider.state = "stale"
    service = KnowledgeService(provider, refresh_before_answer=True)
    service.query(Query(query="x", wait_s=0.1))
    assert provider.refreshed == 0
    service.query(Query(query="x"))
    assert provider.refreshed == 1


def test_the_revision_changes_with_the_corpus_and_is_empty_where_there_is_none(provider: Counting) -> None:
    service = KnowledgeService(provider)
    first = service.revision()
    assert first
    assert service.revision() == first
    put(provider, "new.md", b"# New")
    assert service.revision() != first
    assert KnowledgeService(Unrevised(DOCUMENTS)).revision() == ""


def test_a_source_is_had_by_exactly_its_id(service: KnowledgeService, provider: Counting) -> None:
    assert service.source("same-1.md") == provider.get_source("same-1.md")
    for name in ("device.meter", "same", "SAME-1.md", "none.md"):
        with pytest.raises(NotFoundError):
            service.source(name)
    assert provider.listed == 0


def test_changes_name_what_was_added_changed_and_removed(service: KnowledgeService, provider: Counting) -> None:
    first = service.changes()
    assert first.reset
    assert first.added == tuple(sorted(DOCUMENTS))
    assert first.revision == provider.health_check().index.revision
    assert service.changes(first.revision).model_dump(exclude={"revision"}) == {
        "added": (), "changed": (), "removed": (), "reset": False, "complete": True,
    }  # fmt: skip
    put(provider, "new.md", b"new")
    put(provider, "same-1.md", b"other")
    provider.delete_source("same-2.md")
    changes = service.changes(first.revision)
    assert (changes.added, changes.changed, changes.removed) == (("new.md",), ("same-1.md",), ("same-2.md",))
    assert not changes.reset
    assert changes.complete


def test_an_unknown_or_forgotten_revision_resets(service: KnowledgeService, provider: Counting) -> None:
    assert service.changes("never").reset
    first = service.changes().revision
    for at in range(MAX_SNAPSHOTS - 1):
        put(provider, "x.md", str(at).encode())
        last = service.changes().revision
    assert not service.changes(first).reset
    put(provider, "x.md", b"once more")
    assert not service.changes(last).reset
    assert service.changes(first).reset


def test_changes_without_revisions_or_hashes_are_told_as_far_as_they_can_be() -> None:
    class Bare(Unrevised):
        def list_sources(
            self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
        ) -> SourcePage:
            page = super().list_sources(filter=filter, limit=limit, cursor=cursor)
            bare = tuple(source.model_copy(update={"content_hash": None}) for source in page.sources)
            return page.model_copy(update={"sources": bare})

    hashed = Unrevised(DOCUMENTS)
    service = KnowledgeService(hashed)
    first = service.changes()
    assert first.complete
    put(hashed, "same-1.md", b"other")
    assert service.changes(first.revision).changed == ("same-1.md",)
    bare = Bare(DOCUMENTS)
    service = KnowledgeService(bare)
    first = service.changes()
    assert not first.complete
    assert service.changes(first.revision).changed == ()
    put(bare, "same-1.md", document(id="same", title="Retitled"))
    assert service.changes(first.revision).changed == ("same-1.md",)


def test_changes_of_a_corpus_that_never_holds_still_are_marked_incomplete(provider: Counting) -> None:
    service = KnowledgeService(provider)
    provider.before_listing = lambda: put(provider, "restless.md", str(provider.listed).encode())
    assert not service.changes().complete


def test_what_is_ingested_is_found_and_what_is_deleted_is_not(service: KnowledgeService) -> None:
    stored = service.ingest(IngestRequest(id="new.md", text="A walrus.", metadata={"id": "device.new"}))
    assert stored.id == "new.md"
    assert [hit.source_id for hit in service.query(Query(query="walrus")).hits] == ["new.md"]
    assert service.delete("device.new") == "new.md"
    assert service.query(Query(query="walrus")).hits == ()


def test_a_backend_that_cannot_be_written_says_so() -> None:
    class ReadOnly(MemoryProvider):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(writable=False)

    class Powerless:
        id = "plain"
        capabilities = Capabilities(writable=True)

    for provider in (ReadOnly(DOCUMENTS), Powerless()):
        service = KnowledgeService(provider)  # type: ignore[arg-type]
        with pytest.raises(NotSupportedError, match="cannot be written"):
            service.ingest(IngestRequest(id="a.md", text="x"))
        with pytest.raises(NotSupportedError):
            service.delete("same-1.md")


def test_making_a_service_asks_the_provider_nothing() -> None:
    class Untouchable:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(name)

    KnowledgeService(Untouchable(), refresh_before_answer=True)  # type: ignore[arg-type]


def test_an_exact_id_among_fifty_thousand_is_answered_without_listing_them() -> None:
    class Huge(Counting):
        def get_source(self, source_id: str) -> Source:
            return Source(id=source_id, origin="text", uri="u", title="t", bytes=5)

        def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
            return SourceContent(
                source_id=source_id,
                content=b"# One",
                span=ByteSpan(start=0, end=5),
                total_bytes=5,
                content_hash=hashlib.sha256(b"# One").hexdigest(),
            )

    provider = Huge()
    service = KnowledgeService(provider)
    assert service.get("49999.md").outline[0].title == "One"
    assert service.read("49999.md", section="one").content == b"# One"
    assert provider.listed == 0


def test_links_of_a_federated_document_stay_in_its_backend() -> None:
    backends = {
        "docs": MemoryProvider({"a/x.md": b"[up](../y.md) [beside](z.md) [root](/y.md)", "y.md": b"y", "a/z.md": b"z"}),
        "more": MemoryProvider({"y.md": b"another"}),
    }
    links = KnowledgeService(FederatedProvider(backends)).get("docs:a/x.md").links
    assert [link.source_id for link in links] == ["docs:y.md", "docs:a/z.md", "docs:y.md"]


def test_links_of_a_document_with_a_colon_in_its_name_are_resolved() -> None:
    provider = MemoryProvider({"one: two/x.md": b"[up](../y.md)", "y.md": b"y"})
    assert [link.source_id for link in KnowledgeService(provider).get("one: two/x.md").links] == ["y.md"]


def test_a_document_read_again_is_parsed_once_until_its_bytes_change(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def noted(source_id: str, raw: bytes) -> Document:
        parsed.append(raw)
        return parse_document(source_id, raw)

    monkeypatch.setattr("knowledge_engine.service.core.parse_document", noted)
    large = b"x" * 70_000
    provider = MemoryProvider({"a.md": b"# One\n", "large.md": large})
    service = KnowledgeService(provider)
    assert service.load("a.md") == service.load("a.md")
    assert parsed == [b"# One\n"]
    provider.ingest(IngestRequest(id="a.md", content=b"# Two\n"))
    assert service.load("a.md").document.title == "Two"
    service.load("large.md")
    service.load("large.md")
    assert parsed == [b"# One\n", b"# Two\n", large, large]
