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
# U upper case, l other letters, 0 digits, C scripts written without spaces, m marks on any of them.
_WORD = re.compile(
    r"(?:Cm*)+"
    r"|(?:(?<![Ul0m.])\.(?=[Ul]))?[Ul0][Ul0m]*(?P<more>(?:(?:_+|[-.'])[Ul0][Ul0m]*)*)(?P<tail>\+\+|\#(?![Ul0C]))?"
)
_CLUSTER = re.compile("Cm*")
_JOINERS = re.compile("[-_.']+")
# open|Valve, HTTP|Status, Server2|Go, but not DNAs, URLs and GHz: one small letter after capitals belongs to them.
_CAMEL = re.compile(r"(?<=[l0m])(?=U)|(?<=U)(?=Ul)(?!Ul$)")
# What nearly all words of code and of English are, once the signs around them are off that no word begins or ends with.
_COMMON = re.compile(r"[A-Za-z0-9]+(?:(?:_+|[-.])[A-Za-z0-9]+)*")
_BEFORE, _AFTER = "<>=#+-_'", "<>=-_'."
_ASCII_CAMEL = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z][a-z]$)")
_NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3100-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
_ALIKE = {ord(c): "'" for c in "\u2018\u2019\u02bc\u2032\u00b4\u1ffd"} | {
    ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2212"
}
# Not combining marks by category, and yet joined to the character before by normalisation.
_JOINS_BEFORE = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb\uff9e\uff9f]")
# What Unicode calls ignorable and is no format character (variation selectors, fillers of Korean), and the Arabic
# elongation stroke, which changes the width of a word and nothing else.
_UNSEEN = re.compile(
    "[\u034f\u0640\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
# Turkish capital I with a dot folds to two characters; people type one.
_DOTTED = "i\u0307"


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
    if char == "\u0131":
        return "i"  # the small letter of I in Turkish, which folds to i for all other languages
    plain = unicodedata.normalize("NFKC", char)
    return plain.translate(_ALIKE) if len(plain) == 1 else char


def _shape(char: str) -> str:
    category = unicodedata.category(char)
    if category[0] == "M":
        return "m"
    if category[0] == "L":
        if _NO_SPACES.match(char):
            return "C"
        return "U" if category in ("Lu", "Lt") else "l"
    if category[0] == "N":
        return "C" if _NO_SPACES.match(char) else "0"
    return char if char in "_-.'+#" else " "


_SHAPES, _SIMPLE = _Table(_shape), _Table(_simple)
_ASCII_SHAPES = bytes(ord(_shape(chr(code))) if code < 0x80 else 0 for code in range(256))


@lru_cache(maxsize=1 << 16)
def _visible(char: str) -> bool:
    # Enclosing marks draw a frame around a letter: a keycap, say.
    return unicodedata.category(char) not in ("Cf", "Me") and not _UNSEEN.match(char)


@lru_cache(maxsize=1 << 16)
def _binds(char: str) -> bool:
    """Whether a character belongs to the one before: a mark, something invisible, a part of a syllable."""
    return ord(char) >= 0x80 and (
        unicodedata.category(char)[0] == "M" or not _visible(char) or _JOINS_BEFORE.match(char) is not None
    )


class _Normalised(NamedTuple):
    """A text in NFKC without invisible characters, and for each of its characters where it came from."""

    text: str
    starts: list[int]
    ends: list[int]


def _normalised(text: str) -> _Normalised:
    """Normalises cluster by cluster, so that a word comes out the same whatever stands around it."""
    chars: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at, size = 0, len(text)
    while at < size:
        end = at + 1
        # A mark on anything but a letter or digit stands alone: no word's place takes in what is before the word.
        while _SHAPES[ord(text[at])] in "Ul0Cm" and end < size and _binds(text[end]):
            end += 1
        cluster = text[at:end]
        if end - at > 1 or not cluster.isascii():
            cluster = unicodedata.normalize("NFKC", "".join(filter(_visible, cluster)))
            cluster = "".join(filter(_visible, cluster)).translate(_ALIKE)  # Arabic forms hold strokes
        chars.append(cluster)
        starts += [at] * len(cluster)
        ends += [end] * len(cluster)
        at = end
    return _Normalised("".join(chars), starts, ends)


class _Folder:
    """Folded slices of a text: taken from the folded whole where folding moves nothing, which is nearly always."""

    def __init__(self, plain: str) -> None:
        folded = plain.casefold()
        same = plain.isascii() or (_DOTTED not in folded and unicodedata.is_normalized("NFC", folded))
        self._plain, self._folded = plain, folded if same and len(folded) == len(plain) else None

    def __call__(self, start: int, end: int) -> str:
        if self._folded is not None:
            return self._folded[start : end if end - start < MAX_WORD_CHARS else start + MAX_WORD_CHARS]
        folded = self._plain[start:end].casefold().replace(_DOTTED, "i")
        return unicodedata.normalize("NFC", folded)[:MAX_WORD_CHARS]


def _parts(shape: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans of the parts of an identifier: between joiners, then at changes of case."""
    found, at = [], start
    for joiner in (*_JOINERS.finditer(shape, start, end), None):
        left, right = at, joiner.start() if joiner else end
        if "U" not in shape[left + 1 : right] or right - left > MAX_WORD_CHARS:
            found.append((left, right))
        else:
            cuts = [left, *(left + cut.start() for cut in _CAMEL.finditer(shape[left:right])), right]
            # Single letters of a mixed word (mRNA, pH) say nothing.
            found += [(a, b) for a, b in pairwise(cuts) if b - a > 1 or shape[a] == "0" or len(cuts) == 2]
        at = joiner.end() if joiner else end
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


def _scan(text: str) -> tuple[list[tuple[str, int, int]], _Normalised | None]:
    """Words with their place in the normalised text, and that, unless places are the same in both."""
    other: _Normalised | None = None
    if text.isascii():
        plain, shape = text, text.encode().translate(_ASCII_SHAPES).decode()
    else:
        plain = text.translate(_SIMPLE)
        if not unicodedata.is_normalized("NFKC", plain) or any(map(_binds, plain)):
            other = _normalised(plain)
            plain = other.text
        shape = plain.translate(_SHAPES)
    fold = _Folder(plain)
    found: list[tuple[str, int, int]] = []
    for match in _WORD.finditer(shape):
        start, end = match.span()
        more, tail = match.groups()
        if shape[start] == "C":
            found += _grams(fold, shape, start, end)
        elif more or tail or shape[start] == "." or "U" in shape[start + 1 : end]:
            found += _identifier(fold, shape, start, end, end - len(tail or ""))
        else:
            found.append((fold(start, end), start, end))
    return found, other


def split_words(text: str) -> list[Word]:
    """Words of a text without white space, identifiers whole and in parts.

    >>> [word.form for word in split_words("S7-1200")]
    ['s7-1200', 's7', '1200']
    >>> [word.form for word in split_words("readHTTPStatus(C++,.NET)")]
    ['readhttpstatus', 'read', 'http', 'status', 'c++', 'c', '.net', 'net']
    >>> [word.form for word in split_words("水温")]
    ['水', '温', '水温']
    """
    if text.isascii() and text.isalpha() and (text[1:].islower() or text.isupper() or len(text) == 1):
        return [Word(text.lower()[:MAX_WORD_CHARS], 0, len(text))]
    found, other = _scan(text)
    if other is None:
        return [Word(*word) for word in found]
    return [Word(form, other.starts[start], other.ends[end - 1]) for form, start, end in found]


def word_forms(text: str) -> list[str]:
    """The forms alone of `split_words`, for those who need no places."""
    word = text.lstrip(_BEFORE).rstrip(_AFTER)
    if word.isalpha() and word.isascii() and (word[1:].islower() or word.isupper()):
        return [word.lower()[:MAX_WORD_CHARS]]
    if _COMMON.fullmatch(word) and len(word) <= MAX_WORD_CHARS:
        return _common_forms(word)
    return [form for form, _, _ in _scan(text)[0]]


def _common_forms(word: str) -> list[str]:
    """What `_identifier` says of ASCII, several times faster."""
    forms = {word.lower(): None}
    for piece in word.replace("-", "_").replace(".", "_").split("_"):
        rest = piece[1:]
        if rest.islower() or rest.isdigit() or (piece.isupper() and piece.isalpha()):
            forms[piece.lower()] = None
            continue
        parts = _ASCII_CAMEL.split(piece)
        for part in parts:
            if len(part) > 1 or part.isdigit() or len(parts) == 1:
                forms[part.lower()] = None
    forms.pop("", None)  # between two joiners
    return list(forms)
