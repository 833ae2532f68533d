"""What JSON schemas of the models do not say by themselves: filters, and which parts of a document go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge_engine.models import MAX_QUERY_CHARS

FILTER_REF: Mapping[str, Any] = {"$ref": "#/components/schemas/Filter"}
_CONDITION: Mapping[str, Any] = {"$ref": "#/components/schemas/Condition"}
_METADATA_VALUE: Mapping[str, Any] = {"$ref": "#/components/schemas/MetadataValue"}
_EXACT = 2**53 - 1
_SCALAR_TYPES = ["string", "number", "boolean", "null"]
_SCALAR: Mapping[str, Any] = {"type": _SCALAR_TYPES}
_SCALARS: Mapping[str, Any] = {"type": "array", "items": _SCALAR}
_ORDERED: Mapping[str, Any] = {"type": ["string", "number"]}
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
#: Text with at least one character that is no white space.
_SOME: Mapping[str, Any] = {"type": "string", "maxLength": MAX_QUERY_CHARS, "pattern": r"\S"}
#: `key`, `!key`, `key=value` and so on, as `filters.parse_where` reads them.
WHERE = (
    r"^\s*([^=!<>^~{\s][^=!<>^~]*(=|!=)[\s\S]*|[^=!<>^~{\s][^=!<>^~]*(>=|<=|\^=|~=|<|>)\s*[^=\s][\s\S]*"
    r"|!?\s*[^=!<>^~{\s][^=!<>^~]*)$"
)


def sharpen(schemas: dict[str, Any], *, several: bool) -> None:
    """Adds what is missing; with `several` backends a new document must say by its id where it goes."""
    schemas["Filter"] = {
        "type": "object",
        "description": "Conditions on metadata, by key: all must hold. Besides `and` and `or` there is `not`.",
        # And `not`, which tools that read JSON schemas take for the word of theirs.
        "properties": {"and": _list(FILTER_REF), "or": _list(FILTER_REF)},
        "additionalProperties": dict(_CONDITION),
        "minProperties": 1,
    }
    schemas["Condition"] = {
        "description": "A value, some values, or operators.",
        "anyOf": [dict(_SCALAR), dict(_SCALARS), {"$ref": "#/components/schemas/Operators"}],
    }
    schemas["Operators"] = _operators()
    for name in ("Query", "ListRequest"):
        schemas[name]["properties"]["filter"]["anyOf"] = [dict(FILTER_REF), {"type": "null"}]
    schemas["Query"]["properties"]["query"] |= _SOME
    schemas["MetadataValue"] = _metadata_value()
    _sharpen_ingest(schemas["IngestBody"], ["id"] if several else [])
    # Where there are citations, these are meant.
    schemas["Cited"]["properties"]["citations"] = False


def _list(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(item), "minItems": 1}


def _operators() -> dict[str, Any]:
    joins = {"and": _list(_CONDITION), "or": _list(_CONDITION)}
    some = {"type": ["string", "number", "boolean"]}
    return {
        "type": "object",
        "properties": {
            "eq": dict(_SCALAR),
            "ne": dict(_SCALAR),
            "in": dict(_SCALARS),
            "nin": dict(_SCALARS),
            **{name: dict(_ORDERED) for name in ("gt", "gte", "lt", "lte")},
            "exists": {"type": "boolean"},
            "prefix": {"type": "string"},
            "contains": some,
            **joins,
        },
        "additionalProperties": False,
        "minProperties": 1,
    }


def _metadata_value() -> dict[str, Any]:
    inside = dict(_METADATA_VALUE)
    return {
        "description": "Numbers are those that JSON keeps exactly.",
        "anyOf": [
            {"type": ["string", "boolean", "null"]},
            {"type": "number", "minimum": -_EXACT, "maximum": _EXACT},
            {"type": "array", "items": inside},
            {"type": "object", "additionalProperties": inside},
        ],
    }


def _sharpen_ingest(schema: dict[str, Any], required: list[str]) -> None:
    properties = schema["properties"]
    properties["metadata"]["additionalProperties"] = dict(_METADATA_VALUE)
    an_id = {"id": {"type": "string"}} if required else {}
    properties["kind"] |= {"enum": ["text"], "description": "Others, such as url, where the backend takes them."}
    text, content = {"type": "string"}, {"type": "string", "contentEncoding": "base64", "pattern": _BASE64}
    schema["anyOf"] = [
        {"required": [*required, "text"], "properties": {**an_id, "text": text, "content": {"type": "null"}}},
        {
            "required": [*required, "content"],
            "properties": {
                **an_id,
                "content": content,
                "text": {"type": "null"},
                "title": {"type": "null"},
                "metadata": {"maxProperties": 0},
            },
        },
        {
            "required": ["id", "metadata"],
            "properties": {
                "id": {"type": "string"},
                "metadata": {"minProperties": 1},
                "text": {"type": "null"},
                "content": {"type": "null"},
            },
        },
    ]
