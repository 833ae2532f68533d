"""How sources, documents and hits look to an agent. Pure functions; the shapes are a contract."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import JsonValue

from knowledge_engine.agent_tools.plain import plain, scrub, shorten
from knowledge_engine.catalogue import texts_of
from knowledge_engine.citations import cut_text, decode
from knowledge_engine.models import ByteSpan, Hit, Source
from knowledge_engine.service import Loaded, OutlineEntry, find_section, labels, main_sections, outline

Answer = dict[str, JsonValue]

#: Characters of a document's text in one answer.
MAX_CONTENT_CHARS = 16_000
#: Headings in one answer, and the characters of all their names.
MAX_SECTIONS = 500
MAX_SECTION_CHARS = 16_000
MAX_SUMMARY_CHARS = 500
MAX_FIELD_CHARS = 300
#: Characters of one text in a document's metadata, and of all of it as JSON.
MAX_METADATA_CHARS = 2_000
MAX_ALL_METADATA_CHARS = 16_000
_LISTED_DRIVERS = 50


def catalogue_entry(source: Source, public_id: str, chars: int) -> Answer:
    """A document in a list: text everywhere, "" where the document says nothing; `chars` counts its body."""

    def field(key: str, limit: int = MAX_FIELD_CHARS) -> str:
        return shorten(scrub(", ".join(texts_of(source.metadata.get(key)))), limit)

    drivers = texts_of(source.metadata.get("drivers"))[:_LISTED_DRIVERS]
    return {
        "id": scrub(public_id),
        "kind": field("kind"),
        "title": shorten(scrub(source.title), MAX_FIELD_CHARS),
        "vendor": field("vendor"),
        "model": field("model"),
        "equipment_type": field("equipment_type"),
        "protocol": field("protocol"),
        "drivers": [shorten(scrub(driver), MAX_FIELD_CHARS) for driver in drivers],
        "summary": field("summary", MAX_SUMMARY_CHARS),
        "verified": field("verified"),
        "chars": chars,
    }


def document_answer(loaded: Loaded, doc_id: str, section: str | None) -> Answer:
    """A document, one section of it, or, where it is too long, its overview and the names of its sections."""
    entries = outline(loaded.document.sections)
    names = dict(zip(entries, labels(entries), strict=True))
    main = [names[entry] for entry in main_sections(entries)]
    listed = bounded(main)
    metadata, left_out = short_metadata(loaded.source.metadata)
    answer: Answer = {
        "found": True,
        "id": doc_id,
        "title": shorten(loaded.source.title, MAX_FIELD_CHARS),
        "metadata": metadata,
        "sections": [*listed],
        "content": "",
        "truncated": False,
        "hint": "",
        "source_id": loaded.source.id,
        "origin": loaded.source.origin,
        "untrusted": True,
    }
    if loaded.source.origin == "url":
        answer["uri"] = loaded.source.uri
    answer |= _content(loaded, section, entries, names)
    hints = [str(answer["hint"]), left_out]
    headings = sum(entry.level > 0 for entry in entries)
    if "outline" in answer and (shown := len(cast(list[JsonValue], answer["outline"]))) < headings:
        hints.append(f"Of {headings} headings `outline` has {shown}, those of the upper levels first.")
    if len(listed) < len(main):
        hints.append(f"Of {len(main)} sections the first {len(listed)} are named.")
    return answer | {"hint": " ".join(filter(None, hints))}


def _content(
    loaded: Loaded, section: str | None, entries: Sequence[OutlineEntry], names: dict[OutlineEntry, str]
) -> Answer:
    if section is None:
        return _whole(loaded, entries, names)
    chosen = find_section(entries, section)
    if chosen is None:
        return {
            "error": f"No section {shorten(section, 80)!r} in this document.",
            "code": "not-found",
            "outline": _tree(entries, names),
            "hint": _say_sections([names[entry] for entry in main_sections(entries)]),
        }
    return _part(loaded, chosen, entries, names)


def hit_answer(hit: Hit) -> Answer:
    """A passage with its citation."""
    return {
        "source_id": hit.source_id,
        "title": shorten(hit.title, MAX_FIELD_CHARS),
        "heading_path": [shorten(heading, MAX_FIELD_CHARS) for heading in hit.heading_path],
        "text": hit.text,
        "score": round(hit.score, 4),
        "citation": {
            "source_id": hit.source_id,
            "start": hit.span.start,
            "end": hit.span.end,
            "content_hash": hit.content_hash,
        },
    }


def short_metadata(metadata: Mapping[str, JsonValue]) -> tuple[Answer, str]:
    """A document's metadata as plain JSON, long texts cut; and a sentence on the keys that do not fit."""
    out: Answer = {}
    left = MAX_ALL_METADATA_CHARS
    missing = []
    for key, value in metadata.items():
        name, short = shorten(scrub(key), MAX_FIELD_CHARS), _short(plain(value))
        size = len(name) + len(json.dumps(short, ensure_ascii=False))
        if size > left:
            missing.append(name)
        else:
            left -= size
            out[name] = short
    some = ", ".join(shorten(name, 40) for name in missing[:5])
    return out, f"Of its metadata {len(missing)} keys are too long to be shown: {some}." if missing else ""


def _short(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return shorten(value, MAX_METADATA_CHARS)
    if isinstance(value, list):
        return [_short(item) for item in value]
    if isinstance(value, dict):
        return {shorten(key, MAX_FIELD_CHARS): _short(item) for key, item in value.items()}
    return value


def _whole(loaded: Loaded, entries: Sequence[OutlineEntry], names: dict[OutlineEntry, str]) -> Answer:
    body = ByteSpan(start=loaded.document.body_start, end=len(loaded.raw))
    content = decode(loaded.raw[body.start :])
    if len(content) <= MAX_CONTENT_CHARS:
        return {"content": content}
    size = f"The document has {len(content)} characters"
    main = main_sections(entries)
    chosen = next((entry for entry in main if entry.title.strip().casefold() == "overview"), main[0] if main else None)
    if chosen is None:
        content, _ = _cut(loaded.raw, body)
        hint = f"{size} and no headings: this is its beginning. A full-text search, where there is one, finds the rest."
        return {"content": content, "truncated": True, "hint": hint}
    content, cut = _cut(loaded.raw, chosen.span)
    shown = "the beginning of " if cut else ""
    return {
        "content": content,
        "truncated": True,
        "outline": _tree(entries, names),
        "hint": f"{size}: this is {shown}its section {names[chosen]!r}. Fetch others with `section`, "
        "named as in `sections` or `outline`.",
    }


def _part(
    loaded: Loaded, chosen: OutlineEntry, entries: Sequence[OutlineEntry], names: dict[OutlineEntry, str]
) -> Answer:
    content, cut = _cut(loaded.raw, chosen.span)
    if not cut:
        return {"content": content}
    inner = [
        names[entry]
        for entry in entries
        if entry.level > chosen.level and chosen.span.start < entry.span.start < chosen.span.end
    ]
    hint = f"The section has more than {MAX_CONTENT_CHARS} characters: this is its beginning. "
    hint += _say_sections(inner) if inner else "A full-text search, where there is one, finds the rest."
    return {"content": content, "truncated": True, "hint": hint, "outline": _tree(entries, names)}


def _cut(raw: bytes, span: ByteSpan) -> tuple[str, bool]:
    """The text of a span, at most so long as an answer may be, and whether anything is missing."""
    kept = cut_text(raw, span, MAX_CONTENT_CHARS)
    return decode(raw[kept.start : kept.end]), kept.end < span.end


def _tree(entries: Sequence[OutlineEntry], names: dict[OutlineEntry, str]) -> list[JsonValue]:
    """All headings; of too many those of the upper levels, in the document's order."""
    headings = [entry for entry in entries if entry.level]
    by_level = sorted(headings, key=lambda entry: entry.level)
    kept = set(bounded([names[entry] for entry in by_level]))
    return [{"level": entry.level, "section": names[entry]} for entry in headings if names[entry] in kept]


def bounded(names: Sequence[str]) -> list[str]:
    """The first of some names, as many as an answer may have; one that is too long hides no other."""
    out: list[str] = []
    left = MAX_SECTION_CHARS
    for name in names[:MAX_SECTIONS]:
        if len(name) <= left:
            left -= len(name)
            out.append(name)
    return out


def _say_sections(names: Sequence[str]) -> str:
    if not names:
        return "The document has no sections: fetch it without `section`."
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"Sections: {', '.join(shorten(name, 80) for name in names[:10])}{more}."
