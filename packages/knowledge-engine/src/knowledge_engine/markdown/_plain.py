"""Markup of one line to the words that a reader sees."""

from __future__ import annotations

import re
from html import unescape
from html.entities import html5

from knowledge_engine.markdown._syntax import TAG

#: A title is cut to so many characters.
MAX_TITLE_CHARS = 1000
# Enough for so many characters, with some white space to spare.
_MAX_TITLE_BYTES = 4 * MAX_TITLE_CHARS + 400
# Longer text keeps its markup, so that unfinished markup costs little.
_MAX_MARKUP_CHARS = 250

_PUNCTUATION = r"[!-/:-@\[-`{-~]"
_ENTITY = "&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
_MARKUP = re.compile(
    rf"\\(?P<escaped>{_PUNCTUATION})"
    r"|(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|<!--.*?-->"
    r"|<(?P<auto>[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*)>"
    rf"|(?P<tag>{TAG.pattern.decode()})"
    r"|!?\[\[(?P<wiki>[^\[\]|]+)(?:\|(?P<alias>[^\[\]]*))?\]\]"
    r"|!?\[(?P<link>(?:[^\[\]\\]|\\.|\[[^\[\]]*\])*)\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\[\]]*\])"
    r"|(?P<stars>\*{1,3})(?![\s*])(?P<strong>.+?)(?<![\s*])(?P=stars)"
    r"|(?<!\w)(?P<bars>_{1,3})(?![\s_])(?P<stressed>.+?)(?<![\s_])(?P=bars)(?!\w)"
    rf"|(?P<entity>{_ENTITY})"
)
_SPECIAL = re.compile(r"[\\`*_\[<&]")
_IN_TARGET = re.compile(rf"\\(?P<escaped>{_PUNCTUATION})|(?P<entity>{_ENTITY})")


def decode(data: bytes) -> str:
    """UTF-8, with U+FFFD for wrong bytes and for NUL, as CommonMark has it."""
    return data.decode(errors="replace").replace("\0", "\ufffd")


def plain_text(data: bytes) -> str:
    """What a reader sees of one line of text, white space collapsed.

    Comments and tags go; code, emphasis, links, images and wiki links leave their text; escapes and entities are
    decoded. Text over 250 characters keeps its markup, and is cut at `MAX_TITLE_CHARS`.
    """
    text = " ".join(decode(data[:_MAX_TITLE_BYTES]).split())
    if len(text) <= _MAX_MARKUP_CHARS and _SPECIAL.search(text):
        text = " ".join(_MARKUP.sub(_seen, text).split())
    return text if len(text) <= MAX_TITLE_CHARS else f"{text[: MAX_TITLE_CHARS - 1]}…"


def unescape_target(data: bytes) -> str:
    """A link's destination: without pointed brackets, escapes and entities."""
    if data.startswith(b"<"):
        data = data[1:-1]
    return _IN_TARGET.sub(lambda match: match["escaped"] or _character(match["entity"]), decode(data))


def _character(entity: str) -> str:
    # The standard library also takes names without their semicolon; Markdown does not.
    return unescape(entity) if entity[1] == "#" else html5.get(entity[1:], entity)


def _seen(match: re.Match[str]) -> str:
    group = match.groupdict()
    if code := group["code"]:
        return str(code)
    if entity := group["entity"]:
        return _character(entity)
    if verbatim := group["escaped"] or group["auto"]:
        return str(verbatim)
    inner = group["alias"] or group["wiki"] or group["link"] or group["strong"] or group["stressed"] or ""
    # Each level of nesting is shorter than the one around it.
    return _MARKUP.sub(_seen, inner)
