"""Questions: for programs, and as tools for agents; and whether what was cited is still there."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, NonNegativeInt

from knowledge_engine.agent_tools import tool_specs
from knowledge_engine.citations import Citation
from knowledge_engine.errors import InvalidArgumentError, InvalidIdError, NotFoundError
from knowledge_engine.models import ByteSpan, Query, Sha256, Value, Verification
from knowledge_http.errors import PathNotFoundError
from knowledge_http.server.backends import View, check_scope
from knowledge_http.server.calls import Call, parsed
from knowledge_http.server.reading import given_filter
from knowledge_http.server.rendering import Answer, json_answer

TOOLS = ("list", "get", "query")
MAX_CITATIONS = 1_000
_SHARE_OF_TIMEOUT = 0.7


class CitedSpan(BaseModel):
    """Bytes from `start` up to `end`."""

    model_config = ConfigDict(frozen=True, strict=True)

    start: NonNegativeInt
    end: NonNegativeInt


class Cited(BaseModel):
    """A citation; a hit may be sent as it came."""

    model_config = ConfigDict(frozen=True, strict=True)

    source_id: str
    span: CitedSpan
    content_hash: Sha256


class VerifyRequest(BaseModel):
    """Citations to look after."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    citations: list[Cited] = Field(max_length=MAX_CITATIONS)


class Verifications(Value):
    """What became of them, in the order in which they were given."""

    verifications: tuple[Verification, ...] = ()


async def query_by_body(call: Call) -> Answer:
    """`POST /v1/query`."""
    return await _asked(call, await call.model(Query))


async def query_by_url(call: Call) -> Answer:
    """`GET /v1/query`."""
    given = dict(call.arguments)
    given["query"] = given.pop("q")
    given["filter"] = given_filter(given)
    fields = {name: value for name, value in given.items() if name in Query.model_fields}
    return await _asked(call, parsed(Query, json.dumps(fields).encode()))


async def _asked(call: Call, query: Query) -> Answer:
    service, gzip = call.view.room.service, call.gzip
    # The service refuses what the contract of backends has an answer for.
    is_blank = call.arguments.get("blank", False) and not query.query.strip()
    ask = service.provider.query if is_blank else service.query
    # An index that is being built is told of, before the call would be given up.
    patience = call.api.settings.timeout_s * _SHARE_OF_TIMEOUT
    if query.wait_s is None or query.wait_s > patience:
        query = query.model_copy(update={"wait_s": patience})

    def work() -> Answer:
        result = ask(query)
        # A backend that did not answer is a warning, and an index that is being built soon says more.
        return json_answer(result, gzip=gzip, keep=result.index.state == "ready" and not result.warnings)

    return await call.view.room.run(work)


async def verify(call: Call) -> Answer:
    """`POST /v1/verify`."""
    data, view = await call.json_body(), call.view
    single = not _has_citations(data)
    asked = [parsed(Cited, data)] if single else parsed(VerifyRequest, data).citations

    async def one(cited: Cited) -> Verification:
        # Each at its own backend, so that one that hangs costs only its own.
        span = ByteSpan(start=cited.span.start, end=max(cited.span.start, cited.span.end))
        citation = Citation(source_id=cited.source_id, span=span, content_hash=cited.content_hash)
        return await _verified(view, citation)

    found = [await one(cited) for cited in asked]
    return json_answer(found[0] if single else Verifications(verifications=tuple(found)))


def _has_citations(data: bytes) -> bool:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidArgumentError("The body is no JSON", mend="Send a citation as a JSON object.") from None
    return isinstance(value, dict) and "citations" in value


async def _verified(view: View, citation: Citation) -> Verification:
    try:
        place = view.place(citation.source_id)
    except (NotFoundError, InvalidIdError):
        return Verification(status="gone", source_id=citation.source_id)
    inner = citation.model_copy(update={"source_id": place.source_id})
    found = await place.room.run(partial(place.room.service.verify, inner))
    return found.model_copy(update={"source_id": citation.source_id})


async def call_tool(call: Call) -> Answer:
    """`POST /v1/tools/{tool}`: always an object; what goes wrong stands in it."""
    name = call.source_id
    data = await call.json_body()
    arguments = _arguments(data)
    gzip, room = call.gzip, call.view.room
    if name in TOOLS:
        return await room.run(lambda: _tool_answer(room.tools.call(name, arguments), gzip))
    tool = call.api.extensions.agent_tools.get(name)
    if tool is None:
        known = ", ".join((*TOOLS, *call.api.extensions.agent_tools))
        raise PathNotFoundError(f"There is no tool {name[:80]!r}", mend=f"The tools are: {known}.")
    check_scope(call.grant, tool.scope)
    return await call.api.extra_room.run(lambda: json_answer(dict(tool.call(arguments)), gzip=gzip, keep=False))


def _tool_answer(answer: dict[str, JsonValue], gzip: bool) -> Answer:
    index = answer.get("index")
    settled = not isinstance(index, dict) or index.get("state") == "ready"
    # An error may have been of this moment, and a warning of a backend that did not answer.
    return json_answer(answer, gzip=gzip, keep=settled and "error" not in answer and not answer.get("warnings"))


def _arguments(data: bytes) -> dict[str, Any]:
    value: JsonValue = None
    with suppress(ValueError, RecursionError):
        value = json.loads(data or b"{}")
    if not isinstance(value, dict):
        raise InvalidArgumentError("The arguments are no JSON object", mend='Send them as {"query": "..."}.')
    return value


async def list_tools(call: Call) -> Answer:
    """`GET /v1/tools`: what to tell a model of them."""
    own = [
        {"name": name, "description": spec["description"], "parameters": spec["input_schema"]}
        for name, spec in zip(TOOLS, tool_specs("anthropic"), strict=True)
    ]
    more = [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in call.api.extensions.agent_tools.values()
        if call.grant.allows_somewhere(tool.scope)
    ]
    return json_answer({"tools": [*own, *more]}, gzip=call.gzip)
