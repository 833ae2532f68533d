"""What the corpus was at the revisions last seen, to tell what has changed since."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable

from knowledge_engine.cursors import Revision
from knowledge_engine.models import Source
from knowledge_engine.service.results import Changes

MAX_SNAPSHOTS = 8


class Snapshots:
    """The last `MAX_SNAPSHOTS` revisions, each as what identifies the content of every source. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_revision: OrderedDict[str, dict[str, str]] = OrderedDict()

    def changes(self, since: str | None, revision: str, sources: Iterable[Source], *, complete: bool) -> Changes:
        """Compares `sources`, which are the corpus at `revision`, with what was seen at `since`.

        A corpus without a revision of its own gets one from its content.
        """
        now: dict[str, str] = {}
        for source in sources:
            complete = complete and source.content_hash is not None
            now[source.id] = source.content_hash or _stand_in(source)
        revision = revision or _revision_of(now)
        with self._lock:
            before = self._by_revision.get(since) if since is not None else None
            self._by_revision[revision] = now
            self._by_revision.move_to_end(revision)
            while len(self._by_revision) > MAX_SNAPSHOTS:
                self._by_revision.popitem(last=False)
        if before is None:
            return Changes(revision=revision, added=tuple(sorted(now)), reset=True, complete=complete)
        return Changes(
            revision=revision,
            added=tuple(sorted(now.keys() - before.keys())),
            changed=tuple(sorted(key for key in now.keys() & before.keys() if now[key] != before[key])),
            removed=tuple(sorted(before.keys() - now.keys())),
            complete=complete,
        )


def _stand_in(source: Source) -> str:
    """Identifies content by what else is known of it; an edit that keeps the size and the metadata is not seen."""
    known = repr((source.title, source.bytes, source.metadata))
    return hashlib.sha256(known.encode(errors="replace")).hexdigest()


def _revision_of(content: dict[str, str]) -> str:
    revision = Revision()
    for source_id, content_hash in content.items():
        revision.add(source_id, content_hash)
    return f"content-{revision.value}"
