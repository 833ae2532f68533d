"""Documents in and out of the tables, together with their passages and words: one or the other never changes alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from knowledge_engine.analysis import Analyzer
from knowledge_engine.cursors import Revision
from knowledge_engine.filters import metadata_keys
from knowledge_engine.models import IndexState, Metadata, Source
from knowledge_engine.passages import Document, parse_document, passage_terms
from knowledge_sqlite.codec import counts, numbers_of, packed, words

_AT_ONCE = 500
_KNOWN_TERMS = 200_000
_ROW = "n, id, length(content), content_hash, title, metadata, origin, uri, stored_at"


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

    def source(self) -> Source:
        """The source that it describes."""
        return Source.model_validate(
            {
                "id": self.id,
                "origin": self.origin,
                "uri": self.uri,
                "title": self.title,
                "metadata": json.loads(self.metadata),
                "bytes": self.size,
                "indexed_at": self.stored_at,
                "content_hash": self.content_hash,
            }
        )


class NewDocument(NamedTuple):
    """What is to be stored."""

    document: Document
    raw: bytes
    origin: str
    uri: str


def find(connection: sqlite3.Connection, source_id: str) -> Stored | None:
    """The document of that id."""
    row = connection.execute(f"SELECT {_ROW} FROM documents WHERE id = ?", (source_id,)).fetchone()  # noqa: S608
    return None if row is None else Stored(*row)


def content(connection: sqlite3.Connection, source_id: str) -> bytes | None:
    """The stored bytes of that id."""
    row = connection.execute("SELECT content FROM documents WHERE id = ?", (source_id,)).fetchone()
    return None if row is None else bytes(row[0])


def state(connection: sqlite3.Connection, analyzer: str) -> IndexState:
    """What answers from this state of the file say of it; words were cut by another analyzer where it is stale."""
    documents, revision, made_by = connection.execute("SELECT documents, revision, analyzer FROM state").fetchone()
    return IndexState(
        state="ready" if made_by == analyzer else "stale", documents=documents, revision=Revision.of(revision).value
    )


class Writer:
    """Changes documents within the transactions that it is given. One thread at a time."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        #: Numbers of terms, as long as no other process may have taken one out.
        self._terms: dict[str, int] = {}
        self._data_version = -1

    def begin(self, connection: sqlite3.Connection) -> None:
        """To be called first in each transaction."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version or len(self._terms) > _KNOWN_TERMS:
            self._terms.clear()
            self._data_version = version

    def forget(self) -> None:
        """To be called when a transaction was undone: it may have given numbers."""
        self._terms.clear()

    def put(self, connection: sqlite3.Connection, new: NewDocument) -> None:
        """Stores a document, in the place of the one of that id."""
        document = new.document
        old = find(connection, document.source_id)
        values = (
            new.raw,
            document.content_hash,
            document.title,
            json.dumps(document.metadata, ensure_ascii=False),
            json.dumps([each.model_dump(mode="json") for each in document.issues], ensure_ascii=False),
            new.origin,
            new.uri,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        if old is None:
            number = connection.execute(
                "INSERT INTO documents(content, content_hash, title, metadata, issues, origin, uri, stored_at, id)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, document.source_id),
            ).lastrowid
            hidden = False
        else:
            number = old.n
            connection.execute(
                "UPDATE documents SET content = ?, content_hash = ?, title = ?, metadata = ?, issues = ?, origin = ?,"
                " uri = ?, stored_at = ? WHERE n = ?",
                (*values, number),
            )
            self._unindex(connection, number)
            self.count(connection, old.id, old.content_hash, json.loads(old.metadata), -1)
            hidden = _is_superseded(connection, number)
        self.count(connection, document.source_id, document.content_hash, document.metadata, 1)
        if not hidden:
            self.index(connection, int(number or 0), document, new.raw)

    def delete(self, connection: sqlite3.Connection, old: Stored) -> None:
        """Removes a document, its passages, and the terms that no other one holds."""
        stood_for = connection.execute(
            "SELECT n, id, content FROM documents WHERE superseded_by = ?", (old.n,)
        ).fetchall()
        gone = self._unindex(connection, old.n)
        connection.execute("DELETE FROM documents WHERE n = ?", (old.n,))
        self.count(connection, old.id, old.content_hash, json.loads(old.metadata), -1)
        # What it stood for is found again: nothing else says those things now.
        for number, source_id, raw in stood_for:
            self.index(connection, number, parse_document(source_id, raw), raw)
        self._drop_terms(connection, gone)

    def supersede(self, connection: sqlite3.Connection, old: Stored, by: Stored) -> None:
        """From now on `by` stands for `old`, which is not found by queries any more."""
        connection.execute("UPDATE documents SET superseded_by = ? WHERE n = ?", (by.n, old.n))
        self._unindex(connection, old.n)

    # Index

    def index(self, connection: sqlite3.Connection, number: int, document: Document, raw: bytes) -> None:
        """Puts the passages of a stored document in, of which there are none yet."""
        bags = list(passage_terms(document, raw, self._analyzer))
        held = [counts(bag) for bag in bags]
        numbers = self._numbers(connection, {term for each in held for term in each})
        for at, (passage, bag, terms) in enumerate(zip(document.passages, bags, held, strict=True)):
            ids, values = packed(terms, numbers)
            headings = json.dumps(passage.heading_path, ensure_ascii=False)
            row = connection.execute(
                "INSERT INTO passages(document, start, stop, headings, length, is_first, term_ids, term_counts)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (number, passage.start, passage.end, headings, bag.length, at == 0, ids, values),
            ).lastrowid
            connection.execute("INSERT INTO found(rowid, words) VALUES (?, ?)", (row, words(numbers_of(ids))))
        connection.execute(
            "UPDATE state SET passages = passages + ?, length = length + ?",
            (len(bags), sum(bag.length for bag in bags)),
        )

    def _unindex(self, connection: sqlite3.Connection, document: int) -> set[int]:
        """Takes a document's passages out; the terms that they held."""
        rows = connection.execute("SELECT n, length, term_ids FROM passages WHERE document = ?", (document,)).fetchall()
        gone: set[int] = set()
        for number, _, ids in rows:
            terms = numbers_of(ids)
            gone.update(terms)
            connection.execute("INSERT INTO found(found, rowid, words) VALUES ('delete', ?, ?)", (number, words(terms)))
        connection.execute("DELETE FROM passages WHERE document = ?", (document,))
        connection.execute(
            "UPDATE state SET passages = passages - ?, length = length - ?", (len(rows), sum(row[1] for row in rows))
        )
        return gone

    def _numbers(self, connection: sqlite3.Connection, terms: set[str]) -> Mapping[str, int]:
        unknown = [term for term in terms if term not in self._terms]
        for some in _portions(unknown):
            self._look_up(connection, some)
        new = [(term,) for term in unknown if term not in self._terms]
        if new:
            connection.executemany("INSERT INTO terms(term) VALUES (?)", new)
            for some in _portions([term for (term,) in new]):
                self._look_up(connection, some)
        return self._terms

    def _look_up(self, connection: sqlite3.Connection, terms: Sequence[str]) -> None:
        marks = ",".join("?" * len(terms))
        self._terms |= dict(connection.execute(f"SELECT term, n FROM terms WHERE term IN ({marks})", terms))  # noqa: S608

    def _drop_terms(self, connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
        unused = [
            (number,)
            for number in numbers
            if connection.execute("SELECT 1 FROM found WHERE found MATCH ? LIMIT 1", (f'"{number:x}"',)).fetchone()
            is None
        ]
        connection.executemany("DELETE FROM terms WHERE n = ?", unused)
        if unused:
            self._terms.clear()

    # What is known of all documents together

    @staticmethod
    def count(connection: sqlite3.Connection, source_id: str, content_hash: str, metadata: Metadata, by: int) -> None:
        """Takes a document into what is known of all (`by` 1) or out of it (-1)."""
        revision = Revision.of(connection.execute("SELECT revision FROM state").fetchone()[0])
        (revision.add if by > 0 else revision.remove)(source_id, content_hash)
        connection.execute("UPDATE state SET documents = documents + ?, revision = ?", (by, revision.value))
        for key in set(metadata_keys(metadata)):
            connection.execute(
                "INSERT INTO keys VALUES (?, ?)"
                " ON CONFLICT (key) DO UPDATE SET documents = documents + excluded.documents",
                (key, by),
            )
        if by < 0:
            connection.execute("DELETE FROM keys WHERE documents <= 0")


def _is_superseded(connection: sqlite3.Connection, number: int) -> bool:
    row = connection.execute("SELECT superseded_by FROM documents WHERE n = ?", (number,)).fetchone()
    return row is not None and row[0] is not None


def _portions(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(items), _AT_ONCE):
        yield items[at : at + _AT_ONCE]
