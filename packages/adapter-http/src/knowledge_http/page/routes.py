"""Serves the page's files, each with the policy that holds the browser to what the page needs."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

from starlette.routing import BaseRoute, Match, NoMatchFound

from knowledge_engine.extensions import Extensions
from knowledge_http.errors import MethodNotAllowedError
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
    "default-src 'none'; script-src 'self' blob:; style-src 'self'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
)
_MEDIA = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
#: What a panel's frame loads. It has no origin, so that everything is another's to it.
_FOR_FRAMES = ("panel.html", "panel.js", "panel.css")


class PageRoute(BaseRoute):
    """The page's files, as one route.

    Args:
        answers: By path.
    """

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self._answers = {path.encode(): answer for path, answer in answers.items()}

    def matches(self, scope: Any) -> tuple[Match, Any]:
        """See `BaseRoute.matches`."""
        known = scope["type"] == "http" and raw_path(scope) in self._answers
        return (Match.FULL if known else Match.NONE), {}

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002 - there is nothing to receive
        """See `BaseRoute.handle`."""
        scope[ROUTE] = "/page"
        if scope["method"] not in ("GET", "HEAD"):
            allowed = "GET, HEAD"
            raise MethodNotAllowedError(
                f"{scope['method'][:20]} is nothing to do there", mend=f"Use {allowed}.", headers={"allow": allowed}
            )
        answer = self._answers[raw_path(scope)]
        tag = dict(answer.headers)[b"etag"].decode()
        given = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"if-none-match"), None)
        if is_known(given, tag.strip('"')):
            answer = not_modified(tag)
        await send_answer(answer, send, head=scope["method"] == "HEAD")

    def url_path_for(self, name: str, /, **_: Any) -> Any:
        """See `BaseRoute.url_path_for`: these have no names."""
        raise NoMatchFound(name, {})


def page_routes(extensions: Extensions) -> list[BaseRoute]:
    """Routes for `/` and below `/page/`. All is read now, and kept: it is small."""
    answers = {"/page/panels.json": _tagged(json_answer({"panels": _panels(extensions)}))}
    for file in files("knowledge_http.page").joinpath("static").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _MEDIA:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            answers[path] = _tagged(Answer(200, file.read_bytes(), _MEDIA[suffix], _headers(file.name)))
    return [PageRoute(answers)]


def _headers(name: str) -> tuple[tuple[bytes, bytes], ...]:
    if name not in _FOR_FRAMES:
        return ((b"content-security-policy", PAGE_POLICY.encode()),)
    return (
        (b"content-security-policy", PANEL_POLICY.encode()),
        (b"x-frame-options", b"SAMEORIGIN"),
        (b"cross-origin-resource-policy", b"cross-origin"),
    )


def _tagged(answer: Answer) -> Answer:
    tag = sha256(answer.body).hexdigest()[:32]
    return answer._replace(
        headers=(*answer.headers, (b"etag", f'"{tag}"'.encode()), (b"cache-control", b"no-cache")),
    )


def _panels(extensions: Extensions) -> list[dict[str, str]]:
    """The panels that have an application: its prefix is all that they may ask of the server."""
    found = []
    for panel in extensions.page_panels.values():
        prefix = next((each for each in extensions.mounts if panel.module.startswith(f"{each}/")), None)
        if prefix is not None:
            found.append({"name": panel.name, "title": panel.title, "module": panel.module, "prefix": prefix})
    return found
