"""From a place in the index to the bytes that stand there now: an answer cites what is, not what was."""

from __future__ import annotations

from knowledge_engine.answers import Candidate, Loaded
from knowledge_engine.citations import content_hash
from knowledge_engine.errors import KnowledgeError
from knowledge_engine.models import ByteSpan
from knowledge_engine.passages import Passage
from knowledge_engine.ports import ComparingFsPort, FsPort
from knowledge_files.documents import Record, Snapshot


class HitLoader:
    """Loads the hits of one query, and notes the files that are no longer those that were indexed."""

    def __init__(self, fs: FsPort, snapshot: Snapshot) -> None:
        self._fs, self._snapshot = fs, snapshot
        self._compare = fs.read_unchanged if isinstance(fs, ComparingFsPort) else None
        #: Paths of files that changed or vanished since.
        self.stale: list[str] = []

    def __call__(self, candidate: Candidate) -> Loaded | str:
        """The passage's bytes as stored now; a sentence instead if the file is another one."""
        record = self._snapshot.records[candidate.source_id]
        data = self._bytes(record, candidate)
        if data is None:
            if candidate.source_id not in self.stale:
                self.stale.append(candidate.source_id)
            return f"{candidate.source_id} keeps changing or is gone: its hit is left out."
        passage = _passage(record.passages, candidate.start)
        return Loaded(data, record.title, passage.heading_path, record.shown)

    def _bytes(self, record: Record, candidate: Candidate) -> bytes | None:
        path = candidate.source_id
        span = ByteSpan(start=candidate.start, end=candidate.end)
        try:
            if record.settled and self._compare is not None:
                data = self._compare(record.info, span)
                if data is not None:
                    return data
            elif record.settled and (info := self._fs.stat(path)) == record.info:
                data = self._fs.read(path, span)
                return data if self._fs.stat(path) == info else None
            # Touched, or written so shortly before it was read that times prove nothing: the bytes decide.
            raw = self._fs.read(path)
        except KnowledgeError:
            return None
        return raw[candidate.start : candidate.end] if content_hash(raw) == record.content_hash else None


def _passage(passages: tuple[Passage, ...], start: int) -> Passage:
    low, high = 0, len(passages) - 1
    while low < high:
        middle = (low + high) // 2
        if passages[middle].start < start:
            low = middle + 1
        else:
            high = middle
    return passages[low]
