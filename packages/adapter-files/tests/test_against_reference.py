"""Whatever is written, deleted or changed from outside, in whatever order: the answers are the reference's."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from knowledge_engine.errors import KnowledgeError
from knowledge_engine.fs import MemoryFs
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import IngestRequest, Query, QueryResult
from knowledge_files import FilesKnowledgeAdapter
from knowledge_files.building import SegmentBuilder

PATHS = ["a.md", "b.md", "d/a.md", "d/e/b.txt", "d.md", "c.json"]
TEXTS = [
    *("valve", "valve pump", "# Pump\n\nvalve\n\n## Tank\n\npump tank", "", "???", "tank " * 30, "水泵 valve"),
    *("---\ntitle: Pump\nkind: guide\n---\nvalve", "---\nkind: note\n---\n\n## A\n\npump\n\n## B\n\npump pump"),
]
QUERIES = ["valve", "pump tank", "水泵", "guide", "valve pump tank valve"]

paths, texts = st.sampled_from(PATHS), st.sampled_from(TEXTS)


def plain(result: QueryResult) -> QueryResult:
    warnings = tuple(one for one in result.warnings if not one.startswith("No documents"))
    return result.model_copy(update={"took_ms": 0.0, "warnings": warnings, "next_cursor": None})


class TwoBackends(RuleBasedStateMachine):
    """The same changes to a files adapter and to the reference; between refreshes both know of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("knowledge_files.index._MAX_SEGMENTS", 3)
        self.patch.setattr("knowledge_files.index._MERGED_AT_ONCE", 2)

    @initialize(postings=st.sampled_from([1, 5, 10**6]))
    def start(self, postings: int) -> None:
        self.patch.setattr("knowledge_files.corpus.SegmentBuilder", partial(SegmentBuilder, max_postings=postings))
        self.fs = MemoryFs()
        self.adapter = FilesKnowledgeAdapter(self.fs, ".")
        self.reference = MemoryProvider()

    def teardown(self) -> None:
        self.patch.undo()

    def both(self, request: IngestRequest) -> None:
        outcomes = []
        for provider in (self.adapter, self.reference):
            try:
                source = provider.ingest(request)
                outcomes.append((source.id, source.title, source.metadata, source.content_hash))
            except KnowledgeError as error:
                outcomes.append((error.code,))
        assert outcomes[0] == outcomes[1]

    @rule(path=paths, text=texts)
    def stored(self, path: str, text: str) -> None:
        self.both(IngestRequest(id=path, content=text.encode()))

    @rule(path=paths, kind=st.sampled_from(["guide", "note"]))
    def described(self, path: str, kind: str) -> None:
        self.both(IngestRequest(id=path, metadata={"kind": kind}))

    @rule(text=texts, title=st.sampled_from(["Pump", "Tank 2", None]))
    def stored_without_id(self, text: str, title: str | None) -> None:
        self.both(IngestRequest(text=text, title=title))

    @rule(path=paths)
    def deleted(self, path: str) -> None:
        outcomes = []
        for provider in (self.adapter, self.reference):
            try:
                outcomes.append(provider.delete_source(path))
            except KnowledgeError as error:
                outcomes.append(error.code)
        assert outcomes[0] == outcomes[1]

    @rule(path=paths, text=texts, named=st.booleans())
    def written_from_outside(self, path: str, text: str, named: bool) -> None:
        self.fs.write(path, text.encode())
        self.reference.ingest(IngestRequest(id=path, content=text.encode()))
        self.adapter.refresh([path] if named else None)

    @rule(path=paths, named=st.booleans())
    def removed_from_outside(self, path: str, named: bool) -> None:
        if any(info.path == path for info in self.fs.walk()):
            self.fs.delete(path)
            self.reference.delete_source(path)
        self.adapter.refresh([path] if named else None)

    @rule()
    def forgotten(self) -> None:
        self.adapter.invalidate()

    @rule(folder=st.sampled_from([".", "d", "d/e", "nowhere"]))
    def looked_at(self, folder: str) -> None:
        self.adapter.refresh([folder])

    @invariant()
    def answers_are_equal(self) -> None:
        if not hasattr(self, "fs"):
            return
        for words in QUERIES:
            for query in (Query(query=words, per_source=2), Query(query=words, top_k=2, filter={"kind": "guide"})):
                assert plain(self.adapter.query(query)) == plain(self.reference.query(query))
        mine, theirs = self.adapter.list_sources(), self.reference.list_sources()
        assert [one.id for one in mine.sources] == [one.id for one in theirs.sources]
        for source in mine.sources:
            assert self.adapter.get_source(source.id) == source
            assert self.adapter.read_source(source.id) == self.reference.read_source(source.id)


TestTwoBackends = TwoBackends.TestCase
TestTwoBackends.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
