"""Ingest and delete over a writable file port."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime

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
from knowledge_engine.models import FileInfo, IngestRequest, Metadata
from knowledge_engine.passages import EXTENSIONS, not_text
from knowledge_engine.ports import FsPort, WritableFsPort
from knowledge_engine.writing import check_match, document_bytes, document_id, unsupported_kind
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
        for attempt in range(_ATTEMPTS):
            try:
                with self._writing:
                    return self._write(request)
            except ConflictError:
                # Another process wrote between our reading and our writing; only a caller's own condition is final.
                if request.if_match is not None or attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

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
        """Where a document without an id goes, and what must be there when it is written.

        Titles can have one slug (`A/B`, `a b`), and pages one title: a document of that name which is another one
        keeps its place, and ours gets a name with a hash.
        """
        url = request.metadata.get(SOURCE_URL)
        path = document_id(request, str(url).encode() if url else data)
        path = self._path(path if self._folder == "." else f"{self._folder}/{path}")
        if not url and not request.title:
            return path, request.if_match
        own_name = f"{path[: -len('.md')]}-{content_hash(str(url or request.title).encode())[:8]}.md"
        for name in (own_name, path):
            stored = self._stored(name)
            if stored is not None and _is_same(request, parse_frontmatter(stored).metadata):
                return name, request.if_match if request.if_match is not None else content_hash(stored)
        free = path if stored is None else own_name
        return free, request.if_match if request.if_match is not None else ""

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


def _is_same(request: IngestRequest, metadata: Metadata) -> bool:
    """Whether a stored document is an earlier version of the requested one."""
    url = request.metadata.get(SOURCE_URL)
    return metadata.get(SOURCE_URL) == url and (bool(url) or metadata.get("title") == request.title)


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
