"""Reading what the user names: files and standard input, never more than a document may have."""

from __future__ import annotations

import os
import stat
import sys
from typing import BinaryIO

import click

from knowledge_engine.errors import InvalidArgumentError, TooLargeError

#: As much as `LocalFs` reads and writes by default.
MAX_BYTES = 256 << 20
_CHUNK = 1 << 20


class InputError(InvalidArgumentError):
    """What was piped in is wrong, not how the command was written: no wrong usage."""


def standard_input(mend: str) -> BinaryIO:
    """Standard input as bytes; `mend` says what to do instead.

    Raises:
        click.UsageError: When it is closed.
    """
    if sys.stdin is None:
        raise click.UsageError(f"Standard input is closed. {mend}", click.get_current_context(silent=True))
    return sys.stdin.buffer


def read_stream(stream: BinaryIO) -> bytes:
    """All that comes.

    Raises:
        InvalidArgumentError: When it cannot be read.
        TooLargeError: When there is more than `MAX_BYTES`; no more than that is read.
    """
    chunks: list[bytes] = []
    left = MAX_BYTES + 1
    try:
        while left and (chunk := stream.read(min(left, _CHUNK))):
            chunks.append(chunk)
            left -= len(chunk)
    except OSError as error:
        raise _unreadable(error) from error
    if not left:
        raise _too_large()
    return b"".join(chunks)


def read_file(path: str) -> bytes:
    """The bytes of a regular file; nothing else is waited for or read.

    Raises:
        InvalidArgumentError: When it is none, or cannot be read.
        TooLargeError: When it has more than `MAX_BYTES`.
    """
    try:
        # Opening a FIFO would otherwise wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except ValueError as error:
        raise InvalidArgumentError("It cannot be read: no file has such a name", mend="Name a file.") from error
    except OSError as error:
        raise _unreadable(error) from error
    try:
        _check(os.fstat(descriptor))
        with open(descriptor, "rb", closefd=False) as file:
            return read_stream(file)
    finally:
        os.close(descriptor)


def _check(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise InvalidArgumentError("It is a folder", mend="Name the files in it.")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidArgumentError("It is not a regular file", mend="Name a file, or pipe the text into `-`.")
    if found.st_size > MAX_BYTES:
        raise _too_large()


def _unreadable(error: OSError) -> InvalidArgumentError:
    return InvalidArgumentError(f"It cannot be read: {error.strerror or error}", mend="Name a file.")


def _too_large() -> TooLargeError:
    return TooLargeError(f"It is over the limit of {MAX_BYTES:,} bytes", mend="Split it.")
