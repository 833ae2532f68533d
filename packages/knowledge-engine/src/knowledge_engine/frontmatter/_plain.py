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
_PLAIN = r"[A-Za-z0-9_./(<][!-9;-~]*+(?:(?::(?![ \n]|\Z)| (?![ #\n]|\Z))[!-9;-~]*+)*"
_QUOTED = r"\"[ !#-\[\]-~]*\"|'[ -&(-~]*'"
_KEY = r"[A-Za-z_][A-Za-z0-9_.-]*+(?::[A-Za-z][A-Za-z0-9_.-]*+)*"
# Each line that is not empty: the key, or an item's indentation; the plain value, or the quoted one; or all of a line
# that is none of this.
_LINES = re.compile(rf"(?:({_KEY}):|( *)-(?= ))(?: +(?:({_PLAIN})|({_QUOTED})))? *(?=\n|\Z)|([^\n]+)")
# YAML takes no key for one that is longer than 1024.
_MAX_KEY = 128


def plain_block(text: str) -> Metadata | None:
    """The metadata of a block; None if it is not of the plainest kind."""
    out: Metadata = {}
    values: list[JsonValue] | None = None  # of the key before, which is written as a list
    key, indent, as_text = "", "", False
    nulls = False
    for new_key, spaces, plain, quoted, other in _LINES.findall(text):
        if new_key:
            key = new_key
            if key in out or key in NULLS or len(key) > _MAX_KEY:
                return None
            as_text = is_text_field(key)
        elif other or not (plain or quoted):
            return None
        value: JsonValue = quoted[1:-1] if quoted else None
        if plain and plain not in NULLS:
            value = plain if as_text else typed(plain)
        nulls = nulls or value is None
        if new_key:
            # None stands for a null, and for a key whose list may come.
            out[key] = value
            values = None if plain or quoted else []
        elif values is None or (values and spaces != indent):
            return None
        else:
            indent = spaces
            out[key] = values
            values.append(value)
    return _without_nulls(out) if nulls else out


def _without_nulls(metadata: Metadata) -> Metadata:
    return {
        key: [each for each in value if each is not None] if isinstance(value, list) else value
        for key, value in metadata.items()
        if value is not None
    }
