"""`eval`: how well a backend answers queries of which it is known what they should find."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from knowledge_engine.cli.output import copyable, harmless, note, one_line, write, write_json
from knowledge_engine.cli.progress import progress
from knowledge_engine.cli.reading import read_file, read_stream, standard_input
from knowledge_engine.cli.root import EXIT_ERROR
from knowledge_engine.cli.session import Session, Text, common_options
from knowledge_engine.errors import KnowledgeError
from knowledge_engine.models import MAX_TOP_K

if TYPE_CHECKING:
    from knowledge_engine.evaluation import Evaluation, Golden, QueryEvaluation
    from knowledge_engine.models import DocumentIssue

_NAMES = ("recall", "mrr", "ndcg")
#: So many are told of; `--format json` has all.
_MOST_TOLD = 20
_MEND = 'Pipe in lines such as {"query": "words", "expected": ["document-id"]}.'


class Floor(Text):
    """A figure, and what it has to be at least."""

    name = "floor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """`(metric, depth or None, least value)`.

        Raises:
            click.BadParameter: For anything but `METRIC=VALUE`.
        """
        told, _, text = super().convert(value, param, ctx).partition("=")
        name, at, depth = told.strip().lower().partition("@")
        known = name in _NAMES and (not at or (depth.isascii() and depth.isdigit() and len(depth) <= 4))
        least = _number(text)
        if not known or not 0 <= least <= 1 or (at and not 1 <= int(depth) <= MAX_TOP_K):
            self.fail("Write METRIC=VALUE such as recall@10=0.9, mrr=0.7 or ndcg@5=0.8, VALUE from 0 to 1.", param, ctx)
        return name, int(depth) if at else None, least


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _json_too(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    if value == "json":
        ctx.ensure_object(Session).json = True
    return value


@click.command("eval")
@click.argument("golden", metavar="GOLDEN.jsonl", type=Text())
@click.option(
    "--at",
    type=click.IntRange(1, MAX_TOP_K),
    metavar="K",
    multiple=True,
    help="How many documents of an answer count; repeatable. Default: 10.",
)
@click.option(
    "--fail-under",
    metavar="METRIC=VALUE",
    multiple=True,
    type=Floor(),
    help="Exit with 1 if that figure is lower, such as recall@10=0.9; without @K, at the greatest K; repeatable.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), is_eager=True, callback=_json_too)
@common_options
@click.pass_context
def evaluate_backend(
    ctx: click.Context,
    golden: str,
    at: tuple[int, ...],
    fail_under: tuple[tuple[str, int | None, float], ...],
    form: str | None,
) -> None:
    """Measure what a backend finds of what it should: recall, MRR and nDCG over the queries in GOLDEN.jsonl.

    A line of it is {"query": "words", "expected": ["document-id"]}; `expected` may give grades, {"document-id": 2};
    "id" names the query, "filter" holds conditions on metadata. `-` reads standard input.

    Exit code: 0 measured; 1 a figure is lower than --fail-under, or lines of the file are wrong: then nothing is asked.
    """
    from knowledge_engine.evaluation import evaluate, read_golden

    session = ctx.find_object(Session) or Session()
    if session.json and form == "text":
        raise click.UsageError("--json and --format text contradict each other.", ctx)
    path = "stdin" if golden == "-" else golden
    read = read_golden(_raw(golden), path)
    if read.errors:
        _tell_wrong(session, read)
        ctx.exit(EXIT_ERROR)
    depths = {*(at or (10,))}
    floors = {f"{name}@{depth or max(depths)}": least for name, depth, least in fail_under}
    depths |= {depth for _, depth, _ in fail_under if depth}
    seen = {"done": 0}
    with progress(session, lambda: seen["done"]):
        found = evaluate(session.service(), read.queries, sorted(depths), path=path, told=lambda n: seen.update(done=n))
        if not any(query.found for query in found.queries):
            session.check_readable()
    found = found.model_copy(update={"warnings": (*read.warnings, *found.warnings)})
    failed = found.below(floors)
    if session.json:
        misses = [query.id for query in found.misses]
        unmet = {name: {"value": value, "least": floors[name]} for name, value in failed.items()}
        told = found.model_dump(mode="json")
        write_json({"ok": not failed, "backend": session.typed, "failed": unmet, "misses": misses, **told})
    else:
        _write(found)
        for name, value in failed.items():
            note(f"failed: {name} is {value:.4f}, under {floors[name]:g}")
    ctx.exit(EXIT_ERROR if failed else 0)


def _raw(path: str) -> bytes:
    if path == "-":
        return read_stream(standard_input(_MEND))
    try:
        return read_file(path)
    except KnowledgeError as error:
        raise type(error)(f"{copyable(path)}: {error.problem}", mend=error.mend) from error


def _tell_wrong(session: Session, read: Golden) -> None:
    if session.json:
        write_json(
            {
                "ok": False,
                **{
                    name: [each.model_dump(mode="json") for each in issues]
                    for name, issues in (("errors", read.errors), ("warnings", read.warnings))
                },
            }
        )
        return
    for issue in read.errors[:_MOST_TOLD]:
        write(harmless(str(issue)))
    if len(read.errors) > _MOST_TOLD:
        note(f"... and {len(read.errors) - _MOST_TOLD:,} more.")
    note("Nothing was asked: mend these lines first.")


def _write(found: Evaluation) -> None:
    width = max(map(len, found.metrics))
    for name, value in found.metrics.items():
        write(f"{name:<{width}}  {value:.4f}")
    misses = found.misses
    write(f"{len(found.queries):,} queries, {len(misses):,} of them missed something.")
    for query in misses[:_MOST_TOLD]:
        _write_miss(query)
    if len(misses) > _MOST_TOLD:
        write(f"  ... and {len(misses) - _MOST_TOLD:,} more (--format json has all)")
    _note_warnings(found.warnings)


def _write_miss(query: QueryEvaluation) -> None:
    missed = ", ".join(map(copyable, query.missed[:5])) + (", ..." if len(query.missed) > 5 else "")
    first = f"; first found: {copyable(query.found[0])}" if query.found else "; nothing was found"
    asked = query.query if len(query.query) <= 80 else f"{query.query[:80]}…"
    write(f"  {one_line(query.id)}: {one_line(asked)!r} missed {missed}{first}")


def _note_warnings(warnings: tuple[DocumentIssue, ...]) -> None:
    for issue in warnings[:_MOST_TOLD]:
        note(str(issue))
    if len(warnings) > _MOST_TOLD:
        note(f"... and {len(warnings) - _MOST_TOLD:,} more warnings (--format json has all)")
