"""`verify`: whether cited words are still where they were."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from knowledge_engine.cli.output import copyable, note, write, write_json
from knowledge_engine.cli.reading import InputError, read_stream, standard_input
from knowledge_engine.cli.session import Session, Text, common_options
from knowledge_engine.errors import KnowledgeError
from knowledge_engine.models import ByteSpan, Hit, Snippet, Verification

if TYPE_CHECKING:
    from knowledge_engine.service import KnowledgeService

_MEND = "Pipe the output of `knowledge query --json` into it."


@click.command()
@click.argument("citation", metavar="[ID START END HASH]", nargs=-1, type=Text())
@common_options
@click.pass_context
def verify(ctx: click.Context, citation: tuple[str, ...]) -> None:
    """Check citations: one, or those of `knowledge query --json` on standard input. Fails unless all are ok.

    START and END are bytes of the document as stored, HASH the SHA-256 of those bytes.
    """
    session = ctx.find_object(Session) or Session()
    if len(citation) not in (0, 4) and citation != ("-",):
        raise click.UsageError("Give ID START END HASH, or nothing and pipe in the output of `query --json`.", ctx)
    hits = [_hit(*citation)] if len(citation) == 4 else _hits(read_stream(standard_input(_MEND)))
    service = session.service()
    found = [service.verify(_with_source_id(service, hit)) for hit in hits]
    failed = sum(each.status != "ok" for each in found)
    if session.json:
        write_json({"ok": not failed, "citations": [each.model_dump(mode="json") for each in found]})
    else:
        _write_found(hits, found, failed)
    ctx.exit(1 if failed else 0)


def _write_found(hits: Sequence[Hit], found: Sequence[Verification], failed: int) -> None:
    for hit, each in zip(hits, found, strict=True):
        moved = f", now at {each.span.start}-{each.span.end}" if each.status == "moved" and each.span else ""
        if len(found) > 1 or each.status != "ok":
            write(f"{each.status}: {copyable(hit.source_id)} {hit.span.start}-{hit.span.end}{moved}")
    if not found:
        note("There is no citation to verify.")
    elif failed:
        write(f"verified: {failed} of {len(found)} failed")
    else:
        write("verified: ok")


def _hit(source_id: str, start: str, end: str, content_hash: str) -> Hit:
    """A hit that is no more than its citation."""
    if not (re.fullmatch("[0-9]{1,18}", start) and re.fullmatch("[0-9]{1,18}", end) and int(start) <= int(end)):
        raise click.UsageError(f"START and END are numbers of bytes, START first, not {start!r} and {end!r}.")
    if not re.fullmatch("[0-9a-f]{64}", content_hash.lower()):
        raise click.UsageError("HASH is a SHA-256: 64 hexadecimal digits.")
    span = ByteSpan(start=int(start), end=int(end))
    snippet = Snippet(text="", span=ByteSpan(start=span.start, end=span.start))
    return Hit(
        source_id=source_id,
        chunk_id="",
        title="",
        text="",
        snippet=snippet,
        score=0.0,
        span=span,
        content_hash=content_hash.lower(),
    )


def _hits(text: bytes) -> list[Hit]:
    """The citations of a query's answer; all else in it is left aside."""
    try:
        answer = json.loads(text)
        if isinstance(answer, dict) and "error" in answer:
            raise InputError("The query that was piped in had failed", mend=_MEND)
        return [
            _hit(each["source_id"], str(each["span"]["start"]), str(each["span"]["end"]), each["content_hash"])
            for each in answer["hits"]
        ]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError, click.UsageError) as error:
        raise InputError("Standard input is not the answer of a query", mend=_MEND) from error


def _with_source_id(service: KnowledgeService, hit: Hit) -> Hit:
    """People may name a document by its frontmatter id."""
    try:
        return hit.model_copy(update={"source_id": service.resolve_id(hit.source_id)})
    except KnowledgeError:
        return hit  # `verify` says `gone`, or what else is the matter
