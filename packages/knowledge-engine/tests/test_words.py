"""Where words begin and end. What the analyzer makes of them is tested beside it."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge_engine.analysis import MAX_WORD_CHARS, split_words
from knowledge_engine.analysis.words import word_forms

MARKS = "\u0300\u0301\u0307\u0308\u0323\u0327\u0345\u05b4\u064b\u0651\u093c\u0e31\u0e49\u3099"
INVISIBLE = (
    "\u20e3\u00ad\u034f\u0640\u180b\u200b\u200c\u200d\u2060\ufe0e\ufe0f\ufeff\u061c\u202e\u2066\u2069\u3164\U000e0100"
)
KOREAN = "\u1100\u1161\u11a8\u1112\uac00\uac01\ud55c\uffa1\uffc2\u3131"
SCRIPTS = "水温ポホンヽﾎﾟﾝﾌﾞｶｰนำ้ไทยปั๊มمضخةﷺﹱﻻहिन्दीשלום"
LATIN = "abcABCßẞſﬁŉİıIiÅÅéΣςσΰΐǅ0129²½①Ⅷ"
SIGNS = "._-'’´`+#/·–‐…❤🧪👩🏽🇩"
known = st.text(MARKS + INVISIBLE + KOREAN + SCRIPTS + LATIN + SIGNS)
tricky = known | st.text(st.sampled_from(MARKS + INVISIBLE + "aB0水") | st.characters(exclude_categories=["Cs"]))


def folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("i\u0307", "i")


def forms(text: str) -> list[str]:
    assert [word.form for word in split_words(text)] == word_forms(text)
    return word_forms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S7-1200", ["s7-1200", "s7", "1200"]),
        ("s7–1200", ["s7-1200", "s7", "1200"]),
        ("modbus_tcp_read(addr)", ["modbus_tcp_read", "modbus", "tcp", "read", "addr"]),
        ("__init__", ["init"]),
        ("readHTTPStatus", ["readhttpstatus", "read", "http", "status"]),
        ("HTTPServer2Go", ["httpserver2go", "http", "server2", "go"]),
        ("C++", ["c++", "c"]),
        ("c+", ["c"]),
        ("C#", ["c#", "c"]),
        ("F#minor", ["f", "minor"]),
        (".NET", [".net", "net"]),
        ("(.NET)", [".net", "net"]),
        (".5", ["5"]),
        ("node.js.", ["node.js", "node", "js"]),
        ("38.101", ["38.101", "38", "101"]),
        ("end.Then", ["end.then", "end", "then"]),
        ("wait...what", ["wait", "what"]),
        ("192.168.0.1", ["192.168.0.1", "192", "168", "0", "1"]),
        ("a-a-a", ["a-a-a", "a"]),
    ],
)
def test_an_identifier_comes_whole_and_in_parts(text: str, expected: list[str]) -> None:
    assert forms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DNAs", ["dnas"]),
        ("URLs", ["urls"]),
        ("GHz", ["ghz"]),
        ("pH", ["ph"]),
        ("mRNA", ["mrna", "rna"]),
        ("IPv6", ["ipv6", "pv6"]),
        ("x1Y", ["x1y", "x1"]),
        ("3D", ["3d", "3"]),
    ],
)
def test_single_letters_of_a_mixed_word_are_no_parts(text: str, expected: list[str]) -> None:
    assert forms(text) == expected


@pytest.mark.parametrize("apostrophe", list("'‘’ʼ′´＇"))
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't", ["don't"]),
        ("operator's", ["operator's"]),
        ("they're", ["they're"]),
        ("l'eau", ["l'eau", "eau"]),
        ("O'Brien", ["o'brien", "brien"]),
        ("rock'n'roll", ["rock'n'roll", "rock", "roll"]),
        ("o'Brien-Smith", ["o'brien-smith", "brien", "smith"]),
    ],
)
def test_apostrophes_of_every_kind_join_a_word(text: str, expected: list[str], apostrophe: str) -> None:
    assert [form for form in forms(text.replace("'", apostrophe)) if len(form) > 1] == expected


def test_an_apostrophe_around_a_word_is_not_part_of_it() -> None:
    assert forms("'quoted'") == forms("‘quoted’") == ["quoted"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("水", ["水"]),
        ("冷却水", ["冷", "却", "水", "冷却", "却水"]),
        ("ガス", ["ガ", "ス", "ガス"]),
        ("ｶﾞｽ", ["ガ", "ス", "ガス"]),
        ("밸브", ["밸", "브", "밸브"]),
        ("ไทย", ["ไ", "ท", "ย", "ไท", "ทย"]),
        ("ปั๊ม", ["ปั๊", "ม", "ปั๊ม"]),
        ("PLC水S7", ["plc", "水", "s7"]),
        ("人々・山", ["人", "々", "人々", "山"]),
    ],
)
def test_scripts_without_spaces_give_characters_and_pairs(text: str, expected: list[str]) -> None:
    assert forms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("STRASSE Straße ﬁlter", ["strasse", "strasse", "filter"]),
        ("İstanbul ISTANBUL istanbul i\u0307stanbul", ["istanbul"] * 4),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σίσυφοσ"] * 2),
        ("m² CO₂ Ⅷ ①", ["m2", "co2", "viii", "1"]),
        ("Ångström ÅNGSTRÖM", ["ångström"] * 2),
        ("مـــضخة مضخة", ["مضخة"] * 2),
        ("1️⃣ ❤️ 🇩🇪 👩🏽‍🔧", ["1"]),
    ],
)
def test_what_reads_the_same_is_folded_to_the_same(text: str, expected: list[str]) -> None:
    assert [form for chunk in text.split() for form in forms(chunk)] == expected


@pytest.mark.parametrize(
    "text", ["", "...", "---", "___", "'''", "++", "#", "\x00", "\u200b", "❤", "\ufffd", chr(0xDC80)]
)
def test_what_has_no_letter_or_digit_has_no_word(text: str) -> None:
    assert forms(text) == []


def test_nul_and_undecodable_bytes_part_words() -> None:
    assert forms("valve\x00open\ufffdshut\udcffdrain") == ["valve", "open", "shut", "drain"]


@pytest.mark.parametrize("unit", ["x", "ß", "x_", "İx", "é"])
def test_a_huge_word_is_known_by_its_beginning(unit: str) -> None:
    long = unit * 1000
    whole = split_words(long)[0]
    assert len(whole.form) == MAX_WORD_CHARS
    assert forms(unit * 500)[0] == whole.form
    assert (whole.start, whole.end) == (0, len(long.rstrip("_")))


def test_a_blob_is_not_cut_at_changes_of_case() -> None:
    assert len(forms("aB" * 500)) == 1
    assert forms("aaBB" * 30)[1:] == ["aa", "baa", "bb"]


@given(tricky)
@example("\u0340\u0344")
@example("\u1161" * 3)
def test_decomposed_text_has_the_forms_of_composed_text(text: str) -> None:
    assert forms(unicodedata.normalize("NFC", text)) == forms(unicodedata.normalize("NFD", text))


@given(tricky, st.data())
@example("ﹱﹱ", None)
def test_invisible_characters_do_not_change_the_forms(text: str, data: st.DataObject | None) -> None:
    chars = list(text)
    for at in data.draw(st.lists(st.integers(0, len(text)), max_size=4)) if data else [1]:
        chars.insert(at, data.draw(st.sampled_from(INVISIBLE)) if data else "\u0640")
    assert forms("".join(chars)) == forms(text)


@given(known)
def test_a_word_s_place_holds_its_form(text: str) -> None:
    for form, start, end in split_words(text):
        assert 0 <= start < end <= len(text)
        shown = "".join(char for char in text[start:end] if char not in INVISIBLE)
        shown = shown.translate({ord(c): "'" for c in "‘’ʼ′´\u1ffd"} | {ord(c): "-" for c in "‐‑‒–−"})
        expected = unicodedata.normalize("NFC", folded(shown)).translate({0x2BC: "'", 0x131: "i"})
        assert form in unicodedata.normalize("NFC", expected.replace("\u0640", ""))


@given(tricky)
def test_a_word_s_place_does_not_begin_or_end_within_a_letter(text: str) -> None:
    for _, start, end in split_words(text):
        # A mark on a sign or on nothing is nobody's.
        assert end == len(text) or text[end] not in MARKS + INVISIBLE or not text[end - 1].isalnum()
        assert start == 0 or text[start] not in MARKS + INVISIBLE or not text[start - 1].isalnum()


@pytest.mark.parametrize("before", ["+", "(", "\ufffd", "=\u0338+"])
def test_what_stands_before_a_part_of_a_syllable_is_not_its_place(before: str) -> None:
    (word,) = split_words(f"{before}\u1161")
    assert (word.start, word.end) == (len(before), len(before) + 1)


@given(tricky, tricky)
def test_words_are_the_same_whatever_stands_around_them(left: str, right: str) -> None:
    assert forms(f"{left} {right}") == forms(left) + forms(f" {right}")


@given(
    st.lists(st.sampled_from(["valve", "open", "http", "slow", "tank2"]), min_size=2, max_size=5),
    st.sampled_from("_-."),
)
def test_however_an_identifier_is_written_its_parts_are_the_same(parts: list[str], joiner: str) -> None:
    expected = list(dict.fromkeys(parts))
    assert forms(joiner.join(parts))[1:] == expected
    assert forms("".join(part.title() for part in parts))[1:] == expected


# Units that once took, or might take, time that grows faster than the text.
UNITS = [
    "a", ".", "aB", "a.", "a'", "'", "_", "a_", "+", "a+", "a++", "#", "-", ".a", "aB_", "ß", "ßaB_", "İ", "aBß.",
    "水", "水\u3099", "\u0301", "a\u0301", "\u1161", "\u1100\u1161", "\uffc2", "\uff9e", "\u200b", "a\u200b",
    "ำ", "각", "ﷺ", "㍿", "ﹱ", "\u0640",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_time_grows_with_the_text_and_not_faster(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit.encode()))
        best = float("inf")
        for _ in range(5):
            began = time.process_time()
            split_words(text)
            best = min(best, time.process_time() - began)
        return best

    # 16 times the text: a quadratic step would take 256 times as long.
    assert seconds(48_000) < 160 * max(seconds(3_000), 0.002)


@settings(max_examples=2000)
@given(st.text("abABC01_-.'+#<>=", max_size=14))
def test_common_words_have_the_forms_that_all_have(text: str) -> None:
    assert word_forms(text) == [word.form for word in split_words(text)]
