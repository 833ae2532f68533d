"""Documents as a list shows them: rendered once for each version, and no more of them than an answer may hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from pydantic import JsonValue

from knowledge_engine.agent_tools.rendering import Answer, catalogue_entry
from knowledge_engine.catalogue import Catalogue
from knowledge_engine.errors import NotFoundError
from knowledge_engine.frontmatter import body_start
from knowledge_engine.models import Source
from knowledge_engine.service import KnowledgeService, SourceList

#: Characters of the documents in one list, as JSON; one document always fits.
MAX_LIST_CHARS = 80_000
#: How often a page is asked for again because the corpus changed meanwhile.
_ATTEMPTS = 3
_CACHED_ENTRIES = 10_000
_CACHED_SIZES = 200_000
_WITHOUT_FRONTMATTER = (".yaml", ".yml", ".json")


class _Entry(NamedTuple):
    answer: Answer
    #: Characters as JSON.
    size: int


class Entries:
    """Renders documents for lists, and remembers what it has rendered. Any thread may call it."""

    def __init__(self, service: KnowledgeService) -> None:
        self._service = service
        self._sizes: dict[tuple[str, str], int] = {}
        self._rendered: dict[tuple[str, str, str], _Entry] = {}

    def page(
        self, limit: int, *, query: str | None, filter: Mapping[str, JsonValue] | None, cursor: str | None
    ) -> tuple[SourceList, list[Answer]]:
        """One page, with as many documents as an answer holds. The entries are shared: nobody may change them.

        Raises:
            KnowledgeError: As `KnowledgeService.list`.
        """
        ask = partial(self._ask, query=query, filter=filter, cursor=cursor)
        found, entries = ask(limit)
        fits = sum(total <= MAX_LIST_CHARS for total in accumulate(entry.size for entry in entries))
        if fits < len(entries):
            # Asked again for the cursor that goes on after the last one shown.
            found, entries = ask(max(fits, 1))
        return found, [entry.answer for entry in entries]

    def _ask(
        self, limit: int, *, query: str | None, filter: Mapping[str, JsonValue] | None, cursor: str | None
    ) -> tuple[SourceList, list[_Entry]]:
        catalogue = Catalogue(())
        for _ in range(_ATTEMPTS):
            found = self._service.list(query=query, filter=filter, cursor=cursor, limit=limit)
            if not found.sources:
                break
            catalogue = self._service.catalogue()
            if all(_same(source, catalogue.get(source.id)) for source in found.sources):
                break  # else the corpus has changed in between: ids would be those of another one
        return found, [self._entry(source, catalogue.public_id(source)) for source in found.sources]

    def _entry(self, source: Source, public_id: str) -> _Entry:
        key = (source.id, source.content_hash or "", public_id)
        entry = self._rendered.get(key)
        if entry is None:
            answer = catalogue_entry(source, public_id, self._chars(source))
            entry = _Entry(answer, len(json.dumps(answer, ensure_ascii=False)))
            if key[:2] in self._sizes:
                _make_room(self._rendered, _CACHED_ENTRIES)
                self._rendered[key] = entry
        return entry

    def _chars(self, source: Source) -> int:
        """Characters of the body; 0 when the document has vanished meanwhile."""
        key = (source.id, source.content_hash or "")
        size = self._sizes.get(key)
        if size is None:
            try:
                read = self._service.provider.read_source(source.id)
            except NotFoundError:
                return 0
            raw = read.content
            start = 0 if source.id.lower().endswith(_WITHOUT_FRONTMATTER) else body_start(raw)
            size = len(raw[start:].decode("utf-8", "replace"))
            if source.content_hash == read.content_hash:
                _make_room(self._sizes, _CACHED_SIZES)
                self._sizes[key] = size
        return size


def _same(source: Source, known: Source | None) -> bool:
    return known is not None and known.content_hash == source.content_hash


def _make_room(cache: MutableMapping[Any, Any], limit: int) -> None:
    if len(cache) >= limit:
        cache.clear()
