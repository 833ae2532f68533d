"""From a folder to the documents of a library: which are part of it, and what is wrong with the others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from knowledge_engine.corpus_issues import corpus_issues
from knowledge_engine.doc_format import (
    MAX_ID_CHARS,
    Vocabulary,
    check_vocabulary,
    missing_keys,
    required_issues,
    vocabulary_issues,
)
from knowledge_engine.errors import ConfigurationError, KnowledgeError, NotFoundError
from knowledge_engine.frontmatter import key_lines
from knowledge_engine.fs import LocalFs
from knowledge_engine.models import DocumentIssue, Severity, Skipped
from knowledge_engine.passages import Document, not_text, parse_document
from knowledge_engine.ports import FsPort
from knowledge_files.folders import why_unreadable
from knowledge_files.looking import Looker

EXTENSIONS = (".md", ".markdown")
#: Of a document; the same as for `validate_library`.
MAX_BYTES = 1 << 20
DocsDir = str | os.PathLike[str] | FsPort


@dataclass
class Shelf:
    """What a folder holds."""

    #: The library's documents with their bytes, by path.
    documents: dict[str, tuple[Document, bytes]] = field(default_factory=dict)
    issues: list[DocumentIssue] = field(default_factory=list)
    #: What is not part of the library.
    skipped: list[Skipped] = field(default_factory=list)

    def add(self, path: str, raw: bytes, vocab: Vocabulary) -> None:
        """Takes in a file: as a document, if it is text and has the required keys."""
        if problem := not_text(raw):
            self.leave_out(path, "encoding-invalid", problem, "Save it as UTF-8.")
            return
        if len(raw) > MAX_BYTES:
            # Parsing takes as long as asking for it, and no agent reads so much.
            self.leave_out(path, "body-too-long", f"Left out: the file is over {MAX_BYTES >> 20} MiB", "Split it.")
            return
        document = parse_document(path, raw)
        self.issues += [one for one in document.issues if one.severity != "info"]
        if missing := missing_keys(document.metadata):
            first = required_issues(path, document.metadata, key_lines(raw))[0]
            keys, are = ", ".join(missing), "is" if len(missing) == 1 else "are"
            written = ", ".join(f"`{key}: ...`" for key in missing)
            mend = f"Write {written} with a text into the frontmatter."
            self.leave_out(path, first.code, f"Left out: {keys} {are} required and not there as text", mend, first.line)
            return
        if len(str(document.metadata["id"])) > MAX_ID_CHARS:
            problem = f"Left out: the id has more than {MAX_ID_CHARS} characters"
            self.leave_out(path, "invalid-id", problem, "Give it a short one.", key_lines(raw).get("id", 1))
            return
        if vocabulary_issues(path, document.metadata, vocab):
            self.issues += vocabulary_issues(path, document.metadata, vocab, key_lines(raw))
        self.documents[path] = (document, raw)

    def leave_out(self, path: str, code: str, problem: str, mend: str, line: int = 0) -> None:
        """Notes what is not part of the library."""
        self.issues.append(_issue(code, "error", path, problem, mend, line))
        self.skipped.append(Skipped(path=path, reason=code, message=problem))

    def compare(self) -> None:
        """Looks at the documents together. Of equal ids all but the first path are left out."""
        for one in corpus_issues({path: document.metadata for path, (document, _) in self.documents.items()}):
            if one.code == "duplicate-id":
                del self.documents[one.path]
                self.leave_out(one.path, one.code, f"Left out: {one.message}", one.mend)
            else:
                self.issues.append(one)


def read_shelf(docs_dir: DocsDir, vocab: Vocabulary | None) -> Shelf:
    """Reads all documents of a folder.

    Raises:
        ConfigurationError: When there is no such folder, or it cannot be read.
        KnowledgeError: As the file port does in its walk.
    """
    fs = _opened(docs_dir)
    shelf = Shelf()
    vocab = vocab or {}
    try:
        check_vocabulary(vocab)
    except ConfigurationError as error:
        shelf.issues.append(whole_issue(error))
        vocab = {}
    look = Looker(fs, ".", _is_document).walk()
    for one in look.problems:
        shelf.leave_out(one.path, one.reason, one.message.rstrip("."), "Mend it, or take it away.")
    for path, raw in _read(fs, sorted(look.files), shelf):
        shelf.add(path, raw, vocab)
    shelf.compare()
    if not shelf.documents and not shelf.skipped:
        shelf.issues.append(_issue("no-documents", "warning", ".", "There are no documents", "Put .md files there."))
    shelf.issues.sort(key=lambda one: (one.path, one.line, one.code))
    return shelf


def whole_issue(error: KnowledgeError) -> DocumentIssue:
    """What is wrong with the whole folder."""
    return _issue(error.code, "error", ".", error.problem, error.mend)


def _opened(docs_dir: DocsDir) -> FsPort:
    if isinstance(docs_dir, str | os.PathLike):
        fs = LocalFs(docs_dir)
        if why := why_unreadable(docs_dir, "The folder of documents"):
            problem, _, mend = why.partition(": ")
            raise ConfigurationError(problem, mend=mend[:1].upper() + mend[1:])
        return fs
    if isinstance(docs_dir, FsPort):
        return docs_dir
    raise ConfigurationError(f"docs_dir is a {type(docs_dir).__name__}", mend="Give the path of a folder.")


def _read(fs: FsPort, paths: Iterable[str], shelf: Shelf) -> Iterable[tuple[str, bytes]]:
    for path in paths:
        try:
            raw = fs.read(path)
        except NotFoundError:
            continue  # it vanished since the walk
        except KnowledgeError as error:
            shelf.leave_out(path, error.code, error.problem, error.mend)
        else:
            yield path, raw


def _is_document(path: str) -> bool:
    return path.lower().endswith(EXTENSIONS)


def _issue(code: str, severity: Severity, path: str, problem: str, mend: str, line: int = 0) -> DocumentIssue:
    return DocumentIssue(code=code, severity=severity, path=path, line=line, message=problem, mend=mend)
