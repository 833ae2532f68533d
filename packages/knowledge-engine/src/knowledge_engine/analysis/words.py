"""Where words begin and end, in any script, with the characters that each came from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

#: A longer word is known by its first so many characters: encoded blobs must not fill the vocabulary.
MAX_WORD_CHARS = 128

# Every character is reduced to its shape, then one pattern finds the words of all scripts:
# U upper case, l other letters and marks, 0 digits, C scripts written without spaces, m marks on those.
_WORD = re.compile(
    r"(?:Cm*)+"
    r"|(?P<word>(?<![Ul0.])\.(?=[Ul])[Ul0]+|[Ul0]+)(?P<more>(?:(?:_+|[-.'])[Ul0]+)*)(?P<tail>\+\+|\#(?![Ul0C]))?"
)
_CLUSTER = re.compile("Cm*")
_JOINERS = re.compile("[-_.']+")
# open|Valve, HTTP|Status, Server2|Go, but not DNAs, URLs and GHz: one small letter after capitals belongs to them.
_CAMEL = re.compile(r"(?<=[l0])(?=U)|(?<=U)(?=Ul)(?!Ul$)")
_NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3100-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
_ALIKE = {ord(c): "'" for c in "\u2018\u2019\u02bc\u2032"} | {ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2212"}
# Not combining marks by category, and yet joined to the character before by normalisation.
_JOINS_BEFORE = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb\uff9e\uff9f]")


class Word(NamedTuple):
    """One form to index: folded, not stemmed. `start` and `end` count characters of the text."""

    form: str
    start: int
    end: int


class _Table(dict[int, str]):
    """A table for `str.translate` that works out each character when it first comes."""

    def __init__(self, of: Callable[[str], str]) -> None:
        self._of = of

    def __missing__(self, code: int) -> str:
        self[code] = value = self._of(chr(code))
        return value


def _simple(char: str) -> str:
    """The compatibility form of one character, where that is one character too; look-alike joiners made one."""
    if ord(char) in _ALIKE:
        return _ALIKE[ord(char)]
    plain = unicodedata.normalize("NFKC", char)
    return plain.translate(_ALIKE) if len(plain) == 1 else char


def _shape(char: str) -> str:
    category = unicodedata.category(char)
    if category[0] == "M":
        return "m" if _NO_SPACES.match(char) else "l"
    if category[0] == "L":
        if _NO_SPACES.match(char):
            return "C"
        return "U" if category in ("Lu", "Lt") else "l"
    if category[0] == "N":
        return "C" if _NO_SPACES.match(char) else "0"
    return char if char in "_-.'+#" else " "


_SHAPES, _SIMPLE = _Table(_shape), _Table(_simple)


@lru_cache(maxsize=1 << 16)
def _binds(char: str) -> bool:
    """Whether a character belongs to the one before: a mark, something invisible, a part of a syllable."""
    return (
        ord(char) >= 0x80
        and (unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf") or _JOINS_BEFORE.match(char) is not None)
    ) or char == "\u0640"  # the Arabic elongation stroke is invisible to a reader's mind


@lru_cache(maxsize=1 << 16)
def _visible(char: str) -> bool:
    # Besides format characters: the Arabic stroke, the grapheme joiner, variation selectors.
    return not (
        unicodedata.category(char) == "Cf"
        or char in "\u0640\u034f"
        or "\ufe00" <= char <= "\ufe0f"
        or "\U000e0100" <= char <= "\U000e01ef"
    )


def _normalised(text: str) -> tuple[str, list[int]]:
    """NFKC without invisible characters, and for each of its characters where it came from.

    The second value has one entry more than the text has characters: where the text ends. Normalised cluster
    by cluster, so that it is the same for a word whatever stands around it.
    """
    chars: list[str] = []
    origins: list[int] = []
    at, size = 0, len(text)
    while at < size:
        end = at + 1
        while end < size and _binds(text[end]):
            end += 1
        cluster = text[at:end]
        if end - at > 1 or not cluster.isascii():
            cluster = "".join(filter(_visible, cluster))
            cluster = unicodedata.normalize("NFKC", cluster).translate(_ALIKE)
        for char in cluster:
            chars.append(char)
            origins.append(at)
        at = end
    origins.append(size)
    return "".join(chars), origins


class _Folder:
    """Folded slices of a text: taken from the folded whole where folding moves nothing, which is nearly always."""

    def __init__(self, plain: str) -> None:
        folded = plain.casefold()
        same = len(folded) == len(plain) and (folded.isascii() or unicodedata.is_normalized("NFC", folded))
        self._plain, self._folded = plain, folded if same else None

    def __call__(self, start: int, end: int) -> str:
        if self._folded is not None:
            return self._folded[start : min(end, start + MAX_WORD_CHARS)]
        # Turkish capital I with a dot folds to two characters; people type one.
        folded = self._plain[start:end].casefold().replace("i\u0307", "i")
        return unicodedata.normalize("NFC", folded)[:MAX_WORD_CHARS]


def _parts(shape: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans of the parts of an identifier: between joiners, then at changes of case."""
    pieces, at = [], start
    for joiner in _JOINERS.finditer(shape, start, end):
        pieces.append((at, joiner.start()))
        at = joiner.end()
    pieces.append((at, end))
    found = []
    for left, right in pieces:
        cuts = [left]
        if right - left <= MAX_WORD_CHARS:
            cuts += [left + cut.start() for cut in _CAMEL.finditer(shape[left:right])]
        cuts.append(right)
        if len(cuts) == 2:
            found.append((left, right))
        else:  # single letters of a mixed word (mRNA, pH) say nothing
            found += [(a, b) for a, b in pairwise(cuts) if b - a > 1 or shape[a] == "0"]
    return found


def _identifier(fold: _Folder, shape: str, start: int, end: int, base_end: int) -> list[tuple[str, int, int]]:
    """The whole, then its parts that differ from it, each once."""
    whole = fold(start, end)
    words = [(whole, start, end)]
    inner = shape[start:base_end]
    if "'" in inner and "_" not in inner and "-" not in inner and "." not in inner:
        # don't, operator's: one word. l'eau, O'Brien: the name behind the apostrophe is looked for alone.
        if base_end - start - inner.rfind("'") - 1 < 3:
            return words
        parts = [(a, b) for a, b in _parts(shape, start, base_end) if b - a > 2]
    else:
        parts = _parts(shape, start, base_end)
    seen = {whole}
    for left, right in parts:
        form = fold(left, right)
        if right > left and form not in seen:
            seen.add(form)
            words.append((form, left, right))
    return words


def _grams(fold: _Folder, shape: str, start: int, end: int) -> list[tuple[str, int, int]]:
    """Single characters (with their marks) and pairs: no dictionary knows every word, and pairs find them all."""
    cells = [cell.span() for cell in _CLUSTER.finditer(shape, start, end)]
    words = [(fold(left, right), left, right) for left, right in cells]
    words += [(fold(a[0], b[1]), a[0], b[1]) for a, b in pairwise(cells)]
    return words


def _scan(text: str) -> tuple[list[tuple[str, int, int]], list[int] | None]:
    """Words with their place in the normalised text, and where its characters come from (None: the same places)."""
    origins: list[int] | None = None
    plain = text
    if not text.isascii():
        plain = text.translate(_SIMPLE)
        if not unicodedata.is_normalized("NFKC", plain) or any(map(_binds, plain)):
            plain, origins = _normalised(plain)
    shape = plain.translate(_SHAPES)
    fold = _Folder(plain)
    found: list[tuple[str, int, int]] = []
    for match in _WORD.finditer(shape):
        start, end = match.span()
        if shape[start] == "C":
            found += _grams(fold, shape, start, end)
        elif match["more"] or match["tail"] or shape[start] == "." or "U" in shape[start + 1 : end]:
            found += _identifier(fold, shape, start, end, end - len(match["tail"] or ""))
        else:
            found.append((fold(start, end), start, end))
    return found, origins


def split_words(text: str) -> list[Word]:
    """Words of a text without white space, identifiers whole and in parts.

    >>> [word.form for word in split_words("S7-1200")]
    ['s7-1200', 's7', '1200']
    >>> [word.form for word in split_words("readHTTPStatus(C++,.NET)")]
    ['readhttpstatus', 'read', 'http', 'status', 'c++', 'c', '.net', 'net']
    >>> [word.form for word in split_words("水温")]
    ['水', '温', '水温']
    """
    found, origins = _scan(text)
    if origins is None:
        return [Word(*word) for word in found]
    return [Word(form, origins[start], _origin_end(origins, end)) for form, start, end in found]


def word_forms(text: str) -> list[str]:
    """The forms alone of `split_words`, for those who need no places."""
    return [form for form, _, _ in _scan(text)[0]]


def _origin_end(origins: list[int], end: int) -> int:
    """Where the character before `end` ends in the original: at the next one that came from elsewhere."""
    last = origins[end - 1]
    while origins[end] == last:
        end += 1
    return origins[end]
