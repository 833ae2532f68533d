"""Where a database lies, and what lies there now. Nothing is opened that could be changed by that."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple
from urllib.parse import quote

from knowledge_engine.errors import ConfigurationError, UnavailableError
from knowledge_engine.fs import can_be_path
from knowledge_sqlite.errors import DamagedError
from knowledge_sqlite.schema import APPLICATION_ID, VERSION, newer_version, other_program
from knowledge_sqlite.settings import MEMORY

_MAGIC = b"SQLite format 3\0"
# Of the first page, big-endian: https://www.sqlite.org/fileformat.html
_HEADER_BYTES, _USER_VERSION, _APPLICATION = 100, 60, 68
_PAGE_BYTES, _CHANGES, _PAGES, _COUNTED_AT = 16, 24, 28, 92


class Identity(NamedTuple):
    """Tells one file from another that has taken its name."""

    device: int
    inode: int


class Stamp(NamedTuple):
    """Changes when the file is written, or a log beside it begins or ends."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    in_use: bool


class Place:
    """The path of a database. A relative one is seen from where the process is now, whatever it does later.

    Raises:
        ConfigurationError: For a path that no file can have.
    """

    def __init__(self, path: str) -> None:
        if not can_be_path(path):
            raise ConfigurationError("The path of the database names no file", mend="Name a file, or :memory:.")
        self.memory = path == MEMORY
        self.path = path if self.memory else os.path.abspath(path)  # noqa: PTH100 - Path would drop what SQLite keeps

    def uri(self, mode: str, *, immutable: bool = False) -> str:
        """The path as SQLite opens it; characters that mean something in a URI are only characters."""
        if self.memory:
            return "file::memory:"
        # Without the two slashes a path that begins with two of its own would name a host.
        return f"file://{quote(os.fsencode(self.path))}?mode={mode}{'&immutable=1' if immutable else ''}"

    def identity(self) -> Identity | None:
        """Of the file that has this path now; None where there is none.

        Raises:
            ConfigurationError: When something is there that is no regular file.
            UnavailableError: When it cannot be looked at.
        """
        found = self._stat()
        return None if found is None else Identity(found.st_dev, found.st_ino)

    def is_void(self) -> bool:
        """Whether there is no file, or one without a byte: no database was made there yet."""
        found = self._stat()
        return (found is None or not found.st_size) and not self.in_use()

    def in_use(self) -> bool:
        """Whether someone has it open to write, or was killed while they had: then the log beside it counts too."""
        return any(os.path.lexists(self.path + suffix) for suffix in ("-wal", "-shm"))

    def stamp(self) -> Stamp | None:
        """What a reader compares that cannot lock the file."""
        found = self._stat()
        if found is None:
            return None
        return Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, self.in_use())

    def may_be_written(self) -> bool:
        """Whether this process has the right to change the file, and to make others beside it."""
        folder = os.path.dirname(self.path)  # noqa: PTH120
        return all(os.access(each, os.W_OK, effective_ids=True) for each in (self.path, folder))

    def check(self) -> None:
        """Looks at the first bytes, so that a file which is not ours is not even opened.

        Not while it is in use: closing a file takes away all locks that this process has on it (POSIX).

        Raises:
            ConfigurationError: For what is no database, another program's, or one of a later version.
            DamagedError: When it is shorter than it was.
        """
        head = self._head()
        if not head:
            return
        if not head.startswith(_MAGIC[: len(head)]) or len(head) < _HEADER_BYTES:
            raise ConfigurationError(
                "The file is no SQLite database, or was cut off", mend="Name another file, or restore it from a backup."
            )
        # What was not yet taken over from the log says 0.
        if (application := _number(head, _APPLICATION)) not in (0, APPLICATION_ID):
            raise other_program()
        if application and (version := _number(head, _USER_VERSION)) > VERSION:
            raise newer_version(version)
        # SQLite reads zeros where the last page was cut. Whoever has just begun to write makes it longer.
        if self._is_cut(head) and self._is_cut(self._head()) and not self.in_use():
            raise DamagedError("The database is damaged: its end was cut off", mend="Restore it from a backup.")

    def _is_cut(self, head: bytes) -> bool:
        page = int.from_bytes(head[_PAGE_BYTES : _PAGE_BYTES + 2])
        counted = _number(head, _CHANGES) == _number(head, _COUNTED_AT)
        found = self._stat()
        return counted and found is not None and found.st_size < _number(head, _PAGES) * (page if page > 1 else 1 << 16)

    def _head(self) -> bytes:
        if self._stat() is None:
            return b""
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123
                return file.read(_HEADER_BYTES)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _cannot_look(error) from error

    def _stat(self) -> os.stat_result | None:
        try:
            found = os.stat(self.path)  # noqa: PTH116
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _cannot_look(error) from error
        if stat.S_ISDIR(found.st_mode):
            raise ConfigurationError("The path of the database is a folder", mend="Name a file in it.")
        if not stat.S_ISREG(found.st_mode):
            raise ConfigurationError("The path of the database is no regular file", mend="Name a file.")
        return found


def _number(head: bytes, at: int) -> int:
    return int.from_bytes(head[at : at + 4])


def _cannot_look(error: OSError) -> UnavailableError:
    return UnavailableError(
        f"The database cannot be opened: {error.strerror}", mend="Check the path, and that this process may read it."
    )
