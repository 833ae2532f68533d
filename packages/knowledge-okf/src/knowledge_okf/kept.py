"""What a bundle keeps for the next update, in a hidden file. Without it an update only does more work than it need."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

#: Hidden, so that no backend takes it for a document.
KEPT: Final = ".knowledge-okf.json"
_MAX_BYTES = 64 << 20


class Kept(NamedTuple):
    """What was written last."""

    title: str = ""
    #: Ids of concepts, in the order of the source.
    order: tuple[str, ...] = ()
    #: Hashes of the sections that were read.
    sections: frozenset[str] = frozenset()
    #: SHA-256 of each index as it was written.
    indexes: Mapping[str, str] = {}
    #: False when there was nothing to be read.
    known: bool = False


def sha256(data: bytes) -> str:
    """The digest in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def render_kept(kept: Kept) -> bytes:
    """The file's bytes."""
    value = {
        "version": 1,
        "title": kept.title,
        "order": list(kept.order),
        "sections": sorted(kept.sections),
        "indexes": dict(sorted(kept.indexes.items())),
    }
    return (json.dumps(value, ensure_ascii=True, indent=0) + "\n").encode()


def read_kept(root: str) -> Kept:
    """What the bundle in that folder keeps; nothing, if that is missing or damaged."""
    path = Path(root) / KEPT
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return Kept()
        value = json.loads(path.read_bytes())
        return _kept(value)
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return Kept()


def _kept(value: object) -> Kept:
    if not isinstance(value, dict) or value.get("version") != 1:
        return Kept()
    title, order, sections, indexes = (value[name] for name in ("title", "order", "sections", "indexes"))
    texts = [title, *order, *sections, *indexes.keys(), *indexes.values()] if isinstance(indexes, dict) else [None]
    if not all(isinstance(each, str) for each in texts):
        return Kept()
    return Kept(title, tuple(order), frozenset(sections), indexes, True)
