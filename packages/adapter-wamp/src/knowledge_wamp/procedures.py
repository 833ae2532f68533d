"""What `serve wamp` registers for the `wamp` backend, over a service: typed values, byte ranges, coded errors.

Arguments come by name. Values are packed (see `wire.pack`), bytes are Base64. A page or a list of hits that would be
longer than a message may be is cut, with the cursor to go on from there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError

from knowledge_engine.errors import (
    InvalidArgumentError,
    InvalidFilterError,
    ProviderError,
    TooLargeError,
    UnavailableError,
)
from knowledge_engine.lanes import Lane, run_in_lane
from knowledge_engine.models import MAX_PAGE, MAX_TOP_K, ByteSpan, IngestRequest, Query, SourceContent
from knowledge_engine.service import KnowledgeService
from knowledge_wamp import topics
from knowledge_wamp.answers import Answer
from knowledge_wamp.errors import raised
from knowledge_wamp.handlers import Handler, by_name
from knowledge_wamp.wire import json_bytes, pack, unpack

#: Of a message, the share that Base64 and what is around it leave for bytes.
_BYTES_SHARE = 0.7
#: How often a document is read again because it changed meanwhile.
_ATTEMPTS = 3

Model = TypeVar("Model", bound=BaseModel)
Procedure = Callable[[Mapping[str, Any]], Answer]


class Procedures:
    """The procedures over one service.

    Args:
        writable: Whether callers may store and delete, where the backend can.
        max_bytes: Of one answer, as JSON.
    """

    def __init__(self, service: KnowledgeService, *, writable: bool, max_bytes: int) -> None:
        self._service = service
        self._max_bytes = max_bytes
        self.writable = writable and service.provider.capabilities.writable

    def by_topic(self) -> dict[str, Procedure]:
        """All of them; those that write only where that is allowed."""
        found: dict[str, Procedure] = {
            topics.QUERY: self.query,
            topics.SOURCES: self.sources,
            topics.READ: self.read,
            topics.STATUS: self.status,
        }
        if self.writable:
            found |= {topics.INGEST: self.ingest, topics.DELETE: self.delete}
        return found

    def query(self, given: Mapping[str, Any]) -> Answer:
        """`query` with the fields of `Query`; answers a `QueryResult`."""
        asked = _model(Query, given)
        if not asked.query.strip():  # the service refuses it, where the contract of backends has an answer
            return _dumped(self._service.provider.query(asked))
        top_k = min(asked.top_k, MAX_TOP_K)
        while True:
            answer = _dumped(self._service.query(asked.model_copy(update={"top_k": top_k})))
            if self._fits(answer):
                return answer
            if top_k == 1:
                raise self._too_large("One hit")
            top_k = max(1, min(top_k, len(cast(list[Any], answer["hits"]))) // 2)

    def sources(self, given: Mapping[str, Any]) -> Answer:
        """With `source_id` that one (`source`), else a `SourcePage` by `filter`, `limit` and `cursor`."""
        if (source_id := given.get("source_id")) is not None:
            answer: Answer = {"source": _dumped(self._service.source(_text("source_id", source_id)))}
            if not self._fits(answer):
                raise self._too_large("The document's metadata")
            return answer
        limit = given.get("limit", 100)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidArgumentError(f"limit is {str(limit)[:40]!r}", mend=f"Use a whole number up to {MAX_PAGE}.")
        while True:
            found = self._service.list(
                filter=_filter(given.get("filter")), limit=limit, cursor=_optional("cursor", given.get("cursor"))
            )
            answer = {
                "sources": [_dumped(source) for source in found.sources],
                "total": found.total,
                "warnings": [*found.warnings],
                "next_cursor": found.next_cursor,
            }
            if self._fits(answer):
                return answer
            if len(found.sources) < 2:
                raise self._too_large("The document's metadata")
            limit = len(found.sources) // 2

    def read(self, given: Mapping[str, Any]) -> Answer:
        """`source_id`, and `start` and `end` in bytes; answers `content` in Base64, cut where it does not fit."""
        source_id = _text("source_id", given.get("source_id"))
        start, end = _offset("start", given.get("start", 0)), given.get("end")
        most = int(self._max_bytes * _BYTES_SHARE)
        last = start + most if end is None else min(_offset("end", end), start + most)
        content, source_hash = self._of_one_version(source_id, ByteSpan(start=start, end=max(start, last)))
        return {
            "source_id": content.source_id,
            "content": base64.b64encode(content.content).decode(),
            "start": content.span.start,
            "end": content.span.end,
            "total_bytes": content.total_bytes,
            "content_hash": content.content_hash,
            "source_hash": source_hash,
        }

    def _of_one_version(self, source_id: str, span: ByteSpan) -> tuple[SourceContent, str | None]:
        """Bytes, and the hash of the document that they are from: callers put documents together of such parts."""
        for _ in range(_ATTEMPTS):
            source_hash = self._service.source(source_id).content_hash
            content = self._service.provider.read_source(source_id, span)
            if (content.span.start, content.span.end) == (0, content.total_bytes):
                return content, content.content_hash
            if self._service.source(source_id).content_hash == source_hash:
                return content, source_hash
        raise UnavailableError(f"The source {source_id!r} changes all the while", mend="Try again later.")

    def status(self, given: Mapping[str, Any]) -> Answer:
        """How the backend is. With `brief` without its issues, which may be many."""
        provider = self._service.provider
        health = provider.health_check()
        if health.index.revision:  # else it is not indexed yet, and asking how it is must not begin that
            self._service.status()
            health = provider.health_check()
        answer = _dumped(health)
        answer["backend"] = provider.id
        answer["capabilities"] = _dumped(provider.capabilities.model_copy(update={"writable": self.writable}))
        lists = {key: cast(list[JsonValue], answer[key]) for key in ("issues", "skipped")}
        answer |= {f"{key}_total": len(items) for key, items in lists.items()}
        if given.get("brief") is True:
            lists = {key: [] for key in lists}
            answer |= lists
        while not self._fits(answer):
            if not any(lists.values()):
                answer["details"] = {}
                break
            lists = {key: items[: len(items) // 2] for key, items in lists.items()}
            answer |= lists
        return answer

    def ingest(self, given: Mapping[str, Any]) -> Answer:
        """The fields of `IngestRequest`, `content` in Base64; answers the `Source`."""
        fields = dict(given)
        if (content := fields.get("content")) is not None:
            fields["content"] = _decoded(content)
        return {"source": _dumped(self._service.ingest(_model(IngestRequest, fields)))}

    def delete(self, given: Mapping[str, Any]) -> Answer:
        """`source_id`, exactly, and `if_match`; answers `deleted`."""
        source = self._service.source(_text("source_id", given.get("source_id")))
        if_match = _optional("if_match", given.get("if_match"))
        return {"deleted": self._service.delete(source.id, if_match=if_match)}

    def _fits(self, answer: Answer) -> bool:
        return json_bytes(answer) <= self._max_bytes

    def _too_large(self, what: str) -> TooLargeError:
        return TooLargeError(
            f"{what} has more than {self._max_bytes} bytes", mend="Serve with a greater KNOWLEDGE_WAMP_MAX_PAYLOAD."
        )


def procedure_handler(
    procedure: Procedure, lane: Lane, timeout_s: float, done: Callable[[], None] | None = None
) -> Handler:
    """A handler for one procedure; a failure reaches its caller as a coded ApplicationError.

    Args:
        done: Called after each call, before its caller learns of the outcome.
    """

    async def handler(*args: object, **kwargs: object) -> Answer:
        try:
            return await run_in_lane(lane, partial(_run, procedure, args, kwargs), timeout_s)
        except Exception as error:
            raise raised(error) from None
        finally:
            if done is not None:
                done()

    return handler


def _run(procedure: Procedure, args: tuple[object, ...], kwargs: dict[str, object]) -> Answer:
    args, kwargs = by_name(args, kwargs)
    if args:
        raise InvalidArgumentError("An argument has no name", mend="Give all arguments by name.")
    try:
        given = cast(Mapping[str, Any], unpack(kwargs))
    except ProviderError as error:
        raise InvalidArgumentError("The arguments are no JSON, or nested too deeply", mend="Send JSON.") from error
    return cast(Answer, pack(procedure(given)))


def _model(kind: type[Model], given: Mapping[str, Any]) -> Model:
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the arguments"
        raise InvalidArgumentError(
            f"{place[:100]}: {first['msg'][:300]}", mend=f"See the fields of {kind.__name__}."
        ) from None


def _dumped(value: BaseModel) -> Answer:
    return value.model_dump(mode="json")


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} is missing, or not text", mend=f"Give {name} as text.")
    return value


def _optional(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value)


def _offset(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgumentError(f"{name} is no byte offset", mend=f"Give {name} as a whole number from 0 on.")
    return value


def _filter(value: object) -> dict[str, JsonValue] | None:
    if value is not None and not isinstance(value, dict):
        raise InvalidFilterError("filter is no object", mend='Give it as an object such as {"kind": "device"}.')
    return value


def _decoded(content: object) -> bytes:
    try:
        return base64.b64decode(_text("content", content), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgumentError("content is not Base64", mend="Encode the document's bytes in Base64.") from None
