"""The tool with which an agent plans; putting a goal into focus brings what is known about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from knowledge_engine.errors import InvalidArgumentError, KnowledgeError
from knowledge_hub.tools.goals import KNOWLEDGE_LABEL, Goal, GoalTree
from knowledge_hub.tools.ports import Search, TraceStore
from knowledge_hub.tools.results import ToolResult, failure, shown

_log = logging.getLogger("knowledge_hub")

ACTIONS = ("add", "focus", "complete", "abandon", "show")
TOP_K, MIN_SCORE = 3, 3
#: How long a focus waits for the hub, in seconds.
SEARCH_TIMEOUT_S = 30.0


async def focus_goal(
    tree: GoalTree,
    goal_id: str,
    *,
    trace_id: str,
    store: TraceStore,
    search: Search,
    sub_goals: Sequence[str] = (),
    timeout_s: float = SEARCH_TIMEOUT_S,
) -> ToolResult:
    """Puts a goal into focus and attaches what the hub knows about it.

    A hub that is down, slow or broken never fails this: the goal then keeps what was found before, and the answer says
    so. `metadata` has `items`, `goal_id`, `goals` (ids of the new sub-goals), `searched` and `persisted`.

    Args:
        trace_id: The run whose tree it is.
        sub_goals: Descriptions of goals that become parts of it.

    Raises:
        NotFoundError: When there is no such goal; nothing is changed then.
        InvalidArgumentError: When a sub-goal cannot be; nothing is changed then.
    """
    found = tree.find(goal_id)
    trial = tree.outline()
    for description in sub_goals:
        trial.add(description, parent_id=found.id)
    goal = tree.focus(goal_id)
    added = [tree.add(description, parent_id=goal.id).id for description in sub_goals]
    problem = await _attach(goal, search, timeout_s)
    unkept = await _persist(tree, trace_id, store)
    lines = [f"当前 Goal: {goal.description}", ""]
    lines += [f"Sub-goals: {', '.join(added)}", ""] if added else []
    lines += [f"{KNOWLEDGE_LABEL} ({len(goal.knowledge)} 条):", shown(goal.knowledge)]
    lines += [note for note in (problem, unkept) if note]
    metadata: dict[str, Any] = {
        "items": list(goal.knowledge),
        "goal_id": goal.id,
        "goals": added,
        "searched": not problem,
        "persisted": not unkept,
    }
    return ToolResult("✅ Goal 已聚焦", "\n".join(lines).rstrip(), metadata)


class GoalTool:
    """`goal` for the agent of one run. Calls at once are done one after the other; none raises.

    Args:
        search: Such as `HubTools.knowledge_search`.
    """

    def __init__(
        self,
        tree: GoalTree,
        *,
        trace_id: str,
        store: TraceStore,
        search: Search,
        timeout_s: float = SEARCH_TIMEOUT_S,
    ) -> None:
        self.tree = tree
        self._trace_id, self._store, self._search, self._timeout_s = trace_id, store, search, timeout_s
        self._one_at_a_time = asyncio.Lock()

    async def goal(
        self,
        action: str,
        goal_id: str | None = None,
        description: str | None = None,
        sub_goals: list[str] | None = None,
        summary: str = "",
    ) -> ToolResult:
        """Plans, and says where the agent stands.

        Args:
            action: `add` (a goal of that `description`, part of `goal_id` where given), `focus`, `complete` or
                `abandon` (with a `summary`) of `goal_id`, or `show`.
            goal_id: By default the goal in focus, but for `add`.
            sub_goals: Descriptions; parts of what is added or focused.
        """
        async with self._one_at_a_time:
            try:
                return await self._acted(action, goal_id, description, _listed(sub_goals), summary)
            except KnowledgeError as error:
                return failure("Goals are as they were", error)
            except Exception as error:  # an agent goes on, whatever is broken
                return failure("Goals may not be as wished", error)

    async def _acted(
        self, action: str, goal_id: str | None, description: str | None, sub_goals: list[str], summary: str
    ) -> ToolResult:
        if action == "show":
            return self._told("🎯 Goals")
        if action == "add":
            return await self._add(goal_id, description, sub_goals)
        if action not in ACTIONS:
            raise InvalidArgumentError(
                f"There is no action {str(action)[:40]!r}", mend=f"Use one of {', '.join(ACTIONS)}."
            )
        chosen = self.tree.current_id if goal_id is None else goal_id
        if chosen is None:
            raise InvalidArgumentError("No goal is in focus", mend="Say a `goal_id`.")
        if action == "focus":
            return await focus_goal(
                self.tree,
                chosen,
                trace_id=self._trace_id,
                store=self._store,
                search=self._search,
                sub_goals=sub_goals,
                timeout_s=self._timeout_s,
            )
        goal = self.tree.end(chosen, "completed" if action == "complete" else "abandoned", summary)
        return await self._kept(f"🎯 {goal.id} is {goal.status}", {"goal_id": goal.id})

    async def _add(self, parent_id: str | None, description: str | None, sub_goals: list[str]) -> ToolResult:
        wanted = [*([description] if description else []), *sub_goals]
        if not wanted:
            raise InvalidArgumentError("`description` is missing", mend="Say what is to be reached.")
        trial = self.tree.outline()
        _grow(trial, parent_id, description, sub_goals)
        added = _grow(self.tree, parent_id, description, sub_goals)
        return await self._kept(f"🎯 {len(added)} added", {"goal_id": added[0], "goals": added})

    async def _kept(self, title: str, metadata: dict[str, Any]) -> ToolResult:
        unkept = await _persist(self.tree, self._trace_id, self._store)
        told = self._told(title)
        output = f"{told.output}\n{unkept}" if unkept else told.output
        return ToolResult(title, output, {**told.metadata, **metadata, "persisted": not unkept})

    def _told(self, title: str) -> ToolResult:
        current = self.tree.current
        items = list(current.knowledge) if current is not None else []
        return ToolResult(title, self.tree.render() or "There are no goals yet.", {"items": items})


def _grow(tree: GoalTree, parent_id: str | None, description: str | None, sub_goals: list[str]) -> list[str]:
    added = []
    if description:
        goal = tree.add(description, parent_id=parent_id)
        added, parent_id = [goal.id], goal.id
    return added + [tree.add(each, parent_id=parent_id).id for each in sub_goals]


def _listed(sub_goals: list[str] | str | None) -> list[str]:
    """Models write one goal as a word, too."""
    if sub_goals is None:
        return []
    return [sub_goals] if isinstance(sub_goals, str) else list(sub_goals)


async def _attach(goal: Goal, search: Search, timeout_s: float) -> str:
    """Looks for what is known, and says what went wrong with that."""
    try:
        async with asyncio.timeout(timeout_s):
            answer = await search(query=goal.description, top_k=TOP_K, min_score=MIN_SCORE)
        if (error := answer.metadata.get("error")) is not None:
            return f"The hub could not be asked: {error.get('message', '')}"
        # At most what was asked for, whatever came.
        goal.knowledge = list(answer.metadata["items"])[:TOP_K]
    except TimeoutError:
        return "The hub could not be asked: it did not answer in time."
    except Exception as error:  # a focus goes on without the hub, whatever is broken there
        _log.warning("a goal came into focus without the hub: %s", type(error).__name__)
        return "The hub could not be asked: something went wrong inside."
    return ""


async def _persist(tree: GoalTree, trace_id: str, store: TraceStore) -> str:
    try:
        await store.update_goal_tree(trace_id, tree)
    except KnowledgeError as error:
        return f"The goals are not kept: {error}"
    except Exception as error:  # a store of anybody's making
        _log.warning("goals are not kept: %s", type(error).__name__)
        return "The goals are not kept: something went wrong inside."
    return ""
