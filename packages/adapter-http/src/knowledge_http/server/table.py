"""Every operation of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge_engine.models import MAX_QUERY_CHARS
from knowledge_http.server import querying, reading, state, writing
from knowledge_http.server.operations import Operation, Param
from knowledge_http.server.schemas import WHERE

_BACKEND = Param("backend", "text", "Only this one of several backends, under its own ids")
_FILTER = Param("filter", "filter", "Conditions on metadata, as a JSON object")
_WHERE = Param(
    "where",
    "text",
    "A condition such as kind=device or year>=2020; repeatable",
    repeated=True,
    schema={"pattern": WHERE},
)
_CURSOR = Param("cursor", "text", "next_cursor of the page before")
_LIMIT = Param("limit", "integer", "At most so many", minimum=1)
_EXACT = Param("exact", "boolean", "Takes only the source id itself, no frontmatter id and no other spelling")

_OBJECT: Mapping[str, Any] = {"type": "object"}
_PAGE = (_BACKEND, _FILTER, _WHERE, _CURSOR)

OPERATIONS: Sequence[Operation] = (
    Operation(
        "GET", "/v1/sources", "listSources", "Documents, by id or best first", reading.list_sources, kept=True,
        params=(Param("query", "text", "Words of title, summary, keywords and the like"), *_PAGE, _LIMIT,
                Param("facets", "boolean", "Counts the values of each metadata key")),
        answer="SourceList",
        problems=(400, 404, 409),
    ),
    Operation(
        "POST", "/v1/list", "listSourcesByBody", "The same, for long filters", reading.list_by_body, kept=True,
        params=(_BACKEND,), body="ListRequest", answer="SourceList", problems=(400, 404, 409),
    ),
    Operation(
        "GET", "/v1/sources/{id}", "getSource", "A document, its outline, links and issues", reading.get_source,
        kept=True, params=(_BACKEND, _EXACT, Param("detail", "boolean", "false leaves out outline, links and issues")),
        answer="SourceDetail", problems=(400, 404, 409),
    ),
    Operation(
        "GET", "/v1/sources/{id}/content", "readSource", "A document's bytes, as stored", reading.read_source,
        params=(_BACKEND, _EXACT, Param("section", "text", "Only the section of that title or slug"),
                Param("start", "integer", "Only bytes from here on", minimum=0),
                Param("end", "integer", "Only bytes up to here", minimum=0)),
        answer="bytes", statuses=(200, 206, 304), problems=(400, 404, 409, 416),
        help="One range of bytes is answered by 206; several at once by the whole. ETag, If-None-Match, If-Range.",
    ),
    Operation(
        "GET", "/v1/sources/{id}/provenance", "explainSource", "Where a document comes from", reading.explain,
        params=(_BACKEND,), answer="Provenance", problems=(400, 404),
    ),
    Operation(
        "PUT", "/v1/sources/{id}", "putSource", "Stores a document, byte for byte", writing.put_source, writes=True,
        scope="write", params=(_BACKEND,), body="bytes", answer="Source", statuses=(200, 201),
        problems=(400, 403, 404, 412, 413, 422), help="If-Match: the version that it replaces. If-None-Match: *: none.",
    ),
    Operation(
        "DELETE", "/v1/sources/{id}", "deleteSource", "Deletes a document", writing.delete_source, writes=True,
        scope="write", params=(_BACKEND,), statuses=(204,), problems=(400, 403, 404, 412, 422),
    ),
    Operation(
        "POST", "/v1/sources", "ingestSource", "Stores a document by its parts", writing.ingest, writes=True,
        scope="write", params=(_BACKEND,), body="IngestBody", answer="Source", statuses=(200, 201),
        problems=(400, 403, 404, 412, 422),
    ),
    Operation(
        "POST", "/v1/supersede", "supersedeSource", "Lets another document stand for it", writing.supersede,
        writes=True, scope="write", params=(_BACKEND,), body="SupersedeBody", statuses=(204,),
        problems=(400, 403, 404, 422),
    ),
    Operation(
        "POST", "/v1/query", "query", "Passages that answer, with citations", querying.query_by_body, kept=True,
        params=(_BACKEND, Param("blank", "boolean", "Answers an empty question by no hits, instead of an error")),
        body="Query", answer="QueryResult", problems=(400, 404, 409),
    ),
    Operation(
        "GET", "/v1/query", "queryByUrl", "The same, as a link", querying.query_by_url, kept=True,
        params=(
            Param("q", "text", "The question", required=True, schema={"pattern": r"\S", "maxLength": MAX_QUERY_CHARS}),
            *_PAGE,
            Param("top_k", "integer", "At most so many hits; 10 if not given", minimum=1),
            Param("per_source", "integer", "Hits of one document; 1 if not given", minimum=1),
            Param("max_chars", "integer", "Characters of text in all", minimum=1),
            Param("min_score", "number", "Leaves out hits below"),
            Param("mode", "text", "keyword, vector or hybrid", schema={"enum": ["keyword", "vector", "hybrid"]}),
            Param("wait_s", "number", "How long to wait for an index that is being built", minimum=0),
        ),
        answer="QueryResult", problems=(400, 404, 409),
    ),
    Operation(
        "POST", "/v1/verify", "verify", "Whether cited words are still there", querying.verify,
        params=(_BACKEND,), body="VerifyBody", answer="VerifyAnswer", problems=(400, 404),
    ),
    Operation(
        "GET", "/v1/tools", "listTools", "The tools for agents, as a model is told of them", querying.list_tools,
        answer="Tools", problems=(400,),
    ),
    Operation(
        "POST", "/v1/tools/{tool}", "callTool", "A tool for agents: list, get, query, and those of extensions",
        querying.call_tool, kept=True, params=(_BACKEND,), body=_OBJECT, answer=_OBJECT, problems=(400, 403, 404),
        help="Failures are answered by 200 too, with error, code and mend beside the tool's usual keys.",
    ),
    Operation(
        "GET", "/v1/status", "status", "How the backends are, and what is wrong with documents", state.status,
        params=(_BACKEND,), answer="ServerStatus", problems=(400, 404),
    ),
    Operation(
        "GET", "/v1/changes", "changes", "What became of the documents since a revision", reading.changes,
        params=(_BACKEND, Param("since", "text", "The revision of the answer before")),
        answer="Changes", problems=(400, 404),
    ),
    Operation(
        "POST", "/v1/refresh", "refresh", "Looks for what changed, now", writing.refresh, writes=True,
        scope="admin", params=(_BACKEND,), body="RefreshBody", answer="Refreshed", problems=(400, 403, 404),
    ),
    Operation(
        "GET", "/healthz", "healthz", "The process answers", state.healthz,
        public=True, answer="Health", problems=(400,),
    ),
    Operation(
        "GET", "/readyz", "readyz", "Some backend answers", state.readyz,
        public=True, answer="Health", statuses=(200, 503), problems=(400,),
    ),
    Operation("GET", "/metrics", "metrics", "For Prometheus", state.metrics, answer="text", problems=(400, 403)),
    Operation(
        "GET", "/llms.txt", "llms", "What there is, for agents that read one file first", state.llms,
        params=(_BACKEND,), answer="text", problems=(400, 404),
    ),
)  # fmt: skip
