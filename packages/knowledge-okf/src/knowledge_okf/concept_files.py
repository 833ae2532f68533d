"""A concept as a file: frontmatter and markdown, and whether anybody changed it since it was written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from pydantic import JsonValue, ValidationError

from knowledge_engine.frontmatter import compose_document, parse_frontmatter
from knowledge_engine.models import ByteSpan, DocumentIssue, Metadata
from knowledge_okf.models import KNOWN_KEYS, STABLE, Concept, SourceRef, Stamp, as_extra, from_extra

#: Begins the line of links to other concepts, which is not part of the body.
SEE_ALSO: Final = "\n\nSee also: "
_LINK = r"\[(?:[^\\\[\]]|\\.)*\]\([^()\s]*\)"
_LINKS = re.compile(rf"(?:{_LINK}(?:, {_LINK})*)?\n")
_HASH_LINE = re.compile(rb"^content_hash:[^\n]*\n", re.MULTILINE)
_MARKUP = re.compile(r"([\\\[\]<>`*_])")
_FIELDS: Final = ("source", "source_url", "resource", "status", "stale_after")


class Target(NamedTuple):
    """What a link needs to know of a concept."""

    title: str
    #: Of its file, below the bundle's root.
    path: str


#: Gives the concept of an id.
Finder = Callable[[str], Target | None]


class ConceptFile(NamedTuple):
    """A file of a bundle that is, or should be, a concept."""

    path: str
    raw: bytes
    #: None if it has no frontmatter that can be read, or no type.
    concept: Concept | None
    #: Somebody changed it since it was written here, or it was not written here at all.
    edited: bool
    issues: tuple[DocumentIssue, ...]


def render(concept: Concept, find: Finder) -> bytes:
    """The file of a concept. Links are written for those of `see_also` that `find` knows.

    Raises:
        InvalidArgumentError: For what a frontmatter cannot hold, such as a description of 64 KiB.
    """
    raw = compose_document(_metadata(concept), concept.body + _see_also(concept, find))
    end = raw.index(b"\n---\n", 3) + 1
    line = f"content_hash: sha256:{_digest(raw)}\n".encode()
    return raw[:end] + line + raw[end:]


def is_edited(raw: bytes) -> bool:
    """Whether the bytes are others than `render` gave; line ends do not count."""
    raw = raw.replace(b"\r\n", b"\n")
    end = raw.find(b"\n---\n", 3)
    found = _HASH_LINE.search(raw, 0, end + 1) if end > 0 else None
    if found is None:
        return True
    return found[0].strip() != f"content_hash: sha256:{_digest(raw[: found.start()] + raw[found.end() :])}".encode()


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest()


def _metadata(concept: Concept) -> Metadata:
    """Frontmatter without what is empty; the keys' order is the one that people read best."""
    out: Metadata = {"id": concept.id, "title": concept.title, "type": concept.type}
    if concept.description:
        out["description"] = concept.description
    if concept.tags:
        out["tags"] = list(concept.tags)
    for name in _FIELDS:
        value = getattr(concept, name)
        if value != (STABLE if name == "status" else ""):
            out[name] = value
    if concept.see_also:
        out["see_also"] = list(concept.see_also)
    if concept.sources:
        out["sources"] = [_source(each) for each in concept.sources]
    if concept.generated is not None:
        out["generated"] = _stamp(concept.generated)
    if concept.verified:
        out["verified"] = [_stamp(each) for each in concept.verified]
    return out | from_extra(concept.extra)


def _source(source: SourceRef) -> JsonValue:
    out: dict[str, JsonValue] = {"resource": source.resource}
    for name in ("id", "title", "section", "section_hash", "quote"):
        if value := getattr(source, name):
            out[name] = value
    if source.span is not None:
        out["span"] = [source.span.start, source.span.end]
    return out | from_extra(source.extra)


def _stamp(stamp: Stamp) -> JsonValue:
    return {"by": stamp.by, **({"at": stamp.at} if stamp.at else {}), **from_extra(stamp.extra)}


def link_to(target: Target) -> str:
    """A markdown link to a concept, from the bundle's root."""
    stem = target.path.rpartition("/")[2].removesuffix(".md")
    return f"[{link_text(target.title) or link_text(stem)}](/{quote(target.path)})"


def link_text(text: str) -> str:
    """Text as it may stand in a link's brackets, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _see_also(concept: Concept, find: Finder) -> str:
    if not concept.see_also:
        return ""
    known = filter(None, map(find, concept.see_also))
    return f"{SEE_ALSO}{', '.join(map(link_to, known))}\n"


def read_concept(path: str, raw: bytes) -> ConceptFile:
    """What a file holds; never raises, whatever the bytes are. Versions 0.1 and 0.2 are read alike."""
    found = parse_frontmatter(raw, path)
    kind = _text(found.metadata.get("type"))
    edited = is_edited(raw)
    issues = [issue for issue in found.issues if issue.code != "frontmatter-missing"]
    concept = None
    if found.metadata and kind.strip():
        body = raw[found.body_start :].decode("utf-8", "replace")
        try:
            concept = _concept(path, found.metadata, kind, body)
        except (ValidationError, ValueError):
            issues.append(_bad_name(path))
    else:
        issues.append(_no_type(path, bool(found.metadata)))
    return ConceptFile(path, raw, concept, edited, tuple(issues))


def _bad_name(path: str) -> DocumentIssue:
    return DocumentIssue(
        code="invalid-id",
        severity="error",
        path=path,
        line=1,
        message="The file's name or folder cannot be one of a concept",
        mend="Rename it, with letters, digits and hyphens only.",
    )


def _no_type(path: str, has_block: bool) -> DocumentIssue:
    code, what = ("missing-type", "has no type") if has_block else ("frontmatter-missing", "has no frontmatter")
    return DocumentIssue(
        code=code,
        severity="error",
        path=path,
        line=1,
        message=f"The file {what}, so it is no concept",
        mend="Write `type: concept` into its frontmatter, or move it out of the bundle.",
    )


def _concept(path: str, metadata: Metadata, kind: str, body: str) -> Concept:
    folder, _, name = path.rpartition("/")
    stem = name[: -len(".md")]
    see_also = _texts(metadata.get("see_also"))
    generated = _stamps(metadata.get("generated"))
    return Concept(
        # The file's name counts: an id that says otherwise is told by `bundle validate`.
        id=stem,
        title=_text(metadata.get("title")),
        type=kind,
        description=_text(metadata.get("description")),
        tags=_texts(metadata.get("tags")),
        body=_without_links(body) if see_also else body,
        folder=folder,
        **{name: value for name in _FIELDS if (value := _text(metadata.get(name)))},
        see_also=see_also,
        sources=tuple(map(_read_source, _items(metadata.get("sources")))),
        generated=generated[0] if generated else None,
        verified=_stamps(metadata.get("verified")),
        extra=as_extra({key: value for key, value in metadata.items() if key not in KNOWN_KEYS}),
    )


def _without_links(body: str) -> str:
    """The body without the line that `render` put behind it, if it still is as it was."""
    before, mark, links = body.rpartition(SEE_ALSO)
    return before if mark and _LINKS.fullmatch(links) else body


def _text(value: JsonValue) -> str:
    """A scalar as text; of others, nothing."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else ""


def _texts(value: JsonValue) -> tuple[str, ...]:
    """A list of texts, which older bundles write as one with commas."""
    if isinstance(value, list):
        return tuple(_text(each) for each in value if not isinstance(each, dict | list))
    return tuple(each for part in _text(value).split(",") if (each := part.strip()))


def _items(value: JsonValue) -> list[Mapping[str, JsonValue]]:
    """A list of mappings; one mapping or one text is as good as a list of it."""
    found = value if isinstance(value, list) else [] if value is None else [value]
    return [each if isinstance(each, dict) else {"resource": _text(each), "by": _text(each)} for each in found]


def _stamps(value: JsonValue) -> tuple[Stamp, ...]:
    return tuple(
        Stamp(by=_text(each.get("by")), at=_text(each.get("at")), extra=_rest(each, "by", "at", "resource"))
        for each in _items(value)
    )


def _read_source(item: Mapping[str, JsonValue]) -> SourceRef:
    names = ("resource", "id", "title", "section", "section_hash", "quote")
    span = item.get("span")
    whole = isinstance(span, list) and len(span) == 2 and all(type(each) is int and each >= 0 for each in span)
    return SourceRef(
        **{name: _text(item.get(name)) for name in names},
        span=ByteSpan.model_validate({"start": span[0], "end": span[1]})
        if isinstance(span, list) and whole and int(str(span[0])) <= int(str(span[1]))
        else None,
        extra=_rest(item, *names, "span", "by"),
    )


def _rest(item: Mapping[str, JsonValue], *names: str) -> tuple[tuple[str, str], ...]:
    return as_extra({key: value for key, value in item.items() if key not in names})
