"""`serve`: a command for each installed transport, whose options are the transport's settings."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from knowledge_engine.backends import list_knowledge_transports
from knowledge_engine.cli.session import Session, Text, json_option
from knowledge_engine.plugin_settings import SettingInfo
from knowledge_engine.transports import KnowledgeTransport, find_transport

_BACKENDS = "backends"
#: A server answers often: it need not look at every file for each answer.
_FRESH_FOR_S = 1.0


class ServeGroup(click.Group):
    """The transports by name. Naming one loads its light module; nothing heavy is imported before it serves."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The installed ones."""
        return [each.slug for each in list_knowledge_transports(environ=_session(ctx).environ) if each.installed]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that transport; None only where nobody is told."""
        if ctx.resilient_parsing and cmd_name not in self.list_commands(ctx):
            return None
        return _command(find_transport(cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The installed ones with what they do, then those that could be, and those that are broken."""
        found = list_knowledge_transports(environ=_session(ctx).environ)
        rows = [(each.slug, each.description) for each in found if each.installed and not each.problem]
        with formatter.section("Transports"):
            formatter.write_dl(rows) if rows else formatter.write_text("None is installed.")
        others = [(each.slug, each.mend) for each in found if not each.installed]
        if others:
            with formatter.section("Not installed"):
                formatter.write_dl(others)
        for each in found:
            if each.problem:
                formatter.write_paragraph()
                formatter.write_text(f"Not available: {each.problem}. {each.mend}")


@click.group(cls=ServeGroup)
@json_option
def serve() -> None:
    """Serve one or several backends to others, until interrupted."""


def _command(transport: KnowledgeTransport) -> click.Command:
    settings = {name: setting for name, setting in transport.settings().items() if not setting.secret}
    variables = [setting.name for setting in transport.settings().values() if setting.secret]
    note = f"\n\nFrom the environment only, as they are secret: {', '.join(variables)}." if variables else ""
    backend = click.Option(
        ["--backend", _BACKENDS],
        multiple=True,
        metavar="[NAME=]BACKEND",
        type=Text(),
        help="A backend's name or URL, and what to call it; repeatable. Default: $KNOWLEDGE_BACKEND, else files.",
    )
    command = click.Command(
        transport.slug,
        callback=partial(_serve, transport),
        params=[backend, *(_option(name, setting) for name, setting in settings.items())],
        help=f"{transport.description or transport.name}{note}",
    )
    return json_option(command)


def _option(name: str, setting: SettingInfo) -> click.Option:
    default = f" Default: {setting.default}." if setting.default is not None else ""
    return click.Option(
        [f"--{name.replace('_', '-')}", f"setting_{name}"],
        is_flag=setting.flag,
        default=None,
        type=None if setting.flag else Text(),
        help=f"{setting.description.rstrip('.')}.{default} [{setting.name}]",
    )


def _serve(transport: KnowledgeTransport, /, **values: Any) -> None:
    from knowledge_engine.bootstrap import open_services

    session = _session(click.get_current_context())
    names = values.pop(_BACKENDS) or [session.backend]
    settings = {name.removeprefix("setting_"): value for name, value in values.items()}
    opening = open_services(names, environ=session.environ, fresh_for_s=_FRESH_FOR_S)
    with transport.prepared() as prepared, opening as services:
        transport.serve(services, prepared, environ=session.environ, **settings)


def _session(ctx: click.Context) -> Session:
    return ctx.ensure_object(Session)
