"""Filters: conditions on metadata, strict, with one meaning behind every backend.

A filter is a JSON object; all its entries must hold::

    {"kind": "device", "year": {"gte": 2020, "lt": 2025}, "not": {"tags": ["old", "draft"]}}

- `key: value` is `eq`; `key: [values]` is `in`; `key: {operator: value, ...}` asks for every one of them.
- `and: [filters]`, `or: [filters]`, `not: filter` nest; inside `key: {...}` they take conditions on that key. Nothing
  in them may be empty; the empty filter matches everything, `in: []` nothing.
- A key is a metadata key, else a dotted path into nested mappings, else, for `source_id`, the document's id. null is
  missing.
- A list-valued field matches when any element does; two operators need not agree on the element. `ne` and `nin` are the
  exact negation of `eq` and `in`, so they match a missing key.
- `eq`, `ne`, `in`, `nin` are exact after NFC. A string equals a number when it is the number's text ("5" is 5, "5.0" is
  not), and a boolean when it is `true` or `false`. A boolean is no number. null equals only a missing key.
- `gt`, `gte`, `lt`, `lte` compare numbers where both sides are, or spell, finite numbers; else instants where both are
  ISO dates or datetimes; else they do not match. No offset means UTC; `2024-05-01` and `2024-05` are their first
  instant; `2024` is a number.
- `prefix` looks at strings; `contains` finds a part of a string, or a whole element of a list. Exact after NFC.
- `exists` takes true or false.
"""

from knowledge_engine.filters.compiler import (
    MAX_CHARS,
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_LISTED,
    Filter,
    compile_filter,
    merge_filters,
)
from knowledge_engine.filters.fields import ID_KEY, metadata_keys
from knowledge_engine.filters.where import parse_where

__all__ = [
    "ID_KEY",
    "MAX_CHARS",
    "MAX_CONDITIONS",
    "MAX_DEPTH",
    "MAX_LISTED",
    "Filter",
    "compile_filter",
    "merge_filters",
    "metadata_keys",
    "parse_where",
]
