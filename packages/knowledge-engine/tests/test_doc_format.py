from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.doc_format import (
    BODY_WARNING_CHARS,
    MAX_BODY_CHARS,
    MAX_ID_CHARS,
    MAX_SUMMARY_CHARS,
    REQUIRED_KEYS,
    body_issues,
    check_vocabulary,
    id_issues,
    missing_keys,
    required_issues,
    summary_issues,
    vocabulary_issues,
)
from knowledge_engine.errors import ConfigurationError

GOOD: dict[str, Any] = {"id": "guide.tea", "title": "Tea", "kind": "guide", "summary": "How to steep."}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def test_a_document_with_all_required_texts_misses_nothing() -> None:
    assert missing_keys(GOOD) == ()
    assert required_issues("a.md", GOOD) == []


@pytest.mark.parametrize("key", REQUIRED_KEYS)
@pytest.mark.parametrize("value", [None, "", " \t\n", ["x"], {"x": "y"}, 5, True])
def test_a_key_without_a_text_is_missing(key: str, value: Any) -> None:
    assert missing_keys({**GOOD, key: value}) == (key,)
    assert len(required_issues("a.md", {**GOOD, key: value})) == 1


def test_each_missing_key_is_an_error_that_names_it() -> None:
    issues = required_issues("a.md", {"id": "a", "title": None}, {"title": 3})
    assert [(each.code, each.severity, each.path) for each in issues] == [("required-key", "error", "a.md")] * 3
    assert [each.message for each in issues] == [
        "The required key 'title' has no value",
        "The required key 'kind' is missing",
        "The required key 'summary' is missing",
    ]
    assert [each.line for each in issues] == [3, 1, 1]


@pytest.mark.parametrize(
    ("value", "what"), [(["a"], "a list"), ({"a": 1}, "a mapping"), (7, "a number"), (False, "a boolean")]
)
def test_another_type_is_told_as_such(value: Any, what: str) -> None:
    [issue] = required_issues("a.md", {**GOOD, "title": value}, {"title": 9})
    assert (issue.code, issue.line, issue.message) == ("wrong-type", 9, f"The value of 'title' is {what}, not a text")


def test_a_value_outside_of_the_vocabulary_is_an_error_with_what_is_allowed() -> None:
    [issue] = vocabulary_issues("a.md", {"kind": "devise"}, {"kind": {"device", "guide", "protocol"}}, {"kind": 4})
    assert (issue.code, issue.severity, issue.line) == ("vocabulary", "error", 4)
    assert issue.message == "The value 'devise' of 'kind' is not in the vocabulary"
    assert issue.mend == "Did you mean 'device'? Allowed: device, guide, protocol."


def test_each_element_of_a_list_has_to_be_in_the_vocabulary() -> None:
    issues = vocabulary_issues("a.md", {"drivers": ["s7", "modbus", "x", ["s7"]]}, {"drivers": ["s7", "modbus"]})
    assert [each.message.split(" of ")[0] for each in issues] == ["The value 'x'", "The value a list"]


def test_values_that_are_allowed_or_absent_are_no_issue() -> None:
    vocab: dict[str, Any] = {"kind": ["guide"], "protocol": ["s7"], "level": ["1", "true"], "port": [502]}
    metadata = {"kind": "guide", "protocol": " ", "level": [1, True], "port": 502}
    assert vocabulary_issues("a.md", metadata, vocab) == []
    assert vocabulary_issues("a.md", {}, vocab) == []


def test_a_long_vocabulary_is_named_in_part() -> None:
    vocab = {"kind": [f"kind-{number:04}" for number in range(1000)]}
    [issue] = vocabulary_issues("a.md", {"kind": "x" * 10_000}, vocab)
    assert issue.mend.endswith("kind-0019 and 980 more.")
    assert len(issue.message) < 200


@pytest.mark.parametrize("vocab", [{"kind": "device"}, {"kind": b"device"}, {"kind": 5}, {"kind": []}, ["kind"]])
def test_what_is_no_vocabulary_is_refused(vocab: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"vocabulary.*Write it like"):
        check_vocabulary(vocab)


def test_a_vocabulary_is_not_refused() -> None:
    check_vocabulary({"kind": {"device"}, "protocol": ("s7",), "drivers": frozenset({"a"})})


@pytest.mark.parametrize("claimed", ["device.acme.x1", "a", "s7-1200", "a_b", "gerät.größe", "设备.水温", "कि", "2.b"])
def test_ids_of_letters_digits_and_dots_are_fine_in_every_script(claimed: str) -> None:
    assert id_issues("a.md", {"id": claimed}) == []


@pytest.mark.parametrize("claimed", ["a b", "a\tb", "a\nb", "a\u200bb", "a\u202eb", "\ufeffa", "a\u00a0b", "a" * 201])
def test_ids_that_cannot_be_typed_are_errors(claimed: str) -> None:
    [issue] = id_issues("a.md", {"id": claimed}, {"id": 2})
    assert (issue.code, issue.severity, issue.line) == ("invalid-id", "error", 2)
    assert len(str(issue).splitlines()) == 1


@pytest.mark.parametrize("claimed", ["a/b", "a:b", "a#b", "a'b", "a?b", "\U0001f600", "Device.X1", ".a", "-a", "_a"])
def test_ids_that_are_awkward_are_warnings_with_a_mend(claimed: str) -> None:
    [issue] = id_issues("a.md", {"id": claimed})
    assert (issue.code, issue.severity, issue.line) == ("invalid-id", "warning", 1)
    assert issue.mend


def test_the_longest_id_is_no_issue_and_a_missing_one_is_none_of_this_check() -> None:
    assert id_issues("a.md", {"id": "a" * MAX_ID_CHARS}) == []
    assert id_issues("a.md", {}) == id_issues("a.md", {"id": " "}) == id_issues("a.md", {"id": ["a b"]}) == []


def test_a_summary_is_counted_in_characters_without_blanks_around_it() -> None:
    assert summary_issues("a.md", {"summary": "é" * MAX_SUMMARY_CHARS + "\n"}) == []
    [issue] = summary_issues("a.md", {"summary": "😀" * (MAX_SUMMARY_CHARS + 1)}, {"summary": 5})
    assert (issue.code, issue.severity, issue.line) == ("summary-too-long", "error", 5)
    assert "251 characters" in issue.message
    assert summary_issues("a.md", {"summary": ["x" * 300]}) == []


@pytest.mark.parametrize(
    ("chars", "expected"),
    [
        (0, []),
        (BODY_WARNING_CHARS, []),
        (BODY_WARNING_CHARS + 1, [("body-long", "warning")]),
        (MAX_BODY_CHARS, [("body-long", "warning")]),
        (MAX_BODY_CHARS + 1, [("body-too-long", "error")]),
    ],
)
def test_a_long_body_is_a_warning_and_then_an_error(chars: int, expected: list[tuple[str, str]]) -> None:
    assert [(each.code, each.severity) for each in body_issues("a.md", chars, 7)] == expected


@given(st.dictionaries(st.sampled_from([*REQUIRED_KEYS, "x"]), json_values))
def test_any_metadata_gives_issues_that_print_as_one_line(metadata: dict[str, Any]) -> None:
    vocab = {"kind": ["device"], "x": ["a"]}
    issues = [
        *required_issues("a.md", metadata),
        *vocabulary_issues("a.md", metadata, vocab),
        *id_issues("a.md", metadata),
        *summary_issues("a.md", metadata),
    ]
    assert all(len(str(each).splitlines()) == 1 for each in issues)
    blamed = [each for each in issues if each.code in {"required-key", "wrong-type"}]
    assert len(blamed) == len(missing_keys(metadata))
