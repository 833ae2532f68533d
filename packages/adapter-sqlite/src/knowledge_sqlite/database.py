"""One file: connections for readers, one for the writer, and transactions that are whole or were not."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from knowledge_engine.errors import ConfigurationError, ReadOnlyError, UnavailableError
from knowledge_sqlite.errors import meaning, translated
from knowledge_sqlite.schema import VERSION, migrate, version_of
from knowledge_sqlite.settings import MEMORY, SqliteSettings

_MAX_IDLE_READERS = 8
_CACHE_KIB = 16_384


class Database:
    """Opened by the first use. Any thread may read; writers of this process and others wait for each other.

    A reader sees one state of the file for as long as its block lasts, whatever is written meanwhile.

    Args:
        analyzer: Version of the analyzer, for a file that is made now.
    """

    def __init__(self, settings: SqliteSettings, analyzer: str) -> None:
        self._settings, self._analyzer = settings, analyzer
        self._memory = settings.path == MEMORY
        self._pool = threading.Lock()
        self._writing = threading.RLock()
        self._idle: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._stamp: tuple[int, ...] | None = None
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that only reads.

        Raises:
            KnowledgeError: When the file cannot be opened or read.
        """
        if self._memory:
            # One connection is all there is to a database in memory.
            with self._writing, translated():
                yield self._writer_connection()
            return
        with translated():
            connection = self._reader()
            done = False
            try:
                connection.execute("BEGIN")
                yield connection
                done = True
            finally:
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("COMMIT" if done else "ROLLBACK")
                self._give_back(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that is committed at the end, or undone if anything is raised.

        Raises:
            BusyError: When another process writes for longer than the busy timeout.
            ReadOnlyError, StorageFullError, KnowledgeError: For what their names say.
        """
        if self._settings.read_only:
            raise ReadOnlyError("The database is open for reading only", mend="Open it without READ_ONLY.")
        with self._writing, translated():
            connection = self._writer_connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """The writer's connection outside of a transaction, for what SQLite does not do within one."""
        if self._settings.read_only:
            raise ReadOnlyError("The database is open for reading only", mend="Open it without READ_ONLY.")
        with self._writing, translated():
            yield self._writer_connection()

    def close(self) -> None:
        """Closes all connections that are not in use; those that are close when they are given back."""
        with self._pool:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        with self._writing:
            writer, self._writer = self._writer, None
            if writer is not None:
                with suppress(sqlite3.Error):
                    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                writer.close()

    # Connections

    def _reader(self) -> sqlite3.Connection:
        self._alive()
        self._forget_if_replaced()
        with self._pool:
            if self._idle:
                return self._idle.pop()
        if not self._settings.read_only:
            with self._writing:
                self._writer_connection()  # makes the file, or brings it up to date
        return self._connect(for_writing=False)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._pool:
            if not self._closed and len(self._idle) < _MAX_IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()

    def _writer_connection(self) -> sqlite3.Connection:
        self._alive()
        if self._writer is None:
            self._writer = self._connect(for_writing=True)
        return self._writer

    def _alive(self) -> None:
        if self._closed:
            raise UnavailableError("The provider was disposed of", mend="Open it again.")

    def _forget_if_replaced(self) -> None:
        """A file that is read as unchanging is looked at before each use: it may change all the same."""
        if not self._settings.read_only or self._memory:
            return
        stamp = _stamp(self._settings.path)
        with self._pool:
            if stamp != self._stamp:
                for connection in self._idle:
                    connection.close()
                self._idle.clear()
                self._stamp = stamp

    def _connect(self, *, for_writing: bool) -> sqlite3.Connection:
        settings = self._settings
        if not self._memory and Path(settings.path).is_dir():
            raise ConfigurationError("The path of the database is a folder", mend="Name a file in it.")
        if settings.read_only and not self._memory and not Path(settings.path).exists():
            raise ConfigurationError("There is no such database to read", mend="Correct the path, or create it first.")
        connection = sqlite3.connect(
            self._uri(for_writing=for_writing),
            uri=True,
            timeout=settings.busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._prepare(connection, for_writing=for_writing)
        except sqlite3.Error as error:
            connection.close()
            raise meaning(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection, *, for_writing: bool) -> None:
        settings = self._settings
        version = version_of(connection)  # before anything is changed: it may be no file of ours
        if not for_writing:
            connection.execute("PRAGMA query_only = 1")
        else:
            connection.execute("PRAGMA secure_delete = 1")
            connection.execute("PRAGMA foreign_keys = 1")
            if not self._memory:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {settings.synchronous}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if version < VERSION:
            migrate(connection, self._analyzer)

    def _uri(self, *, for_writing: bool) -> str:
        if self._memory:
            return "file::memory:"
        path = quote(os.fspath(self._settings.path))
        prefix = "file:" if path.startswith("/") else "file:./"
        if for_writing:
            return f"{prefix}{path}?mode=rwc"
        # Without a log that someone writes to, the file is all there is, and nothing is made beside it.
        still = self._settings.read_only and not _has_log(self._settings.path)
        return f"{prefix}{path}?mode=ro{'&immutable=1' if still else ''}"


def _has_log(path: str) -> bool:
    try:
        return Path(f"{path}-wal").stat().st_size > 0
    except OSError:
        return False


def _stamp(path: str) -> tuple[int, ...]:
    try:
        info = Path(path).stat()
    except OSError:
        return ()
    return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, _has_log(path))
