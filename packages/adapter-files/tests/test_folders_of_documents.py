"""Documents as people have them: odd frontmatter, encodings and scripts, found and shown from a folder."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import pytest

from knowledge_engine.errors import KnowledgeError, QueryTooLongError
from knowledge_engine.models import Query


def front(name: str, text: str, more: str = "") -> str:
    return f"---\nid: {name}\ntitle: Doc {name.upper()}\nsummary: S.\n{more}---\n## Use\n{text}\n"


def issues(folder) -> list[tuple[str, str]]:
    folder.adapter.refresh()
    return [(one.path, one.code) for one in folder.adapter.health_check().issues]


def test_a_page_that_opens_with_a_rule_keeps_its_text(folder) -> None:
    folder.put("a.md", "---\n\nA page that opens with a rule.\n\n## Use\nfind-me-quokka\n")
    folder.put("b.md", front("b", "text"))
    assert folder.found("find-me-quokka") == ["a.md"]
    assert issues(folder) == [("a.md", "frontmatter-unclosed")]


def test_dates_stay_as_typed_in_every_answer(folder) -> None:
    folder.put("a.md", front("a", "x", "updated: 2024-05-01\nhist:\n  - {when: 2023-01-02}\n"))
    source = folder.adapter.get_source("a.md")
    assert source.metadata["updated"] == "2024-05-01"
    assert source.metadata["hist"] == [{"when": "2023-01-02"}]
    json.dumps(source.model_dump(), allow_nan=False)


def test_aliases_that_grow_are_an_issue_and_nothing_more(folder) -> None:
    more = "l0: &l0 [x,x,x,x,x,x,x,x,x,x]\n"
    more += "".join(f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 9))
    folder.put("a.md", front("a", "find me", more))
    folder.put("b.md", front("b", "fine"))
    folder.put("deep.md", "---\nid: d\nd: " + "[" * 3000 + "]" * 3000 + "\n---\nfind me\n")
    assert folder.found("find me") == ["deep.md", "a.md"]
    assert len(folder.adapter.get_source("a.md").model_dump_json()) < 65_536
    assert ("a.md", "yaml-alias") in issues(folder)
    assert {code for path, code in issues(folder) if path == "deep.md"} <= {"yaml-too-deep", "yaml-syntax"}
    assert folder.ids() == ["a.md", "b.md", "deep.md"]


def test_one_bad_document_hides_no_other_and_is_told(folder) -> None:
    folder.put("a.md", "---\nid: a\ntitle: Step 1: open\nsummary: S.\n---\n## Use\nfind-me-bilby\n")
    folder.put("b.md", "---\nid: b\ntitle: *bold*\nsummary: S.\n---\n## Use\n\nText.\n")
    folder.put("c.md", front("c", "text"))
    assert folder.found("bilby") == ["a.md"]
    assert [path for path, code in issues(folder) if code == "yaml-syntax"] == ["a.md", "b.md"]
    assert all(one.line and one.message for one in folder.adapter.health_check().issues)
    assert folder.ids() == ["a.md", "b.md", "c.md"]


def test_an_id_claimed_twice_is_told(folder) -> None:
    folder.put("a.md", front("pump", "one"))
    folder.put("b.md", front("pump", "two"))
    assert issues(folder) == [("b.md", "duplicate-id")]
    assert folder.ids() == ["a.md", "b.md"]


def test_empty_files_are_documents_that_nothing_finds(folder) -> None:
    for name, data in {"a.md": b"", "b.md": b"\xef\xbb\xbf", "c.md": b" \n\t\n", "d.md": b"\n"}.items():
        folder.put(name, data)
    assert folder.ids() == ["a.md", "b.md", "c.md", "d.md"]
    assert folder.found("x") == []
    assert folder.adapter.query(Query(query="x")).index.documents == 4
    assert [path for path, code in issues(folder) if code == "frontmatter-missing"] == folder.ids()
    assert [folder.adapter.read_source(one).total_bytes for one in folder.ids()] == [0, 3, 4, 1]


def test_both_spellings_of_a_letter_find_both_and_are_cited_as_stored(folder) -> None:
    words = {"c.md": unicodedata.normalize("NFC", "Größe café"), "d.md": unicodedata.normalize("NFD", "Größe café")}
    for name, text in words.items():
        folder.put(name, front("x", text))
    for form in ("NFC", "NFD"):
        hits = folder.adapter.query(Query(query=unicodedata.normalize(form, "café"))).hits
        assert {hit.source_id for hit in hits} == {"c.md", "d.md"}
        for hit in hits:
            raw = folder.tree()[hit.source_id]
            [mark] = hit.snippet.highlights
            assert raw[mark.start : mark.end].decode() == words[hit.source_id].split()[1]


def test_invisible_characters_split_no_word(folder) -> None:
    folder.put("z.md", front("z", "Druck\u00adregel\u00adventil and mod\u200bbus and data\u2060base"))
    for words in ("druckregelventil", "modbus", "database"):
        [hit] = folder.adapter.query(Query(query=words)).hits
        [mark] = hit.snippet.highlights
        shown = folder.tree()["z.md"][mark.start : mark.end].decode()
        assert shown != words
        assert "".join(c for c in shown if c not in "\u00ad\u200b\u2060").lower() == words


def test_spans_are_bytes_and_end_between_characters(folder) -> None:
    folder.put("m.md", "---\nid: m\ntitle: M\nsummary: S.\n---\n## 🧪 测试\n水温 ❤️ αβγ needle-word here\n")
    [hit] = folder.adapter.query(Query(query="needle-word")).hits
    raw = folder.tree()["m.md"]
    assert "needle-word" in raw[hit.span.start : hit.span.end].decode()
    assert [raw[mark.start : mark.end] for mark in hit.snippet.highlights] == [b"needle-word"]
    # Not text in part: shown with a replacement, cited as it is.
    folder.put("n.md", b"caf\xe9 mongoose \xff")
    folder.adapter.refresh()
    [hit] = folder.adapter.query(Query(query="mongoose")).hits
    assert (hit.text, hit.span.start, hit.span.end) == ("caf\ufffd mongoose \ufffd", 0, 15)
    assert ("n.md", "encoding-invalid") in issues(folder)


FOUND = [
    (
        {"a": "先检查冷却水泵的压力传感器", "b": "今日は圧力計を交換した", "c": "plain"},
        {"压力传感器": "a", "圧力計": "b", "冷却": "a"},
    ),
    ({"a": "ポンプ起動 ﾎﾟﾝﾌﾟ", "b": "오늘 펌프압력센서를 교체했다"}, {"ﾎﾟﾝﾌﾟ": "a", "ポンプ": "a", "압력센서": "b"}),
    ({"a": "ตรวจสอบปั๊มน้ำก่อนเริ่ม", "b": "ไฟฟ้า"}, {"ปั๊มน้ำ": "a"}),
    (
        {"a": "call modbus_tcp_read(addr)", "b": "modbus rtu only", "c": "tcp only"},
        {"modbus_tcp_read": "a", "tcp read": "a"},
    ),
    (
        {"a": "openValveSlow", "b": "open the valve slow and open the valve slow, slow valve open", "c": "x"},
        {"openValveSlow": "a"},
    ),
    (
        {"a": "uses node.js and TS 38.101 with .NET 8", "b": "a node in the net", "c": "js"},
        {"node.js": "a", ".NET": "a", "38.101": "a"},
    ),
    ({"a": "don’t close the operator's valve", "b": "operators", "c": "done"}, {"don't": "a", "don’t": "a"}),
    ({"a": "İstanbul ısı valfi", "b": "nothing"}, {"istanbul": "a", "ISTANBUL": "a", "İSTANBUL": "a"}),
    ({"a": "valves and batteries are replaced", "b": "valley"}, {"valve battery": "a"}),
    (
        {"a": "S7-1200 and C++ on node.js", "b": "modbus_tcp straße", "c": "readCoilStatus don't"},
        {"S7-1200": "a", "C++": "a", "modbus tcp": "b", "strasse": "b", "coil": "c", "don't": "c"},
    ),
]


@pytest.mark.parametrize(("texts", "queries"), FOUND)
def test_words_of_every_kind_find_their_document_first(folder, texts: dict[str, str], queries: dict[str, str]) -> None:
    for name, text in texts.items():
        folder.put(f"{name}.md", front(name, text))
    for words, name in queries.items():
        hits = folder.adapter.query(Query(query=words)).hits
        assert hits[0].source_id == f"{name}.md", words
        assert all(hit.score > 0 for hit in hits)


def test_what_holds_no_word_of_the_query_is_not_found(folder) -> None:
    folder.put("a.md", front("a", "valves and modbus_tcp"))
    folder.put("b.md", front("b", "valley, modbus rtu"))
    folder.put("c.md", front("c", "压"))
    assert folder.found("valve") == ["a.md"]
    assert sorted(folder.found("modbus")) == ["a.md", "b.md"]
    assert folder.found("力") == []


@pytest.mark.parametrize("words", ["", "   ", "\u3000", "???", "---", "\u200b", '""', "()", "*", "%"])
def test_a_query_without_a_word_finds_nothing(folder, words: str) -> None:
    folder.put("a.md", front("a", "valve"))
    result = folder.adapter.query(Query(query=words))
    assert (result.hits, result.next_cursor) == ((), None)


HOSTILE_QUERIES = [
    *("AND", "OR NOT", "valve OR", "NOT valve", "NEAR(", "NEAR(a b, 3", '"open', '"valve" "', 'valve"', "a + b", "'"),
    *("; DROP TABLE docs;--", "valve\0open", "title:valve", "valve*", "^valve", "{valve}", "\ud800valve", "valve\\"),
]


@pytest.mark.parametrize("words", HOSTILE_QUERIES)
def test_a_query_is_words_and_never_a_language(folder, words: str) -> None:
    folder.put("a.md", front("a", "near and or not valve open"))
    result = folder.adapter.query(Query(query=words))
    if "valve" in words:
        assert [hit.source_id for hit in result.hits] == ["a.md"]


def test_a_query_of_any_length_is_answered_or_refused(folder) -> None:
    folder.put("a.md", front("a", "valve"))
    assert [hit.source_id for hit in folder.adapter.query(Query(query="valve xé " * 1100)).hits] == ["a.md"]
    with pytest.raises(QueryTooLongError) as caught:
        folder.adapter.query(Query(query="valve xé " * 14_000))
    assert isinstance(caught.value, KnowledgeError)
    assert len(str(caught.value)) < 200


def test_one_document_alone_has_a_score(folder) -> None:
    folder.put("a.md", front("a", "pressure valve"))
    [hit] = folder.adapter.query(Query(query="pressure")).hits
    assert hit.score > 0


def test_equal_documents_come_by_id_in_every_process(folder) -> None:
    for name in ("z9", "a1", "m5", "b2"):
        folder.put(f"{name}.md", "---\ntitle: Same\n---\nsame text\n")
    order = ["a1.md", "b2.md", "m5.md", "z9.md"]
    assert folder.found("same") == order
    assert [hit.source_id for hit in folder.adapter.query(Query(query="same", top_k=2)).hits] == order[:2]
    script = (
        "import sys; from knowledge_files import *; from knowledge_engine.models import Query;"
        "adapter = FilesKnowledgeAdapter(LocalFs(sys.argv[1]), '.');"
        "print([hit.source_id for hit in adapter.query(Query(query='same text')).hits])"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(folder.root)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        )
        assert done.stdout.strip() == str(order)


def test_text_files_have_no_headings_and_data_files_no_frontmatter(folder) -> None:
    folder.put("a.txt", "# not a heading\nvalve")
    folder.put("b.yaml", "---\ntitle: valve\n---\n# comment\n")
    folder.put("c.json", '{"title": "valve"}')
    hits = {hit.source_id: hit for hit in folder.adapter.query(Query(query="valve")).hits}
    assert set(hits) == {"a.txt", "b.yaml", "c.json"}
    assert all(hit.heading_path == () and hit.span.start == 0 for hit in hits.values())
    assert hits["b.yaml"].metadata == {}
