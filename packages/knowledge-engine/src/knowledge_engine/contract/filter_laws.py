"""Laws of filters: strict, and with one meaning behind every backend."""

from __future__ import annotations

from functools import partial

from hypothesis import strategies as st
from pydantic import JsonValue

from knowledge_engine.contract.asking import ask, every_source, found, texts
from knowledge_engine.contract.case import ProviderCase
from knowledge_engine.contract.corpora import filters, queries
from knowledge_engine.contract.law import law, need, refused, same
from knowledge_engine.errors import InvalidFilterError
from knowledge_engine.filters import compile_filter
from knowledge_engine.passages import parse_document

_MEANING = "knowledge_engine.filters"
# Each lets through a part of a crowd.
_KINDS: st.SearchStrategy[dict[str, JsonValue]] = st.sampled_from([{"kind": "guide"}, {"kind": {"ne": "note"}}])


@law(
    "filters",
    source=_MEANING,
    hint="how the filter is translated; knowledge_engine.filters.compile_filter is the meaning",
)
def filter_list(case: ProviderCase) -> None:
    """A filtered list holds exactly the documents whose metadata match, and `total` counts those."""
    provider = case.open()
    filter = case.draw(filters(case.docs), "filter")
    asked = compile_filter(filter)
    expected = sorted(one for one, raw in case.docs.items() if asked.matches(parse_document(one, raw).metadata, one))
    same([source.id for source in every_source(provider, filter=filter)], expected, "the filtered list")
    same(provider.list_sources(filter=filter, limit=1).total, len(expected), "`total` of the filtered list")


@law(
    "filters", source=_MEANING, hint="whether filter and ranking are applied in the right order: first filter, then cut"
)
def filter_query(case: ProviderCase) -> None:
    """A filtered query finds exactly those of its documents whose metadata match; scores stay as they are."""
    provider, query = case.crowd()
    filter = case.draw(st.one_of(_KINDS, filters(case.docs)), "filter")
    asked = compile_filter(filter)
    whole = ask(provider, query, top_k=1000).hits
    kept = [(hit.source_id, hit.score) for hit in whole if asked.matches(hit.metadata, hit.source_id)]
    few = ask(provider, query, top_k=max(1, len(kept)), filter=filter).hits
    same([(hit.source_id, hit.score) for hit in few], kept, "ids and scores of the filtered hits")


_TYPED = {
    f"{name}.md": f"---\nvalue: {text}\n---\nquorvex".encode()
    for name, text in {
        "integer": "5", "string": '"5"', "float": "5.0", "zero": "05", "flag": "true", "word": '"true"',
        "list": "[5, x]", "date": "2024-05-01", "moment": "2024-05-01T12:00:00Z", "more": "40", "missing": "",
    }.items()
}  # fmt: skip
_CONDITIONS: tuple[JsonValue, ...] = (
    5, "5", "5.0", "05", True, "true", None, {"ne": "5"}, {"in": [5, "x"]}, {"nin": ["5", True]}, {"gt": "5"},
    {"gte": 5}, {"lt": "10"}, {"lte": 40}, {"gt": "2024-04"}, {"lt": "2024-05-01T13:00:00+02:00"}, {"exists": True},
    {"exists": False}, {"prefix": "2024"}, {"contains": "5"}, {"contains": 5}, {"not": {"gt": 4}}, {"in": []},
)  # fmt: skip


@law(
    "filters",
    source="Filters: values from URLs and shells are strings",
    needs=["corpus"],
    share=0.01,
    hint="types in the store: 5, '5', 5.0, '05' and true are different things",
)
def filter_types(case: ProviderCase) -> None:
    """Strings, numbers, booleans and dates compare as the filters' meaning says, for `list` and `query`."""
    provider = case.open(_TYPED)
    for condition in _CONDITIONS:
        filter: dict[str, JsonValue] = {"value": condition}
        asked = compile_filter(filter)
        expected = {one for one, raw in _TYPED.items() if asked.matches(parse_document(one, raw).metadata, one)}
        same({source.id for source in every_source(provider, filter=filter)}, expected, f"the list of {filter}")
        same(found(provider, "quorvex", filter=filter), expected, f"what a query with {filter} finds")


@law(
    "filters",
    source="ne and nin are the exact negation of eq and in",
    hint="documents that lack the key: negation matches them",
)
def filter_negation(case: ProviderCase) -> None:
    """A filter and its negation share the corpus between them."""
    provider = case.open()
    filter = case.draw(filters(case.docs), "filter")
    yes, no = ([source.id for source in every_source(provider, filter=one)] for one in (filter, {"not": filter}))
    same(sorted([*yes, *no]), sorted(source.id for source in every_source(provider)), "both lists together")


_MALFORMED: tuple[dict[str, JsonValue], ...] = (
    {"kind": {"like": "x"}}, {"kind": {"$eq": "x"}}, {"kind": {">": 1}}, {"kind": {}}, {"and": {}}, {"or": []},
    {"not": []}, {"kind": {"in": "x"}}, {"kind": {"exists": "yes"}}, {"year": {"gt": None}}, {"kind": {"eq": {"a": 1}}},
    {"kind": {"prefix": 5}}, {"kind": {"regex": ".*"}},
)  # fmt: skip


@law(
    "filters", source="an unknown operator is an error", hint="that the filter is compiled before anything is looked up"
)
def filter_strict(case: ProviderCase) -> None:
    """An unknown operator or malformed condition is an InvalidFilterError, also where nothing is found."""
    provider = case.open()
    filter = case.pick(_MALFORMED, "filter")
    refused(lambda: provider.list_sources(filter=filter), InvalidFilterError, "a malformed filter in list_sources")
    for text in ("valve", ""):
        refused(partial(ask, provider, text, filter=filter), InvalidFilterError, "a malformed filter in query")


@law(
    "filters",
    source="never a silently wider result",
    needs=["corpus"],
    hint="`Filter.warnings` with the keys of all documents",
)
def filter_unknown_key(case: ProviderCase) -> None:
    """A key that no document has matches as missing, and is warned of with the nearest key named."""
    provider = case.open({"a.md": b"---\nvendor: acme\n---\nvalve", "b.md": b"---\nkind: note\n---\nvalve"})
    negative = case.draw(st.booleans(), "negative")
    filter: dict[str, JsonValue] = {"vendr": {"ne": "acme"} if negative else "acme"}
    listed, result = provider.list_sources(filter=filter), ask(provider, "valve", filter=filter)
    expected = ["a.md", "b.md"] if negative else []
    same([source.id for source in listed.sources], expected, "the list")
    same([hit.source_id for hit in result.hits], expected, "the hits")
    for name, warnings in (("list_sources", listed.warnings), ("query", result.warnings)):
        said = " ".join(warnings)
        need("vendr" in said and "vendor" in said, f"{name} does not name 'vendr' and 'vendor', it says {said!r}")
    fine: dict[str, JsonValue] = {"vendor": "acme"}
    same(
        (provider.list_sources(filter=fine).warnings, ask(provider, "valve", filter=fine).warnings),
        ((), ()),
        "warnings",
    )


@law("filters", source="filters of lists and of queries are the same", hint="whether both go through one function")
def filter_agrees(case: ProviderCase) -> None:
    """A filter lets the same documents through in a list and in a query."""
    provider = case.open()
    filter = case.draw(filters(case.docs), "filter")
    listed = {source.id for source in every_source(provider, filter=filter)}
    for word in case.draw(st.lists(queries(texts(case.docs), 1), min_size=1, max_size=3), "words"):
        outside = found(provider, word, filter=filter) - listed
        need(not outside, f"a query for {word!r} finds {sorted(outside)}, which the filtered list lacks")
        missing = (found(provider, word) & listed) - found(provider, word, filter=filter)
        need(not missing, f"a query for {word!r} misses {sorted(missing)}, which the filtered list has")
