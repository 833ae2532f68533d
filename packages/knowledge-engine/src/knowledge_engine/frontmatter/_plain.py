"""The frontmatter that most documents have: `key: value` lines and lists of values, read without a YAML parser.

It is much faster, and says nothing of what it is not sure of: then the parser reads the block. What it does read is
what the parser would say.
"""

from __future__ import annotations

import re

from pydantic import JsonValue

from knowledge_engine.frontmatter._scalars import NULLS, is_text_field, typed
from knowledge_engine.models import Metadata

# ASCII without tabs. A plain value begins with no sign that means something in YAML, and holds no `: ` and no ` #`; a
# quoted one holds neither its quotes nor a backslash.
_PLAIN = r"(?P<plain>[A-Za-z0-9_./(<](?:[!-9;-~]++|:(?! |\Z)| (?![ #]|\Z))*)"
_VALUE = rf"""(?:{_PLAIN}|"(?P<double>[ !#-\[\]-~]*)"|'(?P<single>[ -&(-~]*)')"""
_ENTRY = re.compile(rf"(?P<key>[A-Za-z_](?:[A-Za-z0-9_.-]++|:(?=[A-Za-z]))*):(?: +{_VALUE})? *")
# YAML takes no key for one that is longer than 1024.
_MAX_KEY = 128
_ITEM = re.compile(rf"(?P<indent> *)- +{_VALUE} *")


def plain_block(text: str) -> Metadata | None:
    """The metadata of a block; None if it is not of the plainest kind."""
    out: Metadata = {}
    values: list[JsonValue] | None = None  # of the key before, which is written as a list
    key, indent, as_text = "", "", False
    for line in text.split("\n"):
        if entry := _ENTRY.fullmatch(line):
            key, plain, double, single = entry.groups()
            if key in out or key in NULLS or len(key) > _MAX_KEY:
                return None
            as_text, values, indent = is_text_field(key), None, ""
            # None stands for a null, and for a key whose list may come.
            out[key] = _value(plain, double, single, as_text)
            if plain is None and out[key] is None:
                values = []
        elif item := _ITEM.fullmatch(line):
            spaces, plain, double, single = item.groups()
            if values is None or (values and spaces != indent):
                return None
            indent = spaces
            out[key] = values
            values.append(_value(plain, double, single, as_text))
        elif line:
            return None
    return {
        key: [each for each in value if each is not None] if isinstance(value, list) else value
        for key, value in out.items()
        if value is not None
    }


def _value(plain: str | None, double: str | None, single: str | None, as_text: bool) -> JsonValue:
    if plain is None:
        return double if double is not None else single
    if plain in NULLS:
        return None
    return plain if as_text else typed(plain)
