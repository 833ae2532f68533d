"""What a model answers about a section, item by item: taken if it can be proved, else told why not."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, WithJsonSchema

from knowledge_engine.models import ByteSpan
from knowledge_okf.extraction import Draft, Task, first_sentence
from knowledge_okf.models import Rejected
from knowledge_okf.names import slug

#: No section explains more; further items are not looked at.
_MAX_ITEMS: Final = 200
_MAX_TITLE: Final = 300
_MAX_DESCRIPTION: Final = 1000
_MAX_QUOTE: Final = 2000
_MAX_TAGS: Final = 12
_MAX_BODY: Final = 200_000
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_ITEM = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Lower case, hyphens; begins with a letter"},
        "title": {"type": "string", "description": "What the concept is called"},
        "description": {"type": "string", "description": "One sentence"},
        "section": {"type": "string", "description": "The section's id, as given"},
        "quote": {"type": "string", "description": "Words of the section, exactly as they stand there"},
        "tags": _TEXTS,
        "see_also": {"type": "array", "items": _TEXT, "description": "Titles of related concepts or sections"},
        "body": {"type": "string", "description": "Markdown; only what the section says"},
    },
    "required": ["id", "title", "description", "section", "quote", "tags", "see_also", "body"],
    "additionalProperties": False,
}
# Marks of emphasis, items, quotes, tables and headings, which models leave out or put in.
_BETWEEN_WORDS = r"[\s`*_\\#>|-]+"
_BETWEEN_IN_SOURCE = r"(?:[\s`*_\\#>|-]|<[^<>]*>|&nbsp;)+"
_WORD = re.compile(r"[^\s`*_\\]+")
_MARKS = frozenset("#>|-")


def _words(quote: str) -> list[str]:
    return [word for word in _WORD.findall(quote) if not _MARKS.issuperset(word)]


class Reply(BaseModel):
    """The answer's form. Items are looked at one by one, so that a bad one does not spoil the others."""

    model_config = ConfigDict(extra="ignore")

    concepts: Annotated[list[Any], WithJsonSchema({"type": "array", "items": _ITEM})]


def take(task: Task, raw: bytes, items: list[Any], section_id: str) -> tuple[list[Draft], list[Rejected]]:
    """The items that hold, as drafts, and the others with reasons.

    Args:
        task: The section that was asked about.
        raw: All of the source.
        items: `Reply.concepts`.
        section_id: What the section was called in the question.
    """
    drafts, rejected = [], []
    for item in items[:_MAX_ITEMS]:
        reason = _problem(item, task, section_id)
        if reason:
            rejected.append(Rejected(section=_clean(task.path), item=_name_of(item), reason=reason))
        else:
            drafts.append(_draft(item, task, raw, alone=len(items) == 1))
    if len(items) > _MAX_ITEMS:
        rest = f"{len(items) - _MAX_ITEMS} more"
        rejected.append(Rejected(section=_clean(task.path), item=rest, reason="too-many-items"))
    return drafts, rejected


def _problem(item: object, task: Task, section_id: str) -> str:
    if not isinstance(item, Mapping) or not all(map(_is_plain, _values(item))):
        return "invalid-item"
    if not _is_text(item.get("title"), _MAX_TITLE) or not item["title"].strip():
        return "invalid-title"
    for name, most in (("id", _MAX_TITLE), ("description", _MAX_DESCRIPTION), ("body", _MAX_BODY), ("section", 1000)):
        if item.get(name) is not None and not _is_text(item[name], most):
            return f"invalid-{name}"
    for name in ("tags", "see_also"):
        value = item.get(name)
        if value is not None and not (isinstance(value, list) and all(_is_text(each, _MAX_TITLE) for each in value)):
            return f"invalid-{name.replace('_', '-')}"
    if item.get("section") and item["section"] not in (section_id, task.section.title, task.path):
        return "unknown-section"
    quote = item.get("quote")
    if not isinstance(quote, str) or len(quote) > _MAX_QUOTE or not _words(quote):
        return "no-quote"
    return "" if _find(quote, task.section.text, _BETWEEN_WORDS) else "quote-not-found"


def _values(value: object) -> Iterator[object]:
    """All that is in an item, however deep; no recursion, as models nest what they like."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, Mapping):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list):
            waiting += each


def _is_plain(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _is_text(value: object, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most


def _name_of(item: object) -> str:
    found = next((item[key] for key in ("id", "title") if item.get(key)), "") if isinstance(item, Mapping) else ""
    return _clean(str(found))[:80]


def _clean(text: str) -> str:
    """On one line, without what no text holds."""
    text = text.encode("utf-8", "replace").decode()
    return " ".join("".join(" " if unicodedata.category(char) == "Cc" else char for char in text).split())


def _find(quote: str, text: str, between: str) -> tuple[int, int] | None:
    """Where the words of a quote stand in a row, whatever blanks and emphasis are between them."""
    at = text.find(quote)
    if at >= 0:
        return at, at + len(quote)
    words = _words(unicodedata.normalize("NFC", quote))
    pattern = between.join(map(re.escape, words))
    found = re.search(pattern, text) or re.search(pattern, unicodedata.normalize("NFC", text))
    return found.span() if found else None


def _draft(item: Mapping[str, Any], task: Task, raw: bytes, *, alone: bool) -> Draft:
    title, quote = _clean(item["title"]), item["quote"].strip()
    body = _without_surrogates(item.get("body") or "").strip("\n")
    if not body.strip():
        body = task.section.text if alone else _paragraph(quote, task.section.text)
    wanted = item.get("id") or title
    return Draft(
        task,
        slug(wanted if slug(wanted) == wanted else title),
        title,
        _clean(item.get("description") or "") or first_sentence(body),
        tuple(dict.fromkeys(slug(tag) for tag in (item.get("tags") or [])[:_MAX_TAGS] if tag.strip())),
        f"{body}\n",
        _without_surrogates(quote),
        quote_span(quote, task, raw),
        tuple(map(_clean, item.get("see_also") or ())),
        (task.section.parent,) if task.section.parent >= 0 else (),
    )


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _paragraph(quote: str, text: str) -> str:
    """The paragraphs of a text that a quote stands in."""
    place = _find(quote, text, _BETWEEN_WORDS)
    if place is None:
        return text
    start = text.rfind("\n\n", 0, place[0])
    end = text.find("\n\n", min(place[1], len(text)))
    return text[start + 2 if start >= 0 else 0 : end if end >= 0 else len(text)]


def quote_span(quote: str, task: Task, raw: bytes) -> ByteSpan:
    """The quote's bytes in the source; where markup or entities stand in between, those of the section."""
    section = task.section
    whole = raw[section.start : section.end]
    text = whole.decode("utf-8", "surrogateescape")
    at = text.find(quote)
    place = (at, at + len(quote)) if at >= 0 else None
    if place is None:
        words = _words(quote)
        found = re.search(_BETWEEN_IN_SOURCE.join(map(re.escape, words)), text)
        place = found.span() if found else None
    if place is None:
        return ByteSpan(start=section.start, end=section.end)
    start, end = (len(text[:at].encode("utf-8", "surrogateescape")) for at in place)
    return ByteSpan(start=section.start + start, end=section.start + end)
