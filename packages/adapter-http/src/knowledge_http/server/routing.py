"""From a path to the operations there are, and from a request to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.routing import BaseRoute, Match, NoMatchFound

from knowledge_http.errors import MethodNotAllowedError
from knowledge_http.server.api import Api
from knowledge_http.server.backends import check_scope
from knowledge_http.server.calls import Call, Receive, Scope
from knowledge_http.server.operations import Operation
from knowledge_http.server.rendering import Answer, send_answer

#: In a request's scope: the template of its path.
ROUTE = "knowledge.route"
_FOUND = "knowledge.found"
_SOURCES, _TOOLS = b"/v1/sources/", b"/v1/tools/"
#: What may stand behind an id.
_PARTS = ("content", "provenance")


class Found(NamedTuple):
    """A path: its template, and the id in it as it was written."""

    template: str
    raw_id: bytes | None = None


def find(path: bytes) -> Found:
    """What a path means, percent-encoded as it came. Slashes of an id may be written as they are.

    An id that ends in `/content` needs its slashes encoded.

    >>> find(b"/v1/sources/a/b.md/content")
    Found(template='/v1/sources/{id}/content', raw_id=b'a/b.md')
    >>> find(b"/v1/sources/a%2Fcontent")
    Found(template='/v1/sources/{id}', raw_id=b'a%2Fcontent')
    """
    if path.startswith(_SOURCES):
        rest = path[len(_SOURCES) :]
        head, slash, tail = rest.rpartition(b"/")
        for part in _PARTS:
            if slash and head and tail == part.encode():
                return Found(f"/v1/sources/{{id}}/{part}", head)
        return Found("/v1/sources/{id}", rest)
    if path.startswith(_TOOLS):
        return Found("/v1/tools/{tool}", path[len(_TOOLS) :])
    return Found(path.decode("latin-1"))


def raw_path(scope: Mapping[str, Any]) -> bytes:
    """The path below where the application is mounted, percent-encoded as it came."""
    raw: bytes = (scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")).partition(b"?")[0]
    root = scope.get("root_path", "").encode("utf-8", "surrogateescape").rstrip(b"/")
    return raw[len(root) :] if root and raw.startswith(root + b"/") else raw


class NamelessRoute(BaseRoute):
    """A route that no URL is made of."""

    def url_path_for(self, name: str, /, **_: Any) -> Any:
        """See `BaseRoute.url_path_for`."""
        raise NoMatchFound(name, {})


class ApiRoute(NamelessRoute):
    """All operations, as one route: a path is looked up, not tried against each."""

    def __init__(self, api: Api, operations: Sequence[Operation]) -> None:
        self._api = api
        self._by_path: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            self._by_path.setdefault(operation.path, {})[operation.method] = operation

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """See `BaseRoute.matches`."""
        if scope["type"] != "http":
            return Match.NONE, {}
        found = find(raw_path(scope))
        if found.template not in self._by_path:
            return Match.NONE, {}
        return Match.FULL, {_FOUND: found}

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """See `BaseRoute.handle`."""
        found: Found = scope[_FOUND]
        scope[ROUTE] = found.template
        answer = await self._answer(found, scope, receive)
        await send_answer(answer, send, head=scope["method"] == "HEAD")

    async def _answer(self, found: Found, scope: Scope, receive: Receive) -> Answer:
        methods = self._by_path[found.template]
        method = scope["method"]
        operation = methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = ", ".join((*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"))
            if method == "OPTIONS":
                return Answer(204, headers=((b"allow", allowed.encode()),))
            raise MethodNotAllowedError(
                f"{method[:20]} is nothing to do there", mend=f"Use {allowed}.", headers={"allow": allowed}
            )
        call = Call(self._api, operation, scope, receive, found.raw_id)
        if not operation.public:
            check_scope(call.grant, operation.scope)
        try:
            if operation.kept:
                return await self._kept(operation, call, found)
            return await operation.run(call)
        finally:
            if operation.writes:  # also where it failed: it may have been half-way
                self._api.served.forget()
            call.close()

    @staticmethod
    async def _kept(operation: Operation, call: Call, found: Found) -> Answer:
        body = await call.json_body() if operation.method == "POST" else b""
        kept = call.view.room.kept
        key = (operation.name, found.raw_id, call.scope.get("query_string", b""), body, call.gzip)
        answer = kept.find(key)
        if answer is None:
            generation = kept.generation
            answer = await operation.run(call)
            kept.put(key, answer, generation)
        return answer
