from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import knowledge_engine
from knowledge_engine.errors import ConfigurationError, ProviderError
from knowledge_engine.frontmatter import key_lines
from knowledge_engine.fs import MemoryFs
from knowledge_engine.models import ByteSpan, DocumentIssue, FileInfo
from knowledge_engine.validation import Validation, check_library, validate_library
from knowledge_engine.validation.document import MAX_BYTES, MAX_ISSUES
from knowledge_engine.validation.lines import LineCounter

HEAD = "---\nid: guide.tea\ntitle: Tea\nkind: guide\nsummary: How to steep.\n---\n"
BODY = "## Overview\n\nSteep it.\n"


def head(**changes: str) -> str:
    keys = {"id": "guide.tea", "title": "Tea", "kind": "guide", "summary": "How to steep.", **changes}
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in keys.items()) + "---\n"


def check(text: str | bytes, **options: Any) -> Validation:
    return validate_library(MemoryFs({"a.md": text if isinstance(text, bytes) else text.encode()}), **options)


def found(result: Validation) -> list[tuple[str, str, str, int]]:
    return [(each.severity, each.code, each.path, each.line) for each in (*result.errors, *result.warnings)]


def codes(result: Validation) -> list[str]:
    return [each.code for each in (*result.errors, *result.warnings)]


def test_a_good_document_has_no_errors_and_no_warnings() -> None:
    errors, warnings = check(HEAD + BODY, vocab={"kind": {"guide"}})
    assert (errors, warnings) == ((), ())


def test_the_function_is_a_name_of_the_package_root() -> None:
    assert knowledge_engine.validate_library is validate_library


def test_missing_and_empty_keys_are_named_at_their_lines() -> None:
    result = check("---\nid: a\nkind: guide\ntitle: ~\nsummary:\n---\n" + BODY)
    assert found(result) == [("error", "required-key", "a.md", 4), ("error", "required-key", "a.md", 5)]
    assert ["'title'" in result.errors[0].message, "'summary'" in result.errors[1].message] == [True, True]


def test_an_empty_block_misses_each_key_once() -> None:
    assert codes(check("---\n# nothing yet\n\n---\n" + BODY)) == ["required-key"] * 4


@pytest.mark.parametrize("text", [b"", b"\xef\xbb\xbf", b" \n\t\n", b"\n", b"\r"])
def test_an_empty_file_has_no_frontmatter_and_that_is_an_error(text: bytes) -> None:
    result = check(text)
    assert ("error", "frontmatter-missing", "a.md", 1) in found(result)
    assert "id, title, kind, summary" in result.errors[0].mend
    assert [each.code for each in result.warnings] == ["no-sections"]


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("---\nid: [\n---\n", "yaml-syntax"),
        ("---\n- id\n---\n", "frontmatter-not-mapping"),
        ("---\nid: a\n", "frontmatter-unclosed"),
        ("---\nid: a\nx: " + "y" * 70_000 + "\n---\n", "frontmatter-too-large"),
        ("---\nx: " + "[" * 40 + "]" * 40 + "\n---\n", "yaml-too-deep"),
    ],
)
def test_of_a_block_that_cannot_be_read_no_key_is_said_to_be_missing(block: str, code: str) -> None:
    result = check(block + BODY)
    assert [each.code for each in result.errors if each.code != "body-too-long"] == [code]


def test_a_second_block_is_pointed_at_and_the_first_one_counts() -> None:
    result = check("---\nid: stub\nkind: guide\n---\n\n" + HEAD + BODY)
    assert ("warning", "frontmatter-second-block", "a.md", 6) in found(result)
    assert [each.code for each in result.errors] == ["required-key", "required-key"]


def test_tags_and_aliases_in_the_frontmatter_are_errors_and_nothing_is_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    text = head(x=f'!!python/object/apply:os.mkdir ["{made}"]', y="!secret abc", z="&a [b]", w="*a")
    result = check(text + BODY)
    assert [(each.code, each.line) for each in result.errors] == [("yaml-tag", 6), ("yaml-tag", 7), ("yaml-alias", 9)]
    assert not made.exists()


def test_text_that_is_not_utf8_is_an_error() -> None:
    utf16 = check((HEAD + BODY).encode("utf-16"))
    assert found(utf16) == [("error", "encoding-invalid", "a.md", 1)]
    assert "UTF-16" in utf16.errors[0].message
    assert found(check((HEAD + BODY).encode() + b"\xff\n")) == [("error", "encoding-invalid", "a.md", 10)]
    assert codes(check(b"\0\0\0\0\0" + BODY.encode())) == ["encoding-invalid"]


def test_a_fence_that_is_never_closed_is_an_error_at_its_line() -> None:
    assert found(check(HEAD + "## A\n\n```py\nx = 1\n## swallowed\n")) == [("error", "fence-unclosed", "a.md", 9)]


def test_the_vocabulary_is_that_of_the_caller() -> None:
    result = check(head(verified="maybe", protocol="s7") + BODY, vocab={"kind": {"device"}, "verified": ["unverified"]})
    assert found(result) == [("error", "vocabulary", "a.md", 4), ("error", "vocabulary", "a.md", 6)]
    assert codes(check(head(verified="maybe") + BODY)) == []


def test_a_body_is_counted_in_characters_without_the_frontmatter() -> None:
    def long(chars: int) -> str:
        return HEAD + "## Use\n" + "é" * (chars - 7)

    assert found(check(long(12_000))) == []
    assert found(check(long(12_001))) == [("warning", "body-long", "a.md", 7)]
    assert found(check(long(16_000))) == [("warning", "body-long", "a.md", 7)]
    assert found(check(long(16_001))) == [("error", "body-too-long", "a.md", 7)]


def test_of_a_huge_file_the_frontmatter_is_read_and_the_text_is_not() -> None:
    class Counting(MemoryFs):
        most = 0

        def read(self, path: str, span: ByteSpan | None = None) -> bytes:
            data = super().read(path, span)
            self.most = max(self.most, len(data))
            return data

    fs = Counting({"a.md": (head(kind="x") + "## A\n\n```\n" + "é" * (2 * MAX_BYTES)).encode(), "b.md": HEAD.encode()})
    result = validate_library(fs, {"kind": ["guide"]})
    assert found(result)[:2] == [("error", "body-too-long", "a.md", 1), ("error", "vocabulary", "a.md", 4)]
    assert ("error", "duplicate-id", "b.md", 2) in found(result)
    assert fs.most <= MAX_BYTES


def test_a_long_summary_and_an_odd_id_are_issues_at_their_lines() -> None:
    result = check(head(id="a b", summary="x" * 251) + BODY)
    assert found(result) == [("error", "invalid-id", "a.md", 2), ("error", "summary-too-long", "a.md", 5)]


def test_a_document_without_sections_is_a_warning() -> None:
    assert found(check(HEAD + "# Only a title\n\nText\n")) == [("warning", "no-sections", "a.md", 7)]


def test_required_sections_are_headings_not_yaml_nor_code() -> None:
    block = "---\nid: a\ntitle: T\nkind: guide\nsummary: |\n  ## Usage\n  not a section\n---\n"
    text = block + "## OVERVIEW\n\n```md\n## Usage\n```\n\n### Setup\n\nx\n"
    result = check(text, required_sections=["Overview", "## Usage", "Setup"])
    assert found(result) == [("error", "missing-section", "a.md", 9)] * 2
    assert ["'Setup'" in result.errors[0].message, "'Usage'" in result.errors[1].message] == [True, True]


def test_equal_headings_under_one_parent_are_warned_of_and_under_different_ones_not() -> None:
    text = "## A\nx\n### Notes\nx\n## B\nx\n### Notes\nx\n### notes\nx\n## a\nx\n"
    assert found(check(HEAD + text)) == [
        ("warning", "duplicate-heading", "a.md", 15),
        ("warning", "duplicate-heading", "a.md", 17),
    ]


def test_a_section_is_empty_if_nothing_is_below_it_nor_nested_in_it() -> None:
    text = "## A\n\n### In A\n\nx\n\n## B\n\n \t\n## C\n"
    assert found(check(HEAD + text)) == [
        ("warning", "empty-section", "a.md", 13),
        ("warning", "empty-section", "a.md", 16),
    ]


def test_of_equal_ids_the_later_path_is_at_fault_at_the_line_of_its_id() -> None:
    fs = MemoryFs({"z.md": HEAD.encode() + BODY.encode(), "a.md": HEAD.encode() + BODY.encode()})
    result = validate_library(fs)
    assert found(result) == [("error", "duplicate-id", "z.md", 2)]
    assert "a.md" in result.errors[0].message


def test_paths_and_ids_that_differ_only_in_case_are_warned_of() -> None:
    fs = MemoryFs(
        {
            "A.md": (head(id="one") + BODY).encode(),
            "a.md": (head(id="two") + BODY).encode(),
            "b.md": (head(id="straße") + BODY).encode(),
            "c.md": (head(id="strasse") + BODY).encode(),
        }
    )
    assert found(validate_library(fs)) == [
        ("warning", "id-case-collision", "a.md", 0),
        ("warning", "id-case-collision", "c.md", 2),
    ]


def test_an_id_in_another_unicode_spelling_or_equal_to_a_path_is_a_duplicate() -> None:
    fs = MemoryFs(
        {
            "a.md": (head(id="gr\u00f6sse") + BODY).encode(),
            "b.md": (head(id="gro\u0308sse") + BODY).encode(),
            "c.md": (head(id="a.md") + BODY).encode(),
            "d.md": (head(id="d.md") + BODY).encode(),
        }
    )
    assert found(validate_library(fs)) == [("error", "duplicate-id", "b.md", 2), ("error", "duplicate-id", "c.md", 2)]


def test_issues_come_by_path_line_and_code() -> None:
    bad = (head(kind="x", summary="y" * 300) + "## A\n\n## A\n\n[x](no.md)\n").encode()
    result = validate_library(MemoryFs({"b/z.md": bad, "a.md": bad}), {"kind": ["guide"]})
    for issues in result:
        assert list(issues) == sorted(issues, key=lambda each: (each.path, each.line, each.code))
    assert {each.severity for each in result.errors} == {"error"}
    assert {each.severity for each in result.warnings} == {"warning"}


def test_both_endings_are_documents_others_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("a.md", "b.MARKDOWN", "c.txt", "d.yaml", ".hidden.md", "node_modules/e.md", "f.mdx"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(head(id=f"id.{name[0]}") + BODY)
    result, documents = check_library(tmp_path)
    assert (documents, found(result)) == (2, [])


def test_a_folder_without_documents_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("x")
    assert found(validate_library(tmp_path)) == [("error", "no-documents", ".", 0)]


@pytest.mark.parametrize("name", ["absent", "file.md", "file.md/below", "x" * 5000, ""])
def test_what_is_no_folder_is_a_coded_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.md").write_text(HEAD)
    with pytest.raises(ConfigurationError) as caught:
        validate_library(f"{tmp_path}/{name}" if name else "")
    assert caught.value.mend
    assert name[:20] in str(caught.value)


@pytest.mark.parametrize("folder", [None, 5, b"docs", "a\0b"])
def test_what_cannot_name_a_folder_is_a_coded_error(folder: Any) -> None:
    with pytest.raises(ConfigurationError):
        validate_library(folder)


@pytest.mark.parametrize("sections", ["Overview", [5]])
def test_required_sections_that_are_no_list_of_texts_are_refused(sections: Any) -> None:
    with pytest.raises(ConfigurationError, match="required_sections"):
        validate_library(MemoryFs(), required_sections=sections)


def test_a_vocabulary_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="vocabulary of 'kind'"):
        validate_library(MemoryFs(), {"kind": "guide"})


def test_links_out_of_the_root_and_things_that_are_no_files_are_issues(tmp_path: Path) -> None:
    root = tmp_path / "kb"
    root.mkdir()
    (tmp_path / "secret.md").write_text("TOPSECRET")
    (root / "in.md").write_text(HEAD + BODY)
    for name, target in [("out.md", "../secret.md"), ("zero.md", "/dev/zero"), ("gone.md", "no"), ("logo.png", "no")]:
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe.md")
    result = validate_library(root)
    assert found(result) == [
        ("error", "dangling-link", "gone.md", 0),
        ("error", "symlink-escape", "out.md", 0),
        ("error", "not-regular", "pipe.md", 0),
        ("error", "symlink-escape", "zero.md", 0),
        ("warning", "dangling-link", "logo.png", 0),
    ]
    assert "TOPSECRET" not in str(result)
    assert all(each.mend for issues in result for each in issues)


class Failing(MemoryFs):
    """Fails for some paths."""

    def __init__(self, files: dict[str, bytes], failures: dict[str, Callable[[], Exception]]) -> None:
        super().__init__(files)
        self._failures = failures

    def walk(self, path: str = ".") -> Any:
        yield from super().walk(path)
        yield FileInfo("odd", problem="reason-of-another-port")

    def read(self, path: str, span: ByteSpan | None = None) -> bytes:
        if path in self._failures:
            raise self._failures[path]()
        return super().read(path, span)


def test_what_cannot_be_read_never_hides_the_others(caplog: pytest.LogCaptureFixture) -> None:
    files = {name: (head(id=name, kind="x") + BODY).encode() for name in ("a.md", "b.md", "c.md")}
    sick = {
        "a.md": lambda: ProviderError("It is ill", mend="Heal it."),
        "b.md": lambda: RuntimeError("secret detail"),
        "n.txt": lambda: ProviderError("It is ill", mend="Heal it."),
    }
    result = validate_library(Failing({**files, "n.txt": b"x"}, sick), {"kind": ["guide"]})
    assert found(result) == [
        ("error", "unreadable", "a.md", 0),
        ("error", "internal", "b.md", 0),
        ("error", "vocabulary", "c.md", 4),
        ("error", "reason-of-another-port", "odd", 0),
    ]
    assert "secret detail" not in str(result)
    assert result.errors[1].mend.split()[2] in caplog.text


def test_very_many_issues_of_one_document_are_cut_with_a_word_about_it() -> None:
    many = check(HEAD + "## a\n" * 3000)
    assert len(many.warnings) == MAX_ISSUES + 1
    assert [each.code for each in many.warnings].count("too-many-issues") == 1
    assert many.errors == ()
    worse = check(HEAD + "[x](no.md)\n" * 300 + "## a\n" * 300)
    assert [each.code for each in worse.errors].count("broken-link") == MAX_ISSUES
    assert "too-many-issues" in codes(worse)


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: (HEAD + text).encode("utf-8", "replace")))
def test_any_bytes_give_issues_that_print_as_one_line(raw: bytes) -> None:
    for issues in check(raw):
        assert all(len(str(each).splitlines()) == 1 and each.line >= 0 for each in issues)


def test_an_issue_prints_as_one_line_whatever_its_names_hold() -> None:
    issue = DocumentIssue(code="c", severity="error", path="a\u2028b\n.md", message="x\r\ny\x1b\x85", mend="m")
    assert str(issue) == "a\\u2028b\\n.md:0: error: x\\r\\ny\\x1b\\x85 [c] m"


def test_lines_of_keys_are_those_of_the_file_also_in_a_block_with_errors() -> None:
    raw = b"\xef\xbb\xbf---\r\nid: a\r\n# note\r\ntitle: !t x\r\ntags:\r\n  - a\r\nid: b\r\n---\r\nlater: 1\r\n"
    assert key_lines(raw) == {"id": 2, "title": 4, "tags": 5}
    assert key_lines(b"no block") == key_lines(b"---\nid: [\n---\n") == {}
    assert key_lines(b"---\na: " + b"x" * 70_000 + b"\n---\n") == {}


@given(st.text("a\r\n", max_size=20).map(str.encode), st.lists(st.integers(0, 20)))
def test_lines_end_at_every_line_end_however_they_are_asked_for(raw: bytes, offsets: list[int]) -> None:
    counter = LineCounter(raw)
    for offset in sorted(min(each, len(raw)) for each in offsets):
        before = raw[:offset]
        pairs = before.count(b"\r\n")
        assert counter.at(offset) == 1 + before.count(b"\n") + before.count(b"\r") - pairs


@pytest.mark.slow
def test_fifty_thousand_documents_are_checked_with_their_links() -> None:
    count = 50_000
    body = "## Overview\n\nSee [the next]({next:05}.md#overview) and [[number {other}]].\n\n```yaml\na: 1\n```\n"
    fs = MemoryFs(
        {
            f"{at:05}.md": (
                head(id=f"guide.n{at}", title=f"Number {at}") + body.format(next=(at + 1) % count, other=at * 7 % count)
            ).encode()
            for at in range(count)
        }
    )
    assert check_library(fs, {"kind": ["guide"]}) == (((), ()), count)
    fs.write("00007.md", (head(id="guide.n8") + "x").encode())
    assert found(validate_library(fs)) == [
        ("error", "broken-link", "00001.md", 9),
        ("error", "broken-link", "00006.md", 9),
        ("error", "duplicate-id", "00008.md", 2),
        ("warning", "no-sections", "00007.md", 7),
    ]


class Walked(MemoryFs):
    """Files, and something that cannot be read."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__({"a.md": head().encode() + b"\n## Use\n\nText.\n"})
        self._info = FileInfo(path, problem=problem)

    def walk(self, path: str = ".") -> Any:
        yield from super().walk(path)
        yield self._info


@pytest.mark.parametrize(
    ("path", "problem", "severity"),
    [
        ("v1.2", "unreadable", "error"),
        ("ext.d", "symlink-escape", "error"),
        (".", "unreadable", "error"),
        ("picture.PNG", "symlink-escape", "warning"),
        ("data.csv", "unreadable", "warning"),
    ],
)
def test_what_may_be_a_folder_of_documents_is_an_error_when_it_cannot_be_read(
    path: str, problem: str, severity: str
) -> None:
    result = validate_library(Walked(path, problem))
    assert [(each.code, each.severity, each.path) for each in (*result.errors, *result.warnings)] == [
        (problem, severity, path)
    ]
