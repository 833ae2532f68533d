"""`tools`: the tools of a library as the configuration of an app, or of a model, wants them."""

from __future__ import annotations

from typing import Any

import click

from knowledge_engine.cli.output import write, write_json
from knowledge_engine.cli.session import Session, Text, json_option

_TEMPLATE = "ai-template"


class Topic(Text):
    """A tool and its topic."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """`(tool, topic)`.

        Raises:
            click.BadParameter: For anything but `TOOL=TOPIC`.
        """
        tool, _, topic = super().convert(value, param, ctx).partition("=")
        if not tool.strip() or not topic.strip():
            self.fail("Write TOOL=TOPIC such as list=app_knowledge.list.", param, ctx)
        return tool.strip(), topic.strip()


class Tools(Text):
    """Names of tools."""

    name = "tools"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The names.

        Raises:
            click.BadParameter: When there is none.
        """
        names = tuple(name for each in super().convert(value, param, ctx).split(",") if (name := each.strip()))
        if not names:
            self.fail("Name some, such as list,get,query.", param, ctx)
        return names


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice([_TEMPLATE, "openai", "anthropic", "json-schema"]),
    default=_TEMPLATE,
    help="YAML blocks for an ai-template (default), or a JSON array for a model's API.",
)
@click.option("--tools", "chosen", type=Tools(), metavar="NAME,...", help="Which tools. Default: list,get.")
@click.option(
    "--topic",
    "topics",
    type=Topic(),
    metavar="TOOL=TOPIC",
    multiple=True,
    help="The topic of a tool in an ai-template, in place of app_knowledge.TOOL; repeatable.",
)
@click.option("--guidance", is_flag=True, help="Print what belongs into the agents' prompt, and nothing else.")
@json_option
@click.pass_context
def tools(
    ctx: click.Context,
    form: str,
    chosen: tuple[str, ...] | None,
    topics: tuple[tuple[str, str], ...],
    guidance: bool,
) -> None:
    """Print the tools list_device_knowledge and get_device_knowledge (query_device_knowledge on request) to paste.

    With --json the blocks of an ai-template come as JSON: the tools by name, and the guidance for prompts.
    """
    from knowledge_engine.agent_tools.templates import (
        DEFAULT_TOOLS,
        GUIDANCE,
        device_tool_specs,
        template_blocks,
        tool_template,
    )

    session = ctx.find_object(Session) or Session()
    names, renamed = chosen or DEFAULT_TOOLS, dict(topics)
    if renamed and form != _TEMPLATE:
        raise click.UsageError(f"--topic has no place in --format {form}: only an {_TEMPLATE} has topics.", ctx)
    if form != _TEMPLATE:
        answer: Any = device_tool_specs(form, names)
    else:
        answer = {"tools": template_blocks(names, renamed), "guidance": GUIDANCE}
    if guidance and session.json:
        write_json({"guidance": GUIDANCE})
    elif guidance:
        write(GUIDANCE)
    elif session.json or form != _TEMPLATE:
        write_json(answer)
    else:
        write(tool_template(names, renamed).rstrip("\n"))
