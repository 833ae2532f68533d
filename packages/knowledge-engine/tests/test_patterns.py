from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2]
# A single character is repeated possessively without harm in all versions.
GROUP = re.compile(r"(?<!\()\)(?:[*+?]|\{[0-9,]+\})\+|\(\?>")


def test_no_pattern_repeats_a_group_possessively_or_has_an_atomic_one() -> None:
    """Python 3.11.0 to 3.11.4, which Debian 12 has, loses its place where a round of such a group fails half-way.

    `(?:> ?b\\n)*+` then matches `> ` more than it should. Later versions raise SystemError at some that capture.
    """
    sources = sorted(PACKAGES.glob("*/src/**/*.py"))
    assert len(sources) > 50
    found = [
        f"{source.relative_to(PACKAGES)}:{number}: {line.strip()}"
        for source in sources
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1)
        if GROUP.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("pattern", ["(a|b)*+", "(?:ab)++", "(a)?+", "(a){1,9}+", "(a){3}+", "(?>a*)"])
def test_such_groups_are_recognized(pattern: str) -> None:
    assert GROUP.search(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a*+)", "[^)]++", "(?:a++|b{3,}+)", "(a) +", "f(x) + y", "safe='()*+,'", 'x in b"*+-"']
)
def test_others_are_not_taken_for_them(pattern: str) -> None:
    assert not GROUP.search(pattern)
