"""One request: who asks, for what, with which body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from knowledge_engine.errors import BusyError, InvalidArgumentError, InvalidIdError, TooLargeError
from knowledge_http.errors import BodyTimeoutError, UnsupportedMediaTypeError
from knowledge_http.grants import Grant
from knowledge_http.server.backends import View
from knowledge_http.server.operations import Operation, decoded
from knowledge_http.server.rendering import takes_gzip

if TYPE_CHECKING:
    from knowledge_http.server.api import Api

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Model = TypeVar("Model", bound=BaseModel)

#: In a request's scope: what its caller may do.
GRANT = "knowledge.grant"
#: Bytes a second that a long body must come with.
_SLOWEST = 10_000
_DISCARD_S = 1.0
_JSON_TYPES = ("application/json", "text/json")


class BodyBudget:
    """Bytes of bodies that are being received, all together: slow senders must not fill the memory."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, count: int) -> None:
        """Takes so many.

        Raises:
            BusyError: When they are not left.
        """
        if count > self._left:
            raise BusyError("Too much is being sent by too many at once", mend="Try again later.")
        self._left -= count

    def give(self, count: int) -> None:
        """Gives them back."""
        self._left += count


class ClientGoneError(Exception):
    """The caller closed the connection before all was received."""


class Call:
    """A request to one operation.

    Args:
        raw_id: Of the document, as it stands in the URL.
    """

    def __init__(self, api: Api, operation: Operation, scope: Scope, receive: Receive, raw_id: bytes | None) -> None:
        self.api = api
        self.scope = scope
        self._receive = receive
        self._raw_id = raw_id
        self._held = 0
        self._body: bytes | None = None
        self.arguments = operation.arguments(scope.get("query_string", b""))

    @cached_property
    def headers(self) -> dict[bytes, bytes]:
        """By name in lower case; of several of one name, all with commas in between."""
        found: dict[bytes, bytes] = {}
        for name, value in self.scope["headers"]:
            found[name] = found[name] + b"," + value if name in found else value
        return found

    def header(self, name: bytes) -> str | None:
        """A header's value."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def grant(self) -> Grant:
        """What the caller may do."""
        found = self.scope[GRANT]
        assert isinstance(found, Grant), "the gate puts it there"
        return found

    @cached_property
    def view(self) -> View:
        """What the caller sees, of all backends or of the one that `?backend=` names."""
        return self.api.served.view(self.grant, self.arguments.get("backend"))

    @property
    def source_id(self) -> str:
        """The document's id.

        Raises:
            InvalidIdError: When it is no text.
        """
        assert self._raw_id is not None, "only operations on a document have an id"
        try:
            return decoded(self._raw_id, plus=False)
        except InvalidArgumentError:
            raise InvalidIdError("The id is no UTF-8", mend="Percent-encode the id as UTF-8.") from None

    @property
    def gzip(self) -> bool:
        """Whether the answer may be compressed."""
        return takes_gzip(self.header(b"accept-encoding") or "")

    async def body(self) -> bytes:
        """All of the body.

        Raises:
            TooLargeError, BodyTimeoutError, UnsupportedMediaTypeError: For what their names say.
        """
        if self._body is None:
            self._body = await self._taken()
        return self._body

    async def _taken(self) -> bytes:
        if (encoding := self.header(b"content-encoding")) not in (None, "", "identity"):
            raise UnsupportedMediaTypeError(
                f"The body is encoded as {encoding[:40]!r}" if encoding else "", mend="Send it as it is."
            )
        most = self.api.settings.max_body
        declared = self.header(b"content-length") or ""
        if declared.isdecimal() and len(declared) < 20 and int(declared) > most:
            await self._discard(most)
            raise _too_large(most)
        patience = self.api.settings.timeout_s
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(patience) as limit:
                held = bytearray()
                async for part in self._parts():
                    self.api.budget.take(len(part))
                    self._held += len(part)
                    held += part
                    if len(held) > most:
                        raise _too_large(most)
                    limit.reschedule(began + patience + len(held) / _SLOWEST)
                return bytes(held)
        except TimeoutError:
            raise BodyTimeoutError("The body did not come in time", mend="Send it faster, or less at once.") from None

    async def _parts(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            more = message.get("more_body", False)
            yield message.get("body", b"")

    async def _discard(self, most: int) -> None:
        """Takes some of what is too long, so that its sender comes to read the answer."""
        if self.header(b"expect") is not None:
            return  # it waits for the answer before it sends
        seen = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_S):
                async for part in self._parts():
                    seen += len(part)
                    if seen > most:
                        return

    def close(self) -> None:
        """Lets go of what was received."""
        self.api.budget.give(self._held)
        self._held = 0

    async def json_body(self) -> bytes:
        """The body of a request that sends JSON.

        Raises:
            UnsupportedMediaTypeError: When it says that it is something else.
        """
        given = self.header(b"content-type")
        if given is not None:
            media, _, parameters = given.partition(";")
            charset = parameters.strip().lower().removeprefix("charset=").strip('"')
            is_json = media.strip().lower() in _JSON_TYPES or media.strip().lower().endswith("+json")
            if not is_json or (parameters.strip().lower().startswith("charset=") and charset not in ("utf-8", "utf8")):
                raise UnsupportedMediaTypeError(
                    f"The body is {given[:80]!r}", mend="Send JSON in UTF-8, as 'Content-Type: application/json'."
                )
        return await self.body()

    async def model(self, kind: type[Model]) -> Model:
        """The body as that model.

        Raises:
            InvalidArgumentError: When it is none.
        """
        return parsed(kind, await self.json_body())


def parsed(kind: type[Model], data: bytes) -> Model:
    """JSON as that model.

    Raises:
        InvalidArgumentError: When it is none.
    """
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        if any(one["type"] == "int_type" for one in error.errors(include_input=False, include_url=False)):
            with suppress(ValueError, RecursionError):
                return kind.model_validate_json(json.dumps(json.loads(data, parse_float=_whole)))
        raise invalid(error, kind) from None


def _whole(text: str) -> int | float:
    """For JSON Schema 3.0 is an integer as 3 is."""
    value = float(text)
    return int(value) if value.is_integer() else value


def invalid(error: ValidationError, kind: type[BaseModel]) -> InvalidArgumentError:
    """What is wrong, without what was given."""
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or "the body"
    return InvalidArgumentError(f"{place[:100]}: {first['msg'][:300]}", mend=f"See the fields of {kind.__name__}.")


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"The body is longer than {most} bytes", mend="Send less at once.")
