"""The provider over several named providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from pydantic import JsonValue

from knowledge_engine.analysis import Analyzer
from knowledge_engine.answers import plan_query
from knowledge_engine.errors import (
    InvalidArgumentError,
    InvalidIdError,
    NotFoundError,
    NotSupportedError,
    ReadOnlyError,
    UnavailableError,
)
from knowledge_engine.fusion.asking import Backends
from knowledge_engine.fusion.ids import Place, joined, local_filter, split, split_new
from knowledge_engine.fusion.listing import list_page
from knowledge_engine.fusion.merging import Fusion, Ranked, fetch, merge, merge_index
from knowledge_engine.models import (
    ByteSpan,
    Capabilities,
    Health,
    Hit,
    IngestRequest,
    Provenance,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_engine.ports import (
    ExplainingProvider,
    IKnowledgeProvider,
    IngestingProvider,
    RefreshableProvider,
    SupersedingProvider,
)

# A backend that builds its index says so a little before it would be given up.
_WAIT_SHARE = 0.8


class FederatedProvider:
    """Several backends as one. Ids are `name:source_id` everywhere: in lists, hits and filters, to read and to write.

    All backends are asked at the same time. One that fails, or does not answer in time, becomes a warning of the answer
    that names it; only when none answers, its error is raised. A call that is given up goes on in its thread; while
    `max_abandoned` of them hang, that backend is left out at once.

    Rankings are fused by reciprocal rank: the hit of rank r in its backend scores 1 / (k + r), so scores tell nothing
    of how well the words match, and `min_score` is compared with these. Hits of equal rank come by id. A document that
    two backends hold is two hits. `top_k`, `min_score` and `max_chars` count over all, `per_source` as ever.

    Methods of optional powers are all there: `explain` works for every backend, `refresh` and `invalidate` reach those
    that can, `ingest`, `delete_source` and `supersede` raise where the backend named by the id cannot.

    Args:
        backends: By name: a letter, then letters, digits, `_`, `.` and `-`.
        timeout_s: How long a backend may take to answer. Writing is not limited by it.
        k: The constant of the fusion.
        max_concurrent: Calls to one backend that run at once.
        max_abandoned: See above; for each backend.
        analyzer: Marks words in the snippet of a hit that `max_chars` cuts; by default an English one.
    """

    def __init__(
        self,
        backends: Mapping[str, IKnowledgeProvider],
        *,
        timeout_s: float = 10.0,
        id: str = "federated",
        k: float = 60.0,
        max_concurrent: int = 16,
        max_abandoned: int = 4,
        analyzer: Analyzer | None = None,
    ) -> None:
        if not 0 <= k < 1e9:
            raise InvalidArgumentError(f"k is {k!r}", mend="Use 0 or more; 60 is usual.")
        self._backends = Backends(
            backends, timeout_s=timeout_s, max_concurrent=max_concurrent, max_abandoned=max_abandoned
        )
        self._id, self._fusion = id, Fusion(k)
        self._analyzer = analyzer or Analyzer()
        self._disposed = False

    @property
    def id(self) -> str:
        """The name given at construction."""
        return self._id

    @property
    def backends(self) -> Mapping[str, IKnowledgeProvider]:
        """The backends by name, in the order given."""
        return dict(self._backends.providers)

    @property
    def capabilities(self) -> Capabilities:
        """Citations where all have them, other powers where any has."""
        stated = [provider.capabilities for provider in self._backends.providers.values()]
        limits = [each.max_chunk_bytes for each in stated if each.max_chunk_bytes is not None]
        return Capabilities(
            vector_search=any(each.vector_search for each in stated),
            hybrid_search=any(each.hybrid_search for each in stated),
            citations=all(each.citations for each in stated),
            writable=bool(self._writable()),
            max_chunk_bytes=max(limits) if len(limits) == len(stated) else None,
        )

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """See `IKnowledgeProvider.list_sources`."""
        self._alive()
        return list_page(self._backends, filter=filter, limit=limit, cursor=cursor)

    def get_source(self, source_id: str) -> Source:
        """See `IKnowledgeProvider.get_source`."""
        name, own = self._place(source_id)
        return _outer(name, self._backends.ask(name, lambda provider: provider.get_source(own)))

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """See `IKnowledgeProvider.read_source`."""
        name, own = self._place(source_id)
        content = self._backends.ask(name, lambda provider: provider.read_source(own, span))
        return content.model_copy(update={"source_id": source_id})

    def query(self, query: Query) -> QueryResult:
        """See `IKnowledgeProvider.query`. A cursor goes on at the rank where the page before ended."""
        self._alive()
        plan = plan_query(query, self._analyzer)
        reach = self._fusion.reach(plan)
        wait_s = self._backends.timeout_s * _WAIT_SHARE
        asked = query.model_copy(
            update={
                "cursor": None,
                "min_score": None,
                "max_chars": None,
                "wait_s": wait_s if query.wait_s is None else min(query.wait_s, wait_s),
            }
        )

        def ask(name: str, provider: IKnowledgeProvider) -> Ranked:
            return fetch(provider, asked.model_copy(update={"filter": local_filter(query.filter, name)}), reach)

        answers = self._backends.ask_all(ask).need_one()
        indexes = {name: ranked.result.index for name, ranked in answers.results.items()}
        return merge(
            self._fusion,
            plan,
            answers.results,
            merge_index({**dict.fromkeys(self._backends.providers), **indexes}),
            answers.warnings(),
            read=self._read_hit,
            analyzer=self._analyzer,
        )

    def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`. `degraded` when some backend is; `details` has each."""
        if self._disposed:
            return Health(status="down", message="The provider was disposed of.")
        answers = self._backends.ask_all(lambda _, provider: provider.health_check())
        down = {name: Health(status="down", message=str(error)) for name, error in answers.errors.items()}
        found = {name: {**answers.results, **down}[name] for name in self._backends.providers}
        states = {each.status for each in found.values()}
        return Health(
            status=states.pop() if len(states) == 1 else "degraded",
            message=" ".join(f"{name}: {each.message}" for name, each in found.items() if each.message),
            index=merge_index({name: None if each.status == "down" else each.index for name, each in found.items()}),
            issues=tuple(
                issue.model_copy(update={"path": joined(name, issue.path)})
                for name, each in found.items()
                for issue in each.issues
            ),
            skipped=tuple(
                one.model_copy(update={"path": joined(name, one.path)})
                for name, each in found.items()
                for one in each.skipped
            ),
            details={
                name: {"status": each.status, "message": each.message, "details": dict(each.details)}
                for name, each in found.items()
            },
        )

    def dispose(self) -> None:
        """See `IKnowledgeProvider.dispose`. Disposes of every backend; one that hangs is left after `timeout_s`."""
        self._disposed = True
        self._backends.dispose()

    # IngestingProvider

    def ingest(self, request: IngestRequest) -> Source:
        """See `IngestingProvider.ingest`. Without an id it goes to the one backend that can be written."""
        self._alive()
        if request.id is not None:
            name, own = split_new(request.id, self._backends.providers)
        else:
            writable = self._writable()
            if len(writable) != 1:
                raise InvalidArgumentError(
                    "A document without an id could go to any backend" if writable else "No backend can be written",
                    mend=f"Give an id BACKEND:ID with one of {', '.join(writable)}." if writable else "Use another.",
                )
            name, own = writable[0], None
        return _outer(name, self._writer(name).ingest(request.model_copy(update={"id": own})))

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        """See `IngestingProvider.delete_source`."""
        name, own = self._place(source_id)
        self._writer(name).delete_source(own, if_match=if_match)

    # SupersedingProvider

    def supersede(self, source_id: str, by: str) -> None:
        """See `SupersedingProvider.supersede`. Both are of the same backend.

        Raises:
            NotSupportedError: When that backend has no such power, or when they are of two.
        """
        name, own = self._place(source_id)
        other, own_by = self._place(by)
        provider = self._backends.providers[name]
        if not isinstance(provider, SupersedingProvider):
            raise NotSupportedError(
                f"The backend {name!r} cannot mark documents as replaced", mend="Delete it instead."
            )
        if name != other:
            raise NotSupportedError(
                "A document cannot stand for one of another backend", mend=f"Store it in {name!r} first."
            )
        provider.supersede(own, own_by)

    # ExplainingProvider

    def explain(self, source_id: str) -> Provenance | None:
        """See `ExplainingProvider.explain`. Of a backend that does not explain, what its source itself says."""
        try:
            name, own = self._place(source_id)
            found = self._backends.ask(name, partial(_explain, own))
        except (NotFoundError, InvalidIdError):
            return None
        return found and found.model_copy(update={"source_id": source_id})

    # RefreshableProvider

    def refresh(self, paths: Sequence[str] | None = None) -> bool:
        """See `RefreshableProvider.refresh`. `name:` alone is all of a backend; nothing lies below another name.

        Raises:
            KnowledgeError: When it fails for all backends that can; else the next answer tells what is wrong.
        """
        self._alive()
        names = self._refreshable()
        own: dict[str, list[str]] | None = None
        if paths is not None and "." not in paths:
            own = {}
            for path in paths:
                with suppress(NotFoundError):
                    name, inner = split(path, self._backends.providers)
                    own.setdefault(name, []).append(inner or ".")
            names = [name for name in names if name in own]

        def refresh(name: str, provider: IKnowledgeProvider) -> bool:
            assert isinstance(provider, RefreshableProvider), "only those are asked"
            return provider.refresh(None if own is None else own[name])

        return any(self._backends.ask_all(refresh, names).need_one().results.values())

    def invalidate(self) -> None:
        """See `RefreshableProvider.invalidate`."""
        self._alive()

        def invalidate(_: str, provider: IKnowledgeProvider) -> None:
            assert isinstance(provider, RefreshableProvider), "only those are asked"
            provider.invalidate()

        self._backends.ask_all(invalidate, self._refreshable()).need_one()

    # Inside

    def _alive(self) -> None:
        if self._disposed:
            raise UnavailableError("The provider was disposed of", mend="Open it again.")

    def _place(self, source_id: str) -> Place:
        self._alive()
        return split(source_id, self._backends.providers)

    def _read_hit(self, hit: Hit) -> bytes:
        return self.read_source(hit.source_id, hit.span).content

    def _writable(self) -> list[str]:
        return [
            name
            for name, provider in self._backends.providers.items()
            if provider.capabilities.writable and isinstance(provider, IngestingProvider)
        ]

    def _refreshable(self) -> list[str]:
        return [name for name, each in self._backends.providers.items() if isinstance(each, RefreshableProvider)]

    def _writer(self, name: str) -> IngestingProvider:
        provider = self._backends.providers[name]
        if not isinstance(provider, IngestingProvider):
            raise NotSupportedError(f"The backend {name!r} cannot be written", mend="Change its documents at home.")
        if not provider.capabilities.writable:
            raise ReadOnlyError(f"The backend {name!r} may not be written", mend="Change its documents at home.")
        return provider


def _outer(name: str, source: Source) -> Source:
    return source.model_copy(update={"id": joined(name, source.id)})


def _explain(own: str, provider: IKnowledgeProvider) -> Provenance | None:
    if isinstance(provider, ExplainingProvider):
        return provider.explain(own)
    source = provider.get_source(own)
    return Provenance(
        source_id=own,
        origin=source.origin,
        uri=source.uri,
        content_hash=source.content_hash or provider.read_source(own).content_hash,
        indexed_at=source.indexed_at,
    )
