"""Goals kept as JSON, a file for each run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import tempfile
from pathlib import Path

from knowledge_engine.errors import (
    InvalidIdError,
    KnowledgeError,
    ProviderError,
    ReadOnlyError,
    StorageFullError,
    TooLargeError,
)
from knowledge_hub.tools.goals import GoalTree

_TRACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_MAX_BYTES = 64 * 2**20
_FULL = frozenset({28, 122})  # ENOSPC, EDQUOT


class JsonTraceStore:
    """See `TraceStore`. The folder is made with the first tree; several processes may share it, the last one stands.

    A file is replaced as a whole: whoever reads, or dies half-way, leaves and finds one that is complete.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    async def update_goal_tree(self, trace_id: str, tree: GoalTree) -> None:
        """See `TraceStore.update_goal_tree`.

        Raises:
            InvalidIdError: When the id cannot be a file's name.
            TooLargeError: When it would be more than 64 MB.
            StorageFullError, ReadOnlyError, ProviderError: When it cannot be kept; the tree before is still there.
        """
        path = self._path(trace_id)
        # Made here: the tree may change while a thread writes.
        data = json.dumps(tree.dump(), ensure_ascii=False, indent=1).encode("utf-8", "replace")
        if len(data) > _MAX_BYTES:
            raise TooLargeError("The goals know too much to be kept", mend="Begin a new run.")
        await asyncio.to_thread(_write, path, data)

    async def get_goal_tree(self, trace_id: str) -> GoalTree | None:
        """See `TraceStore.get_goal_tree`.

        Raises:
            InvalidIdError: When the id cannot be a file's name.
            ProviderError: When the file cannot be read, or is damaged.
        """
        path = self._path(trace_id)
        raw = await asyncio.to_thread(_read, path)
        if raw is None:
            return None
        try:
            stored = json.loads(raw)
        except (ValueError, RecursionError):
            stored = None
        return GoalTree.load(stored)

    def _path(self, trace_id: str) -> Path:
        if not _TRACE.fullmatch(trace_id):
            raise InvalidIdError(
                "The id of the run cannot be a file's name", mend="Use up to 128 letters, digits, dots, _ and -."
            )
        return self._folder / f"{trace_id}.json"


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".goals-", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise _failed(error) from error


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProviderError("The stored goals cannot be read", mend="Check the folder of goals.") from error
    if len(raw) > _MAX_BYTES:
        raise TooLargeError("The stored goals are too large", mend="Begin a new run.")
    return raw


def _failed(error: OSError) -> KnowledgeError:
    if error.errno in _FULL:
        return StorageFullError("No space is left for the goals", mend="Make room; the goals before are still there.")
    if isinstance(error, PermissionError) or error.errno == 30:  # EROFS
        return ReadOnlyError("The folder of goals may not be written", mend="Allow it, or name another folder.")
    return ProviderError("The goals cannot be written", mend="Check the folder of goals.")
