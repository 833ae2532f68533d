"""One file: connections for readers, one for the writer, and transactions that are whole or were not."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

from knowledge_engine.errors import BusyError, ConfigurationError, ReadOnlyError, UnavailableError
from knowledge_sqlite.errors import is_busy, meaning, translated
from knowledge_sqlite.place import Identity, Place, Stamp
from knowledge_sqlite.schema import VERSION, migrate, state_row, version_of
from knowledge_sqlite.settings import SqliteSettings

_MAX_IDLE_READERS = 8
_LOG_PAGES = 4_000
_CACHE_KIB, _READER_CACHE_KIB = 16_384, 4_096
#: Between two looks whether the lock is free, in seconds; SQLite's own pauses grow too long to be fair.
_LEAST_PAUSE, _MOST_PAUSE = 0.001, 0.02

_Result = TypeVar("_Result")
OnOpen = Callable[[sqlite3.Connection], None]


class _Reader(NamedTuple):
    connection: sqlite3.Connection
    #: The file as it was when it was opened as one that nobody changes; None where locks hold.
    unlocked: Stamp | None = None
    #: It is closed after its use.
    passing: bool = False


class Database:
    """Opened by the first use. Any thread may read; writers of this process and others wait for each other.

    A reader sees one state of the file for as long as its block lasts, whatever is written meanwhile. Reading makes no
    file: where there is none, readers see an empty database. A file that takes the place of another is opened anew.

    Args:
        analyzer: Version of the analyzer, for a file that is made now.
        on_open: Called with the writer's connection, in no transaction, when it was opened.
    """

    def __init__(self, settings: SqliteSettings, analyzer: str, on_open: OnOpen) -> None:
        self._settings, self._analyzer, self._on_open = settings, analyzer, on_open
        self.place = Place(settings.path)
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._pool = threading.Lock()
        self._writing = threading.RLock()
        self._idle: list[_Reader] = []
        self._writer: sqlite3.Connection | None = None
        #: The file that idle readers and the writer have open.
        self._identity: Identity | None = None
        self._checked: Identity | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that only reads.

        Raises:
            KnowledgeError: When the file cannot be opened or read.
        """
        if self.place.memory:
            # One connection is all there is to a database in memory.
            with self._locked(), translated():
                yield self._writer_connection()
            return
        with translated():
            reader = self._reader()
            done = False
            try:
                reader.connection.execute("BEGIN")
                yield reader.connection
                done = True
            except sqlite3.DatabaseError as error:
                self._check_unchanged(reader, error)
                raise
            finally:
                with suppress(sqlite3.Error):
                    reader.connection.execute("COMMIT" if done else "ROLLBACK")
                self._give_back(reader)
            self._check_unchanged(reader)

    @contextmanager
    def writing(self, undone: Callable[[], None] = lambda: None) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that is committed at the end, or undone if anything is raised.

        Args:
            undone: Called in the second case, before anyone else can write.

        Raises:
            BusyError: When another process writes for longer than the busy timeout.
            ReadOnlyError, StorageFullError, KnowledgeError: For what their names say.
        """
        with self.alone() as connection, self.transaction(connection, undone):
            yield connection

    @contextmanager
    def transaction(self, connection: sqlite3.Connection, undone: Callable[[], None]) -> Iterator[None]:
        """As `writing`, on the writer's connection, by whoever has it alone."""
        self._begin(connection)
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            undone()
            raise

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """The writer's connection outside of a transaction, for what SQLite does not do within one."""
        if self._settings.read_only:
            raise ReadOnlyError("The database is open for reading only", mend="Open it without READ_ONLY.")
        with self._locked(), translated():
            yield self._writer_connection()

    def state(self, connection: sqlite3.Connection) -> tuple[object, ...]:
        """Differs when the index is another one than before."""
        return (
            self._identity,
            *state_row(connection, "revision, passages, removals, analyzer"),
        )

    def close(self) -> None:
        """Closes all connections that are not in use; those that are close when they are given back."""
        self._closed = True
        if self._process != os.getpid():
            return
        with self._pool:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.connection.close()
        with self._writing:
            self._close_writer()

    # Readers

    def _reader(self) -> _Reader:
        self._notice()
        with self._pool:
            if self._idle:
                return self._idle.pop()
        if not self._settings.read_only and self.place.is_void():
            return _Reader(self._void(), passing=True)
        if self._writer is None and not self._only_reads():
            with self._writing:
                self._writer_connection()  # brings it up to date
        return self._connect_reader()

    def _only_reads(self) -> bool:
        return self._settings.read_only or not self.place.may_be_written()

    def _give_back(self, reader: _Reader) -> None:
        with self._pool:
            if not self._closed and not reader.passing and len(self._idle) < _MAX_IDLE_READERS:
                self._idle.append(reader)
                return
        reader.connection.close()

    def _check_unchanged(self, reader: _Reader, error: sqlite3.Error | None = None) -> None:
        """A reader without locks may have read half of a change."""
        if reader.unlocked is not None and reader.unlocked != self.place.stamp():
            raise BusyError("The database was changed while it was read", mend="Try again.") from error

    def _connect_reader(self) -> _Reader:
        # Without anyone who writes, the file is all there is, and nothing is made beside it.
        unlocked = self.place.stamp() if self._only_reads() and not self.place.in_use() else None
        if self._settings.read_only and self.place.is_void():
            raise ConfigurationError("There is no such database to read", mend="Correct the path, or create it first.")
        connection = self._connected(self.place.uri("ro", immutable=unlocked is not None), self._prepare_reader)
        return _Reader(connection, unlocked)

    def _prepare_reader(self, connection: sqlite3.Connection) -> None:
        version = version_of(connection)
        connection.execute("PRAGMA query_only = 1")
        connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
        if version < VERSION:
            raise ReadOnlyError(
                "The database has an earlier version, and may not be written", mend="Open it once for writing."
            )

    def _void(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        migrate(connection, self._analyzer)
        return connection

    # The writer

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._notice()
        with self._writing:
            yield

    def _writer_connection(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = self._connected(self.place.uri("rwc"), self._prepare_writer)
            if not self.place.memory:
                self._identity = self.place.identity()
            try:
                self._on_open(self._writer)
            except BaseException:
                self._close_writer()
                raise
        return self._writer

    def _prepare_writer(self, connection: sqlite3.Connection) -> None:
        version = version_of(connection)  # before anything is changed: it may be no file of ours
        connection.execute("PRAGMA secure_delete = 1")
        connection.execute("PRAGMA foreign_keys = 1")
        if not self.place.memory:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")
        # Of pages that are written again and again, the last state only is taken over from the log.
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if version < VERSION:
            migrate(connection, self._analyzer)

    def _begin(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            self._unlocked(lambda: connection.execute("BEGIN IMMEDIATE"))
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self._settings.busy_timeout_s * 1000)}")

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(sqlite3.Error):
                # Whoever reads or writes meanwhile does it later: closing waits for nobody.
                writer.execute("PRAGMA busy_timeout = 0")
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            writer.close()

    # Connections

    def _notice(self) -> None:
        """What may have happened since the last use: an end, a fork, another file in the place of this one."""
        if self._closed:
            raise UnavailableError("The provider was disposed of", mend="Open it again.")
        if self._process != os.getpid():
            # What was opened before a fork is the other process's. Closing it here would work on its files.
            _LEFT_TO_PARENTS.append((self._idle, self._writer))
            self._start()
        if self.place.memory:
            return
        replaced = self.place.identity() != self._identity
        if replaced:
            with self._writing:
                self._close_writer()
                self._identity = self.place.identity()
        with self._pool:
            unlocked = [each for each in self._idle if each.unlocked is not None]
            stamp = self.place.stamp() if unlocked else None
            old = self._idle if replaced else [each for each in unlocked if each.unlocked != stamp]
            self._idle = [each for each in self._idle if each not in old]
        for reader in old:
            reader.connection.close()

    def _connected(self, uri: str, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        self._check_once()
        return self._unlocked(lambda: self._connect(uri, prepare))

    def _check_once(self) -> None:
        identity = None if self.place.memory else self.place.identity()
        if identity is None or identity == self._checked:
            return
        if self.place.in_use():
            # Only reading, so that the log of another program's database is not taken over.
            self._connect(self.place.uri("ro"), version_of).close()
        else:
            self.place.check()
        self._checked = identity

    def _connect(self, uri: str, prepare: Callable[[sqlite3.Connection], object]) -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, timeout=self._settings.busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def patiently(self, attempt: Callable[[], bool]) -> bool:
        """Tries again until it succeeds, for as long as the busy timeout; whether it did."""
        deadline, pause = time.monotonic() + self._settings.busy_timeout_s, _LEAST_PAUSE
        while not attempt():
            if time.monotonic() >= deadline:
                return False
            # Of different length, so that waiting processes do not keep step.
            time.sleep(random.uniform(_LEAST_PAUSE, pause))  # noqa: S311
            pause = min(2 * pause, _MOST_PAUSE)
        return True

    def _unlocked(self, attempt: Callable[[], _Result]) -> _Result:
        """Tries again while others hold a lock, for as long as the busy timeout."""
        results: list[_Result] = []
        failures: list[sqlite3.Error] = []

        def succeeds() -> bool:
            try:
                results.append(attempt())
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise meaning(error) from error
                failures[:] = [error]
                return False
            return True

        if not self.patiently(succeeds):
            raise meaning(failures[0]) from failures[0]
        return results[0]


#: Connections that were open when a process was forked off.
_LEFT_TO_PARENTS: list[object] = []
