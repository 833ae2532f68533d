"""`skill`: a folder that teaches an agent to use a library."""

from __future__ import annotations

import click

from knowledge_engine.cli.output import copyable, note, write, write_json
from knowledge_engine.cli.session import Session, Text, common_options


@click.command()
@click.argument("folder", metavar="DIR", type=Text())
@click.option(
    "--about", default="", type=Text(), metavar="TEXT", help="What the library is about: agents choose a skill by that."
)
@click.option("--no-documents", "bare", is_flag=True, help="Do not name the documents in it.")
@common_options
@click.pass_context
def skill(ctx: click.Context, folder: str, about: str, bare: bool) -> None:
    """Write an Agent Skill into DIR, such as .claude/skills/manuals: SKILL.md, and what it refers to.

    Written again, it is brought up to date; files that are not its own, or were changed, are left alone.
    """
    from knowledge_mcp.skill import write_skill

    session = ctx.find_object(Session) or Session()
    typed = session.backend
    if typed is not None and typed != session.typed:
        note("The backend's address holds a secret, which a skill must not: set KNOWLEDGE_BACKEND for the agent.")
        typed = None
    session.check_readable()
    files = write_skill(folder, session.service(), backend=typed, about=about, documents=not bare)
    if session.json:
        write_json({"folder": folder, "files": files})
        return
    for path in files:
        write(f"written: {copyable(f'{folder}/{path}')}")
    if not about:
        note("Say with --about what the library is about: agents choose a skill by that.")
