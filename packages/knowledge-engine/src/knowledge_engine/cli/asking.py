"""Commands that ask: `query`, `list`, `get`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import click
from pydantic import JsonValue

from knowledge_engine.cli.output import Screen, copyable, harmless, note, one_line, write, write_json, write_table
from knowledge_engine.cli.progress import progress
from knowledge_engine.cli.root import EXIT_ERROR, EXIT_USAGE
from knowledge_engine.cli.session import Finite, Session, Text, common_options
from knowledge_engine.errors import (
    InvalidArgumentError,
    InvalidCursorError,
    InvalidFilterError,
    InvalidQueryError,
    QueryTooLongError,
)
from knowledge_engine.filters import merge_filters, parse_where
from knowledge_engine.models import MAX_TOP_K, Hit, Query, QueryResult, Snippet

if TYPE_CHECKING:
    from knowledge_engine.agent_tools import AgentTools

_Filter = dict[str, JsonValue]
#: What the tools, which never raise, answer to arguments that are wrong in themselves.
_WRONG_USAGE = {
    each.code
    for each in (InvalidArgumentError, InvalidQueryError, QueryTooLongError, InvalidFilterError, InvalidCursorError)
}
_SIGNS = "\x02\x03␂␃"


class Where(Text):
    """A condition on metadata, parsed."""

    name = "where"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A filter.

        Raises:
            click.BadParameter: When it is none.
        """
        try:
            return parse_where(super().convert(value, param, ctx))
        except InvalidFilterError as error:
            self.fail(str(error), param, ctx)


_where = click.option(
    "--where",
    metavar="KEY=VALUE",
    multiple=True,
    type=Where(),
    help="Only documents whose metadata has it; repeat for several. Or a filter in JSON.",
)
_cursor = click.option("--cursor", type=Text(), help="Go on where the page before ended.")


@click.command()
@click.argument("words", nargs=-1, required=True, type=Text())
@_where
@click.option(
    "--top-k", type=click.IntRange(1, MAX_TOP_K), metavar="N", default=10, show_default=True, help="Most hits."
)
@click.option(
    "--per-source", type=click.IntRange(1), metavar="N", default=1, show_default=True, help="Most hits of one document."
)
@click.option("--max-chars", type=click.IntRange(1), metavar="N", help="Budget for the text of all hits.")
@click.option("--min-score", type=Finite(), metavar="N", help="Leave out hits below it.")
@click.option("--mode", type=click.Choice(["keyword", "vector", "hybrid", "none"]), help="A hint.")
@click.option(
    "--wait", "wait_s", type=Finite(0), metavar="SECONDS", help="Longest wait for an index. Default: no limit."
)
@click.option("--cite", is_flag=True, help="Add to each hit the command that verifies it.")
@_cursor
@common_options
@click.pass_obj
def query(session: Session, /, words: tuple[str, ...], where: tuple[_Filter, ...], cite: bool, **asked: Any) -> None:
    """Find passages that answer, best first, each with its citation."""
    question = Query(query=" ".join(words), filter=merge_filters(*where), **asked)
    with progress(session):
        result = session.service().query(question)
        if not result.hits:
            session.check_readable()
    if session.json:
        write_json(result)
        return
    screen = Screen.of(session)
    for rank, hit in enumerate(result.hits, start=1):
        _write_hit(rank, hit, screen)
        if cite:
            write(f"   {_verify_command(session, hit)}")
    _note_about(result)


@click.command("list")
@click.argument("words", nargs=-1, type=Text())
@_where
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Most documents.")
@_cursor
@common_options
@click.pass_context
def list_documents(
    ctx: click.Context, words: tuple[str, ...], where: tuple[_Filter, ...], limit: int | None, cursor: str | None
) -> None:
    """List documents by id or, with WORDS, those whose title, summary or keywords match."""
    session = ctx.find_object(Session) or Session()
    arguments = {"query": " ".join(words) or None, "filter": merge_filters(*where), "limit": limit, "cursor": cursor}
    with progress(session):
        answer: dict[str, Any] = _tools(session).list(
            **{name: value for name, value in arguments.items() if value is not None}
        )
        if not answer["docs"] and _code(answer) != EXIT_USAGE:
            session.check_readable()
    if session.json:
        write_json(answer)
    else:
        rows = [
            [copyable(doc["id"]), *(str(doc.get(key) or "") for key in ("title", "kind"))] for doc in answer["docs"]
        ]
        if rows:
            write_table(("ID", "TITLE", "KIND"), rows, Screen.of(session))
        if not rows and "error" not in answer:
            note(answer["hint"])
        _note_rest(answer.get("warnings", ()), answer.get("next_cursor"), "--limit")
    _end(ctx, answer)


@click.command()
@click.argument("doc_id", metavar="ID", type=Text())
@click.argument("section", required=False, type=Text())
@common_options
@click.pass_context
def get(ctx: click.Context, doc_id: str, section: str | None) -> None:
    """Show the document ID, or its section of that title."""
    session = ctx.find_object(Session) or Session()
    with progress(session):
        answer: dict[str, Any] = _tools(session).get(doc_id, section)
        if not answer["found"] and _code(answer) != EXIT_USAGE:
            session.check_readable()
    if session.json:
        write_json(answer)
    elif "error" not in answer:
        # Into a file or a pipe goes what the document holds; a terminal must not obey it.
        write(harmless(answer["content"]) if Screen.of(session).terminal else answer["content"])
        if answer["truncated"]:
            note(answer["hint"])
    _end(ctx, answer)


def _end(ctx: click.Context, answer: dict[str, Any]) -> NoReturn:
    """The tools never raise; what went wrong stands in the answer."""
    if not _code(answer):
        ctx.exit(0)
    note(f"knowledge: {answer['error']}")
    if answer.get("suggestions"):
        note(f"Did you mean: {', '.join(answer['suggestions'])}")
    elif answer.get("hint"):
        note(answer["hint"])
    ctx.exit(_code(answer))


def _code(answer: dict[str, Any]) -> int:
    if "error" not in answer:
        return 0
    return EXIT_USAGE if answer["code"] in _WRONG_USAGE else EXIT_ERROR


def _tools(session: Session) -> AgentTools:
    from knowledge_engine.agent_tools import AgentTools

    return AgentTools(session.service())


def _write_hit(rank: int, hit: Hit, screen: Screen) -> None:
    path = " › ".join(map(one_line, (hit.title, *hit.heading_path)))
    write(f"{rank}. {screen.bold(path)}  {screen.dim(f'{hit.score:.2f}')}")
    place = f"{copyable(hit.source_id)}  bytes {hit.span.start}-{hit.span.end}  sha256 {hit.content_hash[:12]}"
    write(f"   {screen.dim(place)}")
    write(f"   {_snippet(hit.snippet, screen)}")


def _snippet(snippet: Snippet, screen: Screen) -> str:
    """The snippet on one line; its matching words marked where there are colours."""
    if not screen.color or any(sign in snippet.text for sign in _SIGNS):
        return one_line(snippet.text)
    # The marks go through `one_line` like everything else, and come out as symbols that the text does not have.
    marked = one_line(snippet.marked("\x02", "\x03"))
    return marked.replace("␂", "\x1b[1;33m").replace("␃", "\x1b[0m")


def _verify_command(session: Session, hit: Hit) -> str:
    backend = ["--backend", session.backend] if session.backend else []
    place = [hit.source_id, str(hit.span.start), str(hit.span.end), hit.content_hash]
    return one_line(shlex.join(["knowledge", "verify", *backend, "--", *place]))


def _note_about(result: QueryResult) -> None:
    if result.mode_used == "none" and result.index.state == "building":
        note(f"The index is being built ({result.index.documents} documents so far). Ask again, or wait longer.")
    elif not result.hits:
        note("No passage answers this.")
    _note_rest(result.warnings, result.next_cursor, "--top-k")
    if result.truncated:
        note("Text was cut to keep within --max-chars.")


def _note_rest(warnings: Iterable[object], next_cursor: object, limit: str) -> None:
    for warning in warnings:
        note(f"warning: {warning}")
    if next_cursor:
        note(f"There is more: raise {limit}, or pass `next_cursor` of --json to --cursor.")
