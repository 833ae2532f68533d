"""Copies of a database that is in use."""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from knowledge_engine.errors import (
    ConfigurationError,
    KnowledgeError,
    ReadOnlyError,
    StorageFullError,
    UnavailableError,
)
from knowledge_sqlite.database import Database
from knowledge_sqlite.place import Place


def back_up(database: Database, path: str) -> None:
    """See `SqliteKnowledgeAdapter.backup`."""
    target = Place(path)
    if target.memory:
        raise ConfigurationError("A backup is a file", mend="Name one.")
    identity = target.identity()
    if identity is not None and not database.place.memory and identity == database.place.identity():
        raise ConfigurationError("The backup would replace the database itself", mend="Name another file.")
    if target.in_use():
        raise ConfigurationError(
            "The file of the backup is in use as a database", mend="Name another file, or close it everywhere."
        )
    target.check()  # what is no knowledge database is not replaced
    with database.reading() as source, _new_file(target.path) as beside:
        with closing(sqlite3.connect(beside, isolation_level=None)) as copy:
            source.backup(copy)
            # A file of its own, with nothing beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
        _sync(beside)
        os.replace(beside, target.path)  # noqa: PTH105
        _sync(os.path.dirname(target.path))  # noqa: PTH120


@contextmanager
def _new_file(path: str) -> Iterator[str]:
    """The name of an empty file beside `path`, which is gone at the end if it still has that name."""
    beside = f"{path}.{secrets.token_hex(4)}.tmp"
    try:
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        yield beside
    except OSError as error:
        raise _meaning(error) from error
    finally:
        for suffix in ("", "-journal"):
            with suppress(OSError):
                Path(beside + suffix).unlink()


def _meaning(error: OSError) -> KnowledgeError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return UnavailableError("The folder of the backup is not there", mend="Create it, or name another one.")
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return ReadOnlyError("The backup may not be written there", mend="Name another folder, or ask for the right.")
    return StorageFullError(f"The backup cannot be written: {error.strerror}", mend="Make room, then try again.")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
