"""What one document shows of itself: frontmatter, sections, lengths, snippets, links to be looked up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from knowledge_engine.catalogue import fold
from knowledge_engine.doc_format import (
    REQUIRED_KEYS,
    Vocabulary,
    body_issues,
    id_issues,
    required_issues,
    summary_issues,
    vocabulary_issues,
)
from knowledge_engine.frontmatter import key_lines
from knowledge_engine.markdown import Section, scan
from knowledge_engine.models import DocumentIssue, Metadata, Severity
from knowledge_engine.passages import Document, not_text, parse_document
from knowledge_engine.validation.asking import SnippetChecks
from knowledge_engine.validation.lines import LineCounter
from knowledge_engine.validation.links import Pending, pending_links
from knowledge_engine.validation.snippets import snippets

#: A larger file is no document for agents; only its frontmatter is looked at.
MAX_BYTES: Final = 1 << 20
#: Issues of one document that are told.
MAX_ISSUES: Final = 100
# One more shows that there are more.
_MOST: Final = MAX_ISSUES + 1

#: What only a search can live with.
_SEVERITY: Final[dict[str, Severity]] = {
    "encoding-invalid": "error",
    "fence-unclosed": "error",
    "frontmatter-missing": "error",
}
#: The keys may be there, but nobody can read them.
_HIDES_KEYS: Final = frozenset(
    {"frontmatter-not-mapping", "frontmatter-too-large", "frontmatter-unclosed", "yaml-syntax", "yaml-too-deep"}
)
_BEGIN: Final = f"Begin it with `---`, the keys {', '.join(REQUIRED_KEYS)}, and `---`."


class Rules(NamedTuple):
    """What every document of a library has to keep."""

    vocab: Vocabulary
    #: Titles of `## ` sections.
    sections: Sequence[str]
    snippets: SnippetChecks


class Findings(NamedTuple):
    """One document: what others may name it by, and what is wrong with it."""

    title: str
    metadata: Metadata
    issues: list[DocumentIssue]
    links: list[Pending]


def examine(path: str, raw: bytes, rules: Rules, *, whole: bool = True) -> Findings:
    """Looks at a document's bytes; at its frontmatter alone, where these are only the beginning of the file."""
    if reason := not_text(raw):
        problem = issue("encoding-invalid", path, 1, reason.rstrip("."), "Save it as UTF-8.")
        return Findings("", {}, [problem], [])
    document = parse_document(path, raw)
    if not whole:
        size = f"{MAX_BYTES >> 20} MiB"
        found = [issue("body-too-long", path, 1, f"The file is over {size}; its text is not looked at", "Split it.")]
        found += [each for each in document.issues if each.code not in {"encoding-invalid", "fence-unclosed"}]
        return Findings(document.title, document.metadata, [*found, *_keys(document, raw, rules)], [])
    found = [
        *(_judged(each) for each in document.issues),
        *_keys(document, raw, rules),
        *_sections(document, raw, rules.sections),
        *islice(_snippets(document, raw, rules.snippets), _MOST),
    ]
    links, broken = pending_links(path, raw, document)
    return Findings(document.title, document.metadata, [*found, *broken], links)


def capped(found: Sequence[DocumentIssue]) -> list[DocumentIssue]:
    """The issues of one document; of very many the errors first, and then a word about the rest."""
    if len(found) <= MAX_ISSUES:
        return list(found)
    kept = sorted(found, key=lambda each: (each.severity != "error", *order(each)))[:MAX_ISSUES]
    path, worst = kept[0].path, kept[0].severity
    return [*kept, issue("too-many-issues", path, 0, "More is wrong than is listed", "Mend these first.", worst)]


def order(each: DocumentIssue) -> tuple[str, int, str, str]:
    """How issues are sorted: by path, line and code."""
    return each.path, each.line, each.code, each.message


def issue(code: str, path: str, line: int, problem: str, mend: str, severity: Severity = "error") -> DocumentIssue:
    """An issue of that document."""
    return DocumentIssue(code=code, severity=severity, path=path, line=line, message=problem, mend=mend)


def _judged(found: DocumentIssue) -> DocumentIssue:
    """An issue of the parsers, as severe as it is in a library."""
    severity = _SEVERITY.get(found.code, found.severity)
    mend = _BEGIN if found.code == "frontmatter-missing" else found.mend
    return found.model_copy(update={"severity": severity, "mend": mend})


def _keys(document: Document, raw: bytes, rules: Rules) -> list[DocumentIssue]:
    """What is wrong with the metadata; lines are looked for only where something is."""
    if not document.metadata and any(each.code in _HIDES_KEYS for each in document.issues):
        return []
    found = _of_keys(document, rules.vocab, {})
    return _of_keys(document, rules.vocab, key_lines(raw)) if found else []


def _of_keys(document: Document, vocab: Vocabulary, lines: Mapping[str, int]) -> list[DocumentIssue]:
    path, metadata = document.source_id, document.metadata
    return [
        *required_issues(path, metadata, lines),
        *id_issues(path, metadata, lines),
        *summary_issues(path, metadata, lines),
        *vocabulary_issues(path, metadata, vocab, lines),
    ]


def _sections(document: Document, raw: bytes, required: Iterable[str]) -> Iterator[DocumentIssue]:
    path, sections = document.source_id, document.sections
    body = raw[document.body_start :]
    first = LineCounter(raw).at(document.body_start)
    yield from body_issues(path, len(body.decode("utf-8", "replace")), first)
    titles = {fold(each.title) for each in sections if each.level == 2}
    if not titles:
        mend = "Divide it by lines such as `## Overview`: single sections can be asked for."
        yield issue("no-sections", path, first, "The document has no `## ` section", mend, "warning")
    for title in required:
        if fold(title) not in titles:
            problem = f"There is no section {title[:80]!r}"
            yield issue("missing-section", path, first, problem, f"Add a line `## {title[:80]}` and text below it.")
    yield from islice(_repeated(path, sections), _MOST)
    yield from islice(_empty(path, raw, sections), _MOST)


def _repeated(path: str, sections: Sequence[Section]) -> Iterator[DocumentIssue]:
    seen: dict[tuple[int, int, str], int] = {}
    for each in sections:
        key = (each.parent, each.level, fold(each.title))
        if each.level and (first := seen.setdefault(key, each.line)) != each.line:
            problem = f"The heading {each.title[:80]!r} stands on line {first} already"
            mend = "Give it another title: asked for by title, only the first one is found."
            yield issue("duplicate-heading", path, each.line, problem, mend, "warning")


def _empty(path: str, raw: bytes, sections: Sequence[Section]) -> Iterator[DocumentIssue]:
    for at, each in enumerate(sections):
        # What is nested in a section comes right behind it.
        filled = at + 1 < len(sections) and sections[at + 1].level > each.level
        if each.level and not filled and not raw[each.body_start : each.end].strip():
            mend = "Write what belongs there, or take the heading out."
            yield issue("empty-section", path, each.line, f"Nothing stands below {each.title[:80]!r}", mend, "warning")


def _snippets(document: Document, raw: bytes, checks: SnippetChecks) -> Iterator[DocumentIssue]:
    if b"```" not in raw and b"~~~" not in raw:
        return
    for snippet in snippets(raw, scan(raw, document.body_start).fences):
        yield from checks.issues(document.source_id, snippet)
