"""The OpenAPI document, made from the table of operations and the models themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from knowledge_engine.models import Provenance, Query, QueryResult, Source, Value, Verification
from knowledge_engine.service import Changes, SourceDetail, SourceList
from knowledge_http.errors import RETRY_AFTER_S
from knowledge_http.server.operations import MAX_REPEATED, Operation, Param
from knowledge_http.server.querying import Cited, Verifications, VerifyRequest
from knowledge_http.server.reading import ListRequest
from knowledge_http.server.schemas import FILTER_REF, sharpen
from knowledge_http.server.state import ServerStatus
from knowledge_http.server.writing import IngestBody, RefreshBody, SupersedeBody

_REF = "#/components/schemas/{model}"
#: Any operation can end so; others are named by it.
_ALWAYS = (403, 421, 503)
_BODY_PROBLEMS = (400, 408, 413, 415)


class ErrorBody(Value):
    """What went wrong; `id` names the log entry of what was not foreseen."""

    code: str
    message: str
    mend: str
    id: str


class Problem(Value):
    """The body of every answer from 400 on."""

    error: ErrorBody


class Probe(Value):
    """What a probe is told."""

    status: str


class ToolInfo(Value):
    """A tool, as a model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolList(Value):
    """The tools."""

    tools: tuple[ToolInfo, ...]


class Refreshed(Value):
    """Whether anything had changed."""

    changed: bool


_ASKED: Sequence[type[BaseModel]] = (
    Query, ListRequest, IngestBody, SupersedeBody, RefreshBody, VerifyRequest, Cited,
)  # fmt: skip
_ANSWERED: Sequence[type[BaseModel]] = (
    QueryResult, SourceList, SourceDetail, Source, Provenance, Verification, Verifications, ServerStatus, Changes,
    Problem, Probe, ToolList, Refreshed,
)  # fmt: skip


def describe(operations: Sequence[Operation], *, with_tokens: bool, several: bool = False) -> dict[str, Any]:
    """The document. It says nothing of documents, so everyone may have it."""
    schemas, names = _schemas(several)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, names, with_tokens)
    components: dict[str, Any] = {"schemas": schemas}
    if with_tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Knowledge",
            "version": version("kpkit-http"),
            "description": "Documents to list, read and ask, with citations that can be verified.",
        },
        "paths": paths,
        "components": components,
    }


def _schemas(several: bool) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """All schemas, and by name how to refer to one."""
    modes: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        *((model, "validation") for model in _ASKED),
        *((model, "serialization") for model in _ANSWERED),
    ]
    by_model, definitions = models_json_schema(modes, ref_template=_REF)
    schemas: dict[str, Any] = definitions["$defs"]
    names: dict[str, Mapping[str, Any]] = {model.__name__: ref for (model, _), ref in by_model.items()}
    names |= {
        "VerifyBody": {"anyOf": [names["VerifyRequest"], names["Cited"]]},
        "VerifyAnswer": {"anyOf": [names["Verifications"], names["Verification"]]},
        "Health": names["Probe"],
        "Tools": names["ToolList"],
    }
    sharpen(schemas, several=several)
    return schemas, names


def _operation(operation: Operation, names: Mapping[str, Mapping[str, Any]], with_tokens: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if operation.help:
        found["description"] = operation.help
    parameters = [_in_path(name) for name in re.findall(r"{(\w+)}", operation.path)]
    parameters += [_in_query(param) for param in operation.params]
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": _content(operation.body, names)}
    found["responses"] = _responses(operation, names, with_tokens)
    if with_tokens and not operation.public:
        found["security"] = [{"token": []}]
    return found


def _responses(operation: Operation, names: Mapping[str, Mapping[str, Any]], with_tokens: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in operation.statuses:
        answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        if status not in (204, 304) and operation.answer is not None:
            answer["content"] = _content(operation.answer, names)
        found[str(status)] = answer
    problems = {*operation.problems, *_ALWAYS}
    if operation.body is not None:
        problems |= {*_BODY_PROBLEMS}
    if with_tokens and not operation.public:
        problems.add(401)
    for status in sorted(problems - {*operation.statuses}):
        found[str(status)] = _problem(status, names)
    return found


def _problem(status: int, names: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": names["Problem"]}},
    }
    if status == 503:
        found["headers"] = {"Retry-After": {"schema": {"type": "integer", "example": RETRY_AFTER_S}}}
    return found


def _content(what: str | Mapping[str, Any], names: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if what == "bytes":
        return {"text/markdown": {"schema": {"type": "string"}}, "text/plain": {"schema": {"type": "string"}}}
    if what == "text":
        return {"text/plain": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": names[what] if isinstance(what, str) else dict(what)}}


def _in_path(name: str) -> dict[str, Any]:
    said = "The document's id, percent-encoded" if name == "id" else "The tool's name"
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": said,
        "schema": {"type": "string", "pattern": r"^[^{}\x00-\x1f\x7f]+$"},
    }


def _in_query(param: Param) -> dict[str, Any]:
    found: dict[str, Any] = {"name": param.name, "in": "query", "description": param.help, "required": param.required}
    if param.kind == "filter":
        return {**found, "content": {"application/json": {"schema": FILTER_REF}}}
    schema: dict[str, Any] = {"type": "string" if param.kind == "text" else param.kind, **param.schema}
    if param.minimum is not None:
        schema["minimum"] = param.minimum
    if param.repeated:
        return {**found, "schema": {"type": "array", "items": schema, "maxItems": MAX_REPEATED}}
    return {**found, "schema": schema}
