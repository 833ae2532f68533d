"""Standard input and output, kept apart."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import os, sys
from knowledge_mcp.pipes import claimed_pipes
{before}
print("before")
with claimed_pipes() as pipes:
    print("meanwhile")
    os.system("echo from a child; cat")
    os.write(pipes.writer, os.read(pipes.reader, 100).upper())
print("after", os.read(0, 100))
"""


def ran(before: str = "") -> subprocess.CompletedProcess[bytes]:
    code = CODE.format(before=before)
    return subprocess.run([sys.executable, "-c", code], input=b"hello\n", capture_output=True, check=True)


def test_only_who_knows_the_pipes_reads_and_writes_them_and_they_come_back() -> None:
    done = ran()
    assert done.stdout == b"before\nHELLO\nafter b''\n"
    assert sorted(done.stderr.splitlines()) == [b"from a child", b"meanwhile"]


def test_without_standard_error_what_is_printed_is_lost_and_nothing_breaks() -> None:
    assert ran("os.close(2)").stdout == b"before\nHELLO\nafter b''\n"


def test_without_an_object_for_standard_output_the_descriptors_are_kept_all_the_same() -> None:
    done = ran("out = sys.stdout; sys.stdout = None")
    assert done.stdout == b"HELLO\n"


@pytest.mark.parametrize("descriptor", [0, 1])
def test_without_standard_input_or_output_it_says_what_to_do(descriptor: int) -> None:
    code = (
        f"import os, sys; os.close({descriptor}); from knowledge_mcp.pipes import claimed_pipes\n"
        "try:\n    claimed_pipes().__enter__()\nexcept Exception as error:\n    sys.stderr.write(str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True)
    assert done.stderr.startswith(b"Standard input or standard output is closed. Start it as a host does")
