"""Terms as numbers say the same as terms."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.analysis import NUMBER, Analyzer, Numbering
from knowledge_engine.analysis import numbering as module

TEXTS = st.lists(
    st.text() | st.sampled_from(["Valves open()", "S7-1200 readHTTPStatus", "水温計", "heat-transfer", "\ud800 a\0b"]),
    max_size=8,
)


def named(numbering: Numbering, numbers: bytes) -> list[str]:
    return [numbering.terms[number] for number in array(NUMBER, numbers)]


@given(TEXTS)
def test_numbers_stand_for_the_terms_of_the_analyzer(texts: list[str]) -> None:
    analyzer = Analyzer()
    numbering = Numbering(analyzer)
    for text in texts:
        assert named(numbering, numbering.of_text(text)) == analyzer.terms(text)
    assert len(set(numbering.terms)) == len(numbering.terms)


@given(st.lists(st.binary() | st.sampled_from([b"Valves\xffopen", b"\xe6\xb0(S7-1200", "水温".encode()])))
def test_bytes_that_are_no_utf_8_separate_words(pieces: list[bytes]) -> None:
    raw = b" ".join(pieces)
    analyzer = Analyzer()
    numbering = Numbering(analyzer)
    terms = named(numbering, numbering.of_bytes(raw))
    assert terms == analyzer.terms_of(raw) == analyzer.terms(raw.decode("utf-8", "replace"))


def test_a_term_keeps_its_number_when_the_known_chunks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RECENT", 2)
    numbering = Numbering(Analyzer())
    first = array(NUMBER, numbering.of_text("alpha beta gamma delta"))
    assert array(NUMBER, numbering.of_text("delta gamma beta alpha")) == first[::-1]
