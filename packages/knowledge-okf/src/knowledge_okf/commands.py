"""Commands for bundles of concepts: `create`, `update`, `remove`, `bundle validate`, `bundle show`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowledge_engine.cli.output import Screen, harmless, note, one_line, write, write_json, write_table
from knowledge_engine.cli.root import EXIT_ERROR, EXIT_PARTIAL
from knowledge_engine.cli.session import Session, Text, json_option

if TYPE_CHECKING:
    from knowledge_okf.manager import Report
    from knowledge_okf.sdk import Knowledge
    from knowledge_okf.validating import BundleCheck

_MAX_SHOWN = 20


class PathOf(Text):
    """A tag and its folder."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """`(tag, folder)`.

        Raises:
            click.BadParameter: For anything but `TAG=FOLDER`.
        """
        tag, sign, folder = super().convert(value, param, ctx).partition("=")
        if not sign or not tag.strip():
            self.fail("Write TAG=FOLDER such as device=guides/devices.", param, ctx)
        return tag.strip(), folder


_path_map = click.option(
    "--path",
    "paths",
    metavar="TAG=FOLDER",
    multiple=True,
    type=PathOf(),
    help="The folder of new concepts that have a tag; repeatable.",
)
_concurrency = click.option(
    "--concurrency", type=click.IntRange(1, 64), default=8, show_default=True, help="Sections asked about at once."
)


@click.command()
@click.option("--validate", is_flag=True, help="Check the bundle when it is written.")
@_path_map
@_concurrency
@click.argument("source", metavar="INPUT", type=Text())
@click.argument("output", metavar="OUTPUT", type=Text())
@json_option
@click.pass_context
def create(
    ctx: click.Context,
    source: str,
    output: str,
    validate: bool,
    paths: tuple[tuple[str, str], ...],
    concurrency: int,
) -> None:
    """Make the bundle OUTPUT, a folder of concepts, from INPUT: a file or an http(s) URL.

    The model is named before the command: knowledge --model openai:gpt-4o create INPUT OUTPUT. With --model none there
    is one concept for each heading.

    Exit code: 0 all is written; 1 nothing is; 2 it is, but for sections that failed, which are named.
    """
    session = ctx.find_object(Session) or Session()
    with _knowledge(session, paths, concurrency) as knowledge:
        knowledge.create(source, output)
    report = knowledge.report
    assert report is not None
    check = _checked(output) if validate else None
    if session.json:
        write_json({**_plain(report), "bundle": output, **({"check": _plain_check(check)} if check else {})})
    else:
        write(f"created: {one_line(output)}, {_count(len(report.graph), 'concept')}")
        _tell(report)
        if check:
            _write_check(check)
    failed = check is not None and not check.conformant
    ctx.exit(EXIT_ERROR if failed else EXIT_PARTIAL if report.failed else 0)


@click.command()
@click.option("--prune", is_flag=True, help="Remove concepts whose section is gone, rather than mark them deprecated.")
@click.option("--replace", is_flag=True, help="Write all of it anew; what persons changed is lost.")
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would change, as a diff.")
@_path_map
@_concurrency
@click.argument("source", metavar="INPUT", type=Text())
@click.argument("bundle_dir", metavar="BUNDLE", type=Text())
@json_option
@click.pass_context
def update(
    ctx: click.Context,
    source: str,
    bundle_dir: str,
    prune: bool,
    replace: bool,
    dry_run: bool,
    paths: tuple[tuple[str, str], ...],
    concurrency: int,
) -> None:
    """Bring the folder BUNDLE up to date with INPUT, the source as it is now: a file or an http(s) URL.

    Sections that did not change are not sent to the model. A file that somebody changed stays as it is: new text for it
    is written beside it (NAME.md.proposed).

    Exit code: 0 it is up to date; 1 nothing is written; 2 some sections failed, which are named.
    """
    if prune and replace:
        raise click.UsageError("--prune and --replace contradict each other.", ctx)
    session = ctx.find_object(Session) or Session()
    with _knowledge(session, paths, concurrency) as knowledge:
        knowledge.update(source, bundle_dir, prune=prune, replace=replace, dry_run=dry_run)
    report = knowledge.report
    assert report is not None
    if session.json:
        write_json({**_plain(report), "bundle": bundle_dir, "dry_run": dry_run})
    else:
        if dry_run:
            write(harmless(report.diff).rstrip("\n") or "no text would change")
            note(f"not written: {_changed(report)}")
        else:
            write(f"updated: {one_line(bundle_dir)}, {_count(len(report.graph), 'concept')}; {_changed(report)}")
        _tell(report)
    ctx.exit(EXIT_PARTIAL if report.failed else 0)


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=Text())
@click.argument("bundle_dir", metavar="BUNDLE", type=Text())
@json_option
@click.pass_context
def remove(ctx: click.Context, ids: tuple[str, ...], bundle_dir: str) -> None:
    """Take the concepts ID... out of the folder BUNDLE, and links to them.

    Exit code: 0 all are gone; 1 nothing was done; 2 the bundle has some of them only, and the others are named.
    """
    from knowledge_okf.sdk import Knowledge

    session = ctx.find_object(Session) or Session()
    with _same_directory():
        left, unknown = Knowledge("none", environ=session.environ).remove_with_unknowns(ids, bundle_dir)
    removed = len(set(ids)) - len(unknown)
    if session.json:
        write_json({"removed": removed, "written": left, "unknown": list(unknown)})
    else:
        write(f"removed: {_count(removed, 'concept')}, {left} left")
        for each in unknown:
            note(f"knowledge: There is no concept {each!r}.")
    ctx.exit(EXIT_PARTIAL if unknown else 0)


@click.group()
def bundle() -> None:
    """Check or show a bundle of concepts."""


@bundle.command()
@click.option("--strict", is_flag=True, help="Fail unless it is clean, too.")
@click.argument("bundle_dir", metavar="BUNDLE", type=Text())
@json_option
@click.pass_context
def validate(ctx: click.Context, bundle_dir: str, strict: bool) -> None:
    """Check the folder BUNDLE: whether it is conformant (any program can read it), and clean (nothing is to be mended).

    Exit code: 0 conformant; 1 not, or with --strict not clean.
    """
    session = ctx.find_object(Session) or Session()
    check = _checked(bundle_dir)
    if session.json:
        write_json(_plain_check(check))
    else:
        _write_check(check)
    ctx.exit(0 if check.conformant and (check.clean or not strict) else EXIT_ERROR)


@bundle.command()
@click.argument("bundle_dir", metavar="BUNDLE", type=Text())
@click.argument("concept", metavar="[ID]", required=False, type=Text())
@json_option
@click.pass_context
def show(ctx: click.Context, bundle_dir: str, concept: str | None) -> None:
    """List the concepts of the folder BUNDLE, or show the one with that ID."""
    from knowledge_engine.errors import NotFoundError
    from knowledge_okf.reading import read_bundle

    session = ctx.find_object(Session) or Session()
    graph = read_bundle(bundle_dir)
    if concept is None:
        _write_graph(session, graph)
        return
    found = graph.get(concept)
    if found is None:
        raise NotFoundError(f"There is no concept {concept!r}", mend=f"See `knowledge bundle show {bundle_dir}`.")
    if session.json:
        write_json(found)
        return
    write(f"{one_line(found.title)} ({found.path}, {found.status}, {found.trust})")
    for name, value in (
        ("", found.description),
        ("tags: ", ", ".join(found.tags)),
        ("see also: ", ", ".join(found.see_also)),
    ):
        if value:
            write(f"{name}{one_line(value)}")
    for ref in found.sources:
        place = f" [{ref.span.start}, {ref.span.end})" if ref.span else ""
        write(one_line(f"source: {ref.resource}{place} {ref.section}"))
    write(f"\n{harmless(found.body)}".rstrip("\n"))


def _write_graph(session: Session, graph: Any) -> None:
    if session.json:
        write_json(
            {
                "title": graph.title,
                "concepts": [
                    {"id": one.id, "path": one.path, "title": one.title, "description": one.description}
                    | {"tags": list(one.tags), "status": one.status, "trust": one.trust, "see_also": list(one.see_also)}
                    for one in graph.concepts
                ],
            }
        )
        return
    rows = [(one.id, one.title, one.status, one.trust, one.description) for one in graph.concepts]
    write_table(("ID", "TITLE", "STATUS", "TRUST", "DESCRIPTION"), rows, Screen.of(session))


@contextmanager
def _knowledge(session: Session, paths: tuple[tuple[str, str], ...], concurrency: int) -> Iterator[Knowledge]:
    from knowledge_okf.sdk import Knowledge

    model = session.options.get("model")
    bar = _Bar()
    with _same_directory():
        try:
            yield Knowledge(
                str(model) if model else None,
                dict(paths),
                environ=session.environ,
                concurrency=concurrency,
                progress=bar.show,
            )
        finally:
            bar.clear()


@contextmanager
def _same_directory() -> Iterator[None]:
    """The working directory is what it was by name: the folder of that name may have been replaced."""
    here = Path.cwd()
    try:
        yield
    finally:
        with suppress(OSError):
            os.chdir(here)


class _Bar:
    """How many sections are done: drawn over itself on a terminal, else a line for each tenth of them."""

    def __init__(self) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._drawn = False
        self._tenth = 0
        self._lock = threading.Lock()

    def show(self, done: int, total: int, failed: int) -> None:
        with self._lock:
            text = f"{done} of {total} sections{f', {failed} failed' if failed else ''}"
            if self._terminal:
                sys.stderr.write(f"\r\x1b[K{text}")
                sys.stderr.flush()
                self._drawn = True
            elif done * 10 // total > self._tenth:
                self._tenth = done * 10 // total
                note(text)

    def clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _checked(bundle_dir: str) -> BundleCheck:
    from knowledge_okf.validating import validate_bundle

    return validate_bundle(bundle_dir)


def _write_check(check: BundleCheck) -> None:
    for issue in check.issues:
        write(harmless(str(issue)))
    conformant = "conformant" if check.conformant else "not conformant"
    clean = "clean" if check.clean else f"not clean: {_count(len(check.issues), 'issue')}"
    note(f"{_count(check.concepts, 'concept')}: {conformant}, {clean}.")


def _plain_check(check: BundleCheck) -> dict[str, Any]:
    return {
        "conformant": check.conformant,
        "clean": check.clean,
        "concepts": check.concepts,
        "issues": [issue.model_dump(mode="json") for issue in check.issues],
    }


def _plain(report: Report) -> dict[str, Any]:
    return {
        "concepts": len(report.graph),
        "asked": report.asked,
        "changes": [{"kind": change.kind, "path": change.path} for change in report.changes if change.kind != "kept"],
        "proposals": list(report.proposals),
        "failed": [each.model_dump() for each in report.failed],
        "rejected": [each.model_dump() for each in report.rejected],
    }


def _changed(report: Report) -> str:
    from knowledge_okf.planning import summary

    return summary({change.path: change for change in report.changes}) or "nothing changed"


def _tell(report: Report) -> None:
    """What needs somebody's attention."""
    for path in report.proposals:
        note(f"proposed: {path}: new text for what was changed by hand")
    for each in report.rejected[:_MAX_SHOWN]:
        note(f"rejected: {each.item!r} of section {each.section!r}: {each.reason}")
    if len(report.rejected) > _MAX_SHOWN:
        note(f"rejected: {len(report.rejected) - _MAX_SHOWN} more")
    for failed in report.failed:
        note(f"knowledge: Section {failed.section!r} failed ({failed.code}): {failed.message}")
    if report.failed:
        note(f"{_count(len(report.failed), 'section')} failed. `knowledge update` asks about them again.")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
