from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.errors import InvalidIdError
from knowledge_engine.fs import check_path, is_hidden
from knowledge_engine.fs.globs import Globs
from knowledge_engine.fs.paths import above, printable


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "a//b",
        "a/",
        ".",
        "./a",
        "a/.",
        "..",
        "../a",
        "a/../b",
        "a/..",
        "a\\b",
        "..\\secret.md",
        "\\\\host\\share",
        "a\0b",
        "a\nb",
        "a\x7f",
        "a\x85b",
        "C:",
        "C:\\Windows",
        "c:/windows",
        "~",
        "~/.ssh/id",
        "~root/x",
        "file:///etc/passwd",
        "half\ud800",
        "byte\udcff",
        "x" * 256,
        "é" * 128,
        "/".join(["abcdefghi"] * 500),
    ],
)
def test_what_no_document_can_be_called_is_refused(path: str) -> None:
    with pytest.raises(InvalidIdError) as caught:
        check_path(path)
    str(caught.value).encode()
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "path",
    [
        "a.md",
        "a b/c d.md",
        "..a/...",
        "a..b",
        "%2e%2e%2fsecret.md",
        "．．/secret.md",
        "..∕outside",
        "cafe\u0301.md",
        "caf\u00e9.md",
        "水/温.md",
        "notes: first.md",
        "a~",
        "x" * 255,
        "-rf",
    ],
)
def test_look_alikes_and_odd_names_are_ordinary_and_not_normalised(path: str) -> None:
    assert check_path(path) == path


@given(st.text(max_size=60))
def test_a_checked_path_never_climbs_and_is_always_utf8(path: str) -> None:
    try:
        checked = check_path(path)
    except InvalidIdError:
        return
    assert checked == path
    assert not re.search(r"(^|/)(\.{0,2})(/|$)", path)
    assert not path.startswith("/")
    path.encode()


@pytest.mark.parametrize(
    "path", [".git/config", "a/.x.md", "..data/in.md", "node_modules/p/readme.md", "a/venv/b.md", "lib/site-packages/x"]
)
def test_hidden_version_control_and_dependency_paths_are_hidden(path: str) -> None:
    assert is_hidden(path)


@pytest.mark.parametrize("path", ["a.md", "git/config", "vendor/siemens.md", "build/x.md", "my.venv/x", "a/b.c/d."])
def test_ordinary_paths_are_not_hidden(path: str) -> None:
    assert not is_hidden(path)


def test_printable_names_show_bytes_and_controls_as_escapes() -> None:
    assert printable("a\udcffb\n") == "a\\xffb\\x0a"
    assert printable("\ud800") == "\\ud800"
    assert printable("水") == "水"


def test_the_folders_above_come_outermost_first() -> None:
    assert above("a/b/c") == ["a", "a/b"]
    assert above("a") == []


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("drafts", "drafts/a.md", True),
        ("drafts", "x/drafts/y/a.md", True),
        ("drafts", "x/drafts", True),
        ("drafts", "drafts2/a.md", False),
        ("*.tmp", "a/b.tmp", True),
        ("*.tmp", "a.tmp/b", True),
        ("?.md", "ab.md", False),
        ("[ab].md", "x/b.md", True),
        ("[!ab].md", "x/b.md", False),
        ("[", "[", True),
        ("drafts/", "drafts", False),
        ("drafts/", "x/drafts/a", True),
        ("/drafts", "drafts/a", True),
        ("/drafts", "x/drafts/a", False),
        ("./a/*.md", "a/b.md", True),
        ("a/*.md", "a/b/c.md", False),
        ("a/*.md", "x/a/b.md", False),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/x/y/c/z.md", True),
        ("a/**/c", "b/a/c", False),
        ("**/c/*.md", "c/x.md", True),
        ("**/c/*.md", "a/b/c/x.md", True),
        ("a/**", "a/b/c.md", True),
        ("a/**", "b/a", False),
        ("**", "anything", True),
        ("a/b/", "a/b", False),
        ("a/b/", "a/b/c", True),
        ("A.md", "a.md", False),
        ("", "a", False),
        ("/", "a", False),
        ("a/**/b/**/c", "a/x/b/b/y/b/c", True),
        ("a/**/b/**/c", "a/x/b/y/d", False),
        ("a/b/c", "a/b", False),
    ],
)
def test_a_pattern_covers_what_the_documentation_says(pattern: str, path: str, covered: bool) -> None:
    assert Globs([pattern]).covers(path) is covered


def test_no_patterns_cover_nothing() -> None:
    assert not Globs()
    assert not Globs(["", "/"]).covers("a")


@pytest.mark.parametrize("pattern", ["*a" * 200 + "b", "**/a/" * 200 + "b", "(a+)+$", "[a" * 300])
def test_hostile_patterns_end_fast(pattern: str) -> None:
    began = time.process_time()
    assert not Globs([pattern]).covers("a" * 250 + "/" + "/".join("a" * 400))
    assert time.process_time() - began < 5


_PARTS = st.lists(st.sampled_from(["a", "b", "ab", "**", "*", "?"]), min_size=2, max_size=6)


@given(_PARTS, st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=7))
def test_star_star_agrees_with_a_regular_expression(pattern: list[str], parts: list[str]) -> None:
    pieces = {"**": "([^/]+/)*", "*": "[^/]+/", "?": "[^/]/"}
    last = "*" if pattern[-1] == "**" else pattern[-1]
    regex = "".join(pieces.get(part, part + "/") for part in [*pattern[:-1], last])
    wanted = re.fullmatch(regex, "/".join(parts) + "/") is not None
    assert Globs(["/" + "/".join(pattern)]).match("/".join(parts), folder=False) is wanted
