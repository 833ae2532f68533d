"""The routes of the hub, below `/api/knowledge`. Errors are rendered by the server that takes them in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from tempfile import SpooledTemporaryFile
from typing import Any

from pydantic import BaseModel
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from knowledge_engine.errors import InvalidArgumentError, NotFoundError, TooLargeError
from knowledge_engine.models import Value
from knowledge_hub.checking import read_json
from knowledge_hub.entries import EntryUpdate, Feedback, NewEntry, SlimPlan
from knowledge_hub.opening import open_hub
from knowledge_hub.service import HubService
from knowledge_hub.web.reading import check_scope, kinds_of, number_of

PREFIX = "/api/knowledge"
_GRANT = "knowledge.grant"
_KEY = "idempotency-key"
_MOST_BYTES, _MOST_IMPORTED_BYTES, _IN_MEMORY_BYTES = 4_000_000, 1_000_000_000, 4_000_000
_ROUTES = "the routes of the documentation"

_Handler = Callable[[Request], Awaitable[Response]]


class _Batch(Value):
    feedback_list: tuple[Feedback, ...]


class _Slim(Value):
    #: `none` for the rule; by default what is set up.
    model: str | None = None
    #: Only says what would be done.
    dry_run: bool = False
    #: A plan that was looked at; it is applied instead of a new one.
    plan: SlimPlan | None = None
    #: Of the plan, the merges into these entries; None for all.
    chosen: tuple[str, ...] | None = None


class _Revert(Value):
    version: int


def make_app(environ: Mapping[str, str]) -> Any:
    """An ASGI application over the hub that the environment names; it opens no file before it is asked."""
    return HubApp(open_hub(environ)).router


class HubApp:
    """The routes of one hub, which it closes at its end."""

    def __init__(self, hub: HubService) -> None:
        self._hub = hub

        @asynccontextmanager
        async def lifespan(_: object) -> AsyncIterator[None]:
            yield
            await run_in_threadpool(hub.close)

        self.router = Router([*self._routes()], lifespan=lifespan, redirect_slashes=False, default=_nowhere)

    def _routes(self) -> list[Route]:
        table: list[tuple[str, str, str, _Handler]] = [
            ("/", "GET", "read", self._list),
            ("/", "POST", "write", self._save),
            ("/search", "GET", "read", self._search),
            ("/batch_update", "POST", "write", self._batch),
            ("/slim", "POST", "admin", self._slim),
            ("/merges", "GET", "read", self._merges),
            ("/merges/{number}/undo", "POST", "admin", self._undo),
            ("/export", "GET", "read", self._export),
            ("/import", "POST", "admin", self._import),
            ("/status", "GET", "read", self._status),
            ("/panel.js", "GET", "read", _panel),
            ("/{entry_id}", "GET", "read", self._get),
            ("/{entry_id}", "PUT", "write", self._update),
            ("/{entry_id}", "DELETE", "admin", self._delete),
            ("/{entry_id}/history", "GET", "read", self._history),
            ("/{entry_id}/revert", "POST", "admin", self._revert),
            ("/{entry_id}/retire", "POST", "admin", self._retire),
            ("/{entry_id}/restore", "POST", "admin", self._restore),
        ]
        by_path: dict[str, dict[str, tuple[str, _Handler]]] = {}
        for path, method, scope, handler in table:
            by_path.setdefault(path, {})[method] = (scope, handler)
        return [Route(path, _Methods(handlers), methods=None) for path, handlers in by_path.items()]

    # Reading

    async def _search(self, request: Request) -> Response:
        given = request.query_params
        if len(given.getlist("q")) != 1:
            raise InvalidArgumentError("The question is missing", mend="Send it once, as `q`.")
        top_k = number_of(given.getlist("top_k"), "top_k", 5)
        min_score = number_of(given.getlist("min_score"), "min_score", 3)
        kinds = kinds_of(given.getlist("tags_type"))
        return _json(
            await run_in_threadpool(self._hub.search, given["q"], top_k=top_k, min_score=min_score, kinds=kinds)
        )

    async def _list(self, request: Request) -> Response:
        given = request.query_params
        limit = number_of(given.getlist("limit"), "limit", 10)
        kinds = kinds_of(given.getlist("tags_type"))
        after = given.get("after", "")
        found = await run_in_threadpool(self._hub.listed, limit=limit, kinds=kinds, after=after)
        return JSONResponse({"results": [one.model_dump(mode="json") for one in found], "count": len(found)})

    async def _get(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self._hub.get, request.path_params["entry_id"]))

    async def _history(self, request: Request) -> Response:
        entry_id = request.path_params["entry_id"]
        versions = await run_in_threadpool(self._hub.history, entry_id)
        ratings = await run_in_threadpool(self._hub.ratings, entry_id)
        return JSONResponse(
            {
                "id": entry_id,
                "versions": [one.model_dump(mode="json") for one in versions],
                "ratings": [one._asdict() for one in ratings],
            }
        )

    async def _status(self, _: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._hub.status))

    async def _merges(self, _: Request) -> Response:
        found = await run_in_threadpool(self._hub.merges)
        return JSONResponse({"merges": [one.model_dump(mode="json") for one in found]})

    async def _export(self, _: Request) -> Response:
        lines = iterate_in_threadpool(f"{line}\n" for line in self._hub.export())
        return StreamingResponse(lines, media_type="application/x-ndjson")

    # Writing

    async def _save(self, request: Request) -> Response:
        new = read_json(NewEntry, await _body(request))
        entry = await run_in_threadpool(self._hub.save, new, who=_who(request), key=_key(request))
        return _json(entry, 201)

    async def _update(self, request: Request) -> Response:
        update = read_json(EntryUpdate, await _body(request))
        entry_id = request.path_params["entry_id"]
        return _json(await run_in_threadpool(self._hub.update, entry_id, update, who=_who(request), key=_key(request)))

    async def _batch(self, request: Request) -> Response:
        batch = read_json(_Batch, await _body(request))
        return _json(
            await run_in_threadpool(self._hub.batch_update, batch.feedback_list, who=_who(request), key=_key(request))
        )

    async def _slim(self, request: Request) -> Response:
        asked = read_json(_Slim, await _body(request))
        plan = asked.plan
        if plan is None:
            plan = await run_in_threadpool(self._hub.plan_slim, model=asked.model)
        if asked.dry_run:
            return JSONResponse({"plan": plan.model_dump(mode="json"), "applied": None})
        done = await run_in_threadpool(self._hub.apply_slim, plan, who=_who(request), chosen=asked.chosen)
        return JSONResponse({"plan": plan.model_dump(mode="json"), "applied": done.model_dump(mode="json")})

    async def _undo(self, request: Request) -> Response:
        number = number_of([request.path_params["number"]], "number", 0)
        return _json(await run_in_threadpool(self._hub.undo_merge, number, who=_who(request)))

    async def _revert(self, request: Request) -> Response:
        version = read_json(_Revert, await _body(request)).version
        entry_id = request.path_params["entry_id"]
        return _json(await run_in_threadpool(self._hub.revert, entry_id, version, who=_who(request)))

    async def _retire(self, request: Request) -> Response:
        entry_id = request.path_params["entry_id"]
        return _json(await run_in_threadpool(self._hub.retire, entry_id, who=_who(request)))

    async def _restore(self, request: Request) -> Response:
        entry_id = request.path_params["entry_id"]
        return _json(await run_in_threadpool(self._hub.restore, entry_id, who=_who(request)))

    async def _delete(self, request: Request) -> Response:
        await run_in_threadpool(self._hub.delete, request.path_params["entry_id"], who=_who(request))
        return Response(status_code=204)

    async def _import(self, request: Request) -> Response:
        with SpooledTemporaryFile(_IN_MEMORY_BYTES) as lines:
            async for some in _pieces(request, _MOST_IMPORTED_BYTES):
                await run_in_threadpool(lines.write, some)
            lines.seek(0)
            return _json(await run_in_threadpool(self._hub.import_lines, lines, who=_who(request)))


class _Methods:
    """An ASGI application: what a path does, by method, for those who may."""

    def __init__(self, handlers: Mapping[str, tuple[str, _Handler]]) -> None:
        self._handlers = handlers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method not in self._handlers:
            allowed = ", ".join(sorted(self._handlers))
            await JSONResponse(
                {
                    "error": {
                        "code": "method-not-allowed",
                        "message": f"There is no {method[:20]} here. Use {allowed}.",
                        "mend": f"Use {allowed}.",
                        "id": "",
                    }
                },
                405,
                {"allow": allowed},
            )(scope, receive, send)
            return
        needed, handler = self._handlers[method]
        check_scope(scope[_GRANT], needed)
        request = Request(scope, receive)
        await (await handler(request))(scope, receive, send)


async def _nowhere(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
    raise NotFoundError("There is nothing here", mend=f"Use {_ROUTES}.")


async def _panel(_: Request) -> Response:
    source = await run_in_threadpool(files(__package__).joinpath("panel.js").read_bytes)
    return Response(source, media_type="text/javascript")


async def _body(request: Request) -> bytes:
    return b"".join([some async for some in _pieces(request, _MOST_BYTES)])


async def _pieces(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body, as far as it is not too long.

    Raises:
        TooLargeError: Before more of it than that is kept.
    """
    size = 0
    async for some in request.stream():
        size += len(some)
        if size > most:
            raise TooLargeError(f"The body has more than {most} bytes", mend="Send less at once.")
        yield some


def _json(value: BaseModel, status: int = 200) -> Response:
    return JSONResponse(value.model_dump(mode="json"), status)


def _who(request: Request) -> str:
    """The agent that the caller's token stands for."""
    return str(getattr(request.scope[_GRANT], "name", "") or "")


def _key(request: Request) -> str:
    return request.headers.get(_KEY, "")
