"""Checking a library: every document by itself, then what they are to each other."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple
from unicodedata import normalize

from knowledge_engine.catalogue import fold
from knowledge_engine.corpus_issues import corpus_issues
from knowledge_engine.doc_format import Vocabulary, check_vocabulary
from knowledge_engine.errors import ConfigurationError, KnowledgeError, wire_error
from knowledge_engine.frontmatter import key_lines
from knowledge_engine.fs import LocalFs
from knowledge_engine.fs.paths import native
from knowledge_engine.models import ByteSpan, DocumentIssue, FileInfo, Metadata
from knowledge_engine.passages import EXTENSIONS, parse_document
from knowledge_engine.ports import FsPort
from knowledge_engine.validation.asking import SNIPPET_TIMEOUT_S, SnippetChecks, SnippetValidator
from knowledge_engine.validation.document import MAX_BYTES, MAX_ISSUES, Findings, Rules, capped, examine, issue, order
from knowledge_engine.validation.links import Card, LinkMap, Pending

_MARKDOWN: Final = EXTENSIONS[:2]
_PLAIN: Final = ".txt"
#: What nobody calls a folder or a document.
_OTHER_KINDS: Final = (*EXTENSIONS[2:], ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".pdf", ".csv", ".zip", ".py")
#: Why a walk cannot give something, and what to do.
_REASONS: Final = {
    "symlink-escape": ("The link leads out of the library", "Put what it leads to into the library."),
    "not-regular": ("It is not a regular file", "Take it out of the library."),
    "unreadable": ("It may not be read", "Give this process the right to read it."),
    "dangling-link": ("The link leads nowhere", "Take it out, or put back what it led to."),
    "link-loop": ("The link leads back to itself", "Take it out."),
    "name-encoding": ("Its name is not UTF-8", "Rename it."),
    "name-invalid": ("Its name cannot be that of a document", "Rename it, without backslashes and control characters."),
    "duplicate-name": ("Another entry has the same name", "Rename one of them."),
}


class Validation(NamedTuple):
    """What is wrong, by path, then line; each prints as one line."""

    errors: tuple[DocumentIssue, ...]
    warnings: tuple[DocumentIssue, ...]


def validate_library(
    docs_dir: str | os.PathLike[str] | FsPort,
    vocab: Vocabulary | None = None,
    snippet_validators: Mapping[str, SnippetValidator | None] | None = None,
    *,
    required_sections: Sequence[str] = (),
    snippet_timeout_s: float = SNIPPET_TIMEOUT_S,
) -> Validation:
    """Checks every document (`*.md`, `*.markdown`, not hidden) of a library.

    Args:
        docs_dir: The folder, or the files behind a port.
        vocab: For each key the values that documents may give it.
        snippet_validators: By language of the fence: functions that get the snippet's text and return what is wrong
            with it, as texts. They replace the defaults, which parse yaml, json and toml; None switches one off. They
            run in this process: on the main thread a signal ends one that takes too long, elsewhere a thread is left
            behind with it.
        required_sections: Titles of `## ` sections that every document has to have.
        snippet_timeout_s: For each snippet.

    Raises:
        ConfigurationError: When the folder is not there, or an argument cannot be used.
    """
    found, _ = check_library(
        docs_dir,
        vocab,
        snippet_validators,
        required_sections=required_sections,
        snippet_timeout_s=snippet_timeout_s,
    )
    return found


def check_library(
    docs_dir: str | os.PathLike[str] | FsPort,
    vocab: Vocabulary | None = None,
    snippet_validators: Mapping[str, SnippetValidator | None] | None = None,
    *,
    required_sections: Sequence[str] = (),
    snippet_timeout_s: float = SNIPPET_TIMEOUT_S,
    exit_after_s: float | None = None,
) -> tuple[Validation, int]:
    """As `validate_library`, with the number of documents that were checked.

    Args:
        exit_after_s: See `SnippetChecks`: for a process that does nothing else.
    """
    check_vocabulary({} if vocab is None else vocab)
    sections: object = required_sections
    if (
        not isinstance(sections, Sequence | Set)
        or isinstance(sections, str)
        or not all(isinstance(each, str) for each in sections)
    ):
        raise ConfigurationError("required_sections is no list of titles", mend="Write it like ['Overview'].")
    rules = Rules(
        vocab={} if vocab is None else vocab,
        sections=[each.lstrip("#").strip() for each in required_sections],
        snippets=SnippetChecks(snippet_validators, snippet_timeout_s, exit_after_s=exit_after_s),
    )
    return _Check(open_folder(docs_dir), rules).run()


def open_folder(docs_dir: str | os.PathLike[str] | FsPort) -> FsPort:
    """The files of a folder that is there.

    Raises:
        ConfigurationError: When it is not, naming it as it was given.
    """
    if isinstance(docs_dir, FsPort) and not isinstance(docs_dir, str | os.PathLike):
        return docs_dir
    if not isinstance(docs_dir, str | os.PathLike):
        raise ConfigurationError(f"A {type(docs_dir).__name__} is no folder", mend="Give the path of a folder.")
    given = os.fsdecode(docs_dir)
    try:
        given.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ConfigurationError(
            "The folder's name cannot be that of one", mend="Give it as the system has it."
        ) from None
    fs = LocalFs(given)
    try:
        is_folder = stat.S_ISDIR(os.stat(native(given)).st_mode)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigurationError(f"There is no folder {given!r}", mend="Name the folder of the documents.") from None
    except OSError as error:
        raise ConfigurationError(
            f"The folder {given!r} cannot be read: {error.strerror}", mend="Check its name and its rights."
        ) from error
    if not is_folder:
        raise ConfigurationError(f"{given!r} is not a folder", mend="Name the folder that the documents are in.")
    return fs


class _Check:
    """One run. Of each document only its names and its links are kept."""

    def __init__(self, fs: FsPort, rules: Rules) -> None:
        self._fs, self._rules = fs, rules
        self._issues: list[DocumentIssue] = []
        self._files: list[str] = []
        self._cards: dict[str, Card] = {}
        self._links: list[Pending] = []
        self._documents: list[str] = []

    def run(self) -> tuple[Validation, int]:
        for info in self._fs.walk():
            self._take(info)
        if not self._documents:
            mend = "Check the folder's name; documents end in .md or .markdown."
            self._issues.append(issue("no-documents", ".", 0, "The library has no documents", mend))
        self._issues += self._between()
        links = LinkMap(self._files, self._cards, is_file=self._is_file, read=self._read)
        by_path: dict[str, list[DocumentIssue]] = defaultdict(list)
        for each in chain(self._issues, links.broken(self._links)):
            if len(by_path[each.path]) <= MAX_ISSUES or each.severity == "error":
                by_path[each.path].append(each)
        found = sorted((each for issues in by_path.values() for each in capped(issues)), key=order)
        errors = tuple(each for each in found if each.severity == "error")
        warnings = tuple(each for each in found if each.severity != "error")
        return Validation(errors, warnings), len(self._documents)

    def _take(self, info: FileInfo) -> None:
        path = info.path
        name = path.lower()
        if info.problem:
            self._issues.append(_unusable(info))
            return
        self._files.append(path)
        if name.endswith(_MARKDOWN):
            self._documents.append(path)
            self._keep(path, self._examined(info))
        elif name.endswith(EXTENSIONS):
            # No document of the library, but links find it by the names that a search knows.
            raw = self._read(path) if name.endswith(_PLAIN) else b""
            document = parse_document(path, raw or b"")
            self._cards[path] = _card(document.title, document.metadata)

    def _examined(self, info: FileInfo) -> Findings:
        whole = info.size <= MAX_BYTES
        try:
            raw = self._fs.read(info.path, None if whole else ByteSpan(start=0, end=MAX_BYTES))
            return examine(info.path, raw, self._rules, whole=whole)
        except KnowledgeError as error:
            found = issue("unreadable", info.path, 0, error.problem, error.mend)
        except Exception as error:  # one document's failure never hides the others
            wire = wire_error(error)
            found = issue(wire["code"], info.path, 0, f"{wire['message']} ({wire['id']})", wire["mend"])
        return Findings("", {}, [found], [])

    def _keep(self, path: str, found: Findings) -> None:
        self._cards[path] = _card(found.title, found.metadata)
        self._issues += found.issues
        self._links += found.links

    def _between(self) -> Iterator[DocumentIssue]:
        """What is wrong with ids and paths taken together, with the lines of the ids."""
        claims = {path: self._cards[path].metadata for path in self._documents}
        of_paths = corpus_issues(claims)
        yield from (each for each in of_paths if each.code != "duplicate-id")
        for each in (*(each for each in of_paths if each.code == "duplicate-id"), *_like_ids(claims)):
            lines = key_lines(self._read(each.path) or b"")
            yield each.model_copy(update={"line": lines.get("id", 1)})

    def _read(self, path: str) -> bytes | None:
        """At most as much as was looked at."""
        with suppress(KnowledgeError):
            return self._fs.read(path, ByteSpan(start=0, end=MAX_BYTES))
        return None

    def _is_file(self, path: str) -> bool:
        with suppress(KnowledgeError):
            return bool(self._fs.stat(path).path)
        return False


def _card(title: str, metadata: Metadata) -> Card:
    return Card(title, {key: metadata[key] for key in ("id", "aliases") if metadata.get(key)})


def _unusable(info: FileInfo) -> DocumentIssue:
    """An error for what may be a document or a folder of some; a warning for what is surely neither."""
    is_other = info.path.lower().endswith(_OTHER_KINDS)
    problem, mend = _REASONS.get(info.problem, ("It cannot be used", "Take it out of the library."))
    return issue(info.problem, info.path, 0, problem, mend, "warning" if is_other else "error")


def _like_ids(claims: Mapping[str, Metadata]) -> Iterator[DocumentIssue]:
    """Ids that are not equal, and are likely to be taken for each other."""
    first: dict[str, tuple[str, str]] = {}
    for path, metadata in sorted(claims.items()):
        claimed = metadata.get("id")
        if not isinstance(claimed, str):
            continue
        if claimed in claims and claimed != path:
            problem = f"The id {claimed[:80]!r} is the path of another document"
            yield issue("duplicate-id", path, 1, problem, "Give this document an id of its own.")
        earlier, where = first.setdefault(fold(claimed), (claimed, path))
        if earlier == claimed:
            continue
        if normalize("NFC", earlier) == normalize("NFC", claimed):
            problem = f"The id is that of {where}, in another Unicode spelling"
            yield issue("duplicate-id", path, 1, problem, "Give this document an id of its own.")
        else:
            problem = f"The id differs only in letter case from {earlier[:80]!r} of {where}"
            yield issue("id-case-collision", path, 1, problem, "Rename one: people mix them up.", "warning")
