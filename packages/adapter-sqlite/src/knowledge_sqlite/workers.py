"""Processes that make documents ready, so that the one that writes has time to write."""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from knowledge_engine.analysis import Analyzer, Numbering
from knowledge_sqlite.names import PackedText
from knowledge_sqlite.preparing import prepare
from knowledge_sqlite.store import Batch, Writer

Documents = Sequence[tuple[str, bytes]]

_MAX_SAID = 65_536
#: How long a process has to greet, and to end when it is told to.
_GREETING_S, _END_S = 10.0, 1.0
#: Between two looks for circles of objects that nobody needs.
_COLLECTED_AFTER = 100_000
_GREETING = b"knowledge worker 1\n"
# Isolated, so that no module of the folder where the host is takes the place of Python's own. What greets is a Python
# that runs this; then comes the path, so that it finds the same packages. The host's main module is not run again.
_BOOT = f"""import os, pickle, sys
replies = os.dup(1)
os.dup2(2, 1)
os.write(replies, {_GREETING!r})
sys.path[:] = pickle.load(sys.stdin.buffer)
from knowledge_sqlite.workers import work
work(replies)"""


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
        self.count = count if count > 1 else 0

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
        worker = None
        # An embedded Python has no executable, or names its host's: a program that does who knows what.
        with suppress(OSError, ValueError, TypeError):
            worker = _Worker(self._writer)
            self._all.append(worker)
            if worker.greets() and worker.tell(self._analyzer):
                return worker
        self.count = 0
        return None


class Ticket(NamedTuple):
    """Documents that are being made ready."""

    documents: Documents
    worker: _Worker | None


class _Worker:
    def __init__(self, writer: Writer) -> None:
        # A key that interrupts this process is its own business; it ends the others.
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._terms = PackedText()
        self._names = writer.names(self._terms)

    def greets(self) -> bool:
        """Whether it is what was meant to be started."""
        assert self._process.stdout is not None
        descriptor, deadline, said = self._process.stdout.fileno(), time.monotonic() + _GREETING_S, b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not said.endswith(_GREETING):  # a site's own start-up code may say something before
                if len(said) > _MAX_SAID or not selector.select(deadline - time.monotonic()):
                    return False
                if not (more := os.read(descriptor, 4096)):
                    return False
                said += more
        return True

    def tell(self, analyzer: Analyzer) -> bool:
        """Tells it what every document needs."""
        # Not the current folder, which an empty entry means.
        return self._write([each for each in sys.path if each]) and self._write(analyzer)

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
        # Said, not only shown by the end of the pipe: a process that was forked off meanwhile may hold it open.
        self._write(None)
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # it keeps nothing
            self._process.wait()

    def _write(self, value: object) -> bool:
        assert self._process.stdin is not None
        try:
            pickle.dump(value, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except OSError:
            return False
        return True


def work(replies: int) -> None:
    """What a process does: reads an analyzer and then documents, and writes what they become.

    Args:
        replies: The descriptor to write to.
    """
    requests = sys.stdin.buffer
    # What is made here holds no circles: looking for them again and again costs a twentieth of the time.
    gc.set_threshold(_COLLECTED_AFTER)
    # Nobody wants more, or whoever did was killed in the middle of a word.
    with suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):
        numbering = Numbering(pickle.load(requests))  # noqa: S301 - from the process that started this one
        told = 0
        while (documents := pickle.load(requests)) is not None:  # noqa: S301
            work = prepare(documents, numbering)
            reply = memoryview(pickle.dumps((numbering.terms[told:], work), pickle.HIGHEST_PROTOCOL))
            told = len(numbering.terms)
            while reply:
                reply = reply[os.write(replies, reply) :]
