"""Knowledge for agents: list, get and query documents, with citations that can be proved.

Names are imported when they are first used: importing this package reads nothing and loads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_engine.agent_tools import AgentTools as AgentTools
    from knowledge_engine.agent_tools import tool_specs as tool_specs
    from knowledge_engine.analysis import Analyzer as Analyzer
    from knowledge_engine.async_provider import AsyncProvider as AsyncProvider
    from knowledge_engine.backends import BackendListing as BackendListing
    from knowledge_engine.backends import list_knowledge_backends as list_knowledge_backends
    from knowledge_engine.backends import list_knowledge_transports as list_knowledge_transports
    from knowledge_engine.bootstrap import open_knowledge as open_knowledge
    from knowledge_engine.citations import verify_citation as verify_citation
    from knowledge_engine.errors import AmbiguousIdError as AmbiguousIdError
    from knowledge_engine.errors import BlockedAddressError as BlockedAddressError
    from knowledge_engine.errors import BlockedSchemeError as BlockedSchemeError
    from knowledge_engine.errors import BrokenPluginError as BrokenPluginError
    from knowledge_engine.errors import BusyError as BusyError
    from knowledge_engine.errors import ConfigurationError as ConfigurationError
    from knowledge_engine.errors import ConflictError as ConflictError
    from knowledge_engine.errors import FetchError as FetchError
    from knowledge_engine.errors import InvalidArgumentError as InvalidArgumentError
    from knowledge_engine.errors import InvalidCursorError as InvalidCursorError
    from knowledge_engine.errors import InvalidFilterError as InvalidFilterError
    from knowledge_engine.errors import InvalidFrontmatterError as InvalidFrontmatterError
    from knowledge_engine.errors import InvalidIdError as InvalidIdError
    from knowledge_engine.errors import InvalidQueryError as InvalidQueryError
    from knowledge_engine.errors import KnowledgeError as KnowledgeError
    from knowledge_engine.errors import NotFoundError as NotFoundError
    from knowledge_engine.errors import NotSupportedError as NotSupportedError
    from knowledge_engine.errors import ProviderError as ProviderError
    from knowledge_engine.errors import QueryTooLongError as QueryTooLongError
    from knowledge_engine.errors import ReadOnlyError as ReadOnlyError
    from knowledge_engine.errors import StorageFullError as StorageFullError
    from knowledge_engine.errors import TooLargeError as TooLargeError
    from knowledge_engine.errors import UnavailableError as UnavailableError
    from knowledge_engine.errors import UnknownBackendError as UnknownBackendError
    from knowledge_engine.evaluation import Evaluation as Evaluation
    from knowledge_engine.evaluation import GoldenQuery as GoldenQuery
    from knowledge_engine.evaluation import evaluate as evaluate
    from knowledge_engine.evaluation import read_golden as read_golden
    from knowledge_engine.fs import FsspecFs as FsspecFs
    from knowledge_engine.fs import LocalFs as LocalFs
    from knowledge_engine.fs import MemoryFs as MemoryFs
    from knowledge_engine.fusion import FederatedProvider as FederatedProvider
    from knowledge_engine.memory import MemoryProvider as MemoryProvider
    from knowledge_engine.models import ByteSpan as ByteSpan
    from knowledge_engine.models import Capabilities as Capabilities
    from knowledge_engine.models import DocumentIssue as DocumentIssue
    from knowledge_engine.models import FileInfo as FileInfo
    from knowledge_engine.models import Health as Health
    from knowledge_engine.models import Hit as Hit
    from knowledge_engine.models import IndexState as IndexState
    from knowledge_engine.models import IngestRequest as IngestRequest
    from knowledge_engine.models import Provenance as Provenance
    from knowledge_engine.models import Query as Query
    from knowledge_engine.models import QueryResult as QueryResult
    from knowledge_engine.models import Skipped as Skipped
    from knowledge_engine.models import Snippet as Snippet
    from knowledge_engine.models import Source as Source
    from knowledge_engine.models import SourceContent as SourceContent
    from knowledge_engine.models import SourcePage as SourcePage
    from knowledge_engine.models import Verification as Verification
    from knowledge_engine.ports import BulkIngestingProvider as BulkIngestingProvider
    from knowledge_engine.ports import ComparingFsPort as ComparingFsPort
    from knowledge_engine.ports import ErasingProvider as ErasingProvider
    from knowledge_engine.ports import ExplainingProvider as ExplainingProvider
    from knowledge_engine.ports import FsPort as FsPort
    from knowledge_engine.ports import IKnowledgeProvider as IKnowledgeProvider
    from knowledge_engine.ports import IngestingProvider as IngestingProvider
    from knowledge_engine.ports import LanguageModel as LanguageModel
    from knowledge_engine.ports import RefreshableProvider as RefreshableProvider
    from knowledge_engine.ports import SupersedingProvider as SupersedingProvider
    from knowledge_engine.ports import WritableFsPort as WritableFsPort
    from knowledge_engine.registry import KnowledgeBackendHandle as KnowledgeBackendHandle
    from knowledge_engine.registry import KnowledgeResolver as KnowledgeResolver
    from knowledge_engine.registry import make_knowledge_resolver as make_knowledge_resolver
    from knowledge_engine.registry import resolve_knowledge_backend as resolve_knowledge_backend
    from knowledge_engine.service import KnowledgeService as KnowledgeService
    from knowledge_engine.validation import validate_library as validate_library

    __version__: str

# The same names again, by module: type checkers read the imports above, `__getattr__` reads this.
_NAMES = {
    "agent_tools": "AgentTools tool_specs",
    "analysis": "Analyzer",
    "async_provider": "AsyncProvider",
    "backends": "BackendListing list_knowledge_backends list_knowledge_transports",
    "bootstrap": "open_knowledge",
    "citations": "verify_citation",
    "errors": "AmbiguousIdError BlockedAddressError BlockedSchemeError BrokenPluginError BusyError ConfigurationError"
    " ConflictError FetchError InvalidArgumentError InvalidCursorError InvalidFilterError InvalidFrontmatterError"
    " InvalidIdError InvalidQueryError KnowledgeError NotFoundError NotSupportedError ProviderError QueryTooLongError"
    " ReadOnlyError StorageFullError TooLargeError UnavailableError UnknownBackendError",
    "evaluation": "Evaluation GoldenQuery evaluate read_golden",
    "fs": "FsspecFs LocalFs MemoryFs",
    "fusion": "FederatedProvider",
    "memory": "MemoryProvider",
    "models": "ByteSpan Capabilities DocumentIssue FileInfo Health Hit IndexState IngestRequest Provenance Query"
    " QueryResult Skipped Snippet Source SourceContent SourcePage Verification",
    "ports": "BulkIngestingProvider ComparingFsPort ErasingProvider ExplainingProvider FsPort IKnowledgeProvider"
    " IngestingProvider LanguageModel"
    " RefreshableProvider SupersedingProvider WritableFsPort",
    "registry": "KnowledgeBackendHandle KnowledgeResolver make_knowledge_resolver resolve_knowledge_backend",
    "service": "KnowledgeService",
    "validation": "validate_library",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_HOME)
    if name == "__version__":
        from importlib.metadata import version

        return version("kpkit-engine")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "__version__"})
