"""`backends`: what is installed, what could be, and what is missing."""

from __future__ import annotations

import click

from knowledge_engine.backends import BackendListing, list_knowledge_backends
from knowledge_engine.cli.output import Screen, one_line, write, write_json, write_table
from knowledge_engine.cli.session import Session, json_option


@click.command()
@json_option
@click.pass_context
def backends(ctx: click.Context) -> None:
    """List the backends that there are, and what they lack.

    supported: part of this kit, not installed. available: installed, some settings are missing. ready: to be used.
    broken: installed, does not load.
    """
    session = ctx.find_object(Session) or Session()
    found = list_knowledge_backends(environ=session.environ)
    if session.json:
        write_json({"backends": [each.info() for each in found]})
        return
    rows = [(each.slug, each.status, each.version, each.distribution, each.description) for each in found]
    write_table(("NAME", "STATUS", "VERSION", "DISTRIBUTION", "WHAT"), rows, Screen.of(session))
    notes = [note for each in found if (note := _note(each))]
    if notes:
        write("")
    for note in notes:
        write(note)


def _note(backend: BackendListing) -> str:
    problem = backend.problem or "; ".join(backend.missing)
    text = f"{problem.rstrip('.')}. {backend.mend}" if problem else backend.mend
    return one_line(f"{backend.slug}: {text}") if text else ""
