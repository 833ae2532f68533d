"""All that the adapter takes from the environment; nothing else in it reads that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args
from unicodedata import normalize

from pydantic import Field, field_validator

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.fs import can_be_path
from knowledge_engine.models import Value
from knowledge_sqlite.metadata_indexes import MAX_KEYS, can_be_indexed

Synchronous = Literal["normal", "full"]
MEMORY = ":memory:"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
_NAMES = ("path", "busy_timeout_s", "read_only", "synchronous", "indexed_keys", "workers")
_MAX_WORKERS = 64
_KEYS_MEND = f"Name at most {MAX_KEYS} keys, short, without quotes, backslashes and control characters."


class SqliteSettings(Value):
    """Where the file is, and how it is used."""

    #: A file, or `:memory:` for one that lives as long as the provider.
    path: str = "knowledge.db"
    #: How long a writer waits for another one before it gives up with BusyError.
    busy_timeout_s: float = Field(default=5.0, ge=0, le=3600)
    read_only: bool = False
    synchronous: Synchronous = "normal"
    #: Metadata keys that are often filtered by, each with an index of its own. None: whatever indexes there are.
    indexed_keys: tuple[str, ...] | None = None
    #: How many processes may help with a long import; with less than 2 none does. None: one for each processor.
    workers: int | None = Field(default=None, ge=0, le=_MAX_WORKERS)

    @field_validator("indexed_keys")
    @classmethod
    def _check_keys(cls, keys: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if keys is None:
            return None
        keys = tuple(dict.fromkeys(normalize("NFC", key) for key in keys))
        if len(keys) > MAX_KEYS or not all(map(can_be_indexed, keys)):
            raise ValueError(_KEYS_MEND)
        return keys

    @classmethod
    def from_env(cls, environ: Mapping[str, str], url: str | None = None) -> SqliteSettings:
        """Settings from `KNOWLEDGE_SQLITE_*`; a `url` says the path instead.

        Raises:
            ConfigurationError: Naming the variable that is wrong.
        """
        given = {
            name: environ[key].strip() for name in _NAMES if (key := f"KNOWLEDGE_SQLITE_{name.upper()}") in environ
        }
        values: dict[str, Any] = {}
        if url is not None:
            values["path"] = path_of(url)
        elif "path" in given:
            if not can_be_path(given["path"]):
                raise ConfigurationError("KNOWLEDGE_SQLITE_PATH names no file", mend="Set it, or unset it.")
            values["path"] = given["path"]
        if timeout := given.get("busy_timeout_s"):
            values["busy_timeout_s"] = _seconds(timeout)
        values["read_only"] = _flag(given.get("read_only", ""))
        synchronous = given.get("synchronous", "").lower() or "normal"
        if synchronous not in get_args(Synchronous):
            raise ConfigurationError(
                f"KNOWLEDGE_SQLITE_SYNCHRONOUS is {synchronous[:60]!r}", mend="Use normal or full."
            )
        values["synchronous"] = synchronous
        if "indexed_keys" in given:
            values["indexed_keys"] = _keys(given["indexed_keys"])
        if workers := given.get("workers"):
            values["workers"] = _count(workers)
        return cls(**values)


def path_of(url: str) -> str:
    """The path that a URL names, written as SQLAlchemy does: three slashes, and a fourth if it is absolute.

    >>> path_of("sqlite:///kb.db"), path_of("sqlite:////srv/kb.db"), path_of("sqlite://:memory:")
    ('kb.db', '/srv/kb.db', ':memory:')

    Raises:
        ConfigurationError: For a URL that names no file.
    """
    rest = url.partition(":")[2]
    if rest in ("//:memory:", "///:memory:"):
        return MEMORY
    path = rest[3:] if rest.startswith("///") else "" if rest.startswith("//") else rest
    if path == "/" or not can_be_path(path):
        raise ConfigurationError(
            "The URL names no file", mend="Write sqlite:///relative.db, sqlite:////absolute.db or sqlite://:memory:."
        )
    return path


def _seconds(given: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 3600:
        raise ConfigurationError(
            f"KNOWLEDGE_SQLITE_BUSY_TIMEOUT_S is {given[:60]!r}", mend="Use a number of seconds from 0 to 3600."
        )
    return number


def _count(given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) < 4 and int(given) <= _MAX_WORKERS):
        raise ConfigurationError(
            f"KNOWLEDGE_SQLITE_WORKERS is {given[:60]!r}",
            mend=f"Use a number of processes from 0 (none helps) to {_MAX_WORKERS}.",
        )
    return int(given)


def _flag(given: str) -> bool:
    if given.lower() in _TRUE:
        return True
    if given.lower() not in _FALSE:
        raise ConfigurationError(f"KNOWLEDGE_SQLITE_READ_ONLY is {given[:60]!r}", mend="Use true or false.")
    return False


def _keys(given: str) -> tuple[str, ...]:
    keys = tuple(dict.fromkeys(normalize("NFC", key) for each in given.split(",") if (key := each.strip())))
    if wrong := next((key for key in keys if not can_be_indexed(key)), None):
        raise ConfigurationError(f"KNOWLEDGE_SQLITE_INDEXED_KEYS names {wrong[:60]!r}", mend=_KEYS_MEND)
    if len(keys) > MAX_KEYS:
        raise ConfigurationError(f"KNOWLEDGE_SQLITE_INDEXED_KEYS names {len(keys)} keys", mend=_KEYS_MEND)
    return keys
