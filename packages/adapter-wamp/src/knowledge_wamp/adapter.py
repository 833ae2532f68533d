"""The `wamp` backend: an `IKnowledgeProvider` over one that `knowledge serve wamp` serves elsewhere."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError

from knowledge_engine.errors import (
    InvalidArgumentError,
    InvalidIdError,
    KnowledgeError,
    ProviderError,
    ReadOnlyError,
    UnavailableError,
)
from knowledge_engine.filters import compile_filter
from knowledge_engine.models import (
    MAX_PAGE,
    ByteSpan,
    Capabilities,
    Health,
    IngestRequest,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_wamp import topics
from knowledge_wamp.loop_thread import LoopThread
from knowledge_wamp.settings import WampSettings
from knowledge_wamp.wire import pack, unpack

if TYPE_CHECKING:
    from knowledge_wamp.session import Session

Model = TypeVar("Model", bound=BaseModel)

#: How often a document is read again because it changed between two parts of it.
_ATTEMPTS = 3


class WampKnowledgeAdapter:
    """A backend elsewhere, called over a router. Connects when it is first asked, and again when that was lost.

    A call that was not answered because the connection broke is made again once, if it only reads. It keeps one
    session, in a thread of its own; any thread may call.
    """

    def __init__(self, settings: WampSettings, *, id: str = "wamp") -> None:
        self._settings = settings
        self._id = id
        self._thread = LoopThread(f"knowledge-{id}")
        self._session: Session | None = None
        self._opening: asyncio.Task[Session] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._capabilities: Capabilities | None = None

    @property
    def id(self) -> str:
        """The backend's name."""
        return self._id

    @property
    def capabilities(self) -> Capabilities:
        """Those of the other side; as long as it cannot be reached, no more than any backend has."""
        if self._capabilities is None:
            try:
                self._status()
            except KnowledgeError:
                return Capabilities()
        return self._capabilities or Capabilities()

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """See `IKnowledgeProvider.list_sources`."""
        compile_filter(filter)
        if type(limit) is not int or limit < 1:
            raise InvalidArgumentError(f"limit is {limit!r}", mend=f"Use a whole number from 1 to {MAX_PAGE}.")
        wanted = min(limit, MAX_PAGE)
        page = self._page(filter, wanted, cursor)
        # The other side cuts what would be too long for a message.
        while (left := wanted - len(page.sources)) > 0 and page.next_cursor is not None:
            more = self._page(filter, left, page.next_cursor)
            if not more.sources and more.next_cursor is not None:
                raise _wrong("a list of sources that does not end")
            page = more.model_copy(update={"sources": page.sources + more.sources, "warnings": page.warnings})
        return page

    def get_source(self, source_id: str) -> Source:
        """See `IKnowledgeProvider.get_source`."""
        return _model(Source, self._read(topics.SOURCES, {"source_id": _checked(source_id)}).get("source"))

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """See `IKnowledgeProvider.read_source`. Long documents come in parts; all are of one version."""
        _checked(source_id)
        for _ in range(_ATTEMPTS):
            if (content := self._read_parts(source_id, span)) is not None:
                return content
        raise UnavailableError(f"The source {source_id!r} changes all the while", mend="Try again later.")

    def query(self, query: Query) -> QueryResult:
        """See `IKnowledgeProvider.query`."""
        compile_filter(query.filter)
        result = self._query(query)
        hits, took = [*result.hits], result.took_ms
        while result.next_cursor is not None and result.hits and len(hits) < query.top_k:
            chars = None if query.max_chars is None else query.max_chars - sum(len(hit.text) for hit in hits)
            if result.truncated or (chars is not None and chars < 1):
                break
            left = {"top_k": query.top_k - len(hits), "cursor": result.next_cursor, "max_chars": chars}
            result = self._query(query.model_copy(update=left))
            hits += result.hits
            took += result.took_ms
        return result.model_copy(update={"hits": tuple(hits), "took_ms": took})

    def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`. `down` where the router or the other side cannot be reached."""
        try:
            status = self._status()
            return _model(Health, {key: status[key] for key in Health.model_fields if key in status})
        except KnowledgeError as error:
            return Health(status="down", message=str(error))

    def dispose(self) -> None:
        """See `IKnowledgeProvider.dispose`."""
        self._thread.close(self._closed)

    # IngestingProvider

    def ingest(self, request: IngestRequest) -> Source:
        """See `IngestingProvider.ingest`. Where the connection is lost meanwhile, it may have been stored or not."""
        self._check_writable()
        if request.id is not None:
            _checked(request.id)
        given = request.model_dump(mode="json", exclude_none=True, exclude={"content"})
        _check_text(given)
        if request.content is not None:
            given["content"] = base64.b64encode(request.content).decode()
        return _model(Source, self._call(topics.INGEST, given).get("source"))

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        """See `IngestingProvider.delete_source`."""
        self._check_writable()
        given = {"source_id": _checked(source_id)}
        self._call(topics.DELETE, given if if_match is None else {**given, "if_match": if_match})

    # Inside

    def _status(self) -> dict[str, JsonValue]:
        status = self._read(topics.STATUS, {})
        self._capabilities = _model(Capabilities, status.get("capabilities"))
        return status

    def _check_writable(self) -> None:
        if not self.capabilities.writable:
            self._status()  # raises what is the matter, where it cannot be reached
        if not self.capabilities.writable:
            raise ReadOnlyError("The backend is served to be read only", mend="Serve it with --writable.")

    def _page(self, filter: Mapping[str, JsonValue] | None, limit: int, cursor: str | None) -> SourcePage:
        given: dict[str, JsonValue] = {"limit": limit, "cursor": cursor, "filter": dict(filter) if filter else None}
        asked = {key: value for key, value in given.items() if value is not None}
        page = _model(SourcePage, self._read(topics.SOURCES, asked))
        if len(page.sources) > limit:
            raise _wrong("more sources than it was asked for")
        return page

    def _query(self, query: Query) -> QueryResult:
        given = query.model_dump(mode="json", exclude_none=True)
        result = _model(QueryResult, self._read(topics.QUERY, {**given, "full": True}))
        if len(result.hits) > query.top_k:
            raise _wrong("more hits than it was asked for")
        return result

    def _read_parts(self, source_id: str, span: ByteSpan | None) -> SourceContent | None:
        """The whole of it, put together; None if it changed between two parts."""
        part = self._part(source_id, 0 if span is None else span.start, None if span is None else span.end)
        total, version = part["total_bytes"], part["source_hash"]
        start, end = part["start"], total if span is None else min(total, span.end)
        content = [part["content"]]
        at = part["end"]
        while at < end:
            part = self._part(source_id, at, end)
            if (part["total_bytes"], part["source_hash"]) != (total, version):
                return None
            if part["end"] <= at:
                raise _wrong("no more bytes, where it has some")
            content.append(part["content"])
            at = part["end"]
        data = b"".join(content)
        return SourceContent(
            source_id=source_id,
            content=data,
            span=ByteSpan(start=start, end=start + len(data)),
            total_bytes=total,
            content_hash=sha256(data).hexdigest(),
        )

    def _part(self, source_id: str, start: int, end: int | None) -> dict[str, Any]:
        given: dict[str, JsonValue] = {"source_id": source_id, "start": start}
        answer: dict[str, Any] = dict(self._read(topics.READ, given if end is None else {**given, "end": end}))
        try:
            content = base64.b64decode(answer["content"], validate=True)
            sound = sha256(content).hexdigest() == answer["content_hash"]
            sound = sound and _in_place(answer, start, end, len(content))
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise _wrong("bytes that are not those it says")
        return {**answer, "content": content, "source_hash": answer.get("source_hash")}

    def _read(self, topic: str, given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """A call that may be made again."""
        session = self._session
        try:
            return self._call(topic, given)
        except UnavailableError:
            if session is None or session is not self._session or not session.lost.done():
                raise
            return self._call(topic, given)

    def _call(self, topic: str, given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        arguments = cast(dict[str, JsonValue], pack(dict(given)))

        async def ask() -> object:
            session = await self._joined()
            return await session.ask(self._settings.procedure(topic), arguments, self._settings.timeout_s)

        answer = unpack(self._run(ask))
        if not isinstance(answer, dict):
            raise _wrong("no object")
        return answer

    def _run(self, call: Callable[[], Coroutine[Any, Any, object]]) -> object:
        return self._thread.run(call)

    async def _joined(self) -> Session:
        if self._session is None or self._session.lost.done():
            if self._opening is None:
                self._opening = asyncio.create_task(self._open())
            # One attempt for all who wait; who gives up does not end it for the others.
            return await asyncio.shield(self._opening)
        return self._session

    async def _open(self) -> Session:
        from knowledge_wamp.session import open_session, watch

        try:
            self._session = session = await open_session(self._settings)
        finally:
            self._opening = None
        # Else a router that hangs would be asked again and again, each time for as long as a call may take.
        self._watching = asyncio.create_task(watch(session))
        return session

    async def _closed(self) -> None:
        if self._session is not None:
            await self._session.close()


def create_standalone_wamp_adapter(environ: Mapping[str, str] = os.environ) -> WampKnowledgeAdapter:
    """An adapter from `KNOWLEDGE_WAMP_*` alone.

    Raises:
        ConfigurationError: Naming the variable that is wrong.
    """
    return WampKnowledgeAdapter(WampSettings.from_env(environ))


def _checked(source_id: str) -> str:
    try:
        source_id.encode()
    except (AttributeError, UnicodeEncodeError):
        raise InvalidIdError(
            "An id is text that UTF-8 can hold", mend="List the sources to see what there is."
        ) from None
    return source_id


def _check_text(given: object) -> None:
    """What would not get there as it is, is refused."""
    try:
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise InvalidArgumentError(
            "The document holds half a surrogate pair, a NaN, an infinity or a number of thousands of digits",
            mend="Write them otherwise.",
        ) from None


def _in_place(part: Mapping[str, Any], start: int, end: int | None, size: int) -> bool:
    """Whether a part lies where it was asked for."""
    numbers = [part[key] for key in ("start", "end", "total_bytes")]
    if any(type(number) is not int for number in numbers):
        return False
    first, last, total = numbers
    until = total if end is None else min(end, total)
    return bool(total >= 0 and first == min(start, total) and last - first == size and last <= until)


def _wrong(what: str) -> ProviderError:
    return ProviderError(f"The other side sent {what}", mend="Ask whoever runs it.")


def _model(kind: type[Model], value: object) -> Model:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise ProviderError(
            f"The other side sent what is no {kind.__name__}", mend="Check that both have the same version."
        ) from error
