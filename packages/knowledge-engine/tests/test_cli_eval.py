from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge

GOLDEN = """\
{"id": "opening", "query": "open the valve", "expected": ["valve.md"]}
{"query": "pump", "expected": {"pump.md": 2, "gone.md": 1}}
"""


def run(*args: object, **given: object) -> Result:
    return CliRunner().invoke(knowledge, ["eval", *map(str, args)], obj=Session(environ={}), **given)  # type: ignore[arg-type]


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "valve.md").write_text("# Valve\n\nOpen the valve slowly.\n")
    (folder / "pump.md").write_text("# Pump\n\nThe pump turns.\n")
    (tmp_path / "golden.jsonl").write_text(GOLDEN)
    return "files:docs"


def test_figures_misses_and_warnings_are_written_for_people(backend: str) -> None:
    result = run("golden.jsonl", "--backend", backend)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "recall@10  0.7500",
        "mrr@10     1.0000",
        "ndcg@10    0.9131",
        "2 queries, 1 of them missed something.",
        "  line 2: 'pump' missed gone.md; first found: pump.md",
    ]
    assert result.stderr.startswith("golden.jsonl:2: warning: 'gone.md' is not in this backend [golden-unknown-id]")


def test_json_has_each_query(backend: str) -> None:
    for how in (("--format", "json"), ("--json",)):
        result = run("golden.jsonl", "--backend", backend, "--at", 1, "--at", 3, *how)
        told = json.loads(result.stdout)
        assert (told["ok"], told["backend"], told["failed"], told["misses"]) == (True, backend, {}, ["line 2"])
        assert told["metrics"]["recall@1"] == 0.75
        assert [each["found"] for each in told["queries"]] == [["valve.md"], ["pump.md"]]
        assert [each["line"] for each in told["warnings"]] == [2]


@pytest.mark.parametrize(
    ("floor", "told"),
    [
        ("recall@10=0.75", None),
        ("MRR=1", None),
        ("recall=0.8", "failed: recall@10 is 0.7500, under 0.8\n"),
        ("recall@1=0.76", "failed: recall@1 is 0.7500, under 0.76\n"),
    ],
)
def test_a_figure_under_its_floor_is_exit_1(backend: str, floor: str, told: str | None) -> None:
    result = run("golden.jsonl", "--backend", backend, "--fail-under", floor)
    assert result.exit_code == (1 if told else 0)
    assert result.stderr.endswith(told or "shows.\n")
    in_json = run("golden.jsonl", "--backend", backend, "--fail-under", floor, "--json")
    assert (in_json.exit_code, json.loads(in_json.stdout)["ok"]) == (result.exit_code, told is None)


@pytest.mark.parametrize(
    "floor", ["recall", "recall=", "recall=x", "recall=nan", "recall=1.1", "f1=1", "mrr@0=1", "mrr@=1", "mrr@1001=1"]
)
def test_a_floor_that_is_none_is_wrong_usage(backend: str, floor: str) -> None:
    result = run("golden.jsonl", "--backend", backend, "--fail-under", floor)
    assert result.exit_code == 64
    assert "Write METRIC=VALUE" in result.stderr


def test_wrong_lines_are_told_and_nothing_is_asked() -> None:
    result = run("-", "--backend", "files:not-there", input="{}\n\n[]\n")
    assert result.exit_code == 1
    assert [line.split(" ", 1)[0] for line in result.stdout.splitlines()] == ["stdin:1:", "stdin:3:"]
    assert result.stderr == "Nothing was asked: mend these lines first.\n"
    told = json.loads(run("-", "--json", input="{}\n").stdout)
    assert (told["ok"], told["warnings"], [each["line"] for each in told["errors"]]) == (False, [], [1])


def test_of_very_many_lines_some_are_told(backend: str) -> None:
    result = run("-", input="[]\n" * 30)
    assert (len(result.stdout.splitlines()), result.stderr.splitlines()[0]) == (20, "... and 10 more.")
    lines = "".join(f'{{"query": "pump {number}", "expected": ["x{number}"]}}\n' for number in range(30))
    result = run("-", "--backend", backend, input=lines)
    assert result.stdout.splitlines()[-1] == "  ... and 10 more (--format json has all)"
    assert result.stderr.splitlines()[-1] == "... and 10 more warnings (--format json has all)"


def test_text_from_the_file_does_not_act_on_the_terminal(backend: str) -> None:
    line = json.dumps({"id": "\x1b[2J", "query": "nothing\x1b[2J" + "x" * 200, "expected": ["\x1b.md"]})
    result = run("-", "--backend", backend, input=line)
    assert "\x1b" not in result.stdout + result.stderr
    assert "nothing was found" in result.stdout


def test_a_file_that_cannot_be_read_is_named(backend: str) -> None:
    result = run("none.jsonl", "--backend", backend)
    assert result.exit_code == 64
    assert result.stderr.startswith("knowledge: none.jsonl: It cannot be read: ")


def test_a_backend_in_which_nothing_can_be_read_is_told_instead_of_zeros(backend: str) -> None:
    assert backend
    result = run("golden.jsonl", "--backend", "files:not-there")
    assert result.exit_code == 1
    assert "not-there" in result.stderr


def test_two_formats_at_once_are_wrong_usage(backend: str) -> None:
    result = run("golden.jsonl", "--backend", backend, "--format", "text", "--json")
    assert (result.exit_code, "contradict" in result.stderr) == (64, True)
