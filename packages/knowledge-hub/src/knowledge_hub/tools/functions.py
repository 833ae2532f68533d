"""The six tools as functions, over the hub that the environment names; see `HubTools` for what they do and answer."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from knowledge_engine.errors import KnowledgeError
from knowledge_hub.settings import SLIMMING_MODEL
from knowledge_hub.tools.knowledge import HubTools, open_tools
from knowledge_hub.tools.results import ToolResult, failure

_VARIABLES = ("KNOWLEDGE_HUB_URL", "KNOWLEDGE_HUB_TOKEN", "KNOWLEDGE_HUB_PATH", "KNOWLEDGE_HUB_MODEL")


class _Shared:
    """The tools that the environment names, opened once for each way it names them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tools: dict[tuple[str | None, ...], HubTools] = {}

    def get(self) -> HubTools:
        named = tuple(os.environ.get(variable) for variable in _VARIABLES)
        with self._lock:
            # One that is replaced may be in use, so it stays open till the end.
            if named not in self._tools:
                self._tools[named] = open_tools()
            return self._tools[named]

    def close(self) -> None:
        with self._lock:
            while self._tools:
                self._tools.popitem()[1].close()


_shared = _Shared()


def close_tools() -> None:
    """Closes what the functions opened; used again, they open it again."""
    _shared.close()


async def knowledge_search(
    query: str, top_k: int = 5, min_score: int = 3, tags_type: list[str] | None = None
) -> ToolResult:
    """See `HubTools.knowledge_search`."""
    return await _with(lambda tools: tools.knowledge_search(query, top_k, min_score, tags_type))


async def knowledge_save(
    scenario: str,
    content: str,
    tags_type: list[str],
    urls: list[str] | None = None,
    agent_id: str = "research_agent",
    score: int = 3,
    message_id: str = "",
) -> ToolResult:
    """See `HubTools.knowledge_save`."""
    return await _with(
        lambda tools: tools.knowledge_save(scenario, content, tags_type, urls, agent_id, score, message_id)
    )


async def knowledge_update(
    knowledge_id: str,
    add_helpful_case: dict[str, Any] | None = None,
    add_harmful_case: dict[str, Any] | None = None,
    update_score: int | None = None,
    evolve_feedback: str | None = None,
) -> ToolResult:
    """See `HubTools.knowledge_update`."""
    return await _with(
        lambda tools: tools.knowledge_update(
            knowledge_id, add_helpful_case, add_harmful_case, update_score, evolve_feedback
        )
    )


async def knowledge_batch_update(feedback_list: list[dict[str, Any]]) -> ToolResult:
    """See `HubTools.knowledge_batch_update`."""
    return await _with(lambda tools: tools.knowledge_batch_update(feedback_list))


async def knowledge_list(limit: int = 10, tags_type: list[str] | None = None) -> ToolResult:
    """See `HubTools.knowledge_list`."""
    return await _with(lambda tools: tools.knowledge_list(limit, tags_type))


async def knowledge_slim(model: str = SLIMMING_MODEL) -> ToolResult:
    """See `HubTools.knowledge_slim`."""
    return await _with(lambda tools: tools.knowledge_slim(model))


async def _with(call: Callable[[HubTools], Awaitable[ToolResult]]) -> ToolResult:
    try:
        tools = await asyncio.to_thread(_shared.get)
    except KnowledgeError as error:
        return failure("The hub cannot be opened", error)
    return await call(tools)
