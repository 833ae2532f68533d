"""What the command line reads, and what it says where there is nothing to read."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge, reading
from knowledge_engine.errors import InvalidArgumentError, TooLargeError

RUN = "from knowledge_engine.cli import main; main()"


def run(*args: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(knowledge, args, obj=Session(environ={}), input=stdin)


def run_closed(*args: str) -> subprocess.CompletedProcess[str]:
    """Runs it with standard input closed, as `<&-` does."""
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", RUN, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """The limit, lowered."""
    monkeypatch.setattr(reading, "MAX_BYTES", 10)
    return 10


@pytest.mark.parametrize("args", [["verify"], ["verify", "-"], ["ingest", "-", "--id", "y.md"]])
def test_closed_standard_input_is_wrong_usage_that_says_what_to_do(args: list[str], tmp_path: Path) -> None:
    done = run_closed(*args, "--backend", f"files:{tmp_path}")
    assert (done.returncode, done.stdout) == (64, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("knowledge: Standard input is closed. ")
    assert second == f"Try 'knowledge {args[0]} --help'."
    in_json = run_closed(*args, "--json", "--backend", f"files:{tmp_path}")
    assert json.loads(in_json.stdout)["error"]["code"] == "invalid-argument"


def test_nothing_is_stored_when_standard_input_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("x")
    done = run_closed("ingest", str(file), "-", "--backend", f"files:{tmp_path}/new")
    assert (done.returncode, (tmp_path / "new").exists()) == (64, False)


def test_only_regular_files_are_stored(shelf: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "ok.md").write_text("fine")
    for name, says in (
        ("/dev/zero", "not a regular file"),
        (str(tmp_path / "pipe.md"), "not a regular file"),
        (str(tmp_path), "It is a folder"),
        ("a\0b", "It cannot be read"),
    ):
        result = run("ingest", name, "--id", "x.md", "--backend", shelf.url)
        assert result.exit_code == 1
        assert says in result.stderr
    mixed = run("ingest", "/dev/zero", str(tmp_path / "ok.md"), "--backend", shelf.url)
    assert (mixed.stdout, mixed.exit_code) == ("stored: ok.md\n", 2)


def test_a_file_over_the_limit_is_refused_and_one_at_the_limit_is_stored(
    shelf: Any, tmp_path: Path, small: int
) -> None:
    (tmp_path / "at.md").write_bytes(b"x" * small)
    (tmp_path / "over.md").write_bytes(b"x" * (small + 1))
    result = run("ingest", str(tmp_path / "over.md"), str(tmp_path / "at.md"), "--json", "--backend", shelf.url)
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["stored"], answer["errors"][0]["code"]) == (2, ["at.md"], "too-large")
    assert "over the limit of 10 bytes" in result.stderr


def test_standard_input_over_the_limit_is_refused(shelf: Any, small: int) -> None:
    assert run("ingest", "-", "--id", "a.md", "--backend", shelf.url, stdin=b"x" * small).exit_code == 0
    result = run("ingest", "-", "--id", "a.md", "--backend", shelf.url, stdin=b"x" * (small + 1))
    assert (result.exit_code, "over the limit" in result.stderr) == (1, True)
    assert run("verify", "--backend", shelf.url, stdin=b"x" * (small + 1)).exit_code == 1


class Endless(io.RawIOBase):
    """Never ends; knows how much was taken."""

    taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.taken += len(buffer)
        return len(buffer)


def test_no_more_than_the_limit_is_read_of_what_never_ends(small: int) -> None:
    stream: Any = Endless()
    with pytest.raises(TooLargeError):
        reading.read_stream(stream)
    assert stream.taken == small + 1


def test_a_stream_that_fails_is_an_error_that_says_why() -> None:
    class Broken(Endless):
        def readinto(self, buffer: Any) -> int:
            raise OSError(5, "Input/output error")

    stream: Any = Broken()
    with pytest.raises(InvalidArgumentError, match="cannot be read: Input/output error"):
        reading.read_stream(stream)


@pytest.mark.parametrize("args", [["query", "x"], ["list"], ["get", "x.md"]])
def test_a_folder_that_is_not_there_is_exit_1_and_named_as_typed(
    args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.md").write_text("x")
    (tmp_path / "empty").mkdir()
    for folder, says in (("./nowhere", "does not exist: create it, or"), ("note.md", "is a file, not a folder")):
        result = run(*args, "--backend", f"files:{folder}")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"knowledge: Nothing can be read from files:{folder}. The root folder {says}")
        wire = json.loads(run(*args, "--json", "--backend", f"files:{folder}").stdout)["error"]
        assert wire["code"] == "configuration"
    empty = run(*args, "--backend", "files:empty")
    assert empty.exit_code == (1 if args[0] == "get" else 0)
    assert "Nothing can be read" not in empty.stderr


def test_the_status_of_a_folder_that_is_not_there_is_exit_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("status", "--backend", "files:./nowhere")
    assert result.exit_code == 1
    assert "The root folder does not exist" in result.stdout.splitlines()[0]
    assert "folder: ./nowhere\n" in result.stdout
    assert "unreadable" in json.loads(run("status", "--json", "--backend", "files:./nowhere").stdout)["details"]
    (tmp_path / "nowhere").mkdir()
    assert run("status", "--backend", "files:./nowhere").exit_code == 0


def test_the_first_document_makes_the_folder(tmp_path: Path) -> None:
    result = run("ingest", "-", "--id", "a.md", "--backend", f"files:{tmp_path}/new", stdin=b"zebra")
    assert (result.exit_code, (tmp_path / "new" / "a.md").read_bytes()) == (0, b"zebra")
    assert run("query", "zebra", "--backend", f"files:{tmp_path}/new").exit_code == 0


def test_wrong_usage_is_an_object_in_json_mode_wherever_the_option_stands() -> None:
    for args in (["--json", "qurey"], ["query", "--json"], ["query", "x", "--top-k", "0", "--json"]):
        result = run(*args)
        assert result.exit_code == 64
        assert set(json.loads(result.stdout)["error"]) == {"code", "message", "mend", "id"}


ODD = """
    from knowledge_engine.hookspecs import hookimpl

    @hookimpl
    def knowledge_backend(): return {}

    @hookimpl
    def knowledge_open():
        from knowledge_engine.memory import MemoryProvider
        from knowledge_engine.models import DocumentIssue, Health, Skipped

        def issue(path, severity, code):
            return DocumentIssue(code=code, severity=severity, path=path, line=1, message="Odd", mend="Mend it.")

        class Odd(MemoryProvider):
            def health_check(self):
                fine = [issue(f"{name}.md", "info", "plain") for name in "aabc"]
                bad = [issue(f"{number}.md", "warning", "bad") for number in range(60)]
                skipped = tuple(Skipped(path=f" s{number}.md ", reason="odd") for number in range(51))
                issues = (*fine, *bad, issue("worst.md", "error", "worst"), issue("x.md", "info", "other"))
                return Health(issues=issues, skipped=skipped, details={"folder": "."})

        return Odd(id="odd")
"""


@pytest.fixture
def odd(install_plugin: Any) -> str:
    install_plugin("odd_plugin", ODD, name="odd")
    return "odd"


def test_status_counts_what_is_fine_and_lists_what_is_wrong_the_worst_first(odd: str) -> None:
    text = run("status", "--backend", odd).stdout
    issues = text.partition("\nIssues:\n")[2].splitlines()
    assert issues[1].split(maxsplit=3) == ["worst.md:1", "error", "worst", "Odd. Mend it."]
    assert "3 documents: plain, which is fine\n1 document: other, which is fine\n" in text
    assert "a.md:1" not in text
    assert "folder: the root\n" in text


def test_status_cuts_long_tables_and_says_how_much_is_left_out(odd: str) -> None:
    text = run("status", "--backend", odd).stdout
    assert "... and 1 more: add --all, or --json\n" in text
    assert "... and 11 more: add --all, or --json\n" in text
    assert text.count("  warning  ") == 49
    found = json.loads(run("status", "--json", "--backend", odd).stdout)
    assert (len(found["issues"]), len(found["skipped"])) == (66, 51)


@pytest.mark.parametrize("option", ["--all", "--verbose"])
def test_status_lists_everything_when_asked(odd: str, option: str) -> None:
    text = run("status", option, "--backend", odd).stdout
    assert "more:" not in text
    assert "which is fine" not in text
    assert text.count("  warning  ") == 60
    assert "c.md:1" in text


def test_status_shows_paths_with_blanks_in_quotes(odd: str) -> None:
    assert "' s1.md '  " in run("status", "--backend", odd).stdout
