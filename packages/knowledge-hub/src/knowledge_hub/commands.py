"""`knowledge hub`: what agents have learned, from the command line."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowledge_engine.cli.output import Screen, copyable, harmless, note, one_line, write, write_json
from knowledge_engine.cli.root import EXIT_PARTIAL
from knowledge_engine.cli.session import Session, Text, json_option
from knowledge_engine.errors import ConfigurationError
from knowledge_hub.entries import KINDS

if TYPE_CHECKING:
    from knowledge_hub.entries import Entry, Kind, SlimPlan
    from knowledge_hub.service import HubService

_STDIN = "-"
_kinds = click.option("--type", "kinds", multiple=True, type=click.Choice(KINDS), help="Only these; repeatable.")
_entry = click.argument("entry_id", metavar="ID", type=Text())


@click.group()
@json_option
def hub() -> None:
    """Keep, find and improve what agents have learned.

    The hub is the file that KNOWLEDGE_HUB_PATH names (by default knowledge-hub.db).
    """


@hub.command()
@click.argument("words", metavar="WORDS...", nargs=-1, required=True, type=Text())
@click.option("--top-k", default=5, show_default=True, help="At most so many.")
@click.option("--min-score", default=3, show_default=True, help="None that are rated below.")
@_kinds
@json_option
@click.pass_context
def search(ctx: click.Context, words: tuple[str, ...], top_k: int, min_score: int, kinds: tuple[Kind, ...]) -> None:
    """Find the entries that help most with a question."""
    with _opened(ctx) as (session, service):
        answer = service.search(" ".join(words), top_k=top_k, min_score=min_score, kinds=kinds)
        if session.json:
            write_json(answer.model_dump(mode="json"))
            return
        screen = Screen.of(session)
        for one in answer.results:
            write(f"{screen.bold(one.id)}  quality {one.quality_score:g}  {', '.join(one.tags.type)}".rstrip())
            write(f"  {one_line(one.scenario)}")
            write("".join(f"    {line}\n" for line in harmless(one.content).splitlines()))
        for warning in answer.warnings:
            note(warning)
        if not answer.results:
            note("Nothing is known of that.")


@hub.command()
@click.option("--scenario", required=True, type=Text(), help="What one wants to do, and where.")
@click.option("--content", type=Text(), help="What is known of it. By default standard input.")
@click.option("--type", "kinds", multiple=True, type=click.Choice(KINDS), help="What it is about; repeatable.")
@click.option("--url", "urls", multiple=True, type=Text(), help="Where it comes from; repeatable.")
@click.option("--agent", default="", type=Text(), help="Who has learned it.")
@click.option("--score", default=3, show_default=True, help="How good it is, 1 to 5.")
@click.option("--message-id", default="", type=Text(), help="The message that it comes from.")
@json_option
@click.pass_context
def save(ctx: click.Context, /, scenario: str, content: str | None, kinds: tuple[str, ...], **given: Any) -> None:
    """Save what was learned."""
    from knowledge_hub.checking import checked
    from knowledge_hub.entries import NewEntry

    if content is None:
        content = sys.stdin.read()
    values = {"scenario": scenario, "content": content, "tags_type": kinds, "urls": given["urls"]}
    values |= {"score": given["score"], "message_id": given["message_id"], "agent_id": given["agent"] or "cli"}
    with _opened(ctx) as (session, service):
        _show(session, service.save(checked(NewEntry, values)))


@hub.command()
@_entry
@click.option("--helpful", metavar="RESULT", type=Text(), help="It helped, and how.")
@click.option("--harmful", metavar="RESULT", type=Text(), help="It did harm, and how.")
@click.option("--score", type=int, help="Rate it anew, 1 to 5.")
@click.option("--evolve", metavar="FEEDBACK", type=Text(), help="Let a model rewrite it so.")
@click.option("--revert", metavar="VERSION", type=int, help="Let it say again what it said as that version.")
@click.option("--retire/--restore", "retired", default=None, help="Take it out of searches, or bring it back.")
@json_option
@click.pass_context
def update(
    ctx: click.Context,
    entry_id: str,
    helpful: str | None,
    harmful: str | None,
    score: int | None,
    evolve: str | None,
    revert: int | None,
    retired: bool | None,
) -> None:
    """Say whether an entry helped, rate it, or change what it says."""
    from knowledge_hub.checking import checked
    from knowledge_hub.entries import EntryUpdate

    values = {
        "add_helpful_case": None if helpful is None else {"result": helpful},
        "add_harmful_case": None if harmful is None else {"result": harmful},
        "update_score": score,
        "evolve_feedback": evolve,
    }
    wanted = checked(EntryUpdate, values)
    with _opened(ctx) as (session, service):
        entry = None
        if revert is not None:
            entry = service.revert(entry_id, revert, who="cli")
        if retired is not None:
            entry = (service.retire if retired else service.restore)(entry_id, who="cli")
        if entry is None or any(value is not None for value in values.values()):
            entry = service.update(entry_id, wanted, who="cli")
        _show(session, entry)


@hub.command("list")
@click.option("--limit", default=10, show_default=True, help="At most so many, the newest first.")
@_kinds
@click.option("--all", "everything", is_flag=True, help="Those too that others stand for.")
@json_option
@click.pass_context
def list_entries(ctx: click.Context, limit: int, kinds: tuple[Kind, ...], everything: bool) -> None:
    """List entries."""
    with _opened(ctx) as (session, service):
        found = service.listed(limit=limit, kinds=kinds, status=None if everything else "active")
        if session.json:
            write_json({"results": [one.model_dump(mode="json") for one in found], "count": len(found)})
            return
        for one in found:
            status = "" if one.status == "active" else f"  [{one.status}]"
            write(f"{one.id}  {one.eval.score}/5  +{one.eval.helpful} -{one.eval.harmful}{status}")
            write(f"  {one_line(one.scenario)}")


@hub.command()
@click.option("--apply", "applied", is_flag=True, help="Do it; without it the plan is only shown.")
@click.option("--model", type=Text(), help="The model that proposes merges; none for the rule.")
@click.option("--undo", metavar="MERGE", type=int, help="Undo the merge of that number instead.")
@json_option
@click.pass_context
def slim(ctx: click.Context, applied: bool, model: str | None, undo: int | None) -> None:
    """Show which entries say the same and how they would be merged; with --apply, merge them."""
    with _opened(ctx) as (session, service):
        if undo is not None:
            _show(session, service.undo_merge(undo, who="cli"))
            return
        plan = service.plan_slim(model=model)
        answer = service.apply_slim(plan, who="cli") if applied else None
        if session.json:
            write_json(
                {
                    "plan": plan.model_dump(mode="json"),
                    "applied": answer.model_dump(mode="json") if answer else None,
                }
            )
        elif answer is None:
            _show_plan(plan)
        else:
            for one in answer.applied:
                write(f"merge {one.merge_id}: {', '.join(one.merged)} into {one.keep}")
            write(f"{answer.before} entries before, {answer.after} after")
        for why in (*plan.dropped, *(answer.skipped if answer else ())):
            note(f"left alone: {why}")
        if answer and answer.skipped:
            ctx.exit(EXIT_PARTIAL)


def _show_plan(plan: SlimPlan) -> None:
    for merge in plan.merges:
        write(f"{', '.join(merge.merged)} into {merge.keep} ({merge.similarity:.0%} alike, by {merge.by})")
        write(f"  {one_line(merge.scenario)}")
    write(f"{len(plan.merges)} merges for {plan.entries} entries")
    if plan.merges:
        note("Nothing was changed. Run it with --apply to merge them; a merge can be undone.")


@hub.command()
@_entry
@json_option
@click.pass_context
def history(ctx: click.Context, entry_id: str) -> None:
    """Show all that an entry said, and what changed."""
    with _opened(ctx) as (session, service):
        versions = service.history(entry_id)
        if session.json:
            write_json({"id": entry_id, "versions": [one.model_dump(mode="json") for one in versions]})
            return
        screen = Screen.of(session)
        for one in versions:
            write(screen.bold(f"version {one.version}  {one.at}  {one_line(one.who)}  {one_line(one.why)}"))
            write(harmless(one.diff) if one.diff else harmless(one.content))


@hub.command()
@_entry
@json_option
@click.pass_context
def delete(ctx: click.Context, entry_id: str) -> None:
    """Remove an entry with its history."""
    with _opened(ctx) as (session, service):
        service.delete(entry_id, who="cli")
        write_json({"deleted": entry_id}) if session.json else write(f"deleted: {copyable(entry_id)}")


@hub.command()
@click.argument("file", metavar="[FILE]", default=_STDIN, type=Text())
@click.pass_context
def export(ctx: click.Context, file: str) -> None:
    """Write the hub as lines of JSON to FILE, or to standard output."""
    with _opened(ctx) as (_, service):
        if file == _STDIN:
            for line in service.export():
                write(line)
            return
        path = Path(file)
        beside = path.with_name(f"{path.name}.part")
        try:
            with beside.open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(f"{line}\n" for line in service.export())
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise ConfigurationError(
                f"{file!r} cannot be written ({error.strerror})", mend="Name another file."
            ) from error
        note(f"written: {copyable(file)}")


@hub.command("import")
@click.argument("file", metavar="FILE", type=Text())
@json_option
@click.pass_context
def import_entries(ctx: click.Context, file: str) -> None:
    """Add the entries of FILE (- for standard input), one a line: all of them, or none."""
    with _opened(ctx) as (session, service):
        try:
            lines = sys.stdin.buffer if file == _STDIN else Path(file).open("rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise ConfigurationError(
                f"{file!r} cannot be read ({error.strerror})", mend="Name another file."
            ) from error
        with lines:
            answer = service.import_lines(lines, who="cli")
        if session.json:
            write_json(answer.model_dump(mode="json"))
        else:
            write(f"{answer.added} added, {answer.same} there already")


@hub.command()
@click.argument("file", metavar="FILE", type=Text())
@click.pass_context
def backup(ctx: click.Context, file: str) -> None:
    """Copy the hub into FILE while it is in use."""
    with _opened(ctx) as (_, service):
        service.backup(file)
        write(f"written: {copyable(file)}")


@hub.command()
@click.option("--host", default="127.0.0.1", show_default=True, type=Text(), help="The address to listen at.")
@click.option("--port", default=8765, show_default=True, help="The port; 0 takes a free one.")
@click.pass_context
def serve(ctx: click.Context, host: str, port: int) -> None:
    """Serve the hub over HTTP: its routes below /api/knowledge, its page, and its entries as documents.

    On this machine anyone may read and write; elsewhere only who has one of KNOWLEDGE_HTTP_TOKENS.
    """
    from knowledge_engine.bootstrap import open_services
    from knowledge_engine.transports import find_transport
    from knowledge_hub.settings import HubSettings

    session = ctx.find_object(Session) or Session()
    variables = dict(session.environ)
    variables["KNOWLEDGE_HUB_PATH"] = HubSettings.from_env(variables).path
    has_tokens = any(variables.get(f"KNOWLEDGE_HTTP_TOKENS{end}") for end in ("", "_FILE"))
    if not has_tokens and not _is_loopback(host):
        raise ConfigurationError(
            f"Whoever reaches {host} could read and write",
            mend="Set KNOWLEDGE_HTTP_TOKENS, such as s3cret:write, or serve on 127.0.0.1.",
        )
    transport = find_transport("http")
    with transport.prepared() as prepared, open_services(["hub"], environ=variables) as services:
        transport.serve(services, prepared, environ=variables, host=host, port=str(port), writable=not has_tokens)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@contextmanager
def _opened(ctx: click.Context) -> Iterator[tuple[Session, HubService]]:
    from knowledge_hub.opening import open_hub

    session = ctx.find_object(Session) or Session()
    variables = dict(session.environ)
    if model := session.options.get("model"):
        variables["KNOWLEDGE_HUB_MODEL"] = str(model)
    service = open_hub(variables)
    try:
        yield session, service
    finally:
        service.close()


def _show(session: Session, entry: Entry) -> None:
    if session.json:
        write_json(entry.model_dump(mode="json"))
    else:
        write(f"{entry.id}  version {entry.version}  quality {entry.eval.quality:g}")
