"""Looking whether a file is whole: its pages, its rows, and whether they say of each document what its bytes say."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from knowledge_engine.analysis import Analyzer, Numbering
from knowledge_engine.cursors import Revision
from knowledge_engine.errors import KnowledgeError
from knowledge_engine.fs import check_path
from knowledge_sqlite import codec
from knowledge_sqlite.codec import Numbers, Postings, Row
from knowledge_sqlite.errors import DamagedError, decoding, meaning
from knowledge_sqlite.names import Names
from knowledge_sqlite.preparing import Work, prepare
from knowledge_sqlite.store import keys_of

_SHOWN = 20
_AT_ONCE, _MAX_BYTES = 500, 4 << 20
#: With more terms than these a numbering begins anew.
_MAX_TERMS = 400_000
_REPAIR = "`knowledge check BACKEND --repair` builds the index anew."
_RESTORE = "Restore the file from a backup."

#: Documents that are superseded, and none that is not stands for them in the end.
IN_CIRCLES = """WITH RECURSIVE standing(n) AS (
    SELECT n FROM documents WHERE superseded_by IS NULL
    UNION SELECT d.n FROM documents d JOIN standing s ON d.superseded_by = s.n
) SELECT n FROM documents WHERE n NOT IN standing"""


class Problem(NamedTuple):
    """Something that is not as it has to be."""

    code: str
    message: str
    mend: str


def problems(connection: sqlite3.Connection, analyzer: Analyzer) -> list[Problem]:
    """All but what only FTS5 knows of itself, see `fts_problems`. The connection is in a transaction."""
    found: list[Problem] = []
    for look in _LOOKS:
        try:
            with decoding():
                found += look(connection, analyzer)
        except (sqlite3.DatabaseError, DamagedError) as error:
            reason = meaning(error) if isinstance(error, sqlite3.Error) else error
            if not isinstance(reason, DamagedError):
                raise
            problem = Problem("damaged", reason.problem, reason.mend)
            found += [] if problem in found else [problem]
    return found


def fts_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    """What FTS5 finds in its own tables. The connection may write."""
    try:
        connection.execute("INSERT INTO found(found) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        if not isinstance(meaning(error), DamagedError):
            raise
        yield Problem("index-damaged", "FTS5 finds its index damaged", _REPAIR)


def groups(connection: sqlite3.Connection) -> Iterator[list[int]]:
    """The numbers of all documents whose bytes are there, as many together as are best read at once."""
    numbers: list[int] = []
    size = 0
    query = "SELECT n, length(content) FROM documents JOIN contents USING (n) ORDER BY n"
    for number, more in connection.execute(query).fetchall():
        if numbers and (size + more > _MAX_BYTES or len(numbers) == _AT_ONCE):
            yield numbers
            numbers, size = [], 0
        numbers.append(number)
        size += more
    if numbers:
        yield numbers


def _file_problems(connection: sqlite3.Connection, _: Analyzer) -> Iterator[Problem]:
    damage = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_SHOWN})")]
    if damage != ["ok"]:
        yield Problem("damaged", f"SQLite finds the file damaged: {'; '.join(damage)[:1000]}", _RESTORE)
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(_SHOWN):
        yield Problem("dangling", f"Row {row} of {table} points to a row of {parent} that is not there", _REPAIR)


def _document_problems(connection: sqlite3.Connection, _: Analyzer) -> Iterator[Problem]:
    for source_id, raw, stored_hash in connection.execute(
        "SELECT id, content, content_hash FROM documents JOIN contents USING (n)"
    ):
        if hashlib.sha256(raw).hexdigest() != stored_hash:
            yield Problem(
                "content-changed", f"The bytes of {source_id!r} are not those that were stored", "Store it again."
            )
    for (source_id,) in connection.execute(
        "SELECT id FROM documents LEFT JOIN contents USING (n) WHERE content IS NULL LIMIT ?", (_SHOWN,)
    ):
        yield Problem(
            "content-lost", f"The bytes of {source_id!r} are not there", "Store it again, or restore a backup."
        )
    for (source_id,) in connection.execute("SELECT id FROM documents"):
        if not is_id(source_id):
            yield Problem("id", f"No document can be called {source_id[:200]!r}", "--repair gives it another name.")
    if count := connection.execute(f"SELECT count(*) FROM ({IN_CIRCLES})").fetchone()[0]:  # noqa: S608
        yield Problem("superseded", f"{count} documents stand for each other in a circle", _REPAIR)


def is_id(source_id: str) -> bool:
    """Whether a document can have that id."""
    try:
        check_path(source_id)
    except KnowledgeError:
        return False
    return True


def _passage_problems(connection: sqlite3.Connection, _: Analyzer) -> Iterator[Problem]:
    queries = {
        "{} documents have a wrong size": "SELECT count(*) FROM documents JOIN contents USING (n)"
        " WHERE size IS NOT length(content)",
        "{} passages are of documents that others stand for": "SELECT count(*) FROM passages p JOIN documents d"
        " ON d.n = p.document WHERE d.superseded_by IS NOT NULL",
        "{} documents lack their first passages, or have some twice": "SELECT count(*) FROM (SELECT document FROM"
        " passages GROUP BY document HAVING min(ordinal) <> 0 OR max(ordinal) + 1 <> count(DISTINCT ordinal)"
        " OR count(*) <> count(DISTINCT ordinal))",
    }
    for message, query in queries.items():
        if count := connection.execute(query).fetchone()[0]:
            yield Problem("passages", message.format(count), _REPAIR)
    outside = uncounted = 0
    rows = connection.execute("SELECT size, layout, term_ids, term_counts FROM passages JOIN documents ON n = document")
    for size, layout, ids, counts in rows:
        table = _whole(layout)
        outside += int(np.count_nonzero((table[:, 0] >= table[:, 1]) | (table[:, 1] > size)))
        uncounted += not len(ids) == 2 * len(counts) == 4 * int(table[:, 3].sum()) or len(layout) % 16 != 0
    if outside:
        yield Problem("passages", f"{outside} passages lie outside of their document", _REPAIR)
    if uncounted:
        yield Problem("passages", f"{uncounted} rows of passages have terms without counts", _REPAIR)


def _index_problems(connection: sqlite3.Connection, _: Analyzer) -> Iterator[Problem]:
    """FTS5's words against the terms of the passages: how many hold each, at each level."""
    wanted: Counter[str] = Counter()
    reference = connection.execute("SELECT coalesce(max(reference), 128) FROM state").fetchone()[0]
    rows = connection.execute("SELECT block, layout, term_ids, term_counts FROM passages")
    numbers = set[int]()
    while some := rows.fetchmany(512):
        blocks = codec.read([row[0] for row in some], [Row(*row[1:]) for row in some])
        for text in codec.words(blocks.postings, reference):
            wanted.update(text.split())
        numbers.update(blocks.postings.ids.tolist())
    known = {number for (number,) in connection.execute("SELECT n FROM terms")}
    if unknown := numbers - known:
        yield Problem("index", f"{len(unknown)} terms of passages have no name", _REPAIR)
    indexed = dict(connection.execute("SELECT term, doc FROM found_words"))
    if wanted != indexed:
        differing = len(dict(wanted.items() ^ indexed.items()))
        yield Problem("index", f"Passages and index differ in {differing} words", _REPAIR)


def _state_problems(connection: sqlite3.Connection, analyzer: Analyzer) -> Iterator[Problem]:
    row = connection.execute("SELECT documents, passages, length, revision, analyzer FROM state").fetchone()
    table = _layouts(connection)
    passages = (len(table), int(table[:, 2].sum()))
    documents, revision, keys = 0, Revision(), Counter[str]()
    for source_id, stored_hash, metadata in connection.execute("SELECT id, content_hash, metadata FROM documents"):
        documents += 1
        revision.add(source_id, stored_hash)
        keys.update(keys_of(metadata))
    if row is None or row[:3] != (documents, *passages) or not _is_revision(row[3], revision):
        yield Problem("state", "The counts of documents and passages are not those of the tables", _REPAIR)
    if dict(connection.execute("SELECT key, documents FROM keys")) != dict(keys):
        yield Problem("state", "The counts of metadata keys are not those of the documents", _REPAIR)
    if row is not None and row[4] != analyzer.version:
        yield Problem(
            "stale", "The words were cut by another version of the analyzer", "Open it once for writing, or --repair."
        )


def _is_revision(stored: str, wanted: Revision) -> bool:
    try:
        return Revision.of(stored).value == wanted.value
    except ValueError:
        return False


def _layouts(connection: sqlite3.Connection) -> Numbers:
    """The layouts of all passages, as far as they are whole."""
    return _whole(
        b"".join(row[0][: len(row[0]) // 16 * 16] for row in connection.execute("SELECT layout FROM passages"))
    )


def _whole(layout: bytes) -> Numbers:
    return np.frombuffer(layout[: len(layout) // 16 * 16], "<u4").astype(np.int64).reshape(-1, 4)


# What the tables say of a document, against its bytes


class _Reader:
    """Makes ready again what was stored. Terms have the numbers that the database gives to them."""

    def __init__(self, connection: sqlite3.Connection, analyzer: Analyzer) -> None:
        self._connection, self._analyzer = connection, analyzer
        self._begin()

    def _begin(self) -> None:
        self._numbering = Numbering(self._analyzer)
        self._names = Names(self._numbering.terms)

    def differing(self, documents: Sequence[int]) -> list[str]:
        """The ids of those of some documents that are not stored as they read."""
        if len(self._numbering.terms) > _MAX_TERMS:
            self._begin()
        rows = self._connection.execute(
            "SELECT id, title, metadata, issues, superseded_by, n, content FROM documents JOIN contents USING (n)"
            " WHERE n IN (SELECT value FROM json_each(?)) ORDER BY n",
            (json.dumps(documents),),
        ).fetchall()
        work = prepare(((row[0], row[6]) for row in rows), self._numbering)
        if self._is_stored(work, rows):
            return []
        if len(documents) == 1:
            return [rows[0][0]]
        half = len(documents) // 2
        return self.differing(documents[:half]) + self.differing(documents[half:])

    def _is_stored(self, work: Work, rows: Sequence[tuple[Any, ...]]) -> bool:
        wanted = [(each.title, each.metadata, each.issues) for each in work.documents]
        if wanted != [row[1:4] for row in rows]:
            return False
        found = zip(work.documents, rows, strict=True)
        headings = [text for each, row in found if row[4] is None for text in each.headings]
        sizes = [each.passages for each in work.documents]
        shown = np.repeat([row[4] is None for row in rows], sizes)
        owners = np.repeat([row[5] for row in rows], sizes)
        blocks = self._connection.execute(
            "SELECT document, layout, term_ids, term_counts, headings FROM passages"
            " WHERE document IN (SELECT value FROM json_each(?)) ORDER BY document, ordinal",
            (json.dumps([row[5] for row in rows]),),
        ).fetchall()
        if [row[4] for row in blocks] != headings:
            return False
        try:
            stored = codec.read([row[0] for row in blocks], [Row(*row[1:4]) for row in blocks])
        except DamagedError:
            return False
        postings = work.postings._replace(ids=self._names.known(self._connection, work.postings.ids))
        layout = np.column_stack((owners, work.spans, postings.lengths, postings.sizes))[shown]
        there = stored.postings
        numbers = stored.numbers // codec.BLOCK
        if not np.array_equal(
            layout, np.column_stack((numbers, stored.starts, stored.stops, there.lengths, there.sizes))
        ):
            return False
        return np.array_equal(_in_order(postings)[np.repeat(shown, postings.sizes)], _in_order(there))


def _in_order(postings: Postings) -> Numbers:
    """Number and count of each posting, those of a passage by number; two columns."""
    passages = np.repeat(np.arange(len(postings.sizes)), postings.sizes)
    order = np.lexsort((postings.ids, passages))
    return np.column_stack((postings.ids[order], postings.counts[order])).astype(np.int64)


def _text_problems(connection: sqlite3.Connection, analyzer: Analyzer) -> Iterator[Problem]:
    if connection.execute("SELECT analyzer FROM state").fetchone() != (analyzer.version,):
        return  # they differ in every word, and that was said
    reader = _Reader(connection, analyzer)
    wrong = [source_id for some in groups(connection) for source_id in reader.differing(some)]
    if wrong:
        yield Problem("index", f"{len(wrong)} documents are indexed as others read, such as {wrong[0]!r}", _REPAIR)


_LOOKS: tuple[Callable[[sqlite3.Connection, Analyzer], Iterator[Problem]], ...] = (
    _file_problems,
    _document_problems,
    _passage_problems,
    _index_problems,
    _state_problems,
    _text_problems,
)
