"""Ingest and delete over a writable file port."""

from __future__ import annotations

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
from knowledge_engine.fs import check_path
from knowledge_engine.models import IngestRequest
from knowledge_engine.passages import EXTENSIONS, not_text
from knowledge_engine.ports import FsPort, WritableFsPort
from knowledge_engine.writing import check_match, document_bytes, document_id, slugify, unsupported_kind
from knowledge_files.documents import SOURCE_URL

_ATTEMPTS = 20


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

    def store(self, request: IngestRequest) -> str:
        """Writes the document and gives its path.

        Raises:
            NotSupportedError, InvalidIdError, ConflictError, FetchError, ...: As `IngestingProvider.ingest` says.
        """
        if request.kind == "url":
            request = self._fetched(request)
        elif request.kind != "text":
            raise unsupported_kind(request.kind, "text, url")
        for attempt in range(_ATTEMPTS):
            try:
                return self._write(request)
            except ConflictError:
                # Someone else wrote between our reading and our writing; only a caller's own condition is final.
                if request.if_match is not None or attempt + 1 == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _write(self, request: IngestRequest) -> str:
        only_metadata = request.id is not None and request.content is None and request.text is None
        stored = self._stored(self._path(str(request.id))) if only_metadata else None
        data = document_bytes(request, stored)
        if problem := not_text(data):
            raise InvalidArgumentError(problem, mend="Save the text as UTF-8.")
        path = self._path(request.id if request.id is not None else self._new_path(request, data))
        condition = request.if_match
        if stored is not None:
            check_match(request.if_match, stored)
            condition = content_hash(stored)
        self._files.write(path, data, if_match=condition)
        return path

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

    def _new_path(self, request: IngestRequest, data: bytes) -> str:
        path = document_id(request, data)
        return path if self._folder == "." else f"{self._folder}/{path}"

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
        title = request.title or title or page.final_url
        now = datetime.now(UTC).isoformat(timespec="seconds")
        metadata = {**request.metadata, SOURCE_URL: page.final_url, "fetched_at": now}
        slug = request.id or self._new_path(request.model_copy(update={"title": slugify(title)}), page.content)
        return IngestRequest(id=slug, title=title, text=text, metadata=metadata, if_match=request.if_match)


def _as_markdown(page: Fetched) -> tuple[str, str]:
    """Title and markdown of a page; text that is not HTML stays as it is."""
    if "html" not in page.content_type:
        return "", page.text
    try:
        from bs4 import BeautifulSoup
        from markdownify import MarkdownConverter
    except ImportError as error:
        raise ConfigurationError(
            "Turning HTML into markdown needs markdownify", mend="Install kpkit-files[url]."
        ) from error

    soup = BeautifulSoup(page.text, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for unseen in soup(["script", "style", "template", "noscript", "head"]):
        unseen.decompose()
    return title, str(MarkdownConverter(heading_style="ATX").convert_soup(soup)).strip() + "\n"
