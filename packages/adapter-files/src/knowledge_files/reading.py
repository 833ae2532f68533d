"""From a file to what is known of it: one way to read, whether the index is built, refreshed or not needed."""

from __future__ import annotations

import dataclasses
import time
from typing import NamedTuple

from knowledge_engine.citations import content_hash
from knowledge_engine.errors import NotFoundError, ProviderError, TooLargeError
from knowledge_engine.models import FileInfo
from knowledge_engine.passages import Document, not_text, parse_document
from knowledge_engine.ports import FsPort
from knowledge_files.documents import Record


class Reading(NamedTuple):
    """A file that was read."""

    record: Record
    raw: bytes = b""
    #: None where there is nothing to index: the file is no document, or its bytes are those of the record before.
    document: Document | None = None


def read_file(fs: FsPort, info: FileInfo, old: Record | None = None) -> Reading | None:
    """Reads a file and parses it, unless its bytes are those of `old`; None if there is no such file.

    Args:
        info: What a look at the file said before it was read: then a change between the two shows at the next look.
    """
    # Before reading: a write right after it may leave the times as they are.
    now = time.time_ns()
    try:
        raw = fs.read(info.path)
    except NotFoundError:
        return None
    except TooLargeError as error:
        return Reading(Record.unusable(info, now, "too-large", error.problem))
    except ProviderError as error:
        return Reading(Record.unusable(info, now, "unreadable", error.problem))
    if problem := not_text(raw):
        return Reading(Record.unusable(info, now, "encoding-invalid", problem))
    # The size is that of the bytes read: a file that grew since the look differs at the next one.
    info = info._replace(size=len(raw))
    if old is not None and old.content_hash == content_hash(raw):
        return Reading(dataclasses.replace(old, info=info, read_ns=now))
    document = parse_document(info.path, raw)
    return Reading(Record.of(info, now, document), raw, document)
