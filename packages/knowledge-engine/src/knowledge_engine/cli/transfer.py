"""Commands that move whole libraries: `import`, `export`."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from knowledge_engine.cli.output import copyable, note, one_line, write, write_json
from knowledge_engine.cli.progress import progress
from knowledge_engine.cli.root import EXIT_ERROR, EXIT_PARTIAL
from knowledge_engine.cli.session import Session, Text, json_option
from knowledge_engine.errors import (
    BusyError,
    ConfigurationError,
    KnowledgeError,
    NotFoundError,
    NotSupportedError,
    ProviderError,
    StorageFullError,
    UnavailableError,
    wire_error,
)
from knowledge_engine.fs import LocalFs
from knowledge_engine.fs.paths import native
from knowledge_engine.models import MAX_PAGE, IngestRequest, Source
from knowledge_engine.passages import EXTENSIONS
from knowledge_engine.ports import BulkIngestingProvider, IKnowledgeProvider, IngestingProvider

if TYPE_CHECKING:
    from knowledge_engine.models import FileInfo

#: What is so for the next document too.
_FATAL = (BusyError, StorageFullError, UnavailableError)


class _Known(NamedTuple):
    """What is stored under an id."""

    content_hash: str
    uri: str


@dataclass
class _Outcome:
    """What came of a run: ids, each list in order."""

    done: dict[str, list[str]]
    unchanged: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)

    def failed(self, name: str, error: KnowledgeError) -> None:
        self.errors.append({"name": one_line(name), **wire_error(error)})

    @property
    def count(self) -> int:
        """How many documents were looked at so far."""
        return self.unchanged + sum(map(len, self.done.values()))

    @property
    def exit_code(self) -> int:
        if not self.errors:
            return 0
        return EXIT_PARTIAL if self.count else EXIT_ERROR

    def show(self, session: Session, *, dry_run: bool = False) -> None:
        if session.json:
            write_json({**self.done, "unchanged": self.unchanged, "skipped": self.skipped, "errors": self.errors})
        else:
            if dry_run:
                for word, ids in self.done.items():
                    for each in ids:
                        write(f"{word}: {copyable(each)}")
            counts = [*((word, len(ids)) for word, ids in self.done.items()), ("unchanged", self.unchanged)]
            write(", ".join(f"{number:,} {word}" for word, number in counts) + (" (dry run)" if dry_run else ""))
        for left_out in self.skipped:
            note(f"skipped: {left_out['path']} ({left_out['reason']})")
        for failure in self.errors:
            note(f"knowledge: {failure['name']}: {failure['message']}")


@click.command("import")
@click.argument("folder", metavar="DIR", type=Text())
@click.option("--into", metavar="NAME|URL", type=Text(), required=True, help="Where to, such as sqlite:///kb.db.")
@click.option(
    "--as",
    "label",
    metavar="LABEL",
    type=Text(),
    help="What these documents are known by at the next import, should DIR have moved. Default: made of its path.",
)
@click.option("--keep", is_flag=True, help="Delete nothing.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@json_option
@click.pass_context
def import_folder(ctx: click.Context, folder: str, into: str, label: str | None, keep: bool, dry_run: bool) -> None:
    """Store all documents of the folder DIR under their paths: those that are new or changed.

    Documents that an earlier import brought from DIR, and that are not there any more, are deleted; what was stored in
    another way stays. Exit code 2 when some could not be read or stored.
    """
    session = ctx.find_object(Session) or Session()
    session.backend = into
    if not os.path.isdir(native(folder)):  # noqa: PTH112 - in the encoding of the system
        raise ConfigurationError(f"{folder!r} is not a folder", mend="Name the folder that holds the documents.")
    provider = session.service().provider
    if not (provider.capabilities.writable and isinstance(provider, IngestingProvider)):
        raise NotSupportedError(f"{session.typed} cannot be written", mend="Name another backend after --into.")
    run = _Import(LocalFs(folder), _mark(folder, label), provider, provider, dry_run)
    with progress(session, lambda: run.outcome.count):
        run.run(delete=not keep)
    run.outcome.show(session, dry_run=dry_run)
    ctx.exit(run.outcome.exit_code)


def _mark(folder: str, label: str | None) -> str:
    """What the `uri` of a document begins with that was imported from there."""
    if label is None:
        real = os.path.realpath(native(folder))
        # The path itself is nobody's business.
        label = f"{os.path.basename(real)}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:12]}"  # noqa: PTH119
        label = label.encode("utf-8", "replace").decode()
    return f"import:{label}/"


class _Import:
    """One run of `import`."""

    def __init__(
        self, fs: LocalFs, mark: str, provider: IKnowledgeProvider, writer: IngestingProvider, dry_run: bool
    ) -> None:
        self._fs, self._mark, self._provider, self._writer, self._dry_run = fs, mark, provider, writer, dry_run
        self._known = {source.id: _known(provider, source) for source in _sources(provider)}
        self._there: set[str] = set()
        #: What cannot be told to be gone: folders that could not be looked into.
        self._unseen: list[str] = []
        #: Whether each request that is under way is for a new document.
        self._kinds: deque[str] = deque()
        self.outcome = _Outcome({"new": [], "changed": [], "deleted": []})

    def run(self, *, delete: bool) -> None:
        try:
            for source in self._stored():
                kind = self._kinds.popleft()
                if source.status == "failed":
                    code, _, message = (source.error or "").partition(": ")
                    failure = {"name": one_line(source.id), "code": code, "message": message, "mend": "", "id": ""}
                    self.outcome.errors.append(failure)
                else:
                    self.outcome.done[kind].append(source.id)
            if delete:
                self._delete()
        except _FATAL as error:
            # What is done is done, and told.
            self.outcome.failed("import", error)

    def _stored(self) -> Iterator[Source]:
        if self._dry_run:
            yield from (Source(id=str(each.id), origin="text", uri="", title="", bytes=0) for each in self._requests())
        elif isinstance(self._provider, BulkIngestingProvider):
            yield from self._provider.ingest_many(self._requests())
        else:
            for request in self._requests():
                try:
                    yield self._writer.ingest(request)
                except _FATAL:
                    raise
                except KnowledgeError as error:
                    self._kinds.popleft()
                    self.outcome.failed(request.id or "", error)

    def _requests(self) -> Iterator[IngestRequest]:
        """For each file that is not stored as it is."""
        for info in self._fs.walk():
            if info.problem:
                self._skip(info)
                continue
            if not info.path.lower().endswith(EXTENSIONS):
                continue
            self._there.add(info.path)
            try:
                raw = self._fs.read(info.path)
            except KnowledgeError as error:
                self.outcome.failed(info.path, error)
                continue
            known = self._known.get(info.path)
            if known is not None and known.content_hash == hashlib.sha256(raw).hexdigest():
                self.outcome.unchanged += 1
                continue
            self._kinds.append("changed" if known else "new")
            yield IngestRequest(
                id=info.path,
                content=raw,
                uri=self._mark + info.path,
                # If someone else stores it meanwhile, theirs is not lost.
                if_match=known.content_hash if known else "",
            )

    def _skip(self, info: FileInfo) -> None:
        self._unseen.append(info.path)
        if info.problem == "unreadable":
            self.outcome.failed(info.path, ProviderError("It may not be read", mend="Ask for the right to read it."))
        else:
            self.outcome.skipped.append({"path": one_line(info.path), "reason": info.problem})

    def _delete(self) -> None:
        for source_id, known in sorted(self._known.items()):
            if not known.uri.startswith(self._mark) or source_id in self._there or self._is_unseen(source_id):
                continue
            try:
                if not self._dry_run:
                    self._writer.delete_source(source_id, if_match=known.content_hash)
                self.outcome.done["deleted"].append(source_id)
            except NotFoundError:
                continue  # someone else was faster
            except _FATAL:
                raise
            except KnowledgeError as error:
                self.outcome.failed(source_id, error)

    def _is_unseen(self, source_id: str) -> bool:
        return any(path == "." or source_id == path or source_id.startswith(f"{path}/") for path in self._unseen)


@click.command("export")
@click.argument("backend", metavar="BACKEND", type=Text())
@click.argument("folder", metavar="DIR", type=Text())
@json_option
@click.pass_context
def export_folder(ctx: click.Context, backend: str, folder: str) -> None:
    """Write all documents of BACKEND into the folder DIR, byte for byte, each under its id.

    Files that hold the same bytes are left alone, and so are all that are no documents of BACKEND. Exit code 2 when
    some could not be written.
    """
    session = ctx.find_object(Session) or Session()
    session.backend = backend
    provider = session.service().provider
    outcome = _Outcome({"written": []})
    with progress(session, lambda: outcome.count):
        _export(provider, LocalFs(folder), outcome)
    if not outcome.count and not outcome.errors:
        session.check_readable()
    outcome.show(session)
    ctx.exit(outcome.exit_code)


def _export(provider: IKnowledgeProvider, fs: LocalFs, outcome: _Outcome) -> None:
    for source in _sources(provider):
        try:
            content = provider.read_source(source.id).content
        except NotFoundError:
            continue  # deleted meanwhile
        try:
            if _present(fs, source.id) == content:
                outcome.unchanged += 1
                continue
            fs.write(source.id, content)
            outcome.done["written"].append(source.id)
        except ConfigurationError:
            raise
        except KnowledgeError as error:
            outcome.failed(source.id, error)
            if isinstance(error, _FATAL):
                return


def _present(fs: LocalFs, path: str) -> bytes | None:
    try:
        return fs.read(path)
    except KnowledgeError:
        return None  # whether it can be written is for the writer to say


def _sources(provider: IKnowledgeProvider) -> Iterator[Source]:
    cursor, last = None, ""
    while True:
        page = provider.list_sources(limit=MAX_PAGE, cursor=cursor)
        yield from page.sources
        if page.next_cursor is None:
            return
        if not page.sources or page.sources[-1].id <= last:
            raise ProviderError("The backend's list of sources does not end", mend="Report it to its makers.")
        cursor, last = page.next_cursor, page.sources[-1].id


def _known(provider: IKnowledgeProvider, source: Source) -> _Known:
    told = source.content_hash
    return _Known(told or hashlib.sha256(provider.read_source(source.id).content).hexdigest(), source.uri)
