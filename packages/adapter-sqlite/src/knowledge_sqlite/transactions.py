"""For hosts that keep tables of their own beside the documents: both change together."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from knowledge_engine.errors import InvalidArgumentError
from knowledge_engine.fs import check_path
from knowledge_engine.passages import not_text
from knowledge_sqlite.store import NewDocument, RefusedError, Writer, find


class Transaction:
    """What may be changed until the block ends. `connection` is for tables of the host's own, and for those only."""

    def __init__(self, connection: sqlite3.Connection, writer: Writer | None) -> None:
        self.connection, self._documents = connection, writer

    @property
    def _writer(self) -> Writer:
        if self._documents is None:
            raise InvalidArgumentError("No document may be changed here", mend="Begin it with `documents=True`.")
        return self._documents

    def put(self, documents: Mapping[str, bytes], *, uri: str = "") -> None:
        """Stores documents by id, each in the place of the one of its id.

        Raises:
            InvalidIdError, InvalidArgumentError, TooLargeError: One of them cannot be stored; end the block with it.
        """
        for source_id, raw in documents.items():
            check_path(source_id)
            if problem := not_text(raw):
                raise InvalidArgumentError(problem, mend="Save the text as UTF-8.")
        batch = self._writer.prepare(documents.items())
        parts = zip(batch.parts(self.connection), documents.items(), strict=True)
        try:
            self._writer.put(
                self.connection,
                [
                    (part, NewDocument.now(raw, "text", uri, find(self.connection, source_id)))
                    for part, (source_id, raw) in parts
                ],
            )
        except RefusedError as error:
            raise error.reason from error

    def remove(self, source_id: str) -> bool:
        """Removes a document; whether there was one."""
        old = find(self.connection, check_path(source_id))
        if old is not None:
            self._writer.delete(self.connection, old)
        return old is not None
