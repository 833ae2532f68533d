"""All sources of one revision, found by what their metadata says: ids, names, catalogue fields."""

from __future__ import annotations

import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from heapq import nsmallest
from posixpath import basename
from typing import NamedTuple

from pydantic import JsonValue

from knowledge_engine.analysis import Analyzer
from knowledge_engine.catalogue_index import CatalogueIndex, Correction
from knowledge_engine.filters import metadata_keys
from knowledge_engine.models import Source

#: Names longer than this are compared by their beginning only.
MAX_NAME_CHARS = 100
#: How many names a look-up of similar ones compares in full.
MAX_COMPARED = 300
_MIN_RATIO = 0.6
#: Keys whose values name one document each: no facet is made of them.
NAMING_KEYS = frozenset({"id", "title", "summary"})


class Match(NamedTuple):
    """A source that a search found; higher is better."""

    score: float
    source: Source


class Matches(NamedTuple):
    """What a search found, best first, and the words that it had to correct for that."""

    found: tuple[Match, ...]
    corrections: tuple[Correction, ...] = ()


class _Name(NamedTuple):
    text: str
    letters: int
    at: int


class Catalogue:
    """An immutable view of all sources of one revision. May be used by several threads.

    The search index and the table of names are made when first asked for, once.
    """

    def __init__(self, sources: Iterable[Source], *, revision: str = "", analyzer: Analyzer | None = None) -> None:
        by_id = {source.id: source for source in sources}
        self.sources = tuple(by_id[source_id] for source_id in sorted(by_id))
        #: Of the corpus; empty where the backend names none.
        self.revision = revision
        self._by_id = by_id
        self._analyzer = analyzer
        self._lock = threading.Lock()
        #: Pages of one search follow each other.
        self._last_search: tuple[str, Matches] | None = None

    def get(self, source_id: str) -> Source | None:
        """The source of exactly that id."""
        return self._by_id.get(source_id)

    def resolve(self, name: str) -> tuple[str, ...]:
        """Ids of the sources that answer to `name`: the first of these rules that finds any.

        The source of that id; the only one whose id is another Unicode spelling of it; those whose frontmatter `id`
        it is. Several mean that the name is ambiguous.
        """
        if name in self._by_id:
            return (name,)
        key = _nfc(name)
        spelled = self._spellings.get(key, ())
        if len(spelled) == 1:
            return spelled
        return tuple(sorted({*spelled, *self._claims.get(key, ())}))

    def public_id(self, source: Source) -> str:
        """The frontmatter `id` where `resolve` leads from it to this source, else the source's id."""
        claimed = _claimed_id(source)
        return claimed if claimed and self.resolve(claimed) == (source.id,) else source.id

    def search(self, text: str) -> Matches:
        """Sources whose catalogue fields hold words of `text`, best first; equal scores by id.

        Where none does, words of the catalogue that are spelled nearly so, or begin so, stand in.
        """
        last = self._last_search
        if last is None or last[0] != text:
            ranked, corrections = self._index.search(text)
            last = text, Matches(tuple(Match(score, self.sources[at]) for score, at in ranked), corrections)
            self._last_search = last
        return last[1]

    def suggest(self, name: str, limit: int = 5) -> tuple[str, ...]:
        """At most `limit` public ids of sources with a name (id, title, alias) like `name`, most alike first."""
        key = fold(name)[:MAX_NAME_CHARS]
        if not key:
            return ()
        ranked: dict[int, None] = dict.fromkeys(self._similar(key))
        if len(ranked) < limit:
            words = "".join(char if char.isalnum() else " " for char in key)
            ranked |= dict.fromkeys(at for _, at in self._index.search(words)[0])
        return tuple(self.public_id(self.sources[at]) for at in list(ranked)[:limit])

    def titled(self, name: str) -> tuple[str, ...]:
        """Ids of the sources whose title, alias or file name (with or without its ending) is `name`, in any case."""
        return tuple(self.sources[at].id for at in sorted(self._places_by_name.get(fold(name), ())))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every metadata key that some source has, nested ones by their dotted path."""
        return frozenset(key for source in self.sources for key in metadata_keys(source.metadata))

    @cached_property
    def values(self) -> dict[str, Counter[str]]:
        """For each metadata key how many sources have each of its values; without keys that name one document."""
        return count_values(self.sources)

    def _similar(self, key: str) -> list[int]:
        """Positions of sources, the most similar name of each deciding."""
        matcher = SequenceMatcher(None, autojunk=False)
        matcher.set_seq2(key)
        letters = _letters(key)
        inside = (name for name in self._names if key in name.text or (len(name.text) > 2 and name.text in key))
        candidates = nsmallest(MAX_COMPARED, inside, key=lambda name: abs(len(name.text) - len(key)))
        scores: dict[int, float] = {name.at: 2 - abs(len(name.text) - len(key)) / MAX_NAME_CHARS for name in candidates}
        near = nsmallest(
            MAX_COMPARED,
            self._names,
            key=lambda name: (name.letters ^ letters).bit_count() + abs(len(name.text) - len(key)),
        )
        for name in near:
            matcher.set_seq1(name.text)
            if matcher.real_quick_ratio() >= _MIN_RATIO and (ratio := matcher.ratio()) >= _MIN_RATIO:
                scores[name.at] = max(ratio, scores.get(name.at, 0.0))
        return sorted(scores, key=lambda at: (-scores[at], at))

    @cached_property
    def _spellings(self) -> dict[str, tuple[str, ...]]:
        return _grouped((_nfc(source.id), source.id) for source in self.sources)

    @cached_property
    def _claims(self) -> dict[str, tuple[str, ...]]:
        return _grouped((_nfc(claim), source.id) for source in self.sources if (claim := _claimed_id(source)))

    @cached_property
    def _names(self) -> tuple[_Name, ...]:
        names = {(fold(name)[:MAX_NAME_CHARS], at) for at, source in enumerate(self.sources) for name in _names(source)}
        return tuple(_Name(text, _letters(text), at) for text, at in sorted(names) if text)

    @cached_property
    def _places_by_name(self) -> dict[str, set[int]]:
        out: dict[str, set[int]] = {}
        for at, source in enumerate(self.sources):
            for name in _names(source):
                out.setdefault(fold(name), set()).add(at)
        return out

    @property
    def _index(self) -> CatalogueIndex:
        # One build for all concurrent callers: it takes seconds for 50,000 documents.
        with self._lock:
            return self._built_index

    @cached_property
    def _built_index(self) -> CatalogueIndex:
        return CatalogueIndex([source_fields(source) for source in self.sources], self._analyzer or Analyzer())


def fold(name: str) -> str:
    """How names are compared: composed, in one case, without blanks around."""
    return _nfc(name).casefold().strip()


def texts_of(value: JsonValue) -> tuple[str, ...]:
    """A metadata value as the texts that a filter on it could name: a list's elements, else one; () for the rest."""
    if isinstance(value, list):
        return tuple(text for item in value if (text := _text(item)))
    text = _text(value)
    return (text,) if text else ()


def source_fields(source: Source) -> dict[str, tuple[str, ...]]:
    """What the catalogue search sees of a source: its metadata's texts, its title and its id."""
    fields = {key: texts_of(value) for key, value in source.metadata.items()}
    return {**fields, "title": (source.title,), "id": (*fields.get("id", ()), source.id)}


def count_values(sources: Iterable[Source]) -> dict[str, Counter[str]]:
    """For each metadata key the number of sources that have each of its values; naming keys are left out."""
    counts: dict[str, Counter[str]] = {}
    for source in sources:
        for key, value in source.metadata.items():
            if key not in NAMING_KEYS and (texts := texts_of(value)):
                counts.setdefault(key, Counter()).update(set(texts))
    return counts


def _names(source: Source) -> Iterator[str]:
    file_name = basename(source.id)
    yield from (source.id, _claimed_id(source), source.title, file_name, file_name.rpartition(".")[0])
    yield from texts_of(source.metadata.get("aliases"))


def _claimed_id(source: Source) -> str:
    claimed = source.metadata.get("id")
    return claimed if isinstance(claimed, str) else ""


def _text(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, int | float) else ""


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _letters(text: str) -> int:
    """A set of the letters in `text` as bits; different letters may share one."""
    bits = 0
    for char in text:
        bits |= 1 << (ord(char) & 63)
    return bits


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    out: dict[str, Sequence[str]] = {}
    for key, value in pairs:
        out[key] = (*out.get(key, ()), value)
    return {key: tuple(values) for key, values in out.items()}
