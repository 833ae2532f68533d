"""One example of a law: it opens what is tested, draws values, and remembers both for the message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hypothesis import strategies as st

from knowledge_engine.contract.asking import texts
from knowledge_engine.contract.corpora import CROWD_QUERIES, corpora, crowded, queries
from knowledge_engine.contract.law import shown
from knowledge_engine.models import Query
from knowledge_engine.ports import (
    ExplainingProvider,
    FsPort,
    IKnowledgeProvider,
    RefreshableProvider,
    SupersedingProvider,
    WritableFsPort,
)

T = TypeVar("T")
Subject = TypeVar("Subject")

#: What a law can need; laws whose needs are not met are left out.
POWERS = {
    "corpus": "an `open_provider` that serves any documents, not a fixed corpus",
    "writable": "`capabilities.writable`",
    "refreshable": "a RefreshableProvider",
    "explaining": "an ExplainingProvider",
    "superseding": "a SupersedingProvider",
    "reopen": "an `Opened` with `reopen`",
    "outside": "an `Opened` with `outside`",
    "reference-ranking": "the reference ranking (`engine` is 'bm25', or `reference_ranking=True`)",
    "writable-fs": "a WritableFsPort",
}


@dataclass(frozen=True)
class Opened:
    """A provider with what only its factory knows; `open_provider` may yield it instead of the provider.

    `reopen` opens a second provider over the same storage, as another process would. `outside` puts a document there
    (None removes it) behind the provider's back.
    """

    provider: IKnowledgeProvider
    reopen: Callable[[], IKnowledgeProvider] | None = None
    outside: Callable[[str, bytes | None], None] | None = None


OpenProvider = Callable[[Mapping[str, bytes]], AbstractContextManager[Any]]
OpenFs = Callable[[Mapping[str, bytes]], AbstractContextManager[Any]]


class _Case(Generic[Subject]):
    """Draws and opens for one example. Everything is closed at the end."""

    def __init__(
        self,
        open_subject: Callable[[Mapping[str, bytes]], AbstractContextManager[Any]],
        data: st.DataObject,
        corpus: Mapping[str, bytes] | None = None,
        reference: OpenProvider | None = None,
    ) -> None:
        self._open, self._data, self._stack = open_subject, data, ExitStack()
        self._reference = reference
        self.corpus = corpus
        self.example: dict[str, object] = {}
        self.docs: Mapping[str, bytes] = {}

    def __enter__(self) -> _Case[Subject]:
        return self

    def __exit__(self, *details: Any) -> None:
        self._stack.__exit__(*details)

    def draw(self, strategy: st.SearchStrategy[T], name: str) -> T:
        """A value for this example; it stands in the message if the law is broken."""
        value = self._data.draw(strategy, label=name)
        key, number = name, 2
        while key in self.example:
            key, number = f"{name} {number}", number + 1
        self.example[key] = value
        return value

    def pick(self, values: Any, name: str) -> Any:
        """One of some values."""
        return self.draw(st.sampled_from(list(values)), name)

    def told(self) -> str:
        """The example, a value a line."""
        return "\n".join(f"{name} = {shown(value, 2000)}" for name, value in self.example.items()) or "(none needed)"

    def _documents(self, docs: Mapping[str, bytes] | None) -> Mapping[str, bytes]:
        if docs is not None:
            self.example.setdefault("documents", dict(docs))
        elif self.corpus is not None:
            docs = self.corpus
        else:
            docs = self.draw(corpora(), "documents")
        return docs

    def _enter(self, docs: Mapping[str, bytes]) -> Any:
        return self._stack.enter_context(self._open(docs))


class ProviderCase(_Case[IKnowledgeProvider]):
    """An example of a law about providers."""

    opened: Opened

    def open(self, docs: Mapping[str, bytes] | None = None) -> IKnowledgeProvider:
        """A provider over these documents; by default over some that are drawn, or over the fixed corpus."""
        given = self._documents(docs)
        self.opened = _opened(self._enter(given))
        # What is no text among the files of a live backend is listed by none.
        self.docs = given if docs is not None or self.corpus is None else texts(given)
        return self.opened.provider

    def crowd(self) -> tuple[IKnowledgeProvider, str]:
        """A provider, and a question that many of its passages answer."""
        provider = self.open(self.draw(crowded(), "documents") if self.corpus is None else None)
        asked = queries(self.docs) if self.corpus is not None else st.sampled_from(CROWD_QUERIES)
        return provider, self.draw(asked, "query")

    def open_reference(self) -> IKnowledgeProvider:
        """What answers must be equal to, over the documents of the last `open`."""
        assert self._reference is not None, "only laws of parity have a reference"
        return _opened(self._stack.enter_context(self._reference(self.docs))).provider

    def reopen(self) -> IKnowledgeProvider:
        """Another provider over the storage of the last `open`."""
        assert self.opened.reopen is not None, "laws that reopen say that they need to"
        provider = self.opened.reopen()
        self._stack.callback(provider.dispose)
        return provider


class FsCase(_Case[FsPort]):
    """An example of a law about file ports."""

    def open(self, docs: Mapping[str, bytes] | None = None) -> Any:
        """A port over these files; by default over some that are drawn."""
        self.docs = self._documents(docs)
        return self._enter(self.docs)


def _opened(value: Any) -> Opened:
    return value if isinstance(value, Opened) else Opened(value)


def provider_powers(
    open_provider: OpenProvider, corpus: Mapping[str, bytes] | None, reference_ranking: bool | None
) -> frozenset[str]:
    """What a provider can do, found out by opening one."""
    with open_provider({"probe.md": b"probe"} if corpus is None else corpus) as value:
        opened = _opened(value)
        provider = opened.provider
        if reference_ranking is None:
            reference_ranking = False
            with suppress(Exception):  # a query that fails breaks laws; here it only cannot be asked
                reference_ranking = provider.query(Query(query="probe", top_k=1)).engine == "bm25"
        found = {
            "corpus": corpus is None,
            "writable": provider.capabilities.writable,
            "refreshable": isinstance(provider, RefreshableProvider),
            "explaining": isinstance(provider, ExplainingProvider),
            "superseding": isinstance(provider, SupersedingProvider),
            "reopen": opened.reopen is not None,
            "outside": opened.outside is not None,
            "reference-ranking": reference_ranking,
        }
    return frozenset(name for name, has in found.items() if has)


def fs_powers(open_fs: OpenFs) -> frozenset[str]:
    """What a file port can do."""
    with open_fs({"probe.md": b"probe"}) as fs:
        return frozenset({"writable-fs"}) if isinstance(fs, WritableFsPort) else frozenset()
