"""The files backend: an `IKnowledgeProvider` over folders of markdown, ranked by BM25 in process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import JsonValue

from knowledge_engine.analysis import Analyzer
from knowledge_engine.answers import Candidate, Plan, answer, page_sources, plan_query
from knowledge_engine.citations import content_hash
from knowledge_engine.errors import (
    ConfigurationError,
    ConflictError,
    InvalidIdError,
    NotFoundError,
    ReadOnlyError,
    UnavailableError,
)
from knowledge_engine.fetch import Fetched, fetch_url
from knowledge_engine.fs import check_path
from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    Health,
    IndexState,
    IngestRequest,
    Provenance,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.passages import EXTENSIONS, MAX_PASSAGE_BYTES, parse_document
from knowledge_engine.ports import FsPort, WritableFsPort
from knowledge_files.corpus import Corpus
from knowledge_files.documents import Record, Snapshot
from knowledge_files.hits import HitLoader
from knowledge_files.settings import Ranking
from knowledge_files.writer import DocumentWriter

if TYPE_CHECKING:
    from knowledge_files.library_ranking import RankBm25

_ENGINES = {"bm25": "bm25", "okapi": "rank-bm25 okapi", "l": "rank-bm25 l", "plus": "rank-bm25 plus"}
# A file that changes faster than it can be indexed is left out of the answer after so many tries.
_ATTEMPTS = 3


class FilesKnowledgeAdapter:
    """Documents in files; the index is built by the first query and kept until told otherwise.

    `refresh` reads what changed, `invalidate` forgets everything; a cited file that changed is read again anyway.

    Args:
        fs: Where the files are; writable if it is a `WritableFsPort`.
        workspace_path: The folder below the port's root that is walked; "." for all. Ids stay relative to the root.
        ranking: `bm25`, or a class of rank-bm25: `okapi`, `l`, `plus` (small corpora only; needs that library).
        fetch: How an ingest of kind `url` fetches.
    """

    def __init__(
        self,
        fs: FsPort,
        workspace_path: str = "knowledge",
        *,
        id: str = "files",
        ranking: Ranking = "bm25",
        analyzer: Analyzer | None = None,
        fetch: Callable[[str], Fetched] = fetch_url,
    ) -> None:
        if ranking not in _ENGINES:
            raise ConfigurationError(f"There is no ranking {ranking!r}", mend=f"Use one of: {', '.join(_ENGINES)}.")
        self._fs = fs
        self._id = id
        self._folder = "." if workspace_path in ("", ".") else check_path(workspace_path.rstrip("/"))
        self._ranking = ranking
        self._analyzer = analyzer or Analyzer()
        self._corpus = Corpus(fs, self._folder, self._wanted, self._analyzer)
        self._writer = (
            DocumentWriter(fs, fs, self._folder, self._wanted, fetch) if isinstance(fs, WritableFsPort) else None
        )
        self._library: RankBm25 | None = None
        self._disposed = False

    @property
    def id(self) -> str:
        """The backend's name."""
        return self._id

    @property
    def capabilities(self) -> Capabilities:
        """Citations always; writable as the file port is."""
        return Capabilities(writable=self._writer is not None, max_chunk_bytes=MAX_PASSAGE_BYTES)

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """See `IKnowledgeProvider.list_sources`."""
        snapshot = self._snapshot()
        page = page_sources(
            snapshot.paths,
            lambda path: self._source(snapshot.records[path]),
            lambda path: snapshot.records[path].shown,
            filter=filter,
            limit=limit,
            cursor=cursor,
            revision=snapshot.revision.value,
            known_keys=snapshot.keys,
        )
        return page.model_copy(update={"warnings": (*self._remarks(snapshot), *page.warnings)})

    def get_source(self, source_id: str) -> Source:
        """See `IKnowledgeProvider.get_source`. Does not build the index."""
        return self._source(self._find(source_id))

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """See `IKnowledgeProvider.read_source`. The bytes are those stored now."""
        self._find(source_id)
        size = self._fs.stat(source_id).size if span else 0
        data = self._fs.read(source_id, span)
        start = min(span.start, size) if span else 0
        return SourceContent(
            source_id=source_id,
            content=data,
            span=ByteSpan(start=start, end=start + len(data)),
            total_bytes=max(size, start + len(data)),
            content_hash=content_hash(data),
        )

    def query(self, query: Query) -> QueryResult:
        """See `IKnowledgeProvider.query`. Each cited file is checked to be the one that was indexed."""
        self._alive()
        plan = plan_query(query, self._analyzer)
        gone: list[str] = []
        attempts = _ATTEMPTS
        while True:
            snapshot = self._corpus.current(query.wait_s)
            if snapshot is None:
                return self._not_ready()
            load = HitLoader(self._fs, snapshot)
            result = self._answer(plan, snapshot, load, [*self._remarks(snapshot), *gone])
            attempts -= 1
            if not load.stale or not attempts:
                return result
            self._corpus.refresh(load.stale)
            gone += [f"{path} is gone: its hits are left out." for path in load.stale if not self._is_known(path)]

    def _answer(self, plan: Plan, snapshot: Snapshot, load: HitLoader, warnings: Sequence[str]) -> QueryResult:
        found = (
            one
            for one in self._search(snapshot, plan)
            if plan.filter.matches(snapshot.records[one.source_id].shown, one.source_id)
        )
        state = snapshot.state
        return answer(
            plan,
            found,
            load,
            analyzer=self._analyzer,
            engine=_ENGINES[self._ranking],
            index=state.model_copy(update={"state": "stale"}) if self._corpus.behind else state,
            known_keys=snapshot.keys,
            warnings=warnings,
        )

    def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`."""
        if self._disposed:
            return Health(status="down", message="The provider was disposed of.")
        snapshot = self._corpus.snapshot
        if snapshot is None:
            state = IndexState(
                state="building" if self._corpus.building else "stale", documents=self._corpus.documents_read
            )
            return Health(message="Not indexed yet; the first query does it.", index=state)
        remarks = self._remarks(snapshot)
        return Health(
            status="degraded" if remarks else "ok",
            message=" ".join(remarks),
            index=snapshot.state,
            issues=snapshot.issues,
            skipped=snapshot.skipped,
            details={"folder": self._folder, "freshness": "manual", "other_files": snapshot.others},
        )

    def dispose(self) -> None:
        """See `IKnowledgeProvider.dispose`."""
        self._disposed = True
        self._library = None
        self._corpus.dispose()

    # RefreshableProvider

    def refresh(self, paths: Sequence[str] | None = None) -> bool:
        """See `RefreshableProvider.refresh`. Without `paths` a look at sizes and times; nothing unchanged is opened."""
        self._alive()
        return self._corpus.refresh(paths)

    def invalidate(self) -> None:
        """See `RefreshableProvider.invalidate`."""
        self._alive()
        self._corpus.invalidate()

    # IngestingProvider

    def ingest(self, request: IngestRequest) -> Source:
        """See `IngestingProvider.ingest`; kinds `text` and `url`.

        With `metadata.corpus.entrySlug` nothing is written: the entry of that slug is indexed again.
        """
        writer = self._writable()
        entry = request.metadata.get("corpus")
        if isinstance(entry, dict) and isinstance(slug := entry.get("entrySlug"), str):
            return self._reindexed(slug)
        now = time.time_ns()
        with self._noticing(request.id):
            info, data = writer.store(request)
        self._corpus.touch(info.path)
        # As it was stored, whatever another writer has made of it since.
        return self._source(Record.of(info, now, parse_document(info.path, data)))

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        """See `IngestingProvider.delete_source`. The file is removed."""
        writer = self._writable()
        self._find(source_id)
        with self._noticing(source_id):
            writer.delete(source_id, if_match)
        self._corpus.touch(source_id)

    # ExplainingProvider

    def explain(self, source_id: str) -> Provenance | None:
        """See `ExplainingProvider.explain`."""
        try:
            source = self.get_source(source_id)
        except (NotFoundError, InvalidIdError):
            return None
        fetched = source.metadata.get("fetched_at")
        return Provenance(
            source_id=source.id,
            origin=source.origin,
            uri=source.uri,
            content_hash=str(source.content_hash),
            indexed_at=source.indexed_at,
            details={"fetched_at": fetched} if fetched else {},
        )

    # Inside

    def _alive(self) -> None:
        if self._disposed:
            raise UnavailableError("The provider was disposed of", mend="Open it again.")

    @contextmanager
    def _noticing(self, source_id: str | None) -> Iterator[None]:
        """A document that is another one than was thought is looked at again, so that its next reader can go on."""
        try:
            yield
        except (ConflictError, NotFoundError):
            if source_id is not None:
                self._corpus.touch(source_id)
            raise

    def _writable(self) -> DocumentWriter:
        self._alive()
        if self._writer is None:
            raise ReadOnlyError("These files cannot be written", mend="Open the backend over a writable file port.")
        return self._writer

    def _wanted(self, path: str) -> bool:
        inside = self._folder == "." or path.startswith(f"{self._folder}/")
        return inside and path.lower().endswith(EXTENSIONS)

    def _snapshot(self) -> Snapshot:
        self._alive()
        snapshot = self._corpus.current()
        assert snapshot is not None, "without a time limit the build is waited for"
        return snapshot

    def _not_ready(self) -> QueryResult:
        return QueryResult(
            engine=_ENGINES[self._ranking],
            mode_used="none",
            index=IndexState(state="building", documents=self._corpus.documents_read),
            warnings=("The index is still being built: ask again, or wait longer with `wait_s`.",),
        )

    def _search(self, snapshot: Snapshot, plan: Plan) -> Iterator[Candidate]:
        if self._ranking == "bm25":
            # One more tells whether another page follows. Where some are passed over it is not known how many are read.
            plain = plan.query.filter is None and plan.after is None
            wanted = plan.top_k + 1 if plain else 0
            return snapshot.index.search(plan.words, wanted=wanted, per_source=plan.query.per_source)
        from knowledge_files.library_ranking import RankBm25

        if self._library is None or self._library.revision != snapshot.revision.value:
            self._library = RankBm25(self._ranking, self._fs, snapshot, self._analyzer)
        return self._library.search(plan.terms)

    def _is_known(self, path: str) -> bool:
        snapshot = self._corpus.snapshot
        return snapshot is None or snapshot.document(path) is not None

    def _remarks(self, snapshot: Snapshot) -> tuple[str, ...]:
        """What to say of a folder that holds no documents: its name may be mistyped."""
        if snapshot.state.documents:
            return ()
        where = "The root folder" if self._folder == "." else f"The folder {self._folder!r}"
        if snapshot.state.skipped:
            return (f"No documents: {where} holds only files that cannot be read as one; the status says why.",)
        return (f"No documents: {where} does not exist, or holds no {', '.join(EXTENSIONS)} files.",)

    def _find(self, source_id: str) -> Record:
        self._alive()
        record = self._corpus.record(source_id) if self._wanted(check_path(source_id)) else None
        if record is None or record.problem is not None:
            raise NotFoundError(f"No source {source_id!r}", mend="List the sources to see what there is.")
        return record

    def _source(self, record: Record) -> Source:
        return record.source(f"{self._id}:{record.info.path}")

    def _reindexed(self, slug: str) -> Source:
        for _ in range(2):
            snapshot = self._snapshot()
            found = [path for path in snapshot.paths if snapshot.records[path].metadata.get("slug") == slug]
            if found:
                self._corpus.refresh(found)
                return self.get_source(found[0])
            self._corpus.refresh()
        raise NotFoundError(f"No entry has the slug {slug!r}", mend="Write the entry first, then ingest it.")
