"""`list`, `get` and `query` for agents: never raise, always a plain JSON dict, suggestions instead of failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from pydantic import JsonValue

from knowledge_engine.agent_tools.arguments import (
    call_arguments,
    filter_argument,
    query_argument,
    real_number,
    scalar_filters,
    text_argument,
    whole_number,
)
from knowledge_engine.agent_tools.guard import Tool, error_keys, never_raises
from knowledge_engine.agent_tools.hints import nothing_found, respelled
from knowledge_engine.agent_tools.listing import Entries
from knowledge_engine.agent_tools.plain import shorten
from knowledge_engine.agent_tools.rendering import Answer, bounded, document_answer, hit_answer
from knowledge_engine.agent_tools.specs import TOOL_NAMES, tool_of
from knowledge_engine.catalogue import texts_of
from knowledge_engine.errors import (
    AmbiguousIdError,
    InvalidArgumentError,
    InvalidCursorError,
    KnowledgeError,
    NotFoundError,
)
from knowledge_engine.models import MAX_TOP_K, Query, QueryResult
from knowledge_engine.service import KnowledgeService, Loaded, SourceList

_Page = tuple[SourceList, list[Answer]]
#: And a sentence on how it was found.
_Found = tuple[SourceList, list[Answer], str]

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
DEFAULT_TEXT_CHARS = 8_000
MAX_TEXT_CHARS = 64_000
MAX_AVAILABLE = 50
MAX_SUGGESTIONS = 5
MAX_WARNINGS = 20
MAX_HINT_CHARS = 500

#: Answers without findings.
NO_DOCUMENTS: Mapping[str, JsonValue] = {"count": 0, "docs": [], "hint": ""}
NO_DOCUMENT: Mapping[str, JsonValue] = {
    "found": False,
    "suggestions": [],
    "available_ids": [],
    "available_total": 0,
    "hint": "",
}
NO_HITS: Mapping[str, JsonValue] = {"count": 0, "hits": [], "warnings": [], "truncated": False, "hint": ""}
#: Further names of the argument `doc_id`.
ID_ALIASES = dict.fromkeys(("id", "docId", "source_id", "sourceId"), "doc_id")


class AgentTools:
    """The tools over a service. Any thread may call them.

    Every answer is a dict that `json.dumps(answer, allow_nan=False)` takes. A failure is the tool's usual answer
    without findings, and `error` (text), `code` and `mend` besides; `error_id` names the log entry of one that was
    not foreseen. What arguments may look like is in `agent_tools.arguments`.

    Args:
        wait_s: How long a query waits for an index that is being built, in seconds; by default until it is.
    """

    def __init__(self, service: KnowledgeService, *, wait_s: float | None = None) -> None:
        self.service = service
        self._wait_s = wait_s
        self._entries = Entries(service)

    @never_raises(NO_DOCUMENTS)
    def list(
        self,
        /,
        query: object = None,
        filter: object = None,
        limit: object = None,
        cursor: object = None,
        **filters: object,
    ) -> Answer:
        """Documents whose metadata fits; with a `query`, those whose catalogue fields match it, best first.

        Any further argument is a condition on the metadata key of its name; "any" asks nothing. Conditions on keys
        named `query`, `limit`, `cursor` or `filter` go through `filter`.
        """
        scalars = scalar_filters(filters)
        given = filter_argument(filter)
        words = query_argument(query)
        wanted = whole_number("limit", limit) or DEFAULT_LIMIT
        page = partial(self._entries.page, min(wanted, MAX_LIMIT), query=words, cursor=text_argument("cursor", cursor))
        found, docs, hint = self._page(page, given, scalars.conditions)
        hints = [hint] if hint else []
        if found.hint:
            hints.append(found.hint)
        if wanted > MAX_LIMIT:
            hints.append(f"At most {MAX_LIMIT} documents are given at once.")
        if scalars.blank:
            hints.append(f"Left out as blank: {', '.join(scalars.blank)}.")
        hints.append(self._list_hint(found, {**given, **scalars.conditions}, words))
        return {
            "count": len(docs),
            "docs": [*docs],
            "hint": " ".join(hints),
            "total": found.total,
            "truncated": found.next_cursor is not None,
            "next_cursor": found.next_cursor,
            "warnings": _few(found.warnings),
            "untrusted": True,
        }

    @never_raises(NO_DOCUMENT, ID_ALIASES)
    def get(self, /, doc_id: object, section: object = None) -> Answer:
        """The text of one document, or of one section of it; suggestions where there is no such document."""
        name = text_argument("doc_id", doc_id)
        if name is None:
            raise InvalidArgumentError("doc_id is missing", mend="Give the id of a document that is listed.")
        wanted = text_argument("section", section)
        try:
            loaded, used = self._load(name)
        except AmbiguousIdError as error:
            claimants = self.service.catalogue().resolve(name)
            return self._not_found(error, claimants)
        except NotFoundError as error:
            return self._not_found(error, self.service.catalogue().suggest(name, MAX_SUGGESTIONS))
        # An id by which it was found stays; another spelling of it gives way to the stored one.
        doc_id = used if used == loaded.source.metadata.get("id") else loaded.source.id
        return document_answer(loaded, doc_id, wanted)

    @never_raises(
        NO_HITS,
        {
            "topK": "top_k",
            "limit": "top_k",
            "maxChars": "max_chars",
            "perSource": "per_source",
            "minScore": "min_score",
        },
    )
    def query(
        self,
        /,
        query: object,
        top_k: object = None,
        filter: object = None,
        max_chars: object = None,
        per_source: object = None,
        cursor: object = None,
        min_score: object = None,
    ) -> Answer:
        """Passages that answer a question, best first, each with a citation; at most `max_chars` of text in all."""
        budget = whole_number("max_chars", max_chars) or DEFAULT_TEXT_CHARS
        asked = Query(
            query=query_argument(query) or "",
            top_k=min(whole_number("top_k", top_k) or 10, MAX_TOP_K),
            filter=filter_argument(filter) or None,
            max_chars=min(budget, MAX_TEXT_CHARS),
            per_source=min(whole_number("per_source", per_source) or 1, MAX_TOP_K),
            cursor=text_argument("cursor", cursor),
            min_score=real_number("min_score", min_score),
            wait_s=self._wait_s,
        )
        result = self.service.query(asked)
        capped = f"At most {MAX_TEXT_CHARS} characters are given at once. " if budget > MAX_TEXT_CHARS else ""
        return {
            "count": len(result.hits),
            "hits": [hit_answer(hit) for hit in result.hits],
            "warnings": _few(result.warnings),
            "index": result.index.model_dump(),
            "mode_used": result.mode_used,
            "truncated": result.truncated,
            "next_cursor": result.next_cursor,
            "untrusted": True,
            "hint": capped + _query_hint(result),
        }

    @never_raises({})
    def call(self, /, name: object, arguments: object = None) -> Answer:
        """Runs a tool by its name: short (`list`), as in `tool_specs` (`knowledge_list`), or as in `tool_template`."""
        tools: dict[str, Tool] = {"list": self.list, "get": self.get, "query": self.query}
        asked = text_argument("name", name) or ""
        tool = tools.get(tool_of(asked.strip()))
        if tool is None:
            known = ", ".join(TOOL_NAMES.values())
            raise InvalidArgumentError(f"No tool {shorten(asked, 80)!r}", mend=f"The tools are: {known}.")
        return tool(**call_arguments(arguments))

    def _page(
        self, page: Callable[..., _Page], given: dict[str, JsonValue], conditions: dict[str, JsonValue]
    ) -> _Found:
        """A page; where nothing is found, one of values that read the same, and a sentence that says so."""
        failure: InvalidCursorError | None = None
        try:
            found, docs = page(filter=_both(given, conditions))
            if found.total:
                return found, docs, ""
        except InvalidCursorError as error:  # its page may have been one of other values
            failure = error
        other = respelled(self.service.catalogue(), conditions)
        if other is not None:
            again, docs_again = page(filter=_both(given, other))
            if again.total:
                return again, docs_again, _as_documents_write(conditions, other)
        if failure is not None:
            raise failure
        return found, docs, ""

    def _load(self, name: str) -> tuple[Loaded, str]:
        with suppress(NotFoundError):
            return self.service.load(name), name
        return self.service.load(name.strip()), name.strip()

    def _list_hint(self, found: SourceList, conditions: Mapping[str, JsonValue], query: str | None) -> str:
        if not found.total:
            hint = nothing_found(self.service.catalogue(), conditions, query)
            return " ".join(filter(None, (hint, self._why_empty())))
        if found.next_cursor is not None:
            return f"{found.total} documents match; pass `next_cursor` as `cursor` for more, or narrow the search."
        return "Fetch a document by its id."

    def _not_found(self, error: KnowledgeError, suggestions: tuple[str, ...]) -> Answer:
        catalogue = self.service.catalogue()
        total = len(catalogue.sources)
        available = bounded([catalogue.public_id(source) for source in catalogue.sources[:MAX_AVAILABLE]])
        hint = (
            f"{len(available)} of {total} ids are shown; a list with a query finds others."
            if len(available) < total
            else ""
        )
        return {
            **NO_DOCUMENT,
            **error_keys(error),
            "suggestions": [*bounded(suggestions[:MAX_AVAILABLE])],
            "available_ids": [*available],
            "available_total": total,
            "hint": hint if total else self._why_empty(),
        }

    def _why_empty(self) -> str:
        """What the backend says of why it has no documents; empty where it has some, or says nothing."""
        health = self.service.provider.health_check()
        return "" if health.index.documents else shorten(str(health.details.get("unreadable", "")), MAX_HINT_CHARS)


def _as_documents_write(asked: Mapping[str, JsonValue], used: Mapping[str, JsonValue]) -> str:
    """Which values stood in for those that were asked for."""
    said = [
        f"{shorten(key, 40)} {', '.join(shorten(value, 60) for value in texts_of(used[key])[:5])}"
        for key in asked
        if used[key] != asked[key]
    ]
    return f"Taken as the documents write it: {'; '.join(said)}."


def _both(given: dict[str, JsonValue], conditions: dict[str, JsonValue]) -> dict[str, JsonValue] | None:
    if given and conditions:
        return {"and": [given, conditions]}
    return given or conditions or None


def _few(warnings: Sequence[str]) -> list[JsonValue]:
    more = len(warnings) - MAX_WARNINGS
    return [*warnings[:MAX_WARNINGS], *([f"There are {more} more warnings."] if more > 0 else [])]


def _query_hint(result: QueryResult) -> str:
    if result.mode_used == "none":
        return "The index is still being built: ask again in a moment."
    if not result.hits:
        return "No passage matches. Try other words, fewer conditions, or list what there is."
    if result.next_cursor is not None:
        return "Pass `next_cursor` as `cursor` for more. Read on in a document by its source_id."
    return "Read on in a document by its source_id."
