"""The analyzer: text to terms, the same for documents and queries, in every backend."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, TypeVar

import Stemmer

from knowledge_engine.analysis.stopwords import STOP_WORDS
from knowledge_engine.analysis.words import split_words, word_forms
from knowledge_engine.errors import InvalidArgumentError

#: Raised when the same text may give other terms than before: indexes made by another revision are rebuilt.
REVISION = 1

# Punctuation that no word holds; between it, text repeats itself, and each chunk is analysed once.
_APART = '()[]{}<>="/\\|,;:!?*`&%$@^~'
_BLANKS = bytes.maketrans((_APART + "\n\r").encode(), b" " * (len(_APART) + 2))
_HYPHENS = re.compile("[-\u2010-\u2013\u2212'\u2018\u2019\u02bc]")
_PLAIN = "-\u2010\u2011\u2012\u2013\u2212'\u2018\u2019\u02bc"
_CACHED_CHARS = 48
_RECENT_TERMS, _RECENT_PLACES = 30_000, 4_000

_ISO_639_1 = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip


Worth = TypeVar("Worth")


class Token(NamedTuple):
    """A term and the bytes [start, end) that it stands for; an identifier and its parts overlap."""

    term: str
    start: int
    end: int


class QueryWord(NamedTuple):
    """A word to look for, and the parts of it if it is an identifier: `S7-1200` has the parts `s7` and `1200`."""

    term: str
    parts: tuple[str, ...] = ()


class Recent(dict[str, Worth]):
    """What chunks are worth, worked out when one comes that did not come lately; looked up in C.

    Text repeats itself: this is most of the speed of indexing. Bounded, so that hostile text does not fill memory: when
    there are `most` chunks they become the ones before, of which those that come again are kept.
    """

    def __init__(self, of: Callable[[str], Worth], most: int) -> None:
        self._of, self._most = of, most
        self._before: dict[str, Worth] = {}

    def __missing__(self, chunk: str) -> Worth:
        worth = self._before.pop(chunk) if chunk in self._before else self._of(chunk)
        if len(chunk) <= _CACHED_CHARS:
            if len(self) >= self._most:
                self._before = dict(self)
                self.clear()
            self[chunk] = worth
        return worth


class _Local(threading.local):
    """Snowball's stemmers are not safe to share between threads, and a cache needs no lock if it is not."""

    def __init__(self, language: str) -> None:
        self._stem = Stemmer.Stemmer(language, 0).stemWord if language != "none" else str
        #: Terms by chunk, and terms with their places in it.
        self.terms = Recent(self.of, _RECENT_TERMS)
        self.places = Recent(self._placed, _RECENT_PLACES)

    def of(self, chunk: str) -> tuple[str, ...]:
        """The terms of a chunk."""
        return tuple(map(self.stem, word_forms(chunk)))

    def stem(self, form: str) -> str:
        """The term of a form. Identifiers and numbers are names: they have no endings."""
        # From U+0E00 on come scripts without stemmers, in pieces of one and two characters.
        return self._stem(form) if form[0] < "\u0e00" and (form.isalpha() or "'" in form) else form

    def _placed(self, chunk: str) -> tuple[Token, ...]:
        return tuple(Token(self.stem(form), start, end) for form, start, end in split_words(chunk))


@dataclass(frozen=True)
class Analyzer:
    """Text to terms: Unicode words folded and stemmed, identifiers whole and in parts, CJK in characters and pairs.

    `language` is a Snowball name (`english`), its two-letter code (`en`), or `none` for no stemming. Text in another
    language than that is still found; only its endings are not taken off rightly.

    Raises:
        InvalidArgumentError: For a language that Snowball does not have.

    >>> Analyzer().terms("Valves open slowly: openValve2()")
    ['valv', 'open', 'slowli', 'openvalve2', 'open', 'valve2']
    >>> Analyzer().query_terms("what is the valve?")
    ['valv']
    """

    language: str = "english"
    _local: _Local = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        language = _ISO_639_1.get(self.language, self.language)
        known = ["none", *Stemmer.algorithms()]
        if language not in known:
            raise InvalidArgumentError(f"Unknown language {self.language!r}", mend=f"Use one of {', '.join(known)}.")
        object.__setattr__(self, "language", language)
        object.__setattr__(self, "_local", _Local(language))

    def __reduce__(self) -> tuple[type[Analyzer], tuple[str]]:
        return Analyzer, (self.language,)

    @cached_property
    def version(self) -> str:
        """Equal exactly when two analyzers give the same terms; an index remembers which made it."""
        return f"{REVISION}/{self.language}/snowball-{Stemmer.version()}/unicode-{unicodedata.unidata_version}"

    def terms(self, text: str) -> list[str]:
        """All terms, with repeats, for an index."""
        return self.terms_of(encoded(text))

    def terms_of(self, raw: bytes) -> list[str]:
        """The terms of UTF-8; bytes that are none separate words."""
        return list(chain.from_iterable(map(self._local.terms.__getitem__, chunks(raw))))

    def chunk_terms(self, chunk: str) -> tuple[str, ...]:
        """The terms of one of `chunks`, worked out anew."""
        return self._local.of(chunk)

    def query_words(self, text: str) -> list[QueryWord]:
        """The words to look for, with repeats: function words are dropped, unless nothing else is there.

        Parts belong to the identifier that they are parts of. Those of a compound of plain words (`heat-transfer`)
        are words as good as the whole, and come by themselves.
        """
        stop = STOP_WORDS.get(self.language, frozenset())
        forms = [(at, chunk, word) for at, chunk in enumerate(chunks(encoded(text))) for word in split_words(chunk)]
        telling = [one for one in forms if one[2].form not in stop]
        found: list[QueryWord] = []
        inside = (-1, 0)  # the chunk of the last identifier, and where it ends in that
        for at, chunk, (form, start, end) in telling or forms:
            term = self._local.stem(form)
            if at == inside[0] and end <= inside[1]:
                found[-1] = QueryWord(found[-1].term, (*found[-1].parts, term))
                continue
            found.append(QueryWord(term))
            inside = (at, end) if _is_identifier(chunk[start:end]) else (-1, 0)
        return found

    def query_terms(self, text: str) -> list[str]:
        """The terms of `query_words`, one after another."""
        return [term for word in self.query_words(text) for term in (word.term, *word.parts)]

    def tokens(self, raw: bytes, wanted: Set[str] | None = None) -> list[Token]:
        """The terms with the bytes that each stands for, by start; bytes that are not UTF-8 separate words.

        Args:
            wanted: Only tokens of these terms; many times faster where few words are.
        """
        text = _apart(raw).decode("utf-8", "surrogateescape")
        found: list[Token] = []
        terms, places, chunks_here = self._local.terms, self._local.places, text.split()
        if wanted is not None:
            # Few differ and fewer tell: those are looked for, and the others passed over.
            telling = [chunk for chunk in set(chunks_here) if not wanted.isdisjoint(terms[chunk])]
            for chunk in telling:
                mine = [token for token in places[chunk] if token.term in wanted]
                found += [Token(term, at + start, at + end) for at in _places(chunk, text) for term, start, end in mine]
            found.sort(key=itemgetter(1, 2, 0))
            return found if len(text) == len(raw) else _in_bytes(found, text)
        at = 0
        for chunk in chunks_here:
            at = text.index(chunk, at)
            found += [Token(term, at + start, at + end) for term, start, end in places[chunk]]
            at += len(chunk)
        found.sort(key=itemgetter(1))
        return found if len(text) == len(raw) else _in_bytes(found, text)


def _places(chunk: str, text: str) -> list[int]:
    """Where a chunk stands between blanks."""
    found, at, size = [], text.find(chunk), len(chunk)
    while at >= 0:
        end = at + size
        if (at == 0 or text[at - 1].isspace()) and (end == len(text) or text[end].isspace()):
            found.append(at)
            at = text.find(chunk, end)
        else:
            at = text.find(chunk, at + 1)
    return found


def _is_identifier(word: str) -> bool:
    """Whether a word is a name whose parts mean something else: with digits, dots, `_`, `+`, `#`, or mixed case."""
    pieces = _HYPHENS.split(word)
    mixed = any(piece[1:] != piece[1:].lower() and piece != piece.upper() for piece in pieces)
    return mixed or any(not (char.isalpha() or char in _PLAIN) for char in word)


def encoded(text: str) -> bytes:
    """Text for `chunks`; half of a surrogate pair separates words."""
    return text.encode("utf-8", "surrogatepass")


def chunks(raw: bytes) -> list[str]:
    """The pieces between blanks and punctuation."""
    return _apart(raw).decode("utf-8", "replace").split()


def _apart(raw: bytes) -> bytes:
    """The text with blanks for what separates words: so many bytes as before."""
    # In bytes, characters above 127 stay whole and need no look. A dot joins what is behind it, if anything is.
    return raw.translate(_BLANKS).replace(b". ", b"  ")


def _in_bytes(tokens: list[Token], text: str) -> list[Token]:
    """Tokens with their places in characters turned into places in bytes; an escaped byte is one."""
    offsets, chars, size = {}, 0, 0
    for place in sorted({place for token in tokens for place in token[1:]}):
        size += len(text[chars:place].encode("utf-8", "surrogateescape"))
        offsets[place], chars = size, place
    return [Token(term, offsets[start], offsets[end]) for term, start, end in tokens]
