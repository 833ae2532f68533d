"""The files of a bundle that are no concepts: an index at each level, and the log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from knowledge_okf.concept_files import link_text
from knowledge_okf.models import DEPRECATED, OKF_VERSION

_HEAD = f'---\nokf_version: "{OKF_VERSION}"\n---\n'
_DAY = re.compile(r"^## (\d{4}-\d{2}-\d{2})[ \t]*\r?\n", re.MULTILINE)
#: Longer lists of names in the log are cut.
_MAX_NAMED = 20


class Listed(NamedTuple):
    """What an index says of a concept."""

    path: str
    title: str
    description: str
    status: str


def render_indexes(title: str, concepts: Iterable[Listed]) -> dict[str, bytes]:
    """The `index.md` of each folder that a concept is in or below, by path; each links what is in it, and down.

    Concepts stand in the order given.

    Links are relative, so that they hold in every viewer.
    """
    here: dict[str, list[Listed]] = {"": []}
    below: dict[str, dict[str, int]] = {"": {}}
    for concept in concepts:
        folder = concept.path.rpartition("/")[0]
        here.setdefault(folder, []).append(concept)
        _count(below, folder)
    out = {}
    for folder in sorted(below):
        name = f"{folder}/index.md" if folder else "index.md"
        out[name] = _index(folder, title, here.get(folder, []), below[folder])
    return out


def _count(below: dict[str, dict[str, int]], folder: str) -> None:
    """Notes one more concept in each folder above."""
    below.setdefault(folder, {})
    while folder:
        above, _, name = folder.rpartition("/")
        inside = below.setdefault(above, {})
        inside[name] = inside.get(name, 0) + 1
        folder = above


def _index(folder: str, title: str, concepts: list[Listed], folders: dict[str, int]) -> bytes:
    out = [] if folder else [_HEAD]
    head = folder.rpartition("/")[2] if folder else title
    live = [each for each in concepts if each.status != DEPRECATED]
    old = [each for each in concepts if each.status == DEPRECATED]
    out.append(_section(link_text(head) or "Concepts", map(_line, live)))
    if folders:
        out.append(_section("Folders", (_folder(name, count) for name, count in sorted(folders.items()))))
    if old:
        out.append(_section("Deprecated", map(_line, old)))
    return "\n".join(out).encode()


def _section(head: str, lines: Iterable[str]) -> str:
    return f"# {head}\n\n{''.join(lines)}"


def _line(concept: Listed) -> str:
    name = concept.path.rpartition("/")[2]
    said = " ".join(concept.description.split())
    return f"* [{link_text(concept.title) or link_text(name[:-3])}]({quote(name)}){f' - {said}' if said else ''}\n"


def _folder(name: str, count: int) -> str:
    return f"* [{link_text(name)}]({quote(name)}/index.md) - {count} concept{'' if count == 1 else 's'}\n"


def log_entry(log: bytes, day: str, kind: str, text: str) -> bytes:
    """The log with one more entry, the newest on top; what else stands in it stays.

    Args:
        log: As it is; empty for none yet.
        day: YYYY-MM-DD.
        kind: `Creation`, `Update`, ...
        text: On one line.
    """
    line = f"* **{kind}**: {' '.join(text.split())}\n"
    old = log.decode("utf-8", "replace")
    found = _DAY.search(old)
    if found and found[1] == day:
        end = found.end()
        # The blank line below a heading stays there.
        end += 1 if old.startswith("\n", end) else 0
        return f"{old[:end]}{line}{old[end:]}".encode()
    if found:
        return f"{old[: found.start()]}## {day}\n\n{line}\n{old[found.start() :]}".encode()
    gap = "" if not old or old.endswith("\n\n") else "\n" if old.endswith("\n") else "\n\n"
    return f"{old}{gap}## {day}\n\n{line}".encode()


def named(paths: Iterable[str]) -> str:
    """Some names in a row, and how many more there are."""
    every = list(paths)
    rest = f" and {len(every) - _MAX_NAMED} more" if len(every) > _MAX_NAMED else ""
    return f"{', '.join(every[:_MAX_NAMED])}{rest}"
