"""Standard input and output, kept for the protocol: whatever else prints goes to standard error."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from knowledge_engine.errors import ConfigurationError

_STDIN, _STDOUT, _STDERR = 0, 1, 2


class Pipes(NamedTuple):
    """Descriptors that only the protocol knows of."""

    reader: int
    writer: int


@contextmanager
def claimed_pipes() -> Iterator[Pipes]:
    """Copies of the process's standard input and output.

    Meanwhile the usual descriptors lead to an empty input and to standard error: also for C code, and for processes
    that a backend starts. At the end they are as they were.

    Raises:
        ConfigurationError: When there is no standard input or output.
    """
    _flush()
    try:
        reader, writer = _copy(_STDIN), _copy(_STDOUT)
    except OSError as error:
        raise ConfigurationError(
            "Standard input or standard output is closed", mend="Start it as a host does, with both of them open."
        ) from error
    try:
        _lead(_STDIN, os.open(os.devnull, os.O_RDONLY))
        _lead(_STDOUT, _errors())
        yield Pipes(reader, writer)
    finally:
        _flush()  # what was printed meanwhile is not for the host either
        _lead(_STDIN, reader)
        _lead(_STDOUT, writer)


def _copy(descriptor: int) -> int:
    # Not into the place of one of the three that is closed.
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)


def _errors() -> int:
    try:
        return _copy(_STDERR)
    except OSError:  # it is closed
        return os.open(os.devnull, os.O_WRONLY)


def _lead(descriptor: int, target: int) -> None:
    os.dup2(target, descriptor)
    os.close(target)


def _flush() -> None:
    with suppress(AttributeError, OSError, ValueError):  # there may be none, or it is closed
        sys.stdout.flush()
