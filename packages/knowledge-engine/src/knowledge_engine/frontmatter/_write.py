"""Writing blocks: whatever YAML could read as something else is quoted, and untouched keys keep their bytes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from knowledge_engine.errors import InvalidArgumentError, InvalidFrontmatterError
from knowledge_engine.frontmatter._read import (
    BOM,
    MAX_BLOCK_BYTES,
    OPENING,
    Fences,
    find_fences,
    parse_frontmatter,
    read_entries,
)
from knowledge_engine.frontmatter._scalars import MAX_DEPTH, MAX_EXACT_INT, is_text_field
from knowledge_engine.frontmatter._yaml import Entry
from knowledge_engine.models import Metadata

# Starts with a letter and holds nothing that means something in YAML.
_PLAIN = re.compile(r"[^\W\d_](?:[\w./+()-]| (?! |\Z))*")
# Words that this reader or a YAML 1.1 one takes for something else.
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"})
# Escaped so that the text survives editors and other parsers: controls, line and paragraph separators, BOM, U+FFFE/F.
_ESCAPED = re.compile("[\x7f-\xa0\xad\u2028\u2029\ufeff\ufffe\uffff]")
# YAML takes a key for one only if its colon comes within 1024 characters.
_MAX_KEY = 1000


def compose_document(metadata: Mapping[str, JsonValue], text: str) -> bytes:
    """A document of that metadata and body; reading it gives both back.

    Nulls are left out, as reading does. Without metadata there is no block, unless the text's own beginning
    would be taken for one.

    Raises:
        InvalidArgumentError: For what reading could not give back: numbers or booleans in a text field such as
            `version`, integers beyond 2**53 - 1, NaN, lone surrogates, too deep or too much of it.
    """
    block = "".join(f"{line}\n" for key, value in metadata.items() for line in _entry(key, value))
    _require_utf8(text)
    body = text.encode()
    if not block and not body.startswith(BOM) and not OPENING.match(body):
        return body
    _require_size(block)
    return f"---\n{block}---\n".encode() + body


def update_frontmatter(raw: bytes, changes: Mapping[str, JsonValue]) -> bytes:
    """`raw` with those top-level keys set (None removes one); every other byte stays as it is.

    New keys come last in the block; a document without one gets one. Line ends are those of the block.

    Raises:
        InvalidFrontmatterError: When the block has errors or is written in a way that cannot be changed key by
            key (in braces, say); nothing is guessed.
        InvalidArgumentError: See `compose_document`.
    """
    before = parse_frontmatter(raw)
    for issue in before.issues:
        if issue.severity == "error" or issue.code == "encoding-invalid":
            raise InvalidFrontmatterError(f"Line {issue.line}: {issue.message}", mend=issue.mend)
    _check(changes)
    wanted: Metadata = {key: _without_nulls(value, 2) for key, value in changes.items()}
    # Equal values are not rewritten; a key to be removed may be there without a value.
    touched = {
        key: value
        for key, value in wanted.items()
        if value is None or key not in before.metadata or not _same(value, before.metadata[key])
    }
    fences = find_fences(raw)
    result = _rewritten(raw, fences, touched) if fences else _with_new_block(raw, before.body_start, touched)
    after = parse_frontmatter(result)
    expected: Metadata = {key: value for key, value in (before.metadata | wanted).items() if value is not None}
    if not _same(after.metadata, expected) or result[after.body_start :] != raw[before.body_start :]:
        raise _not_by_key()
    return result


def _check(values: Mapping[str, JsonValue]) -> None:
    for key, value in values.items():
        list(_entry(key, value))


def _not_by_key() -> InvalidFrontmatterError:
    problem = "The block is written in a way that cannot be changed key by key"
    return InvalidFrontmatterError(problem, mend="Write it as plain `key: value` lines.")


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Equality that tells 1 from 1.0 and from true."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _with_new_block(raw: bytes, body_start: int, values: Metadata) -> bytes:
    lines = [line for key, value in values.items() for line in _entry(key, value)]
    if not lines:
        return raw
    end = _line_end(raw)
    block = "".join(f"{line}{end}" for line in ("---", *lines, "---"))
    _require_size(block)
    return raw[:body_start] + block.encode() + raw[body_start:]


def _line_end(raw: bytes) -> str:
    """That of the first line."""
    at = raw.find(b"\n")
    return "\r\n" if at > 0 and raw[at - 1 : at] == b"\r" else "\n"


def _rewritten(raw: bytes, fences: Fences, changes: Metadata) -> bytes:
    text = raw[fences.start : fences.end].decode()
    block = read_entries(raw, fences)
    if block.flow and changes:
        raise _not_by_key()
    end = _line_end(raw)
    out, at = [], 0
    for entry in block.entries:
        if entry.key in changes:
            start, stop, replacement = _replacement(text, entry, changes[entry.key], end)
            out += [text[at:start], replacement]
            at = stop
    out.append(text[at:])
    pad = " " * block.entries[0].column if block.entries else ""
    known = {entry.key for entry in block.entries}
    added = [line for key, value in changes.items() if key not in known for line in _entry(key, value)]
    out += [f"{pad}{line}{end}" for line in added]
    result = "".join(out)
    _require_size(result)
    return raw[: fences.start] + result.encode() + raw[fences.end :]


def _replacement(text: str, entry: Entry, value: JsonValue, end: str) -> tuple[int, int, str]:
    """What to put in place of text[start:stop] so that the entry has that value; a comment behind it stays."""
    # A block scalar ends only where the next thing begins.
    stop = entry.key_end + len(text[entry.key_end : entry.value_end].rstrip(" \t\r\n"))
    if value is None:
        line_end = text.find("\n", stop)
        return text.rfind("\n", 0, entry.start) + 1, line_end + 1 if line_end >= 0 else len(text), ""
    lines = list(_lines("", value, " " * entry.column, is_text_field(entry.key)))
    # The first line has the place of what stood behind the key.
    return entry.key_end, stop, ":" + end.join(lines)


def _without_nulls(value: JsonValue, depth: int) -> JsonValue:
    if not isinstance(value, (dict, list)):
        return value
    if depth > MAX_DEPTH:
        problem = f"Metadata nests deeper than {MAX_DEPTH} levels"
        raise InvalidArgumentError(problem, mend="Flatten it.")
    if isinstance(value, dict):
        return {key: _without_nulls(item, depth + 1) for key, item in value.items() if item is not None}
    return [_without_nulls(item, depth + 1) for item in value if item is not None]


def _entry(key: str, value: JsonValue) -> Iterator[str]:
    """The lines of one top-level entry, without line ends; none for a null."""
    if value is not None:
        yield from _lines(f"{_key(key)}:", _without_nulls(value, 2), "", is_text_field(key))


def _lines(head: str, value: JsonValue, pad: str, as_text: bool) -> Iterator[str]:
    if not isinstance(value, (dict, list)) or not value:
        yield f"{head} {_scalar(value, as_text)}"
        return
    yield head
    deeper = f"{pad}  "
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _lines(f"{deeper}{_key(key)}:", item, deeper, as_text)
    else:
        for item in value:
            lines = list(_lines(f"{deeper}-", item, deeper, as_text))
            # The first line of a nested collection goes behind the dash.
            yield lines[0] if len(lines) == 1 else f"{lines[0]} {lines[1].lstrip(' ')}"
            yield from lines[2:]


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise InvalidArgumentError(f"Keys of metadata are strings, got {key!r}", mend="Make it a string.")
    written = _string(key)
    if len(written) > _MAX_KEY:
        raise InvalidArgumentError(f"A key is longer than {_MAX_KEY} characters", mend="Shorten it.")
    return written


def _scalar(value: JsonValue, as_text: bool) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, (bool, int, float)) and as_text:
        raise InvalidArgumentError(f"A text field got a {type(value).__name__}", mend="Write it as a string.")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) <= MAX_EXACT_INT:
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    raise InvalidArgumentError(
        f"Metadata cannot hold this value of type {type(value).__name__}",
        mend="Use strings, booleans, numbers that JSON keeps exactly, lists and mappings.",
    )


def _string(text: str) -> str:
    _require_utf8(text)
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def _require_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"Character {error.start} of a text is half a surrogate pair"
        raise InvalidArgumentError(problem, mend="Replace it; it stands for no character.") from error


def _require_size(block: str) -> None:
    if len(block.encode()) > MAX_BLOCK_BYTES:
        problem = f"Metadata takes more than {MAX_BLOCK_BYTES // 1024} KiB"
        raise InvalidArgumentError(problem, mend="Move text into the body.")
