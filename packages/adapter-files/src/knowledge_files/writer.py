"""Ingest and delete over a writable file port."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from pydantic import JsonValue

from knowledge_engine.citations import content_hash
from knowledge_engine.errors import (
    ConfigurationError,
    ConflictError,
    InvalidArgumentError,
    InvalidIdError,
    NotFoundError,
)
from knowledge_engine.fetch import Fetched
from knowledge_engine.frontmatter import parse_frontmatter
from knowledge_engine.fs import check_path
from knowledge_engine.models import FileInfo, IngestRequest
from knowledge_engine.passages import EXTENSIONS, not_text
from knowledge_engine.ports import FsPort, WritableFsPort
from knowledge_engine.writing import check_match, document_bytes, document_id, free_id, unsupported_kind
from knowledge_files.documents import SOURCE_URL

_ATTEMPTS = 50
# Beautiful Soup warns of XML where it finds one.
_XML_DECLARATION = re.compile(r"\A\s*<\?xml\b[^>]*>")


class DocumentWriter:
    """Turns ingest requests into files.

    Args:
        folder: Where documents without an id go; "." for the root.
        wanted: Whether a path names a document.
        fetch: Fetches a URL, guarded.
    """

    def __init__(
        self,
        fs: FsPort,
        files: WritableFsPort,
        folder: str,
        wanted: Callable[[str], bool],
        fetch: Callable[[str], Fetched],
    ) -> None:
        self._fs, self._files, self._folder, self._wanted, self._fetch = fs, files, folder, wanted, fetch
        # One at a time, so that changes of the same document's metadata need not be repeated.
        self._writing = threading.Lock()

    def store(self, request: IngestRequest) -> tuple[FileInfo, bytes]:
        """Writes the document; tells the file and its bytes.

        Raises:
            NotSupportedError, InvalidIdError, ConflictError, FetchError, ...: As `IngestingProvider.ingest` says.
        """
        if request.kind == "url":
            request = self._fetched(request)
        elif request.kind != "text":
            raise unsupported_kind(request.kind, "text, url")
        # Another process may write between our reading and our writing; only a caller's own condition is final.
        for _ in range(_ATTEMPTS if request.if_match is None else 0):
            with suppress(ConflictError), self._writing:
                return self._write(request)
        with self._writing:
            return self._write(request)

    def _write(self, request: IngestRequest) -> tuple[FileInfo, bytes]:
        if request.id is None:
            data = document_bytes(request, None)
            path, condition = self._place(request, data)
        else:
            path, condition = self._path(request.id), request.if_match
            stored = self._stored(path) if request.content is None and request.text is None else None
            data = document_bytes(request, stored)
            if stored is not None:
                check_match(request.if_match, stored)
                condition = content_hash(stored)
        if problem := not_text(data):
            raise InvalidArgumentError(problem, mend="Save the text as UTF-8.")
        return self._files.write(path, data, if_match=condition), data

    def _place(self, request: IngestRequest, data: bytes) -> tuple[str, str | None]:
        """Where a document without an id goes, and what must be there when it is written."""
        below = "" if self._folder == "." else f"{self._folder}/"
        url = request.metadata.get(SOURCE_URL)
        if isinstance(url, str):
            path = below + _page_id(request, url, lambda one: self._stored(below + one))
        else:
            # A page that was fetched is no earlier version of a text, whatever its title.
            path = below + free_id(
                request, data, lambda one: b"" if _url_of(raw := self._stored(below + one)) is not None else raw
            )
        stored = self._stored(self._path(path))
        if request.if_match is not None:
            return path, request.if_match
        return path, "" if stored is None else content_hash(stored)

    def delete(self, path: str, if_match: str | None) -> None:
        """Removes the file."""
        self._files.delete(self._path(path), if_match=if_match)

    def _path(self, path: str) -> str:
        if not self._wanted(check_path(path)):
            inside = "" if self._folder == "." else f" below {self._folder!r}"
            raise InvalidIdError(
                f"{path!r} cannot be a document here",
                mend=f"Use a path{inside} that ends in one of {', '.join(EXTENSIONS)}.",
            )
        return path

    def _stored(self, path: str) -> bytes | None:
        try:
            return self._fs.read(path)
        except NotFoundError:
            return None

    def _fetched(self, request: IngestRequest) -> IngestRequest:
        if not request.uri:
            raise InvalidArgumentError("An ingest of kind 'url' needs `uri`", mend="Pass the address to fetch.")
        page = self._fetch(request.uri)
        title, text = _as_markdown(page)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return IngestRequest(
            id=request.id,
            title=request.title or title or page.final_url,
            text=text,
            metadata={**request.metadata, SOURCE_URL: page.final_url, "fetched_at": now},
            if_match=request.if_match,
        )


def _url_of(raw: bytes | None) -> JsonValue:
    return None if raw is None else parse_frontmatter(raw).metadata.get(SOURCE_URL)


def _page_id(request: IngestRequest, url: str, stored: Callable[[str], bytes | None]) -> str:
    """As `free_id`, for a page: it is its address that tells it from others, as many have the title `Home`."""
    path = document_id(request, url.encode())
    own = f"{path.removesuffix('.md')}-{content_hash(url.encode())[:8]}.md"
    present = stored(path)
    is_other = present is not None and _url_of(present) != url
    return own if is_other or stored(own) is not None else path


def _as_markdown(page: Fetched) -> tuple[str, str]:
    """Title and markdown of a page; text that is not HTML stays as it is."""
    # Without a tag there is nothing to convert; Beautiful Soup would warn of a text that looks like a file's name.
    if "html" not in page.content_type or "<" not in page.text:
        return "", page.text
    try:
        from bs4 import BeautifulSoup
        from markdownify import MarkdownConverter
    except ImportError as error:
        raise ConfigurationError(
            "Turning HTML into markdown needs markdownify", mend="Install kpkit-files[url]."
        ) from error

    soup = BeautifulSoup(_XML_DECLARATION.sub("", page.text), "html.parser")
    title = " ".join(soup.title.get_text(" ").split()) if soup.title else ""
    for unseen in soup(["script", "style", "template", "noscript", "head"]):
        unseen.decompose()
    try:
        text = str(MarkdownConverter(heading_style="ATX").convert_soup(soup))
    except RecursionError:  # nested deeper than any honest page
        text = soup.get_text("\n")
    return title, text.strip() + "\n"
