from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

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
from knowledge_sqlite.errors import DamagedError, is_busy, meaning, translated


def failure(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("near /srv/secret.db: SELECT secret")
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_X"
    return error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, BusyError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, BusyError),
        (sqlite3.SQLITE_LOCKED, BusyError),
        (sqlite3.SQLITE_PROTOCOL, BusyError),
        (sqlite3.SQLITE_READONLY, ReadOnlyError),
        (sqlite3.SQLITE_READONLY_DIRECTORY, ReadOnlyError),
        (sqlite3.SQLITE_PERM, ReadOnlyError),
        (sqlite3.SQLITE_FULL, StorageFullError),
        (sqlite3.SQLITE_IOERR_WRITE, StorageFullError),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StorageFullError),
        (sqlite3.SQLITE_IOERR_READ, ProviderError),
        (sqlite3.SQLITE_NOTADB, ConfigurationError),
        (sqlite3.SQLITE_CORRUPT, DamagedError),
        (sqlite3.SQLITE_CORRUPT_VTAB, DamagedError),
        (sqlite3.SQLITE_CANTOPEN, UnavailableError),
        (sqlite3.SQLITE_TOOBIG, TooLargeError),
        (sqlite3.SQLITE_INTERNAL, ProviderError),
    ],
)
def test_each_failure_of_sqlite_has_a_code_and_a_mend_and_tells_no_sql_and_no_path(
    code: int, kind: type[KnowledgeError]
) -> None:
    error = meaning(failure(code))
    assert type(error) is kind
    assert error.mend
    assert "secret" not in str(error)
    assert is_busy(failure(code)) is (kind is BusyError)


def test_a_failure_without_a_number_is_told_by_its_kind() -> None:
    error = meaning(sqlite3.ProgrammingError("Cannot operate on a closed database."))
    assert type(error) is ProviderError
    assert "ProgrammingError" in str(error)


def test_what_is_raised_inside_comes_out_with_its_cause() -> None:
    with pytest.raises(StorageFullError) as caught, translated():
        raise failure(sqlite3.SQLITE_FULL)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    with pytest.raises(TooLargeError), translated():
        raise OverflowError("BLOB longer than INT_MAX bytes")
    with pytest.raises(FileNotFoundError), translated():
        Path("/nowhere/at/all").read_bytes()
