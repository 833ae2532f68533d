"""Serves the page's files, each with the policy that holds the browser to what the page needs."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from starlette.routing import BaseRoute, Match, NoMatchFound

from knowledge_engine.extensions import Extensions
from knowledge_http.errors import MethodNotAllowedError
from knowledge_http.grants import Grant
from knowledge_http.server.calls import GRANT
from knowledge_http.server.content import is_known
from knowledge_http.server.rendering import Answer, json_answer, not_modified, send_answer
from knowledge_http.server.routing import ROUTE, raw_path

#: No inline script or style, nothing of other hosts, and no text of a document ever becomes markup.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
#: A panel's frame: it runs the module that the page hands it, and reaches nothing but the page.
PANEL_POLICY = (
    "default-src 'none'; script-src '{script}' blob:; style-src '{style}'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
)
_MEDIA = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
#: Not below `/page/`, where everyone may ask.
_PANELS = b"/page"
_TOLD = ("name", "title", "module", "prefix")
_INDEX, _PANEL = "index.html", "panel.html"
_IN_PANEL = ("panel.css", "panel.js")
_log = logging.getLogger("knowledge_http")


class Panel(NamedTuple):
    """A panel of a plugin, and where its application is."""

    name: str
    title: str
    module: str
    prefix: str
    scope: str


class PageRoute(BaseRoute):
    """The page's files, and its panels, as one route.

    Args:
        answers: By path, for everyone.
        panels: What is told at `/page` to those who may see it.
    """

    def __init__(self, answers: Mapping[str, Answer], panels: Sequence[Panel]) -> None:
        self._answers = {path.encode(): answer for path, answer in answers.items()}
        self._panels = panels

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """See `BaseRoute.matches`."""
        known = scope["type"] == "http" and raw_path(scope) in (*self._answers, _PANELS)
        return (Match.FULL if known else Match.NONE), {}

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002 - there is nothing to receive
        """See `BaseRoute.handle`."""
        scope[ROUTE] = "/page"
        if scope["method"] not in ("GET", "HEAD"):
            allowed = "GET, HEAD"
            raise MethodNotAllowedError(
                f"{scope['method'][:20]} is nothing to do there", mend=f"Use {allowed}.", headers={"allow": allowed}
            )
        path = raw_path(scope)
        answer = self._seen(scope[GRANT]) if path == _PANELS else _unless_known(self._answers[path], scope["headers"])
        await send_answer(answer, send, head=scope["method"] == "HEAD")

    def _seen(self, grant: Grant) -> Answer:
        """The panels that a caller may see."""
        seen = [panel for panel in self._panels if grant.allows_somewhere(panel.scope)]
        return json_answer({"panels": [{key: getattr(panel, key) for key in _TOLD} for panel in seen]})

    def url_path_for(self, name: str, /, **_: Any) -> Any:
        """See `BaseRoute.url_path_for`: these have no names."""
        raise NoMatchFound(name, {})


def page_routes(extensions: Extensions) -> list[BaseRoute]:
    """Routes for `/` and below `/page/`. All is read now, and kept: it is small."""
    found = {
        file.name: file.read_bytes()
        for file in files("knowledge_http.page").joinpath("static").iterdir()
        if file.name.endswith(tuple(_MEDIA))
    }
    frame = _frame(found.pop(_PANEL), *(found.pop(name) for name in _IN_PANEL))
    answers = {f"/page/{_PANEL}": frame}
    for name, data in found.items():
        path = "/" if name == _INDEX else f"/page/{name}"
        policy = ((b"content-security-policy", PAGE_POLICY.encode()),)
        answers[path] = Answer(200, data, _MEDIA[name[name.rfind(".") :]], policy)
    return [PageRoute({path: _tagged(answer) for path, answer in answers.items()}, _panels(extensions))]


def _frame(html: bytes, style: bytes, script: bytes) -> Answer:
    """A panel's frame, with all that it needs in it: it has no origin, so the server would give it nothing."""
    for name, data in zip(_IN_PANEL, (style, script), strict=True):
        html = html.replace(f"/*{name}*/".encode(), data)
    policy = PANEL_POLICY.format(style=_digest(style), script=_digest(script))
    headers = ((b"content-security-policy", policy.encode()), (b"x-frame-options", b"SAMEORIGIN"))
    return Answer(200, html, _MEDIA[".html"], headers)


def _digest(data: bytes) -> str:
    return f"sha256-{b64encode(sha256(data).digest()).decode()}"


def _tagged(answer: Answer) -> Answer:
    tag = sha256(answer.body).hexdigest()[:32]
    return answer._replace(
        headers=(*answer.headers, (b"etag", f'"{tag}"'.encode()), (b"cache-control", b"no-cache")),
    )


def _unless_known(answer: Answer, headers: list[tuple[bytes, bytes]]) -> Answer:
    tag = dict(answer.headers)[b"etag"].decode()
    given = next((value.decode("latin-1") for name, value in headers if name == b"if-none-match"), None)
    return not_modified(tag) if is_known(given, tag.strip('"')) else answer


def _panels(extensions: Extensions) -> list[Panel]:
    """The panels that have an application: its prefix is all that they may ask of the server."""
    found: list[Panel] = []
    for panel in extensions.page_panels.values():
        prefix = next((each for each in extensions.mounts if panel.module.startswith(f"{each}/")), None)
        if prefix is None:
            _log.error("a panel's module is below no mount", extra={"panel": panel.name, "path": panel.module})
        else:
            found.append(Panel(panel.name, panel.title, panel.module, prefix, panel.scope))
    return found
