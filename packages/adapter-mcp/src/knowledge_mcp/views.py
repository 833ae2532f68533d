"""What a caller sees of what is served: one backend under its own ids, or several as one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.errors import BusyError, InvalidArgumentError, KnowledgeError, NotFoundError, ReadOnlyError
from knowledge_engine.fusion import FederatedProvider
from knowledge_engine.fusion.ids import split_new
from knowledge_engine.lanes import Lane, run_in_lane
from knowledge_engine.ports import IngestingProvider
from knowledge_engine.service import KnowledgeService
from knowledge_mcp.kept import KeptResults

T = TypeVar("T")

_MAX_CONCURRENT = 8
#: How old what a federation has taken in may be, and how long one of its backends may take.
_FRESH_FOR_S = 1.0
_SHARE_OF_TIMEOUT = 0.5
#: Of the time that a call may take: how much of it is for an index to be built.
_PATIENCE = 0.7
_MAX_VIEWS = 64
#: Calls under way and waiting for a turn, at most.
_MAX_HELD = 33 * _MAX_CONCURRENT


class Access(Protocol):
    """What a caller may do: the grant of the HTTP server is one."""

    def allows(self, scope: str, backend: str | None = None) -> bool:
        """Whether that may be done there; without a backend, with all of them."""
        ...

    def visible(self, names: Iterable[str]) -> Sequence[str]:
        """Those of some backends that may be read."""
        ...


class HostAccess:
    """What the host may do that started this process: read everything, and write where the user allowed it."""

    def __init__(self, *, write: bool) -> None:
        self._write = write

    def allows(self, scope: str, backend: str | None = None) -> bool:  # noqa: ARG002
        """See `Access`."""
        return scope == "read" or self._write

    def visible(self, names: Iterable[str]) -> Sequence[str]:
        """See `Access`."""
        return tuple(names)


class View:
    """A service, its tools, and the threads in which they are called.

    Args:
        names: Of the backends behind it.
        joint: Whether ids are `name:source_id`.
        timeout_s: How long a call may take.
    """

    def __init__(self, service: KnowledgeService, names: Collection[str], *, joint: bool, timeout_s: float) -> None:
        self.service = service
        # Of an index that is being built is told before the call would be given up.
        self.tools = AgentTools(service, wait_s=timeout_s * _PATIENCE)
        self.names = tuple(names)
        self.joint = joint
        self.kept = KeptResults(service.revision, recent_s=service.fresh_for_s)
        self.lane = Lane("mcp", max_concurrent=_MAX_CONCURRENT, max_abandoned=_MAX_CONCURRENT)
        self._held = 0

    async def run(self, call: Callable[[], T], timeout_s: float) -> T:
        """What `call` returns, from a thread.

        Raises:
            BusyError: When too many wait already, or hang.
            UnavailableError: When it takes too long.
        """
        if self._held >= _MAX_HELD:
            raise BusyError("Too many calls are waiting", mend="Try again later.")
        self._held += 1
        try:
            return await run_in_lane(self.lane, call, timeout_s)
        finally:
            self._held -= 1

    def writable_by(self, access: Access) -> bool:
        """Whether the caller may write anywhere, and it can be written. Asks the backend: it may block."""
        provider = self.service.provider
        return (
            may_write(access, self.names) and provider.capabilities.writable and isinstance(provider, IngestingProvider)
        )

    def check_writing(self, access: Access, source_id: str | None) -> None:
        """Checks that the caller may write there; without an id, wherever a document would go.

        Raises:
            ReadOnlyError: If not.
            InvalidIdError, InvalidArgumentError: For an id that names no backend, where there are several.
        """
        if self.joint and source_id is not None:
            concerned: Collection[str] = (split_new(source_id, self.names).backend,)
        else:
            concerned = self.names
        allowed = [name for name in concerned if access.allows("write", name)]
        if not allowed:
            raise ReadOnlyError("This may only be read by you", mend="Ask whoever runs it to allow writing.")
        if len(allowed) < len(concerned):
            raise InvalidArgumentError(
                "A document without an id could go where you may only read", mend=f"Give an id {allowed[0]}:ID."
            )


def may_write(access: Access, names: Iterable[str]) -> bool:
    """Whether the caller may write to any of these backends."""
    return any(access.allows("write", name) for name in names)


class Views:
    """The views over some services, by what callers may see of them.

    Args:
        services: By the names of their backends. Not disposed of.
    """

    def __init__(self, services: Mapping[str, KnowledgeService], *, timeout_s: float) -> None:
        if not services:
            raise InvalidArgumentError("There is nothing to serve", mend="Name a backend.")
        self._services = dict(services)
        self._timeout_s = timeout_s
        self._kept: dict[tuple[str, ...], View] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Of all backends."""
        return tuple(self._services)

    def view(self, access: Access) -> View:
        """What that caller sees.

        Raises:
            NotFoundError: Nothing.
        """
        visible = tuple(access.visible(self._services))
        if not visible:
            raise NotFoundError("There is nothing here that you may read", mend="Show another token.")
        if visible not in self._kept:
            if len(self._kept) >= _MAX_VIEWS:  # tokens come and go
                self._kept.pop(next(iter(self._kept))).lane.close()
            self._kept[visible] = self._made(visible)
        return self._kept[visible]

    def close(self) -> None:
        """Takes no more calls."""
        for view in self._kept.values():
            view.lane.close()

    def _made(self, names: tuple[str, ...]) -> View:
        if len(self._services) == 1:
            return View(self._services[names[0]], names, joint=False, timeout_s=self._timeout_s)
        # Also where one of several is visible: ids are the same for all callers.
        providers = {name: self._services[name].provider for name in names}
        federated = FederatedProvider(providers, timeout_s=self._timeout_s * _SHARE_OF_TIMEOUT)
        service = KnowledgeService(federated, refresh_before_answer=True, fresh_for_s=_FRESH_FOR_S)
        return View(service, names, joint=True, timeout_s=self._timeout_s)


def refusal_of_tool(name: str, known: Iterable[str]) -> KnowledgeError:
    """Why there is no such tool for the caller."""
    if name in ("ingest", "delete"):
        return ReadOnlyError(
            f"The tool {name} is not offered here: documents can only be read",
            mend="Tell the user, who may allow writing (--allow-write, or a token with the scope write).",
        )
    return InvalidArgumentError(f"No tool {name[:80]!r}", mend=f"The tools are: {', '.join(known)}.")
