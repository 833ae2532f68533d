"""Names of procedures: which there are by default, and which a router would take."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: The tools that are registered unless more is asked for, and their topics.
DEFAULT_TOPICS: Mapping[str, str] = {"list": "app_knowledge.list", "get": "app_knowledge.get"}
#: What a server registers beside the tools, for the `wamp` backend.
QUERY, SOURCES, READ, STATUS = (
    "app_knowledge.query",
    "app_knowledge.sources",
    "app_knowledge.read",
    "app_knowledge.status",
)
INGEST, DELETE = "app_knowledge.ingest", "app_knowledge.delete"

#: No limit of WAMP's; no longer name has a use.
MAX_URI_CHARS = 1_000
_LOOSE = re.compile(r"[^\s.#\x00-\x1f\x7f]+(?:\.[^\s.#\x00-\x1f\x7f]+)*")


def uri_problem(uri: object) -> str:
    """Why no router would take that as the name of a procedure; empty if it would.

    Routers end the session of whoever sends a malformed one, so it must be found out before.
    Source: the loose URI rules of the WAMP specification.
    """
    if not isinstance(uri, str):
        return f"it is a {type(uri).__name__}, not text"
    if not uri:
        return "it is empty"
    if len(uri) > MAX_URI_CHARS:
        return f"it has more than {MAX_URI_CHARS} characters"
    if not uri.isprintable() or any("\ud800" <= char <= "\udfff" for char in uri):
        return "it holds characters that cannot be printed"
    if not _LOOSE.fullmatch(uri):
        return "it has an empty part between dots, a blank or a #"
    if uri == "wamp" or uri.startswith("wamp."):
        return "names that begin with wamp. belong to the router"
    return ""
