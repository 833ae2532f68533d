"""Answers of a model kept as files beside a bundle, until the bundle is written."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

_KEY = re.compile("[0-9a-f]{64}")


class AnswerFolder:
    """An `AnswerStore` in a folder. Where that cannot be written, nothing is kept and nothing fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def beside(cls, bundle: Path) -> AnswerFolder:
        """The one of a bundle's folder: hidden, in the folder that it is in."""
        return cls(bundle.parent / f".{bundle.name}.answers")

    def get(self, key: str) -> list[Any] | None:
        """See `AnswerStore`; what is damaged counts as not there."""
        path = self._path(key)
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, list) else None

    def put(self, key: str, items: list[Any]) -> None:
        """See `AnswerStore`; whole or not at all."""
        target = self._path(key)
        temporary = self._folder / f".{key}.{secrets.token_hex(4)}.tmp"
        with suppress(OSError, ValueError, RecursionError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                temporary.write_text(json.dumps(items), encoding="utf-8")
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forgets all of them."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError("keys are digests")
        return self._folder / f"{key}.json"
