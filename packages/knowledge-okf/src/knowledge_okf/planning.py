"""What an update changes, thought out before anything is written: what persons wrote stays."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from knowledge_engine.errors import InvalidArgumentError, InvalidFrontmatterError
from knowledge_engine.frontmatter import parse_frontmatter, update_frontmatter
from knowledge_engine.models import ByteSpan
from knowledge_okf.concept_files import ConceptFile, Target, render
from knowledge_okf.extraction import Taken, Task, producer
from knowledge_okf.indexes import Listed, render_indexes
from knowledge_okf.kept import Kept, sha256
from knowledge_okf.models import DEPRECATED, STABLE, Concept, SourceRef, as_extra, from_extra
from knowledge_okf.reading import INDEX, PROPOSED, Bundle
from knowledge_okf.replies import quote_span
from knowledge_okf.serializer import hashes, listed

Kind = Literal[
    "added", "changed", "proposed", "deprecated", "restored", "removed", "moved", "linked", "index", "log", "kept"
]
_OWN_KINDS = frozenset({"index", "log", "kept"})
#: The key that tells that a concept was deprecated here, and not by a person.
MARK: Final = "deprecated"


class Change(NamedTuple):
    """One file that an update writes, or takes away."""

    kind: Kind
    path: str
    old: bytes | None
    new: bytes | None


def diff_of(changes: Iterable[Change]) -> str:
    """The changes as a unified diff."""
    out: list[str] = []
    for change in changes:
        before, after = (_lines(data) for data in (change.old, change.new))
        one, other = ("/dev/null" if data is None else change.path for data in (change.old, change.new))
        found = difflib.unified_diff(before, after, one, other, lineterm="")
        out.extend(line if line.endswith("\n") else f"{line}\n" for line in found)
    return "".join(out)


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else data.decode("utf-8", "replace").split("\n")


class State:
    """The concepts of a bundle while an update is thought out."""

    def __init__(self, bundle: Bundle, kept: Kept) -> None:
        self.bundle, self.kept = bundle, kept
        self.files: dict[str, ConceptFile] = dict(bundle.concepts)
        #: By path; the last change of a file counts.
        self.changes: dict[str, Change] = {}

    def known_sections(self) -> set[str]:
        """Hashes of the sections that were read by now."""
        return {*self.kept.sections, *(ref.section_hash for _, ref in self._ours() if ref.section_hash)}

    def _ours(self) -> Iterable[tuple[ConceptFile, SourceRef]]:
        for file in self.files.values():
            ref = _made_from(file)
            if ref is not None:
                yield file, ref

    def taken(self, live: Collection[str]) -> Taken:
        """What new concepts have to respect. `live` are hashes of the source's sections as they are now."""
        free: dict[str, tuple[str, str]] = {}
        by_section: dict[str, list[str]] = {}
        for own, file in self.files.items():
            ref = _made_from(file)
            assert file.concept is not None
            if ref is not None and ref.section_hash in live:
                by_section.setdefault(ref.section_hash, []).append(own)
            elif ref is not None or _of_seed(file):
                free[own] = (ref.section if ref else "", file.concept.title)
        paths = {own: file.path for own, file in self.files.items()}
        known = {place: own for own, place in free.items()}
        return Taken(frozenset((set(self.files) - set(free)) | self._names_in_use()), known, by_section, paths)

    def _names_in_use(self) -> set[str]:
        """Names of what lies there and is no concept: files without a type, links, folders; in any folder, any case."""
        concepts = {file.path for file in self.files.values()}
        paths = {*self.bundle.files, *(issue.path for issue in self.bundle.issues)} - concepts
        parts = {part for path in paths for part in path.split("/") if part.lower().endswith(".md")}
        return {part[: -len(".md")].lower() for part in parts}

    def put(self, concept: Concept) -> None:
        """A new text for a concept: in its place, or beside the file that a person changed."""
        old = self.files.get(concept.id)
        if old is None:
            self.files[concept.id] = ConceptFile(concept.path, b"", concept, False, ())
        elif old.edited:
            proposal = render(concept.model_copy(update={"folder": _folder(old.path)}), self.find)
            self._change("proposed", f"{old.path}{PROPOSED}", proposal)
        else:
            moved = concept.model_copy(update={"folder": _folder(old.path)})
            self.files[concept.id] = old._replace(concept=_like(moved, old.concept))

    def find(self, concept_id: str) -> Target | None:
        """What a link needs."""
        file = self.files.get(concept_id)
        return Target(file.concept.title, file.path) if file and file.concept else None

    def _change(self, kind: Kind, path: str, new: bytes | None) -> None:
        old = self.bundle.files.get(path)
        if old != new:
            self.changes[path] = Change(kind, path, old, new)

    def retire(self, tasks: Sequence[Task], fresh: Collection[str], at: str, *, prune: bool) -> None:
        """Marks what no section stands behind any more; takes it away with `prune`, if nobody changed it."""
        live = {task.hash for task in tasks}
        paths = {task.path for task in tasks}
        for own, file in list(self.files.items()):
            ref = _made_from(file)
            if ref is None or ref.section_hash in live or own in fresh:
                continue
            # A changed file keeps its old section's hash.
            if file.edited and ref.section in paths:
                continue
            if prune and not file.edited:
                del self.files[own]
                self._change("removed", file.path, None)
            else:
                self._deprecate(own, file, at)

    def _deprecate(self, own: str, file: ConceptFile, at: str) -> None:
        assert file.concept is not None
        if file.concept.status == DEPRECATED:
            return
        mark: dict[str, JsonValue] = {MARK: {"by": producer(), "at": at}}
        extra = as_extra({**from_extra(file.concept.extra), **mark})
        concept = file.concept.model_copy(update={"status": DEPRECATED, "extra": extra})
        self._restate(own, file, concept, {"status": DEPRECATED, **mark}, "deprecated")

    def restore(self, tasks: Sequence[Task]) -> None:
        """Takes the mark off whatever has its section back."""
        live = {task.hash for task in tasks}
        for own, file in list(self.files.items()):
            ref = _made_from(file)
            if ref is None or ref.section_hash not in live or file.concept is None:
                continue
            extra = from_extra(file.concept.extra)
            if file.concept.status == DEPRECATED and extra.pop(MARK, None) is not None:
                concept = file.concept.model_copy(update={"status": STABLE, "extra": as_extra(extra)})
                self._restate(own, file, concept, {"status": None, MARK: None}, "restored")

    def _restate(self, own: str, file: ConceptFile, concept: Concept, keys: dict[str, JsonValue], kind: Kind) -> None:
        if file.edited:
            try:
                raw = update_frontmatter(file.raw, keys)
            except (InvalidFrontmatterError, InvalidArgumentError):
                return  # written in a way that only its writer can change
            self._change(kind, file.path, raw)
        self.files[own] = file._replace(concept=concept)

    def move(self, tasks: Sequence[Task], raw: bytes) -> None:
        """Brings the places of concepts up to date whose sections stand elsewhere now."""
        by_hash = {task.hash: task for task in tasks}
        for own, file in self.files.items():
            ref = _made_from(file)
            task = by_hash.get(ref.section_hash) if ref else None
            if ref is None or task is None or file.edited or file.concept is None:
                continue
            span = (
                quote_span(ref.quote, task, raw)
                if ref.quote
                else ByteSpan(start=task.section.start, end=task.section.end)
            )
            if span != ref.span:
                sources = (ref.model_copy(update={"span": span}), *file.concept.sources[1:])
                self.files[own] = file._replace(concept=file.concept.model_copy(update={"sources": sources}))

    def drop_links(self, gone: Collection[str]) -> None:
        """Takes links away that lead to what is removed; not out of files that a person changed."""
        for own, file in self.files.items():
            concept = file.concept
            if concept is not None and not file.edited and any(each in gone for each in concept.see_also):
                left = tuple(each for each in concept.see_also if each not in gone)
                self.files[own] = file._replace(concept=concept.model_copy(update={"see_also": left}))

    def settle(self) -> None:
        """Works out the bytes of every file that nobody changed; a link's text follows the title that it names."""
        for own, file in self.files.items():
            if file.edited or file.concept is None:
                continue
            before = self.bundle.concepts.get(own)
            self._change(
                _kind(before.concept if before else None, file.concept), file.path, render(file.concept, self.find)
            )

    def remove(self, own: str) -> None:
        """Takes a concept away, and what was proposed for it."""
        file = self.files.pop(own)
        self._change("removed", file.path, None)
        if f"{file.path}{PROPOSED}" in self.bundle.files:
            self._change("removed", f"{file.path}{PROPOSED}", None)

    def order(self, wanted: Iterable[str]) -> list[str]:
        """All ids: those of `wanted` first, in that order, then the others as they were."""
        places = {own: place for place, own in enumerate(dict.fromkeys([*wanted, *self.kept.order]))}
        return sorted(self.files, key=lambda own: (places.get(own, len(places)), self.files[own].path))

    def index(self, title: str, order: Iterable[str]) -> dict[str, str]:
        """Changes of the indexes; gives the hashes of what they should be. One that a person changed stays."""
        entries = [_listed(self.files[own]) for own in order]
        fresh = render_indexes(title, entries)
        for path, new in fresh.items():
            old = self.bundle.files.get(path)
            if old is None or self._index_is_ours(path, old):
                self._change("index", path, new)
            elif self.kept.indexes.get(path) != sha256(new) and old != new:
                self._change("proposed", f"{path}{PROPOSED}", new)
        for path, old in self.bundle.files.items():
            if path.rpartition("/")[2] == INDEX and path not in fresh and self._index_is_ours(path, old):
                self._change("index", path, None)
        return hashes(fresh)

    def _index_is_ours(self, path: str, raw: bytes) -> bool:
        # Those of older bundles say of themselves what they are.
        kind = parse_frontmatter(raw).metadata.get("type")
        return kind in ("index", "bundle") or self.kept.indexes.get(path) == sha256(raw)


def _listed(file: ConceptFile) -> Listed:
    assert file.concept is not None
    return listed(file.concept)._replace(path=file.path)


def _made_from(file: ConceptFile) -> SourceRef | None:
    """The section that a concept was made from; None for what a person wrote."""
    sources = file.concept.sources if file.concept else ()
    return sources[0] if sources and sources[0].section_hash else None


def _of_seed(file: ConceptFile) -> bool:
    """Whether an older program made it, which left no trace of the section."""
    concept = file.concept
    return concept is not None and concept.generated is None and bool(concept.source) and not concept.sources


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _like(new: Concept, old: Concept | None) -> Concept:
    """The new concept; as it was, where only the time of its making differs."""
    if old is not None and new.model_copy(update={"generated": old.generated}) == old:
        return old
    return new


def _kind(old: Concept | None, new: Concept) -> Kind:
    if old is None:
        return "added"
    if old.status != new.status and DEPRECATED in (old.status, new.status):
        return "deprecated" if new.status == DEPRECATED else "restored"
    if old.model_copy(update={"sources": new.sources}) == new:
        # A link's text may follow another concept's title, too.
        return "linked" if old == new else "moved"
    return "linked" if old.model_copy(update={"see_also": new.see_also, "sources": new.sources}) == new else "changed"


def summary(changes: Mapping[str, Change]) -> str:
    """How many files were changed in which way, for the log."""
    counts: dict[str, int] = {}
    for change in changes.values():
        counts[change.kind] = counts.get(change.kind, 0) + 1
    return ", ".join(
        f"{count} {kind}" for kind, count in sorted(counts.items()) if kind not in ("index", "log", "kept")
    )
