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
    UnavailableError,
)

_RESTORE = "Restore it from a backup, or try `knowledge check BACKEND --repair` on a copy."


@contextmanager
def translated() -> Iterator[None]:
    """Turns what sqlite3 raises into errors with a code and a mend."""
    try:
        yield
    except sqlite3.Error as error:
        raise meaning(error) from error
    except UnicodeEncodeError as error:  # sqlite3 stores UTF-8 only
        raise ProviderError(
            "A text holds half a surrogate pair, which UTF-8 cannot hold", mend="Correct it."
        ) from error


def meaning(error: sqlite3.Error) -> KnowledgeError:
    """The error of the engine for one of SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    match primary:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return BusyError("The database is being written by another process", mend="Try again in a moment.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return ReadOnlyError(
                "The database may not be written", mend="Open it where it can be, or ask for the right."
            )
        case sqlite3.SQLITE_FULL:
            return StorageFullError("The disk is full; nothing was changed", mend="Make room, then try again.")
        case sqlite3.SQLITE_IOERR:
            return StorageFullError(
                "The disk does not take or give the data; nothing was changed", mend="Make room, or look at the disk."
            )
        case sqlite3.SQLITE_NOTADB:
            return ConfigurationError("The file is no SQLite database", mend="Name another file, or put it elsewhere.")
        case sqlite3.SQLITE_CORRUPT:
            return ProviderError("The database is damaged", mend=_RESTORE)
        case sqlite3.SQLITE_CANTOPEN:
            return UnavailableError(
                "The database cannot be opened", mend="Check that its folder is there and may be written."
            )
        case sqlite3.SQLITE_TOOBIG:
            return ProviderError("The document is larger than SQLite stores", mend="Split it.")
        case _:
            name = getattr(error, "sqlite_errorname", None) or type(error).__name__
            return ProviderError(
                f"SQLite failed ({name})", mend="The log has the cause; `knowledge check` looks further."
            )
