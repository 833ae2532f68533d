"""HTML cut into text and tags, as browsers read it, without building a tree: places in the source stay known.

Every step is linear in the text, whatever it holds: each alternative of the expression ends where the next begins, and
what is opened and never closed takes all the rest, once.
"""

from __future__ import annotations

import html
import re
from typing import Final, Self

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
_RAW_TEXT = re.compile(rf"<([a-z]+){_ATTRIBUTES}>(.*?)(?:</\1(?=[\s/>])[^>]*>?|</\1)?\Z", re.IGNORECASE | re.DOTALL)


class Special(str):
    """A tag that has to be looked at in its place; as a text it is what it shows until then."""

    #: `heading`, `/heading`, `pre`, `/pre`, `a`, `/a`, `template`, `/template`, `title`, `block`.
    kind: str
    #: Of a heading.
    level: int
    #: Of a link where it leads to, of a title its text.
    value: str
    #: Its `id`, by which links find it.
    anchor: str

    def __new__(cls, kind: str, *, shown: str = "", level: int = 0, value: str = "", anchor: str = "") -> Self:
        """A tag of that kind."""
        self = super().__new__(cls, shown)
        self.kind, self.level, self.value, self.anchor = kind, level, value, anchor
        return self


#: Stand for the end of a line and of a paragraph; no HTML holds the signs.
LINE: Final = "\x02"
PARAGRAPH: Final = "\x03"
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


class TagMeanings(dict[str, str]):
    """What each tag, as it is written, shows; worked out once for all that are written alike."""

    def __missing__(self, tag: str) -> str:
        meaning = _meaning(tag)
        # Links are all different: keeping them would only take memory.
        if len(tag) < 32:
            self[tag] = meaning
        return meaning


def _meaning(tag: str) -> str:
    if tag.startswith('<a href="') and tag.endswith('">') and tag.count('"') == 2 and "&" not in tag:
        return Special("a", value=tag[9:-2].strip())
    named = _NAME.match(tag)
    if named is None:
        return ""
    name = named[1].lower()
    closing = tag[1] == "/"
    if len(name) == 2 and name[0] == "h" and name[1] in "123456":
        anchor = "" if closing else _value(_ID, tag)
        return Special("/heading" if closing else "heading", level=int(name[1]), anchor=anchor)
    if closing:
        return Special(f"/{name}") if name in _SPECIAL else _SHOWN.get(name, _NOTHING)[1]
    if name == "img":
        return html.escape(_value(_ALT, tag), quote=False)
    if name in _ANCHORED and "id=" in tag:
        return Special("block", shown=PARAGRAPH, anchor=_value(_ID, tag))
    if name in _SPECIAL:
        return Special(name, value=_value(_HREF, tag), anchor=_value(_ID, tag))
    if name == "title":
        return Special("title", value=html.unescape(_inner(tag)))
    return _inner(tag) if name in _VISIBLE_RAW else _SHOWN.get(name, _NOTHING)[0]


def _inner(element: str) -> str:
    """What stands in an element that holds no markup."""
    found = _RAW_TEXT.match(element)
    return found[2] if found else ""


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
