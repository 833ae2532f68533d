"""YAML text to strict JSON values, built from parser events: nothing is resolved, constructed or expanded.

libyaml parses where PyYAML has it; both parsers give the same values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import yaml
from pydantic import JsonValue
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from knowledge_engine.frontmatter._scalars import MAX_DEPTH, NULLS, is_text_field, typed
from knowledge_engine.models import Metadata

#: Called with code, 0-based line of the block, problem, mend.
Report = Callable[[str, int, str, str], None]

# Left out: what YAML calls not printable. C0 but tab and line ends, DEL, C1 but NEL, U+FFFE, U+FFFF.
_REFUSED = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# YAML 1.1 ends lines at the first three, and parsers differ about the BOM; here they are ordinary characters.
_UNUSUAL = re.compile("[\x85\u2028\u2029\ufeff]")
_LINE_END = re.compile("\r\n|\r|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONE_SURROGATE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")

_MISSING: Final = object()
_QUOTE = "Quote values that hold ': ' or ' #', quotes, or begin with a special sign."


class PureParser(Reader, Scanner, Parser):
    """PyYAML's own parser, as slow as it is patient: it reads escapes of surrogates, libyaml does not."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)


def _fastest() -> Callable[[str], Any]:
    try:
        from yaml._yaml import CParser
    except ImportError:
        return PureParser
    return CParser  # type: ignore[no-any-return,unused-ignore]


FASTEST: Final = _fastest()


class Entry(NamedTuple):
    """Where one top-level entry stands: offsets in characters of the block's text, `column` of its key."""

    key: str
    start: int
    key_end: int
    value_end: int
    column: int


class Block(NamedTuple):
    """A parsed block. `flow` tells that the outermost mapping is written in braces."""

    metadata: Metadata
    entries: tuple[Entry, ...] = ()
    flow: bool = False


class _StopError(Exception):
    """Already reported; nothing of the block can be used."""


def line_of(text: str, offset: int) -> int:
    """0-based line of that character; lines end at LF, CRLF or CR."""
    return sum(1 for _ in _LINE_END.finditer(text, 0, offset))


def read_block(text: str, report: Report, parser: Callable[[str], Any] = FASTEST) -> Block:
    """The mapping that `text` holds; empty if it holds none, and then `report` was told why.

    Nulls are left out, also of lists. What YAML can say and JSON cannot is left out and reported.
    """
    if refused := _REFUSED.search(text):
        problem = f"The block holds the control character U+{ord(refused[0]):04X}"
        report("yaml-syntax", line_of(text, refused.start()), problem, "Remove that character.")
        return Block({})
    plain, restore = _tame(text)
    reader = _BlockReader(parser, plain, restore)
    try:
        block = reader.read()
    except _StopError:
        block = Block({})
    except (yaml.YAMLError, ValueError) as error:
        if parser is not PureParser and "escape code" in str(error):
            return read_block(text, report, PureParser)
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "a value cannot be read"
        reader.issues.append(("yaml-syntax", mark.line if mark else 0, f"The block is not YAML: {problem}", _QUOTE))
        block = Block({})
    for issue in reader.issues:
        report(*issue)
    return block


def _tame(text: str) -> tuple[str, dict[int, str]]:
    """`text` with unusual characters replaced one to one by unused private ones, and the way back."""
    unusual = sorted(set(_UNUSUAL.findall(text)))
    if not unusual:
        return text, {}
    lower = text.lower()
    # An escape such as "\ue000" must not turn into a stand-in, so its digits may not occur either.
    free = (chr(code) for code in range(0xE000, 0xF900) if chr(code) not in text and f"{code:04x}" not in lower)
    pairs = list(zip(unusual, free, strict=False))
    stand_ins = {ord(char): stand_in for char, stand_in in pairs}
    return text.translate(stand_ins), {ord(stand_in): char for char, stand_in in pairs}


class _BlockReader:
    """One pass over the events. Recursion is bounded by `MAX_DEPTH`."""

    def __init__(self, parser: Callable[[str], Any], text: str, restore: dict[int, str]) -> None:
        self.issues: list[tuple[str, int, str, str]] = []
        self._make = parser
        self._source = text
        self._restore = restore
        self._next: Callable[[], Any]
        self._entries: list[Entry] = []
        #: Where the last thing that has a length ended.
        self._end = 0

    def read(self) -> Block:
        # libyaml looks at the text only when asked, PyYAML's reader at once: errors are the caller's in both.
        self._next = self._make(self._source).get_event
        self._next()
        if isinstance(self._next(), StreamEndEvent):
            return Block({})
        root = self._next()
        flow = bool(getattr(root, "flow_style", False))
        value = self._value(root, 1, False)
        self._next()
        if not isinstance(extra := self._next(), StreamEndEvent):
            self._report("yaml-syntax", extra, "The block holds a second YAML document", "Keep one.")
            raise _StopError
        if value is _MISSING:
            return Block({})
        if not isinstance(value, dict):
            mend = "Write `key: value` lines between the fences, or begin the document with an empty line."
            self._report("frontmatter-not-mapping", root, "The block between the fences is not a mapping", mend)
            return Block({})
        return Block(value, tuple(self._entries), flow)

    def _report(self, code: str, event: Any, problem: str, mend: str) -> None:
        line = event.start_mark.line
        if not self.issues or self.issues[-1][:2] != (code, line):
            self.issues.append((code, line, problem, mend))

    def _value(self, event: Any, depth: int, as_text: bool) -> JsonValue | object:
        """The value that begins with `event`, or `_MISSING`."""
        kind = type(event)
        if kind is ScalarEvent:
            # An empty value has no length, and its place is behind whatever precedes it.
            self._end = event.end_mark.index
            if event.tag is not None:
                return self._tagged(event)
            return self._scalar(event, as_text)
        if kind is AliasEvent:
            self._end = event.end_mark.index
            self._report("yaml-alias", event, "An alias (*name) stands for a value", "Write the value out.")
            return _MISSING
        if depth > MAX_DEPTH:
            problem = f"Values nest deeper than {MAX_DEPTH} levels"
            self._report("yaml-too-deep", event, problem, "Flatten them.")
            raise _StopError
        if event.tag is not None:
            self._tagged(event)
        value = self._mapping(depth, as_text) if kind is MappingStartEvent else self._list(depth, as_text)
        return value if event.tag is None else _MISSING

    def _tagged(self, event: Any) -> object:
        self._report("yaml-tag", event, "A value carries a YAML tag (!name)", "Remove the tag, or quote the value.")
        return _MISSING

    def _scalar(self, event: Any, as_text: bool) -> JsonValue | object:
        text: str = event.value
        if event.style:
            return self._text(event)
        if text in NULLS:
            return _MISSING
        return self._text(event) if as_text else typed(self._text(event))

    def _text(self, event: Any) -> str:
        text: str = event.value
        if self._restore:
            text = text.translate(self._restore)
        if not text.isascii() and _SURROGATE.search(text):
            whole = _LONE_SURROGATE.sub("\ufffd", text)
            # Escapes may spell a character as two halves, as JSON does; a half alone is no character.
            text = whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
            if whole.count("\ufffd") > event.value.count("\ufffd"):
                problem = "An escape stands for half a character, shown as U+FFFD"
                self._report("text-surrogate", event, problem, "Write the character itself.")
        return text

    def _list(self, depth: int, as_text: bool) -> list[JsonValue]:
        out: list[JsonValue] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            if (value := self._value(event, depth + 1, as_text)) is not _MISSING:
                out.append(value)  # type: ignore[arg-type]
        self._close(event)
        return out

    def _mapping(self, depth: int, as_text: bool) -> Metadata:
        out: Metadata = {}
        seen: set[str] = set()
        while not isinstance(event := self._next(), MappingEndEvent):
            key = self._key(event, depth, seen)
            key_end = self._end
            value = self._value(self._next(), depth + 1, as_text or (depth == 1 and is_text_field(key or "")))
            if key is not None and depth == 1:
                mark = event.start_mark
                self._entries.append(Entry(key, mark.index, key_end, max(key_end, self._end), mark.column))
            if key is not None and value is not _MISSING:
                out[key] = value  # type: ignore[assignment]
        self._close(event)
        return out

    def _close(self, event: Any) -> None:
        # A block collection ends where the next thing begins, and has no length there; a bracket has one.
        if event.end_mark.index > event.start_mark.index:
            self._end = event.end_mark.index

    def _key(self, event: Any, depth: int, seen: set[str]) -> str | None:
        """The key, or None if the entry is to be left out."""
        self._end = event.end_mark.index
        if type(event) is not ScalarEvent:
            if not isinstance(event, AliasEvent):
                self._report("yaml-key", event, "A key is a list or a mapping", "Use a plain word as key.")
            self._value(event, depth + 1, True)
            return None
        if event.tag is not None:
            self._tagged(event)
            return None
        key = self._text(event)
        if key == "<<" and not event.style:
            self._report("yaml-alias", event, "A merge key (<<) stands in a mapping", "Write the entries out.")
            return None
        if key in seen:
            problem = f"The key {key[:80]!r} occurs twice; the first one counts"
            self._report("yaml-duplicate-key", event, problem, "Remove one of them.")
            return None
        seen.add(key)
        return key
