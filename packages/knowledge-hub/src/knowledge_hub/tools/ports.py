"""What the tools need: a hub, and a place where goals are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import JsonValue

from knowledge_hub.entries import EntryUpdate, Feedback, Kind, NewEntry

if TYPE_CHECKING:
    from knowledge_hub.tools.goals import GoalTree

Answer = Mapping[str, JsonValue]


class HubPort(Protocol):
    """A hub, here or elsewhere. Blocks; may be called from several threads. Answers are those of the routes.

    All methods raise errors of the engine's tree: `UnavailableError` when the hub cannot be reached, say.
    """

    def search(self, query: str, *, top_k: int, min_score: int, kinds: tuple[Kind, ...]) -> Answer:
        """The entries that suit, best first: `results`, `count`, `router`."""
        ...

    def save(self, new: NewEntry) -> Answer:
        """The entry as it was kept."""
        ...

    def update(self, entry_id: str, update: EntryUpdate) -> Answer:
        """The entry as it is then."""
        ...

    def batch_update(self, feedback: tuple[Feedback, ...]) -> Answer:
        """How many were counted, and which ids there are not: `updated`, `evolved`, `unknown`, `failed`."""
        ...

    def listed(self, *, limit: int, kinds: tuple[Kind, ...]) -> Answer:
        """The newest entries: `results`, `count`."""
        ...

    def slim(self, *, model: str) -> Answer:
        """What was merged: `plan`, `applied`."""
        ...

    def close(self) -> None:
        """Gives back what it holds."""
        ...


class TraceStore(Protocol):
    """Keeps the goals of a run of an agent."""

    async def update_goal_tree(self, trace_id: str, tree: GoalTree) -> None:
        """Keeps that tree for that run, whole or not at all; it replaces the one before."""
        ...

    async def get_goal_tree(self, trace_id: str) -> GoalTree | None:
        """The tree that was kept last; None where there is none."""
        ...


class Search(Protocol):
    """`knowledge_search`, or what does the same."""

    async def __call__(self, query: str, top_k: int = 5, min_score: int = 3) -> Any:
        """A `ToolResult` whose `metadata["items"]` are entries."""
        ...
