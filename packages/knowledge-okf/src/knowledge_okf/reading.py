"""A bundle as it lies on the disk, of whichever version; what is no concept is left alone and told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from knowledge_engine.errors import ConfigurationError, KnowledgeError, NotFoundError
from knowledge_engine.frontmatter import body_start, parse_frontmatter
from knowledge_engine.fs import LocalFs, can_be_path
from knowledge_engine.markdown import split_sections
from knowledge_engine.models import DocumentIssue
from knowledge_okf.concept_files import ConceptFile, Target, read_concept
from knowledge_okf.kept import Kept, read_kept
from knowledge_okf.models import Concept, KnowledgeGraph
from knowledge_okf.names import RESERVED, Names, slug

#: Ends the name of a file that holds new text for one that a person changed. It is no markdown to anybody.
PROPOSED = ".proposed"
INDEX, LOG = "index.md", "log.md"


class Bundle(NamedTuple):
    """What was found in a bundle's folder."""

    root: str
    #: Every file below the root that is not hidden, with its bytes only where they are needed: `.md`, proposals.
    files: Mapping[str, bytes]
    #: By id. Where two files have one name, the later path gets an id of all of its path.
    concepts: Mapping[str, ConceptFile]
    #: Files that should be concepts and are none.
    broken: tuple[ConceptFile, ...]
    #: Of the folder itself: links that lead out, files that cannot be read.
    issues: tuple[DocumentIssue, ...]

    def find(self, concept_id: str) -> Target | None:
        """What a link to that concept needs."""
        file = self.concepts.get(concept_id)
        return Target(file.concept.title, file.path) if file and file.concept else None

    @property
    def proposals(self) -> tuple[str, ...]:
        """Paths of new texts that wait for a person."""
        return tuple(path for path in self.files if path.endswith(f".md{PROPOSED}"))


def root_of(folder: str | os.PathLike[str]) -> str:
    """The folder as the operating system can be asked for it.

    Raises:
        ConfigurationError: When no folder can have that name.
    """
    name = os.fspath(folder)
    if not can_be_path(name):
        raise ConfigurationError("The bundle's folder has a name that none can have", mend="Name a folder.")
    return name


def load_bundle(folder: str | os.PathLike[str]) -> Bundle:
    """Reads all of a bundle. One bad file never hides the others.

    Raises:
        NotFoundError: When there is no such folder.
        ConfigurationError: When no folder can have that name, or it is a file.
    """
    root = root_of(folder)
    if not os.path.isdir(root):  # noqa: PTH112 - a Path refuses some names
        if os.path.lexists(root):
            raise ConfigurationError(f"{root!r} is no folder", mend="Name the bundle's folder.")
        raise NotFoundError(f"There is no bundle {root!r}", mend="Make one by `knowledge create INPUT OUTPUT`.")
    fs = LocalFs(root)
    files: dict[str, bytes] = {}
    issues = []
    for info in fs.walk():
        if info.problem:
            issues.append(_unreadable(info.path, info.problem))
            continue
        wanted = info.path.endswith((".md", f".md{PROPOSED}"))
        try:
            files[info.path] = fs.read(info.path) if wanted else b""
        except KnowledgeError as error:
            issues.append(_unreadable(info.path, error.code))
    concepts, broken = _concepts(files)
    return Bundle(root, files, concepts, broken, tuple(issues))


def _unreadable(path: str, problem: str) -> DocumentIssue:
    return DocumentIssue(
        code=problem,
        severity="warning",
        path=path,
        message="Not part of the bundle: it leads out of the folder or cannot be read",
        mend="Put the file itself there, or take it away.",
    )


def _concepts(files: Mapping[str, bytes]) -> tuple[dict[str, ConceptFile], tuple[ConceptFile, ...]]:
    found: dict[str, ConceptFile] = {}
    broken, twice = [], []
    for path in files:
        name = path.rpartition("/")[2]
        if not name.endswith(".md") or name[:-3] in RESERVED:
            continue
        file = read_concept(path, files[path])
        if file.concept is None:
            broken.append(file)
        elif file.concept.id in found:
            twice.append(file)
        else:
            found[file.concept.id] = file
    names = Names(found)
    for file in twice:
        assert file.concept is not None
        unique = names.take(slug(file.path.removesuffix(".md")))
        found[unique] = file._replace(concept=file.concept.model_copy(update={"id": unique}))
    return found, tuple(broken)


def read_bundle(folder: str | os.PathLike[str]) -> KnowledgeGraph:
    """The concepts of a bundle of version 0.1 or 0.2, in the order that they were written in, else that of paths.

    Files that are no concepts (no frontmatter, or no type in it) are left out; `bundle validate` lists them.

    Raises:
        NotFoundError, ConfigurationError: See `load_bundle`.
    """
    bundle = load_bundle(folder)
    kept = read_kept(bundle.root)
    return KnowledgeGraph(title=title_of(bundle, kept), concepts=tuple(ordered(bundle, kept)))


def ordered(bundle: Bundle, kept: Kept) -> list[Concept]:
    """Its concepts: those that were written together in their order, then others in the order of their paths."""
    places = {concept_id: place for place, concept_id in enumerate(kept.order)}
    found = [file.concept for file in bundle.concepts.values() if file.concept]
    return sorted(found, key=lambda one: (places.get(one.id, len(places)), one.path))


def title_of(bundle: Bundle, kept: Kept) -> str:
    """The bundle's own title: that which it was written with, else the first heading of its index."""
    if kept.known:
        return kept.title
    raw = bundle.files.get(INDEX, b"")
    title = parse_frontmatter(raw).metadata.get("title")
    if isinstance(title, str) and title.strip():
        return title
    return next((each.title for each in split_sections(raw, body_start(raw)) if each.level), "")
