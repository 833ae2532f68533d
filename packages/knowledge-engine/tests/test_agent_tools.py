from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from knowledge_engine.agent_tools import AgentTools, plain
from knowledge_engine.agent_tools.listing import Entries
from knowledge_engine.agent_tools.plain import MAX_DEPTH, MAX_VALUES, scrub
from knowledge_engine.errors import NotFoundError
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import (
    ByteSpan,
    Health,
    IndexState,
    IngestRequest,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.service import KnowledgeService

Answer = dict[str, Any]


def document(body: str = "Text.\n", **metadata: object) -> bytes:
    head = "".join(f"{key}: {value}\n" for key, value in metadata.items())
    return f"---\n{head}---\n{body}".encode() if head else body.encode()


METER_BODY = (
    "## Overview\n\nAn energy meter for panels.\n\n## Registers\n\nVoltage is at 40001.\n\n### Words\n\nHigh first.\n"
)

DOCUMENTS: Mapping[str, bytes] = {
    "meter.md": document(
        METER_BODY,
        id="device.acme.em24",
        title="Energy meter EM-24",
        kind="device",
        vendor="Acme",
        model="EM-24",
        equipment_type="energy_meter",
        protocol="modbus",
        drivers="[modbus-tcp, modbus-rtu]",
        summary="Registers of the meter.",
        verified="unverified",
        aliases="[Em twentyfour]",
        year=2024,
    ),
    "s7.md": document(
        "## Overview\n\nS7 talks.\n", id="protocol.s7", title="S7 protocol", kind="protocol", protocol="s7"
    ),
    "bare.md": b"Only text, no frontmatter.\n",
    "one.md": document(id="same", title="One of two"),
    "two.md": document(id="same", title="Two of two"),
}


def tools_over(documents: Mapping[str, bytes]) -> AgentTools:
    return AgentTools(KnowledgeService(MemoryProvider(documents)))


@pytest.fixture
def tools() -> AgentTools:
    return tools_over(DOCUMENTS)


def strict(answer: Answer) -> Answer:
    """The answer, after proving that it is strict JSON in UTF-8 with plain types only."""
    json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()

    def walk(value: object) -> None:
        assert type(value) in (dict, list, str, int, float, bool, type(None))
        if isinstance(value, dict):
            assert all(type(key) is str for key in value)
            for item in value.values():
                walk(item)
        if isinstance(value, list):
            for item in value:
                walk(item)

    walk(answer)
    return answer


def ids(answer: Answer) -> list[str]:
    return [entry["id"] for entry in strict(answer)["docs"]]


# --- list --------------------------------------------------------------------------------------------------------


def test_a_list_entry_has_exactly_the_contracted_keys(tools: AgentTools) -> None:
    entry = next(entry for entry in tools.list()["docs"] if entry["id"] == "device.acme.em24")
    assert entry == {
        "id": "device.acme.em24",
        "kind": "device",
        "title": "Energy meter EM-24",
        "vendor": "Acme",
        "model": "EM-24",
        "equipment_type": "energy_meter",
        "protocol": "modbus",
        "drivers": ["modbus-tcp", "modbus-rtu"],
        "summary": "Registers of the meter.",
        "verified": "unverified",
        "chars": len(METER_BODY),
    }


def test_what_a_document_does_not_say_is_empty_text_and_never_null(tools: AgentTools) -> None:
    entry = next(entry for entry in tools.list()["docs"] if entry["id"] == "bare.md")
    assert entry["drivers"] == []
    assert {entry[key] for key in ("kind", "vendor", "model", "equipment_type", "protocol", "summary", "verified")} == {
        ""
    }
    assert entry["chars"] == len("Only text, no frontmatter.\n")


def test_an_id_claimed_twice_is_listed_as_the_source_id(tools: AgentTools) -> None:
    assert ids(tools.list()) == ["bare.md", "device.acme.em24", "one.md", "protocol.s7", "two.md"]


def test_a_list_counts_and_marks_document_text_as_untrusted(tools: AgentTools) -> None:
    answer = strict(tools.list())
    assert (answer["count"], answer["total"], answer["truncated"], answer["next_cursor"]) == (5, 5, False, None)
    assert answer["untrusted"] is True
    assert "document by its" in answer["hint"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"protocol": "s7"}, ["protocol.s7"]),
        ({"protocol": "s7", "kind": "device"}, []),
        ({"protocol": "any", "kind": "device"}, ["device.acme.em24"]),
        ({"protocol": " ANY ", "kind": None, "year": 2024}, ["device.acme.em24"]),
        ({"year": "2024"}, ["device.acme.em24"]),
        ({"drivers": "modbus-rtu"}, ["device.acme.em24"]),
        ({"protocol": ["s7", "opcua"]}, ["protocol.s7"]),
        ({"filter": {"protocol": "s7"}}, ["protocol.s7"]),
        ({"filter": '{"protocol": {"in": ["s7"]}}'}, ["protocol.s7"]),
        ({"filter": {"protocol": "s7"}, "kind": "device"}, []),
        ({"filter": {"protocol": "s7"}, "kind": "protocol"}, ["protocol.s7"]),
        ({"filter": {}, "kind": "protocol"}, ["protocol.s7"]),
        ({"filter": " ", "kind": "protocol"}, ["protocol.s7"]),
    ],
)
def test_any_scalar_argument_is_a_filter_that_any_and_none_switch_off(
    tools: AgentTools, filters: dict[str, object], expected: list[str]
) -> None:
    answer = tools.list(**filters)
    assert ids(answer) == expected
    assert "error" not in answer


def test_a_query_ranks_by_the_catalogue_fields_and_may_be_given_by_position(tools: AgentTools) -> None:
    assert ids(tools.list("twentyfour")) == ["device.acme.em24"]
    assert ids(tools.list(query="protocol s7"))[0] == "protocol.s7"
    assert ids(tools.list(query="any words of protocol", kind="protocol")) == ["protocol.s7"]


def test_keys_with_reserved_names_are_filtered_through_filter() -> None:
    tools = tools_over({"a.md": document(limit=5), "b.md": document(limit=6)})
    assert ids(tools.list(limit=5)) == ["a.md", "b.md"]
    assert ids(tools.list(filter={"limit": 5})) == ["a.md"]


def test_a_blank_filter_is_left_out_and_said_to_be(tools: AgentTools) -> None:
    answer = tools.list(protocol="", kind="protocol")
    assert ids(answer) == ["protocol.s7"]
    assert "protocol" in answer["hint"]


@pytest.mark.parametrize("limit", [2, "2", 2.0, " 2 "])
def test_pages_follow_each_other_and_numbers_may_be_text(tools: AgentTools, limit: object) -> None:
    answer = tools.list(limit=limit)
    assert (answer["count"], answer["total"], answer["truncated"]) == (2, 5, True)
    assert "next_cursor" in answer["hint"]
    following = tools.list(limit=limit, cursor=answer["next_cursor"])
    assert ids(following) == ["one.md", "protocol.s7"]


def test_the_default_page_has_50_and_the_largest_200_which_is_said() -> None:
    tools = tools_over({f"{at:03}.md": b"x" for at in range(210)})
    assert tools.list()["count"] == 50
    answer = tools.list(limit=1_000)
    assert answer["count"] == 200
    assert "200" in answer["hint"]


def test_no_match_names_the_values_that_exist_and_the_nearest(tools: AgentTools) -> None:
    answer = strict(tools.list(protocol="Modbuss"))
    assert (answer["count"], answer["docs"]) == (0, [])
    assert "Nearest: modbus." in answer["hint"]
    assert "modbus, s7" in answer["hint"]
    assert "modbus, s7" in tools.list(filter={"protocol": "zzz"})["hint"]


def test_no_match_for_an_unknown_key_names_the_nearest_key_or_the_known_ones(tools: AgentTools) -> None:
    assert "protocol" in tools.list(protocl="s7")["hint"]
    assert "equipment_type" in tools.list(zzzz="s7")["hint"]
    assert tools.list(protocl="s7")["warnings"]


def test_no_match_for_a_combination_or_a_query_says_what_to_try(tools: AgentTools) -> None:
    assert "Leave one out" in tools.list(protocol="s7", kind="device")["hint"]
    assert "Leave one out" in tools.list(filter={"year": {"gt": 2030}})["hint"]
    assert "Leave one out" in tools.list(id="device.nobody")["hint"]
    assert "full text" in tools.list(query="xylophone")["hint"]
    assert "filters" in tools.list(query="xylophone", kind="device")["hint"]


def test_an_empty_library_says_that_it_is_empty() -> None:
    assert tools_over({}).list()["hint"] == "The library has no documents."


def test_a_corrected_query_is_said_in_the_hint(tools: AgentTools) -> None:
    answer = tools.list(query="enrgy")
    assert ids(answer) == ["device.acme.em24"]
    assert "Energy" in answer["hint"]


def test_values_that_exist_are_capped_in_the_hint() -> None:
    tools = tools_over({f"{at}.md": document(vendor=f"vendor-{at:02}") for at in range(15)})
    hint = tools.list(vendor="nobody")["hint"]
    assert "and 5 more" in hint


def test_metadata_of_other_types_is_listed_as_text() -> None:
    tools = tools_over(
        {"a.md": document(vendor=7, model="[X1, X2]", drivers="one", verified="true", protocol="{a: 1}")}
    )
    entry = strict(tools.list())["docs"][0]
    assert (entry["vendor"], entry["model"], entry["drivers"]) == ("7", "X1, X2", ["one"])
    assert (entry["verified"], entry["protocol"]) == ("true", "")


def test_huge_metadata_is_cut_in_lists_and_documents() -> None:
    tools = tools_over(
        {"a.md": document(summary="s" * 9_000, title="t" * 9_000, vendor="v" * 9_000, notes="[" + "n" * 9_000 + "]")}
    )
    entry = tools.list()["docs"][0]
    assert max(len(entry[key]) for key in ("summary", "title", "vendor")) <= 500
    answer = strict(tools.get("a.md"))
    assert len(answer["metadata"]["summary"]) <= 2_000
    assert len(answer["metadata"]["notes"][0]) <= 2_000


def test_metadata_that_does_not_fit_is_left_out_and_named() -> None:
    many = {f"key{at}": "[" + "v, " * 800 + "w]" for at in range(20)}
    answer = strict(tools_over({"a.md": document(**many, last="here")}).get("a.md"))
    assert len(json.dumps(answer["metadata"])) < 17_000
    nested = tools_over({"a.md": document(x="{" + "k" * 400 + ": [{deep: " + "v" * 5_000 + "}]}")}).get("a.md")
    [(key, value)] = nested["metadata"]["x"].items()
    assert (len(key), len(value[0]["deep"])) == (300, 2_000)
    assert answer["metadata"]["key0"]
    assert answer["metadata"]["last"] == "here"
    assert "keys are too long to be shown: key" in answer["hint"]


def test_chars_are_read_once_for_each_version_of_a_document() -> None:
    class Counting(MemoryProvider):
        reads = 0

        def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
            self.reads += 1
            return super().read_source(source_id, span)

    provider = Counting(DOCUMENTS)
    tools = AgentTools(KnowledgeService(provider))
    assert tools.list() == tools.list()
    assert provider.reads == 5
    provider.ingest(IngestRequest(id="bare.md", content="é!".encode()))
    assert tools.list()["docs"][0]["chars"] == 2
    assert provider.reads == 6


def test_chars_of_data_count_all_of_it() -> None:
    raw = b"---\na: 1\n---\nb: 2\n"
    assert tools_over({"a.yaml": raw}).list()["docs"][0]["chars"] == len(raw)


def test_a_document_that_vanishes_while_it_is_listed_has_no_chars() -> None:
    class Vanishing(MemoryProvider):
        def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
            raise NotFoundError("Gone", mend="Too late.")

        def list_sources(self, **asked: Any) -> SourcePage:
            page = super().list_sources(**asked)
            return page.model_copy(
                update={"sources": tuple(one.model_copy(update={"content_hash": None}) for one in page.sources)}
            )

    answer = AgentTools(KnowledgeService(Vanishing(DOCUMENTS))).list()
    assert {entry["chars"] for entry in answer["docs"]} == {0}


def test_what_is_remembered_of_documents_is_bounded_and_nothing_of_those_without_a_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Bare(MemoryProvider):
        def list_sources(self, **asked: Any) -> SourcePage:
            page = super().list_sources(**asked)
            return page.model_copy(
                update={"sources": tuple(one.model_copy(update={"content_hash": None}) for one in page.sources)}
            )

    entries = Entries(KnowledgeService(Bare(DOCUMENTS)))
    assert entries.page(5, query=None, filter=None, cursor=None)[1][0]["chars"] == len(DOCUMENTS["bare.md"])
    assert (entries._sizes, entries._rendered) == ({}, {})
    monkeypatch.setattr("knowledge_engine.agent_tools.listing._CACHED_SIZES", 2)
    monkeypatch.setattr("knowledge_engine.agent_tools.listing._CACHED_ENTRIES", 3)
    entries = Entries(KnowledgeService(MemoryProvider(DOCUMENTS)))
    entries.page(5, query=None, filter=None, cursor=None)
    assert 0 < len(entries._sizes) <= 2
    assert 0 < len(entries._rendered) <= 3


def test_a_list_made_while_the_corpus_changes_is_of_one_state() -> None:
    class Changing(MemoryProvider):
        times = 0

        def list_sources(self, **asked: Any) -> SourcePage:
            page = super().list_sources(**asked)
            if self.times < 2 and asked["limit"] == 50:
                self.times += 1
                self.ingest(IngestRequest(id="a.md", content=document(id=f"id-{self.times}")))
            return page

    provider = Changing({"a.md": document(id="id-0")})
    tools = AgentTools(KnowledgeService(provider))
    assert ids(tools.list()) == ["id-2"]
    provider.times = -10  # changes at each look: what was listed is given all the same
    assert tools.list()["count"] == 1


def test_chars_of_a_version_that_was_not_read_are_not_remembered() -> None:
    class Late(MemoryProvider):
        def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
            self.ingest(IngestRequest(id=source_id, content=b"longer than before"))
            return super().read_source(source_id, span)

    provider = Late({"a.md": b"short"})
    entries = Entries(KnowledgeService(provider))
    assert entries.page(5, query=None, filter=None, cursor=None)[1][0]["chars"] == 18
    assert (entries._sizes, entries._rendered) == ({}, {})


def test_changing_a_listed_entry_changes_no_later_list(tools: AgentTools) -> None:
    before = tools.list(protocol="modbus")
    answer = tools.list(protocol="modbus")
    answer["docs"][0]["title"] = "changed"
    answer["docs"][0]["drivers"].append("changed")
    assert tools.list(protocol="modbus") == before


def test_a_page_holds_as_many_documents_as_an_answer_may_and_the_next_goes_on_there() -> None:
    tools = tools_over({f"{at:03}.md": document(summary="s" * 450, vendor="v" * 250) for at in range(200)})
    seen: list[str] = []
    cursor = None
    while True:
        answer = strict(tools.list(limit=200, cursor=cursor))
        assert len(json.dumps(answer["docs"])) < 82_000
        assert answer["count"] > 50 or answer["next_cursor"] is None
        seen += ids(answer)
        cursor = answer["next_cursor"]
        if cursor is None:
            break
        assert "next_cursor" in answer["hint"]
    assert seen == [f"{at:03}.md" for at in range(200)]


def test_one_document_is_listed_however_much_it_says_of_itself() -> None:
    drivers = "[" + ", ".join(f"{at}{'d' * 300}" for at in range(60)) + "]"
    long = "x" * 65_000
    tools = tools_over({"a.md": document(drivers=drivers), "b.md": f"---\nid: {long}\n---\n".encode()})
    answer = tools.list()
    assert answer["count"] >= 1
    assert len(json.dumps(answer)) < 120_000


def test_warnings_are_capped_and_counted(tools: AgentTools) -> None:
    answer = tools.list(**{f"key{at}": "x" for at in range(60)})
    assert len(answer["warnings"]) == 21
    assert "40 more" in answer["warnings"][-1]
    assert len(answer["hint"]) < 2_000


def test_more_arguments_than_are_read_are_refused_rather_than_left_out(tools: AgentTools) -> None:
    assert "code" not in tools.list(**{f"key{at}": "any" for at in range(100)})
    answer = tools.list(**{f"key{at}": "any" for at in range(101)})
    assert (answer["code"], answer["docs"]) == ("invalid-argument", [])


def test_a_backend_without_documents_says_why_if_it_knows() -> None:
    class Unreadable(MemoryProvider):
        def health_check(self) -> Health:
            return Health(details={"unreadable": "The folder does not exist: create it."})

    tools = AgentTools(KnowledgeService(Unreadable({})))
    assert tools.list()["hint"] == "The library has no documents. The folder does not exist: create it."
    assert tools.get("a.md")["hint"] == "The folder does not exist: create it."


# --- get ---------------------------------------------------------------------------------------------------------


def test_a_document_comes_without_its_frontmatter_and_marked_as_untrusted(tools: AgentTools) -> None:
    answer = strict(tools.get("device.acme.em24"))
    assert answer["found"] is True
    assert (answer["id"], answer["source_id"], answer["title"]) == (
        "device.acme.em24",
        "meter.md",
        "Energy meter EM-24",
    )
    assert answer["metadata"]["year"] == 2024
    assert answer["sections"] == ["Overview", "Registers"]
    assert answer["content"] == METER_BODY
    assert answer["truncated"] is False
    assert (answer["untrusted"], answer["origin"]) == (True, "text")
    assert "error" not in answer
    assert "uri" not in answer


@pytest.mark.parametrize(
    "arguments", [{"doc_id": "meter.md"}, {"id": "meter.md"}, {"docId": " meter.md "}, {"source_id": "meter.md"}]
)
def test_a_document_is_found_by_its_source_id_under_several_names_of_the_argument(
    tools: AgentTools, arguments: dict[str, object]
) -> None:
    answer = tools.get(**arguments)
    assert (answer["found"], answer["id"], answer["source_id"]) == (True, "meter.md", "meter.md")


def test_a_document_from_the_web_says_where_from() -> None:
    class Web(MemoryProvider):
        def get_source(self, source_id: str) -> Source:
            return super().get_source(source_id).model_copy(update={"origin": "url", "uri": "https://example.org/a"})

    answer = AgentTools(KnowledgeService(Web(DOCUMENTS))).get("bare.md")
    assert (answer["origin"], answer["uri"]) == ("url", "https://example.org/a")


@pytest.mark.parametrize("section", ["Registers", "registers", "  REGISTERS ", "## Registers", "#registers"])
def test_a_section_comes_alone_with_what_is_nested_in_it(tools: AgentTools, section: str) -> None:
    answer = strict(tools.get("device.acme.em24", section))
    assert answer["content"] == METER_BODY[METER_BODY.index("## Registers") :]
    assert answer["sections"] == ["Overview", "Registers"]
    assert "error" not in answer


def test_a_nested_section_is_found_and_a_blank_section_asks_for_all(tools: AgentTools) -> None:
    assert tools.get("device.acme.em24", "words")["content"] == "### Words\n\nHigh first.\n"
    assert tools.get("device.acme.em24", " ")["content"] == METER_BODY


def test_an_unknown_section_gives_an_error_and_the_headings(tools: AgentTools) -> None:
    answer = strict(tools.get("device.acme.em24", section="Wiring"))
    assert (answer["found"], answer["content"], answer["code"]) == (True, "", "not-found")
    assert "Wiring" in answer["error"]
    assert answer["sections"] == ["Overview", "Registers"]
    assert [entry["section"] for entry in answer["outline"]] == ["Overview", "Registers", "Words"]
    assert "Registers" in answer["hint"]
    assert "no sections" in tools.get("bare.md", section="Wiring")["hint"]


def test_an_unknown_id_gives_suggestions_and_available_ids(tools: AgentTools) -> None:
    answer = strict(tools.get("device.acme.em25"))
    assert answer["found"] is False
    assert answer["code"] == "not-found"
    assert "device.acme.em25" in answer["error"]
    assert answer["suggestions"][0] == "device.acme.em24"
    assert answer["available_ids"] == ["bare.md", "device.acme.em24", "one.md", "protocol.s7", "two.md"]
    assert answer["available_total"] == 5


@pytest.mark.parametrize("name", ["em24", "EM TWENTYFOUR", "energy meter"])
def test_parts_titles_and_aliases_suggest(tools: AgentTools, name: str) -> None:
    assert tools.get(name)["suggestions"][0] == "device.acme.em24"


def test_available_ids_are_capped_and_counted() -> None:
    answer = tools_over({f"{at:03}.md": b"x" for at in range(120)}).get("zzz")
    assert len(answer["available_ids"]) == 50
    assert answer["available_total"] == 120
    assert answer["hint"] == "50 of 120 ids are shown; a list with a query finds others."
    assert tools_over({"a.md": b"x"}).get("zzz")["hint"] == ""


def test_available_ids_take_no_more_room_than_an_answer_has() -> None:
    long = {f"{at}.md": document(id=f"{at}-{'x' * 3_000}") for at in range(20)}
    answer = tools_over(long).get("zzz")
    assert 0 < len(answer["available_ids"]) < 20
    assert "of 20 ids" in answer["hint"]


def test_an_ambiguous_id_says_so_and_suggests_the_source_ids(tools: AgentTools) -> None:
    answer = strict(tools.get("same"))
    assert (answer["found"], answer["code"]) == (False, "ambiguous-id")
    assert "ambiguous" in answer["error"]
    assert answer["suggestions"] == ["one.md", "two.md"]
    assert tools.get("one.md")["found"] is True


def long_document(overview: str = "## Overview\n\nShort.\n\n") -> str:
    return "# Title\n\n## First\n\n" + "Line of text.\n" * 1_500 + f"\n### Deep\n\nx\n\n{overview}## Last\n\nEnd.\n"


def test_a_long_document_comes_as_its_overview_with_all_headings() -> None:
    tools = tools_over({"a.md": document(long_document(), id="long")})
    answer = strict(tools.get("long"))
    assert answer["content"] == "## Overview\n\nShort.\n\n"
    assert answer["truncated"] is True
    assert answer["sections"] == ["First", "Overview", "Last"]
    assert [entry["section"] for entry in answer["outline"]] == ["Title", "First", "Deep", "Overview", "Last"]
    assert "section" in answer["hint"]
    assert tools.get("long", section="Last")["content"] == "## Last\n\nEnd.\n"


def test_a_long_document_without_an_overview_comes_as_its_first_section_cut() -> None:
    answer = strict(tools_over({"a.md": long_document("").encode()}).get("a.md"))
    assert answer["content"].startswith("## First\n\nLine of text.\n")
    assert 15_000 < len(answer["content"]) <= 16_000
    assert answer["content"].endswith("text.")
    assert "beginning of" in answer["hint"]


def test_a_long_text_without_headings_is_cut_and_points_to_a_full_text_search() -> None:
    answer = strict(tools_over({"a.md": b"word " * 10_000}).get("a.md"))
    assert 0 < len(answer["content"]) <= 16_000
    assert answer["truncated"] is True
    assert answer["sections"] == []
    assert "full-text search" in answer["hint"]


def test_a_section_that_is_too_long_is_cut_and_names_the_sections_in_it() -> None:
    tools = tools_over({"a.md": long_document().encode()})
    answer = strict(tools.get("a.md", section="First"))
    assert answer["truncated"] is True
    assert len(answer["content"]) <= 16_000
    assert "Deep" in answer["hint"]
    flat = tools_over({"a.md": b"## Only\n\n" + b"Line.\n" * 9_000}).get("a.md", section="Only")
    assert "full-text search" in flat["hint"]


def test_a_document_of_exactly_the_limit_is_whole_and_one_more_is_not() -> None:
    tools = tools_over({"a.md": document("é" * 16_000), "b.md": document("é" * 16_001, title="x")})
    assert tools.get("a.md")["truncated"] is False
    assert tools.get("b.md")["truncated"] is True


def test_thousands_of_headings_are_capped_and_counted() -> None:
    body = "".join(f"## Heading number {at}\n\n" for at in range(3_000))
    answer = strict(tools_over({"a.md": body.encode()}).get("a.md"))
    assert len(answer["sections"]) <= 500
    assert "Of 3000 sections" in answer["hint"]
    assert len(answer["outline"]) <= 500
    wide = "".join(f"## {'w' * 1_500} {at}\n\n" for at in range(100))
    answer = tools_over({"a.md": wide.encode()}).get("a.md")
    assert sum(map(len, answer["sections"])) <= 16_000
    assert "and " in tools_over({"a.md": body.encode()}).get("a.md", section="none")["hint"]


def test_a_document_without_headings_of_level_two_is_divided_by_its_highest_level() -> None:
    assert tools_over({"a.md": b"# A\n\nx\n\n### B\n\ny\n\n# C\n\nz\n"}).get("a.md")["sections"] == ["A", "C"]


def test_repeated_headings_have_names_of_their_own() -> None:
    tools = tools_over({"a.md": b"## Notes\n\none\n\n## Notes\n\ntwo\n"})
    names = tools.get("a.md")["sections"]
    assert [tools.get("a.md", section=name)["content"] for name in names] == [
        "## Notes\n\none\n\n",
        "## Notes\n\ntwo\n",
    ]


def test_bytes_that_are_not_utf8_and_surrogate_escapes_leave_as_clean_text() -> None:
    raw = b'---\nid: a\ntitle: "half \\ud800 pair"\n---\nbad \xff byte\n'
    tools = tools_over({"a.md": raw})
    assert "\ufffd" in strict(tools.get("a.md"))["content"]
    strict(tools.list())
    strict(tools.query("byte"))


# --- query -------------------------------------------------------------------------------------------------------


def test_a_hit_is_a_passage_with_a_citation_that_the_bytes_prove(tools: AgentTools) -> None:
    answer = strict(tools.query("voltage"))
    (hit,) = answer["hits"]
    assert set(hit) == {"source_id", "title", "heading_path", "text", "score", "citation"}
    citation = hit["citation"]
    raw = DOCUMENTS["meter.md"]
    assert raw[citation["start"] : citation["end"]].decode() == hit["text"]
    assert (hit["source_id"], hit["title"], hit["heading_path"]) == ("meter.md", "Energy meter EM-24", ["Registers"])
    assert (answer["count"], answer["mode_used"], answer["untrusted"]) == (1, "keyword", True)
    assert answer["index"]["state"] == "ready"
    assert "document by its" in answer["hint"]


def test_query_arguments_come_in_either_case_and_as_text() -> None:
    tools = tools_over({f"{at}.md": b"## A\n\nwalrus one\n\n## B\n\nwalrus two\n" for at in range(5)})
    assert tools.query("walrus")["count"] == 5
    assert tools.query("walrus", top_k=2)["count"] == 2
    assert tools.query("walrus", topK="2")["count"] == 2
    assert tools.query(query="walrus", limit=2)["count"] == 2
    assert tools.query("walrus", per_source="2", top_k=4)["count"] == 4
    assert tools.query("walrus", perSource=2)["count"] == 10
    assert tools.query("walrus", minScore="1e9")["count"] == 0
    assert tools.query("walrus", filter={"source_id": "3.md"})["hits"][0]["source_id"] == "3.md"
    assert sum(len(hit["text"]) for hit in tools.query("walrus", maxChars=20)["hits"]) <= 20
    assert tools.query("walrus", topK=2, top_k=2)["code"] == "invalid-argument"
    page = tools.query("walrus", top_k=2)
    following = tools.query("walrus", top_k=2, cursor=page["next_cursor"])
    assert [hit["source_id"] for hit in following["hits"]] == ["2.md", "3.md"]
    assert "next_cursor" in page["hint"]


def test_the_text_of_all_hits_stays_within_the_default_budget_and_a_larger_one_is_capped() -> None:
    tools = tools_over({f"{at:02}.md": b"walrus text. " * 140 for at in range(60)})
    answer = tools.query("walrus")
    assert sum(len(hit["text"]) for hit in answer["hits"]) <= 8_000
    assert answer["truncated"] is True
    assert answer["next_cursor"]
    large = tools.query("walrus", top_k=60, max_chars=10**9)
    assert sum(len(hit["text"]) for hit in large["hits"]) <= 64_000
    assert "64000" in large["hint"]


def test_no_hits_say_what_to_try(tools: AgentTools) -> None:
    answer = strict(tools.query("xylophone"))
    assert (answer["count"], answer["hits"]) == (0, [])
    assert "list" in answer["hint"]


def test_an_index_that_is_being_built_is_said_in_the_hint() -> None:
    class Building(MemoryProvider):
        def query(self, query: Query) -> QueryResult:
            return QueryResult(engine="x", mode_used="none", index=IndexState(state="building"))

    assert "built" in AgentTools(KnowledgeService(Building())).query("x")["hint"]


# --- calls by name -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["list", "knowledge_list", " list "])
def test_tools_are_called_by_short_or_long_name(tools: AgentTools, name: str) -> None:
    assert ids(tools.call(name, {"protocol": "s7"})) == ["protocol.s7"]


def test_arguments_of_a_call_may_be_json_text_or_left_out(tools: AgentTools) -> None:
    assert tools.call("get", '{"doc_id": "meter.md"}')["found"] is True
    assert tools.call("list")["count"] == tools.call("list", "")["count"] == 5
    assert tools.call("query", {"query": "voltage"})["count"] == 1


@pytest.mark.parametrize("name", ["delete", "", None, 7, "knowledge_", "x" * 10_000, object()])
def test_an_unknown_tool_lists_the_known_ones_or_asks_for_text(tools: AgentTools, name: object) -> None:
    answer = strict(tools.call(name, {}))
    assert answer["code"] == "invalid-argument"
    assert len(answer["error"]) < 2_000


@pytest.mark.parametrize(
    "arguments",
    [
        7,
        [],
        "nonsense",
        "[1]",
        "[" * 100_000,
        "x" * 200_000,
        {1: 2},
        {None: 1},
        {f"k{at}": 1 for at in range(101)},
        object(),
        b"{}",
    ],
)
def test_arguments_that_are_no_object_are_an_answered_error(tools: AgentTools, arguments: object) -> None:
    for name in ("list", "get", "query"):
        answer = strict(tools.call(name, arguments))
        assert answer["error"]
        assert answer["code"] in ("invalid-argument", "too-large")


# --- nothing raises ----------------------------------------------------------------------------------------------


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __bool__(self) -> bool:
        raise RuntimeError("neither")


class Shifty:
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise ValueError("SECRET")


class ShoutingText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no text")


class BrokenMapping(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        raise RuntimeError("SECRET")

    def __iter__(self) -> Iterator[str]:
        while True:
            yield "endless"

    def __len__(self) -> int:
        return -1


def nested(depth: int) -> object:
    value: object = "x"
    for _ in range(depth):
        value = {"and": [value]}
    return value


cyclic: dict[str, object] = {}
cyclic["not"] = cyclic

HOSTILE: Mapping[str, object] = {
    "an object": Hostile(),
    "a shifty object": Shifty(),
    "bytes": b"\xff\x00",
    "NaN": math.nan,
    "infinity": -math.inf,
    "a huge integer": 10**10_000,
    "a huge text": "x" * 10_000_000,
    "a lone surrogate": "half \ud800 pair",
    "NUL": "a\x00b",
    "a text that shouts": ShoutingText("pump"),
    "deep nesting": nested(5_000),
    "a cycle": cyclic,
    "a broken mapping": BrokenMapping(),
    "a list": ["a", ["b"], {"c": Hostile()}],
    "a wide list": [1] * 1_000_000,
    "a set": {1, 2},
    "true": True,
    "a function": len,
    "an empty object": {},
    "a path": "../../../etc/passwd",
    "a date": date(2024, 1, 1),
    "zero": 0,
    "a fraction": 2.5,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_argument_of_any_kind_makes_a_tool_raise(tools: AgentTools, kind: str) -> None:
    value: Any = HOSTILE[kind]
    calls: list[Callable[[], Answer]] = [
        lambda: tools.list(value),
        lambda: tools.list(query=value),
        lambda: tools.list(filter=value),
        lambda: tools.list(limit=value),
        lambda: tools.list(cursor=value),
        lambda: tools.list(protocol=value),
        lambda: tools.list(protocol=[value]),
        lambda: tools.list(filter={"protocol": value}),
        lambda: tools.get(value),
        lambda: tools.get("meter.md", value),
        lambda: tools.query(value),
        lambda: tools.query("pump", value),
        lambda: tools.query("pump", filter=value),
        lambda: tools.query("pump", max_chars=value),
        lambda: tools.query("pump", per_source=value),
        lambda: tools.query("pump", cursor=value),
        lambda: tools.query("pump", min_score=value),
        lambda: tools.query("pump", unknown=value),
        lambda: tools.call(value, value),
        lambda: tools.call("list", value),
        lambda: tools.call("query", {"query": value}),
    ]
    for call in calls:
        answer = strict(call())
        text = json.dumps(answer)
        assert "SECRET" not in text
        assert len(text) < 100_000


def test_wrong_numbers_and_names_of_arguments_are_answered_with_the_right_ones(tools: AgentTools) -> None:
    for answer in (
        tools.get(),
        tools.get(1, 2, 3),
        tools.get("meter.md", page=2),
        tools.query(),
        tools.get("a", doc_id="b"),
    ):
        assert strict(answer)["code"] == "invalid-argument"
        assert "argument" in answer["mend"]
    assert tools.get()["found"] is False
    assert tools.get("  ")["code"] == "invalid-argument"
    assert tools.list(1, 2, 3, 4, 5, 6)["docs"] == []
    assert tools.query()["hits"] == []
    assert tools.call(1, 2, 3, 4)["code"] == "invalid-argument"
    assert tools.call()["code"] == "invalid-argument"


def test_an_argument_named_self_is_a_filter_like_others(tools: AgentTools) -> None:
    answer = tools.list(self="x")
    assert answer["count"] == 0
    assert "error" not in answer


def test_a_wrong_argument_keeps_the_shape_of_the_answer_and_names_the_argument(tools: AgentTools) -> None:
    answer = tools.list(limit="many")
    assert (answer["count"], answer["docs"], answer["code"]) == (0, [], "invalid-argument")
    assert "limit" in answer["error"]
    assert tools.list(limit=0)["code"] == "invalid-argument"
    assert tools.list(limit=True)["code"] == "invalid-argument"
    assert tools.list(protocol={"in": ["s7"]})["code"] == "invalid-filter"
    assert tools.list(filter={"protocol": {"like": "x"}})["code"] == "invalid-filter"
    assert tools.list(filter=7)["code"] == "invalid-filter"
    assert tools.list(cursor="nonsense")["code"] == "invalid-cursor"
    assert tools.list(query="x" * 10_001)["code"] == "query-too-long"
    assert tools.query("x" * 10_001)["code"] == "query-too-long"
    assert tools.query(" ")["code"] == "invalid-query"
    assert tools.get("x" * 30_000)["code"] == "too-large"


def test_changing_an_error_answer_changes_no_later_one(tools: AgentTools) -> None:
    tools.list(limit="many")["docs"].append("x")
    tools.get()["suggestions"].append("x")
    assert tools.list(limit="many")["docs"] == []
    assert tools.get()["suggestions"] == []


def test_an_unforeseen_failure_becomes_internal_with_an_id_that_the_log_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(MemoryProvider):
        def health_check(self) -> Health:
            raise OSError("/secret/path")

        def query(self, query: Query) -> QueryResult:
            raise OSError("/secret/path")

    tools = AgentTools(KnowledgeService(Failing(DOCUMENTS)))
    with caplog.at_level(logging.ERROR):
        answers = [tools.list(), tools.get("nothing"), tools.query("x")]
    for answer in answers:
        assert strict(answer)["code"] == "internal"
        assert "secret" not in json.dumps(answer)
        assert answer["error_id"] in caplog.text
    assert [answers[0]["docs"], answers[1]["found"], answers[2]["hits"]] == [[], False, []]


def test_a_disposed_backend_is_an_answered_error(tools: AgentTools) -> None:
    tools.service.dispose()
    for answer in (tools.list(), tools.get("meter.md"), tools.query("x")):
        assert strict(answer)["code"] == "unavailable"


def test_signatures_stay_readable() -> None:
    assert list(inspect.signature(AgentTools.get).parameters) == ["self", "doc_id", "section"]


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
names = st.sampled_from(
    ["query", "filter", "limit", "cursor", "doc_id", "section", "top_k", "protocol", "kind", "self", "x"]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["list", "get", "query"]), st.dictionaries(names | st.text(max_size=5), values, max_size=5))
def test_every_call_is_answered_with_strict_json_and_the_keys_of_its_tool(
    name: str, arguments: dict[str, object]
) -> None:
    answer = strict(tools_over(DOCUMENTS).call(name, arguments))
    keys = {"list": {"count", "docs", "hint"}, "query": {"count", "hits", "hint"}}
    if name == "get":
        found = {"found", "id", "title", "metadata", "sections", "content", "truncated"}
        missing = {"found", "error", "suggestions", "available_ids"}
        assert set(answer) >= (found if answer["found"] else missing)
    else:
        assert set(answer) >= keys[name]
    if "error" in answer:
        assert {type(answer[key]) for key in ("error", "code", "mend")} == {str}
        assert answer["code"] != "internal"


bodies = st.text(alphabet="# ab\n`é\r-", max_size=200)


@settings(deadline=None)
@given(bodies, st.booleans())
def test_every_section_named_can_be_fetched_and_every_listed_id_too(body: str, front: bool) -> None:
    raw = (b"---\nid: the.id\n---\n" if front else b"") + body.encode()
    tools = tools_over({"a.md": raw})
    (doc_id,) = ids(tools.list())
    answer = strict(tools.get(doc_id))
    assert answer["found"] is True
    assert raw.endswith(answer["content"].encode())
    assert tools.list()["docs"][0]["chars"] == len(answer["content"])
    for section in answer["sections"]:
        part = tools.get(doc_id, section=section)
        assert "error" not in part
        assert part["content"] in answer["content"]


# --- plain JSON --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (b"\xff", "\ufffd"),
        (bytearray(b"a"), "a"),
        (date(2024, 5, 1), "2024-05-01"),
        ((1, "a"), [1, "a"]),
        ({1: "a", None: "b", False: "c", 2.5: "d"}, {"1": "a", "null": "b", "false": "c", "2.5": "d"}),
        ({"e": "f", b"k": "g"}, {"e": "f", "k": "g"}),
        ({3}, [3]),
        ("\ud83d\ude00 \ud800", "\U0001f600 \ufffd"),
        ({"\ud800": 1}, {"\ufffd": 1}),
        (len, "<builtin_function_or_method>"),
        (ShoutingText("pump"), "pump"),
    ],
)  # fmt: skip
def test_anything_becomes_plain_json(value: object, expected: JsonValue) -> None:
    assert plain(value) == expected


def test_huge_integers_become_text_and_others_stay() -> None:
    assert plain(2**1000) == 2**1000
    assert str(plain(10**5_000)).startswith("0x")


def test_depth_and_number_of_values_are_bounded() -> None:
    assert json.dumps(plain(cyclic)).count("not") == MAX_DEPTH
    assert len(plain([1] * (MAX_VALUES * 2))) <= MAX_VALUES  # type: ignore[arg-type]
    assert len(plain({str(at): at for at in range(MAX_VALUES * 2)})) <= MAX_VALUES  # type: ignore[arg-type]
    shared: object = "x"
    for _ in range(30):
        shared = [shared, shared]
    assert len(json.dumps(plain(shared))) < 20 * MAX_VALUES


@given(values)
def test_plain_values_are_strict_json_and_stay_as_they_are(value: object) -> None:
    once = plain(value)
    text = json.dumps(once, allow_nan=False, ensure_ascii=False)
    text.encode()
    assert plain(json.loads(text)) == once


@given(st.text(alphabet=st.characters(codec=None), max_size=20))
def test_scrubbed_text_is_utf8_and_clean_text_is_untouched(text: str) -> None:
    clean = scrub(text)
    clean.encode()
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert clean == text


@pytest.mark.parametrize(("value", "given"), [(float("nan"), "nan or infinity"), ("many", "text"), ([1], "a list")])
def test_a_least_score_that_is_no_finite_number_is_told_in_plain_words(value: object, given: str) -> None:
    tools = AgentTools(KnowledgeService(MemoryProvider({"a.md": b"x"})))
    answer = tools.query("x", min_score=value)
    assert answer["error"].startswith(f"min_score has to be a finite number, not {given}. ")


def test_of_too_many_headings_the_upper_ones_are_told_and_how_many_there_are() -> None:
    text = "## Overview\n\n" + "Long text. " * 2_000 + "".join(f"\n### Part {number}\n" for number in range(900))
    answer = tools_over({"a.md": (text + "\n## Last\n").encode()}).get("a.md")
    assert answer["sections"] == ["Overview", "Last"]
    outline = answer["outline"]
    assert isinstance(outline, list)
    assert (outline[0], outline[-1]) == ({"level": 2, "section": "Overview"}, {"level": 2, "section": "Last"})
    assert f"Of 902 headings `outline` has {len(outline)}" in str(answer["hint"])


def test_a_name_that_is_too_long_hides_no_other() -> None:
    ids = ["x" * 20_000, "xxx1", "xxx2", "xxx3"]
    documents = {f"{number}.md": f"---\nid: {one}\n---\n".encode() for number, one in enumerate(ids)}
    assert tools_over(documents).get("nothing")["available_ids"] == ["xxx1", "xxx2", "xxx3"]


def test_a_value_that_reads_the_same_stands_in_where_nothing_has_the_one_asked_for() -> None:
    spelled = {f"{number}.md": b"---\nprotocol: Modbus\n---\n" for number in range(3)} | {
        "x.md": b"---\nprotocol: s7\n---\n"
    }
    tools = tools_over(spelled)
    exact = tools.list(protocol="Modbus")
    assert (exact["total"], "Taken" in str(exact["hint"])) == (3, False)
    for asked in ("modbus", "MODBUS", "mod\u200bbus"):
        answer = tools.list(protocol=asked, limit=2)
        assert answer["total"] == 3
        assert "Taken as the documents write it: protocol Modbus." in str(answer["hint"])
        rest = tools.list(protocol=asked, limit=2, cursor=answer["next_cursor"])
        assert rest["count"] == 1
    assert tools.list(protocol="modbuz")["total"] == 0
    assert tools.list(protocol="modbus", cursor="forged")["code"] == "invalid-cursor"
    assert tools.list(protocol="modbus", kind="device")["total"] == 0


@pytest.mark.parametrize("wait_s", [None, 2.5])
def test_a_query_waits_for_an_index_as_long_as_the_tools_were_told_to(wait_s: float | None) -> None:
    waits = []

    class Asked(MemoryProvider):
        def query(self, query: Query) -> QueryResult:
            waits.append(query.wait_s)
            return super().query(query)

    tools = AgentTools(KnowledgeService(Asked({})), wait_s=wait_s)
    assert "error" not in tools.query("water")
    assert waits == [wait_s]
