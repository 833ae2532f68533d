"""What goes wrong in SQLite, as the errors of the engine: no SQL and no path of the host leaves here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    KnowledgeError,
    ProviderError,
    ReadOnlyError,
    StorageFullError,
    TooLargeError,
    UnavailableError,
)

#: SQLite says `full` only for one of the reasons why a disk takes no more (quota and file size limits are others).
_NOT_WRITTEN = frozenset(
    {
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_DIR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMOPEN,
    }
)
_RESTORE = "Restore it from a backup, or try `knowledge check BACKEND --repair` on a copy."
_REPAIR = "`knowledge check BACKEND` says more; with `--repair` it makes anew what can be made from the documents."
#: What SQLite says, without a code of its own, of tables that are not ours any more, or of text that is no JSON.
_NOT_OURS = (
    "no such table",
    "no such column",
    "no such fts5 table",
    "vtable constructor failed",
    "malformed JSON",
    "user-defined function raised exception",
)


class DamagedError(ProviderError):
    """The bytes of the file are not what SQLite has written."""


@contextmanager
def decoding() -> Iterator[None]:
    """Turns what is raised by reading rows that nobody of ours has written into `DamagedError`.

    Only around code that takes nothing but rows: what a caller gave wrong must not look like this.
    """
    try:
        yield
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise DamagedError("A row of the database is not as it was written", mend=_REPAIR) from error


@contextmanager
def translated() -> Iterator[None]:
    """Turns what sqlite3 raises into errors with a code and a mend."""
    try:
        yield
    except sqlite3.Error as error:
        raise meaning(error) from error
    except OverflowError as error:  # what has more bytes than its integers count
        raise too_large() from error


def too_large() -> TooLargeError:
    """A document has too many bytes."""
    return TooLargeError("The document is larger than SQLite stores", mend="Split it.")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether it only has to be tried again."""
    return isinstance(meaning(error), BusyError)


def meaning(error: sqlite3.Error) -> KnowledgeError:
    """The error of the engine for one of SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    match primary:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return BusyError("The database is being written by another process", mend="Try again in a moment.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return ReadOnlyError(
                "The database may not be written", mend="Open it where it can be, or ask for the right."
            )
        case sqlite3.SQLITE_FULL:
            return StorageFullError("The disk is full; nothing was changed", mend="Make room, then try again.")
        case sqlite3.SQLITE_IOERR if code in _NOT_WRITTEN:
            return StorageFullError(
                "The disk does not take the data; nothing was changed", mend="Make room, or look at the disk."
            )
        case sqlite3.SQLITE_IOERR:
            return ProviderError("The disk does not give the data", mend="Look at the disk, and at the system's log.")
        case sqlite3.SQLITE_NOTADB:
            return ConfigurationError("The file is no SQLite database", mend="Name another file.")
        case sqlite3.SQLITE_CORRUPT:
            return DamagedError("The database is damaged", mend=_RESTORE)
        case sqlite3.SQLITE_CANTOPEN:
            return UnavailableError(
                "The database cannot be opened", mend="Check that its folder is there and may be written."
            )
        case sqlite3.SQLITE_TOOBIG:
            return too_large()
        case sqlite3.SQLITE_ERROR if str(error).startswith(_NOT_OURS):
            return DamagedError("Tables of the database are not as they were made", mend=_REPAIR)
        case _:
            name = getattr(error, "sqlite_errorname", None) or type(error).__name__
            return ProviderError(
                f"SQLite failed ({name})", mend="The log has the cause; `knowledge check` looks further."
            )
