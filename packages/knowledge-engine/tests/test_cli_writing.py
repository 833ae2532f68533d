from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge


def run(shelf: Any, *args: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(knowledge, ["--backend", shelf.url, *args], obj=Session(environ={}), input=stdin)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tea.md"
    path.write_bytes(b"# Tea\r\n\r\nSteep it.\r\n")
    return path


def test_a_file_is_stored_byte_for_byte_under_its_name_and_found(shelf: Any, file: Path) -> None:
    result = run(shelf, "ingest", str(file))
    assert (result.stdout, result.exit_code) == ("stored: tea.md\n", 0)
    assert (shelf.root / "tea.md").read_bytes() == file.read_bytes()
    assert "Steep" in run(shelf, "query", "steep").stdout


def test_a_file_may_be_stored_under_another_id_with_metadata(shelf: Any, file: Path) -> None:
    args = ["--id", "drinks/t.md", "--title", "Té", "--meta", "kind=drink", "--meta", 'tags:=["a", "b"]']
    assert run(shelf, "ingest", str(file), *args).stdout == "stored: drinks/t.md\n"
    answer = json.loads(run(shelf, "get", "drinks/t.md", "--json").stdout)
    assert answer["metadata"] == {"kind": "drink", "tags": ["a", "b"], "title": "Té"}
    assert "Steep it." in answer["content"]


def test_standard_input_is_stored_under_an_id_or_a_name_made_of_the_title(shelf: Any) -> None:
    assert run(shelf, "ingest", "-", "--id", "a.md", stdin=b"one").stdout == "stored: a.md\n"
    assert (shelf.root / "a.md").read_bytes() == b"one"
    titled = run(shelf, "ingest", "-", "--title", "Green tea", "--json", stdin=b"two")
    assert json.loads(titled.stdout) == {"stored": ["sources/green-tea.md"], "errors": []}
    assert run(shelf, "ingest", "-", stdin=b"three").exit_code == 0


def test_metadata_of_a_stored_document_can_be_changed_alone(shelf: Any) -> None:
    shelf.put("a.md", "---\nkind: x\n---\nbody\n")
    assert run(shelf, "ingest", "--id", "a.md", "--meta", "kind=y", "--title", "T").exit_code == 0
    assert (shelf.root / "a.md").read_bytes().endswith(b"body\n")
    assert json.loads(run(shelf, "get", "a.md", "--json").stdout)["metadata"] == {"kind": "y", "title": "T"}


def test_a_document_is_replaced_only_when_it_is_the_one_expected(shelf: Any, file: Path) -> None:
    shelf.put("tea.md", "old")
    assert run(shelf, "ingest", str(file), "--if-match", "").exit_code == 1
    assert run(shelf, "ingest", str(file), "--if-match", "0" * 64).exit_code == 1
    assert (shelf.root / "tea.md").read_bytes() == b"old"
    assert run(shelf, "ingest", str(file), "--if-match", hashlib.sha256(b"old").hexdigest()).exit_code == 0
    assert run(shelf, "delete", "tea.md", "--if-match", "0" * 64).exit_code == 1
    assert (shelf.root / "tea.md").exists()


def test_when_some_files_fail_the_others_are_stored_and_it_is_exit_2(shelf: Any, file: Path, tmp_path: Path) -> None:
    result = run(shelf, "ingest", str(tmp_path / "absent.md"), str(file))
    assert (result.stdout, result.exit_code) == ("stored: tea.md\n", 2)
    assert "absent.md: It cannot be read: No such file or directory. Name a file." in result.stderr
    answer = json.loads(run(shelf, "ingest", str(tmp_path / "absent.md"), str(file), "--json").stdout)
    assert answer["stored"] == ["tea.md"]
    assert answer["errors"][0]["code"] == "invalid-argument"


def test_when_all_fail_it_is_exit_1(shelf: Any, tmp_path: Path) -> None:
    assert run(shelf, "ingest", str(tmp_path / "absent.md")).exit_code == 1
    assert run(shelf, "ingest", str(tmp_path)).exit_code == 1
    unknown = CliRunner().invoke(knowledge, ["ingest", "-", "--backend", "no"], obj=Session(environ={}), input=b"")
    assert unknown.exit_code == 1
    assert len(unknown.stderr.splitlines()) == 1


def test_a_url_goes_to_the_backend_as_such(shelf: Any) -> None:
    result = run(shelf, "ingest", "--url", "https://example.org/a")
    assert result.exit_code == 1
    assert "https://example.org/a: This backend cannot ingest 'url'" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--id", "a.md"],
        ["--title", "T"],
        ["x.md", "--url", "https://example.org/"],
        ["x.md", "y.md", "--id", "a.md"],
        ["x.md", "y.md", "--title", "T"],
        ["x.md", "y.md", "--if-match", ""],
        ["a/x.md", "b/x.md"],
        ["x.md", "--meta", "novalue"],
        ["x.md", "--meta", "=v"],
        ["x.md", "--meta", ":=1"],
        ["x.md", "--meta", "k:={"],
        ["x.md", "--meta", "k:=NaN"],
    ],
)
def test_an_ingest_that_can_mean_nothing_is_wrong_usage(shelf: Any, args: list[str]) -> None:
    result = run(shelf, "ingest", *args)
    assert result.exit_code == 64
    assert not list(shelf.root.iterdir())


def test_documents_are_deleted_by_either_id(shelf: Any) -> None:
    shelf.put("a.md", "---\nid: alpha\n---\nx\n")
    shelf.put("b.md", "x")
    result = run(shelf, "delete", "alpha", "b.md")
    assert (result.stdout, result.exit_code) == ("deleted: a.md\ndeleted: b.md\n", 0)
    assert not list(shelf.root.iterdir())


def test_when_some_cannot_be_deleted_it_is_exit_2(shelf: Any) -> None:
    shelf.put("a.md", "x")
    result = run(shelf, "delete", "nope.md", "a.md", "a.md")
    assert (result.stdout, result.exit_code) == ("deleted: a.md\n", 2)
    assert result.stderr.startswith("knowledge: nope.md: No document")
    assert run(shelf, "delete", "nope.md").exit_code == 1


def test_a_condition_on_several_documents_is_wrong_usage(shelf: Any) -> None:
    assert run(shelf, "delete", "a", "b", "--if-match", "x").exit_code == 64


def cited(shelf: Any, words: str) -> tuple[bytes, list[str]]:
    output = run(shelf, "query", words, "--json").stdout
    hit = json.loads(output)["hits"][0]
    return output.encode(), [hit["source_id"], str(hit["span"]["start"]), str(hit["span"]["end"]), hit["content_hash"]]


@pytest.fixture
def tea(shelf: Any) -> Any:
    shelf.put("tea.md", "---\nid: tea\n---\nSteep it for two minutes.\n")
    return shelf


def test_a_citation_that_holds_is_ok(tea: Any) -> None:
    output, citation = cited(tea, "steep")
    assert (run(tea, "verify", *citation).stdout, run(tea, "verify", *citation).exit_code) == ("verified: ok\n", 0)
    assert run(tea, "verify", "tea", *citation[1:3], citation[3].upper()).exit_code == 0
    for args in ([], ["-"]):
        result = run(tea, "verify", *args, stdin=output)
        assert (result.stdout, result.exit_code) == ("verified: ok\n", 0)
    answer = json.loads(run(tea, "verify", "--json", stdin=output).stdout)
    assert answer["ok"] is True
    assert answer["citations"][0]["status"] == "ok"


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ("---\nid: tea\n---\n\nSteep it for two minutes.\n", "moved: tea.md"),
        ("---\nid: tea\n---\nSteep it for one minute.\n", "changed: tea.md"),
        (None, "gone: tea.md"),
    ],
)
def test_a_citation_that_does_not_hold_is_exit_1(tea: Any, now: str | None, says: str) -> None:
    output, citation = cited(tea, "steep")
    if now is None:
        (tea.root / "tea.md").unlink()
    else:
        tea.put("tea.md", now)
    for result in (run(tea, "verify", *citation), run(tea, "verify", stdin=output)):
        assert result.exit_code == 1
        assert result.stdout.startswith(says)
        assert ("now at " in result.stdout) is says.startswith("moved")
        assert result.stdout.endswith("verified: 1 of 1 failed\n")
    assert json.loads(run(tea, "verify", "--json", stdin=output).stdout)["ok"] is False


def test_each_of_several_citations_is_shown(tea: Any) -> None:
    tea.put("coffee.md", "Steep the beans.\n")
    output, _ = cited(tea, "steep")
    tea.put("coffee.md", "Grind.\n")
    result = run(tea, "verify", stdin=output)
    assert "ok: tea.md" in result.stdout
    assert "changed: coffee.md" in result.stdout
    assert result.stdout.endswith("verified: 1 of 2 failed\n")


def test_no_citations_are_nothing_to_verify(tea: Any) -> None:
    result = run(tea, "verify", stdin=b'{"hits": []}')
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no citation" in result.stderr


@pytest.mark.parametrize(
    "stdin",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"hits": 1}',
        b'{"hits": [1]}',
        b'{"hits": [{"source_id": "a"}]}',
        b'{"hits": [{"source_id": "a", "span": {"start": 2, "end": 1}, "content_hash": "x"}]}',
        b'{"hits": [{"source_id": 1, "span": {"start": 0, "end": 1}, "content_hash": "' + b"0" * 64 + b'"}]}',
        b'{"error": {"code": "internal"}}',
    ],
)
def test_input_that_is_no_answer_of_a_query_is_an_error(tea: Any, stdin: bytes) -> None:
    result = run(tea, "verify", stdin=stdin)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "knowledge query --json" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "args",
    [
        ["a"],
        ["a", "0", "1"],
        ["a", "0", "1", "zz"],
        ["a", "x", "1", "0" * 64],
        ["a", "2", "1", "0" * 64],
        ["a", "²", "3", "0" * 64],
    ],
)
def test_half_a_citation_is_wrong_usage(tea: Any, args: list[str]) -> None:
    assert run(tea, "verify", *args).exit_code == 64


def test_status_shows_what_is_indexed_and_what_is_wrong(tea: Any) -> None:
    tea.put("bad.md", "---\na: [\n---\nx\n")
    result = run(tea, "status")
    assert result.exit_code == 0
    assert result.stdout.startswith("shelf is ")
    assert "2 documents" in result.stdout
    assert "bad.md" in result.stdout
    answer = json.loads(run(tea, "status", "--json").stdout)
    assert answer["backend"] == "shelf"
    assert answer["index"]["documents"] == 2


SICK = """
    from knowledge_engine.hookspecs import hookimpl

    @hookimpl
    def knowledge_backend(): return {}

    @hookimpl
    def knowledge_open():
        from knowledge_engine.memory import MemoryProvider
        from knowledge_engine.models import Health, Skipped

        class Sick(MemoryProvider):
            def health_check(self):
                skipped = (Skipped(path="a\\x1b[2J.md", reason="unreadable", message="Permission denied"),)
                return Health(status="STATUS", message="disk gone", skipped=skipped, details={"watch": "polling"})

        return Sick(id="sick")
"""


@pytest.mark.parametrize(("status", "code"), [("degraded", 0), ("down", 1)])
def test_status_fails_only_when_the_backend_is_down(install_plugin: Any, status: str, code: int) -> None:
    install_plugin("sick_plugin", SICK.replace("STATUS", status), name="sick")
    result = CliRunner().invoke(knowledge, ["status", "--backend", "sick"], obj=Session(environ={}))
    assert result.exit_code == code
    assert result.stdout.startswith(f"sick is {status}: disk gone\n")
    assert "watch: polling" in result.stdout
    assert "a␛[2J.md  unreadable  Permission denied" in result.stdout
