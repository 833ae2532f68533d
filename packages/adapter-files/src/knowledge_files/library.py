"""`KnowledgeLibrary`: the hand-written documents that an app ships, held in memory and served to agents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.agent_tools.guard import never_raises
from knowledge_engine.agent_tools.rendering import Answer
from knowledge_engine.agent_tools.tools import ID_ALIASES, NO_DOCUMENT, NO_DOCUMENTS
from knowledge_engine.doc_format import Vocabulary
from knowledge_engine.errors import KnowledgeError, ProviderError, UnavailableError, wire_error
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    DocumentIssue,
    Health,
    Provenance,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.passages import MAX_PASSAGE_BYTES
from knowledge_engine.service import KnowledgeService
from knowledge_files.library_reading import DocsDir, read_shelf, whole_issue

_ID = "library"


class KnowledgeLibrary:
    """Documents of a folder, read at once and answered from memory. Needs no numpy. Any thread may use it.

    Only documents with all required keys are part of it, of equal ids the one whose path comes first. What is left
    out, and what else is wrong, stands in `warnings`. Nothing here raises: an app starts and serves whatever its
    documents are like.

    Args:
        docs_dir: A folder with `.md` and `.markdown` files at any depth, or a file port.
        vocab: For each key the values that it may have; documents with others stay, and are warned of.
    """

    def __init__(self, docs_dir: DocsDir, vocab: Vocabulary | None = None) -> None:
        self._docs_dir = docs_dir
        self._vocab = vocab
        self._loading = threading.Lock()
        self._provider = LibraryProvider(self._load_once)
        self._tools = AgentTools(KnowledgeService(self._provider))

    @property
    def provider(self) -> LibraryProvider:
        """The documents as a backend; the same one after every `load`."""
        return self._provider

    @property
    def tools(self) -> AgentTools:
        """The tools over what is loaded; the same ones after every `load`."""
        return self._tools

    def version(self) -> object:
        """Equal as long as what is loaded stays the same; None before the first load. Never waits."""
        return self._provider.state.corpus

    @property
    def warnings(self) -> list[DocumentIssue]:
        """What the last `load` found wrong, by path; each prints as one line. The caller owns the list."""
        return list(self._provider.state.warnings)

    def load(self) -> None:
        """Reads the documents, also again, to take in changes; until that is done the old ones are answered from.

        A folder that is not there, or cannot be read, is a warning; what was loaded before stays.
        """
        with self._loading:
            self._load()

    @never_raises(NO_DOCUMENTS)
    def list_docs(self, /, query: object = None, **filters: object) -> Answer:
        """Documents whose metadata fits, with a `query` the best first. As `AgentTools.list`; loads if need be."""
        return self._tools.list(query=query, **filters)

    @never_raises(NO_DOCUMENT, ID_ALIASES)
    def get_doc(self, /, doc_id: object, section: object = None) -> Answer:
        """One document, or one section of it. As `AgentTools.get`; loads if need be."""
        return self._tools.get(doc_id, section)

    def _load_once(self) -> None:
        with self._loading:
            if self._provider.state.corpus is None:
                self._load()

    def _load(self) -> None:
        before = self._provider.state
        try:
            shelf = read_shelf(self._docs_dir, self._vocab)
        except Exception as error:  # the last handler: no folder of documents may end the app
            known = error if isinstance(error, KnowledgeError) else _unforeseen(error)
            why = f"{known.problem}. {known.mend}"
            corpus = before.corpus or MemoryProvider(id=_ID)
            self._provider.state = _State(corpus, (whole_issue(known),), why)
            return
        why = ""
        if not shelf.documents and shelf.skipped:
            why = f"All {len(shelf.skipped)} files were left out: the library's warnings say why."
        corpus = MemoryProvider.of_files(shelf.documents.values(), skipped=shelf.skipped, id=_ID)
        self._provider.state = _State(corpus, tuple(shelf.issues), why)


@dataclass(frozen=True)
class _State:
    #: None before the first load.
    corpus: MemoryProvider | None = None
    warnings: tuple[DocumentIssue, ...] = ()
    #: Why there is nothing, or nothing new; for agents and operators.
    unreadable: str = ""


class LibraryProvider:
    """A library as a backend: read only, implements `IKnowledgeProvider` and `ExplainingProvider`.

    Every call answers from the documents loaded last; the first one loads them. Get it from a `KnowledgeLibrary`.
    """

    def __init__(self, load: Callable[[], None]) -> None:
        self._load = load
        #: Replaced as a whole by each load.
        self.state = _State()
        self._disposed = False

    @property
    def id(self) -> str:
        """`library`."""
        return _ID

    @property
    def capabilities(self) -> Capabilities:
        """Citations, and nothing to write: documents change in their folder."""
        return Capabilities(max_chunk_bytes=MAX_PASSAGE_BYTES)

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """See `IKnowledgeProvider.list_sources`."""
        return self._corpus().list_sources(filter=filter, limit=limit, cursor=cursor)

    def get_source(self, source_id: str) -> Source:
        """See `IKnowledgeProvider.get_source`."""
        return self._corpus().get_source(source_id)

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """See `IKnowledgeProvider.read_source`. The bytes are those that were loaded."""
        return self._corpus().read_source(source_id, span)

    def query(self, query: Query) -> QueryResult:
        """See `IKnowledgeProvider.query`. In pure Python: for some thousands of documents."""
        return self._corpus().query(query)

    def explain(self, source_id: str) -> Provenance | None:
        """See `ExplainingProvider.explain`."""
        return self._corpus().explain(source_id)

    def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`. `details["unreadable"]` says why nothing, or nothing new, was read."""
        if self._disposed:
            return Health(status="down", message=_disposed().problem)
        state = self.state
        if state.corpus is None:
            return Health(message="Nothing is loaded yet.")
        health = state.corpus.health_check().model_copy(update={"issues": state.warnings})
        if not state.unreadable:
            return health
        details = {"unreadable": state.unreadable}
        return health.model_copy(update={"status": "degraded", "message": state.unreadable, "details": details})

    def dispose(self) -> None:
        """See `IKnowledgeProvider.dispose`."""
        self._disposed = True
        self.state = _State(MemoryProvider(id=_ID))

    def _corpus(self) -> MemoryProvider:
        if self._disposed:
            raise _disposed()
        corpus = self.state.corpus
        if corpus is None:
            self._load()
            corpus = self.state.corpus
        assert corpus is not None  # every load leaves one
        return corpus


def _disposed() -> UnavailableError:
    return UnavailableError("The library was disposed of", mend="Make a new one.")


def _unforeseen(error: Exception) -> ProviderError:
    wire = wire_error(error)
    return ProviderError("Reading the documents failed", mend=wire["mend"])
