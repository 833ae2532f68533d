"""Answers as bytes: JSON written once, compressed only for those who ask for it, errors in their one form."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from knowledge_engine.agent_tools import plain
from knowledge_engine.errors import wire_error
from knowledge_http.errors import RETRY_AFTER_S, HttpError, status_of

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
#: Shorter answers gain nothing from being compressed.
_WORTH_BYTES = 1_024
_GZIP = 16 + zlib.MAX_WBITS
_REFUSED = re.compile(r";\s*q=0(\.0{0,3})?\s*$")
_NOT_IN_A_HEADER = re.compile(r"[^\x20-\x7e]")


class Answer(NamedTuple):
    """What goes back to the caller."""

    status: int
    body: bytes = b""
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    #: The next who asks the same may get it too, as long as no document changes.
    keep: bool = True


def json_bytes(value: BaseModel | Mapping[str, Any]) -> bytes:
    """`value` as JSON in UTF-8. Half surrogate pairs, which a backend should not give, are replaced."""
    try:
        if isinstance(value, BaseModel):
            return value.__pydantic_serializer__.to_json(value)
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        given = value.model_dump() if isinstance(value, BaseModel) else value
        return json.dumps(plain(given), ensure_ascii=False, separators=(",", ":")).encode()


def json_answer(
    value: BaseModel | Mapping[str, Any],
    *,
    status: int = 200,
    gzip: bool = False,
    headers: Headers | None = None,
    keep: bool = True,
) -> Answer:
    """An answer of JSON, compressed if the caller takes that and it is worth it."""
    return compressed(Answer(status, json_bytes(value), headers=tuple(headers or ()), keep=keep), gzip)


def compressed(answer: Answer, gzip: bool) -> Answer:
    """The answer for a caller who takes gzip, or not."""
    vary = (*answer.headers, (b"vary", b"accept-encoding"))
    if not gzip or len(answer.body) < _WORTH_BYTES:
        return answer._replace(headers=vary)
    packer = zlib.compressobj(5, zlib.DEFLATED, _GZIP)
    body = packer.compress(answer.body) + packer.flush()
    return answer._replace(body=body, headers=(*vary, (b"content-encoding", b"gzip")))


def takes_gzip(accept_encoding: str) -> bool:
    """Whether that header asks for gzip."""
    for item in accept_encoding.lower().split(","):
        name = item.split(";", 1)[0].strip()
        if name in ("gzip", "x-gzip"):
            return not _REFUSED.search(item)
    return False


def error_answer(error: BaseException) -> Answer:
    """An error in its wire form, under its status. Whatever was not foreseen shows nothing of itself."""
    wire = wire_error(error)
    status = status_of(wire["code"])
    headers: Headers = []
    if isinstance(error, HttpError):
        headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
    if status in (408, 413):  # what is left of the body is not read
        headers.append((b"connection", b"close"))
    if status == 503:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    return Answer(status, json_bytes({"error": plain(wire)}), headers=tuple(headers))


def not_modified(etag: str) -> Answer:
    """What the caller has is what there is."""
    return Answer(304, headers=((b"etag", etag.encode()),))


def header_text(text: str) -> bytes:
    """Text as a header may hold it: what is not printable ASCII is percent-encoded, and so is `%`."""
    shown = text.replace("%", "%25")
    return _NOT_IN_A_HEADER.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace")), shown
    ).encode()


async def send_answer(answer: Answer, send: Send, *, head: bool = False) -> None:
    """Sends it; for HEAD all but the body."""
    headers = [*answer.headers]
    if answer.status not in (204, 304):
        headers += [(b"content-type", answer.media_type), (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.body})
