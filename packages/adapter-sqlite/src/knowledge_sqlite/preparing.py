"""Documents made ready for the tables, away from any database: this is most of the work of storing one."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from knowledge_engine.analysis import Numbering
from knowledge_engine.filters import metadata_keys
from knowledge_engine.passages import Document, PassageTokens, parse_document, passage_tokens
from knowledge_sqlite.codec import BLOCK, Numbers, Postings, count_tokens


class Prepared(NamedTuple):
    """What the tables hold of a document, but for its bytes and its terms."""

    source_id: str
    content_hash: str
    title: str
    #: JSON.
    metadata: str
    issues: str
    #: Metadata keys, nested ones by their dotted path.
    keys: tuple[str, ...]
    #: How many there are.
    passages: int
    #: The headings above each passage, block by block: JSON.
    headings: tuple[str, ...]


class Work(NamedTuple):
    """Documents with all their passages, in order."""

    documents: list[Prepared]
    #: Start and stop of each passage; two columns.
    spans: Numbers
    #: Their terms, in the numbers of a `Numbering`.
    postings: Postings


def prepare(documents: Iterable[tuple[str, bytes]], numbering: Numbering) -> Work:
    """Parses documents, given as ids and bytes, and counts their terms."""
    made: list[Prepared] = []
    spans = array("q")

    def tokens() -> Iterator[PassageTokens[bytes]]:
        for source_id, raw in documents:
            document = parse_document(source_id, raw)
            made.append(_prepared(document))
            for passage in document.passages:
                spans.extend(passage[:2])
            yield from passage_tokens(document, raw, numbering.of_text, numbering.of_bytes)

    postings = count_tokens(tokens())
    return Work(made, np.array(spans, np.int64).reshape(-1, 2), postings)


def _prepared(document: Document) -> Prepared:
    passages = document.passages
    return Prepared(
        document.source_id,
        document.content_hash,
        document.title,
        _json(document.metadata),
        _json([each.model_dump(mode="json") for each in document.issues]) if document.issues else "[]",
        tuple(set(metadata_keys(document.metadata))),
        len(passages),
        tuple(
            _json([passage.heading_path for passage in passages[first : first + BLOCK]])
            for first in range(0, len(passages), BLOCK)
        ),
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
