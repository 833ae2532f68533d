"""From text to terms: stems, stop words, places in bytes, and the analyzer as a value."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
import unicodedata

import pytest
import Stemmer
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_engine.analysis import REVISION, STOP_WORDS, Analyzer, QueryWord, analyzer
from knowledge_engine.errors import InvalidArgumentError

MIXED = "aAbZé\u0301ßﬁİ01²'’._-+# \n\t\u2028\u00a0\u00ad\u200b\ufe0f水ﾎﾟﾝ\u1100\u1161\u11a8각น้ำมـد❤🧪"
known = st.text(MIXED)
texts = known | st.text(st.sampled_from(MIXED) | st.characters(exclude_categories=["Cs"]))
# Text with holes: pieces of characters, bytes that are never UTF-8, surrogates and overlong forms.
hurt = st.lists(
    texts.map(str.encode)
    | st.binary(max_size=4)
    | st.sampled_from([b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", "水".encode()[:2]])
)

ENGLISH = Analyzer()


def plain(data: bytes) -> str:
    """What a reader takes the bytes for: no invisible characters, no letter case, one form of each letter."""
    text = unicodedata.normalize("NFKC", data.decode())
    seen = "".join(char for char in text if unicodedata.category(char) != "Cf" and char not in "\u0640\u034f\ufe0f")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", seen).casefold().replace("i\u0307", "i"))


def test_endings_are_taken_off() -> None:
    assert ENGLISH.terms("Valves, valve; batteries and a battery") == ["valv", "valv", "batteri", "and", "a", "batteri"]


def test_a_valley_is_no_valve() -> None:
    assert set(ENGLISH.terms("valley valleys")).isdisjoint(ENGLISH.terms("valve valves"))


@pytest.mark.parametrize("name", ["S7-1200", "modbus_tcp", "C++", ".NET", "node.js", "38.101", "ISO9001s", "C#"])
def test_identifiers_and_numbers_keep_their_endings(name: str) -> None:
    assert ENGLISH.terms(name)[0] == name.casefold()


@pytest.mark.parametrize("text", ["operator's", "operator’s", "operators", "Operators’", "operator"])
def test_an_owner_is_found_by_every_spelling(text: str) -> None:
    assert ENGLISH.terms(text) == ["oper"]


def test_a_language_is_known_by_its_code() -> None:
    assert Analyzer("de") == Analyzer("german")
    assert Analyzer("de").language == "german"
    assert Analyzer("de").terms("Ventile") == Analyzer("german").terms("Ventil")


def test_without_a_language_words_stay_whole() -> None:
    assert Analyzer("none").terms("Valves running") == ["valves", "running"]


@pytest.mark.parametrize("language", [*Stemmer.algorithms(), *analyzer._ISO_639_1])
def test_every_snowball_language_gives_terms(language: str) -> None:
    assert len(Analyzer(language).terms("Pumpen Straße насосы مضخات 水")) == 5


def test_every_code_names_a_snowball_language_of_its_own() -> None:
    names = list(analyzer._ISO_639_1.values())
    assert len(set(names)) == len(names)
    assert set(names) <= set(Stemmer.algorithms())


def test_every_list_of_stop_words_belongs_to_a_snowball_language() -> None:
    assert set(STOP_WORDS) <= set(Stemmer.algorithms())


@pytest.mark.parametrize("language", ["klingon", "", "English", "xx", "english "])
def test_an_unknown_language_is_refused_and_the_known_ones_are_named(language: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"none, .*english.*turkish") as caught:
        Analyzer(language)
    assert repr(language) in str(caught.value)


def test_stop_words_are_left_out_of_a_query_and_kept_in_an_index() -> None:
    assert ENGLISH.query_terms("What is THE valve?") == ["valv"]
    assert ENGLISH.terms("the valve") == ["the", "valv"]


@pytest.mark.parametrize("language", sorted(STOP_WORDS))
def test_a_query_of_stop_words_alone_keeps_them(language: str) -> None:
    stop = sorted(STOP_WORDS[language])
    assert Analyzer(language).query_terms(" ".join(stop)) == Analyzer(language).terms(" ".join(stop))


def test_a_language_without_a_list_drops_nothing() -> None:
    assert "hungarian" not in STOP_WORDS
    assert Analyzer("hungarian").query_terms("a szelep") == Analyzer("hungarian").terms("a szelep")


def test_a_query_keeps_repeats() -> None:
    assert ENGLISH.query_terms("valve valves the valve") == ["valv"] * 3


@given(texts)
def test_a_query_has_terms_exactly_when_its_text_has(text: str) -> None:
    terms, wanted = ENGLISH.terms(text), ENGLISH.query_terms(text)
    assert bool(terms) == bool(wanted)
    assert not set(wanted) - set(terms)


@given(texts)
@example("ŉ ΐ \u1ffd\u0301a")
def test_composed_and_decomposed_text_have_the_same_terms(text: str) -> None:
    assert ENGLISH.terms(unicodedata.normalize("NFC", text)) == ENGLISH.terms(unicodedata.normalize("NFD", text))


@given(texts)
def test_tokens_are_the_terms_of_the_text(text: str) -> None:
    assert sorted(token.term for token in ENGLISH.tokens(text.encode())) == sorted(ENGLISH.terms(text))


@given(hurt)
def test_tokens_of_hurt_bytes_are_the_terms_of_the_text_that_is_shown(pieces: list[bytes]) -> None:
    raw = b"".join(pieces)
    shown = raw.decode("utf-8", "replace")
    assert sorted(token.term for token in ENGLISH.tokens(raw)) == sorted(ENGLISH.terms(shown))


@given(hurt)
def test_tokens_come_by_start_and_lie_in_bytes_that_are_utf8(pieces: list[bytes]) -> None:
    raw = b"".join(pieces)
    tokens = ENGLISH.tokens(raw)
    assert [token.start for token in tokens] == sorted(token.start for token in tokens)
    for token in tokens:
        assert 0 <= token.start < token.end <= len(raw)
        raw[token.start : token.end].decode()


@given(known)
def test_the_bytes_of_a_token_hold_what_it_stands_for(text: str) -> None:
    raw, unstemmed = text.encode(), Analyzer("none")
    for token in unstemmed.tokens(raw):
        shown = plain(raw[token.start : token.end]).translate({ord(c): "'" for c in "‘’ʼ′´"} | {ord("−"): "-"})
        assert token.term in shown.translate(dict.fromkeys(map(ord, "‐‑‒–"), "-"))


@given(hurt, st.sets(st.sampled_from(["a", "ab", "ß", "ss", "水", "ﾎﾟ", "b's", "0", "zé"])))
def test_only_the_tokens_of_wanted_terms_come_where_some_are_named(pieces: list[bytes], wanted: set[str]) -> None:
    raw = " a水.Ab ".encode().join(pieces)
    assert ENGLISH.tokens(raw, wanted) == [token for token in ENGLISH.tokens(raw) if token.term in wanted]


@given(st.text(MIXED + '()[]{}<>"/\\|,;:!?*`&%$@^~\u037e\u1fef=\u0338. '))
def test_words_are_the_same_in_every_bracket_and_quotation(text: str) -> None:
    apart = ENGLISH.terms(f"{text} {text}")
    for before, after in ("()", "[]", '""', "/;", "|~", "`?"):
        assert ENGLISH.terms(f"{before}{text}{after}{text}") == apart


@pytest.mark.parametrize("sign", ["<", ">", "=", "<\u0338", "=\u0338", ">\u0338", ". ", ".\n", ".\r\n", "... "])
def test_signs_between_words_leave_them_as_they_are(sign: str) -> None:
    text = f".NET{sign}openValve2{sign}C++"
    words = Analyzer().terms(".NET openValve2 C++")
    assert Analyzer().terms(text) == words
    shown = [text.encode()[start:end].decode() for _, start, end in Analyzer().tokens(text.encode())]
    assert shown == [".NET", "NET", "openValve2", "open", "Valve2", "C++", "C"]


def test_a_token_covers_the_bytes_of_every_spelling() -> None:
    raw = "Druck\u00adventil cafe\u0301 ＰＬＣ ﾎﾟ".encode()
    shown = [raw[token.start : token.end].decode() for token in ENGLISH.tokens(raw)]
    assert shown == ["Druck\u00adventil", "cafe\u0301", "ＰＬＣ", "ﾎﾟ"]


def test_tokens_of_plain_bytes_count_bytes() -> None:
    assert ENGLISH.tokens(b"-- pumpS7 \n") == [("pumps7", 3, 9), ("pump", 3, 7), ("s7", 7, 9)]


def test_words_seen_before_give_the_same_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer, "_RECENT_TERMS", 3)
    mine = Analyzer("german")
    text = " ".join(f"Pumpe{number % 7} Ventile" for number in range(50))
    assert mine.terms(text) == mine.terms(text) == [*Analyzer("german").query_terms(text)]
    assert len(mine._local.terms) <= 3


def test_long_words_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Analyzer()
    assert mine.terms("x" * 49) == ["x" * 49]
    assert mine._local.terms == {}


def test_threads_that_share_an_analyzer_get_the_same_terms() -> None:
    shared = Analyzer()
    chunks = [f"running{number} valves batteries operators' relational" for number in range(300)]
    expected = [Analyzer().terms(chunk) for chunk in chunks]
    found: list[list[list[str]]] = []
    ready = threading.Barrier(6)

    def work() -> None:
        ready.wait()
        found.append([shared.terms(chunk) for chunk in chunks])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_is_equal_and_works(again: object) -> None:
    assert callable(again)
    other = again(Analyzer("fr"))
    assert other == Analyzer("french")
    assert hash(other) == hash(Analyzer("fr"))
    assert other.terms("vannes") == Analyzer("fr").terms("vannes")


def test_analyzers_differ_by_language_alone() -> None:
    assert Analyzer() != Analyzer("none")
    assert repr(Analyzer("en")) == "Analyzer(language='english')"


def test_an_analyzer_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ENGLISH.language = "german"  # type: ignore[misc]


def test_the_version_names_all_that_decides_about_terms() -> None:
    assert Analyzer("en").version == ENGLISH.version
    assert Analyzer("de").version != ENGLISH.version
    for part in (str(REVISION), "english", Stemmer.version(), unicodedata.unidata_version):
        assert part in ENGLISH.version


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("S7-1200 timeout", [QueryWord("s7-1200", ("s7", "1200")), QueryWord("timeout")]),
        ("readHTTPStatus", [QueryWord("readhttpstatus", ("read", "http", "status"))]),
        ("C++ .NET", [QueryWord("c++", ("c",)), QueryWord(".net", ("net",))]),
        ("heat-transfer", [QueryWord("heat-transfer"), QueryWord("heat"), QueryWord("transfer")]),
        ("T-Cell l'eau", [QueryWord(w) for w in ("t-cell", "t", "cell", "l'eau", "eau")]),
        ("5 5 a a", [QueryWord("5"), QueryWord("5")]),
        ("iPhone手机", [QueryWord("iphon", ("phone",)), QueryWord("手"), QueryWord("机"), QueryWord("手机")]),
        ("the", [QueryWord("the")]),
    ],
)
def test_parts_belong_to_their_identifier(query: str, words: list[QueryWord]) -> None:
    assert Analyzer().query_words(query) == words
    assert Analyzer().query_terms(query) == [term for word in words for term in (word.term, *word.parts)]


@pytest.mark.parametrize("query", ["ışık", "IŞIK", "Işık", "ırmak", "IRMAK"])
def test_turkish_letters_i_meet(query: str) -> None:
    assert set(Analyzer("none").terms(query)) <= set(Analyzer("none").terms("Işık IRMAK"))
