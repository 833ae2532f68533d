"""What is served: services by name, each with threads of its own, and what a caller sees of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from knowledge_engine.agent_tools import AgentTools
from knowledge_engine.errors import BusyError, InvalidArgumentError, ReadOnlyError, UnknownBackendError
from knowledge_engine.fusion import FederatedProvider
from knowledge_engine.fusion.ids import joined, split, split_new
from knowledge_engine.lanes import Lane, run_in_lane
from knowledge_engine.service import KnowledgeService
from knowledge_http.errors import ForbiddenError
from knowledge_http.grants import Grant
from knowledge_http.server.kept import KeptAnswers
from knowledge_http.settings import HttpSettings

T = TypeVar("T")

#: How old what a federation has taken in may be, and how long one of its backends may take.
_FRESH_FOR_S = 1.0
# An answer takes several of its calls one after the other.
_SHARE_OF_TIMEOUT = 0.2
#: Calls that wait for a turn, for each that may run.
_WAITING_PER_PLACE = 32
_MAX_VIEWS = 64


class Room:
    """A service and the threads in which it is called: one that hangs holds up no other.

    Args:
        name: The backend's; empty for several as one.
    """

    def __init__(self, name: str, service: KnowledgeService, settings: HttpSettings) -> None:
        self.name = name
        self.service = service
        most = settings.max_concurrent
        self.lane = Lane(name or "all", max_concurrent=most, max_abandoned=most)
        self._timeout_s = settings.timeout_s
        self._most = most * (_WAITING_PER_PLACE + 1)
        self._held = 0
        self.kept = KeptAnswers(lambda: self.run(self._revision), service.fresh_for_s)

    def _revision(self) -> str:
        """What there is. While nothing is indexed yet, none: to look must not be to wait for the index."""
        known = self.service.provider.health_check().index.revision
        return self.service.revision() if known else ""

    @cached_property
    def tools(self) -> AgentTools:
        """The tools for agents."""
        return AgentTools(self.service)

    async def run(self, call: Callable[[], T], timeout_s: float | None = None) -> T:
        """What `call` returns, from a thread.

        Raises:
            BusyError: When too many wait already, or hang.
            UnavailableError: When it takes too long.
        """
        if self._held >= self._most:
            raise BusyError(f"The backend {self.lane.name!r} has too many calls waiting", mend="Try again later.")
        self._held += 1
        try:
            return await run_in_lane(self.lane, call, timeout_s or self._timeout_s)
        finally:
            self._held -= 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document is: its backend, its id there, and what stands before ids in answers."""

    room: Room
    source_id: str
    prefix: str = ""


class View:
    """What one caller sees: one backend with its own ids, or several, whose ids are `name:source_id`.

    Args:
        rooms: By name. Without `joint`, exactly one.
        joint: All of them as one.
    """

    def __init__(self, rooms: Mapping[str, Room], joint: Room | None) -> None:
        self.rooms = rooms
        self._joint = joint
        self.room = joint or next(iter(rooms.values()))

    @property
    def is_joint(self) -> bool:
        """Whether ids are `name:source_id`."""
        return self._joint is not None

    def place(self, source_id: str, *, new: bool = False) -> Place:
        """The document of an id.

        Raises:
            NotFoundError: When it begins with no backend's name.
            InvalidIdError: The same, where it may be `new`.
        """
        if self._joint is None:
            return Place(self.room, source_id)
        found = split_new(source_id, self.rooms) if new else split(source_id, self.rooms)
        return Place(self.rooms[found.backend], found.source_id, joined(found.backend, ""))

    def writable_by(self, grant: Grant) -> bool:
        """Whether the caller may write somewhere, and it can be written there. Asks the backends: it may block."""
        return any(
            grant.allows("write", name) and room.service.provider.capabilities.writable
            for name, room in self.rooms.items()
        )

    def check(self, grant: Grant, scope: str, place: Place) -> Place:
        """The place itself, if the caller may do that there.

        Raises:
            ReadOnlyError, ForbiddenError: Else.
        """
        if grant.allows(scope, place.room.name):
            return place
        raise _refusal(scope)


class Served:
    """All that is served.

    Args:
        services: By the names of their backends. Not disposed of.
    """

    def __init__(self, services: Mapping[str, KnowledgeService], settings: HttpSettings) -> None:
        if not services:
            raise InvalidArgumentError("There is nothing to serve", mend="Name a backend.")
        self._settings = settings
        self.rooms = {name: Room(name, service, settings) for name, service in services.items()}
        self._views: dict[tuple[str, ...], View] = {}

    @property
    def all_rooms(self) -> tuple[Room, ...]:
        """Those of single backends, and of several as one."""
        joint = [view.room for view in self._views.values() if view.is_joint]
        return (*self.rooms.values(), *joint)

    def view(self, grant: Grant, backend: str | None) -> View:
        """What the caller sees, of all or of one backend.

        Raises:
            ForbiddenError: When there is nothing that the caller may read.
            UnknownBackendError: When there is none of that name that the caller may read.
        """
        visible = grant.visible(self.rooms)
        if not visible:
            raise _refusal("read")
        if backend is not None:
            if backend not in visible:
                raise UnknownBackendError(
                    f"There is no backend {backend[:100]!r}", mend=f"The backends are: {', '.join(visible)}."
                )
            return self._kept(("?", backend), lambda: View({backend: self.rooms[backend]}, None))
        if len(self.rooms) == 1:
            return self._kept(visible, lambda: View(self.rooms, None))
        return self._kept(visible, lambda: self._joint(visible))

    def forget(self) -> None:
        """Something was written: no answer of before is given again."""
        for room in self.all_rooms:
            room.kept.forget()

    def close(self) -> None:
        """Takes no more calls."""
        for room in self.all_rooms:
            room.lane.close()

    def _kept(self, key: tuple[str, ...], make: Callable[[], View]) -> View:
        if key not in self._views:
            if len(self._views) >= _MAX_VIEWS:  # tokens come and go
                self._views.pop(next(iter(self._views)))
            self._views[key] = make()
        return self._views[key]

    def _joint(self, names: tuple[str, ...]) -> View:
        """Several as one; also where the caller sees one of several only, so that ids are the same for all."""
        rooms = {name: self.rooms[name] for name in names}
        providers = {name: room.service.provider for name, room in rooms.items()}
        federated = FederatedProvider(providers, timeout_s=self._settings.timeout_s * _SHARE_OF_TIMEOUT)
        service = KnowledgeService(federated, refresh_before_answer=True, fresh_for_s=_FRESH_FOR_S)
        return View(rooms, Room("", service, self._settings))


def check_scope(grant: Grant, scope: str) -> None:
    """Whether the caller may do that with any backend.

    Raises:
        ReadOnlyError, ForbiddenError: If not.
    """
    if not grant.allows_somewhere(scope):
        raise _refusal(scope)


def _refusal(scope: str) -> ReadOnlyError | ForbiddenError:
    if scope == "write":
        return ReadOnlyError(
            "This may only be read by you", mend="Show a token with the scope write, or have it served with --writable."
        )
    return ForbiddenError(f"That needs the scope {scope}", mend=f"Show a token with the scope {scope}.")
