"""What one run of the command line has in common: its options, its backend, how it speaks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from knowledge_engine.cli.plugin_commands import PluginCommands
    from knowledge_engine.service import KnowledgeService

_Command = TypeVar("_Command", bound=Callable[..., Any] | click.Command)


@dataclass
class Session:
    """`ctx.obj` of every command, those of plugins too."""

    backend: str | None = None
    json: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    #: The plugins' root options that were given, by name without dashes: text, or True for a flag.
    options: dict[str, str | bool] = field(default_factory=dict)
    _service: KnowledgeService | None = None
    _plugin_commands: PluginCommands | None = None

    def plugin_commands(self, reserved: Collection[str], reserved_options: Collection[str]) -> PluginCommands:
        """The commands and root options of plugins, found once; reserved names are not theirs to take."""
        if self._plugin_commands is None:
            from knowledge_engine.cli.plugin_commands import find_commands

            self._plugin_commands = find_commands(reserved, reserved_options)
        return self._plugin_commands

    def service(self) -> KnowledgeService:
        """The service over the backend that the user named; opened once, and fresh at every answer."""
        if self._service is None:
            from knowledge_engine.bootstrap import open_knowledge

            self._service = open_knowledge(self.backend, environ=self.environ)
        return self._service

    @property
    def typed(self) -> str:
        """The backend as the user named it, without secrets."""
        from knowledge_engine.redaction import redact_url
        from knowledge_engine.settings import EngineSettings

        return redact_url(self.backend or EngineSettings.from_env(self.environ).backend)

    def check_readable(self) -> None:
        """To be asked where nothing was found: there may be nothing to look in, such as a mistyped folder.

        A backend says so by `unreadable` in the details of its health: why, and what to do.

        Raises:
            ConfigurationError: Naming the backend as the user did.
        """
        why = self.service().provider.health_check().details.get("unreadable")
        if why:
            from knowledge_engine.errors import ConfigurationError

            raise ConfigurationError(f"Nothing can be read from {self.typed}", mend=str(why))

    @property
    def opened(self) -> KnowledgeService | None:
        """The service, if it was opened by now."""
        return self._service

    def close(self) -> None:
        """Lets go of the backend, if it was opened."""
        if self._service is not None:
            self._service.dispose()
            self._service = None


def json_option(command: _Command) -> _Command:
    """`--json`; it may stand before the command's name or after it."""
    return click.option("--json", is_flag=True, expose_value=False, callback=_keep("json"), help="Answer in JSON.")(
        command
    )


def common_options(command: _Command) -> _Command:
    """`--backend` and `--json`; they may stand before the command's name or after it."""
    return click.option(
        "--backend",
        metavar="NAME|URL",
        expose_value=False,
        callback=_keep("backend"),
        help="Where the documents are, such as files:DIR. Default: $KNOWLEDGE_BACKEND, else files.",
    )(json_option(command))


def _keep(attribute: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def callback(ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value:
            setattr(ctx.ensure_object(Session), attribute, value)

    return callback


class Text(click.ParamType[str]):
    """Text of the command line: UTF-8 whatever the locale, and never a lone surrogate."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        """Undoes the locale's decoding."""
        return utf8(value)


def utf8(text: str) -> str:
    """An argument of the process as the UTF-8 that it was typed in; other bytes are replaced.

    >>> utf8("k\\udcc3\\udca4se"), utf8("\\udcff"), utf8("\\ud800")
    ('käse', '\ufffd', '?')
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()


class Finite(click.ParamType[float]):
    """A number, not `nan` nor infinite; not below `least`."""

    name = "number"

    def __init__(self, least: float = -sys.float_info.max) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """A float in that range.

        Raises:
            click.BadParameter: For anything else.
        """
        number: float = click.FLOAT.convert(value, param, ctx)
        if not self._least <= number <= sys.float_info.max:
            self.fail(f"{value!r} is out of range.", param, ctx)
        return number


def use_utf8() -> None:
    """Makes standard output and error speak UTF-8 in every locale."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
