"""Documents in and out of the tables, together with their passages and words: one or the other never changes alone."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from knowledge_engine.analysis import Analyzer, Numbering
from knowledge_engine.cursors import Revision
from knowledge_engine.errors import KnowledgeError
from knowledge_engine.filters import metadata_keys
from knowledge_engine.models import IndexState, Source
from knowledge_sqlite import codec
from knowledge_sqlite.codec import BLOCK, Row
from knowledge_sqlite.errors import decoding, meaning, too_large
from knowledge_sqlite.names import Names, drop_unused
from knowledge_sqlite.preparing import Prepared, Work, prepare
from knowledge_sqlite.schema import state_row

#: With more terms than these a numbering begins anew.
_MAX_TERMS = 400_000
_ROW = "n, id, size, content_hash, title, metadata, origin, uri, stored_at"


class Stored(NamedTuple):
    """A document's row, without its bytes."""

    n: int
    id: str
    size: int
    content_hash: str
    title: str
    metadata: str
    origin: str
    uri: str
    stored_at: str

    @decoding()
    def source(self) -> Source:
        """The source that it describes.

        Raises:
            DamagedError: When the row is none that we have written.
        """
        return Source.model_validate(
            {
                "id": self.id,
                "origin": self.origin,
                "uri": self.uri,
                "title": self.title,
                "metadata": metadata_of(self.metadata),
                "bytes": self.size,
                "indexed_at": self.stored_at,
                "content_hash": self.content_hash,
            }
        )


class NewDocument(NamedTuple):
    """What is to be stored of a prepared document beside it."""

    raw: bytes
    origin: str
    uri: str
    #: The document that has its id now.
    replaces: Stored | None
    #: ISO 8601.
    stored_at: str

    @classmethod
    def now(cls, raw: bytes, origin: str, uri: str, replaces: Stored | None) -> NewDocument:
        """One that is stored now."""
        return cls(raw, origin, uri, replaces, datetime.now(UTC).isoformat(timespec="seconds"))


def find(connection: sqlite3.Connection, source_id: str) -> Stored | None:
    """The document of that id."""
    row = connection.execute(f"SELECT {_ROW} FROM documents WHERE id = ?", (source_id,)).fetchone()  # noqa: S608
    return None if row is None else Stored(*row)


def holds(connection: sqlite3.Connection, source_id: str, raw: bytes) -> bool:
    """Whether those are the bytes that are stored; a hash only says that they once were."""
    query = "SELECT content = ? FROM contents JOIN documents USING (n) WHERE id = ?"
    row: tuple[int] | None = connection.execute(query, (raw, source_id)).fetchone()
    return row == (1,)


def content(connection: sqlite3.Connection, source_id: str) -> bytes | None:
    """The stored bytes of that id."""
    row = connection.execute(
        "SELECT content FROM contents JOIN documents USING (n) WHERE id = ?", (source_id,)
    ).fetchone()
    return None if row is None else bytes(row[0])


@decoding()
def state(connection: sqlite3.Connection, analyzer: str) -> IndexState:
    """What answers from this state of the file say of it; words were cut by another analyzer where it is stale."""
    documents, revision, made_by = state_row(connection, "documents, revision, analyzer")
    return IndexState(
        state="ready" if made_by == analyzer else "stale", documents=documents, revision=Revision.of(revision).value
    )


class RefusedError(Exception):
    """SQLite stores no such document: it is too large, say. A part of it may have been written."""

    def __init__(self, source_id: str, reason: KnowledgeError) -> None:
        super().__init__(source_id)
        self.source_id, self.reason = source_id, reason


class Part(NamedTuple):
    """A document that is ready for one transaction."""

    document: Prepared
    blocks: list[Row]
    #: What FTS5 is given for each passage.
    words: list[str]
    #: Of all its passages together.
    length: int


class Batch(NamedTuple):
    """Documents made ready to be stored."""

    work: Work
    #: Knows the numbers that `work` has for terms.
    names: Names

    def parts(self, connection: sqlite3.Connection) -> Iterator[Part]:
        """Each document, for one transaction."""
        (reference,) = state_row(connection, "reference")
        postings = self.work.postings
        postings = postings._replace(ids=self.names.numbers(connection, postings.ids))
        rows, words = codec.Rows(self.work.spans, postings), codec.words(postings, reference)
        lengths = [0, *np.cumsum(postings.lengths).tolist()]
        first = 0
        for document in self.work.documents:
            last = first + document.passages
            yield Part(document, rows.blocks(first, last), words[first:last], lengths[last] - lengths[first])
            first = last


class Writer:
    """Changes documents within the transactions that it is given. One thread at a time."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        #: The connection, and what it has seen of others' commits, for which the numbers of terms are right.
        self._seen: tuple[sqlite3.Connection, int] | None = None
        self._preparing = threading.Lock()
        self._numbering = Numbering(analyzer)
        self._all_names = WeakSet[Names]()
        self._names = self.names(self._numbering.terms)

    def names(self, terms: Sequence[str]) -> Names:
        """The database's numbers for the terms of another `Numbering`; held right for as long as they are used."""
        names = Names(terms)
        self._all_names.add(names)
        return names

    def begin(self, connection: sqlite3.Connection) -> None:
        """To be called first in each transaction."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        seen = (connection, version)
        if seen != self._seen:
            # Others may have given numbers to terms, or taken terms out. Or another file has taken the place of this
            # one, and there the same numbers stand for other terms.
            self.forget()
            self._seen = seen

    def forget(self) -> None:
        """To be called when a transaction was undone: it may have given numbers."""
        self._seen = None
        for each in self._all_names:
            each.forget()

    def prepare(self, documents: Iterable[tuple[str, bytes]]) -> Batch:
        """Makes documents, given as ids and bytes, ready to be stored. By any thread, while nothing is locked."""
        with self._preparing:
            if len(self._numbering.terms) > _MAX_TERMS:
                self._numbering = Numbering(self._analyzer)
                self._names = self.names(self._numbering.terms)
            return Batch(prepare(documents, self._numbering), self._names)

    def put(self, connection: sqlite3.Connection, documents: Iterable[tuple[Part, NewDocument]]) -> None:
        """Stores documents, each in the place of the one of its id. Ids differ.

        Raises:
            RefusedError: When SQLite does not store one of them; others may have been written.
        """
        change = Change(connection)
        index = _Index(connection, change)
        for part, new in documents:
            try:
                number, hidden = self._store(connection, change, part.document, new)
            except sqlite3.DataError as error:
                raise RefusedError(part.document.source_id, meaning(error)) from error
            except OverflowError as error:  # more bytes than SQLite counts
                raise RefusedError(part.document.source_id, too_large()) from error
            if not hidden:
                index.add(number, part)
        index.write()
        change.write()

    def index(self, connection: sqlite3.Connection, documents: Iterable[tuple[Part, int]]) -> None:
        """Puts the passages of stored documents, given with their numbers, in; there are none of them yet."""
        change = Change(connection)
        index = _Index(connection, change)
        for part, number in documents:
            index.add(number, part)
        index.write()
        change.write()

    def _store(
        self, connection: sqlite3.Connection, change: Change, document: Prepared, new: NewDocument
    ) -> tuple[int, bool]:
        """The document's number, and whether another one stands for it."""
        values = (
            document.content_hash,
            document.title,
            document.metadata,
            document.issues,
            new.origin,
            new.uri,
            new.stored_at,
            len(new.raw),
        )
        old = new.replaces
        change.count(document.source_id, document.content_hash, document.keys, 1)
        if old is None:
            cursor = connection.execute(
                "INSERT INTO documents(content_hash, title, metadata, issues, origin, uri, stored_at, size, id)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, document.source_id),
            )
            number = int(cursor.lastrowid or 0)
            connection.execute("INSERT INTO contents(content, n) VALUES (?, ?)", (new.raw, number))
            return number, False
        connection.execute(
            "UPDATE documents SET content_hash = ?, title = ?, metadata = ?, issues = ?, origin = ?, uri = ?,"
            " stored_at = ?, size = ? WHERE n = ?",
            (*values, old.n),
        )
        connection.execute("INSERT OR REPLACE INTO contents(content, n) VALUES (?, ?)", (new.raw, old.n))
        self._unindex(connection, change, old.n)
        change.count(old.id, old.content_hash, keys_of(old.metadata), -1)
        return old.n, _is_superseded(connection, old.n)

    def delete(self, connection: sqlite3.Connection, old: Stored) -> None:
        """Removes a document, its passages, and the terms that no other one holds."""
        change = Change(connection)
        stood_for = connection.execute(
            "SELECT n, id, content FROM documents JOIN contents USING (n) WHERE superseded_by = ?", (old.n,)
        ).fetchall()
        gone = self._unindex(connection, change, old.n)
        connection.execute("DELETE FROM documents WHERE n = ?", (old.n,))
        change.count(old.id, old.content_hash, keys_of(old.metadata), -1)
        change.write()
        # What it stood for is found again: nothing else says those things now.
        for number, source_id, raw in stood_for:
            [part] = self.prepare([(source_id, raw)]).parts(connection)
            self.index(connection, [(part, number)])
        if drop_unused(connection, gone):
            self.forget()

    def supersede(self, connection: sqlite3.Connection, old: Stored, by: Stored) -> None:
        """From now on `by` stands for `old`, which is not found by queries any more."""
        connection.execute("UPDATE documents SET superseded_by = ? WHERE n = ?", (by.n, old.n))
        change = Change(connection)
        self._unindex(connection, change, old.n)
        change.write()

    def _unindex(self, connection: sqlite3.Connection, change: Change, document: int) -> set[int]:
        """Takes a document's passages out; the terms that they held."""
        found = connection.execute(
            "SELECT block, layout, term_ids, term_counts FROM passages WHERE document = ?", (document,)
        ).fetchall()
        if not found:
            return set()
        blocks = codec.read([row[0] for row in found], [Row(*row[1:]) for row in found])
        words = codec.words(blocks.postings, change.reference)
        connection.executemany(
            "INSERT INTO found(found, rowid, words) VALUES ('delete', ?, ?)",
            zip(blocks.numbers.tolist(), words, strict=True),
        )
        connection.execute("DELETE FROM passages WHERE document = ?", (document,))
        change.passages -= len(words)
        change.length -= int(blocks.postings.lengths.sum())
        change.removals += 1
        return set(blocks.postings.ids.tolist())


class _Index:
    """Passages that are to be put in together."""

    def __init__(self, connection: sqlite3.Connection, change: Change) -> None:
        self._connection, self._change = connection, change
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'passages'").fetchone()
        self._next = 1 + (row[0] if row else 0)
        self._rows: list[tuple[int, int, int, bytes, str, bytes, bytes]] = []
        self._words: list[tuple[int, str]] = []

    def add(self, number: int, part: Part) -> None:
        for ordinal, (block, headings) in enumerate(zip(part.blocks, part.document.headings, strict=True)):
            self._rows.append((self._next + ordinal, number, ordinal, block.layout, headings, *block[1:]))
        self._words += enumerate(part.words, self._next * BLOCK)
        self._next += len(part.blocks)
        self._change.passages += len(part.words)
        self._change.length += part.length

    def write(self) -> None:
        self._connection.executemany(
            "INSERT INTO passages(block, document, ordinal, layout, headings, term_ids, term_counts)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            self._rows,
        )
        self._connection.executemany("INSERT INTO found(rowid, words) VALUES (?, ?)", self._words)


class Change:
    """What a transaction changes of what is known of all documents together."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        revision, self.reference = state_row(connection, "revision, reference")
        with decoding():
            self._revision = Revision.of(revision)
        self._keys = Counter[str]()
        self.documents = self.passages = self.length = self.removals = 0

    def count(self, source_id: str, content_hash: str, keys: Iterable[str], by: int) -> None:
        """Takes a document in (`by` 1) or out (-1)."""
        (self._revision.add if by > 0 else self._revision.remove)(source_id, content_hash)
        self.documents += by
        for key in keys:
            self._keys[key] += by

    def write(self) -> None:
        """Puts it into the tables."""
        self._connection.execute(
            "UPDATE state SET documents = documents + ?, passages = passages + ?, length = length + ?,"
            " removals = removals + ?, revision = ?",
            (self.documents, self.passages, self.length, self.removals, self._revision.value),
        )
        self._connection.executemany(
            "INSERT INTO keys VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET documents = documents + excluded.documents",
            [item for item in self._keys.items() if item[1]],
        )
        if any(by < 0 for by in self._keys.values()):
            self._connection.execute("DELETE FROM keys WHERE documents <= 0")


def keys_of(metadata: str) -> set[str]:
    """The keys of stored metadata, nested ones by their dotted path."""
    return set(metadata_keys(metadata_of(metadata)))


@decoding()
def metadata_of(text: str) -> dict[str, Any]:
    """Metadata as they are stored.

    Raises:
        DamagedError: When it is none.
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError("metadata that is no mapping")
    return found


def _is_superseded(connection: sqlite3.Connection, number: int) -> bool:
    row = connection.execute("SELECT superseded_by FROM documents WHERE n = ?", (number,)).fetchone()
    return row is not None and row[0] is not None
