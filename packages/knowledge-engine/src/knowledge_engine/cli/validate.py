"""`validate`: whether the documents of a library may be shipped."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowledge_engine.cli.output import harmless, note, one_line, write, write_json
from knowledge_engine.cli.root import EXIT_ERROR
from knowledge_engine.cli.session import Finite, Session, Text, json_option

if TYPE_CHECKING:
    from knowledge_engine.models import DocumentIssue
    from knowledge_engine.validation import Validation

#: A check that cannot be ended at its time ends the command so much later.
_GRACE_S = 10.0
_OFF = "off"
# Where a module lies, which Python tells at the end of some messages.
_PLACE = re.compile(r" \([^()]*[/\\][^()]*\)\Z")
#: What stands for the end of a workflow command's parts, and how it is written inside of them.
_IN_MESSAGE = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTY = {**_IN_MESSAGE, ":": "%3A", ",": "%2C"}


class Vocab(Text):
    """A key and the values that it may have."""

    name = "vocab"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """`(key, values)`.

        Raises:
            click.BadParameter: For anything but `KEY=VALUE,...`.
        """
        key, _, rest = super().convert(value, param, ctx).partition("=")
        values = {each.strip() for each in rest.split(",")} - {""}
        if not key.strip() or not values:
            self.fail("Write KEY=VALUE,VALUE such as kind=device,protocol,guide.", param, ctx)
        return key.strip(), values


class Check(Text):
    """A language and the function that its snippets go through."""

    name = "snippet"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """`(language, target)`; the target is imported later, when all is known to be well written.

        Raises:
            click.BadParameter: For anything but `LANGUAGE=module:function` and `LANGUAGE=off`.
        """
        language, _, target = super().convert(value, param, ctx).partition("=")
        module, _, function = target.partition(":")
        if not language.strip() or not (target == _OFF or (module and function)):
            self.fail("Write LANGUAGE=module:function such as yaml=my_app.checks:check, or LANGUAGE=off.", param, ctx)
        return language.strip(), target


def _json_too(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """So that an error comes out in JSON as well."""
    if value == "json":
        ctx.ensure_object(Session).json = True
    return value


@click.command()
@click.argument("docs_dir", metavar="DIR", type=Text())
@click.option(
    "--vocab", metavar="KEY=VALUE,...", multiple=True, type=Vocab(), help="The values that a key may have; repeatable."
)
@click.option(
    "--snippet",
    metavar="LANGUAGE=module:function",
    multiple=True,
    type=Check(),
    help="Check fenced code of that language by this function, or not at all (LANGUAGE=off); repeatable."
    " Default: yaml, json and toml have to parse.",
)
@click.option("--section", metavar="TITLE", multiple=True, type=Text(), help="A `## ` section that has to be there.")
@click.option("--snippet-timeout", type=Finite(0.001), metavar="SECONDS", help="Longest check of one snippet.")
@click.option("--format", "form", type=click.Choice(["text", "json", "github"]), is_eager=True, callback=_json_too)
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@json_option
@click.pass_context
def validate(
    ctx: click.Context,
    docs_dir: str,
    vocab: tuple[tuple[str, set[str]], ...],
    snippet: tuple[tuple[str, str], ...],
    section: tuple[str, ...],
    snippet_timeout: float | None,
    form: str | None,
    strict: bool,
) -> None:
    """Check the documents (*.md, *.markdown) in the folder DIR: metadata, ids, lengths, sections, links, snippets.

    Functions of --snippet get a snippet's text and return what is wrong with it, as a list of texts. Modules are
    found in the working directory too.

    Exit code: 0 nothing is wrong but for warnings; 1 there are errors, no documents, or (with --strict) warnings.
    """
    from knowledge_engine.validation import SNIPPET_TIMEOUT_S, check_library

    session = ctx.find_object(Session) or Session()
    if session.json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} contradict each other.", ctx)
    allowed: dict[str, set[str]] = {}
    for key, values in vocab:
        allowed.setdefault(key, set()).update(values)
    timeout_s = SNIPPET_TIMEOUT_S if snippet_timeout is None else snippet_timeout
    with _working_directory_importable():
        found, documents = check_library(
            docs_dir,
            allowed,
            {language: None if target == _OFF else _imported(ctx, target) for language, target in snippet},
            required_sections=section,
            snippet_timeout_s=timeout_s,
            exit_after_s=timeout_s + _GRACE_S,
        )
    if session.json:
        write_json({**_plain(found), "documents": documents})
    else:
        for issue in sorted((*found.errors, *found.warnings), key=attrgetter("path", "line", "code")):
            write((_workflow_command if form == "github" else _line)(_placed(issue, docs_dir)))
        note(
            f"{_count(documents, 'document')}: {_count(len(found.errors), 'error')}, "
            f"{_count(len(found.warnings), 'warning')}."
        )
    ctx.exit(EXIT_ERROR if found.errors or (strict and found.warnings) else 0)


@contextmanager
def _working_directory_importable() -> Iterator[None]:
    """As with `python -m`."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _imported(ctx: click.Context, target: str) -> Callable[[str], Any]:
    module, _, name = target.partition(":")
    try:
        found = attrgetter(name)(importlib.import_module(module))
    except (Exception, SystemExit) as error:  # importing runs a stranger's code
        told = _PLACE.sub("", str(error))
        why = f"{type(error).__name__}: {told}" if told else type(error).__name__
        problem = f"--snippet: {target!r} cannot be imported ({one_line(why)})."
        raise click.UsageError(f"{problem} Run the command where the module is, or install it.", ctx) from error
    if not callable(found):
        raise click.UsageError(f"--snippet: {target!r} is a {type(found).__name__}, not a function.", ctx)
    checked: Callable[[str], Any] = found
    return checked


def _placed(issue: DocumentIssue, docs_dir: str) -> DocumentIssue:
    """With its path as seen from where the command runs."""
    folder = docs_dir.removeprefix("./").rstrip("/") or ("/" if docs_dir.startswith("/") else ".")
    if issue.path == ".":
        return issue.model_copy(update={"path": folder})
    prefix = "" if folder == "." else "/" if folder == "/" else f"{folder}/"
    return issue.model_copy(update={"path": f"{prefix}{issue.path}"})


def _line(issue: DocumentIssue) -> str:
    return harmless(str(issue))


def _workflow_command(issue: DocumentIssue) -> str:
    """An annotation for GitHub Actions."""
    kind = "error" if issue.severity == "error" else "warning"
    line = f",line={issue.line}" if issue.line else ""
    place = f"file={_escaped(issue.path, _IN_PROPERTY)}{line},title={_escaped(issue.code, _IN_PROPERTY)}"
    return f"::{kind} {place}::{_escaped(f'{issue.message}. {issue.mend}'.strip(), _IN_MESSAGE)}"


def _escaped(text: str, signs: dict[str, str]) -> str:
    return harmless("".join(signs.get(char, char) for char in text))


def _plain(found: Validation) -> dict[str, Any]:
    return {name: [each.model_dump(mode="json") for each in issues] for name, issues in found._asdict().items()}


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
