"""Errors over WAMP: which URI stands for which code, and what a failed call means here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from knowledge_engine.errors import (
    ConfigurationError,
    KnowledgeError,
    ProviderError,
    TooLargeError,
    UnavailableError,
    error_from_wire,
    wire_error,
)
from knowledge_wamp.wire import clean

if TYPE_CHECKING:
    from autobahn.wamp.exception import ApplicationError

#: An error's URI is this and its code, with `_` for `-`.
ERROR_PREFIX = "app_knowledge.error."
#: Codes for which WAMP has a URI of its own.
_STANDARD = {
    "invalid-argument": "wamp.error.invalid_argument",
    "not-supported": "wamp.error.no_such_procedure",
    "read-only": "wamp.error.not_authorized",
    "unavailable": "wamp.error.unavailable",
}
#: Why a router refuses a session for good: another attempt would end the same way.
REFUSALS: Mapping[str, str] = {
    "wamp.error.no_such_realm": "The router has no realm {realm!r}",
    "wamp.error.authentication_failed": "The router does not accept who joins",
    "wamp.error.authentication_denied": "The router does not accept who joins",
    "wamp.error.authentication_required": "The router wants to know who joins",
    "wamp.error.cannot_authenticate": "The router does not accept who joins",
    "wamp.error.no_auth_method": "The router does not take this way to join",
    "wamp.error.no_matching_auth_method": "The router does not take this way to join",
    "wamp.error.no_such_principal": "The router does not know who joins",
    "wamp.error.no_such_role": "The router has no role for who joins",
    "wamp.error.authorization_failed": "The router does not let this one join the realm {realm!r}",
    "wamp.error.not_authorized": "The router does not let this one join the realm {realm!r}",
}
_CHECK = "Check KNOWLEDGE_WAMP_REALM, _AUTHID and the ticket, secret or key."


def error_uri(code: str) -> str:
    """The URI under which an error of that code goes over the wire.

    >>> error_uri("not-found")
    'app_knowledge.error.not_found'
    """
    return _STANDARD.get(code, ERROR_PREFIX + code.replace("-", "_"))


def raised(error: BaseException) -> ApplicationError:
    """The error as a handler raises it: its wire form as keywords, and no word of what was not meant to be read."""
    from autobahn.wamp.exception import ApplicationError

    # A message may quote what a caller sent, which not every transport takes back.
    wire = {key: str(clean(value)) for key, value in wire_error(error).items()}
    return ApplicationError(error_uri(wire["code"]), wire["message"], **wire)


def refusal(reason: str, realm: str) -> ConfigurationError | None:
    """What it means that the router ended a session with that reason before it began; None if it may be tried again."""
    problem = REFUSALS.get(reason)
    if problem is None:
        return None
    return ConfigurationError(f"{problem.format(realm=realm)} ({reason})", mend=_CHECK)


def from_call(error: BaseException, procedure: str) -> KnowledgeError:
    """What a failed call of that procedure means."""
    uri = getattr(error, "error", "")
    if uri:
        return _from_uri(str(uri), getattr(error, "kwargs", None), procedure)
    name = type(error).__name__
    if name == "PayloadExceededError":
        return TooLargeError("The call is longer than the transport takes", mend="Send less at once.")
    if name == "SerializationError":
        return ProviderError(
            "The call cannot be written for the wire", mend="Choose another KNOWLEDGE_WAMP_SERIALIZER."
        )
    return UnavailableError(f"The connection to the router was lost ({name})", mend="Try again.")


def _from_uri(uri: str, wire: Any, procedure: str) -> KnowledgeError:
    if isinstance(wire, Mapping) and "code" in wire:
        return error_from_wire({key: value for key, value in wire.items() if isinstance(value, str)})
    if uri == "wamp.error.no_such_procedure":
        return UnavailableError(
            f"Nobody serves {procedure!r} just now", mend="Start `knowledge serve wamp` there, or correct the prefix."
        )
    if uri in ("wamp.error.not_authorized", "wamp.error.authorization_failed"):
        return ProviderError(f"The router does not allow calls of {procedure!r}", mend="Ask whoever runs the router.")
    if uri in ("wamp.error.payload_size_exceeded", "wamp.error.invalid_payload"):
        return TooLargeError(f"The answer of {procedure!r} does not fit the transport", mend="Ask for less at once.")
    if uri in ("wamp.error.canceled", "wamp.error.timeout", "wamp.error.unavailable", "wamp.error.system_shutdown"):
        return UnavailableError(f"{procedure!r} was not answered ({uri})", mend="Try again.")
    return ProviderError(f"{procedure!r} failed ({uri[:200]})", mend="Look into the log of who serves it.")
