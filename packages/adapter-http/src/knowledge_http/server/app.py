"""The application: operations, mounts of extensions and the page, all behind one gate."""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec

from fastapi import FastAPI
from starlette.routing import BaseRoute

from knowledge_engine.extensions import Extensions, collect_extensions
from knowledge_engine.ports import IngestingProvider, SupersedingProvider
from knowledge_engine.service import KnowledgeService
from knowledge_http.server.access import Hosts, Tokens
from knowledge_http.server.api import Api
from knowledge_http.server.calls import Call
from knowledge_http.server.gate import Gate, nothing_there
from knowledge_http.server.mounting import MountedRoute, lifespans, make_mounted
from knowledge_http.server.openapi import describe
from knowledge_http.server.operations import Operation
from knowledge_http.server.querying import TOOLS
from knowledge_http.server.rendering import Answer, json_answer, json_bytes
from knowledge_http.server.routing import ApiRoute
from knowledge_http.server.table import OPERATIONS
from knowledge_http.settings import HttpSettings

_PAGE = "knowledge_http.page"
_RESERVED = ("/v1", "/page", "/healthz", "/readyz", "/metrics", "/openapi.json", "/llms.txt", *TOOLS)
_log = logging.getLogger("knowledge_http")


def create_app(
    services: Mapping[str, KnowledgeService],
    settings: HttpSettings | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> FastAPI:
    """An ASGI application that serves one or several services.

    One keeps its own ids; several are one, with ids `name:source_id`, and `?backend=name` asks one alone. Routes that a
    host adds are behind the same tokens.

    Args:
        services: By the names of their backends. Not disposed of.
        environ: What extensions may read; by default the process's environment.

    Raises:
        ConfigurationError: When a setting, a token or a backend's name is wrong.
    """
    settings = settings or HttpSettings()
    extensions = collect_extensions(services, environ=environ, reserved=_RESERVED)
    for problem in extensions.problems:
        _log.error("an extension is left out", extra={"problem": problem.problem, "mend": problem.mend})
    api = Api(services, settings, extensions)
    tokens, hosts = Tokens(settings), Hosts(settings)
    mounted = make_mounted(extensions.mounts)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with lifespans(mounted):
            yield
        api.close()

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.knowledge = api
    page = _page_routes(extensions)
    operations = (*OPERATIONS, *_documents(app), *(() if page else (_index(),)))
    # In front of what FastAPI has: it would take `/v1/sources/a%2Fb` apart.
    app.router.routes[:0] = [
        ApiRoute(api, operations),
        *map(MountedRoute, mounted),
        *page,
    ]
    app.router.default = nothing_there
    document = describe(_possible(services), with_tokens=settings.has_tokens, several=len(services) > 1)
    app.openapi = lambda: document  # type: ignore[method-assign]
    public = {"/", "/page/", *(each.path for each in operations if each.public)}
    app.add_middleware(Gate, api=api, tokens=tokens, hosts=hosts, public=public)
    return app


def _possible(services: Mapping[str, KnowledgeService]) -> list[Operation]:
    """The operations that every backend has; one that lacks them would refuse whatever it is sent."""
    providers = [service.provider for service in services.values()]
    lacking = set()
    if not all(isinstance(provider, IngestingProvider) for provider in providers):
        lacking |= {"putSource", "ingestSource", "deleteSource"}
    if not all(isinstance(provider, SupersedingProvider) for provider in providers):
        lacking.add("supersedeSource")
    return [operation for operation in OPERATIONS if operation.name not in lacking]


def _page_routes(extensions: Extensions) -> list[BaseRoute]:
    """The page at `/`, if it is there: routes for `/` and below `/page/`, which hold no document."""
    if find_spec(_PAGE) is None:
        return []
    routes: list[BaseRoute] = importlib.import_module(_PAGE).page_routes(extensions)
    return routes


def _documents(app: FastAPI) -> tuple[Operation, ...]:
    rendered: list[Answer] = []

    async def openapi(_: Call) -> Answer:
        if not rendered:
            rendered.append(Answer(200, json_bytes(app.openapi())))
        return rendered[0]

    return (Operation("GET", "/openapi.json", "openapi", "What there is", openapi, public=True),)


def _index() -> Operation:
    async def index(_: Call) -> Answer:
        return json_answer(
            {"api": "/openapi.json", "llms": "/llms.txt", "sources": "/v1/sources", "query": "/v1/query"}
        )

    return Operation("GET", "/", "index", "Where to begin", index, public=True)
