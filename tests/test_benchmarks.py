from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def measuring() -> ModuleType:
    """What the benchmarks have in common; they are scripts, not a package."""
    spec = importlib.util.spec_from_file_location("measuring", FOLDER / "measuring.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, FOLDER / name, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["files.py", "peers.py", "relevance.py", "sqlite.py"])
def test_a_benchmark_tells_how_it_is_used_without_measuring_anything(name: str) -> None:
    assert f"benchmarks/{name}" in run(name, "--help")


def test_our_index_is_measured_over_a_folder_and_told_with_the_hash_of_its_texts(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.md").write_text(f"---\ntitle: Valve {number}\n---\n" + f"valve {number} turns. " * 9)
    said = run("peers.py", str(tmp_path), "--peers", "ours,fts5", "--rounds", "1")
    assert "20 texts" in said
    assert [line.split("|")[1].strip() for line in said.splitlines() if line.startswith("| ours")] == [
        "ours",
        "ours / fts5",
    ]
    assert "hash " in said


def test_a_folder_that_is_not_there_and_a_peer_that_is_none_are_told(tmp_path: Path) -> None:
    for arguments in ([str(tmp_path / "none")], ["--peers", "lucene"]):
        done = subprocess.run([sys.executable, FOLDER / "peers.py", *arguments], capture_output=True, text=True)
        assert done.returncode != 0
        assert "There is no folder" in done.stderr or "there is no 'lucene'" in done.stderr


def test_invented_text_is_the_same_each_time(measuring: ModuleType) -> None:
    once, again = (list(measuring.invented(5)) for _ in range(2))
    assert once == again
    assert len({body for _, body in once}) == 5


def test_questions_are_words_in_a_row_of_some_document(measuring: ModuleType) -> None:
    told = list(measuring.invented(20))
    asked = measuring.questions(told, 40)
    lines = [f" {' '.join(measuring.words(part))} " for one in told for part in one]
    assert len(asked) == 40
    for question in asked:
        assert 2 <= len(question.split()) <= 6
        assert any(f" {question} " in line for line in lines)


@pytest.mark.parametrize("told", [[], [("", "")], [("a long title with many words in it", "short")]])
def test_nothing_is_asked_of_documents_that_are_too_short(measuring: ModuleType, told: list[tuple[str, str]]) -> None:
    assert measuring.questions(told) == []


def test_questions_come_from_bodies_where_titles_are_too_short(measuring: ModuleType) -> None:
    assert len(measuring.questions([("", "one two three four five six seven eight")], 10)) == 10


def test_a_digest_tells_apart_what_is_only_cut_elsewhere(measuring: ModuleType) -> None:
    assert measuring.digest([b"ab", b"c"]) == measuring.digest(iter([b"ab", b"c"]))
    assert measuring.digest([b"ab", b"c"]) != measuring.digest([b"a", b"bc"])


def test_title_and_body_are_told_apart(measuring: ModuleType) -> None:
    assert measuring.parts("---\ntitle: 'A b'\nkind: x\n---\nbody\n") == ("A b", "body\n")
    assert measuring.parts("no frontmatter\n---\n") == ("", "no frontmatter\n---\n")


def test_ratios_are_medians_of_the_ratios_within_a_round(measuring: ModuleType) -> None:
    ours = [{"ms": 1.0, "only": 1.0}, {"ms": 10.0}, {"ms": 3.0}]
    theirs = [{"ms": 2.0}, {"ms": 10.0, "none": 0.0}, {"ms": 1.0, "only": 0.0}]
    assert measuring.ratios(ours, theirs) == {"ms": 1.0}
    assert measuring.medians(ours) == {"ms": 3.0, "only": 1.0}


def test_a_table_has_a_row_for_each_library_and_each_ratio(measuring: ModuleType) -> None:
    found = {"ours": [{"ms": 2.0}], "other": [{"ms": 400.0, "MB": 1.5}], "absent": []}
    assert measuring.compared(found, "ours").splitlines() == [
        "| median       |    ms |  MB |",
        "| ------------ | ----: | --: |",
        "| ours         |     2 |   - |",
        "| other        |   400 | 1.5 |",
        "| ours / other | 0.005 |   - |",
    ]


def test_files_are_spread_evenly_when_fewer_are_wanted(measuring: ModuleType, tmp_path: Path) -> None:
    measuring.write_files(tmp_path, map(str, range(10)))
    assert [path.stem for path in measuring.files(tmp_path, 3)] == ["000000", "000003", "000006"]
    assert len(measuring.files(tmp_path)) == 10


def test_a_process_that_fails_says_why(measuring: ModuleType, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print('{\"a\": 1}'); sys.exit(len(sys.argv) > 1 and 'it broke')")
    assert measuring.in_process(sys.executable, str(script)) == {"a": 1}
    with pytest.raises(RuntimeError, match="it broke"):
        measuring.in_process(sys.executable, str(script), "x")
