"""Finding plugins by metadata alone, and loading one of them by name: a broken one breaks only itself."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from knowledge_engine.errors import BrokenPluginError, KnowledgeError

if TYPE_CHECKING:
    import pluggy

_UNNAMED = "an unnamed distribution"
_SECTION = re.compile(r"\[\s*(?P<group>[^\]]*?)\s*\]")
_ABSOLUTE_PATH = re.compile(r"\(?(?<!\w)(?:[A-Za-z]:)?[/\\][^\s'\"()]+\)?")


class PluginName(NamedTuple):
    """A name found in a distribution's metadata. Nothing of the plugin is imported."""

    group: str
    name: str
    target: str
    distribution: str
    version: str


class Plugin:
    """A loaded plugin module: its hooks, and whose it is."""

    def __init__(self, found: PluginName, manager: pluggy.PluginManager) -> None:
        self.found = found
        self._manager = manager

    def __repr__(self) -> str:
        return f"<Plugin {self.found.name!r} of {self.found.distribution}>"

    def require(self, hook: str) -> None:
        """Checks that the plugin has a hook.

        Raises:
            BrokenPluginError: When it has not.
        """
        if not getattr(self._manager.hook, hook).get_hookimpls():
            raise self.broken(
                f"has no hook {hook!r}", mend="Define it, marked with knowledge_engine.hookspecs.hookimpl."
            )

    def call(self, hook: str, **arguments: object) -> Any:
        """What the plugin's hook returns.

        Raises:
            BrokenPluginError: When it has no such hook, lacks an import, or fails otherwise. Messages name the kind of
                the failure only, as the arguments may hold secrets.
            KnowledgeError: As raised by the hook.
        """
        self.require(hook)
        try:
            return getattr(self._manager.hook, hook)(**arguments)
        except KnowledgeError:
            raise
        except ImportError as error:
            lacking = f"lacks the module {error.name!r}" if error.name else "cannot import what it needs"
            raise self.broken(lacking, mend="Install it anew, with its extras.") from error
        except Exception as error:
            raise self.broken(f"failed in {hook!r} ({type(error).__name__})") from error

    def broken(self, what: str, *, mend: str = "") -> BrokenPluginError:
        """The error to raise for this plugin."""
        return _broken(self.found, what, mend=mend)


def find_plugins(group: str) -> dict[str, tuple[PluginName, ...]]:
    """All names of a group, in order, each with everyone that claims it. Imports no plugin."""
    claims: dict[str, dict[PluginName, None]] = {}
    for found in _scan(group):
        claims.setdefault(found.name, {})[found] = None
    return {name: tuple(claims[name]) for name in sorted(claims)}


def load_plugin(claims: tuple[PluginName, ...]) -> Plugin:
    """Imports the one module that claims a name, alone, and checks its hooks.

    Raises:
        BrokenPluginError: When several distributions claim the name, the module does not import, or a hook of it is
            misspelt.
    """
    import pluggy

    from knowledge_engine import hookspecs

    found, *others = claims
    if others:
        owners = ", ".join(f"{claim.distribution} ({claim.target})" for claim in claims)
        raise BrokenPluginError(
            f"The name {found.name!r} in {found.group!r} is claimed more than once: by {owners}",
            mend="Uninstall all but one of them.",
        )
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        module = importlib.metadata.EntryPoint(found.name, found.target, found.group).load()
        manager.register(module, name=found.name)
    except (Exception, SystemExit) as error:  # importing runs a stranger's code
        raise _broken(found, f"does not load: {_one_line(error)}") from error
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        known = [name for name in vars(hookspecs) if name.startswith("knowledge_")]
        unknown = ", ".join(sorted(repr(name) for name in vars(manager.hook) if name not in known))
        raise _broken(found, f"has unknown hooks: {unknown}. Known are: {', '.join(known)}") from error
    return Plugin(found, manager)


def _broken(found: PluginName, what: str, *, mend: str = "") -> BrokenPluginError:
    return BrokenPluginError(
        f"The plugin {found.name!r} of {found.distribution} {what}",
        mend=mend or f"Update or uninstall {found.distribution}.",
    )


def _one_line(error: BaseException) -> str:
    text = _ABSOLUTE_PATH.sub("", f"{type(error).__name__}: {error}")
    return " ".join(text.split())[:300]


def _scan(group: str) -> Iterator[PluginName]:
    # `importlib.metadata.entry_points` parses every file, and one malformed file stops it.
    owners: set[str] = set()
    for distribution in importlib.metadata.distributions():
        try:
            text = distribution.read_text("entry_points.txt")
        except (OSError, UnicodeDecodeError):
            continue
        if not text or group not in text:
            continue
        owner, version = _identity(distribution)
        # A source folder on the path and its installed copy are one distribution: the first on the path counts.
        normalized = re.sub(r"[-_.]+", "-", owner).lower()
        if normalized in owners and owner != _UNNAMED:
            continue
        owners.add(normalized)
        for name, target in _entries(text, group):
            yield PluginName(group, name, target, owner, version)


def _entries(text: str, group: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if match := _SECTION.fullmatch(line):
            section = match["group"]
        elif section == group and not line.startswith(("#", ";")):
            name, equals, target = (part.strip() for part in line.partition("="))
            if name and equals:
                yield name, target


def _identity(distribution: importlib.metadata.Distribution) -> tuple[str, str]:
    try:
        metadata = distribution.metadata
        return metadata["Name"] or _UNNAMED, metadata["Version"] or ""
    except Exception:  # missing or undecodable METADATA: each Python raises something else
        return _UNNAMED, ""
