"""HTML cut into text and tags, as browsers read it, without building a tree: places in the source stay known.

Every step is linear in the text, whatever it holds: each alternative of the expression ends where the next begins, and
what is opened and never closed takes all the rest, once.
"""

from __future__ import annotations

import html
import re
from typing import Final, NamedTuple

# Quotes count only behind `=`, where a value is expected.
_ATTRIBUTES = r"""[^>=]*(?:=(?:\s*"[^"]*"|\s*'[^']*'|(?!\s*["']))[^>=]*)*"""
_RAW_NAMES = "script|style|textarea|title|xmp|iframe|noembed|noframes"
# What stands in these elements is no markup.
_RAW = rf"(?i:({_RAW_NAMES})(?=[\s/>])){_ATTRIBUTES}>[^<]*(?:<(?!(?i:/\2)[\s/>])[^<]*)*(?:</[^>]*(?:>|\Z)|\Z)"
_TAGS = re.compile(
    r"(<(?:"
    # Most tags, told by their first letter not to be one of those.
    r"/[a-zA-Z][^>=]*>|[a-hj-mo-ru-wyzA-HJ-MO-RU-WYZ][^>=]*>"
    rf"|(?=[sStTxXiInN]){_RAW}"
    rf"|/?[a-zA-Z]{_ATTRIBUTES}>"
    r"|!--(?:-?>|[^-]*(?:-(?!->|-!>)[^-]*)*(?:--!?>|\Z))"
    r"|[!?][^>]*(?:>|\Z)"
    r"|/(?![a-zA-Z])[^>]*(?:>|\Z)"
    # A tag that is never closed.
    r"|/?[a-zA-Z].*\Z"
    r"))",
    re.DOTALL,
)
_NAME = re.compile(r"</?([a-z][^\s/>]*)", re.IGNORECASE)
_HREF = re.compile(r"""\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_ALT = re.compile(r"""\salt\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_ID = re.compile(r"""\s(?:id|name)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_RAW_TEXT = re.compile(r">(.*)</[^<]*\Z", re.DOTALL)


class Special(NamedTuple):
    """A tag that has to be looked at in its place."""

    #: `heading`, `/heading`, `pre`, `/pre`, `a`, `/a`, `template`, `/template`, `title`, `text`, `block`.
    kind: str
    #: Of a heading.
    level: int = 0
    #: Of a link where it leads to, of others the text that stands in it.
    value: str = ""
    #: Its `id`, by which links find it.
    anchor: str = ""


#: Stand for the end of a line and of a paragraph; no HTML holds the signs.
LINE: Final = "\x02"
PARAGRAPH: Final = "\x02\x02"
_BLOCKS = (
    "address article aside blockquote body center details dialog dd div dl dt fieldset figcaption figure footer form"
    " header hgroup hr main menu nav ol optgroup option p search section summary table tbody tfoot thead ul caption"
)
#: What stands for a tag; of others, nothing does.
_SHOWN = dict.fromkeys(_BLOCKS.split(), (PARAGRAPH, PARAGRAPH))
_SHOWN |= {"li": (f"{LINE}- ", ""), "tr": (LINE, ""), "td": (" | ", ""), "th": (" | ", ""), "br": (LINE, LINE)}
_SHOWN |= {"dt": (PARAGRAPH, ""), "dd": (LINE, "")} | dict.fromkeys(("code", "kbd", "samp", "tt"), ("`", "`"))
_SPECIAL = frozenset({"pre", "a", "template"})
_ANCHORED = frozenset({"section", "div", "article", "p", "dt"})
_NOTHING = ("", "")
_VISIBLE_RAW = frozenset({"textarea", "xmp", "noembed", "noframes"})


class TagMeanings(dict[str, "str | Special"]):
    """What each tag, as it is written, stands for; worked out once for all that are written alike."""

    def __missing__(self, tag: str) -> str | Special:
        meaning = _meaning(tag)
        # Links are all different: keeping them would only take memory.
        if len(tag) < 32:
            self[tag] = meaning
        return meaning


def _meaning(tag: str) -> str | Special:
    if tag.startswith('<a href="') and tag.endswith('">') and tag.count('"') == 2 and "&" not in tag:
        return Special("a", 0, tag[9:-2].strip())
    if tag.startswith("<a "):
        return Special("a", 0, _value(_HREF, tag), _value(_ID, tag) if "id=" in tag or "name=" in tag else "")
    named = _NAME.match(tag)
    if named is None:
        return ""
    name = named[1].lower()
    closing = tag[1] == "/"
    if len(name) == 2 and name[0] == "h" and name[1] in "123456":
        return Special("/heading" if closing else "heading", int(name[1]), "", "" if closing else _value(_ID, tag))
    if name == "img" and not closing:
        return html.escape(_value(_ALT, tag), quote=False)
    if name in _ANCHORED and not closing and "id=" in tag:
        return Special("block", 0, PARAGRAPH, _value(_ID, tag))
    if name in _SPECIAL:
        return Special(f"/{name}") if closing else Special(name, 0, _value(_HREF, tag), _value(_ID, tag))
    if not closing and (name == "title" or name in _VISIBLE_RAW):
        inner = _RAW_TEXT.search(tag)
        text = inner[1] if inner else tag.partition(">")[2]
        return Special("title", 0, html.unescape(text)) if name == "title" else Special("text", 0, text)
    return _SHOWN.get(name, _NOTHING)[closing]


def _value(pattern: re.Pattern[str], tag: str) -> str:
    found = pattern.search(tag)
    return html.unescape(found[1] or found[2] or found[3] or "").strip() if found else ""


def cut(text: str) -> tuple[list[str], list[str]]:
    """The texts between tags, and the tags; one more of the former. Joined in turn they are `text` again.

    >>> cut("a<b title='x > y'>c")
    (['a', 'c'], ["<b title='x > y'>"])
    """
    pieces = _TAGS.split(text)
    return pieces[::3], pieces[1::3]
