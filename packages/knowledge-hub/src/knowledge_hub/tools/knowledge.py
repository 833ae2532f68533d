"""The tools with which an agent searches, saves, rates and slims what is known."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import Value
from knowledge_hub.checking import checked
from knowledge_hub.entries import (
    MAX_BATCH,
    MAX_LIST,
    MAX_TOP_K,
    EntryId,
    EntryUpdate,
    Feedback,
    Kinds,
    NewEntry,
    Text,
)
from knowledge_hub.settings import SLIMMING_MODEL
from knowledge_hub.tools.ports import Answer, HubPort
from knowledge_hub.tools.results import ToolResult, failure, shown
from knowledge_hub.tools.settings import HubAddress


class _Asked(Value):
    query: Annotated[Text, Field(min_length=1, max_length=10_000)]
    top_k: int = Field(ge=1, le=MAX_TOP_K)
    min_score: int = Field(ge=1, le=5)
    tags_type: Kinds = ()


class _Listed(Value):
    limit: int = Field(ge=1, le=MAX_LIST)
    tags_type: Kinds = ()


class _Updated(Value):
    knowledge_id: EntryId


class _Batch(Value):
    feedback_list: tuple[Feedback, ...] = Field(min_length=1, max_length=MAX_BATCH)


class HubTools:
    """The six tools over one hub. None raises: what fails is told in the answer, see `ToolResult.metadata`."""

    def __init__(self, hub: HubPort) -> None:
        self._hub = hub

    async def knowledge_search(
        self, query: str, top_k: int = 5, min_score: int = 3, tags_type: list[str] | None = None
    ) -> ToolResult:
        """The entries that suit a query, best first.

        Args:
            min_score: The lowest rating (1 to 5) of what is wanted.
            tags_type: Some of tool, usecase, definition, plan, strategy; None for all.
        """

        def work() -> ToolResult:
            asked = checked(
                _Asked, {"query": query, "top_k": top_k, "min_score": min_score, "tags_type": _several(tags_type)}
            )
            found = self._hub.search(asked.query, top_k=asked.top_k, min_score=asked.min_score, kinds=asked.tags_type)
            items = _items(found)
            output = shown(items) or "Nothing that suits is known. Find it out, then save it with knowledge_save."
            rest = {key: value for key, value in found.items() if key not in ("results", "count")}
            return ToolResult(f"🔍 {len(items)} found", output, {"items": items, "count": len(items), **rest})

        return await _done("Search failed", work)

    async def knowledge_save(
        self,
        scenario: str,
        content: str,
        tags_type: list[str],
        urls: list[str] | None = None,
        agent_id: str = "research_agent",
        score: int = 3,
        message_id: str = "",
    ) -> ToolResult:
        """Keeps what was learned.

        Args:
            scenario: In which situation, and to what end.
            content: What is known now.
            urls: Where it comes from.
            score: How sure it is, 1 to 5.
            message_id: The message that it was learned from.
        """

        def work() -> ToolResult:
            given = {
                "scenario": scenario,
                "content": content,
                "tags_type": _several(tags_type),
                "urls": _several(urls),
                "agent_id": agent_id,
                "score": score,
                "message_id": message_id,
            }
            entry = dict(self._hub.save(checked(NewEntry, given)))
            return ToolResult("💾 Saved", f"Saved as {entry.get('id')}.", {"items": [entry], "id": entry.get("id")})

        return await _done("Not saved", work)

    async def knowledge_update(
        self,
        knowledge_id: str,
        add_helpful_case: dict[str, Any] | None = None,
        add_harmful_case: dict[str, Any] | None = None,
        update_score: int | None = None,
        evolve_feedback: str | None = None,
    ) -> ToolResult:
        """Says how an entry did.

        Args:
            add_helpful_case, add_harmful_case: `case_id`, `scenario` and `result` of a use that it helped or harmed.
            update_score: A new rating, 1 to 5.
            evolve_feedback: How it should be better; a language model writes it anew.
        """

        def work() -> ToolResult:
            given = {
                "add_helpful_case": add_helpful_case,
                "add_harmful_case": add_harmful_case,
                "update_score": update_score,
                "evolve_feedback": evolve_feedback,
            }
            entry_id = checked(_Updated, {"knowledge_id": knowledge_id}).knowledge_id
            entry = dict(self._hub.update(entry_id, checked(EntryUpdate, given)))
            return ToolResult("📝 Updated", f"{entry_id} is updated.", {"items": [entry], "id": entry_id})

        return await _done("Not updated", work)

    async def knowledge_batch_update(self, feedback_list: list[dict[str, Any]]) -> ToolResult:
        """Says of several entries whether they were of use.

        Args:
            feedback_list: Each `knowledge_id`, `is_effective`, and where it should be better `feedback`.
        """

        def work() -> ToolResult:
            given = _several(feedback_list)
            answer = dict(self._hub.batch_update(checked(_Batch, {"feedback_list": given}).feedback_list))
            said = [f"{answer.get('updated')} counted."]
            for key, what in (("evolved", "Rewritten"), ("unknown", "Not there"), ("failed", "Not rewritten")):
                if some := answer.get(key):
                    assert isinstance(some, list), "a hub lists them"
                    said.append(f"{what}: {', '.join(_name(one) for one in some)}.")
            return ToolResult("📝 Feedback counted", " ".join(said), {"items": [], **answer})

        return await _done("Feedback not counted", work)

    async def knowledge_list(self, limit: int = 10, tags_type: list[str] | None = None) -> ToolResult:
        """The newest entries.

        Args:
            tags_type: As in `knowledge_search`.
        """

        def work() -> ToolResult:
            asked = checked(_Listed, {"limit": limit, "tags_type": _several(tags_type)})
            items = _items(self._hub.listed(limit=asked.limit, kinds=asked.tags_type))
            return ToolResult(
                f"📋 {len(items)} entries", shown(items) or "There are none.", {"items": items, "count": len(items)}
            )

        return await _done("Not listed", work)

    async def knowledge_slim(self, model: str = SLIMMING_MODEL) -> ToolResult:
        """Merges entries that say the same; each merge can be undone.

        Args:
            model: Proposes the merges; `none` for a fixed rule.
        """

        def work() -> ToolResult:
            answer = dict(self._hub.slim(model=str(model)))
            applied = answer.get("applied")
            done: dict[str, Any] = applied if isinstance(applied, dict) else {}
            said = f"{done.get('before', '?')} entries before, {done.get('after', '?')} now."
            return ToolResult("✂️ Slimmed", said, {"items": list(done.get("applied", ())), **answer})

        return await _done("Not slimmed", work)

    def close(self) -> None:
        """Gives back what the hub holds."""
        self._hub.close()


def open_tools(environ: Mapping[str, str] | None = None) -> HubTools:
    """The tools over the hub at `KNOWLEDGE_HUB_URL`, else over the one in the file `KNOWLEDGE_HUB_PATH`.

    Connects to nothing, and opens no file before a tool is used.

    Raises:
        ConfigurationError: Naming the variable that is wrong.
    """
    variables = dict(os.environ if environ is None else environ)
    address = HubAddress.from_env(variables)
    if address.url:
        try:
            from knowledge_hub.tools.remote import RemoteHub
        except ModuleNotFoundError as error:
            if error.name != "httpx2":
                raise
            raise ConfigurationError("A hub elsewhere needs httpx2", mend="Install kpkit-hub[client].") from None
        return HubTools(RemoteHub(address))
    from knowledge_hub.opening import open_hub
    from knowledge_hub.tools.local import LocalHub

    return HubTools(LocalHub(open_hub(variables)))


async def _done(what: str, work: Callable[[], ToolResult]) -> ToolResult:
    try:
        return await asyncio.to_thread(work)
    except Exception as error:  # an agent goes on, whatever is broken
        return failure(what, error)


def _several(value: object) -> object:
    """Nothing as an empty list, and one word as a list of it: models write both."""
    if value is None:
        return ()
    return [part for each in value.split(",") if (part := each.strip())] if isinstance(value, str) else value


def _items(answer: Answer) -> list[dict[str, Any]]:
    found = answer.get("results")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _name(one: object) -> str:
    return str(one.get("id", "") if isinstance(one, dict) else one)[:200]
