"""The analyzer: text to terms, the same for documents and queries, in every backend."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import Stemmer

from knowledge_engine.analysis.stopwords import STOP_WORDS
from knowledge_engine.analysis.words import Word, split_words, word_forms
from knowledge_engine.errors import InvalidArgumentError

#: Raised when the same text may give other terms than before: indexes made by another revision are rebuilt.
REVISION = 1

_CHUNK = re.compile(r"\S+")
# Text repeats itself: words between blanks are analysed once. Both bounds keep hostile text from filling memory.
_CACHED_CHARS = 48
_CACHED_CHUNKS = 400_000

_ISO_639_1 = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip


class Token(NamedTuple):
    """A term and the bytes [start, end) that it stands for; an identifier and its parts overlap."""

    term: str
    start: int
    end: int


class _Cache(threading.local):
    """Snowball's stemmers are not safe to share between threads, and a cache needs no lock if it is not."""

    def __init__(self, language: str) -> None:
        self.stem = Stemmer.Stemmer(language, 0).stemWord if language != "none" else str
        self.terms: dict[str, tuple[str, ...]] = {}


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
    _local: _Cache = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        language = _ISO_639_1.get(self.language, self.language)
        known = ["none", *Stemmer.algorithms()]
        if language not in known:
            raise InvalidArgumentError(f"Unknown language {self.language!r}", mend=f"Use one of {', '.join(known)}.")
        object.__setattr__(self, "language", language)
        object.__setattr__(self, "_local", _Cache(language))

    def __reduce__(self) -> tuple[type[Analyzer], tuple[str]]:
        return Analyzer, (self.language,)

    @cached_property
    def version(self) -> str:
        """Equal exactly when two analyzers give the same terms; an index remembers which made it."""
        return f"{REVISION}/{self.language}/snowball-{Stemmer.version()}/unicode-{unicodedata.unidata_version}"

    def terms(self, text: str) -> list[str]:
        """All terms, with repeats, for an index."""
        cache = self._local.terms
        found: list[str] = []
        for chunk in text.split():
            terms = cache.get(chunk)
            found += self._chunk_terms(chunk) if terms is None else terms
        return found

    def query_terms(self, text: str) -> list[str]:
        """The terms to look for, with repeats: function words are dropped, unless nothing else is there."""
        words = [form for chunk in text.split() for form in word_forms(chunk)]
        stop = STOP_WORDS.get(self.language, frozenset())
        telling = [form for form in words if form not in stop]
        return [self._stem(form) for form in telling or words]

    def tokens(self, raw: bytes) -> list[Token]:
        """The terms with the bytes that each stands for, by start; bytes that are not UTF-8 separate words."""
        text = raw.decode("utf-8", "surrogateescape")
        found = [
            Word(word.form, chunk.start() + word.start, chunk.start() + word.end)
            for chunk in _CHUNK.finditer(text)
            for word in split_words(chunk[0])
        ]
        found.sort(key=lambda word: word.start)
        if len(text) == len(raw):
            return [Token(self._stem(form), start, end) for form, start, end in found]
        offsets = list(_byte_offsets(text))
        return [Token(self._stem(form), offsets[start], offsets[end]) for form, start, end in found]

    def _stem(self, form: str) -> str:
        # Identifiers and numbers are names: they have no endings.
        # From U+0E00 on come scripts without stemmers, in pieces of one and two characters.
        return self._local.stem(form) if form[0] < "\u0e00" and (form.isalpha() or "'" in form) else form

    def _chunk_terms(self, chunk: str) -> tuple[str, ...]:
        terms = tuple(map(self._stem, word_forms(chunk)))
        if len(chunk) <= _CACHED_CHARS:
            cache = self._local.terms
            if len(cache) >= _CACHED_CHUNKS:
                cache.clear()
            cache[chunk] = terms
        return terms


def _byte_offsets(text: str) -> Iterator[int]:
    """Byte offset of each character and of the end; an escaped byte is one."""
    at = 0
    for char in text:
        yield at
        code = ord(char)
        at += 1 if code < 0x80 or 0xDC80 <= code <= 0xDCFF else 2 if code < 0x800 else 3 if code < 0x10000 else 4
    yield at
