"""What plugins add to a host: web applications, tools for agents, panels of the page."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from knowledge_engine.errors import KnowledgeError
from knowledge_engine.groups import EXTENSIONS
from knowledge_engine.plugins import Collected, Plugin, collect, load_group
from knowledge_engine.redaction import Secrets, is_secret_variable

if TYPE_CHECKING:
    from knowledge_engine.service import KnowledgeService

SCOPES = ("read", "write", "admin")

_PATH = re.compile(r"(/[\w.~-]+)+", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Mount:
    """A web application below a path, see `hookspecs.knowledge_mounts`."""

    prefix: str
    scope: str
    app: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool for agents, see `hookspecs.knowledge_agent_tools`."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    scope: str
    call: Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PagePanel:
    """A panel of the web page, see `hookspecs.knowledge_page_panels`."""

    name: str
    title: str
    module: str
    scope: str


@dataclass(frozen=True, slots=True)
class Extensions:
    """What all extensions bring, by prefix or name, and what is wrong with those that bring less."""

    mounts: Mapping[str, Mount] = field(default_factory=dict)
    agent_tools: Mapping[str, AgentTool] = field(default_factory=dict)
    page_panels: Mapping[str, PagePanel] = field(default_factory=dict)
    problems: tuple[KnowledgeError, ...] = ()


_Item = TypeVar("_Item", Mount, AgentTool, PagePanel)


def collect_extensions(
    services: Mapping[str, KnowledgeService],
    *,
    environ: Mapping[str, str] | None = None,
    reserved: Collection[str] = (),
) -> Extensions:
    """Loads each extension's light module and asks it what it brings for these services.

    An extension that fails costs only what it would have brought there. Of two that bring the same name, or one prefix
    within the other, neither counts.

    Args:
        services: What is being served, by the names of their backends.
        environ: The extensions' settings; by default the process's environment.
        reserved: Prefixes, and names of tools and panels, that are the host's own.
    """
    variables = dict(os.environ if environ is None else environ)
    secrets = Secrets(value for name, value in variables.items() if is_secret_variable(name))
    loaded = load_group(EXTENSIONS)

    def bring(hook: str, kind: type[_Item], key: str, what: str) -> Collected[_Item]:
        def read(plugin: Plugin) -> Iterator[tuple[str, _Item]]:
            if plugin.has(hook):
                stated = plugin.call(hook, secrets=secrets, services=dict(services), environ=dict(variables))
                for item in _items(plugin, hook, stated, kind):
                    yield getattr(item, key), item

        return collect(loaded.plugins, read, what, reserved=reserved, clash=_overlap)

    mounts = bring("knowledge_mounts", Mount, "prefix", "mount")
    tools = bring("knowledge_agent_tools", AgentTool, "name", "tool")
    panels = bring("knowledge_page_panels", PagePanel, "name", "panel")
    problems = (*loaded.problems, *mounts.problems, *tools.problems, *panels.problems)
    return Extensions(mounts.items, tools.items, panels.items, problems)


def _overlap(one: str, other: str) -> bool:
    """Whether two names are one, or two paths lie one within the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _items(plugin: Plugin, hook: str, stated: object, kind: type[_Item]) -> Iterator[_Item]:
    if isinstance(stated, str) or not isinstance(stated, Sequence):
        raise plugin.broken(f"returns a {type(stated).__name__} from {hook!r}, not a sequence")
    for index, each in enumerate(stated):
        if problem := _problem(each, kind):
            raise plugin.broken(f"brings something wrong in {hook!r}: {index}: {problem}")
        yield kind(**each)


def _is_path(value: object) -> bool:
    return isinstance(value, str) and bool(_PATH.fullmatch(value)) and not {".", ".."} & set(value.split("/"))


_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "prefix": (_is_path, "a path such as /api/things"),
    "module": (_is_path, "a path such as /api/things/panel.js"),
    "name": (lambda value: isinstance(value, str) and bool(_NAME.fullmatch(value)), "letters, digits, _ and -"),
    "title": (lambda value: isinstance(value, str), "text"),
    "description": (lambda value: isinstance(value, str), "text"),
    "scope": (lambda value: value in SCOPES, f"one of {', '.join(SCOPES)}"),
    "parameters": (lambda value: isinstance(value, Mapping), "a mapping"),
    "app": (callable, "a callable"),
    "call": (callable, "a callable"),
}


def _problem(stated: object, kind: type) -> str:
    if not isinstance(stated, Mapping):
        return f"it is a {type(stated).__name__}, not a mapping"
    wanted = {each.name for each in fields(kind)}
    if odd := wanted ^ set(stated):
        return (
            f"it should have exactly the keys {', '.join(sorted(wanted))}; look at {', '.join(sorted(map(str, odd)))}"
        )
    wrong = [key for key in wanted if not _CHECKS[key][0](stated[key])]
    return f"{wrong[0]} is not {_CHECKS[wrong[0]][1]}" if wrong else ""
