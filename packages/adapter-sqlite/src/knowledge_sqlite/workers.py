"""Processes that make documents ready, so that the one that writes has time to write."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from knowledge_engine.analysis import Analyzer, Numbering
from knowledge_sqlite.names import PackedText
from knowledge_sqlite.preparing import prepare
from knowledge_sqlite.store import Batch, Writer

Documents = Sequence[tuple[str, bytes]]

_PATIENCE_S = 10.0
# The path comes first, so that the process finds the same packages; nothing of the host's main module is run again.
_BOOT = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);from knowledge_sqlite.workers import work; work()"
)


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Some processes. They end when they are closed, and when this process ends, however it does.

    Args:
        count: How many; with less than 2, documents are made ready in this process.
    """

    def __init__(self, writer: Writer, analyzer: Analyzer, count: int) -> None:
        self._writer, self._analyzer = writer, analyzer
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self.count = count if count > 1 and sys.executable else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._all:
            worker.close()

    def begin(self, documents: Documents) -> Ticket:
        """Gives documents to a process that has nothing to do; at most `count` are under way."""
        worker = self._idle.pop() if self._idle else self._started()
        if worker is not None and not worker.send(documents):
            worker = None
        return Ticket(documents, worker)

    def end(self, ticket: Ticket) -> Batch:
        """Waits for what `begin` has begun. What a process could not do, or was killed at, is done here."""
        if ticket.worker is not None and (batch := ticket.worker.receive()):
            self._idle.append(ticket.worker)
            return batch
        return self._writer.prepare(ticket.documents)

    def _started(self) -> _Worker | None:
        if len(self._all) >= self.count:
            return None
        try:
            worker = _Worker(self._writer, self._analyzer)
        except OSError:
            self.count = 0  # this system starts none
            return None
        self._all.append(worker)
        return worker


class Ticket(NamedTuple):
    """Documents that are being made ready."""

    documents: Documents
    worker: _Worker | None


class _Worker:
    def __init__(self, writer: Writer, analyzer: Analyzer) -> None:
        # A key that interrupts this process is its own business; it ends the others.
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _BOOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._terms = PackedText()
        self._names = writer.names(self._terms)
        self._write(list(sys.path))
        self._write(analyzer)

    def send(self, documents: Documents) -> bool:
        """Whether it could be told."""
        return self._write(documents)

    def receive(self) -> Batch | None:
        """What it was told to do; None when it has ended."""
        assert self._process.stdout is not None
        try:
            terms, work = pickle.load(self._process.stdout)  # noqa: S301 - our own process
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        self._terms.extend(terms)
        return Batch(work, self._names)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(_PATIENCE_S)  # it ends when it notices
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, value: object) -> bool:
        assert self._process.stdin is not None
        try:
            pickle.dump(value, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except OSError:
            return False
        return True


def work() -> None:
    """What a process does: reads an analyzer and then documents, and writes what they become."""
    requests, replies = sys.stdin.buffer, os.dup(1)
    os.dup2(2, 1)  # nobody else writes there
    numbering = Numbering(pickle.load(requests))  # noqa: S301 - from the process that started this one
    told = 0
    with suppress(EOFError, BrokenPipeError):  # nobody wants more
        while True:
            work = prepare(pickle.load(requests), numbering)  # noqa: S301
            reply = memoryview(pickle.dumps((numbering.terms[told:], work), pickle.HIGHEST_PROTOCOL))
            told = len(numbering.terms)
            while reply:
                reply = reply[os.write(replies, reply) :]
