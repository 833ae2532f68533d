"""`conformance`: laws tried on what is there and on an empty place, by people and by scripts."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge
from knowledge_engine.contract import LAWS
from knowledge_engine.contract.places import needs_place

RUN = [sys.executable, "-c", "from knowledge_engine.cli import main; main()"]
# Places in memory that outlive their providers; a test adds what is wrong with them.
BENT = """
    import os, signal
    from knowledge_engine.hookspecs import hookimpl
    from knowledge_engine.memory import MemoryProvider
    from knowledge_engine.models import Capabilities
    from knowledge_engine import errors

    PLACES = {}
    CALLS = []

    @hookimpl
    def knowledge_backend():
        token = {"name": "KNOWLEDGE_BENT_TOKEN", "secret": True}
        place = {"name": "KNOWLEDGE_BENT_PLACE", "in_url": True}
        return {"url_schemes": ["bent"], "settings": [place, token]}

    @hookimpl
    def knowledge_open(url, environ):
        place = PLACES.setdefault((url or "bent:").partition(":")[2], {})

        class Kept(MemoryProvider):
            token = environ.get("KNOWLEDGE_BENT_TOKEN", "")

            def ingest(self, request):
                source = super().ingest(request)
                place[source.id] = self.read_source(source.id).content
                return source

            def delete_source(self, source_id, *, if_match=None):
                super().delete_source(source_id, if_match=if_match)
                place.pop(source_id, None)

        class Bent(Kept):
            pass
    BODY
        return Bent(place, id="bent")
"""
DOCS = {
    "tea.md": b"---\nkind: drink\n---\n# Tea\n\nGreen tea, hot.\n",
    "pump.md": b"# Pump\n\nA valve and the pump.\n\n## Care\n\nOil it.",
}
Bend = Callable[..., Any]


@pytest.fixture
def bend(install_plugin: Any) -> Bend:
    """Installs the backend `bent`, whose provider differs in `body`; gives its module, with its places."""

    def bent(body: str = "", docs: dict[str, bytes] = DOCS) -> Any:
        source = textwrap.dedent(BENT).replace("BODY", textwrap.indent(textwrap.dedent(body), " " * 8))
        install_plugin("bent_plugin", source, distribution="bent-dist", name="bent")
        import bent_plugin  # type: ignore[import-not-found]

        bent_plugin.PLACES["live"] = dict(docs)
        return bent_plugin

    return bent


def invoke(*args: str, environ: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(knowledge, ("conformance", *args), obj=Session(environ=environ or {}))


def invoke_json(*args: str, environ: dict[str, str] | None = None) -> dict[str, Any]:
    result = invoke(*args, "--json", environ=environ)
    answer: dict[str, Any] = json.loads(result.stdout)
    return {**answer, "exit_code": result.exit_code}


def read_laws() -> list[str]:
    return [law.name for law in LAWS.values() if needs_place(law) == "live"]


def some(*laws: str) -> list[str]:
    return [word for law in laws for word in ("--law", law)]


def test_a_folder_of_files_keeps_the_laws_of_reading_and_nothing_is_written(tmp_path: Path) -> None:
    for name, raw in DOCS.items():
        (tmp_path / name).write_bytes(raw)
    run = [*RUN, "conformance", "files:.", "--max-examples", "1"]
    ended = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[0] == f"files: level citations, {len(read_laws())} laws hold, 0 fail"
    assert "is tried with --scratch" in ended.stdout
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == DOCS


def test_json_has_every_law_in_one_of_its_lists(bend: Bend) -> None:
    bend()
    answer = invoke_json("bent:live", "--max-examples", "1")
    assert (answer["exit_code"], answer["ok"], answer["level"], answer["backend"]) == (0, True, "citations", "bent")
    assert answer["documents"] == 2
    assert answer["passed"] == read_laws()
    assert sorted([*answer["passed"], *answer["skipped"]]) == sorted(LAWS)
    assert (answer["failed"], answer["doubts"], answer["left_in_scratch"]) == ([], [], [])
    assert re.fullmatch(rf"\*\*knowledge-contract \S+: level citations, {len(read_laws())} laws\*\*", answer["badge"])


def test_the_badge_is_one_line_and_nothing_else(bend: Bend) -> None:
    bend()
    result = invoke("bent:live", "--badge", "--max-examples", "1")
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.fullmatch(r"\*\*knowledge-contract \S+: level citations, \d+ laws\*\*\n", result.stdout)


UNSORTED = """
    def query(self, query):
        result = super().query(query)
        return result.model_copy(update={"hits": result.hits[::-1]})
"""


def test_a_broken_law_is_told_with_its_cause_source_hint_and_example(bend: Bend) -> None:
    bend(UNSORTED, {f"{name}.md": b"valve" for name in "ab"})
    result = invoke("bent:live", *some("order-of-hits", "list-ascending"))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "FAILS order-of-hits (read, on what is there)"
    assert lines[1] == f"  the law: {LAWS['order-of-hits'].statement}"
    assert lines[2].startswith("  but: the order of (-score, id, start) is [")
    assert lines[3:5] == ["  source: IKnowledgeProvider.query", f"  look at: {LAWS['order-of-hits'].hint}"]
    assert lines[5] == "  smallest example:"
    assert "    query = 'valve'" in lines
    assert lines[-1] == "bent: 1 laws hold, 1 fail"


def test_a_broken_law_in_json_and_the_level_below_it(bend: Bend) -> None:
    text = """
    def query(self, query):
        result = super().query(query)
        return result.model_copy(update={"hits": tuple(h.model_copy(update={"text": "x"}) for h in result.hits)})
    """
    bend(text)
    answer = invoke_json("bent:live", "--max-examples", "8")
    assert (answer["exit_code"], answer["ok"], answer["badge"]) == (1, False, None)
    failed = {failure["law"]: failure for failure in answer["failed"]}
    cited = failed["citation-is-the-bytes"]
    assert set(cited) == {"law", "level", "place", "statement", "problem", "source", "hint", "example"}
    assert (cited["level"], cited["place"]) == ("citations", "live")
    assert cited["problem"].startswith("`text` of [")
    assert not set(failed) & set(answer["passed"])
    # The scores are the reference's, the texts are not.
    assert "reference-ranking" in failed
    assert answer["level"] == "none"


def test_there_is_no_badge_for_a_broken_law_and_the_reasons_go_to_standard_error(bend: Bend) -> None:
    bend("def get_source(self, source_id): return super().get_source(source_id).model_copy(update={'title': 'x'})")
    result = invoke("bent:live", "--badge", "--max-examples", "1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "FAILS get-agrees-with-list" in result.stderr


def test_with_a_scratch_place_all_laws_are_tried_and_it_is_empty_in_the_end(bend: Bend) -> None:
    places = bend().PLACES
    answer = invoke_json("bent:live", "--scratch", "bent:empty", "--max-examples", "1")
    assert (answer["exit_code"], answer["failed"], answer["level"]) == (0, [], "durability")
    assert {"ingest-is-found", "reopening-keeps", "catalogue-fields-are-searched"} <= set(answer["passed"])
    assert all("parity" in name or "needs a " in why for name, why in answer["skipped"].items())
    assert places == {"live": DOCS, "empty": {}}


def test_a_scratch_folder_holds_no_file_in_the_end(tmp_path: Path) -> None:
    laws = some("ingest-keeps-bytes", "reopening-keeps", "refresh-takes-in", "bad-document-hides-none")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    answer = invoke_json(f"files:{tmp_path}", "--scratch", f"files:{scratch}", *laws, "--max-examples", "4")
    assert (answer["exit_code"], answer["failed"], len(answer["passed"])) == (0, [], 4)
    assert [path for path in scratch.rglob("*") if not path.is_dir()] == []


def test_a_law_of_reading_that_fails_only_on_the_scratch_place_fails_and_says_where(bend: Bend) -> None:
    bend("def read_source(self, one, span=None): return super().read_source('a.md' if one == 'b.md' else one, span)")
    answer = invoke_json("bent:live", "--scratch", "bent:empty", *some("read-exact"))
    assert [(failure["law"], failure["place"]) for failure in answer["failed"]] == [("read-exact", "scratch")]
    assert answer["passed"] == []


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_scratch_place_that_is_not_empty_is_refused_and_stays_as_it_is(bend: Bend, json_too: list[str]) -> None:
    places = bend().PLACES
    places["full"] = {"mine.md": b"precious"}
    result = invoke("bent:live", "--scratch", "bent:full", *json_too)
    assert (result.exit_code, bool(result.stdout)) == (64, bool(json_too))
    assert "The scratch place is not empty, it holds 1 documents. Name an empty one" in result.stderr
    assert places["full"] == {"mine.md": b"precious"}


UNFIT = {
    "The scratch place cannot be written.": "capabilities = Capabilities(writable=False)",
    "is gone when it is opened again": "def ingest(self, request): return MemoryProvider.ingest(self, request)",
}


@pytest.mark.parametrize("says", UNFIT)
def test_a_scratch_place_that_cannot_serve_is_wrong_usage(bend: Bend, says: str) -> None:
    bend(UNFIT[says])
    result = invoke("bent:live", "--scratch", "bent:empty")
    assert (result.exit_code, result.stdout) == (64, "")
    assert says in result.stderr


def test_a_scratch_place_of_another_backend_is_refused(bend: Bend, tmp_path: Path) -> None:
    bend()
    result = invoke("bent:live", "--scratch", f"files:{tmp_path}")
    assert result.exit_code == 64
    assert "The scratch place is one of files, not of bent." in result.stderr


def test_a_backend_that_deletes_nothing_is_found_out_before_any_law(bend: Bend) -> None:
    places = bend("def delete_source(self, source_id, *, if_match=None): pass").PLACES
    answer = invoke_json("bent:live", "--scratch", "bent:empty")
    assert (answer["exit_code"], answer["error"]["code"]) == (1, "provider")
    assert "cannot be emptied, 1 documents stay in it" in answer["error"]["message"]
    assert list(places["empty"]) == ["knowledge-contract-probe.md"]


def test_documents_that_cannot_be_removed_are_named_and_it_is_no_success(bend: Bend) -> None:
    stuck = """
    def delete_source(self, source_id, *, if_match=None):
        if source_id != "new.md":
            super().delete_source(source_id, if_match=if_match)
    """
    bend(stuck)
    args = ("bent:live", "--scratch", "bent:empty", *some("writable-flag-true"))
    answer = invoke_json(*args)
    assert (answer["exit_code"], answer["left_in_scratch"]) == (1, ["new.md"])
    sys.modules["bent_plugin"].PLACES["empty"].clear()
    assert "1 documents could not be removed" in invoke(*args).stderr


@pytest.mark.parametrize("signal", ["signal.SIGTERM", "signal.SIGINT"])
def test_a_run_that_is_ended_leaves_the_scratch_place_empty(bend: Bend, signal: str) -> None:
    body = f"""
    def ingest(self, request):
        source = super().ingest(request)
        if len(place) > 1:
            os.kill(os.getpid(), {signal})
        return source
    """
    places = bend(body).PLACES
    result = invoke("bent:live", "--scratch", "bent:empty", *some("ingest-again-changes-nothing"))
    assert result.exit_code == 130
    assert places == {"live": DOCS, "empty": {}}


def test_it_runs_in_any_thread(bend: Bend) -> None:
    bend()
    answers: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: answers.append(invoke_json("bent:live", *some("read-exact"))))
    thread.start()
    thread.join()
    assert answers[0]["passed"] == ["read-exact"]


def test_where_there_is_no_document_it_is_a_partial_success_without_a_badge(bend: Bend) -> None:
    bend(docs={})
    result = invoke("bent:live", "--badge", "--max-examples", "1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "warning: There is no document, so that most laws say nothing." in result.stderr


@pytest.mark.parametrize(
    ("law", "why"),
    [
        ("ingest-is-found", "is tried with --scratch"),
        ("threads-get-one-answer", "is tried with --scratch"),
        ("writable-flag-true", "is tried with --scratch"),
        ("parity-of-queries", "is tried in tests, by `parity_contract`"),
    ],
)
def test_a_law_that_is_named_and_not_tried_makes_the_success_partial(bend: Bend, law: str, why: str) -> None:
    places = bend().PLACES
    answer = invoke_json("bent:live", *some(law, "read-exact"))
    assert (answer["exit_code"], answer["passed"], answer["skipped"]) == (2, ["read-exact"], {law: why})
    assert answer["doubts"] == [f"{law}: {why}"]
    assert (answer["level"], answer["badge"]) == (None, None)
    assert places == {"live": DOCS}


def test_a_law_that_hypothesis_cannot_try_is_no_broken_law(bend: Bend) -> None:
    bend("def get_source(self, source_id):\n    import hypothesis.errors\n    raise hypothesis.errors.Unsatisfiable")
    answer = invoke_json("bent:live", *some("get-agrees-with-list", "read-exact"))
    assert answer["skipped"]["get-agrees-with-list"] == "could not be tried (Unsatisfiable)"
    assert answer["doubts"] == ["get-agrees-with-list: could not be tried (Unsatisfiable)"]
    assert (answer["exit_code"], answer["passed"]) == (2, ["read-exact"])


def test_documents_that_change_meanwhile_are_noticed(bend: Bend) -> None:
    bend("def dispose(self):\n    super().dispose()\n    place['tea.md'] = b'tea %d' % len(CALLS)\n    CALLS.append(1)")
    result = invoke("bent:live", *some("protocol-shape"))
    assert result.exit_code == 2
    assert "warning: The documents changed meanwhile: run it again when nobody writes." in result.stderr


def test_a_reference_ranking_is_wanted_only_of_who_claims_it(bend: Bend) -> None:
    other = """
    def query(self, query):
        result = super().query(query)
        hits = tuple(hit.model_copy(update={"score": hit.score / 2}) for hit in result.hits)
        return result.model_copy(update={"engine": "other", "hits": hits})
    """
    bend(other)
    answer = invoke_json("bent:live", *some("reference-ranking"))
    assert (answer["exit_code"], answer["skipped"]) == (
        2,
        {"reference-ranking": "needs the reference ranking (`engine` is 'bm25', or `reference_ranking=True`)"},
    )


def test_a_backend_that_cannot_be_asked_at_all_breaks_laws_and_not_the_command(bend: Bend) -> None:
    bend("def query(self, query): raise TypeError('no')\n\ndef health_check(self): raise TypeError('no')")
    answer = invoke_json("bent:live", *some("query-without-words", "health-agrees", "reference-ranking", "read-exact"))
    assert {failure["law"] for failure in answer["failed"]} == {"query-without-words", "health-agrees"}
    assert {failure["problem"] for failure in answer["failed"]} == {"TypeError: no"}
    assert answer["passed"] == ["read-exact"]


def test_a_backend_that_cannot_be_listed_is_an_error_that_says_so(bend: Bend) -> None:
    bend("def list_sources(self, **options): raise TypeError('no such list')")
    result = invoke("bent:live")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "The documents cannot be listed and read (TypeError: no such list)" in result.stderr
    bend_error = invoke("bent:live", "--scratch", "bent:empty")
    assert "The scratch place cannot be looked at" in bend_error.stderr


def test_an_error_of_the_backend_is_that_error(bend: Bend) -> None:
    bend("def list_sources(self, **options): raise errors.BusyError('Too busy', mend='Wait.')")
    assert invoke_json("bent:live")["error"]["code"] == "busy"
    assert "There is no backend 'nowhere'" in invoke("nowhere").stderr


@pytest.mark.parametrize("method", ["query(self, query)", "list_sources(self, **options)"])
def test_secrets_of_settings_are_in_no_answer(bend: Bend, method: str) -> None:
    bend(f"def {method}: raise errors.ProviderError(f'refused {{self.token}}', mend='Ask.')")
    for form in ([], ["--json"]):
        result = invoke("bent:live", *some("top-k-cuts"), *form, environ={"KNOWLEDGE_BENT_TOKEN": "hush-hush"})
        assert result.exit_code == 1
        assert "refused ***" in result.stdout + result.stderr
        assert "hush-hush" not in result.stdout + result.stderr


def test_an_error_whose_secret_cannot_be_hidden_is_not_shown(bend: Bend) -> None:
    body = """
    def list_sources(self, **options):
        class Odd(errors.ProviderError):
            __str__ = lambda error: self.token
        raise Odd("x", mend="y")
    """
    bend(body)
    result = invoke("bent:live", environ={"KNOWLEDGE_BENT_TOKEN": "hush-hush"})
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "knowledge: The backend failed. Check it.\n"


def calls_of_read_spans(module: Any, *args: str, environ: dict[str, str] | None = None) -> int:
    module.CALLS.clear()
    assert invoke("bent:live", *some("read-spans"), *args, environ=environ).exit_code == 0
    return len(module.CALLS)


COUNTING = """
    def read_source(self, source_id, span=None):
        if span is not None:
            CALLS.append(source_id)
        return super().read_source(source_id, span)
"""


def test_how_many_examples_a_law_gets(bend: Bend) -> None:
    module = bend(COUNTING, {"tea.md": b"Green tea."})
    each = 3  # spans that one example reads
    assert calls_of_read_spans(module) == 15 * each
    assert calls_of_read_spans(module, "--max-examples", "4") == 4 * each
    assert calls_of_read_spans(module, "--nightly") == 300 * each
    assert calls_of_read_spans(module, environ={"KNOWLEDGE_CONTRACT_PROFILE": "nightly"}) == 300 * each


def test_of_many_documents_a_law_gets_fewer_examples_unless_a_number_is_given(bend: Bend) -> None:
    module = bend(COUNTING, {f"{number}.md": b"tea" for number in range(600)})
    each = 3 * 5  # five documents of the many
    assert calls_of_read_spans(module) == 5 * each
    assert calls_of_read_spans(module, "--max-examples", "6") == 6 * each


def test_laws_are_listed_with_their_sources_and_no_backend_is_opened() -> None:
    result = invoke("nowhere", "--list")
    assert result.exit_code == 0
    assert result.stdout.startswith("protocol-shape (read, on what is there)\n  The provider has")
    assert "\n  source: IKnowledgeProvider.list_sources\n" in result.stdout
    assert all(f"\n{name} (" in f"\n{result.stdout}" for name in LAWS)
    one = invoke("--list", *some("ingest-is-found")).stdout.splitlines()
    assert one[0] == "ingest-is-found (write, with --scratch)"
    assert len(one) == 3


def test_laws_are_listed_as_json() -> None:
    laws = json.loads(invoke("--list", "--json").stdout)["laws"]
    assert [law["law"] for law in laws] == list(LAWS)
    assert set(laws[0]) == {"law", "level", "statement", "source", "hint", "needs", "tried"}
    assert {law["tried"] for law in laws} == {"live", "scratch", "tests"}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--law", "no-such-law"], "There is no law no-such-law. --list lists them."),
        (["--badge", "--law", "read-exact"], "--badge goes neither with --law nor with --list."),
        (["--badge", "--list"], "--badge goes neither with --law nor with --list."),
        (["--max-examples", "0"], "--max-examples"),
        (["a", "b"], "unexpected extra argument"),
    ],
)
def test_wrong_usage_is_exit_64(args: list[str], says: str) -> None:
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (64, "")
    assert says in result.stderr


def test_the_backend_may_come_from_the_environment_or_from_before_the_command(bend: Bend) -> None:
    bend()
    environ = {"KNOWLEDGE_BACKEND": "bent:live"}
    assert invoke_json(*some("read-exact"), environ=environ)["documents"] == 2
    args = ("--backend", "bent:live", "conformance", *some("read-exact"))
    assert CliRunner().invoke(knowledge, args, obj=Session(environ={})).exit_code == 0


def test_without_hypothesis_it_names_the_extra() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; from knowledge_engine.cli import main; main()"
    for args in (["conformance", "files:."], ["conformance", "--list"]):
        ended = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "Install kpkit-engine[contract]." in ended.stderr


def test_another_module_that_is_missing_is_not_taken_for_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "knowledge_engine.contract", None)
    result = invoke("--list")
    assert result.exit_code == 1
    assert "kpkit-engine[contract]" not in result.stderr


def test_help_of_all_commands_imports_no_law() -> None:
    code = (
        "import sys\nfrom knowledge_engine.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    for args in (["--help"], ["conformance", "--help"]):
        ended = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True)
        assert "conformance" in ended.stdout
        assert not {"hypothesis", "knowledge_engine.contract", "knowledge_engine.registry"} & set(ended.stderr.split())


def test_on_a_terminal_each_law_is_told_before_it_is_tried(bend: Bend, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    bend()
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run = ["conformance", "bent:live", *some("read-exact")]
    assert knowledge.main(run, standalone_mode=False, obj=Session(environ=dict(os.environ))) == 0
    assert terminal.getvalue() == "read: read-exact\n"
