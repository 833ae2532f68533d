"""The hub of this process as the tools' hub."""

from __future__ import annotations

from pydantic import JsonValue

from knowledge_engine.errors import InvalidArgumentError
from knowledge_hub.entries import EntryUpdate, Feedback, Kind, NewEntry
from knowledge_hub.service import HubService
from knowledge_hub.tools.ports import Answer


class LocalHub:
    """See `HubPort`; closes the hub at its end."""

    def __init__(self, hub: HubService, *, who: str = "") -> None:
        self._hub, self._who = hub, who

    def search(self, query: str, *, top_k: int, min_score: int, kinds: tuple[Kind, ...]) -> Answer:
        """See `HubPort.search`."""
        return self._hub.search(query, top_k=top_k, min_score=min_score, kinds=kinds).model_dump(mode="json")

    def save(self, new: NewEntry) -> Answer:
        """See `HubPort.save`."""
        return self._hub.save(new, who=self._who).model_dump(mode="json")

    def update(self, entry_id: str, update: EntryUpdate) -> Answer:
        """See `HubPort.update`."""
        return self._hub.update(entry_id, update, who=self._who).model_dump(mode="json")

    def batch_update(self, feedback: tuple[Feedback, ...]) -> Answer:
        """See `HubPort.batch_update`."""
        return self._hub.batch_update(feedback, who=self._who).model_dump(mode="json")

    def listed(self, *, limit: int, kinds: tuple[Kind, ...]) -> Answer:
        """See `HubPort.listed`."""
        found: list[JsonValue] = [one.model_dump(mode="json") for one in self._hub.listed(limit=limit, kinds=kinds)]
        return {"results": found, "count": len(found)}

    def slim(self, *, model: str) -> Answer:
        """See `HubPort.slim`."""
        if not model.strip():
            raise InvalidArgumentError("`model` is empty", mend="Name a model, or `none` for the rule.")
        plan = self._hub.plan_slim(model=model)
        done = self._hub.apply_slim(plan, who=self._who)
        return {"plan": plan.model_dump(mode="json"), "applied": done.model_dump(mode="json")}

    def close(self) -> None:
        """See `HubPort.close`."""
        self._hub.close()
