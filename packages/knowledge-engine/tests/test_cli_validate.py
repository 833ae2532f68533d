from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge

RUN = [sys.executable, "-c", "from knowledge_engine.cli import main; main()", "validate"]
HEAD = "---\nid: {id}\ntitle: Größe\nkind: {kind}\nsummary: S.\n---\n"


CHECKS = """
class Checks:
    @staticmethod
    def yaml(text):
        import my_words
        return [my_words.WORD + text]
"""


def document(id: str = "guide.a", kind: str = "guide", body: str = "## Overview\n\nText\n") -> str:
    return HEAD.format(id=id, kind=kind) + body


def validate(*args: object) -> Result:
    return CliRunner().invoke(knowledge, ["validate", *map(str, args)], obj=Session(environ={}))


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A library `docs` in the working directory, with one good document. Modules beside it are forgotten again."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text(document(), encoding="utf-8")
    yield folder
    for added in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[added], "__file__", "")):
            del sys.modules[added]


def test_a_good_library_is_exit_0_and_a_line_of_counts(docs: Path) -> None:
    result = validate("docs", "--vocab", "kind=device,guide")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 document: 0 errors, 0 warnings.\n")


def test_errors_are_a_line_each_with_the_path_from_here_and_exit_1(docs: Path) -> None:
    (docs / "b.md").write_text(document("guide.b", "x"), encoding="utf-8")
    result = validate("docs/", "--vocab", "kind=device, guide", "--vocab", "kind=protocol")
    assert result.exit_code == 1
    assert result.stdout == (
        "docs/b.md:4: error: The value 'x' of 'kind' is not in the vocabulary [vocabulary]"
        " Allowed: device, guide, protocol.\n"
    )
    assert result.stderr == "2 documents: 1 error, 0 warnings.\n"


@pytest.mark.parametrize(("given", "shown"), [("./docs", "docs/b.md:"), (".", "docs/b.md:"), ("./", "docs/b.md:")])
def test_paths_begin_as_the_folder_was_given(docs: Path, given: str, shown: str) -> None:
    (docs / "b.md").write_text("x")
    assert f"\n{shown}" in f"\n{validate(given).stdout}"


def test_an_absolute_folder_stays_absolute(docs: Path) -> None:
    (docs / "b.md").write_text("x")
    assert validate(docs).stdout.startswith(f"{docs}/b.md:1: error: ")


def test_warnings_fail_only_with_strict(docs: Path) -> None:
    (docs / "b.md").write_text(document("guide.b", body="Text\n"), encoding="utf-8")
    assert validate("docs").exit_code == 0
    result = validate("docs", "--strict")
    assert result.exit_code == 1
    assert "docs/b.md:7: warning: " in result.stdout


def test_json_is_one_object_however_it_is_asked_for(docs: Path) -> None:
    (docs / "b.md").write_text(document("guide.b", "x", body="Text\n"), encoding="utf-8")
    result = validate("docs", "--vocab", "kind=guide", "--format", "json")
    answer = json.loads(result.stdout)
    assert {key: [each["code"] for each in answer[key]] for key in ("errors", "warnings")} == {
        "errors": ["vocabulary"],
        "warnings": ["no-sections"],
    }
    assert answer["errors"][0] | {"mend": "", "message": ""} == {
        "code": "vocabulary",
        "severity": "error",
        "path": "b.md",
        "line": 4,
        "message": "",
        "mend": "",
    }
    assert (answer["documents"], set(answer), result.exit_code) == (2, {"errors", "warnings", "documents"}, 1)
    assert validate("docs", "--vocab", "kind=guide", "--json").stdout == result.stdout


def test_github_gets_annotations_whose_values_cannot_end_them_early(docs: Path) -> None:
    (docs / "b,c%d.md").write_text(
        document("guide.b", body="## A\n\n[x](no%0Ano.md)\n\n```x\nq\n```\n"), encoding="utf-8"
    )
    (docs / "d.md").write_text(document("guide.d", body="Text\n"), encoding="utf-8")
    Path("mine.py").write_text("def check(text):\n    return ['100 %\\r\\n::error::x \\x1b[2J']\n")
    result = validate("docs", "--format", "github", "--snippet", "x=mine:check")
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("::error file=docs/b%2Cc%25d.md,line=9,title=broken-link::")
    assert "%250A" in lines[0]
    assert lines[1].startswith(
        "::error file=docs/b%2Cc%25d.md,line=11,title=snippet-invalid::x: 100 %25%0D%0A::error::x ␛[2J"
    )
    assert lines[2].startswith("::warning file=docs/d.md,line=7,title=no-sections::")
    assert result.stderr == "3 documents: 2 errors, 1 warning.\n"


def test_a_folder_without_documents_fails_in_every_format(docs: Path) -> None:
    (docs / "a.md").unlink()
    assert validate("docs").exit_code == 1
    assert validate("docs").stdout.startswith("docs:0: error: The library has no documents [no-documents]")
    assert validate(".").stdout.startswith(".:0: error: ")
    github = validate("docs", "--format", "github")
    assert github.stdout.startswith("::error file=docs,title=no-documents::")


def test_a_folder_that_is_not_there_fails_and_is_named(docs: Path) -> None:
    result = validate("dosc")
    assert result.exit_code == 1
    assert "There is no folder 'dosc'." in result.stderr
    answer = json.loads(validate("dosc", "--format", "json").stdout)
    assert answer["error"]["code"] == "configuration"


def test_snippets_go_through_functions_found_from_the_working_directory(docs: Path) -> None:
    before = list(sys.path)
    text = document(body="## A\n\n```yaml\nx: [\n```\n\n```json\n{\n```\n")
    (docs / "a.md").write_text(text, encoding="utf-8")
    Path("my_checks.py").write_text(CHECKS)
    Path("my_words.py").write_text("WORD = 'Look: '\n")
    result = validate("docs", "--snippet", "yml=my_checks:Checks.yaml", "--snippet", "json=off")
    assert result.stdout.startswith("docs/a.md:9: error: yaml: Look: x: [ [snippet-invalid] ")
    assert result.exit_code == 1
    assert sys.path == before


def test_a_snippet_that_takes_too_long_is_ended_at_the_time_given(docs: Path) -> None:
    (docs / "a.md").write_text(document(body="## A\n\n```yaml\nx\n```\n"), encoding="utf-8")
    Path("slow_checks.py").write_text("import threading\n\ndef check(text):\n    threading.Event().wait()\n")
    result = validate("docs", "--snippet", "yaml=slow_checks:check", "--snippet-timeout", "0.05")
    assert "did not answer within 0.05 s [snippet-validator-timeout]" in result.stdout


def test_sections_can_be_required(docs: Path) -> None:
    result = validate("docs", "--section", "Overview", "--section", "Usage")
    assert result.stdout.count("missing-section") == 1
    assert "'Usage'" in result.stdout


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "Missing argument 'DIR'"),
        (["docs", "--vocab", "kind"], "kind=device,protocol,guide"),
        (["docs", "--vocab", "=a"], "kind=device,protocol,guide"),
        (["docs", "--vocab", "kind=, ,"], "kind=device,protocol,guide"),
        (["docs", "--snippet", "yaml"], "LANGUAGE=module:function"),
        (["docs", "--snippet", "yaml=module"], "LANGUAGE=module:function"),
        (["docs", "--snippet", "=a:b"], "LANGUAGE=module:function"),
        (["docs", "--snippet", "yaml=no_such_module:check"], "No module named 'no_such_module'"),
        (["docs", "--snippet", "yaml=json:no_such"], "'json:no_such' cannot be imported (AttributeError"),
        (["docs", "--snippet", "yaml=os:sep"], "is a str, not a function"),
        (["docs", "--format", "xml"], "'xml'"),
        (["docs", "--json", "--format", "github"], "contradict"),
        (["docs", "--snippet-timeout", "0"], "out of range"),
    ],
)
def test_wrong_usage_is_exit_64_and_says_what_to_write(docs: Path, args: list[str], told: str) -> None:
    result = validate(*args)
    assert result.exit_code == 64
    assert told in result.stderr


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise SystemExit", "SystemExit"),
        ("import json.no_such", "No module named 'json.no_such'"),
        ("from json import no_such", "cannot import name 'no_such' from 'json'"),
        ("def (", "SyntaxError"),
    ],
)
def test_a_module_that_does_not_import_is_wrong_usage_and_no_path_of_the_host_is_told(
    docs: Path, source: str, told: str
) -> None:
    Path("broken_checks.py").write_text(source)
    result = validate("docs", "--snippet", "yaml=broken_checks:check")
    assert result.exit_code == 64
    assert told in result.stderr
    assert "Run the command where the module is" in result.stderr
    assert os.path.dirname(json.__file__) not in result.stderr
    assert str(docs.parent) not in result.stderr


def test_output_is_utf8_in_every_locale(docs: Path) -> None:
    (docs / "größe.md").write_text(document("guide.größe", "水温"), encoding="utf-8")
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run = subprocess.run([*RUN, "docs", "--vocab", "kind=größe"], capture_output=True, env=environ)
    lines = run.stdout.decode("utf-8").splitlines()
    assert lines[1].startswith("docs/größe.md:4: error: The value '水温' of 'kind' is not in the vocabulary")
    assert "Allowed: größe." in lines[1]
    assert run.returncode == 1


def test_a_folder_whose_name_is_not_ascii_is_found_in_every_locale(docs: Path) -> None:
    (docs.parent / "größe").mkdir()
    (docs.parent / "größe" / "a.md").write_text(document(), encoding="utf-8")
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert subprocess.run([*RUN, "größe"], capture_output=True, env=environ).returncode == 0


def test_a_reader_that_goes_away_is_no_crash(docs: Path) -> None:
    for number in range(300):
        (docs / f"n{number}.md").write_text("x")
    with subprocess.Popen([*RUN, "docs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert b"Traceback" not in run.stderr.read()
    assert run.returncode == 141


@pytest.mark.parametrize(
    "body",
    ["while True:\n        try: time.sleep(9)\n        except BaseException: pass", "sum(itertools.repeat(0, 10**12))"],
    ids=["catches all", "a loop in C"],
)
def test_a_check_that_nothing_else_ends_ends_the_command(docs: Path, body: str) -> None:
    docs.joinpath("a.md").write_text(document(body="## Use\n\n```yaml\na: 1\n```\n"), encoding="utf-8")
    Path("stuck.py").write_text(f"import itertools, time\ndef check(text):\n    {body}\n")
    # As the command does, with less patience.
    code = (
        "import knowledge_engine.cli.validate as v; v._GRACE_S = 0.2; "
        "from knowledge_engine.cli import main; import sys; "
        "sys.argv = ['knowledge', 'validate', 'docs', '--snippet', 'yaml=stuck:check', '--snippet-timeout', '0.1']; "
        "main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert run.returncode == 1
    assert b"in check" in run.stderr
