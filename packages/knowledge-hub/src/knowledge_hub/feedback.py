"""What agents say of entries: counted exactly, and rewritten where they ask for it. Under one key each step is once."""

from __future__ import annotations

import json
from collections.abc import Sequence

from knowledge_engine.errors import InvalidArgumentError, KnowledgeError, NotFoundError
from knowledge_engine.ports import LanguageModel
from knowledge_hub.entries import MAX_BATCH, BatchAnswer, BatchFailure, CaseKind, Entry, EntryUpdate, Feedback
from knowledge_hub.evolving import evolve
from knowledge_hub.requests import check_key, once
from knowledge_hub.store import EntryStore, Stamp


class HubFeedback:
    """Takes feedback in.

    Args:
        model: Rewrites entries; None for none.
        timeout_s: How long it may take for one.
    """

    def __init__(self, store: EntryStore, model: LanguageModel | None, timeout_s: float) -> None:
        self._store, self._model, self._timeout_s = store, model, timeout_s

    def update(self, entry_id: str, update: EntryUpdate, stamp: Stamp, key: str) -> Entry:
        """See `HubService.update`."""
        cases = list[tuple[CaseKind, str]]()
        if update.add_helpful_case is not None:
            cases.append(("helpful", _json(update.add_helpful_case)))
        if update.add_harmful_case is not None:
            cases.append(("harmful", _json(update.add_harmful_case)))
        counts = bool(cases) or update.update_score is not None
        if not counts and update.evolve_feedback is None:
            raise InvalidArgumentError(
                "The update says nothing",
                mend="Pass add_helpful_case, add_harmful_case, update_score or evolve_feedback.",
            )
        what = f"update {entry_id}"
        if counts:
            self._store.counted(entry_id, cases, update.update_score, stamp, once(key, what, update))
        if update.evolve_feedback is None:
            return self._store.get(entry_id)
        step = once(key, what, update, part="evolved" if counts else "")
        return evolve(self._store, self._model, entry_id, update.evolve_feedback, stamp, self._timeout_s, step)

    def batch(self, feedback: Sequence[Feedback], stamp: Stamp, key: str) -> BatchAnswer:
        """See `HubService.batch_update`."""
        check_key(key)
        if len(feedback) > MAX_BATCH:
            raise InvalidArgumentError(
                f"There are {len(feedback)} feedbacks", mend=f"Send at most {MAX_BATCH} at once."
            )
        updated, unknown, evolved = 0, list[str](), list[str]()
        failed = list[BatchFailure]()
        for number, one in enumerate(feedback):
            kind: CaseKind = "helpful" if one.is_effective else "harmful"
            case = _json({"feedback": one.feedback} if one.feedback else {})
            key_part = once(key, "batch", one, part=f"{number}")
            try:
                self._store.counted(one.knowledge_id, [(kind, case)], None, stamp, key_part)
            except NotFoundError:
                unknown.append(one.knowledge_id)
                continue
            updated += 1
            if not (one.feedback and one.feedback.strip()):
                continue
            step = once(key, "batch", one, part=f"{number} evolved")
            try:
                evolve(self._store, self._model, one.knowledge_id, one.feedback, stamp, self._timeout_s, step)
                evolved.append(one.knowledge_id)
            except KnowledgeError as error:
                failed.append(BatchFailure(id=one.knowledge_id, code=error.code, message=str(error)))
        return BatchAnswer(
            updated=updated,
            evolved=tuple(dict.fromkeys(evolved)),
            unknown=tuple(dict.fromkeys(unknown)),
            failed=tuple(failed),
        )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
