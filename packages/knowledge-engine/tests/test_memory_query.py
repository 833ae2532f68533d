"""What a query finds, in every script and spelling, and in which order: the reference for every backend."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer
from knowledge_engine.errors import (
    InvalidFilterError,
    QueryTooLongError,
)
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import ByteSpan, Query


def provider(_files: dict[str, str | bytes] | None = None, /, **files: str | bytes) -> MemoryProvider:
    """A provider over `name=text`, each a document `name.md`."""
    named = {**(_files or {}), **{f"{name}.md": text for name, text in files.items()}}
    return MemoryProvider({path: text.encode() if isinstance(text, str) else text for path, text in named.items()})


def found(source: MemoryProvider, query: str, **options: Any) -> list[str]:
    return [hit.source_id.removesuffix(".md") for hit in source.query(Query(query=query, **options)).hits]


def shown(source: MemoryProvider, query: str) -> list[str]:
    """The marked words of the first hit, as they stand in the raw bytes."""
    (hit, *_) = source.query(Query(query=query)).hits
    raw = source.read_source(hit.source_id).content
    return [raw[mark.start : mark.end].decode() for mark in hit.snippet.highlights]


def test_the_same_word_is_found_in_every_composition_and_cited_as_it_stands() -> None:
    source = provider(
        nfc="Der Über­druck steigt: naïve", nfd=unicodedata.normalize("NFD", "Der Überdruck steigt: naïve")
    )
    for form in ("NFC", "NFD"):
        assert sorted(found(source, unicodedata.normalize(form, "überdruck"))) == ["nfc", "nfd"]
        assert sorted(found(source, unicodedata.normalize(form, "NAÏVE"))) == ["nfc", "nfd"]
    for path in ("nfc.md", "nfd.md"):
        hits = source.query(Query(query="naïve")).hits
        hit = next(hit for hit in hits if hit.source_id == path)
        raw = source.read_source(path).content
        marked = [raw[mark.start : mark.end].decode() for mark in hit.snippet.highlights]
        assert [unicodedata.normalize("NFC", one) for one in marked] == ["naïve"]


def test_invisible_characters_do_not_hide_a_word() -> None:
    source = provider(a="Sicher\u00adheits\u00adventil, pro\u200bfi\u200bbus, tele\u2060gram", b="nothing of that")
    for query in ("sicherheitsventil", "profibus", "telegram", "tele\ufeffgram"):
        assert found(source, query) == ["a"]
    assert shown(source, "profibus") == ["pro\u200bfi\u200bbus"]


def test_marks_are_in_bytes_of_the_file_behind_wide_characters() -> None:
    source = provider(a="---\nid: wide\n---\n## 🚰 給水\n圧力 ❤️ ελ gauge-one ok\n")
    (hit,) = source.query(Query(query="gauge-one")).hits
    raw = source.read_source("a.md").content
    assert raw[hit.span.start : hit.span.end].decode() == hit.text
    start = raw.index(b"gauge-one")
    assert hit.snippet.highlights == (ByteSpan(start=start, end=start + 9),)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("温度传感器", ["zh", "jp"]),
        ("度", ["zh", "jp"]),
        ("温度計", ["jp", "zh"]),
        ("バルブ", ["jp"]),
        ("ﾊﾞﾙﾌﾞ", ["jp"]),
        ("온도센서", ["ko"]),
        ("센서", ["ko"]),
        ("วาล์ว", ["th"]),
        ("مضخة", ["ar"]),
    ],
)
def test_words_in_scripts_without_spaces_are_found(query: str, expected: list[str]) -> None:
    source = provider(
        zh="请先校准锅炉的温度传感器",
        jp="今朝、温度計とﾊﾞﾙﾌﾞを交換した",
        ko="새 온도센서를 달았다",
        th="เปิดวาล์วก่อน",
        ar="تشغيل مـضخة الماء",
        en="no such thing",
    )
    assert sorted(found(source, query)) == sorted(expected)
    assert found(source, query)[0] == expected[0]


@pytest.mark.parametrize("query", ["İzmir", "izmir", "IZMIR", "İZMİR", "i\u0307zmir"])
def test_turkish_letters_are_found_however_they_are_typed(query: str) -> None:
    assert found(provider(a="Das Werk in İzmir", b="Das Werk in Izola"), query) == ["a"]


@pytest.mark.parametrize("query", ["can't", "can’t", "CAN´T", "driver's", "driver’s"])
def test_apostrophes_of_either_kind_find_a_word(query: str) -> None:
    assert found(provider(a="You can’t open the driver's cabin", b="canned", c="a car"), query)[0] == "a"


def test_the_parts_of_an_identifier_find_it_and_the_whole_finds_it_first() -> None:
    source = provider(a="call opcua_node_write(x)", b="opcua is a protocol", c="node and nodes")
    assert found(source, "opcua_node_write")[0] == "a"
    assert found(source, "node write")[0] == "a"
    assert sorted(found(source, "opcua")) == ["a", "b"]


@pytest.mark.parametrize("query", ["vue.js", ".NET", "61.850", "C++", "C#", "X20-CP"])
def test_signs_belong_to_names(query: str) -> None:
    source = provider(a=f"It takes {query} to run", b="net and vue, 61, 850, x20 or cp, c", c="js")
    assert found(source, query)[0] == "a"


identifier_parts = st.lists(
    st.sampled_from(["read", "coil", "status", "http", "set", "motor", "speed", "tank"]),
    min_size=2,
    max_size=4,
    unique=True,
)


@settings(deadline=None)
@given(identifier_parts, st.integers(1, 4), st.sampled_from(["camel", "_", "-", "."]))
def test_an_identifier_ranks_above_any_number_of_its_parts(parts: list[str], times: int, style: str) -> None:
    name = parts[0] + "".join(map(str.title, parts[1:])) if style == "camel" else style.join(parts)
    source = provider(x=name, y=" and the ".join(parts * times), z="something else")
    assert found(source, name)[0] == "x"


def test_plurals_are_found_and_longer_words_are_not() -> None:
    source = provider(a="Gaskets and belts wear out", b="gasoline and beltway")
    assert found(source, "gasket belt") == ["a"]


@pytest.mark.parametrize("query", ["", " ", "\u00a0", "\t\n", "!?", "---", "\u200b", '""', "()", "\x00", "❤️", "\u0301"])
def test_a_query_without_a_word_finds_nothing(query: str) -> None:
    result = provider(a="valve ()").query(Query(query=query))
    assert (result.hits, result.next_cursor, result.warnings) == ((), None, ())


@pytest.mark.parametrize(
    "query",
    [
        "AND",
        "OR NOT",
        "NOT gear",
        "gear OR",
        "NEAR(",
        "NEAR(a b, 3)",
        '"open',
        'gear" "',
        "gear*",
        "a + b",
        "'; DROP TABLE x;--",
    ],
)
def test_operators_of_query_languages_are_words(query: str) -> None:
    source = provider(first="near and or not gear b, or an open table to drop", second="axle")
    assert found(source, query) == ["first"]


def test_nul_parts_words() -> None:
    assert sorted(found(provider(a="gear opens", b="shaft"), "gear\x00shaft")) == ["a", "b"]


def test_a_query_that_is_too_long_is_refused() -> None:
    with pytest.raises(QueryTooLongError):
        found(provider(a="gear"), "gear xé " * 14_000)


@pytest.mark.parametrize("raw", ["gear", "# gear\n", "gear gear gear"])
def test_a_word_in_the_only_document_is_found(raw: str) -> None:
    (hit,) = provider(a=raw).query(Query(query="gear")).hits
    assert hit.score > 0


def test_a_corpus_of_blank_documents_is_a_corpus() -> None:
    source = provider(a="", b=b"\xef\xbb\xbf", c=" \n\t\n", d="\n")
    assert found(source, "a b c d") == []
    assert [one.id for one in source.list_sources().sources] == ["a.md", "b.md", "c.md", "d.md"]
    assert {issue.code for issue in source.health_check().issues} == {"frontmatter-missing"}
    assert provider().query(Query(query="x")).hits == ()


def test_ties_come_in_order_of_id_whatever_came_first() -> None:
    for order in ("zmba", "abmz", "mazb"):
        source = provider(**dict.fromkeys(order, "equal words"))
        assert found(source, "equal") == ["a", "b", "m", "z"]
        assert found(source, "equal", top_k=2) == ["a", "b"]


ORDER = """
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import Query
docs = {f"{name}.md": b"pump valve seal\\n\\n## Wear\\nvalve ring pump" for name in "hbgacfde"}
result = MemoryProvider(docs).query(Query(query="ring seal pump valve", per_source=2, filter={"not": {"id": "h.md"}}))
print(result.model_dump_json(exclude={"took_ms"}))
"""


def test_answers_are_the_same_in_every_process() -> None:
    def run(seed: str) -> str:
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", ORDER], env=environ, capture_output=True, text=True, check=True)
        return done.stdout

    first = run("1")
    assert '"hits":[{' in first
    assert run("2") == run("3333") == first


def test_a_word_of_the_title_alone_cites_the_beginning_once() -> None:
    source = provider(a="---\ntitle: Gearbox\n---\n# One\nfirst\n\n# Two\nsecond\n")
    (hit,) = source.query(Query(query="gearbox", per_source=9)).hits
    assert hit.text == "# One\nfirst"
    assert hit.snippet.highlights == ()
    first, second = source.query(Query(query="gearbox second", per_source=9)).hits
    assert (first.text, second.text) == ("# Two\nsecond", "# One\nfirst")


@pytest.mark.parametrize("field", ["aliases: [lifter]", "keywords: lifter", "summary: a lifter", "title: Lifter"])
def test_catalogue_fields_are_searched(field: str) -> None:
    source = provider(a=f"---\n{field}\n---\n# Pump\nMoves.\n\n# Seal\nTight.\n", b="none")
    (hit,) = source.query(Query(query="lifters", per_source=9)).hits
    assert (hit.source_id, hit.text) == ("a.md", "# Pump\nMoves.")


def test_other_frontmatter_is_not_searched() -> None:
    assert found(provider(a="---\nkind: lifter\nid: lifter\n---\nx"), "lifter") == []


def test_several_passages_of_one_source_come_when_asked_for() -> None:
    source = provider(a="# A\nvalve valve\n\n# B\nvalve\n", b="nothing")
    assert found(source, "valve") == ["a"]
    assert found(source, "valve", per_source=2) == ["a", "a"]


def test_a_hit_is_as_its_document_says() -> None:
    raw = b"---\ntitle: Pump\nkind: device\n---\n# Care\n\n## Seal\nOil it.\n"
    (hit,) = MemoryProvider({"p/a.md": raw}, id="mine").query(Query(query="oil")).hits
    assert (hit.title, hit.heading_path, hit.metadata) == (
        "Pump",
        ("Care", "Seal"),
        {"title": "Pump", "kind": "device"},
    )
    assert hit.content_hash == hashlib.sha256(raw[hit.span.start : hit.span.end]).hexdigest()
    assert hit.chunk_id == f"p/a.md#{hit.span.start}-{hit.span.end}"


def test_another_analyzer_finds_other_words() -> None:
    german = MemoryProvider({"a.md": "Die Häuser".encode()}, analyzer=Analyzer("de"))
    plain = MemoryProvider({"a.md": "Die Häuser".encode()}, analyzer=Analyzer("none"))
    assert found(german, "Haus häuser") == ["a"]
    assert (found(plain, "häusern"), found(german, "häusern")) == ([], ["a"])


# Filters


def guides() -> MemoryProvider:
    return provider(
        a="---\nkind: guide\nlevel: 1\n---\nvalve",
        b="---\nkind: note\ntags: [wet, hot]\n---\nvalve",
        c="valve without frontmatter",
    )


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, "abc"),
        (None, "abc"),
        ({"kind": "guide"}, "a"),
        ({"kind": {"ne": "guide"}}, "bc"),
        ({"kind": {"exists": False}}, "c"),
        ({"tags": "hot"}, "b"),
        ({"level": {"gte": "1"}}, "a"),
        ({"or": [{"kind": "guide"}, {"tags": "wet"}]}, "ab"),
        ({"kind": "Guide"}, ""),
        ({"kinds": "guide"}, ""),
        ({"kinds": {"ne": "guide"}}, "abc"),
    ],
)
def test_a_filter_is_strict_in_answers_and_listings_alike(where: dict[str, Any] | None, expected: str) -> None:
    source = guides()
    assert sorted(found(source, "valve", filter=where)) == list(expected)
    page = source.list_sources(filter=where)
    assert [one.id for one in page.sources] == [f"{one}.md" for one in expected]
    assert page.total == len(expected)


def test_a_filter_does_not_change_scores() -> None:
    source = guides()
    every = {hit.source_id: hit.score for hit in source.query(Query(query="valve")).hits}
    (hit,) = source.query(Query(query="valve", filter={"kind": "note"})).hits
    assert hit.score == every["b.md"]


def test_a_key_that_no_document_has_is_warned_of() -> None:
    source = guides()
    assert "'kind'" in source.query(Query(query="valve", filter={"kinds": "guide"})).warnings[0]
    assert "'kind'" in source.list_sources(filter={"kinds": "guide"}).warnings[0]
    assert source.query(Query(query="valve", filter={"level": 7})).warnings == ()


def test_an_unknown_operator_is_an_error() -> None:
    for ask in (
        lambda where: found(guides(), "valve", filter=where),
        lambda where: guides().list_sources(filter=where),
    ):
        with pytest.raises(InvalidFilterError):
            ask({"kind": {"like": "g"}})


def test_a_filter_on_a_nested_key_is_known() -> None:
    provider = MemoryProvider({"a.md": b"---\nowner: {name: Ada}\n---\nheron\n", "b.md": b"heron\n"})
    result = provider.query(Query(query="heron", filter={"owner.name": "Ada"}))
    assert ([hit.source_id for hit in result.hits], result.warnings) == (["a.md"], ())
    assert provider.list_sources(filter={"owner.nam": "Ada"}).warnings


@pytest.mark.parametrize(
    ("identifier", "part"),
    [
        ("C++", b"# C\n\nThe C language, a C primer, C and C.\n"),
        ("readHTTPStatus", b"# Status\n\nread the status, read the http status, http status read\n"),
        ("S7-1200", b"# S7 S7 1200\n\nS7 S7 S7 1200 1200\n"),
        (".NET", b"# Net\n\nnet net net\n"),
        ("modbus_tcp_read", b"# Modbus TCP\n\nread tcp read modbus tcp read modbus\n"),
    ],
)
def test_one_exact_identifier_in_a_long_text_beats_its_parts_in_title_and_text(identifier: str, part: bytes) -> None:
    filler = " ".join(f"word{number}" for number in range(200))
    documents = {f"{number:02}.md": b"# Note\n\nShort filler text.\n" for number in range(20)}
    documents |= {"exact.md": f"# Notes\n\n{filler} {identifier} {filler[:300]}\n".encode(), "part.md": part}
    assert found(MemoryProvider(documents), identifier)[:2] == ["exact", "part"]


def test_parts_alone_count_in_full_where_nobody_writes_the_whole() -> None:
    documents = {"a.md": b"# A\n\nmodbus over tcp\n", "b.md": b"# B\n\nmodbus\n"}
    assert found(MemoryProvider(documents), "modbus_tcp") == ["a", "b"]
