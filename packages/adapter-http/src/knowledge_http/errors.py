"""Errors over HTTP: which status stands for which code, and the errors that only HTTP has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from knowledge_engine.errors import KnowledgeError

#: By code. What is not here is 500.
STATUS: Mapping[str, int] = {
    "invalid-argument": 400,
    "invalid-query": 400,
    "query-too-long": 400,
    "invalid-filter": 400,
    "unauthorized": 401,
    "read-only": 403,
    "forbidden": 403,
    "not-found": 404,
    "unknown-backend": 404,
    # Nothing can be there; whether something else is, is nobody's business.
    "invalid-id": 404,
    "method-not-allowed": 405,
    "timeout": 408,
    "ambiguous-id": 409,
    # It is of another request than this.
    "invalid-cursor": 409,
    "conflict": 412,
    "too-large": 413,
    "unsupported-media-type": 415,
    "range-not-satisfiable": 416,
    "misdirected": 421,
    "invalid-frontmatter": 422,
    "not-supported": 422,
    "fetch-failed": 422,
    "blocked-scheme": 422,
    "blocked-address": 422,
    "headers-too-large": 431,
    "provider": 502,
    "busy": 503,
    "unavailable": 503,
    "storage-full": 507,
}
#: Seconds after which to ask again, where the answer is 503.
RETRY_AFTER_S = 2


def status_of(code: str) -> int:
    """The HTTP status of an error of that code."""
    return STATUS.get(code, 500)


class HttpError(KnowledgeError):
    """An error that only HTTP has; its answer may need further headers."""

    def __init__(self, problem: str, *, mend: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem, mend=mend)
        self.headers = dict(headers or {})


class UnauthorizedError(HttpError):
    """No token, or one that is not known."""

    code: ClassVar[str] = "unauthorized"


class ForbiddenError(HttpError):
    """The token does not allow it, or the page that asks is another site's."""

    code: ClassVar[str] = "forbidden"


class MethodNotAllowedError(HttpError):
    """The path has no such method."""

    code: ClassVar[str] = "method-not-allowed"


class BodyTimeoutError(HttpError):
    """The body did not come in time."""

    code: ClassVar[str] = "timeout"


class UnsupportedMediaTypeError(HttpError):
    """The body is of a type or in an encoding that is not taken."""

    code: ClassVar[str] = "unsupported-media-type"


class RangeNotSatisfiableError(HttpError):
    """The range begins behind the end."""

    code: ClassVar[str] = "range-not-satisfiable"


class MisdirectedError(HttpError):
    """The request is meant for a host that this is not."""

    code: ClassVar[str] = "misdirected"


class PathNotFoundError(HttpError):
    """Nothing is served at that path."""

    code: ClassVar[str] = "not-found"
