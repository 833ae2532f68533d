"""Links of a document, and the documents of the corpus that they lead to."""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from knowledge_engine.catalogue import Catalogue
from knowledge_engine.errors import InvalidIdError, NotFoundError
from knowledge_engine.markdown import Link, find_links
from knowledge_engine.models import ByteSpan
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.service.results import Loaded, ResolvedLink

#: So many relative targets are looked up one by one; for more, all sources are listed.
MAX_LOOKED_UP = 64
#: Links of one document that are given; the rest is left out.
MAX_LINKS = 5_000

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_WITHOUT_LINKS = (".txt", ".yaml", ".yml", ".json")


def resolved_links(
    loaded: Loaded, provider: IKnowledgeProvider, catalogue: Callable[[], Catalogue]
) -> tuple[ResolvedLink, ...]:
    """The links in order. `catalogue` is asked only when names have to be looked up, or very many paths."""
    source_id = loaded.source.id
    if source_id.lower().endswith(_WITHOUT_LINKS):
        return ()
    links = find_links(loaded.raw, loaded.document.body_start)[:MAX_LINKS]
    paths = {path for link in links for path in link_paths(link, source_id)}
    if len(paths) > MAX_LOOKED_UP:
        known = {path for path in paths if catalogue().get(path)}
    else:
        known = {path for path in paths if _exists(provider, path)}
    return tuple(
        ResolvedLink(
            kind=link.kind,
            target=link.target,
            text=link.text,
            span=ByteSpan(start=link.span[0], end=link.span[1]),
            source_id=_destination(link, source_id, known, catalogue),
            embed=link.embed,
        )
        for link in links
    )


def _destination(link: Link, source_id: str, known: set[str], catalogue: Callable[[], Catalogue]) -> str | None:
    for path in link_paths(link, source_id):
        if path in known:
            return path
    if link.kind != "wiki":
        return None
    name = link.target.partition("#")[0].strip()
    if not name:
        return source_id
    found = named(name, catalogue())
    return found[0] if len(found) == 1 else None


def named(name: str, names: Catalogue) -> tuple[str, ...]:
    """Ids of the documents that a wiki link of that name may mean; it leads somewhere only if there is one."""
    return names.resolve(name) or names.titled(name) or names.resolve(f"{name}.md")


def is_external(target: str) -> bool:
    """Whether a markdown link's target has a scheme, or names a host."""
    return bool(_SCHEME.match(target.strip()))


def link_paths(link: Link, source_id: str) -> tuple[str, ...]:
    """The ids that a markdown link may mean. A colon may be part of a name, or end that of a federated backend."""
    backend, colon, inner = source_id.partition(":")
    found = [_path(link, source_id)]
    if colon and "/" not in backend and (path := _path(link, inner)):
        found.insert(0, f"{backend}:{path}")
    return tuple(filter(None, found))


def _path(link: Link, source_id: str) -> str:
    """The id that a markdown link means, beside the document or below the root; "" where it means none."""
    target = link.target.partition("#")[0].strip()
    if link.kind == "wiki" or is_external(target):
        return ""
    target = unquote(target.partition("?")[0])
    if not target:
        return source_id
    path = normpath(target.lstrip("/") or "." if target.startswith("/") else join(dirname(source_id), target))
    return "" if path == ".." or path.startswith("../") else path


def _exists(provider: IKnowledgeProvider, path: str) -> bool:
    try:
        return provider.get_source(path).id == path
    except (NotFoundError, InvalidIdError):
        return False
