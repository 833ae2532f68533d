"""The group of commands: loads each when it runs, and turns what goes wrong into exit codes."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from knowledge_engine.cli.session import Session, common_options, use_utf8

if TYPE_CHECKING:
    from knowledge_engine.cli.plugin_commands import PluginCommands

EXIT_ERROR = 1
EXIT_PARTIAL = 2
EXIT_USAGE = 64
EXIT_INTERRUPTED = 130
#: What a shell reports for a process that SIGPIPE ended.
EXIT_CLOSED_PIPE = 141

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_OPTIONS = "knowledge_engine.cli.no_options"
_HERE = "knowledge_engine.cli"
#: Name -> (module:attribute, help): `--help` imports none of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "query": (f"{_HERE}.asking:query", "Find passages that answer, each with its citation."),
    "list": (f"{_HERE}.asking:list_documents", "List documents, or those whose title and keywords match."),
    "get": (f"{_HERE}.asking:get", "Show one document, or one section of it."),
    "status": (f"{_HERE}.status:status", "Show what is indexed, what is not, and why."),
    "verify": (f"{_HERE}.verify:verify", "Check that cited words are still there."),
    "ingest": (f"{_HERE}.writing:ingest", "Store documents."),
    "delete": (f"{_HERE}.writing:delete", "Remove documents."),
    "import": (f"{_HERE}.transfer:import_folder", "Store the documents of a folder: what is new or changed there."),
    "export": (f"{_HERE}.transfer:export_folder", "Write the documents of a backend into a folder."),
    "validate": (f"{_HERE}.validate:validate", "Check the documents of a library before they are shipped."),
    "eval": (f"{_HERE}.evaluating:evaluate_backend", "Measure what a backend finds of what it should."),
    "new": (f"{_HERE}.new:new", "Begin a document from a template."),
    "tools": (f"{_HERE}.tools:tools", "Print tool blocks for agents, and what to tell them."),
    "backends": (f"{_HERE}.backends:backends", "List the backends that there are, and what they lack."),
    "conformance": (f"{_HERE}.conformance:conformance", "Try the laws of the contract on a backend."),
    "serve": (f"{_HERE}.serving:serve", "Serve backends to others."),
    "completion": (f"{_HERE}.completion:completion", "Print the script that completes commands in a shell."),
}


class _ClosedPipeError(Exception):
    """Whoever read the output is gone."""


class KnowledgeGroup(click.Group):
    """Commands by name, imported when they run: the engine's own, then those of plugins."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The engine's options and those of plugins, which are looked for where one could have been given."""
        own = super().get_params(ctx)
        return own if ctx.meta.get(_NO_OPTIONS) else [*own, *_of_plugins(ctx).options.values()]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's."""
        # Without an option before the command's name, no plugin needs to be loaded to know its options.
        ctx.meta[_NO_OPTIONS] = bool(args) and not args[0].startswith("-")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, the engine's own first."""
        return [*COMMANDS, *_of_plugins(ctx).commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name in COMMANDS:
            from knowledge_engine.cli.plugin_commands import import_command

            return import_command(COMMANDS[cmd_name][0])
        if cmd_name not in _of_plugins(ctx).commands:
            return None
        if not ctx.resilient_parsing:
            return _of_plugins(ctx).load(cmd_name)
        with suppress(Exception):  # completing a word complains of nothing
            return _of_plugins(ctx).load(cmd_name)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Names the nearest command, and plugins that did not load, for a name that is none."""
        if ctx.resilient_parsing or self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        near = get_close_matches(args[0], self.list_commands(ctx), n=1)
        hints = [f"Did you mean {near[0]!r}?"] if near else []
        raise click.UsageError(" ".join([f"There is no command {args[0]!r}.", *hints, *_of_plugins(ctx).problems]), ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The names with their one line of help, without importing the commands."""
        found = _of_plugins(ctx)
        rows = [(name, text) for name, (_, text) in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*rows, *((name, command.help) for name, command in found.commands.items())])
        for problem in found.problems:
            formatter.write_paragraph()
            formatter.write_text(f"Not available: {problem}")

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click's; a closed pipe shows as such."""
        with _closed_pipe_shown():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> None:
        """Runs the command; only `ctx.exit` makes an exit code, not what a command returns."""
        with _closed_pipe_shown():
            try:
                super().invoke(ctx)
            finally:
                ctx.ensure_object(Session).close()

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """As click's, with the exit codes of this command line."""
        session = extra.setdefault("obj", Session())
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
        if not standalone_mode:
            return run()
        return sys.exit(_exit_code(run, session, sys.argv[1:] if args is None else args))


def _of_plugins(ctx: click.Context) -> PluginCommands:
    options = {name for option in knowledge.params for name in option.opts}
    return ctx.ensure_object(Session).plugin_commands(COMMANDS, {*options, "--help"})


@contextmanager
def _closed_pipe_shown() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _ClosedPipeError from error


def _exit_code(run: Callable[[], Any], session: Session, args: Sequence[str]) -> int:
    try:
        code = run()
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EXIT_USAGE
    except click.UsageError as error:
        hint = f"Try '{error.ctx.command_path} --help'." if error.ctx else ""
        _complain(error.format_message(), hint)
        # What is wrong may have ended it before the option was looked at.
        session.json = session.json or "--json" in args
        _write_error(session, "invalid-argument", error.format_message(), hint)
        return EXIT_USAGE
    except click.Abort:
        return EXIT_INTERRUPTED
    except (_ClosedPipeError, BrokenPipeError):
        return EXIT_CLOSED_PIPE
    except click.ClickException as error:
        _complain(error.format_message())
        _write_error(session, "internal", error.format_message())
        return EXIT_ERROR
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            _complain(f"The output cannot be written: {error.strerror}.")
            return EXIT_ERROR
        return _report(error, session)
    return code if isinstance(code, int) else 0


def _report(error: Exception, session: Session) -> int:
    from knowledge_engine.errors import wire_error

    wire = wire_error(error)
    message = wire["message"] if not wire["id"] else f"{wire['message']} {wire['mend']}"
    _complain(message)
    _write_error(session, **wire)
    return exit_code_of(error)


def exit_code_of(error: Exception) -> int:
    """Whether the command was written wrongly (not the name of a document, nor what was piped in)."""
    from knowledge_engine.cli.reading import InputError
    from knowledge_engine.errors import InvalidArgumentError, InvalidIdError

    wrong = isinstance(error, InvalidArgumentError) and not isinstance(error, InvalidIdError | InputError)
    return EXIT_USAGE if wrong else EXIT_ERROR


def _write_error(session: Session, code: str, message: str, mend: str = "", id: str = "") -> None:
    """In JSON mode, an error as an object on standard output."""
    if session.json:
        from knowledge_engine.cli.output import write_json

        write_json({"error": {"code": code, "message": message, "mend": mend, "id": id}})


def _complain(problem: str, hint: str = "") -> None:
    from knowledge_engine.cli.output import note

    note(f"knowledge: {problem}")
    if hint:
        note(hint)


@click.group(cls=KnowledgeGroup, name="knowledge", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kpkit-engine", message="knowledge %(version)s")
@common_options
def knowledge() -> None:
    """Ask documents, and get passages with citations that can be proved."""


def main() -> None:
    """The entry point of the command `knowledge`."""
    use_utf8()
    knowledge.main(prog_name="knowledge")
