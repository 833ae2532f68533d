from __future__ import annotations

import threading
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from knowledge_engine.analysis import Analyzer
from knowledge_engine.catalogue import MAX_COMPARED, Catalogue, count_values, texts_of
from knowledge_engine.catalogue_index import CatalogueIndex, edit_distance
from knowledge_engine.models import Source


def source(source_id: str, title: str = "", **metadata: JsonValue) -> Source:
    return Source(
        id=source_id, origin="text", uri=f"test:{source_id}", title=title or source_id, metadata=metadata, bytes=1
    )


def found(catalogue: Catalogue, query: str) -> list[str]:
    return [match.source.id for match in catalogue.search(query).found]


LIBRARY = Catalogue(
    [
        source(
            "devices/meter.md",
            "Energy meter EM-24",
            id="device.acme.em24",
            kind="device",
            vendor="Acme",
            model="EM-24",
            protocol="modbus",
            equipment_type="energy_meter",
            drivers=["modbus-tcp"],
            keywords=["kilowatt", "current transformer"],
            aliases=["Em twentyfour"],
            summary="Registers of the meter.",
        ),
        source(
            "devices/pump.md",
            "Pump P9",
            id="device.siemens.p9",
            kind="device",
            vendor="Siemens",
            summary="A meter beside it.",
        ),
        source("protocols/s7.md", "S7 protocol", id="protocol.s7", kind="protocol", summary="How S7-1200 talks."),
    ],
    revision="r1",
)


# --- ids ---------------------------------------------------------------------------------------------------------


def test_sources_are_kept_in_order_of_id_and_each_id_once() -> None:
    catalogue = Catalogue([source("b"), source("a"), source("b", "Newer")])
    assert [(one.id, one.title) for one in catalogue.sources] == [("a", "a"), ("b", "Newer")]
    assert catalogue.get("b") is catalogue.sources[1]
    assert catalogue.get("c") is None


def test_a_source_id_wins_over_a_frontmatter_id_of_the_same_text() -> None:
    catalogue = Catalogue([source("a.md", id="x"), source("b.md", id="a.md")])
    assert catalogue.resolve("a.md") == ("a.md",)
    assert catalogue.resolve("x") == ("a.md",)


def test_a_frontmatter_id_claimed_twice_names_both_in_order() -> None:
    catalogue = Catalogue([source("b.md", id="same"), source("a.md", id="same")])
    assert catalogue.resolve("same") == ("a.md", "b.md")


def test_another_unicode_spelling_of_a_source_id_is_found_unless_two_have_it() -> None:
    composed, decomposed = "caf\u00e9.md", "cafe\u0301.md"
    assert Catalogue([source(decomposed)]).resolve(composed) == (decomposed,)
    both = Catalogue([source("\u212b.md"), source("A\u030a.md")])
    assert both.resolve("\u00c5.md") == ("A\u030a.md", "\u212b.md")
    assert both.resolve("\u212b.md") == ("\u212b.md",)


def test_a_spelling_of_two_ids_and_a_claim_on_it_are_ambiguous_together() -> None:
    catalogue = Catalogue([source("\u212b"), source("A\u030a"), source("c.md", id="\u00c5")])
    assert catalogue.resolve("\u00c5") == ("A\u030a", "c.md", "\u212b")


def test_an_id_that_nobody_has_resolves_to_nothing() -> None:
    assert LIBRARY.resolve("device.acme") == ()
    assert LIBRARY.resolve("") == ()


@pytest.mark.parametrize("claimed", ["", 7, None, ["x"], True])
def test_a_frontmatter_id_that_is_no_text_is_none(claimed: JsonValue) -> None:
    catalogue = Catalogue([source("a.md", id=claimed)])
    assert catalogue.public_id(catalogue.sources[0]) == "a.md"


names = st.text(alphabet="ab\u00e5A\u030a\u212b", max_size=3)


@given(st.dictionaries(names.filter(bool), st.none() | names, max_size=6))
def test_the_public_id_of_each_source_leads_back_to_it_alone(claims: dict[str, str | None]) -> None:
    catalogue = Catalogue([source(one, id=claim) for one, claim in claims.items()])
    for one in catalogue.sources:
        assert catalogue.resolve(catalogue.public_id(one)) == (one.id,)
        assert catalogue.resolve(one.id) == (one.id,)


@given(st.dictionaries(names.filter(bool), st.none() | names, max_size=6), names)
def test_spelling_does_not_change_what_a_frontmatter_id_resolves_to(claims: dict[str, str | None], name: str) -> None:
    catalogue = Catalogue([source(f"{at}.md", id=claim) for at, claim in enumerate(claims.values())])
    assert catalogue.resolve(name) == catalogue.resolve(unicodedata.normalize("NFD", name))


# --- search ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "EM-24",
        "acme",
        "device.acme.em24",
        "twentyfour",
        "kilowatts",
        "transformer",
        "energy_meter",
        "modbus",
        "modbus-tcp",
    ],
)
def test_each_catalogue_field_is_searched(query: str) -> None:
    assert found(LIBRARY, query)[0] == "devices/meter.md"


def test_kind_and_source_id_are_searched_too() -> None:
    assert found(LIBRARY, "protocol")[0] == "protocols/s7.md"
    assert found(LIBRARY, "protocols/s7.md")[0] == "protocols/s7.md"


def test_a_word_in_the_title_counts_more_than_one_in_the_summary() -> None:
    assert found(LIBRARY, "meter") == ["devices/meter.md", "devices/pump.md"]


def test_equal_scores_come_in_id_order_and_all_scores_are_above_zero() -> None:
    catalogue = Catalogue([source(one, "Same title") for one in ("z", "a", "m")])
    matches = catalogue.search("title").found
    assert [match.source.id for match in matches] == ["a", "m", "z"]
    assert all(match.score > 0 for match in matches)


@pytest.mark.parametrize("query", ["", "   ", "???", "\u200b"])
def test_a_query_without_words_finds_nothing(query: str) -> None:
    assert LIBRARY.search(query) == ((), ())


def test_an_empty_catalogue_finds_and_suggests_nothing() -> None:
    catalogue = Catalogue([])
    assert catalogue.search("meter") == ((), ())
    assert catalogue.suggest("meter") == ()
    assert catalogue.keys == frozenset()


def test_a_misspelt_word_finds_the_nearest_and_says_how_it_is_written() -> None:
    matches = LIBRARY.search("Simens")
    assert [match.source.id for match in matches.found] == ["devices/pump.md"]
    (correction,) = matches.corrections
    assert correction.used == ("Siemens",)


def test_the_beginning_of_a_word_stands_for_it_when_nothing_else_matches() -> None:
    assert found(LIBRARY, "kilow") == ["devices/meter.md"]


def test_words_are_not_corrected_as_long_as_one_of_them_is_known() -> None:
    matches = LIBRARY.search("simens kilowatt")
    assert [match.source.id for match in matches.found] == ["devices/meter.md"]
    assert matches.corrections == ()


def test_short_words_and_words_like_none_are_not_corrected() -> None:
    assert LIBRARY.search("q9") == ((), ())
    assert LIBRARY.search("xylophone") == ((), ())


def test_a_corrected_word_that_only_a_long_field_cuts_off_is_given_as_a_stem() -> None:
    index = CatalogueIndex([{"title": ("pumping",)}], Analyzer())
    index._documents = [{}]  # the document has changed since
    assert index.search("pumpx")[1][0].used == ("pump",)


def test_lone_surrogates_in_fields_break_no_search() -> None:
    catalogue = Catalogue([source("a").model_copy(update={"title": "pump \ud800 station"})])
    assert found(catalogue, "pump") == ["a"]
    assert catalogue.search("statoin").corrections[0].used == ("station",)


def test_concurrent_searches_build_one_index(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    original = CatalogueIndex.__init__

    def counted(self: CatalogueIndex, *args: object) -> None:
        built.append(1)
        original(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(CatalogueIndex, "__init__", counted)
    catalogue = Catalogue([source(f"{at}.md", f"Pump {at}") for at in range(300)])
    barrier = threading.Barrier(8)
    results: list[int] = []

    def search() -> None:
        barrier.wait()
        results.append(len(catalogue.search("pump").found))

    threads = [threading.Thread(target=search) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (results, len(built)) == ([300] * 8, 1)


# --- names -------------------------------------------------------------------------------------------------------


def test_a_part_of_an_id_suggests_its_document_first() -> None:
    assert LIBRARY.suggest("em24")[0] == "device.acme.em24"
    assert LIBRARY.suggest("my device.acme.em24 please")[0] == "device.acme.em24"


@pytest.mark.parametrize("name", ["device.siemens.p8", "DEVICE.SIEMENS.P9", "pump p99", "devices/pumps.md"])
def test_a_name_nearly_right_suggests_its_document_first(name: str) -> None:
    assert LIBRARY.suggest(name)[0] == "device.siemens.p9"


def test_words_of_other_fields_suggest_when_no_name_is_alike() -> None:
    assert LIBRARY.suggest("the-kilowatt-document") == ("device.acme.em24",)


def test_no_more_are_suggested_than_asked_for_and_blank_names_suggest_nothing() -> None:
    catalogue = Catalogue([source(f"pump-{at:03}.md") for at in range(2 * MAX_COMPARED)])
    assert len(catalogue.suggest("pump", 3)) == 3
    assert len(catalogue.suggest("pump-1234.md", 4)) == 4
    assert catalogue.suggest("  \n") == ()


def test_suggestions_hold_no_document_twice() -> None:
    suggested = Catalogue([source("pump.md", "pump", aliases=["pump", "pumps"])]).suggest("pump")
    assert suggested == ("pump.md",)


def test_a_title_an_alias_and_a_file_name_name_a_document_in_any_case() -> None:
    for name in ("ENERGY METER em-24", "em TwentyFour", "Meter", "meter.md", "devices/meter.md"):
        assert LIBRARY.titled(name) == ("devices/meter.md",), name
    assert LIBRARY.titled("metre") == ()


# --- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("a", ("a",)),
        ("", ()),
        (None, ()),
        (True, ("true",)),
        (False, ("false",)),
        (3, ("3",)),
        (2.5, ("2.5",)),
        (["a", 1, None, {"b": 1}], ("a", "1")),
        ({"a": 1}, ()),
    ],
)
def test_metadata_as_text(value: JsonValue, texts: tuple[str, ...]) -> None:
    assert texts_of(value) == texts


def test_values_are_counted_once_a_document_and_names_are_not_counted() -> None:
    counts = count_values([source("a", tags=["x", "x", "y"], id="a", summary="s"), source("b", tags="x", title="T")])
    assert counts == {"tags": {"x": 2, "y": 1}}
    assert Catalogue([source("a", tags="x")]).values == {"tags": {"x": 1}}


def test_the_keys_are_those_of_all_documents_and_null_is_none() -> None:
    assert Catalogue([source("a", x=1), source("b", y={"z": 2}, n=None)]).keys == {"x", "y", "y.z"}


# --- edit distance -----------------------------------------------------------------------------------------------


def slow_distance(left: str, right: str) -> int:
    """The textbook table, for comparison."""
    table = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i in range(1, len(left) + 1):
        for j in range(1, len(right) + 1):
            table[i][j] = min(
                table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (left[i - 1] != right[j - 1])
            )
            if i > 1 and j > 1 and left[i - 1] == right[j - 2] and left[i - 2] == right[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


words = st.text(alphabet="abc", max_size=7)


@given(words, words, st.integers(0, 3))
def test_the_bounded_distance_is_the_full_one_up_to_its_limit(left: str, right: str, limit: int) -> None:
    assert edit_distance(left, right, limit) == min(slow_distance(left, right), limit + 1)


# --- size --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [5_000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_many_documents_are_searched_corrected_and_suggested_in_bounded_time(total: int) -> None:
    sources = [
        source(f"devices/vendor{at % 97}/unit-{at:05}.md", f"Unit {at:05} of series {at % 500}", id=f"device.unit.{at}",
               vendor=f"Vendor{at % 97}", summary=f"Registers and wiring of unit number {at}, in series {at % 500}.")
        for at in range(total)
    ]  # fmt: skip
    catalogue = Catalogue(sources)
    began = time.process_time()
    assert len(found(catalogue, "wiring")) == total
    built = time.process_time()
    assert found(catalogue, "wirring registres numbre") != []
    assert catalogue.suggest("device.unit.12345x" * 50, 5) != ()
    assert catalogue.suggest("device.unit.1234x", 5)[0] == "device.unit.1234"
    asked = time.process_time()
    # An order of magnitude above what it takes: only unbounded work fails this.
    assert built - began < total / 800
    assert asked - built < total / 2_000


def test_pages_of_one_search_rank_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    search = CatalogueIndex.search

    def noted(index: CatalogueIndex, text: str) -> object:
        asked.append(text)
        return search(index, text)

    monkeypatch.setattr(CatalogueIndex, "search", noted)
    names = Catalogue([source("a.md", "Pump"), source("b.md", "Valve")])
    answers = [names.search(text) for text in ("pump", "pump", "valve", "pump")]
    assert asked == ["pump", "valve", "pump"]
    assert answers[0] == answers[1] == answers[3] != answers[2]
