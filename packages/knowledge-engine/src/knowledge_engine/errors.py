"""The one error tree. Each error has a stable `code` and a `mend`: what to do now."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

_log = logging.getLogger("knowledge_engine")
_MAX_WIRE_CHARS = 2_000


class KnowledgeError(Exception):
    """Base of every error raised on purpose.

    `code` is stable and may be matched; the wording is not. Messages carry no secrets, no document
    text and no absolute path of the host.
    """

    code: ClassVar[str] = "internal"
    #: Asking the same thing again later may succeed.
    retryable: ClassVar[bool] = False

    def __init__(self, problem: str, *, mend: str) -> None:
        super().__init__(f"{problem.rstrip('.')}. {mend}")
        self.problem = problem
        self.mend = mend

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross processes; by default they would be rebuilt from the message alone.
        return partial(type(self), mend=self.mend), (self.problem,)


class ConfigurationError(KnowledgeError):
    """A setting is missing or wrong."""

    code = "configuration"


class UnknownBackendError(ConfigurationError):
    """No backend of that name or URL scheme; the message lists the known ones."""

    code = "unknown-backend"


class BrokenPluginError(KnowledgeError):
    """An installed plugin failed to load, or two distributions claim one name."""

    code = "broken-plugin"


class InvalidArgumentError(KnowledgeError):
    """An argument has the wrong type or range."""

    code = "invalid-argument"


class InvalidQueryError(InvalidArgumentError):
    """The query cannot be run as written."""

    code = "invalid-query"


class QueryTooLongError(InvalidQueryError):
    """The query text is over the limit of `models.MAX_QUERY_CHARS`."""

    code = "query-too-long"


class InvalidFilterError(InvalidArgumentError):
    """The filter has an unknown operator or a malformed condition."""

    code = "invalid-filter"


class InvalidCursorError(InvalidArgumentError):
    """The cursor was not made by this service for this request."""

    code = "invalid-cursor"


class InvalidIdError(InvalidArgumentError):
    """The id is not one that a document can have (it leaves the root, say)."""

    code = "invalid-id"


class InvalidFrontmatterError(KnowledgeError):
    """Metadata does not parse, so it is not rewritten."""

    code = "invalid-frontmatter"


class NotFoundError(KnowledgeError):
    """No such document."""

    code = "not-found"


class AmbiguousIdError(KnowledgeError):
    """Several documents claim that id; the message names some."""

    code = "ambiguous-id"


class ConflictError(KnowledgeError):
    """`if_match` names another version than the one stored."""

    code = "conflict"


class NotSupportedError(KnowledgeError):
    """The backend lacks that power, or that kind of input."""

    code = "not-supported"


class ReadOnlyError(KnowledgeError):
    """The store may not be written."""

    code = "read-only"


class StorageFullError(KnowledgeError):
    """No space is left; nothing was changed."""

    code = "storage-full"


class TooLargeError(KnowledgeError):
    """The input is over a size limit."""

    code = "too-large"


class BusyError(KnowledgeError):
    """The backend has no capacity just now."""

    code = "busy"
    retryable = True


class ProviderError(KnowledgeError):
    """The backend failed."""

    code = "provider"


class UnavailableError(ProviderError):
    """The backend cannot be reached, or was disposed of."""

    code = "unavailable"
    retryable = True


class FetchError(KnowledgeError):
    """A URL could not be fetched."""

    code = "fetch-failed"


class BlockedSchemeError(FetchError):
    """Only http and https are fetched."""

    code = "blocked-scheme"


class BlockedAddressError(FetchError):
    """The URL, or a redirect of it, leads to an address that is not public."""

    code = "blocked-address"


def wire_error(error: BaseException) -> dict[str, Any]:
    """The form in which an error leaves the process: `{code, message, mend, id}`, strings all.

    `id` is empty for errors raised on purpose. Any other exception becomes `internal` with an id and a fixed
    message; its traceback goes to the log once, under that id.
    """
    if isinstance(error, KnowledgeError):
        return {"code": error.code, "message": str(error), "mend": error.mend, "id": ""}
    error_id = uuid.uuid4().hex[:12]
    _log.error("internal error %s", error_id, exc_info=error)
    return {
        "code": KnowledgeError.code,
        "message": "Something went wrong inside.",
        "mend": f"Look for {error_id} in the log of the process that answered.",
        "id": error_id,
    }


def error_from_wire(wire: Mapping[str, Any]) -> KnowledgeError:
    """The error that `wire_error` rendered, elsewhere; of an unknown code a `ProviderError`. Takes anything."""
    code, message, mend = (str(wire.get(key) or "")[:_MAX_WIRE_CHARS] for key in ("code", "message", "mend"))
    problem = message.removesuffix(mend).strip() or "The other side failed"
    kinds: dict[str, type[KnowledgeError]] = {kind.code: kind for kind in _kinds(KnowledgeError)}
    # `internal` is what the base class stands for, and of no use to a caller who tells errors apart.
    return kinds.get(code, ProviderError)(problem, mend=mend or "Ask whoever runs it.")


def _kinds(kind: type[KnowledgeError]) -> Iterator[type[KnowledgeError]]:
    for each in kind.__subclasses__():
        # Classes of others may reuse a code.
        if each.__module__ == __name__:
            yield each
            yield from _kinds(each)
