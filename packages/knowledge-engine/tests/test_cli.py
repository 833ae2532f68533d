from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from knowledge_engine.cli import Session, knowledge
from knowledge_engine.errors import BusyError

RUN = [sys.executable, "-c", "from knowledge_engine.cli import main; main()"]
HEAVY = {"pydantic", "yaml", "numpy", "rich", "Stemmer", "pluggy", "urllib3", "knowledge_engine.service"}


def invoke(*args: str, environ: dict[str, str] | None = None, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(knowledge, args, obj=Session(environ=environ or {}), input=stdin)


COMMAND_PLUGIN = """
    from knowledge_engine.hookspecs import hookimpl

    @hookimpl
    def knowledge_commands():
        return {"greet": {"command": "greeting:greet", "help": "Say hello."}}
"""
GREETING = """
    import click
    from knowledge_engine.cli import Session, common_options

    @click.command()
    @common_options
    @click.pass_obj
    def greet(session: Session):
        "Say hello to the backend."
        click.echo(f"hello {session.backend}")
        return 7
"""


def install_command(install_plugin: Any, source: str = COMMAND_PLUGIN, name: str = "greeter") -> Path:
    return install_plugin(
        f"{name}_plugin", source, distribution=f"{name}-dist", group="knowledge_engine.commands", name=name
    )


def test_help_lists_every_command_with_its_help_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom knowledge_engine.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    for name in ("query", "list", "get", "status", "verify", "ingest", "delete", "completion"):
        assert f"\n  {name} " in run.stdout
    # Plugins that bring commands are asked for their names: that takes pluggy, and none of the commands.
    assert HEAVY & set(run.stderr.split()) <= {"pluggy"}
    assert not [
        name for name in run.stderr.split() if name.startswith(("knowledge_files", "knowledge_sqlite.commands"))
    ]


@pytest.mark.parametrize("name", ["query", "list", "get", "status", "verify", "ingest", "delete", "completion"])
def test_each_command_has_help_whose_name_and_first_line_agree_with_the_group(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: knowledge {name} ")
    assert "--backend" in result.stdout or name == "completion"


def test_without_a_command_the_help_is_shown_and_it_is_wrong_usage() -> None:
    result = invoke()
    assert result.exit_code == 64
    assert "Commands:" in result.stderr
    assert result.stdout == ""


def test_the_version_is_shown() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout.split()[0]) == (0, "knowledge")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["qurey", "x"], r"There is no command 'qurey'. Did you mean 'query'?"),
        (["zzz"], "There is no command 'zzz'."),
        (["--colour"], "No such option"),
        (["query"], "Missing argument"),
        (["query", "x", "--top-k", "0"], "--top-k"),
        (["query", "x", "--top-k", "1001"], "--top-k"),
        (["query", "x", "--min-score", "nan"], "out of range"),
        (["query", "x", "--min-score", "many"], "not a valid float"),
        (["query", "x", "--wait", "-1"], "out of range"),
        (["query", "x", "--wait", "inf"], "out of range"),
        (["query", "x", "--mode", "magic"], "--mode"),
        (["query", "x", "--where", '{"a": {"like": 1}}'], "--where"),
        (["get"], "Missing argument"),
        (["completion", "tcsh"], "bash"),
    ],
)
def test_wrong_usage_is_exit_64_with_two_lines_on_stderr(args: list[str], says: str) -> None:
    result = invoke(*args)
    assert result.exit_code == 64
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 2
    assert result.stderr.splitlines()[1].startswith("Try 'knowledge")
    assert result.stdout == ""


def test_an_error_is_one_line_on_stderr_with_its_mend() -> None:
    result = invoke("query", "x", "--backend", "nowhere")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("knowledge: There is no backend 'nowhere'")
    assert "install an adapter" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("args", [["--json", "query", "x"], ["query", "x", "--json"]])
def test_in_json_mode_an_error_is_also_an_object_on_stdout(args: list[str]) -> None:
    result = invoke("--backend", "nowhere", *args)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "unknown-backend"
    assert result.stderr.startswith("knowledge: ")


def test_the_backend_may_be_named_before_or_after_the_command_or_by_the_environment() -> None:
    for args in (
        ["--backend", "one", "list"],
        ["list", "--backend", "one"],
        ["--backend", "two", "list", "--backend", "one"],
    ):
        assert "'one'" in invoke(*args, environ={"KNOWLEDGE_BACKEND": "three"}).stderr
    assert "'three'" in invoke("list", environ={"KNOWLEDGE_BACKEND": "three"}).stderr


class Failing:
    """A service that fails at every use."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def status(self) -> Any:
        raise self.error

    def dispose(self) -> None: ...


def run_failing(error: BaseException, *args: str) -> Result:
    session = Session(environ={})
    session._service = Failing(error)  # type: ignore[assignment]
    return CliRunner().invoke(knowledge, ["status", *args], obj=session)


def test_an_error_that_was_not_foreseen_is_shown_by_an_id_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    result = run_failing(ZeroDivisionError("hush"), "--json")
    assert result.exit_code == 1
    wire = json.loads(result.stdout)["error"]
    assert wire["code"] == "internal"
    assert wire["id"] in result.stderr.splitlines()[-1]
    assert "hush" not in result.stdout
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (BusyError("Full", mend="Wait."), 1, "knowledge: Full. Wait.\n"),
        (KeyboardInterrupt(), 130, "\n"),
        (BrokenPipeError(), 141, ""),
        (click.ClickException("Odd."), 1, "knowledge: Odd.\n"),
        (
            OSError(28, "No space left on device"),
            1,
            "knowledge: The output cannot be written: No space left on device.\n",
        ),
    ],
)
def test_what_goes_wrong_has_its_exit_code(error: BaseException, code: int, says: str) -> None:
    result = run_failing(error)
    assert (result.exit_code, result.stderr) == (code, says)


def test_when_not_standing_alone_errors_come_through() -> None:
    with pytest.raises(click.UsageError):
        knowledge.main(["zzz"], standalone_mode=False)
    assert knowledge.main(["--version"], standalone_mode=False) == 0


def test_the_backend_is_let_go_of_at_the_end(shelf: Any) -> None:
    session = Session(environ={})
    CliRunner().invoke(knowledge, ["list", "--backend", shelf.url], obj=session)
    assert session._service is None


def test_a_plugins_command_is_listed_with_its_help_and_imported_only_when_it_runs(install_plugin: Any) -> None:
    site = install_command(install_plugin)
    (site / "greeting.py").write_text("raise AssertionError('imported')")
    result = invoke("--help")
    assert "\n  greet Say hello.\n" in re.sub("(?<=\\S) +", " ", result.stdout)
    assert result.exit_code == 0


def test_a_plugins_command_runs_with_the_common_options(install_plugin: Any) -> None:
    import textwrap

    site = install_command(install_plugin)
    (site / "greeting.py").write_text(textwrap.dedent(GREETING))
    result = invoke("--backend", "shelf:x", "greet")
    assert (result.stdout, result.exit_code) == ("hello shelf:x\n", 0)
    assert invoke("greet", "--backend", "y").stdout == "hello y\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("import no_such_module_anywhere", r"does not give its command 'greet' (ModuleNotFoundError)"),
        ("raise SystemExit(0)", "(SystemExit)"),
        ("", "(AttributeError)"),
        ("greet = print", "gives a builtin_function_or_method for its command 'greet'"),
    ],
)
def test_a_plugins_command_that_does_not_load_is_an_error_that_names_it(
    install_plugin: Any, content: str, says: str
) -> None:
    site = install_command(install_plugin)
    (site / "greeting.py").write_text(content)
    result = invoke("greet")
    assert result.exit_code == 1
    assert "plugin 'greeter' of greeter-dist" in result.stderr
    assert says in result.stderr


@pytest.mark.parametrize(
    "source",
    [
        "import no_such_module_anywhere",
        COMMAND_PLUGIN.replace("return {", "return []\n        {"),
        COMMAND_PLUGIN.replace('"help": ', '"hlep": '),
        COMMAND_PLUGIN.replace('{"command": "greeting:greet", "help": "Say hello."}', "3"),
    ],
)
def test_a_broken_plugin_leaves_the_other_commands_alone(install_plugin: Any, source: str) -> None:
    install_command(install_plugin)
    install_command(install_plugin, source, name="broken")
    result = invoke("--help")
    assert result.exit_code == 0
    assert "\n  greet " in result.stdout
    assert "\n  query " in result.stdout
    assert "Not available: The plugin 'broken' of broken-dist" in result.stdout
    assert "The plugin 'broken' of broken-dist" in invoke("zzz").stderr
    assert "broken-dist" not in invoke("query", "x", "--backend", "nowhere").stderr


def test_a_name_that_two_plugins_bring_belongs_to_neither_and_none_takes_the_engines_own(install_plugin: Any) -> None:
    install_command(install_plugin, name="one")
    install_command(install_plugin, name="two")
    install_command(install_plugin, COMMAND_PLUGIN.replace('"greet"', '"query"'), name="thief")
    text = " ".join(invoke("--help").stdout.split())
    assert "'two' of two-dist brings a command 'greet', and so does one-dist" in text
    assert "'thief' of thief-dist brings a command 'query', which there is already" in text
    assert "greet" not in invoke("--help").stdout.split("Not available")[0]
    assert invoke("greet").exit_code == 64


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_prints_a_script_that_asks_this_command(shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert "_KNOWLEDGE_COMPLETE" in result.stdout


def complete(words: str, index: int) -> str:
    environ = {**os.environ, "_KNOWLEDGE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    return subprocess.run(RUN, env=environ, capture_output=True, text=True, check=True).stdout


def test_commands_and_options_complete() -> None:
    assert complete("knowledge qu", 1) == "plain,query\n"
    assert "plain,--top-k\n" in complete("knowledge query --t", 2)


def test_completion_is_quiet_about_plugins_that_do_not_load(install_plugin: Any) -> None:
    from click.shell_completion import ShellComplete

    site = install_command(install_plugin)
    (site / "greeting.py").write_text("raise ValueError")
    found = ShellComplete(knowledge, {}, "knowledge", "_X").get_completions([], "")
    assert "query" in [item.value for item in found]
    assert "greet" not in [item.value for item in found]


def test_a_reader_that_leaves_early_ends_it_quietly() -> None:
    run = subprocess.Popen([*RUN, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    assert run.wait(60) == 141
    assert run.stderr.read() == b""
    run.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run([*RUN, "--help"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert run.returncode == 1
    assert run.stderr.decode() == "knowledge: The output cannot be written: No space left on device.\n"


def test_without_standard_output_nothing_breaks() -> None:
    code = "import sys; sys.stdout = None; from knowledge_engine.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")


def test_the_root_folder_of_a_backend_elsewhere_has_no_name_here(install_plugin: Any) -> None:
    source = """
        from knowledge_engine.hookspecs import hookimpl

        @hookimpl
        def knowledge_backend():
            return {"url_schemes": ["away"]}

        @hookimpl
        def knowledge_open(url):
            from knowledge_engine.memory import MemoryProvider

            class Away(MemoryProvider):
                def health_check(self):
                    return super().health_check().model_copy(update={"details": {"folder": "."}})

            return Away({"a.md": b"text"})
    """
    install_plugin("away_plugin", source, name="away")
    result = CliRunner().invoke(knowledge, ["status", "--backend", "away://host/?prefix=x"], obj=Session(environ={}))
    assert "folder: the root\n" in result.stdout
