"""Laws tried on places that exist: what a backend holds now, which is only read, and an empty place to write to."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Literal

from hypothesis import configuration
from hypothesis.errors import HypothesisException, HypothesisWarning

from knowledge_engine.contract.asking import every_source
from knowledge_engine.contract.case import Opened, OpenProvider
from knowledge_engine.contract.law import Law, Level
from knowledge_engine.contract.profiles import Profile, profile
from knowledge_engine.contract.runner import LAWS, Report, run_contract
from knowledge_engine.errors import InvalidArgumentError, KnowledgeError, ProviderError
from knowledge_engine.models import IngestRequest, Query
from knowledge_engine.ports import IKnowledgeProvider, IngestingProvider

#: The levels whose laws write nothing.
READING: tuple[Level, ...] = ("read", "filters", "citations")
PROBE = "knowledge-contract-probe.md"
#: Each example of a law asks about all documents: of more than these it gets fewer examples, in proportion.
MANY_DOCUMENTS = 200

OpenAnew = Callable[[], IKnowledgeProvider]
Place = Literal["live", "scratch", "tests"]


class UnfitPlaceError(InvalidArgumentError):
    """The place must not, or cannot, be written and emptied."""


def needs_place(law: Law) -> Place:
    """The least that a law needs: what is there, an empty place, or tests that bring a reference."""
    if law.level == "parity":
        return "tests"
    return "live" if law.level in READING and "corpus" not in law.needs else "scratch"


class Live:
    """What a backend holds now. Only laws that read are tried on it, and nothing is written.

    Each law gets a provider of its own; its examples share that one, as a large corpus is not indexed in no time.
    """

    def __init__(self, open_anew: OpenAnew) -> None:
        self._open_anew = open_anew
        self._provider: IKnowledgeProvider | None = None
        #: The documents when this was made.
        self.docs = self._documents()

    def try_laws(self, names: Iterable[str], **how: Any) -> Report:
        """Checks those of the laws that say something about this place; `how` is as in `try_laws`."""
        if how.get("max_examples") is None and len(self.docs) > MANY_DOCUMENTS:
            wanted = (how.get("depth") or profile()).max_examples
            how["max_examples"] = max(2, wanted * MANY_DOCUMENTS // len(self.docs))
        chosen = [name for name in names if needs_place(LAWS[name]) == "live"]
        reports = []
        for name in chosen:
            try:
                reports.append(try_laws(self._open, [name], corpus=self.docs, **how))
            finally:
                self._forget()
        return merged(reports)

    def changed(self) -> bool:
        """Whether the documents are others than in the beginning: then laws may have failed for no fault."""
        return self._documents() != self.docs

    def _documents(self) -> dict[str, bytes]:
        with _opened(self._open_anew) as provider, _told("The documents cannot be listed and read"):
            return {source.id: provider.read_source(source.id).content for source in every_source(provider)}

    @contextmanager
    def _open(self, _docs: Mapping[str, bytes]) -> Iterator[IKnowledgeProvider]:
        if self._provider is None:
            self._provider = self._open_anew()
        try:
            yield self._provider
        finally:
            if _is_down(self._provider):
                self._forget()

    def _forget(self) -> None:
        provider, self._provider = self._provider, None
        if provider is not None:
            _dispose(provider)


class Scratch:
    """An empty place, of which each example takes possession: it is emptied, filled, and emptied again in the end.

    Raises:
        UnfitPlaceError: When it is not empty, cannot be written, or keeps nothing.
        ProviderError: When it cannot be emptied.
    """

    def __init__(self, open_anew: OpenAnew) -> None:
        self._open_anew = open_anew
        self._stored: set[str] = set()
        with _opened(open_anew) as provider, _told("The scratch place cannot be looked at"):
            writable = provider.capabilities.writable and isinstance(provider, IngestingProvider)
            if not writable:
                raise UnfitPlaceError("The scratch place cannot be written", mend="Name one that can.")
            if held := _held(provider):
                raise UnfitPlaceError(
                    f"The scratch place is not empty, it holds {len(held)} documents",
                    mend="Name an empty one: whatever is in it would be deleted.",
                )
            health = provider.health_check()
            if health.skipped or health.details.get("other_files"):
                raise UnfitPlaceError(
                    "The scratch place holds files that are no documents", mend="Name one with nothing in it."
                )
        with _told("The scratch place cannot be written"):
            self._probe()

    def try_laws(self, names: Iterable[str], **how: Any) -> Report:
        """Checks the laws that need no more than this place; `how` is as in `try_laws`."""
        chosen = [name for name in names if needs_place(LAWS[name]) != "tests"]
        try:
            return try_laws(self._open, chosen, **how)
        finally:
            with suppress(Exception):  # `left` tells
                self._clear()

    def left(self) -> tuple[str, ...]:
        """The ids of documents that could not be removed."""
        with _opened(self._open_anew) as provider, _told("The scratch place cannot be looked at"):
            return tuple(sorted(_held(provider)))

    def _probe(self) -> None:
        self._fill({PROBE: b"probe"})
        with _opened(self._open_anew) as provider:
            kept = PROBE in _held(provider)
        self._clear()
        if not kept:
            raise UnfitPlaceError(
                "What is stored in the scratch place is gone when it is opened again", mend="Name a place that lasts."
            )

    @contextmanager
    def _open(self, docs: Mapping[str, bytes]) -> Iterator[Opened]:
        self._clear()
        self._fill(docs)
        with _opened(self._open_anew) as provider:
            yield Opened(provider, reopen=self._open_anew, outside=self._outside)

    def _fill(self, docs: Mapping[str, bytes]) -> None:
        with _opened(self._open_anew) as provider:
            for one, raw in docs.items():
                self._stored.add(one)
                provider.ingest(IngestRequest(id=one, content=raw))

    def _outside(self, one: str, raw: bytes | None) -> None:
        if raw is not None:
            self._fill({one: raw})
        else:
            with _opened(self._open_anew) as provider:
                provider.delete_source(one)

    def _clear(self) -> None:
        with _opened(self._open_anew) as provider:
            # What was stored may be there and not be listed.
            for one in {*self._stored, *_held(provider)}:
                with suppress(KnowledgeError):
                    provider.delete_source(one)
        if left := self.left():
            raise ProviderError(
                f"The scratch place cannot be emptied, {len(left)} documents stay in it",
                mend="Mend `delete_source`, and remove them by hand.",
            )
        self._stored.clear()


def try_laws(
    open_provider: OpenProvider,
    names: Iterable[str],
    *,
    corpus: Mapping[str, bytes] | None = None,
    max_examples: int | None = None,
    depth: Profile | None = None,
    progress: Callable[[Law], None] = lambda _law: None,
) -> Report:
    """As `run_contract`; a law that hypothesis cannot try counts as skipped, and nothing is left in this folder."""
    reports = []
    with _nothing_kept(), warnings.catch_warnings():
        # Live documents are large to print; that is no fault of the backend.
        warnings.simplefilter("ignore", HypothesisWarning)
        for name in names:
            progress(LAWS[name])
            try:
                reports.append(
                    run_contract(
                        open_provider,
                        corpus=corpus,
                        laws=[name],
                        max_examples=max_examples,
                        depth=depth,
                        reference_ranking=_ranks_as_reference(open_provider) if name == "reference-ranking" else False,
                    )
                )
            except HypothesisException as error:
                reports.append(Report(skipped={name: f"could not be tried ({type(error).__name__})"}))
    return merged(reports)


def merged(reports: Iterable[Report]) -> Report:
    """One report of several: a law is passed that was passed somewhere and failed nowhere."""
    every = list(reports)
    failed = tuple(failure for report in every for failure in report.failed)
    broken = {failure.law for failure in failed}
    passed = dict.fromkeys(name for report in every for name in report.passed if name not in broken)
    skipped = {name: why for report in every for name, why in report.skipped.items()}
    return Report(
        tuple(name for name in LAWS if name in passed),
        failed,
        {name: why for name, why in skipped.items() if name not in passed and name not in broken},
    )


def _ranks_as_reference(open_provider: OpenProvider) -> bool:
    try:
        with open_provider({}) as value:
            provider = value.provider if isinstance(value, Opened) else value
            return bool(provider.query(Query(query="probe", top_k=1)).engine == "bm25")
    except Exception:  # other laws tell what is wrong with its queries
        return False


@contextmanager
def _opened(open_anew: OpenAnew) -> Iterator[Any]:
    provider = open_anew()
    try:
        yield provider
    finally:
        _dispose(provider)


def _dispose(provider: IKnowledgeProvider) -> None:
    with suppress(Exception):  # that it fails is for a law to say
        provider.dispose()


def _is_down(provider: IKnowledgeProvider) -> bool:
    try:
        return provider.health_check().status == "down"
    except Exception:
        return True


def _held(provider: IKnowledgeProvider) -> set[str]:
    """Every document that is known to be there, indexed or not."""
    listed = {source.id for source in every_source(provider)}
    return listed | {skipped.path for skipped in provider.health_check().skipped}


@contextmanager
def _told(problem: str) -> Iterator[None]:
    """Any error as one of the contract's: here runs code that laws are yet to judge."""
    try:
        yield
    except KnowledgeError:
        raise
    except Exception as error:
        raise ProviderError(
            f"{problem} ({type(error).__name__}: {error})", mend="Mend that first: no law can be tried without it."
        ) from error


@contextmanager
def _nothing_kept() -> Iterator[None]:
    """Hypothesis would make a folder here, perhaps among the documents."""
    before = getattr(configuration, "__hypothesis_home_directory", None)
    with tempfile.TemporaryDirectory(prefix="knowledge-contract-") as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(before)
