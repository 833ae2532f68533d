"""Fenced code of a document, as its readers would copy it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from knowledge_engine.validation.lines import LineCounter

_LINE_END = re.compile("\r\n|\n|\r")
_OPENING = re.compile(r"(?P<before>.*?)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)")
# ```yaml, ```{.yaml #name}, ```{yaml}, ```yaml,ignore, ```yaml{1,2}, ```application/json
_LANGUAGE = re.compile(r"[{\s.]*([^\s{}`,;:=]+)")
_CLOSING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*\Z")
_QUOTE = re.compile(r"\A[ \t]*>")
_TAB: Final = 4
_ALIASES: Final = {"yml": "yaml"}


class Snippet(NamedTuple):
    """What stands between two fences."""

    #: What the info string says, by `language_name`.
    language: str
    #: Without the indentation and the marks that the fence has before it; lines end at LF.
    text: str
    #: Line of the file where the fence opens; the text begins on the next one.
    line: int


def language_name(word: str) -> str:
    """One name for the spellings of a language; of a media type what it is made of.

    >>> language_name("YML"), language_name("Json"), language_name("application/ld+json")
    ('yaml', 'json', 'json')
    """
    lower = word.lower()
    if "/" in lower:
        lower = lower.rpartition("/")[2].rpartition("+")[2].removeprefix("x-")
    return _ALIASES.get(lower, lower)


def snippets(raw: bytes, fences: Sequence[tuple[int, int]]) -> Iterator[Snippet]:
    """The snippets that have a language and a closing fence; `fences` is `Outline.fences` of `raw`."""
    lines = LineCounter(raw)
    for start, end in fences:
        found = _snippet(raw[start:end].decode("utf-8", "replace"), lines.at(start))
        if found is not None:
            yield found


def _snippet(text: str, line: int) -> Snippet | None:
    first, *rest = _LINE_END.split(text)
    opening = _OPENING.match(first)
    if rest and not rest[-1]:
        rest.pop()  # what follows the last line's end
    language = _LANGUAGE.match(opening["info"]) if opening is not None else None
    if opening is None or language is None or not rest:
        return None
    inner = [_without(opening["before"], each) for each in rest]
    closing = _CLOSING.match(inner.pop())
    if closing is None or not closing[1].startswith(opening["fence"]):
        return None  # never closed: nobody knows where it ends
    return Snippet(language_name(language[1]), "".join(f"{each}\n" for each in inner), line)


def _without(before: str, line: str) -> str:
    """`line` without what corresponds to the start of the opening line: marks of quotes, and blanks for the rest."""
    *quotes, last = before.split(">")
    for _ in quotes:
        line = _QUOTE.sub("", line)
    if quotes:  # the mark of a quote takes one blank with it
        last, line = last.removeprefix(" "), line.removeprefix(" ")
    width = len(last.expandtabs(_TAB))
    at = column = 0
    while column < width and at < len(line) and line[at] in " \t":
        column += 1 if line[at] == " " else _TAB - column % _TAB
        at += 1
    # A tab may reach beyond what goes.
    return " " * (column - width) + line[at:]
