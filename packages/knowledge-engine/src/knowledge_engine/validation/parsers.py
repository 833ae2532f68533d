"""The snippet validators that are there by default: they only parse; nothing is built, resolved or run."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingStartEvent,
    NodeEvent,
)

#: How deep values may nest; applications read by recursion.
MAX_DEPTH: Final = 100
#: How many values the aliases of a snippet may stand for.
MAX_EXPANDED: Final = 100_000
_MAX_FOUND: Final = 20
_TOML_LINE = re.compile(r" \(at (?:line ([0-9]+), column [0-9]+|end of document)\)\Z")


class SnippetError(NamedTuple):
    """What is wrong, and where: a 1-based line of the snippet, 0 where none can be named."""

    line: int
    message: str


def check_json(text: str) -> list[SnippetError]:
    """Strict JSON: no `NaN`, and no key twice in one object."""
    try:
        json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_key_twice)
    except json.JSONDecodeError as error:
        return [SnippetError(error.lineno, f"This is not JSON: {error.msg}")]
    except ValueError as error:
        return [SnippetError(0, f"This is not JSON: {error}")]
    except RecursionError:
        return [_too_deep(0)]
    return []


def check_toml(text: str) -> list[SnippetError]:
    """TOML 1.0."""
    try:
        tomllib.loads(text)
    except ValueError as error:  # also what Python makes of a number with thousands of digits
        message = str(error)
        place = _TOML_LINE.search(message)
        line = int(place[1] or text.count("\n")) if place else 0
        return [SnippetError(line, f"This is not TOML: {message[: place.start()] if place else message}")]
    except RecursionError:
        return [_too_deep(0)]
    return []


def check_yaml(text: str) -> list[SnippetError]:
    """YAML, also several documents in one.

    Tags such as `!secret` are taken as they are: what they mean is the application's matter. Aliases are followed only
    by counting. A key that stands twice in a mapping is an error, other than the merge key.
    """
    checks = _YamlChecks()
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if not checks.take(event):
                break
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        checks.found.append(SnippetError(mark.line + 1 if mark else 0, f"This is not YAML: {problem}"))
    return checks.found


DEFAULT_CHECKS: Final[Mapping[str, Callable[[str], list[SnippetError]]]] = MappingProxyType(
    {"json": check_json, "toml": check_toml, "yaml": check_yaml}
)


class _Collection:
    """An open mapping or list."""

    def __init__(self, anchor: str | None, *, mapping: bool) -> None:
        self.anchor = anchor
        #: Keys so far; None in a list.
        self.keys: set[str] | None = set() if mapping else None
        self.at_key = mapping
        #: Values that it stands for, itself included.
        self.size = 1


class _YamlChecks:
    """What events show beyond the grammar. Needs no recursion."""

    def __init__(self) -> None:
        self.found: list[SnippetError] = []
        self._open: list[_Collection] = []
        #: For each anchor, how many values it stands for.
        self._sizes: dict[str, int] = {}
        self._expanded = 0

    def take(self, event: Any) -> bool:
        """Looks at one event; False when the rest is not worth a look."""
        before = len(self.found)
        line = event.start_mark.line + 1
        if isinstance(event, DocumentStartEvent):
            self._sizes = {}
        elif isinstance(event, CollectionEndEvent):
            self._end()
        elif isinstance(event, NodeEvent):
            self._begin(event, line)
        new = self.found[before:]
        return len(self.found) < _MAX_FOUND and not any(each.message in _FATAL for each in new)

    def _begin(self, event: Any, line: int) -> None:
        if isinstance(event, CollectionStartEvent):
            self._as_key(None, line)
            self._open.append(_Collection(event.anchor, mapping=isinstance(event, MappingStartEvent)))
            if len(self._open) > MAX_DEPTH:
                self.found.append(_too_deep(line))
        elif isinstance(event, AliasEvent):
            self._as_key(None, line)
            self._expand(str(event.anchor), line)
        else:
            self._as_key(None if event.value == "<<" and not event.style else event.value, line)
            if event.anchor:
                self._sizes[event.anchor] = 1
            self._add(1)

    def _end(self) -> None:
        ended = self._open.pop()
        if ended.anchor:
            self._sizes[ended.anchor] = ended.size
        self._add(ended.size)

    def _expand(self, anchor: str, line: int) -> None:
        if any(each.anchor == anchor for each in self._open):
            self.found.append(SnippetError(line, f"The alias *{anchor[:80]} stands inside of what it names"))
        elif anchor not in self._sizes:
            self.found.append(SnippetError(line, f"The alias *{anchor[:80]} names nothing above it"))
        size = self._sizes.get(anchor, 1)
        self._add(size)
        self._expanded += size
        if self._expanded > MAX_EXPANDED:
            self.found.append(SnippetError(line, _TOO_MUCH))

    def _add(self, size: int) -> None:
        if self._open:
            self._open[-1].size += size

    def _as_key(self, key: str | None, line: int) -> None:
        """Takes note that a key or a value begins; `key` is None for what may stand twice."""
        if not self._open or self._open[-1].keys is None:
            return
        mapping = self._open[-1]
        if mapping.at_key and key is not None and mapping.keys is not None:
            if key in mapping.keys:
                self.found.append(SnippetError(line, f"The key {key[:80]!r} occurs twice in one mapping"))
            mapping.keys.add(key)
        mapping.at_key = not mapping.at_key


_DEEP: Final = f"Values nest deeper than {MAX_DEPTH} levels"
_TOO_MUCH: Final = f"Its aliases stand for more than {MAX_EXPANDED:,} values"
_FATAL: Final = frozenset({_DEEP, _TOO_MUCH})


def _too_deep(line: int) -> SnippetError:
    return SnippetError(line, _DEEP)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"it has no {name}")


def _no_key_twice(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"the key {key[:80]!r} occurs twice in one object")
        seen.add(key)
