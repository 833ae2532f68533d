"""Finding plugins by metadata alone, and loading one of them by name: a broken one breaks only itself."""

from __future__ import annotations

import importlib.metadata
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from knowledge_engine.errors import BrokenPluginError, KnowledgeError
from knowledge_engine.groups import GROUPS
from knowledge_engine.redaction import Secrets

if TYPE_CHECKING:
    import pluggy

_Item = TypeVar("_Item")
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

    def has(self, hook: str) -> bool:
        """Whether the plugin implements a hook."""
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def require(self, hook: str) -> None:
        """Checks that the plugin has a hook.

        Raises:
            BrokenPluginError: When it has not.
        """
        if not self.has(hook):
            raise self.broken(
                f"has no hook {hook!r}", mend="Define it, marked with knowledge_engine.hookspecs.hookimpl."
            )

    def call(self, hook: str, *, secrets: Secrets | None = None, **arguments: object) -> Any:
        """What the plugin's hook returns.

        No error that leaves shows one of `secrets`, nor do the errors that it was caused by.

        Raises:
            BrokenPluginError: When it has no such hook, lacks an import, or fails otherwise. Messages name the kind of
                the failure only, as the arguments may hold secrets.
            KnowledgeError: As raised by the hook.
        """
        self.require(hook)
        return self.guard(lambda: getattr(self._manager.hook, hook)(**arguments), f"in {hook!r}", secrets)

    def guard(self, run: Callable[[], Any], where: str, secrets: Secrets | None = None) -> Any:
        """Runs something of the plugin's, under the promises of `call`."""
        try:
            return run()
        except (Exception, SystemExit) as error:
            failure = self._failure(error, where, secrets or Secrets())
        # Out here, so that it is not chained to what it replaces.
        raise failure

    def _failure(self, error: Exception | SystemExit, where: str, secrets: Secrets) -> Exception:
        failure = error if isinstance(error, KnowledgeError) else self._wrapped(error, where)
        return secrets.scrub(failure) or self.broken(f"failed {where}, and its message held a secret")

    def _wrapped(self, error: Exception | SystemExit, where: str) -> BrokenPluginError:
        if isinstance(error, ImportError):
            lacking = f"lacks the module {error.name!r}" if error.name else "cannot import what it needs"
            failure = self.broken(lacking, mend="Install it anew, with its extras.")
        else:
            failure = self.broken(f"failed {where} ({type(error).__name__})")
        failure.__cause__ = error
        return failure

    def broken(self, what: str, *, mend: str = "") -> BrokenPluginError:
        """The error to raise for this plugin."""
        return _broken(self.found, what, mend=mend)


def find_plugins(group: str) -> dict[str, tuple[PluginName, ...]]:
    """All names of a group, in order, each with everyone that claims it. Imports no plugin."""
    claims: dict[str, dict[PluginName, None]] = {}
    for found in _scan(group):
        claims.setdefault(found.name, {})[found] = None
    return {name: tuple(claims[name]) for name in sorted(claims)}


class Misplaced(NamedTuple):
    """A name under a group that there is not, and the group that was probably meant."""

    found: PluginName
    meant: str


def find_misplaced() -> Iterator[Misplaced]:
    """Names whose group is one letter or so away from one of ours. Imports no plugin."""
    for found in _scan(None):
        near = get_close_matches(found.group, GROUPS, n=1, cutoff=0.85)
        if near and found.group not in GROUPS:
            yield Misplaced(found, near[0])


@dataclass
class Loaded:
    """The plugins of a group that load, and what is wrong with the others, an error each."""

    plugins: list[Plugin] = field(default_factory=list)
    problems: list[KnowledgeError] = field(default_factory=list)


def load_group(group: str) -> Loaded:
    """Loads every plugin of a group, each alone. Never raises for one that is broken."""
    loaded = Loaded()
    for claims in find_plugins(group).values():
        try:
            loaded.plugins.append(load_plugin(claims))
        except BrokenPluginError as error:
            loaded.problems.append(error)
    return loaded


@dataclass
class Collected(Generic[_Item]):
    """What the plugins of a group bring, by name, and what is wrong with the rest."""

    items: dict[str, _Item] = field(default_factory=dict)
    problems: list[KnowledgeError] = field(default_factory=list)


def collect(
    plugins: Sequence[Plugin],
    read: Callable[[Plugin], Iterable[tuple[str, _Item]]],
    what: str,
    *,
    reserved: Collection[str] = (),
    clash: Callable[[str, str], bool] = operator.eq,
) -> Collected[_Item]:
    """What each plugin brings, as `read` has it. A plugin that cannot be read breaks only itself.

    Of two names that clash neither counts; one that clashes with a name of `reserved` does not count either.
    """
    collected: Collected[_Item] = Collected()
    brought: list[tuple[str, _Item, Plugin]] = []
    for plugin in plugins:
        try:
            brought += plugin.guard(lambda: [(*each, plugin) for each in read(plugin)], f"in naming each {what}")  # noqa: B023
        except KnowledgeError as error:
            collected.problems.append(error)
    for index, (name, item, plugin) in enumerate(brought):
        before = [each.found.distribution for other, _, each in brought[:index] if clash(name, other)]
        if any(clash(name, other) for other in reserved):
            collected.problems.append(plugin.broken(f"brings a {what} {name!r}, which there is already"))
        elif before:
            collected.problems.append(plugin.broken(f"brings a {what} {name!r}, and so does {before[0]}"))
        elif not any(clash(name, other) for other, _, _ in brought[index + 1 :]):
            collected.items[name] = item
    return collected


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
    import pluggy

    if not isinstance(error, ImportError | SyntaxError | AttributeError | pluggy.PluginValidationError):
        return type(error).__name__  # the message may quote what it read of the environment
    text = _ABSOLUTE_PATH.sub("", f"{type(error).__name__}: {error}")
    return " ".join(text.split())[:300]


def _scan(group: str | None) -> Iterator[PluginName]:
    # `importlib.metadata.entry_points` parses every file, and one malformed file stops it.
    owners: set[str] = set()
    for distribution in importlib.metadata.distributions():
        try:
            text = distribution.read_text("entry_points.txt")
        except (OSError, UnicodeDecodeError):
            continue
        if not text or (group or "knowledge") not in text:
            continue
        owner, version = _identity(distribution)
        # A source folder on the path and its installed copy are one distribution: the first on the path counts.
        normalized = re.sub(r"[-_.]+", "-", owner).lower()
        if normalized in owners and owner != _UNNAMED:
            continue
        owners.add(normalized)
        for section, name, target in _entries(text):
            if group in (None, section):
                yield PluginName(section, name, target, owner, version)


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if match := _SECTION.fullmatch(line):
            section = match["group"]
        elif not line.startswith(("#", ";")):
            name, equals, target = (part.strip() for part in line.partition("="))
            if name and equals:
                yield section, name, target


def _identity(distribution: importlib.metadata.Distribution) -> tuple[str, str]:
    try:
        metadata = distribution.metadata
        return metadata["Name"] or _UNNAMED, metadata["Version"] or ""
    except Exception:  # missing or undecodable METADATA: each Python raises something else
        return _UNNAMED, ""
