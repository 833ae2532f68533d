"""Where a metadata key's value stands in SQL, and indexes on the keys that the host names."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable
from unicodedata import normalize

from knowledge_engine.filters import ID_KEY
from knowledge_engine.filters.fields import MAX_PARTS

MAX_KEYS = 32
_MAX_KEY_CHARS = 200
# In a JSON path they would end a name, or stand there otherwise than in the stored text.
_NO_NAME = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_NULL = "'null'"
_OURS = re.compile(r"metadata_[0-9a-f]{32}")


def can_be_indexed(key: str) -> bool:
    """Whether `literal_value` can say where the key's value stands, in bounded text."""
    return len(key) <= _MAX_KEY_CHARS and key.count(".") < MAX_PARTS and has_path(key)


def has_path(key: str) -> bool:
    """Whether SQLite can look the key up."""
    return _NO_NAME.search(key) is None


def value(key: str, written: Callable[[str], str]) -> str:
    """SQL for the JSON text of what a filter's key finds in a row of `documents`; NULL or 'null' where it is missing.

    The same places in the same order as `filters.fields.getter`.

    Args:
        key: For which `has_path` holds; NFC.
        written: How a JSON path stands in the SQL.
    """
    forms = tuple(dict.fromkeys((key, normalize("NFD", key))))
    paths = [*([form] for form in forms), *(form.split(".") for form in forms if "." in form)]
    places = [f"(metadata -> {written(_path(path))})" for path in paths]
    if key == ID_KEY:
        places.append("json_quote(id)")
    if len(places) == 1:
        return places[0]
    return f"coalesce({', '.join(f'nullif({place}, {_NULL})' for place in places)})"


def literal_value(key: str) -> str:
    """`value` with its paths in the SQL itself: the planner knows an index only by its literal expression."""
    return value(key, lambda path: "'" + path.replace("'", "''") + "'")


def _path(names: Iterable[str]) -> str:
    return "$" + "".join(f'."{name}"' for name in names)


def indexed(connection: sqlite3.Connection, keys: Iterable[str]) -> frozenset[str]:
    """Those of the keys that the file has an index on, word for word as it would be made."""
    present = _present(connection)
    return frozenset(key for key in keys if can_be_indexed(key) and present.get(_name(key)) == _statement(key))


def missing(connection: sqlite3.Connection, keys: Iterable[str]) -> list[str]:
    """Those of the keys that `add` would make an index on."""
    keys = list(dict.fromkeys(keys))
    there = indexed(connection, keys)
    return [key for key in keys if key not in there]


def add(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Makes the indexes that are missing, in the caller's transaction. Others stay: another program may want them."""
    for key in missing(connection, keys):
        connection.execute(_statement(key))


def keep_only(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Makes the indexes that are missing and drops all others, in the caller's transaction."""
    keys = list(keys)
    for name in sorted(_present(connection).keys() - {_name(key) for key in keys}):
        connection.execute(f"DROP INDEX {name}")
    add(connection, keys)


def _present(connection: sqlite3.Connection) -> dict[str, str]:
    """Our indexes: their statements by their names."""
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'documents'")
    return {name: sql for name, sql in rows if _OURS.fullmatch(name)}


def _name(key: str) -> str:
    # Of the expression: should a later version look a key up otherwise, it has another index.
    return f"metadata_{hashlib.blake2b(literal_value(key).encode(), digest_size=16).hexdigest()}"


def _statement(key: str) -> str:
    return f"CREATE INDEX {_name(key)} ON documents({literal_value(key)})"
