"""The SQLite backend: an `IKnowledgeProvider` over one file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from pydantic import JsonValue

from knowledge_engine.analysis import Analyzer
from knowledge_engine.answers import answer, page_listed, plan_query
from knowledge_engine.citations import content_hash
from knowledge_engine.corpus_issues import corpus_issues
from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    InvalidArgumentError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    StorageFullError,
)
from knowledge_engine.fs import check_path
from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    DocumentIssue,
    Health,
    IngestRequest,
    Provenance,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.passages import MAX_PASSAGE_BYTES
from knowledge_engine.writing import check_match
from knowledge_sqlite.backups import back_up, restore
from knowledge_sqlite.bulk import Ingestion
from knowledge_sqlite.checking import Problem, fts_problems, problems
from knowledge_sqlite.counts import Counts
from knowledge_sqlite.database import Database
from knowledge_sqlite.deleting import pending, tidy, traces
from knowledge_sqlite.errors import DamagedError, decoding, translated
from knowledge_sqlite.filtering import Matches, listed
from knowledge_sqlite.maintenance import rebuild
from knowledge_sqlite.metadata_indexes import add, keep_only, missing
from knowledge_sqlite.search import Search
from knowledge_sqlite.settings import MEMORY, SqliteSettings
from knowledge_sqlite.store import Stored, Writer, content, find, metadata_of, state
from knowledge_sqlite.transactions import Transaction
from knowledge_sqlite.workers import Workers, cores

_SUPERSEDES = """WITH RECURSIVE later(n) AS (
    SELECT ? UNION SELECT d.superseded_by FROM documents d JOIN later ON d.n = later.n WHERE d.superseded_by IS NOT NULL
) SELECT 1 FROM later WHERE n = ?"""


class SqliteKnowledgeAdapter:
    """Documents and their index in one SQLite file. Opened when it is first asked; any thread and process may use it.

    What is stored is found by the next query, in every process. Each answer is made from one state of the file.
    """

    def __init__(self, settings: SqliteSettings, *, id: str = "sqlite", analyzer: Analyzer | None = None) -> None:
        self._settings = settings
        self._id = id
        self._analyzer = analyzer or Analyzer()
        self._database = Database(settings, self._analyzer.version, self._refreshed)
        self._writer = Writer(self._analyzer)
        self._ingestion = Ingestion(self._database.reading, self._changing, self._writer, id)
        self._counts = Counts()
        self._matches = Matches()

    @property
    def id(self) -> str:
        """The backend's name."""
        return self._id

    @property
    def capabilities(self) -> Capabilities:
        """Writable unless it was opened to be read only."""
        return Capabilities(writable=not self._settings.read_only, max_chunk_bytes=MAX_PASSAGE_BYTES)

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """See `IKnowledgeProvider.list_sources`."""
        with self._database.reading() as connection:
            return page_listed(
                partial(listed, connection),
                lambda one: _found(find(connection, one), one).source(),
                filter=filter,
                limit=limit,
                cursor=cursor,
                revision=state(connection, self._analyzer.version).revision,
                known_keys=_keys(connection),
            )

    def get_source(self, source_id: str) -> Source:
        """See `IKnowledgeProvider.get_source`."""
        check_path(source_id)
        with self._database.reading() as connection:
            return _found(find(connection, source_id), source_id).source()

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """See `IKnowledgeProvider.read_source`."""
        check_path(source_id)
        with self._database.reading() as connection:
            size = _found(find(connection, source_id), source_id).size
            start = min(span.start, size) if span else 0
            end = min(span.end, size) if span else size
            with decoding():
                (data,) = connection.execute(
                    "SELECT substr(content, ?, ?) FROM contents JOIN documents USING (n) WHERE id = ?",
                    (start + 1, end - start, source_id),
                ).fetchone()
        data = data or b""  # of nothing, `substr` makes NULL
        return SourceContent(
            source_id=source_id,
            content=data,
            span=ByteSpan(start=start, end=end),
            total_bytes=size,
            content_hash=content_hash(data),
        )

    def query(self, query: Query) -> QueryResult:
        """See `IKnowledgeProvider.query`."""
        plan = plan_query(query, self._analyzer)
        with self._database.reading() as connection:
            now = self._database.state(connection)
            search = Search(
                connection,
                plan.words,
                self._counts.at(now),
                allowed=self._matches.of(connection, plan.filter, now) if query.filter else None,
                wanted=plan.top_k + 1,
                per_source=query.per_source,
            )
            return answer(
                plan,
                search.ranked(),
                search.load,
                analyzer=self._analyzer,
                engine="bm25",
                index=state(connection, self._analyzer.version),
                known_keys=_keys(connection) if query.filter else (),
            )

    def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`."""
        try:
            with self._database.reading() as connection:
                rows = connection.execute("SELECT id, metadata, issues FROM documents ORDER BY id").fetchall()
                index = state(connection, self._analyzer.version)
            with decoding():
                found = [json.loads(text) for _, _, text in rows if text != "[]"]
                issues = [DocumentIssue.model_validate(each) for some in found for each in some]
                between = corpus_issues({source_id: metadata_of(text) for source_id, text, _ in rows})
        except KnowledgeError as error:
            return Health(status="down", message=str(error))
        details: dict[str, JsonValue] = {"sqlite": sqlite3.sqlite_version}
        if not self._database.place.memory and self._database.place.is_void():
            details["unreadable"] = "There is no database yet: correct its path, or store a document."
        return Health(index=index, issues=(*issues, *between), details=details)

    def dispose(self) -> None:
        """See `IKnowledgeProvider.dispose`."""
        self._database.close()

    # IngestingProvider

    def ingest(self, request: IngestRequest) -> Source:
        """See `IngestingProvider.ingest`; kind `text`. The same bytes once more change nothing."""
        return self._ingestion.one(request)

    def ingest_many(self, requests: Iterable[IngestRequest], *, batch: int = 500) -> Iterator[Source]:
        """Stores documents, fast: each `batch` of them in one transaction (a smaller one, if they are long).

        Gives one source for each request, in order, when it is stored for good. A bad document does not undo others:
        its source has the status `failed`, and `error` says why, after a code and a colon. `requests` are taken as they
        are needed, while nothing is locked.

        Raises:
            BusyError, ReadOnlyError, StorageFullError: The batch that was to be stored is not; those before are.
        """
        count = cores() if self._settings.workers is None else self._settings.workers
        return self._ingestion.many(requests, batch, Workers(self._writer, self._analyzer, count))

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        """See `IngestingProvider.delete_source`."""
        with self._changing() as connection:
            self._delete(connection, source_id, if_match)

    # ErasingProvider

    def erase_source(self, source_id: str, *, if_match: str | None = None) -> tuple[str, ...]:
        """See `ErasingProvider.erase_source`. Takes as long as it takes to write the index anew."""
        with self._changing() as connection:
            found = find(connection, check_path(source_id))
            left = traces(connection, source_id) if found else []
            self._delete(connection, source_id, if_match)
        return pending(self._database, left, self._writer.forget)

    # SupersedingProvider

    def supersede(self, source_id: str, by: str) -> None:
        """See `SupersedingProvider.supersede`: the old source stays readable and is not found by queries.

        Raises:
            InvalidArgumentError: When `source_id` already stands, however indirectly, for `by`.
        """
        with self._changing() as connection:
            old = _found(find(connection, check_path(source_id)), source_id)
            new = _found(find(connection, check_path(by)), by)
            if connection.execute(_SUPERSEDES, (new.n, old.n)).fetchone():
                raise InvalidArgumentError(
                    f"{source_id!r} stands for {by!r} itself", mend="Name a document that is not superseded by it."
                )
            self._writer.supersede(connection, old, new)

    # ExplainingProvider

    def explain(self, source_id: str) -> Provenance | None:
        """See `ExplainingProvider.explain`."""
        try:
            check_path(source_id)
        except InvalidIdError:
            return None
        with self._database.reading() as connection:
            found = find(connection, source_id)
            if found is None:
                return None
            by = connection.execute(
                "SELECT b.id FROM documents a JOIN documents b ON b.n = a.superseded_by WHERE a.n = ?", (found.n,)
            ).fetchone()
        source = found.source()
        return Provenance(
            source_id=source_id,
            origin=source.origin,
            uri=source.uri,
            content_hash=found.content_hash,
            indexed_at=found.stored_at,
            details={"superseded_by": by[0]} if by else {},
        )

    # The file

    def check(self) -> tuple[Problem, ...]:
        """What is wrong with the file and its index; empty when all is well. Reads everything.

        Raises:
            KnowledgeError: When it cannot be opened at all.
        """
        found: list[Problem] = []
        try:
            with self._database.reading() as connection:
                found += problems(connection, self._analyzer)
            if not self._settings.read_only and self._database.place.may_be_written():
                with self._database.writing() as connection:
                    found += fts_problems(connection)
        except DamagedError as error:
            found.append(Problem("damaged", error.problem, error.mend))
        return tuple(found)

    def repair(self) -> None:
        """Builds passages, words and index anew from the documents, in one transaction, and empties the log.

        Where the settings name indexed keys, indexes on other keys are dropped.

        Raises:
            DamagedError: When not all documents can be read; nothing is changed then.
        """
        with self._changing(rebuilt=True) as connection:
            rebuild(connection, self._writer, self._analyzer)
            if self._settings.indexed_keys is not None:
                keep_only(connection, self._settings.indexed_keys)
        tidy(self._database)

    def backup(self, path: str) -> None:
        """Copies the database, as it is at one moment, into the file `path`; others may read and write meanwhile.

        A backup that lies there is replaced when the new one is complete.

        Raises:
            ConfigurationError: When something else lies there, or it is the database itself.
        """
        back_up(self._database, path)

    def restore(self, path: str) -> None:
        """Puts what the backup `path` holds in the place of all that is stored, in one step.

        Others may read and write meanwhile: they see the one or the other. An index of another analyzer is built anew.

        Raises:
            ConfigurationError: When there is no backup of ours at `path`.
            BusyError: When another process writes for longer than the busy timeout.
        """
        restore(self._database, path, self._analyzer.version, self._settings.busy_timeout_s)
        with self._database.alone() as connection:
            self._refreshed(connection)

    # For hosts that keep tables of their own in the file

    @contextmanager
    def transaction(self, *, documents: bool = True) -> Iterator[Transaction]:
        """Documents, and tables of the host's own, changed together or not at all. Others write after it.

        Args:
            documents: False where no document is changed: it begins sooner.

        Raises:
            BusyError, ReadOnlyError, StorageFullError: For what their names say; nothing is changed.
        """
        if not documents:
            with self._database.writing() as connection:
                yield Transaction(connection, None)
            return
        with self._changing() as connection:
            yield Transaction(connection, self._writer)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file, for reading the host's own tables."""
        with self._database.reading() as connection:
            yield connection

    # Inside

    @contextmanager
    def _changing(self, *, rebuilt: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction of the writer. `rebuilt`: the index is made anew in it."""
        with self._database.writing(self._writer.forget) as connection:
            self._writer.begin(connection)
            if not rebuilt and self._is_stale(connection):
                raise ConfigurationError(
                    "Another program has meanwhile indexed this database with another analyzer",
                    mend="Open it again, and let all programs that write to it use the same version.",
                )
            yield connection

    def _is_stale(self, connection: sqlite3.Connection) -> bool:
        row = connection.execute("SELECT analyzer FROM state").fetchone()
        return row is None or row[0] != self._analyzer.version

    def _refreshed(self, connection: sqlite3.Connection) -> None:
        """Of a database that another analyzer has indexed, builds the index anew. Once, when it is opened.

        Indexes on metadata keys that are missing are added; those that other programs want are left.
        """
        if self._is_stale(connection):
            with self._database.transaction(connection, self._writer.forget):
                if self._is_stale(connection):  # nobody else has done it meanwhile
                    rebuild(connection, self._writer, self._analyzer)
        keys = self._settings.indexed_keys or ()
        if missing(connection, keys):
            # Answers are right without them: the next one who opens it tries again.
            transaction = self._database.transaction(connection, self._writer.forget)
            with suppress(BusyError, StorageFullError), translated(), transaction:
                add(connection, keys)

    def _delete(self, connection: sqlite3.Connection, source_id: str, if_match: str | None) -> None:
        old = _found(find(connection, check_path(source_id)), source_id)
        check_match(if_match, content(connection, source_id))
        self._writer.delete(connection, old)


def _found(stored: Stored | None, source_id: str) -> Stored:
    if stored is None:
        raise NotFoundError(f"No source {source_id!r}", mend="List the sources to see what there is.")
    return stored


def _keys(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT key FROM keys")]


__all__ = ["MEMORY", "SqliteKnowledgeAdapter", "SqliteSettings"]
