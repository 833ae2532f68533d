"""Storing and deleting documents, where the caller may and the backend can."""

from __future__ import annotations

import base64
from contextlib import suppress

from pydantic import BaseModel, ConfigDict, JsonValue

from knowledge_engine.errors import ConflictError, InvalidArgumentError, NotFoundError, NotSupportedError
from knowledge_engine.models import IngestRequest, Source
from knowledge_engine.ports import RefreshableProvider, SupersedingProvider
from knowledge_http.errors import UnsupportedMediaTypeError
from knowledge_http.server.backends import Place
from knowledge_http.server.calls import Call
from knowledge_http.server.content import Tags, parse_tags
from knowledge_http.server.reading import outer_source
from knowledge_http.server.rendering import Answer, json_answer


class IngestBody(BaseModel):
    """A document, or new metadata for one; `content` is Base64."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    kind: str = "text"
    id: str | None = None
    title: str | None = None
    content: str | None = None
    text: str | None = None
    uri: str | None = None
    metadata: dict[str, JsonValue] = {}


class SupersedeBody(BaseModel):
    """Which document stands for another one from now on."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    source_id: str
    by: str


async def put_source(call: Call) -> Answer:
    """`PUT /v1/sources/{id}`: the body is the document."""
    view = call.view
    place = view.check(call.grant, "write", view.place(call.source_id, new=True))
    if (call.header(b"content-type") or "").lower().startswith("multipart/"):
        raise UnsupportedMediaTypeError("The body is a form", mend="Send the document's bytes as they are.")
    match = _condition(call)
    content = await call.body()

    def work() -> Answer:
        existing = _existing(place)
        request = IngestRequest(id=place.source_id, content=content, if_match=_expected(match, existing))
        return _stored(place.room.service.ingest(request), place, created=existing is None)

    return await place.room.run(work)


async def ingest(call: Call) -> Answer:
    """`POST /v1/sources`."""
    body = await call.model(IngestBody)
    view = call.view
    place = view.check(call.grant, "write", _where(call, body))
    match = _condition(call)
    given = body.model_dump(exclude={"content"})
    try:
        request = IngestRequest(
            **{**given, "content": _decoded(body.content), "id": None if body.id is None else place.source_id}
        )
    except ValueError:
        raise InvalidArgumentError("Both content and text are given", mend="Give one of them.") from None

    def work() -> Answer:
        existing = None if body.id is None else _existing(place)
        asked = request.model_copy(update={"if_match": _expected(match, existing)})
        return _stored(place.room.service.ingest(asked), place, created=existing is None)

    return await place.room.run(work)


def _decoded(content: str | None) -> bytes | None:
    try:
        return None if content is None else base64.b64decode(content, validate=True)
    except ValueError:
        raise InvalidArgumentError("content is not Base64", mend="Encode the document's bytes in Base64.") from None


def _where(call: Call, body: IngestBody) -> Place:
    """Where a document goes; one without an id to the one backend that the caller may write."""
    view = call.view
    if body.id is not None:
        return view.place(body.id, new=True)
    rooms = [room for name, room in view.rooms.items() if call.grant.allows("write", name)]
    if len(rooms) != 1:
        raise InvalidArgumentError(
            "A document without an id could go to any backend", mend="Give an id BACKEND:ID, or ?backend=NAME."
        )
    return Place(rooms[0], "", f"{rooms[0].name}:" if view.is_joint else "")


async def delete_source(call: Call) -> Answer:
    """`DELETE /v1/sources/{id}`."""
    view = call.view
    place = view.check(call.grant, "write", view.place(call.source_id))
    match = _condition(call)

    def work() -> Answer:
        service = place.room.service
        source = service.source(place.source_id)
        service.delete(source.id, if_match=_expected(match, source))
        return Answer(204)

    return await place.room.run(work)


async def supersede(call: Call) -> Answer:
    """`POST /v1/supersede`."""
    body = await call.model(SupersedeBody)
    view = call.view
    old = view.check(call.grant, "write", view.place(body.source_id))
    new = view.place(body.by)

    def work() -> Answer:
        provider = old.room.service.provider
        if not isinstance(provider, SupersedingProvider):
            raise NotSupportedError("The backend cannot mark documents as replaced", mend="Delete it instead.")
        if new.room is not old.room:
            raise NotSupportedError("A document cannot stand for one of another backend", mend="Store it there first.")
        provider.supersede(old.source_id, new.source_id)
        return Answer(204)

    return await old.room.run(work)


async def refresh(call: Call) -> Answer:
    """`POST /v1/refresh`: looks for what changed, now."""
    body = await call.model(RefreshBody)
    provider = call.view.room.service.provider

    def work() -> Answer:
        changed = False
        if isinstance(provider, RefreshableProvider):
            if body.forget:
                provider.invalidate()
            else:
                changed = provider.refresh(body.paths)
        return json_answer({"changed": changed})

    return await call.view.room.run(work)


class RefreshBody(BaseModel):
    """What to look at."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    #: Only what lies there; None: everything.
    paths: list[str] | None = None
    #: Forgets what is indexed instead; the next question builds it anew.
    forget: bool = False


def _existing(place: Place) -> Source | None:
    with suppress(NotFoundError):
        return place.room.service.source(place.source_id)
    return None


def _stored(source: Source, place: Place, *, created: bool) -> Answer:
    tag = source.content_hash
    headers = [(b"etag", f'"{tag}"'.encode())] if tag else None
    return json_answer(outer_source(source, place.prefix), status=201 if created else 200, headers=headers)


#: What `If-Match` asks for; "absent" for `If-None-Match: *`.
_Condition = Tags | str | None


def _condition(call: Call) -> _Condition:
    match, none = call.header(b"if-match"), call.header(b"if-none-match")
    if match is not None and none is not None:
        raise InvalidArgumentError("Both If-Match and If-None-Match are given", mend="Give one of them.")
    header = none if match is None else match
    if header is None:
        return None
    tags = parse_tags(header)
    if tags is None or (none is not None and not tags.any):
        raise InvalidArgumentError(
            "If-Match or If-None-Match is malformed", mend='Write If-Match: "HASH", or If-None-Match: *.'
        )
    return "absent" if none is not None else tags


def _expected(condition: _Condition, existing: Source | None) -> str | None:
    """The hash that the stored document must have.

    Raises:
        ConflictError: When the condition cannot hold.
    """
    if condition is None:
        return None
    if not isinstance(condition, Tags):
        return ""
    current = existing.content_hash if existing is not None else None
    if current is not None and (condition.any or current in condition.strong):
        return current
    if len(condition.strong) == 1 and not condition.weak:
        return condition.strong[0]  # the backend says how it is
    raise ConflictError("The document is not one of the versions that If-Match names", mend="Read it again first.")
