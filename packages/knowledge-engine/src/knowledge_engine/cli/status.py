"""`status`: what is behind, what is indexed, what is not and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from knowledge_engine.cli.output import Screen, copyable, one_line, write, write_json, write_table
from knowledge_engine.cli.progress import progress
from knowledge_engine.cli.root import EXIT_ERROR
from knowledge_engine.cli.session import Session, common_options

if TYPE_CHECKING:
    from knowledge_engine.models import DocumentIssue
    from knowledge_engine.service import Status


#: More rows of a table are only counted, unless all are asked for.
MOST_ROWS = 50
_SEVERITIES = ("error", "warning", "info")


@click.command()
@click.option("--all", "--verbose", "everything", is_flag=True, help="List everything, also what is fine as it is.")
@common_options
@click.pass_context
def status(ctx: click.Context, everything: bool) -> None:
    """Show what is indexed, what is not, and why. Fails only when the backend is down or has no place to read from."""
    session = ctx.find_object(Session) or Session()
    with progress(session):
        found = session.service().status()
    if session.json:
        write_json(found)
    else:
        screen = Screen.of(session)
        _write_state(found, session, screen)
        _write_skipped(found, everything, screen)
        _write_issues(found, everything, screen)
    ctx.exit(EXIT_ERROR if found.status == "down" or found.details.get("unreadable") else 0)


def _write_state(found: Status, session: Session, screen: Screen) -> None:
    index = found.index
    message = f": {one_line(found.message)}" if found.message else ""
    write(f"{screen.bold(one_line(found.backend))} is {found.status}{message}")
    write(f"index: {index.state}, {index.documents} documents, {index.skipped} skipped")
    powers = [name.replace("_", " ") for name, able in found.capabilities.model_dump().items() if able is True]
    write(f"can: {', '.join(powers)}")
    for name, value in found.details.items():
        if name == "folder" and value == ".":
            # Of a backend elsewhere it is a folder there, which has no name here.
            here = session.typed.partition(":")[2] if session.typed.startswith("files:") else ""
            write(f"folder: {one_line(here) or 'the root'}")
        elif name != "unreadable":  # the message has it
            write(one_line(f"{name}: {value}"))


def _write_skipped(found: Status, everything: bool, screen: Screen) -> None:
    if found.skipped:
        write("\nNot indexed:")
        rows = [(copyable(each.path), each.reason, each.message) for each in found.skipped]
        _write_rows(("PATH", "REASON", "WHY"), rows, everything, screen)


def _write_issues(found: Status, everything: bool, screen: Screen) -> None:
    """What is wrong, the worst first; of what is fine as it is, only how much there is."""
    issues = sorted(found.issues, key=lambda each: _SEVERITIES.index(each.severity))
    listed = [each for each in issues if everything or each.severity != "info"]
    if listed:
        write("\nIssues:")
        rows = [(f"{copyable(each.path)}:{each.line}", each.severity, each.code, _what(each)) for each in listed]
        _write_rows(("WHERE", "SEVERITY", "CODE", "WHAT"), rows, everything, screen)
    fine: dict[str, set[str]] = {}
    for each in issues[len(listed) :]:
        fine.setdefault(each.code, set()).add(each.path)
    if fine:
        write("")
    for code, paths in fine.items():
        write(f"{len(paths)} {'document' if len(paths) == 1 else 'documents'}: {one_line(code)}, which is fine")


def _what(issue: DocumentIssue) -> str:
    return f"{issue.message.rstrip('.')}. {issue.mend}" if issue.mend else issue.message


def _write_rows(headers: Sequence[str], rows: Sequence[Sequence[str]], everything: bool, screen: Screen) -> None:
    shown = rows if everything else rows[:MOST_ROWS]
    write_table(headers, shown, screen)
    if len(shown) < len(rows):
        write(f"... and {len(rows) - len(shown)} more: add --all, or --json")
