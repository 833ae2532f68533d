"""A source as text: from a file, or from the web with the engine's guard, tried again where that may help."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from knowledge_engine.errors import (
    BlockedAddressError,
    BlockedSchemeError,
    ConfigurationError,
    FetchError,
    TooLargeError,
)
from knowledge_engine.fetch import Fetched
from knowledge_engine.fetch import fetch_url as fetch_once
from knowledge_engine.fetch.charsets import decode
from knowledge_engine.frontmatter import parse_frontmatter
from knowledge_engine.markdown import find_links
from knowledge_okf.html_sections import split_html
from knowledge_okf.sections import Outline, split_markdown
from knowledge_okf.settings import OkfSettings

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_STATUS = re.compile(r"answered with status (\d{3})")
_HTML_NAME = re.compile(r"\.(?:x?html?)\Z", re.IGNORECASE)
_MARKDOWN_NAME = re.compile(r"\.(?:md|markdown|mdown|mkd)\Z", re.IGNORECASE)
_HTML_TEXT = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--[^>]*-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE
)
#: The first pause, in seconds; each is twice as long as the one before, up to the longest.
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0

Sleep = Callable[[float], None]


class SourceText(NamedTuple):
    """A document that concepts are made from."""

    #: What people call it: the file's name, or the URL.
    name: str
    #: Where it is on the web; empty for a file.
    url: str
    #: `html`, `markdown` or `text`.
    kind: str
    #: UTF-8 as it was stored; what came in another charset is UTF-8 here.
    raw: bytes

    @property
    def text(self) -> str:
        """Its characters."""
        return self.raw.decode("utf-8", "replace")


def is_url(source: str) -> bool:
    """Whether it is meant as a URL, of whatever scheme: one that is not fetched is no file either."""
    return _SCHEME.match(source) is not None and not os.path.lexists(source)


def fetch_url(url: str, *, settings: OkfSettings | None = None, sleep: Sleep = time.sleep, **guard: Any) -> Fetched:
    """Gets a text document from the public web.

    Network errors and the statuses 429 and 5xx are tried again, after pauses that double; other statuses are not. Each
    attempt is guarded anew: every redirect and every address is checked, and the connection goes to what was checked.

    Args:
        url: http or https.
        settings: Limits.
        sleep: Waits for so many seconds.
        guard: As of `knowledge_engine.fetch.fetch_url` (`resolve`, `address_ok`, ...).

    Raises:
        BlockedSchemeError, BlockedAddressError: Before any connection is made.
        TooLargeError: Over the limit of bytes, decompressed.
        FetchError: When no attempt succeeded.
    """
    limits = settings or OkfSettings()
    pause = _FIRST_PAUSE_S
    for attempt in range(limits.max_retries + 1):
        try:
            return fetch_once(url, max_bytes=limits.max_body_size, timeout_s=limits.request_timeout, **guard)
        except (BlockedSchemeError, BlockedAddressError):
            raise
        except FetchError as error:
            if attempt == limits.max_retries or not _may_pass(error):
                raise
            sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
    raise AssertionError("each attempt returns or raises")


def _may_pass(error: FetchError) -> bool:
    """Whether the same request may succeed later."""
    status = _STATUS.search(error.problem)
    if status:
        return status[1] == "429" or status[1].startswith("5")
    # Network errors come with the error that they were made of; what a server said clearly does not.
    return error.__cause__ is not None or "in time" in error.problem


def read_source(source: str | os.PathLike[str], *, settings: OkfSettings | None = None, **fetching: Any) -> SourceText:
    """The text of a URL or a file.

    Raises:
        FetchError: It cannot be fetched or read, or is no text.
        TooLargeError: It is over the limit of bytes.
        BlockedSchemeError, BlockedAddressError: See `fetch_url`.
    """
    name = os.fspath(source)
    limits = settings or OkfSettings()
    if isinstance(source, str) and is_url(name):
        fetched = fetch_url(name, settings=limits, **fetching)
        return _fetched(fetched)
    raw = _read_file(name, limits.max_body_size)
    kind = _kind_of(name, raw)
    return SourceText(Path(name).name, "", kind, _as_utf8(raw, "text/html" if kind == "html" else "text/plain"))


def _fetched(fetched: Fetched) -> SourceText:
    kind = "text"
    path = unquote(urlsplit(fetched.final_url).path)
    if "html" in fetched.content_type:
        kind = "html"
    elif "markdown" in fetched.content_type or _MARKDOWN_NAME.search(path):
        kind = "markdown"
    elif fetched.content_type == "text/plain":
        kind = _kind_of(path, fetched.content)
    raw = fetched.content if _is_utf8(fetched.content) and fetched.charset == "utf-8" else fetched.text.encode()
    return SourceText(fetched.final_url, fetched.final_url, kind, raw)


def _read_file(name: str, most: int) -> bytes:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FetchError(f"{name!r} is no file", mend="Name a file, or a URL.")
            raw = file.read(most + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "no file can have that name"
        raise FetchError(f"{name!r} cannot be read: {why}", mend="Name a file that can be read, or a URL.") from error
    if len(raw) > most:
        raise TooLargeError(
            f"{name!r} is over the limit of {most:,} bytes", mend="Raise KNOWLEDGE_MAX_BODY_SIZE, or split the file."
        )
    if b"\0" in raw[:8192] and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FetchError(f"{name!r} is no text", mend="Convert it to HTML, markdown or text first.")
    return raw


def _kind_of(name: str, raw: bytes) -> str:
    if _HTML_NAME.search(name):
        return "html"
    if _MARKDOWN_NAME.search(name):
        return "markdown"
    return "html" if _HTML_TEXT.match(raw[:4096]) else "text"


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _as_utf8(raw: bytes, content_type: str) -> bytes:
    """The bytes themselves if they are UTF-8, so that places in them stay true."""
    return raw if _is_utf8(raw) else decode(raw, content_type)[1].encode()


def split_source(source: SourceText) -> Outline:
    """The sections of a source: by HTML headings, else by those of markdown, else one.

    Raises:
        ConfigurationError: For a source of another kind.
    """
    if source.kind not in ("html", "markdown", "text"):
        raise ConfigurationError(f"There is no source of the kind {source.kind!r}", mend="Use html, markdown or text.")
    if source.kind == "html":
        outline = split_html(source.raw, base=source.url)
        if any(section.level for section in outline.sections) or b"<" in source.raw:
            return outline
    block = parse_frontmatter(source.raw)
    title = block.metadata.get("title")
    outline = split_markdown(source.raw, block.body_start, title if isinstance(title, str) else "")
    if not any(section.level for section in outline.sections):
        by_tags = split_html(source.raw, base=source.url, title=outline.title)
        if any(section.level for section in by_tags.sections):
            return by_tags
    return _absolute(outline, source.url) if source.url else outline


def _absolute(outline: Outline, base: str) -> Outline:
    """The outline of markdown from the web, with its links leading where they did there."""
    return outline._replace(
        sections=tuple(
            section._replace(text=_with_absolute_links(section.text, base)) if "](" in section.text else section
            for section in outline.sections
        )
    )


def _with_absolute_links(text: str, base: str) -> str:
    raw = text.encode()
    out, at = [], 0
    for link in find_links(raw):
        start, end = link.span
        place = raw.rfind(f"]({link.target}".encode(), max(start, at), end)
        if place < 0 or link.target.startswith("#"):
            continue
        try:
            target = urljoin(base, link.target)
        except ValueError:
            continue
        out += [raw[at : place + 2], target.encode()]
        at = place + 2 + len(link.target.encode())
    return b"".join([*out, raw[at:]]).decode()
