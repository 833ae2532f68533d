"""Whether a bundle is one (conformant), and whether it is in good order (clean)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from knowledge_engine.frontmatter import body_start, parse_frontmatter
from knowledge_engine.markdown import find_links, scan
from knowledge_engine.models import DocumentIssue, Severity
from knowledge_okf.concept_files import ConceptFile
from knowledge_okf.models import DEPRECATED
from knowledge_okf.names import is_concept_id
from knowledge_okf.reading import INDEX, LOG, PROPOSED, Bundle, load_bundle
from knowledge_okf.serializer import Clock, now

#: Issues of these codes break the format; all others are about good order.
NOT_CONFORMANT: Final = frozenset({"frontmatter-missing", "missing-type", "index-form", "log-form"})
#: Versions whose bundles are read.
VERSIONS: Final = frozenset({"0.1", "0.2", "0.3"})
_OLD_INDEX: Final = frozenset({"index", "bundle"})
_ITEM = re.compile(r"[*-] +\[(?:[^\\\[\]]|\\.)*\]\([^()]*\)(?: [-–—:] .*)?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class BundleCheck(NamedTuple):
    """What is wrong with a bundle, in order of path and line."""

    issues: tuple[DocumentIssue, ...]
    concepts: int

    @property
    def conformant(self) -> bool:
        """Whether every program that reads the format can read it."""
        return not any(issue.severity == "error" for issue in self.issues)

    @property
    def clean(self) -> bool:
        """Whether nothing at all is to be said."""
        return not self.issues


def validate_bundle(folder: str | os.PathLike[str], *, clock: Clock = now) -> BundleCheck:
    """Checks a bundle of version 0.1 or 0.2; what 0.3 adds is no fault.

    Raises:
        NotFoundError, ConfigurationError: See `load_bundle`.
    """
    bundle = load_bundle(folder)
    links = _Links(bundle)
    found = [*bundle.issues]
    for file in (*bundle.concepts.values(), *bundle.broken):
        found += _of_format(file)
        if file.concept is not None:
            found += _of_concept(file, clock().astimezone(UTC))
    found += _duplicates(bundle.concepts.values())
    for path, raw in bundle.files.items():
        name = path.rpartition("/")[2]
        if name == INDEX:
            found += _of_index(path, raw)
        elif name == LOG:
            found += _of_log(path, raw)
        elif path.endswith(f".md{PROPOSED}"):
            found.append(_issue("proposal", path, 0, "New text waits for a person", "Take it over, then delete it."))
        if path.endswith(".md"):
            found += links.of(path, raw)
    found += links.orphans()
    unique = dict.fromkeys(found)
    return BundleCheck(
        tuple(sorted(unique, key=lambda issue: (issue.path, issue.line, issue.code, issue.message))),
        len(bundle.concepts),
    )


def _issue(code: str, path: str, line: int, message: str, mend: str) -> DocumentIssue:
    severity: Severity = "error" if code in NOT_CONFORMANT else "warning"
    return DocumentIssue(code=code, severity=severity, path=path, line=line, message=message, mend=mend)


def _of_format(file: ConceptFile) -> Iterator[DocumentIssue]:
    for issue in file.issues:
        if issue.code in NOT_CONFORMANT or (issue.severity == "error" and file.concept is None):
            yield issue
        else:
            yield issue.model_copy(update={"severity": "warning"})


def _of_concept(file: ConceptFile, at: datetime) -> Iterator[DocumentIssue]:
    concept, path = file.concept, file.path
    assert concept is not None
    stem = path.rpartition("/")[2].removesuffix(".md")
    own = parse_frontmatter(file.raw).metadata.get("id")
    if isinstance(own, str) and own != stem:
        yield _issue("id-mismatch", path, 1, f"The id {own[:80]!r} is not the file's name", "Make them equal.")
    if not is_concept_id(stem):
        yield _issue("invalid-id", path, 1, f"{stem[:80]!r} is no id", "Use a to z, digits and hyphens.")
    if not concept.title.strip():
        yield _issue("missing-title", path, 1, "The concept has no title", "Write `title: ...`.")
    if not concept.description.strip():
        yield _issue("empty-description", path, 1, "The concept has no description", "Write one sentence.")
    if concept.status not in ("draft", "stable", DEPRECATED):
        yield _issue(
            "unknown-status", path, 1, f"The status {concept.status[:40]!r} is none", "Use draft, stable or deprecated."
        )
    yield from _of_time(concept.stale_after, path, at)
    if concept.generated is not None and not any(_counts(each.at, concept.generated.at) for each in concept.verified):
        yield _issue("unverified", path, 1, "Nobody has verified what was generated", "Check it, and add `verified`.")


def _of_time(stale_after: str, path: str, at: datetime) -> Iterator[DocumentIssue]:
    if not stale_after:
        return
    when = _time(stale_after)
    if when is None:
        yield _issue("invalid-time", path, 1, f"{stale_after[:40]!r} is no time", "Write ISO 8601 with an offset.")
    elif at >= when:
        yield _issue(
            "stale", path, 1, f"The concept is stale since {stale_after[:40]}", "Check it, and set a later time."
        )


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _counts(verified: str, generated: str) -> bool:
    """Whether a verification is of the present text; where a time is missing, it is taken to be."""
    left, right = _time(verified), _time(generated)
    return left is None or right is None or left >= right


def _duplicates(files: Iterable[ConceptFile]) -> Iterator[DocumentIssue]:
    """Concepts of one name, or of one title and text."""
    names: dict[str, str] = {}
    texts: dict[tuple[str, str], str] = {}
    for file in sorted(files, key=lambda one: one.path):
        concept = file.concept
        assert concept is not None
        stem = file.path.rpartition("/")[2].lower()
        if stem in names:
            yield _issue("duplicate-id", file.path, 1, f"{names[stem]!r} has that name too", "Rename one of them.")
        names.setdefault(stem, file.path)
        text = (concept.title.casefold(), " ".join(concept.body.split()))
        if concept.body.strip() and text in texts:
            yield _issue("duplicate-concept", file.path, 1, f"{texts[text]!r} says the same", "Remove one of them.")
        texts.setdefault(text, file.path)


def _of_index(path: str, raw: bytes) -> Iterator[DocumentIssue]:
    block = parse_frontmatter(raw)
    metadata = block.metadata
    root = path == INDEX
    if isinstance(metadata.get("type"), str) and metadata["type"] in _OLD_INDEX:
        return  # the form of older bundles
    allowed = {"okf_version", "title", "description", "license"} if root else set()
    if metadata and not set(metadata) <= allowed:
        yield _issue("index-form", path, 1, "An index has no frontmatter but the root's okf_version", "Take it out.")
    version = metadata.get("okf_version")
    if root and version is None:
        yield _issue("okf-version", path, 1, "The bundle does not say its version", 'Write `okf_version: "0.2"`.')
    elif root and str(version) not in VERSIONS:
        yield _issue("okf-version", path, 1, f"The version {str(version)[:20]!r} is not known", "Use 0.2.")
    sections = scan(raw, block.body_start).sections
    for section in sections:
        text = raw[section.body_start : section.end].decode("utf-8", "replace")
        if section.level > 1 or (section.level == 0 and text.strip()):
            line = section.line
            yield _issue("index-form", path, line, "An index has `# ` headings with lists below", "Write it so.")
        for number, each in enumerate(text.split("\n")):
            if each.lstrip().startswith(("* ", "- ")) and not _ITEM.fullmatch(each.strip()):
                at = section.line + 1 + number
                yield _issue("index-item", path, at, "An item of an index is a link", "Write `* [Title](url) - text`.")
                break


def _of_log(path: str, raw: bytes) -> Iterator[DocumentIssue]:
    days = []
    for section in scan(raw, body_start(raw)).sections:
        if section.level == 2 and _DAY.fullmatch(section.title.strip()):
            days.append(section.title.strip())
        elif section.level > 1:
            yield _issue(
                "log-form", path, section.line, "A log has a heading `## YYYY-MM-DD` for each day", "Write it so."
            )
    if days != sorted(days, reverse=True):
        yield _issue("log-order", path, 1, "The log's days are not in order", "Put the newest on top.")


class _Links:
    """Which files lead to which."""

    def __init__(self, bundle: Bundle) -> None:
        self._files = bundle.files
        self._ids: Mapping[str, ConceptFile] = bundle.concepts
        self._folders = {
            "/".join(parts[:count])
            for path in bundle.files
            for parts in [path.split("/")]
            for count in range(len(parts))
        }
        self._led_to: set[str] = set()

    def of(self, path: str, raw: bytes) -> Iterator[DocumentIssue]:
        """Links of a file that lead nowhere in the bundle."""
        start = body_start(raw)
        seen = set()
        for link in find_links(raw, start):
            target = _resolved(path, link.target)
            if target is None or link.target in seen:
                continue
            seen.add(link.target)
            found = self._find(target)
            if found is None:
                line = raw.count(b"\n", 0, link.span[0]) + 1
                yield _issue("dead-link", path, line, f"The link to {link.target[:120]!r} leads nowhere", "Mend it.")
            elif found != path:
                self._led_to.add(found)
        file = next((each for each in [self._ids.get(path.rpartition("/")[2][:-3])] if each), None)
        for each in file.concept.see_also if file and file.concept and file.path == path else ():
            if each not in self._ids:
                yield _issue("dead-link", path, 1, f"see_also names {each[:80]!r}, which is not there", "Take it out.")

    def _find(self, target: str) -> str | None:
        for name in (target, f"{target}.md", f"{target}/{INDEX}".lstrip("/")):
            if name in self._files:
                return name
        return target if target in self._folders else None

    def orphans(self) -> Iterator[DocumentIssue]:
        """Concepts that nothing leads to: no index, no other concept."""
        for file in self._ids.values():
            if file.path not in self._led_to:
                yield _issue(
                    "orphan", file.path, 1, "Nothing leads to the concept", "List it in the index of its folder."
                )


def _resolved(path: str, target: str) -> str | None:
    """The path below the root that a link means; None for one that leads elsewhere."""
    parts = urlsplit(target) if "[" not in target.partition("/")[0] else None
    if parts is None or parts.scheme or parts.netloc or not parts.path:
        return None
    name = unquote(parts.path)
    folder = "" if name.startswith("/") else path.rpartition("/")[0]
    out: list[str] = folder.split("/") if folder else []
    for part in name.strip("/").split("/"):
        if part == ".." and not out:
            return "../"
        if part == "..":
            out.pop()
        elif part not in ("", "."):
            out.append(part)
    return "/".join(out)
