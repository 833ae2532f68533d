from __future__ import annotations

import hashlib
import time
import unicodedata
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.analysis import Analyzer
from knowledge_engine.citations import (
    Citation,
    cite,
    content_hash,
    cut_text,
    decode,
    make_snippet,
    verify_citation,
)
from knowledge_engine.errors import InvalidArgumentError, InvalidIdError, NotFoundError, UnavailableError
from knowledge_engine.models import ByteSpan, Hit, Snippet, SourceContent

ANALYZER = Analyzer()


def span(start: int, end: int) -> ByteSpan:
    return ByteSpan(start=start, end=end)


def whole(raw: bytes) -> ByteSpan:
    return span(0, len(raw))


# --- text and hash -----------------------------------------------------------------------------------------------


def test_a_citation_is_of_the_raw_bytes() -> None:
    raw = "a\r\ncaf\u00e9 ".encode() + b"\xff\xfe!"
    text, digest = cite(raw, span(3, len(raw)))
    assert text == "caf\u00e9 \ufffd\ufffd!"
    assert digest == hashlib.sha256(raw[3:]).hexdigest()
    assert decode(b"\xef\xbb\xbfx") == "\ufeffx"


# --- cutting -----------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *"ab .!?,\n\r\"'",
        "\r\n",
        "\u00e9",
        "e\u0301\u0323",
        "\u3002",
        "\u6c34",
        "\u2028",
        "\U0001f9ea",
        "\U0001f44d\U0001f3fd",
        "\u200d",
        " \u00a0",
    ]
).map(str.encode) | st.sampled_from([b"\xff", b"\xe2\x82", b"\xf0\x9f\x98", b"\xe9", b"\x80"])
RAW = st.lists(PIECES, max_size=60).map(b"".join)


@given(RAW, st.integers(0, 20), st.integers(1, 60))
def test_a_cut_is_a_prefix_of_at_most_so_many_characters(raw: bytes, start: int, limit: int) -> None:
    asked = span(min(start, len(raw)), len(raw))
    cut = cut_text(raw, asked, limit)
    text, full = decode(raw[cut.start : cut.end]), decode(raw[asked.start :])
    assert cut.start == asked.start
    assert full.startswith(text)
    assert len(text) <= limit
    assert text == full if len(full) <= limit else limit // 2 <= len(text) > 0 or limit - len(text) <= 32


@given(st.text(), st.integers(1, 30))
def test_a_cut_never_parts_a_character(text: str, limit: int) -> None:
    raw = text.encode("utf-8", "ignore")
    cut = cut_text(raw, whole(raw), limit)
    assert raw[: cut.end].decode() + raw[cut.end :].decode() == raw.decode()


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("One two. Three four. Five six", 25, "One two. Three four."),
        ("One two. Three four. Five six", 20, "One two. Three four."),
        ("One two. Three four. Five six", 19, "One two. Three"),
        ('He said "go!" and went away', 16, 'He said "go!"'),
        ("Really?! Yes or no or so", 12, "Really?!"),
        ("Version 1.2.3.4 of it", 14, "Version"),
        ("Version 1.2.3.4.5.6.7.8.9", 20, "Version 1.2.3.4.5.6."),
        ("\u6c34\u6e29\u9ad8\u3002\u8bf7\u68c0\u67e5\u63a5\u5730", 6, "\u6c34\u6e29\u9ad8\u3002"),
        (
            "\u300c\u6c34\u6e29\u9ad8\u3002\u300d\u8bf7\u68c0\u67e5\u63a5\u5730",
            8,
            "\u300c\u6c34\u6e29\u9ad8\u3002\u300d",
        ),
        ("\u6c34\u6e29\u9ad8\u8bf7\u68c0\u67e5\u63a5\u5730", 5, "\u6c34\u6e29\u9ad8\u8bf7\u68c0"),
        ("\u092f\u0939 \u0939\u0948\u0964 \u0935\u0939 \u0928\u0939\u0940\u0902", 9, "\u092f\u0939 \u0939\u0948\u0964"),
        ("first line\nsecond line", 15, "first line"),
        ("first line  \r\nsecond line", 15, "first line"),
        ("first line\u2028second line", 13, "first line"),
        ("words without a stop sign", 15, "words without a"),
        ("words without a stop sign", 16, "words without a"),
        ("words without a stop sign", 14, "words without"),
        ("incomprehensible", 5, "incom"),
        ("a incomprehensible", 8, "a incomp"),
        ("   ", 2, "  "),
        ("ae\u0301e", 2, "a"),
        ("e\u0301e", 1, "e"),
        ("\r\n\r\n", 3, "\r\n"),
        ("\r\nx", 1, "\r"),
        ("ab\U0001f44d\U0001f3fdc", 3, "ab"),
        ("ab\U0001f469\u200d\U0001f527c", 4, "ab"),
        ("ab\u1112\u1161\u11abc", 4, "ab"),
        ("\U0001f44d\U0001f44d\U0001f3fd", 2, "\U0001f44d"),
        ("enough", 6, "enough"),
        ("", 1, ""),
        ("x" + "\u0301" * 100, 60, "x" + "\u0301" * 59),
    ],
)
def test_a_cut_ends_where_a_reader_would_stop(text: str, limit: int, expected: str) -> None:
    raw = text.encode()
    assert decode(raw[: cut_text(raw, whole(raw), limit).end]) == expected


def test_a_cut_of_a_span_counts_from_its_start_and_ends_with_the_bytes() -> None:
    assert cut_text(b"0123456789", span(3, 9), 2) == span(3, 5)
    assert cut_text(b"0123456789", span(8, 99), 50) == span(8, 10)
    assert cut_text(b"0123456789", span(20, 99), 5) == span(20, 20)


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        cut_text(b"x", span(0, 1), 0)
    with pytest.raises(InvalidArgumentError):
        make_snippet(b"x", 0, ["x"], ANALYZER, 0)


@pytest.mark.parametrize(
    "raw",
    [
        b"." * 2_000_000,
        b'."' * 1_000_000,
        b"\xff" * 2_000_000,
        b"\xf0\x9f\x98" * 700_000,
        b"a" + b" " * 2_000_000 + b"\n",
        b" \r" * 1_000_000,
        "e\u0301\u0301".encode() * 400_000,
    ],
    ids=["stops", "quotes", "invalid", "halves", "blanks", "returns", "marks"],
)
def test_hostile_bytes_are_cut_in_linear_time(raw: bytes) -> None:
    began = time.process_time()
    cut_text(raw, whole(raw), 500_000)
    # Quadratic work would take minutes: no clock is that slow.
    assert time.process_time() - began < 10


# --- snippets ----------------------------------------------------------------------------------------------------


def snippet(text: str, query: str, max_chars: int = 240) -> str:
    return make_snippet(text.encode(), 0, ANALYZER.query_terms(query), ANALYZER, max_chars).marked("<", ">")


FILLER = "Nothing of interest stands in here. " * 20


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("  A valve opens.\n", "valves", "A <valve> opens."),
        ("The S7-1200 unit", "S7-1200", "The <S7-1200> unit"),
        ("The S7-1200 unit", "1200", "The S7-<1200> unit"),
        ("call readHTTPStatus now", "readHTTPStatus", "call <readHTTPStatus> now"),
        ("mod\u200bbus and cafe\u0301.", "modbus caf\u00e9", "<mod\u200bbus> and <cafe\u0301>."),
        ("\u6c34\u6e29\u8fc7\u9ad8", "\u6c34\u6e29", "<\u6c34\u6e29>\u8fc7\u9ad8"),
        ("\u6c34\u6e29\u8fc7\u9ad8", "\u6c34 \u6e29", "<\u6c34\u6e29>\u8fc7\u9ad8"),
        ("A valve opens.", "pump", "A valve opens."),
        ("A valve opens.", "", "A valve opens."),
        (" \n\t ", "valve", ""),
        ("", "valve", ""),
    ],
)
def test_matching_words_are_marked_as_a_whole(text: str, query: str, expected: str) -> None:
    assert snippet(text, query) == expected


def test_the_window_shows_most_different_words_then_most_then_the_first() -> None:
    text = f"pump pump pump. {FILLER}One pump and a valve. {FILLER}A valve, a valve, a pump. {FILLER}"
    assert "a <valve>, a <pump>" in snippet(text, "pump valve", 100)
    assert "<pump> <pump> <pump>" in snippet(text, "pump", 100)
    assert "<One> pump" in snippet(text, "one", 100)
    assert snippet(f"pump a. {FILLER}pump b.", "pump", 60).startswith("<pump> a.")


def test_the_window_begins_and_ends_at_sentences_and_words() -> None:
    shown = snippet(f"{FILLER}Dry the sensor first. {FILLER}", "sensor", 120)
    assert shown.startswith("Nothing of")
    assert shown.endswith(("here.", "first."))
    assert "Dry the <sensor> first." in shown
    words = snippet(f"{'word ' * 100}sensor {'word ' * 100}", "sensor", 43)
    assert set(words.split()) == {"word", "<sensor>"}
    assert 37 <= len(words) - 2 <= 43


def test_the_window_begins_at_the_matching_line() -> None:
    text = f"{'alpha, ' * 40}\n\n  ## Dry the sensor\n{'omega, ' * 40}"
    assert snippet(text, "sensor", 80).startswith("## Dry the <sensor>\nomega")


def test_the_window_reaches_back_when_the_match_is_last() -> None:
    shown = snippet(f"{'word ' * 100}sensor", "sensor", 60)
    assert shown.endswith("word <sensor>")
    assert len(shown) > 50


def test_a_window_without_words_to_begin_at_starts_inside_the_text() -> None:
    water, warm, high = "\u6c34", "\u6e29", "\u9ad8"
    assert snippet(water * 300 + warm + high * 300, warm, 21) == f"{water * 10}<{warm}>{high * 10}"
    marks = snippet((water + "\u0301") * 300 + warm + high * 300, warm, 22)
    assert unicodedata.category(marks[0])[0] != "M"


def test_a_word_longer_than_the_window_is_marked_as_far_as_it_is_shown() -> None:
    long = "x" * 30
    assert snippet(f"some words {long} and more", long, 10) == f"<{'x' * 10}>"


def test_a_sentence_end_does_not_hide_a_match_behind_it() -> None:
    shown = snippet(f"pump and so on, to the end. A valve{' word' * 50}", "pump valve", 40)
    assert shown.startswith("<pump>")
    assert "<valve>" in shown


def test_a_part_of_a_name_counts_where_the_whole_does_not_fit() -> None:
    shown = snippet(f"ant bee cow dog valve-pump {FILLER}", "ant bee cow dog valve-pump", 21)
    assert shown == "<ant> <bee> <cow> <dog> <valve>"


def test_a_window_has_no_white_space_at_its_end() -> None:
    assert snippet(f"pump{' ' * 300}valve", "pump", 50) == "<pump>"


def test_no_match_shows_the_beginning() -> None:
    assert snippet(f"\n\n First words here. {FILLER}", "pump", 20) == "First words here."


def test_bytes_that_are_not_utf8_shift_nothing() -> None:
    data = b"\xff\xe2\x82 " * 50 + b"the sensor\xff\xfe " + b"\xf0\x9f\x98 " * 90
    found = make_snippet(data, 1_000, ["sensor"], ANALYZER, 50)
    (mark,) = found.highlights
    assert data[mark.start - 1_000 : mark.end - 1_000] == b"sensor"
    assert found.text == decode(data[found.span.start - 1_000 : found.span.end - 1_000])


WORDS = st.sampled_from(
    [
        "pump",
        "valve",
        "S7-1200",
        "modbus_tcp",
        "cafe\u0301",
        "\u6c34\u6e29",
        "\u200b",
        ". ",
        "\n",
        "  ",
        ", ",
        "\U0001f9ea",
        "x" * 25,
    ]
)
QUERIES = st.lists(
    st.sampled_from(["pump", "s7", "1200", "s7-1200", "tcp", "caf\u00e9", "\u6c34", "x" * 25, "absent"]), max_size=4
)


@given(
    st.lists(WORDS.map(str.encode) | st.sampled_from([b"\xff", b"\xe2\x82"]), max_size=80),
    QUERIES,
    st.integers(1, 60),
    st.integers(0, 99),
)
def test_a_snippet_is_a_true_slice_with_the_best_window(
    pieces: list[bytes], query: list[str], limit: int, base: int
) -> None:
    data = b" ".join(pieces)
    terms = set(ANALYZER.query_terms(" ".join(query)))
    found = make_snippet(data, base, terms, ANALYZER, limit)
    shown = data[found.span.start - base : found.span.end - base]
    assert decode(shown) == found.text == found.text.strip()
    assert len(found.text) <= limit
    assert bool(found.text) is bool(decode(data).strip())
    places = [found.span.start, *(edge for mark in found.highlights for edge in (mark.start, mark.end)), found.span.end]
    assert places == sorted(places)
    assert all(one.end < other.start for one, other in zip(found.highlights, found.highlights[1:], strict=False))
    tokens = [token for token in ANALYZER.tokens(data) if token.term in terms]
    assert covered(found.highlights) == {
        place + base
        for token in tokens
        for place in range(token.start, token.end)
        if found.span.start <= place + base < found.span.end
    }
    if all(len(decode(data[token.start : token.end])) <= limit for token in tokens):
        best = max((len(terms_inside(data, tokens, start.start, limit)) for start in tokens), default=0)
        inside = {t.term for t in tokens if found.span.start <= t.start + base and t.end + base <= found.span.end}
        assert len(inside) >= best


def covered(highlights: Collection[ByteSpan]) -> set[int]:
    return {place for mark in highlights for place in range(mark.start, mark.end)}


def terms_inside(data: bytes, tokens: list[Any], start: int, limit: int) -> set[str]:
    return {t.term for t in tokens if t.start >= start and len(decode(data[start : t.end])) <= limit}


# --- verifying ---------------------------------------------------------------------------------------------------


class FakeProvider:
    """Documents in a dict, read as the contract says."""

    def __init__(self, **documents: bytes) -> None:
        self.documents = documents

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        if source_id not in self.documents:
            raise NotFoundError("No such document", mend="List them.")
        data = self.documents[source_id]
        asked = span or whole(data)
        clipped = ByteSpan(start=min(asked.start, len(data)), end=min(asked.end, len(data)))
        content = data[clipped.start : clipped.end]
        return SourceContent(
            source_id=source_id,
            content=content,
            span=clipped,
            total_bytes=len(data),
            content_hash=content_hash(content),
        )


def hit(raw: bytes, start: int, end: int) -> Hit:
    text, digest = cite(raw, span(start, end))
    return Hit(
        source_id="a",
        chunk_id="a#1",
        title="A",
        text=text,
        snippet=Snippet(text=text, span=span(start, end)),
        score=1.0,
        span=span(start, end),
        content_hash=digest,
    )


def outside(raw: bytes, start: int, end: int) -> Citation:
    return Citation(source_id="a", span=span(start, end), content_hash=content_hash(raw[start:end]))


TEXT = b"# Title\n\nFirst passage.\n\n  Second passage, with caf\xc3\xa9.\n\nThird.\n"
SECOND = (TEXT.index(b"Second"), TEXT.index(b"\n\nThird"))


@pytest.mark.parametrize("make", [hit, outside])
def test_a_citation_is_ok_moved_changed_or_gone(make: Any) -> None:
    cited = make(TEXT, *SECOND)
    same = verify_citation(FakeProvider(a=TEXT), cited)
    assert (same.status, same.source_id, same.span) == ("ok", "a", cited.span)
    for before in (b"", b"A", b"New line.\n\n", b"\xef\xbb\xbf", b"x\n" * 500):
        moved = verify_citation(FakeProvider(a=before + TEXT[9:]), cited)
        shift = len(before) - 9
        assert (moved.status, moved.span) == ("moved", span(SECOND[0] + shift, SECOND[1] + shift))
    changed = verify_citation(FakeProvider(a=TEXT.replace(b"Second", b"2nd")), cited)
    assert (changed.status, changed.span) == ("changed", None)
    assert verify_citation(FakeProvider(a=b""), cited).status == "changed"
    gone = verify_citation(FakeProvider(b=TEXT), cited)
    assert (gone.status, gone.source_id, gone.span) == ("gone", "a", None)


def test_a_hit_of_bytes_that_are_not_utf8_is_found_by_its_hash() -> None:
    raw = b"intro\n\nbad \xff\xfe bytes\n"
    moved = verify_citation(FakeProvider(a=b"longer " + raw), hit(raw, 7, 20))
    assert (moved.status, moved.span) == ("moved", span(14, 27))


def test_text_that_is_not_the_cited_text_is_not_trusted() -> None:
    for text in ("Third.", "Second passage, with caf\u00e8.", "\ud800" * 9):
        forged = hit(TEXT, *SECOND).model_copy(update={"text": text})
        assert verify_citation(FakeProvider(a=b"# T\n" + text.encode("utf-8", "replace")), forged).status == "changed"
        assert verify_citation(FakeProvider(a=b"\n" + TEXT), forged).status == "moved"


def test_the_hash_must_be_of_the_whole_span() -> None:
    raw = b"short"
    citation = Citation(source_id="a", span=span(0, 50), content_hash=content_hash(raw))
    assert verify_citation(FakeProvider(a=raw), citation).status == "changed"


@pytest.mark.parametrize("make", [hit, outside])
@pytest.mark.parametrize(
    ("start", "raw", "expected"),
    [
        (4, b"xx.......xx", 0),  # four to the left, five to the right
        (5, b"xx.......xx", 9),
        (4, b"xx......xx", 0),  # as near on both sides
        (4, b".xxx...xx", 2),  # overlapping
        (3, b".....xxx", 5),
        (99, b"xx..xx", 4),
    ],
)
def test_of_several_places_the_nearest_is_named(make: Any, start: int, raw: bytes, expected: int) -> None:
    moved = verify_citation(FakeProvider(a=raw), make(b"." * start + b"xx", start, start + 2))
    assert (moved.status, moved.span) == ("moved", span(expected, expected + 2))


def test_a_nearer_place_inside_a_line_wins_over_one_where_a_line_begins() -> None:
    old = b"." * 20 + b"\nwords"
    moved = verify_citation(FakeProvider(a=b"words\n" + b"." * 11 + b"words"), outside(old, 21, 26))
    assert moved.span == span(17, 22)


def test_a_passage_is_found_by_its_hash_far_away_in_a_large_source() -> None:
    lines = [b"%06d some line of a long document, with a few words in it.\n" % n for n in range(60_000)]
    passage = b"   The cited passage.\n"
    old = b"".join([*lines[:30_000], passage, *lines[30_000:]])
    start = old.index(b"The cited")
    for at in (29_000, 31_000):
        new = b"".join([*lines[:at], passage, *lines[at:]])
        moved = verify_citation(FakeProvider(a=new), outside(old, start, start + 18))
        assert moved.span is not None
        assert new[moved.span.start : moved.span.end] == b"The cited passage."


def test_the_search_by_hash_is_bounded() -> None:
    old = b"x" * 1_000_000
    huge = (b"y" * 60 + b"\n") * 500_000
    began = time.process_time()
    assert verify_citation(FakeProvider(a=huge), outside(old, 0, 1_000_000)).status == "changed"
    assert verify_citation(FakeProvider(a=huge), outside(old, 500, 501)).status == "changed"
    assert time.process_time() - began < 30


def test_the_search_by_text_is_linear() -> None:
    old = b"a" * 100_000 + b"b" + b"a" * 100_000
    raw = b"a" * 3_000_000
    began = time.process_time()
    for start in (0, 3_000_000):
        cited = hit(old, 0, len(old)).model_copy(update={"span": span(start, start + len(old))})
        assert verify_citation(FakeProvider(a=raw), cited).status == "changed"
    assert time.process_time() - began < 10


@pytest.mark.parametrize(("start", "size", "status", "now"), [(0, 0, "ok", 0), (3, 3, "ok", 3), (4, 3, "moved", 3)])
def test_an_empty_citation_stays_within_its_source(start: int, size: int, status: str, now: int) -> None:
    result = verify_citation(FakeProvider(a=b"x" * size), outside(b"", start, start))
    assert (result.status, result.span) == (status, span(now, now))


def test_an_empty_citation_needs_the_hash_of_nothing() -> None:
    citation = Citation(source_id="a", span=span(1, 1), content_hash=content_hash(b"x"))
    assert verify_citation(FakeProvider(a=b"xyz"), citation).status == "changed"
    full = Citation(source_id="a", span=span(0, 1), content_hash=content_hash(b""))
    assert verify_citation(FakeProvider(a=b"xyz"), full).status == "changed"
    assert verify_citation(FakeProvider(b=b""), outside(b"", 0, 0)).status == "gone"


def test_a_source_that_changes_between_two_looks_is_judged_by_the_later() -> None:
    class Restored(FakeProvider):
        def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
            seen = super().read_source(source_id, span)
            self.documents["a"] = TEXT
            return seen

    result = verify_citation(Restored(a=b"other"), hit(TEXT, *SECOND))
    assert (result.status, result.span) == ("ok", span(*SECOND))


def test_a_source_that_goes_between_two_looks_is_gone() -> None:
    class Leaving(FakeProvider):
        def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
            seen = super().read_source(source_id, span)
            self.documents.clear()
            return seen

    assert verify_citation(Leaving(a=b"other"), hit(TEXT, *SECOND)).status == "gone"


@pytest.mark.parametrize("error", [UnavailableError, InvalidIdError])
def test_other_errors_of_the_provider_are_passed_on(error: type[UnavailableError]) -> None:
    class Broken(FakeProvider):
        def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
            raise error("No", mend="Later.")

    with pytest.raises(error):
        verify_citation(Broken(), hit(TEXT, *SECOND))


BYTES = st.binary(max_size=40) | st.lists(
    st.sampled_from([b"a", b"b", b"\n", b" ", b"ab", b"\xc3\xa9", b"\xff"]), max_size=60
).map(b"".join)


@given(BYTES, BYTES.filter(bool), BYTES, BYTES, st.tuples(st.integers(0, 60), st.integers(0, 60)), st.booleans())
def test_whatever_the_edit_the_verdict_is_true(
    before: bytes, words: bytes, after: bytes, put: bytes, cut: tuple[int, int], with_text: bool
) -> None:
    old, start, end = before + words + after, len(before), len(before) + len(words)
    new = old[: cut[0]] + put + old[max(cut) :]
    citation = (hit if with_text else outside)(old, start, end)
    result = verify_citation(FakeProvider(a=new), citation)
    places = [place for place in range(len(new)) if new[place:].startswith(words)]
    nearest = min(places, key=lambda place: (abs(place - start), place), default=None)
    if nearest is None:
        assert (result.status, result.span) == ("changed", None)
    else:
        assert result.status == ("ok" if nearest == start else "moved")
        assert result.span == span(nearest, nearest + len(words))
        assert content_hash(new[result.span.start : result.span.end]) == citation.content_hash
