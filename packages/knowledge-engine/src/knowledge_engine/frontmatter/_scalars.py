"""Which plain words of a block are not text: the one place where a scalar gets a type."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

#: Integers beyond it are not exact in every JSON reader.
MAX_EXACT_INT: Final = 2**53 - 1
#: How deep mappings and lists may nest, the outermost mapping counted.
MAX_DEPTH: Final = 32

NULLS: Final = frozenset({"", "~", "null"})
BOOLEANS: Final = {"true": True, "false": False}

_TEXT_FIELDS = frozenset({"id", "title", "summary", "kind", "version", "lang", "tags", "keywords", "aliases"})
_DATE_WORDS = frozenset({"date", "dates", "created", "updated", "modified", "published", "pubdate", "lastmod"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[^\W_a-zA-Z]+")
_INT = re.compile(r"0|-?[1-9][0-9]{0,15}")
_NUMBER_STARTS: Final = frozenset("-0123456789")
# What `repr` can print; two dozen characters are enough for any float.
_FLOAT = re.compile(r"-?[0-9]{1,17}(?:\.[0-9]{1,20})?(?:e[+-][0-9]{2,3})?")


@lru_cache(maxsize=4096)
def is_text_field(key: str) -> bool:
    """Whether the values of that top-level key, and all inside them, stay text as typed.

    Date fields are those whose last word is date, created, updated, modified or published, with or without
    `at`, `on` or `by` behind it: `lastUpdated`, `created_at`, `release-date`; not `candidate`.

    >>> is_text_field("version"), is_text_field("created_at"), is_text_field("rating")
    (True, True, False)
    """
    if key.casefold() in _TEXT_FIELDS:
        return True
    words = [word.casefold() for word in _WORD.findall(key[-64:])]
    if len(words) > 1 and words[-1] in {"at", "on", "by"}:
        words.pop()
    return bool(words) and words[-1] in _DATE_WORDS


def typed(text: str) -> str | int | float | bool:
    """What a plain (unquoted) scalar stands for outside text fields.

    Only `true` and `false` are booleans; a number is one only if printing it gives the same text again.

    >>> [typed(text) for text in ("8", "1.50", "012", "yes", "1_000", "2.5", "true")]
    [8, '1.50', '012', 'yes', '1_000', 2.5, True]
    """
    if text in BOOLEANS:
        return BOOLEANS[text]
    if text[:1] not in _NUMBER_STARTS:
        return text
    if _INT.fullmatch(text):
        return number if abs(number := int(text)) <= MAX_EXACT_INT else text
    # A float prints "inf" for what is too large, so that stays text as well.
    if _FLOAT.fullmatch(text) and repr(real := float(text)) == text:
        return real
    return text
