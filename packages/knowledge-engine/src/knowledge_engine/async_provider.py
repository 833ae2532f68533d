"""Any provider for async hosts: the same methods, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from knowledge_engine.errors import KnowledgeError
from knowledge_engine.lanes import Lane, done, run_apart, run_in_lane
from knowledge_engine.models import Capabilities, Health
from knowledge_engine.ports import (
    ErasingProvider,
    ExplainingProvider,
    IKnowledgeProvider,
    IngestingProvider,
    RefreshableProvider,
    SupersedingProvider,
)

P = ParamSpec("P")
T = TypeVar("T")


class _Awaited(Generic[P, T]):
    """A method of the contract as a coroutine function of the same parameters; absent where the provider lacks it."""

    def __init__(self, port: type, method: Callable[Concatenate[Any, P], T]) -> None:
        self._port, self._name = port, method.__name__
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: AsyncProvider, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: AsyncProvider | None, owner: type) -> Self | Callable[P, Coroutine[Any, Any, T]]:
        if instance is None:
            return self
        provider = instance.provider
        if not isinstance(provider, self._port):
            raise AttributeError(f"the backend {instance.id!r} has no {self._name!r}: it is no {self._port.__name__}")
        method: Callable[P, T] = getattr(provider, self._name)

        def forward(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            return instance.run(lambda _: method(*args, **kwargs))

        return forward


class AsyncProvider:
    """The methods of a provider for `await`, run in threads. For asyncio; one may serve several event loops.

    Methods of optional powers are there exactly when the provider has them: `hasattr(provider, "ingest")`.

    A cancelled or timed-out call returns at once; its thread cannot be stopped and goes on until the provider answers,
    and a write may still be made. While `max_abandoned` such calls hang, further ones raise BusyError.

    As an async context manager it disposes of the provider at the end.

    Args:
        provider: Called from several threads at once.
        max_concurrent: Calls that run at once; more wait their turn.
        timeout_s: How long a call may take, waiting for its turn included; None: without limit.
        dispose_timeout_s: How long `dispose` waits for calls under way, and again for the provider.
    """

    def __init__(
        self,
        provider: IKnowledgeProvider,
        *,
        max_concurrent: int = 8,
        max_abandoned: int = 8,
        timeout_s: float | None = None,
        dispose_timeout_s: float = 5.0,
    ) -> None:
        self.provider = provider
        self._timeout_s, self._dispose_timeout_s = timeout_s, dispose_timeout_s
        self._lane = Lane(provider.id, max_concurrent=max_concurrent, max_abandoned=max_abandoned)

    list_sources = _Awaited(IKnowledgeProvider, IKnowledgeProvider.list_sources)
    get_source = _Awaited(IKnowledgeProvider, IKnowledgeProvider.get_source)
    read_source = _Awaited(IKnowledgeProvider, IKnowledgeProvider.read_source)
    query = _Awaited(IKnowledgeProvider, IKnowledgeProvider.query)
    ingest = _Awaited(IngestingProvider, IngestingProvider.ingest)
    delete_source = _Awaited(IngestingProvider, IngestingProvider.delete_source)
    erase_source = _Awaited(ErasingProvider, ErasingProvider.erase_source)
    supersede = _Awaited(SupersedingProvider, SupersedingProvider.supersede)
    explain = _Awaited(ExplainingProvider, ExplainingProvider.explain)
    refresh = _Awaited(RefreshableProvider, RefreshableProvider.refresh)
    invalidate = _Awaited(RefreshableProvider, RefreshableProvider.invalidate)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dispose()

    @property
    def id(self) -> str:
        """The provider's."""
        return self.provider.id

    @property
    def capabilities(self) -> Capabilities:
        """The provider's."""
        return self.provider.capabilities

    @property
    def abandoned(self) -> int:
        """Calls that still run though nobody waits for them."""
        return self._lane.abandoned

    async def run(self, call: Callable[[IKnowledgeProvider], T]) -> T:
        """What `call(provider)` returns, from a thread, within the limits: for several calls in one go, say.

        Context variables are those of the caller.

        Raises:
            BusyError: When too many abandoned calls hang, or no turn came within `timeout_s`.
            UnavailableError: When the provider did not answer within `timeout_s`, or was disposed of.
        """
        return await run_in_lane(self._lane, partial(call, self.provider), self._timeout_s)

    async def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`. `down` when the backend hangs."""
        try:
            return await self.run(lambda provider: provider.health_check())
        except KnowledgeError as error:
            return Health(status="down", message=str(error))

    async def dispose(self) -> None:
        """See `IKnowledgeProvider.dispose`. Waits a bounded time; what hangs is left behind.

        Calls that wait for their turn are refused; those under way may end, each within `dispose_timeout_s`.
        """
        self._lane.close()
        # A thread of its own: the lane takes no more, and the provider is to be disposed of whoever still waits here.
        closing = run_apart(f"{self.id}-dispose", self._close)
        try:
            async with asyncio.timeout(2 * self._dispose_timeout_s):
                await done(closing)
        except TimeoutError:
            return
        closing.result()

    def _close(self) -> None:
        self._lane.close(self._dispose_timeout_s)
        self.provider.dispose()
