"""How a filter's key finds a value in a document's metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from unicodedata import normalize

from pydantic import JsonValue

#: Usable wherever a metadata key is; it names the document's id, unless the document has a key of that name.
ID_KEY = "source_id"
#: A dotted path has at most so many parts.
MAX_PARTS = 16

Getter = Callable[[Mapping[str, JsonValue], str], object]


def metadata_keys(metadata: Mapping[str, JsonValue]) -> Iterator[str]:
    """The names under which a filter finds something in that metadata: keys, and dotted paths into mappings."""
    pending = [("", metadata, MAX_PARTS)]
    while pending:
        prefix, mapping, depth = pending.pop()
        for key, value in mapping.items():
            if value is None or (prefix and "." in key):
                continue
            yield prefix + key
            if isinstance(value, dict) and "." not in key and depth > 1:
                pending.append((f"{prefix}{key}.", value, depth - 1))


def getter(key: str) -> Getter:
    """Looks the key up in a document's metadata and id; None where it is missing or null."""
    forms = tuple(dict.fromkeys((key, normalize("NFD", key))))
    if len(forms) == 1 and "." not in key and key != ID_KEY:
        return lambda metadata, _id: metadata.get(key)
    paths = tuple(form.split(".") for form in forms if "." in form)

    def get(metadata: Mapping[str, JsonValue], source_id: str) -> object:
        for form in forms:
            if (value := metadata.get(form)) is not None:
                return value
        for path in paths:
            if (found := _walk(metadata, path)) is not None:
                return found
        return source_id or None if key == ID_KEY else None

    return get


def _walk(value: object, path: list[str]) -> object:
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
