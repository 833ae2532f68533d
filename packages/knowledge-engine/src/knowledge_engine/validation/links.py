"""Links between documents: where they lead is known when all documents are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from posixpath import basename
from typing import Final, NamedTuple
from urllib.parse import unquote

from knowledge_engine.catalogue import Catalogue, fold
from knowledge_engine.fs.paths import above
from knowledge_engine.markdown import Link, Section, find_links, section_slugs
from knowledge_engine.models import DocumentIssue, Metadata, Source
from knowledge_engine.passages import EXTENSIONS, Document, parse_document
from knowledge_engine.service.links import MAX_LINKS, is_external, link_paths, named
from knowledge_engine.validation.lines import LineCounter

_MEND: Final = "Write the target as it is called, or take the link out."
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ANCHOR = re.compile(rb"<[A-Za-z][^<>]{0,200}\s(?:id|name)\s*=\s*[\"']?([^\s\"'<>]{1,200})")
_NAMED: Final = 3
_MARKDOWN: Final = EXTENSIONS[:2]


class Pending(NamedTuple):
    """A link out of a document, by its place and what it may mean."""

    source_id: str
    line: int
    #: As written, without the part behind `#`.
    target: str
    fragment: str
    wiki: bool
    #: Paths that a markdown link may mean.
    paths: tuple[str, ...]


class Card(NamedTuple):
    """What links may call a document by."""

    title: str
    #: Its frontmatter `id` and `aliases`, where it has them.
    metadata: Metadata


class Anchors:
    """What the part of a link behind `#` can name in a document: as `find_section` does, or an anchor in HTML."""

    def __init__(self, sections: Sequence[Section], raw: bytes) -> None:
        self._sections, self._raw = sections, raw

    def has(self, link: Pending) -> bool:
        """Whether the link's part behind `#`, if any, names something."""
        name = link.fragment if link.wiki else unquote(link.fragment)
        # A browser finds the top of every page; `^` marks a paragraph, not a heading.
        if not name or name.lower() == "top" or name.startswith("^"):
            return True
        # `[[document#Heading#Below it]]` names both.
        names = {fold(name), fold(name.rpartition("#")[2])} if link.wiki else {fold(name)}
        return not names.isdisjoint(self._slugs) or (link.wiki and not names.isdisjoint(self._titles))

    @cached_property
    def _slugs(self) -> frozenset[str]:
        marks = (found[1].decode("utf-8", "replace") for found in _ANCHOR.finditer(self._raw))
        return frozenset(map(fold, (*section_slugs(self._sections), *marks)))

    @cached_property
    def _titles(self) -> frozenset[str]:
        return frozenset(fold(each.title) for each in self._sections)


def pending_links(path: str, raw: bytes, document: Document) -> tuple[list[Pending], list[DocumentIssue]]:
    """Links that lead to other files; and the issues of those that lead out of the root, or nowhere in this one."""
    pending: list[Pending] = []
    issues: list[DocumentIssue] = []
    lines, anchors = LineCounter(raw), Anchors(document.sections, raw)
    for link in find_links(raw, document.body_start)[:MAX_LINKS]:
        wiki = link.kind == "wiki"
        if not wiki and is_external(link.target):
            continue
        found = _pending(path, link, lines.at(link.span[0]))
        if not found.target:
            if not anchors.has(found):
                issues.append(_no_section(found, "this document"))
        elif not wiki and not found.paths:
            problem = f"The link to {_short(found.target)} leads out of the library"
            mend = "Link to a document of the library, or to an address with its scheme."
            issues.append(_issue("link-outside", found, problem, mend))
        else:
            pending.append(found)
    return pending, issues


class LinkMap:
    """All files of a library, by what links may call them.

    Args:
        files: Every file that was listed, documents or not.
        cards: Of the documents among them.
        is_file: Whether a path that was not listed can be read all the same: a link to a listed one, say.
        read: The bytes of a document; None when they are not there any more.
    """

    def __init__(
        self,
        files: Iterable[str],
        cards: Mapping[str, Card],
        *,
        is_file: Callable[[str], bool],
        read: Callable[[str], bytes | None],
    ) -> None:
        self._files = frozenset(files)
        self._cards = cards
        self._is_file = is_file
        self._read = read
        self._named: dict[str, tuple[str, ...]] = {}

    def broken(self, links: Iterable[Pending]) -> Iterator[DocumentIssue]:
        """Issues of the links that lead nowhere."""
        inner: list[tuple[str, Pending]] = []
        for link in links:
            found = self._destinations(link)
            if len(found) == 1:
                if link.fragment and found[0].lower().endswith(_MARKDOWN):
                    inner.append((found[0], link))
            elif found:
                names = ", ".join(found[:_NAMED])
                problem = f"The link to {_short(link.target)} may mean any of {len(found)} documents: {names}"
                yield _issue("broken-link", link, problem, "Write the id or the path of the one that is meant.")
            elif not (link.wiki and _URL.match(link.target)):
                yield self._nowhere(link)
        # Each document that is linked into is read once more, so that not all their headings are kept.
        for path, group in groupby(sorted(inner), key=lambda each: each[0]):
            raw = self._read(path)
            anchors = Anchors(parse_document(path, raw).sections if raw is not None else (), raw or b"")
            for _, link in group:
                if not anchors.has(link):
                    yield _no_section(link, path)

    def _destinations(self, link: Pending) -> tuple[str, ...]:
        if not link.wiki:
            return tuple(path for path in link.paths if self._is_there(path))[:1]
        # Many links may have one name, and many documents claim it: it is looked up once.
        found = self._named.get(link.target)
        if found is None:
            found = self._named[link.target] = named(link.target, self._catalogue)
        return found or tuple(self._others.get(fold(link.target), ()))[:1]

    def _is_there(self, path: str) -> bool:
        return path == "." or path in self._files or path in self._folders or self._is_file(path)

    def _nowhere(self, link: Pending) -> DocumentIssue:
        problem = f"The link to {_short(link.target)} leads to nothing in this library"
        like = [] if link.wiki else self._by_name.get(fold(basename(link.paths[-1])), [])
        mend = f"Did you mean {', '.join(like[:_NAMED])} (from the root)? {_MEND}" if like else _MEND
        return _issue("broken-link", link, problem, mend)

    @cached_property
    def _catalogue(self) -> Catalogue:
        return Catalogue(
            Source(id=path, origin="file", uri="", title=card.title, metadata=card.metadata, bytes=0)
            for path, card in self._cards.items()
        )

    @cached_property
    def _folders(self) -> frozenset[str]:
        return frozenset(folder for path in self._files for folder in above(path))

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for path in sorted(self._files):
            out.setdefault(fold(basename(path)), []).append(path)
        return out

    @cached_property
    def _others(self) -> dict[str, list[str]]:
        """Files that are no documents, such as pictures, by path and by name."""
        out: dict[str, list[str]] = {}
        for path in sorted(self._files - self._cards.keys()):
            for name in {fold(path), fold(basename(path))}:
                out.setdefault(name, []).append(path)
        return out


def _pending(path: str, link: Link, line: int) -> Pending:
    target, _, fragment = link.target.partition("#")
    wiki = link.kind == "wiki"
    paths = () if wiki else link_paths(link, path)
    return Pending(path, line, target.strip(), fragment.strip(), wiki, paths)


def _no_section(link: Pending, where: str) -> DocumentIssue:
    problem = f"The link to {_short(f'#{link.fragment}')} names a heading that {where} does not have"
    mend = "Write it as the heading's name in lower case, with `-` for blanks." if not link.wiki else _MEND
    return _issue("broken-link", link, problem, mend)


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def _issue(code: str, link: Pending, problem: str, mend: str) -> DocumentIssue:
    return DocumentIssue(code=code, severity="error", path=link.source_id, line=link.line, message=problem, mend=mend)
