"""Commands for databases of this backend: `check`, `backup`, `restore`."""

from __future__ import annotations

import click

from knowledge_engine.cli.output import note, one_line, write, write_json
from knowledge_engine.cli.progress import progress
from knowledge_engine.cli.root import EXIT_ERROR
from knowledge_engine.cli.session import Session, Text, json_option
from knowledge_engine.errors import NotSupportedError
from knowledge_sqlite.adapter import SqliteKnowledgeAdapter
from knowledge_sqlite.checking import Problem

_backend = click.argument("backend", metavar="BACKEND", type=Text())


@click.command()
@_backend
@click.option("--repair", is_flag=True, help="Build the index anew from the documents, which stay as they are.")
@json_option
@click.pass_context
def check(ctx: click.Context, backend: str, repair: bool) -> None:
    """Check that the database BACKEND (such as sqlite:///kb.db) is whole: file, documents, passages, index.

    Exit code: 0 nothing is wrong, or not any more; 1 something is.
    """
    session = ctx.find_object(Session) or Session()
    adapter = _adapter(session, backend)
    with progress(session):
        session.check_readable()
        found = adapter.check()
        left: tuple[Problem, ...] = found
        if repair:
            adapter.repair()
            left = adapter.check()
    if session.json:
        write_json({"problems": _plain(found), "repaired": repair, "left": _plain(left)})
    else:
        for problem in found:
            write(one_line(f"{problem.code}: {problem.message}"))
        if repair:
            write("repaired" if not left else f"repaired, {len(left)} left")
        elif not found:
            write("ok")
        for problem in left:
            note(f"knowledge: {problem.message}. {problem.mend}")
    ctx.exit(EXIT_ERROR if left else 0)


@click.command()
@_backend
@click.argument("file", metavar="FILE", type=Text())
@json_option
@click.pass_context
def backup(ctx: click.Context, backend: str, file: str) -> None:
    """Copy the database BACKEND, as it is at one moment, into FILE, while others read and write it.

    A backup that lies there is replaced when the new one is complete.
    """
    session = ctx.find_object(Session) or Session()
    adapter = _adapter(session, backend)
    with progress(session):
        session.check_readable()
        adapter.backup(file)
    if session.json:
        write_json({"saved": file})
    else:
        write(f"saved: {one_line(file)}")


@click.command()
@_backend
@click.argument("file", metavar="FILE", type=Text())
@json_option
@click.pass_context
def restore(ctx: click.Context, backend: str, file: str) -> None:
    """Put what the backup FILE holds in the place of all that is stored in the database BACKEND.

    Others may have it open: each sees what was before, or what is then. FILE stays as it is.
    """
    session = ctx.find_object(Session) or Session()
    adapter = _adapter(session, backend)
    with progress(session):
        adapter.restore(file)
        total = adapter.list_sources(limit=1).total
    if session.json:
        write_json({"restored": file, "documents": total})
    else:
        write(f"restored: {total} documents")


def _adapter(session: Session, backend: str) -> SqliteKnowledgeAdapter:
    session.backend = backend
    provider = session.service().provider
    if not isinstance(provider, SqliteKnowledgeAdapter):
        raise NotSupportedError(
            f"{session.typed} is no SQLite database", mend="Name one, such as sqlite:///kb.db or sqlite:////srv/kb.db."
        )
    return provider


def _plain(problems: tuple[Problem, ...]) -> list[dict[str, str]]:
    return [problem._asdict() for problem in problems]
