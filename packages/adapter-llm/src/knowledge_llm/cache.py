"""Answers kept in a folder, so that the same question to the same model is paid once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger("knowledge_llm")
_PRUNE_EVERY = 100
_MAX_ENTRY = 16 * 2**20


class AnswerCache:
    """A file for each answer, named by a hash of what was asked. Several threads and processes may share a folder.

    Trouble with the folder costs the cache, never an answer. Files are readable by their owner only, and the oldest
    go when the folder holds more than `max_bytes`.
    """

    def __init__(self, folder: str, *, max_bytes: int) -> None:
        self._folder = Path(folder)
        self._max_bytes = max_bytes
        self._kept = 0
        self._lock = threading.Lock()

    def find(self, question: str) -> str | None:
        """The answer as JSON text, or None; a damaged file is none."""
        digest, path = self._place(question)
        try:
            with path.open("rb") as file:
                raw = file.read(_MAX_ENTRY + 1)
            entry = json.loads(raw)
            answer = entry["answer"]
            whole = entry["question"] == digest and entry["sum"] == _sum(answer)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
            return None
        return answer if whole else None

    def keep(self, question: str, answer: str) -> None:
        """Keeps an answer; whole or not at all."""
        digest, path = self._place(question)
        data = json.dumps({"question": digest, "sum": _sum(answer), "answer": answer}).encode()
        if len(data) > min(_MAX_ENTRY, self._max_bytes):
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(path, data)
            with self._lock:
                self._kept += 1
                due = self._kept % _PRUNE_EVERY == 1
            if due:
                self._prune()
        except OSError as error:
            _log.warning("an answer could not be kept: %s", type(error).__name__)

    def _place(self, question: str) -> tuple[str, Path]:
        digest = hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()
        return digest, self._folder / digest[:2] / f"{digest[2:]}.json"

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise

    def _prune(self) -> None:
        """Takes the oldest away, until a tenth of the room is free."""
        found = sorted(self._files())
        held = sum(size for _, size, _ in found)
        if held <= self._max_bytes:
            return
        for _, size, path in found:
            with contextlib.suppress(OSError):
                path.unlink()
            held -= size
            if held <= self._max_bytes * 0.9:
                return

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        # Only what this class makes: the folder may hold things of others.
        for path in [*self._folder.glob("[0-9a-f][0-9a-f]/*.json"), *self._folder.glob("[0-9a-f][0-9a-f]/tmp*.part")]:
            with contextlib.suppress(OSError):
                about = path.stat()
                yield about.st_mtime, about.st_size, path


def _sum(answer: str) -> str:
    return hashlib.sha256(answer.encode("utf-8", "surrogatepass")).hexdigest()
