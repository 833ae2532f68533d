"""Commands that write: `ingest`, `delete`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click
from pydantic import JsonValue

from knowledge_engine.cli.output import copyable, note, one_line, write, write_json
from knowledge_engine.cli.progress import progress
from knowledge_engine.cli.reading import read_file, read_stream, standard_input
from knowledge_engine.cli.root import EXIT_ERROR, EXIT_PARTIAL
from knowledge_engine.cli.session import Session, Text, common_options, utf8
from knowledge_engine.errors import KnowledgeError, NotSupportedError, wire_error
from knowledge_engine.frontmatter import update_frontmatter
from knowledge_engine.models import IngestRequest
from knowledge_engine.ports import ErasingProvider
from knowledge_engine.writing import document_id

if TYPE_CHECKING:
    from knowledge_engine.service import KnowledgeService

_if_match = click.option(
    "--if-match",
    metavar="HASH",
    type=Text(),
    help="Only if the stored document has this SHA-256 ('': if there is none).",
)
_STDIN = "-"
_NO_STDIN = "Name a file instead of `-`, or pipe the text in."


class Meta(Text):
    """A piece of metadata: its name and value."""

    name = "meta"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """`(key, value)`.

        Raises:
            click.BadParameter: For anything but `KEY=TEXT` and `KEY:=JSON`.
        """
        key, sign, text = super().convert(value, param, ctx).partition("=")
        if not sign or not key.rstrip(":"):
            self.fail("Write KEY=TEXT, or KEY:=JSON.", param, ctx)
        if not key.endswith(":"):
            return key, text
        try:
            return key.rstrip(":"), json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            self.fail(f"What follows {key}= is not JSON.", param, ctx)


def _refuse(constant: str) -> NoReturn:
    """JSON has no `NaN` and no `Infinity`; Python's reader has."""
    raise ValueError(constant)


class Task(NamedTuple):
    """One document to write: what people call it, and how."""

    name: str
    run: Callable[[KnowledgeService], str]


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--url", type=Text(), help="Store the page at this address.")
@click.option("--id", "source_id", type=Text(), help="The id to store it under. Of a file it is by default its name.")
@click.option("--title", type=Text(), help="Its title.")
@click.option("--meta", metavar="KEY=TEXT", multiple=True, type=Meta(), help="Its metadata (or KEY:=JSON); repeatable.")
@_if_match
@common_options
@click.pass_context
def ingest(
    ctx: click.Context,
    paths: tuple[str, ...],
    url: str | None,
    source_id: str | None,
    title: str | None,
    meta: tuple[tuple[str, JsonValue], ...],
    if_match: str | None,
) -> None:
    """Store files, standard input (`-`), or a page (--url).

    With --id and neither of these, only --title and --meta of that document change. Exit code 2 when some of several
    files were stored and some were not.
    """
    changes = {**dict(meta), **({} if title is None else {"title": title})}
    if len(paths) > 1 and (source_id, title, if_match) != (None, None, None):
        raise click.UsageError("--id, --title and --if-match go with one document.", ctx)
    if bool(paths) + (url is not None) > 1 or not (paths or url or (source_id and changes)):
        raise click.UsageError("Name files, or --url, or --id with --title or --meta.", ctx)
    if len({_file_id(path) for path in paths}) < len(paths):
        raise click.UsageError("Two of these files have the same name: store one of them with --id.", ctx)
    if _STDIN in paths:
        standard_input(_NO_STDIN)  # before anything is stored
    if paths:
        tasks = [Task(path, _file_task(path, source_id, changes, if_match)) for path in paths]
    else:
        kind = "url" if url else "text"
        request = IngestRequest(kind=kind, uri=url, id=source_id, title=title, metadata=dict(meta), if_match=if_match)
        tasks = [Task(url or source_id or "", lambda service: service.ingest(request).id)]
    ctx.exit(_run(ctx, tasks, "stored"))


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=Text())
@_if_match
@click.option("--verify", is_flag=True, help="Leave no byte of them in storage, or say what is left and why.")
@common_options
@click.pass_context
def delete(ctx: click.Context, ids: tuple[str, ...], if_match: str | None, verify: bool) -> None:
    """Remove documents. Exit code 2 when some were removed and some were not, or bytes are left (--verify)."""
    if if_match is not None and len(ids) > 1:
        raise click.UsageError("--if-match goes with one ID.", ctx)
    left: list[str] = []
    run = partial(_erase, left=left) if verify else _delete
    tasks = [Task(each, partial(run, source_id=each, if_match=if_match)) for each in dict.fromkeys(ids)]
    code = _run(ctx, tasks, "deleted", **({"left": left} if verify else {}))
    for each in left:
        note(f"knowledge: {each}")
    ctx.exit(code if code or not left else EXIT_PARTIAL)


def _delete(service: KnowledgeService, *, source_id: str, if_match: str | None) -> str:
    return service.delete(source_id, if_match=if_match)


def _erase(service: KnowledgeService, *, source_id: str, if_match: str | None, left: list[str]) -> str:
    provider = service.provider
    if not isinstance(provider, ErasingProvider):
        raise NotSupportedError(
            f"The backend {provider.id!r} cannot tell what is left of a document", mend="Delete it without --verify."
        )
    found = service.resolve_id(source_id)
    left += provider.erase_source(found, if_match=if_match)
    return found


def _file_id(path: str) -> str:
    return utf8(Path(path).name)


def _file_task(
    path: str, source_id: str | None, changes: Mapping[str, JsonValue], if_match: str | None
) -> Callable[[KnowledgeService], str]:
    def run(service: KnowledgeService) -> str:
        raw = read_stream(standard_input(_NO_STDIN)) if path == _STDIN else read_file(path)
        content = update_frontmatter(raw, changes) if changes else raw
        title = changes.get("title")
        unnamed = IngestRequest(title=title if isinstance(title, str) else None)
        name = source_id or (document_id(unnamed, content) if path == _STDIN else _file_id(path))
        return service.ingest(IngestRequest(id=name, content=content, if_match=if_match)).id

    return run


def _run(ctx: click.Context, tasks: Sequence[Task], done: str, **told: Sequence[str]) -> int:
    """Runs all of them, come what may; the exit code. `told` is what JSON tells besides."""
    session = ctx.find_object(Session) or Session()
    service = session.service()
    ids: list[str] = []
    errors: list[dict[str, Any]] = []
    with progress(session):
        for task in tasks:
            try:
                ids.append(task.run(service))
            except KnowledgeError as error:
                errors.append({"name": one_line(task.name), **wire_error(error)})
    if session.json:
        write_json({done: ids, "errors": errors, **told})
    else:
        for each in ids:
            write(f"{done}: {copyable(each)}")
    for failure in errors:
        note(f"knowledge: {failure['name']}: {failure['message']}")
    if not errors:
        return 0
    return EXIT_PARTIAL if ids else EXIT_ERROR
