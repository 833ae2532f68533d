"""A line of the file, the note in it, and the bytes of that note: what is stored, hashed and cited."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from knowledge_engine.citations import decode
from knowledge_engine.errors import InvalidArgumentError, KnowledgeError
from knowledge_engine.frontmatter import compose_document, parse_frontmatter
from knowledge_engine.fs import check_path


class Line(NamedTuple):
    """One line as it stands; `id` is empty and `problem` says why where it holds no note."""

    data: bytes
    id: str = ""
    raw: bytes = b""
    problem: str = ""


def read_line(data: bytes) -> Line:
    """What a line holds. Never fails: one bad line is no reason to lose the others."""
    if not data.strip():
        return Line(data)
    try:
        note = json.loads(data.decode("utf-8-sig"))
        if not isinstance(note, dict) or not all(isinstance(note.get(key), str) for key in ("id", _body(note))):
            return Line(data, problem="It is no object with an `id` and a `text`")
        return Line(data, check_path(note["id"]), _bytes(note))
    except (ValueError, RecursionError, KnowledgeError) as error:
        return Line(data, problem=error.problem if isinstance(error, KnowledgeError) else str(error))


def read_lines(data: bytes) -> list[Line]:
    """The lines of a file. Of several with one id the last counts; the others say so."""
    lines = [read_line(line) for line in data.removesuffix(b"\n").split(b"\n")] if data else []
    last = {line.id: number for number, line in enumerate(lines)}
    return [
        line._replace(problem=f"Line {last[line.id] + 1} has the same id and counts")
        if line.id and last[line.id] != number
        else line
        for number, line in enumerate(lines)
    ]


def stored_in(lines: Iterable[Line]) -> dict[str, bytes]:
    """The notes' bytes by id."""
    return {line.id: line.raw for line in lines if line.id}


def write_line(source_id: str, raw: bytes) -> Line:
    """The line whose note has exactly these bytes."""
    front = parse_frontmatter(raw)
    notes: list[dict[str, Any]] = [
        {"id": source_id, **front.metadata, "text": decode(raw[front.body_start :])},
        {"id": source_id, "text": decode(raw)},
    ]
    for note in notes:
        with suppress(InvalidArgumentError):  # what can be read of metadata and not be written
            if _bytes(note) == raw:
                break
    else:
        note = {"id": source_id, "base64": base64.b64encode(raw).decode()}
    return Line(json.dumps(note, ensure_ascii=False).encode(), source_id, raw)


def _body(note: Mapping[str, Any]) -> str:
    return "base64" if "text" not in note and "base64" in note else "text"


def _bytes(note: Mapping[str, Any]) -> bytes:
    """All but `id` and `text` as frontmatter, then the text. `base64` is for bytes that no text can hold."""
    if _body(note) == "base64":
        return base64.b64decode(note["base64"], validate=True)
    fields = {key: value for key, value in note.items() if key not in ("id", "text")}
    return compose_document(fields, note["text"]) if fields else note["text"].encode()
