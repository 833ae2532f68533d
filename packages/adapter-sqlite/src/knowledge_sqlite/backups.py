"""Copies of a database that is in use."""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    KnowledgeError,
    ReadOnlyError,
    StorageFullError,
    UnavailableError,
)
from knowledge_sqlite.database import Database
from knowledge_sqlite.errors import translated
from knowledge_sqlite.place import Place
from knowledge_sqlite.schema import migrate


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


def _patience(seconds: float) -> Callable[[int, int, int], None]:
    """For `sqlite3.Connection.backup`, which waits for other writers as long as they like."""
    deadline = time.monotonic() + seconds

    def progress(status: int, remaining: int, total: int) -> None:  # noqa: ARG001
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() >= deadline:
            raise BusyError("The database is being written by another process", mend="Try again in a moment.")

    return progress


def restore(database: Database, path: str, analyzer: str, patience_s: float) -> None:
    """See `SqliteKnowledgeAdapter.restore`."""
    source = Place(path)
    if source.memory or source.is_void():
        raise ConfigurationError("There is no such backup", mend="Name the file of one.")
    if not database.place.memory and source.identity() == database.place.identity():
        raise ConfigurationError("The backup is the database itself", mend="Name another file.")
    if source.in_use():
        raise ConfigurationError(
            "The backup is in use as a database", mend="Close it everywhere, or back it up and restore that."
        )
    source.check()
    with (
        tempfile.TemporaryDirectory(prefix="knowledge-") as folder,
        translated(),
        closing(sqlite3.connect(Path(folder) / "copy.db", isolation_level=None)) as copy,
    ):
        with closing(sqlite3.connect(source.uri("ro", immutable=True), uri=True)) as original:
            original.backup(copy)
        migrate(copy, analyzer)
        # Terms may have other numbers there: nobody takes its index for the one that they know.
        copy.execute("UPDATE state SET removals = ?", (secrets.randbits(48),))
        with database.alone() as connection:
            copy.backup(connection, progress=_patience(patience_s))


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
