"""Entries rewritten by a model: what others said of them is taken in, what they said before is kept."""

from __future__ import annotations

from knowledge_engine.errors import ConflictError, NotSupportedError, ProviderError
from knowledge_engine.ports import LanguageModel
from knowledge_hub.entries import MAX_CONTENT_CHARS, Entry
from knowledge_hub.prompts import EVOLVING, Evolved, evolving_prompt
from knowledge_hub.store import EntryStore, Once, Said, Stamp

#: How often it is tried on what an entry says by then, when it changed while the model wrote.
_TRIES = 3
_WHY_CHARS = 500


def evolve(
    store: EntryStore,
    model: LanguageModel | None,
    entry_id: str,
    feedback: str,
    stamp: Stamp,
    timeout_s: float,
    once: Once | None = None,
) -> Entry:
    """Rewrites an entry. Nothing is locked while the model writes; a failure changes nothing, and may be repeated.

    Raises:
        NotSupportedError: Without a model.
        NotFoundError: Without the entry.
        ConflictError: When it was changed again and again meanwhile.
        UnavailableError, ProviderError: When the model fails, or writes what cannot be stored.
    """
    if model is None:
        raise NotSupportedError(
            "No language model is set up, so nothing is rewritten",
            mend="Set KNOWLEDGE_HUB_MODEL and the key of its provider.",
        )
    why = f"evolved: {' '.join(feedback.split())[:_WHY_CHARS]}"
    for attempt in range(_TRIES):
        entry = store.get(entry_id)
        if once is not None and store.was_done(once):
            return entry
        answer = model.ask(evolving_prompt(entry, feedback), Evolved, instructions=EVOLVING, timeout_s=timeout_s)
        content = answer.content.encode("utf-8", "replace").decode()
        if not content.strip() or len(content) > MAX_CONTENT_CHARS:
            raise ProviderError("The model wrote nothing", mend="Try again, or name another model.")
        said = Said(entry.scenario, content, entry.tags, entry.source.urls)
        try:
            return store.rewritten(entry_id, entry.version, said, stamp._replace(why=why), once=once)
        except ConflictError:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")
