from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge
from knowledge_engine.models import QueryResult

RUN = [sys.executable, "-c", "from knowledge_engine.cli import main; main()"]

TEA = """---
id: tea.green
title: Green tea
kind: drink
year: 2021
---
# Green tea

## Brewing

Steep the leaves at 80 degrees for two minutes.

## Storage

Keep it dry and dark.
"""
COFFEE = (
    "---\ntitle: Coffee\nkind: drink\nyear: 2019\n---\n# Coffee\n\nGrind the beans, then steep them in hot water.\n"
)
BREAD = "# Bread\n\nKnead the dough until it is smooth.\n"


@pytest.fixture
def library(shelf: Any) -> Any:
    shelf.put("drinks/tea.md", TEA)
    shelf.put("drinks/coffee.md", COFFEE)
    shelf.put("bread.md", BREAD)
    return shelf


def ask(library: Any, *args: str) -> Result:
    return CliRunner().invoke(knowledge, ["--backend", library.url, *args], obj=Session(environ={}))


def test_query_json_is_a_query_result_whose_spans_are_the_files_bytes(library: Any) -> None:
    result = ask(library, "query", "steep", "--json")
    assert result.exit_code == 0
    found = QueryResult.model_validate_json(result.stdout)
    assert {hit.source_id for hit in found.hits} == {"drinks/tea.md", "drinks/coffee.md"}
    for hit in found.hits:
        raw = (library.root / hit.source_id).read_bytes()[hit.span.start : hit.span.end]
        assert raw.decode() == hit.text
        assert hashlib.sha256(raw).hexdigest() == hit.content_hash


def test_query_shows_rank_title_headings_place_and_words(library: Any) -> None:
    result = ask(library, "query", "knead", "dough")
    hit = QueryResult.model_validate_json(ask(library, "query", "knead dough", "--json").stdout).hits[0]
    first, place, text = result.stdout.splitlines()
    assert first.startswith("1. Bread")
    assert place == f"   bread.md  bytes {hit.span.start}-{hit.span.end}  sha256 {hit.content_hash[:12]}"
    assert "Knead the dough" in text
    assert "\x1b" not in result.stdout


def test_query_can_print_the_command_that_verifies_each_hit(library: Any) -> None:
    command = ask(library, "query", "knead", "--cite").stdout.splitlines()[-1].strip()
    words = shlex.split(command)
    assert words[:2] == ["knowledge", "verify"]
    result = CliRunner().invoke(knowledge, words[1:], obj=Session(environ={}))
    assert (result.stdout, result.exit_code) == ("verified: ok\n", 0)


def test_the_citing_command_names_no_backend_where_none_was_named(library: Any) -> None:
    environ = {"KNOWLEDGE_BACKEND": library.url}
    result = CliRunner().invoke(knowledge, ["query", "knead", "--cite"], obj=Session(environ=environ))
    assert result.stdout.splitlines()[-1].startswith("   knowledge verify -- bread.md ")


def test_no_hits_is_exit_0_with_a_word_on_stderr(library: Any) -> None:
    result = ask(library, "query", "zebra")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No passage answers this.\n"
    assert json.loads(ask(library, "query", "zebra", "--json").stdout)["hits"] == []


def test_documents_with_faults_do_not_change_the_exit_code_of_a_query(library: Any) -> None:
    library.put("bad.md", "---\na: [\n---\nsteep\n")
    library.put("worse.md", b"\xff\xfe steep")
    assert ask(library, "query", "steep").exit_code == 0
    assert ask(library, "query", "zebra").exit_code == 0


@pytest.mark.parametrize("args", [[" "], ["steep", "--cursor", "made-up"], ["x" * 20_000]])
def test_a_query_that_cannot_be_run_as_written_is_wrong_usage(library: Any, args: list[str]) -> None:
    result = ask(library, "query", *args)
    assert (result.exit_code, result.stdout) == (64, "")
    assert result.stderr.startswith("knowledge: ")
    assert "error" in json.loads(ask(library, "query", "--json", *args).stdout)


def test_a_name_that_no_document_can_have_is_an_error_but_no_wrong_usage(library: Any) -> None:
    assert ask(library, "get", "../etc/passwd").exit_code == 1


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], {"drinks/tea.md", "drinks/coffee.md"}),
        (["year=2021"], {"drinks/tea.md"}),
        (['{"year": {"lt": 2020}}'], {"drinks/coffee.md"}),
        (["kind=drink", "year=2019"], {"drinks/coffee.md"}),
        (["kind=drink", "year=1999"], set()),
    ],
)
def test_conditions_all_hold(library: Any, conditions: list[str], expected: set[str]) -> None:
    args = [arg for condition in conditions for arg in ("--where", condition)]
    found = json.loads(ask(library, "query", "steep", "--json", *args).stdout)
    assert {hit["source_id"] for hit in found["hits"]} == expected
    listed = json.loads(ask(library, "list", "--json", *args).stdout)
    names = {doc["id"].replace("tea.green", "drinks/tea.md") for doc in listed["docs"]}
    assert names - {"bread.md"} == expected


def test_a_key_that_no_document_has_is_warned_of_on_stderr(library: Any) -> None:
    result = ask(library, "query", "steep", "--where", "kidn=drink")
    assert result.exit_code == 0
    assert "warning: " in result.stderr
    assert "kind" in result.stderr


def test_limits_and_pages(library: Any) -> None:
    first = json.loads(ask(library, "query", "steep", "--top-k", "1", "--json").stdout)
    again = json.loads(ask(library, "query", "steep", "--json", "--cursor", first["next_cursor"]).stdout)
    ids = [hit["source_id"] for page in (first, again) for hit in page["hits"]]
    assert sorted(ids) == ["drinks/coffee.md", "drinks/tea.md"]
    assert "There is more: raise --top-k" in ask(library, "query", "steep", "--top-k", "1").stderr
    cut = ask(library, "query", "steep", "--max-chars", "10")
    assert "Text was cut" in cut.stderr
    top = first["hits"][0]["score"]
    high = json.loads(ask(library, "query", "steep", "--min-score", str(top), "--json").stdout)
    assert len(high["hits"]) == 1
    library.put("long.md", "".join(f"# Part {number}\n\nzebra {'word ' * 400}\n\n" for number in range(4)))
    for number in (1, 3):
        found = json.loads(ask(library, "query", "zebra", "--per-source", str(number), "--json").stdout)
        assert len(found["hits"]) == number
    assert ask(library, "query", "steep", "--mode", "keyword", "--wait", "3").exit_code == 0


def test_a_query_during_a_build_says_that_the_index_is_being_built(install_plugin: Any) -> None:
    source = """
        from knowledge_engine.hookspecs import hookimpl

        @hookimpl
        def knowledge_backend(): return {}

        @hookimpl
        def knowledge_open():
            from knowledge_engine.memory import MemoryProvider
            from knowledge_engine.models import IndexState, QueryResult

            class Building(MemoryProvider):
                def query(self, query):
                    state = IndexState(state="building", documents=7)
                    return QueryResult(engine="x", mode_used="none", index=state)

            return Building()
    """
    install_plugin("building_plugin", source, name="building")
    result = CliRunner().invoke(knowledge, ["query", "x", "--backend", "building"], obj=Session(environ={}))
    assert result.exit_code == 0
    assert result.stderr.startswith("The index is being built (7 documents so far).")


def test_list_shows_a_table_and_in_json_the_answer_for_agents(library: Any) -> None:
    lines = ask(library, "list").stdout.splitlines()
    assert lines[0].split() == ["ID", "TITLE", "KIND"]
    assert [line.split()[0] for line in lines[1:]] == ["bread.md", "drinks/coffee.md", "tea.green"]
    answer = json.loads(ask(library, "list", "--json").stdout)
    assert answer["count"] == 3
    assert {"id", "title", "kind", "summary"} <= set(answer["docs"][0])


def test_list_takes_words_and_pages(library: Any) -> None:
    assert [line.split()[0] for line in ask(library, "list", "coffee").stdout.splitlines()[1:]] == ["drinks/coffee.md"]
    first = json.loads(ask(library, "list", "--limit", "2", "--json").stdout)
    rest = ask(library, "list", "--cursor", first["next_cursor"])
    assert len(rest.stdout.splitlines()) == 2
    assert "There is more: raise --limit" in ask(library, "list", "--limit", "2").stderr


@pytest.mark.parametrize("name", [" tea.md", "a  b.md"])
def test_an_id_with_blanks_that_nobody_would_see_is_shown_in_quotes_and_can_be_copied(library: Any, name: str) -> None:
    library.put(name, "# Odd\n\nzebra\n")
    line = next(line for line in ask(library, "list").stdout.splitlines() if "Odd" in line)
    shown = shlex.split(line)[0]
    assert (shown, line.startswith(f"'{name}'")) == (name, True)
    assert ask(library, "get", shown).exit_code == 0
    assert f"   '{name}'  bytes" in ask(library, "query", "zebra").stdout


def test_an_empty_list_says_why_and_is_no_error(library: Any) -> None:
    result = ask(library, "list", "zebra")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "zebra" in result.stderr


@pytest.mark.parametrize("mode", [[], ["--json"]])
def test_a_list_with_a_cursor_that_is_none_is_wrong_usage(library: Any, mode: list[str]) -> None:
    result = ask(library, "list", "--cursor", "made-up", *mode)
    assert result.exit_code == 64
    assert result.stderr.startswith("knowledge: ")
    assert not mode or "error" in json.loads(result.stdout)


@pytest.mark.parametrize("name", ["drinks/tea.md", "tea.green"])
def test_get_prints_the_text_of_a_document_by_either_id(library: Any, name: str) -> None:
    result = ask(library, "get", name)
    assert result.exit_code == 0
    assert "Steep the leaves" in result.stdout
    assert json.loads(ask(library, "get", name, "--json").stdout)["title"] == "Green tea"


def test_get_prints_one_section(library: Any) -> None:
    text = ask(library, "get", "tea.green", "storage").stdout
    assert "Keep it dry" in text
    assert "Steep" not in text


def test_get_of_a_section_that_is_not_there_names_the_sections(library: Any) -> None:
    result = ask(library, "get", "tea.green", "Serving")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Brewing" in result.stderr


def test_get_of_an_unknown_id_is_exit_1_with_suggestions(library: Any) -> None:
    result = ask(library, "get", "drinks/tee.md")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0].startswith("knowledge: No document")
    assert result.stderr.splitlines()[1].startswith("Did you mean: ")
    answer = ask(library, "get", "drinks/tee.md", "--json")
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["found"] is False
    assert ask(library, "get", "9").exit_code == 1


def test_get_of_a_long_document_says_that_it_is_cut(library: Any) -> None:
    library.put("long.md", "# Long\n\n" + "".join(f"## Part {number}\n\n{'word ' * 500}\n\n" for number in range(40)))
    result = ask(library, "get", "long.md")
    assert result.exit_code == 0
    assert "Part 0" in result.stderr


def test_get_into_a_pipe_keeps_the_documents_own_characters(library: Any) -> None:
    library.put("raw.md", "a\x1b[31mred\n")
    assert "a\x1b[31mred" in ask(library, "get", "raw.md").stdout


C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run_in_c_locale(library: Any, *args: bytes | str) -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, **C_LOCALE, "PYTHONPATH": str(library.site), "KNOWLEDGE_BACKEND": library.url}
    return subprocess.run([*RUN, *args], env=environ, capture_output=True, check=False)


def test_in_the_c_locale_arguments_and_output_are_utf8(library: Any) -> None:
    library.put("g.md", "---\nid: g\ntitle: Straße\n---\n## Use\n\n水温 ist wichtig.\n")
    run = run_in_c_locale(library, "query", "水温".encode(), "--json")
    assert run.returncode == 0, run.stderr
    hit = json.loads(run.stdout.decode("utf-8"))["hits"][0]
    assert (hit["title"], hit["source_id"]) == ("Straße", "g.md")
    assert "Straße".encode() in run_in_c_locale(library, "list").stdout
    assert "水温".encode() in run_in_c_locale(library, "get", "g").stdout


def test_bytes_that_are_not_utf8_are_replaced_and_crash_nothing(library: Any) -> None:
    run = run_in_c_locale(library, "get", b"\xff\xfe.md")
    assert run.returncode == 1
    assert "�" in run.stderr.decode("utf-8")
    assert run_in_c_locale(library, "query", b"\xff steep", "--where", b"k\xff=1").returncode == 0
