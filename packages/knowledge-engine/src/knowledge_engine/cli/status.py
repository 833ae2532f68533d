"""`status`: what is behind, what is indexed, what is not and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from knowledge_engine.cli.output import Screen, one_line, write, write_json, write_table
from knowledge_engine.cli.progress import progress
from knowledge_engine.cli.session import Session, common_options

if TYPE_CHECKING:
    from knowledge_engine.service import Status


@click.command()
@common_options
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show what is indexed, what is not, and why. Fails only when the backend is down."""
    session = ctx.find_object(Session) or Session()
    with progress(session):
        found = session.service().status()
    if session.json:
        write_json(found)
    else:
        _write_status(found, Screen.of(session))
    ctx.exit(1 if found.status == "down" else 0)


def _write_status(found: Status, screen: Screen) -> None:
    index = found.index
    message = f": {one_line(found.message)}" if found.message else ""
    write(f"{screen.bold(one_line(found.backend))} is {found.status}{message}")
    write(f"index: {index.state}, {index.documents} documents, {index.skipped} skipped")
    powers = [name.replace("_", " ") for name, able in found.capabilities.model_dump().items() if able is True]
    write(f"can: {', '.join(powers)}")
    for name, value in found.details.items():
        write(one_line(f"{name}: {value}"))
    if found.skipped:
        write("\nNot indexed:")
        write_table(
            ("PATH", "REASON", "WHY"), [(each.path, each.reason, each.message) for each in found.skipped], screen
        )
    if found.issues:
        write("\nIssues:")
        rows = [(f"{each.path}:{each.line}", each.code, f"{each.message} {each.mend}") for each in found.issues]
        write_table(("WHERE", "CODE", "WHAT"), rows, screen)
