"""Text for people: escape sequences made harmless, colours and tables only on a terminal."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click

from knowledge_engine.cli.session import Session

# C0 but tab and newline, DEL, C1, lone surrogates, and what reorders or breaks lines unseen.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Screen(NamedTuple):
    """How to write to standard output."""

    terminal: bool
    color: bool

    @classmethod
    def of(cls, session: Session) -> Screen:
        """Whether it is a terminal, and takes colours."""
        from knowledge_engine.settings import EngineSettings

        terminal = bool(sys.stdout) and sys.stdout.isatty()
        return cls(terminal, terminal and EngineSettings.from_env(session.environ).color)

    def bold(self, text: str) -> str:
        """`text`, bold where there are colours."""
        return f"\x1b[1m{text}\x1b[0m" if self.color else text

    def dim(self, text: str) -> str:
        """`text`, faint where there are colours."""
        return f"\x1b[2m{text}\x1b[0m" if self.color else text


def harmless(text: str) -> str:
    """`text` with control characters shown as symbols (or U+FFFD), so that none acts on a terminal.

    >>> harmless("\\x1b[2J and\\r\\nmore")
    '␛[2J and\\nmore'
    """
    return _CONTROLS.sub(_symbol, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """`text` made harmless, on one line."""
    return " ".join(harmless(text).split())


def copyable(text: str) -> str:
    """An id or a path as it has to be typed: with blanks that nobody would see, in quotes.

    >>> copyable("my notes.md"), copyable(" a.md")
    ('my notes.md', "' a.md'")
    """
    shown = _flat(text)
    return shown if text == " ".join(text.split()) else shlex.quote(shown)


def _flat(text: str) -> str:
    """`text` made harmless, on one line, with all its blanks."""
    return harmless(text).replace("\n", "␊").replace("\t", "␉")


def write(text: str) -> None:
    """Prints exactly `text` and a newline."""
    click.echo(text, color=True)


def note(text: str) -> None:
    """Prints to standard error what is no result: a warning, a hint."""
    click.echo(one_line(text), err=True)


def write_json(value: object) -> None:
    """Prints a JSON value, or a model of pydantic, as strict JSON."""
    import json

    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        write(value.model_dump_json(indent=2))
    else:
        write(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2))


def write_table(headers: Sequence[str], rows: Iterable[Sequence[str]], screen: Screen) -> None:
    """Prints rows under their headers; on a terminal as wide as it is, where rich is installed.

    The first column is for names, whose blanks stay, see `copyable`.
    """
    cells = [[_flat(name), *map(one_line, rest)] for name, *rest in rows]
    if screen.terminal and _draw_table(headers, cells, screen):
        return
    lines = [list(headers), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    for line in lines:
        write("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _draw_table(headers: Sequence[str], rows: Iterable[Sequence[str]], screen: Screen) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(*headers, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*map(Text, row))
    width = shutil.get_terminal_size().columns
    Console(file=sys.stdout, force_terminal=screen.color, no_color=not screen.color, width=width).print(table)
    return True


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"
