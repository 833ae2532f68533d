"""The hub: what agents save, find, rate and improve."""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from pydantic import JsonValue

from knowledge_engine.errors import (
    ConfigurationError,
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
)
from knowledge_engine.ports import IKnowledgeProvider, LanguageModel
from knowledge_hub.entries import (
    MAX_LIST,
    BatchAnswer,
    Entry,
    EntrySource,
    EntryUpdate,
    Eval,
    Feedback,
    ImportAnswer,
    Kind,
    Merged,
    NewEntry,
    SearchAnswer,
    SlimAnswer,
    SlimPlan,
    Status,
    Tags,
    Version,
)
from knowledge_hub.feedback import HubFeedback
from knowledge_hub.lines import exported, imported
from knowledge_hub.requests import check_range, checked_kinds, once
from knowledge_hub.routing import Router
from knowledge_hub.searching import HubSearch
from knowledge_hub.settings import NO_MODEL, SLIMMING_MODEL, HubSettings
from knowledge_hub.slimming import apply_plan, make_plan
from knowledge_hub.store import EntryStore, Rating, Said, Stamp

#: So many bytes make an id that nobody has drawn before; should one come twice, another is drawn.
_RANDOM_BYTES = 4
_DRAWS = 5


class HubService:
    """What the routes, tools and commands of the hub call. Any thread may; each change is one transaction.

    Args:
        routing, slimming: Models; None for none.
        named: Finds a model by name, for those who name one themselves.
        clock: Says the time.
        random_hex: Draws the last part of an id.
    """

    def __init__(
        self,
        store: EntryStore,
        settings: HubSettings | None = None,
        *,
        routing: LanguageModel | None = None,
        slimming: LanguageModel | None = None,
        named: Callable[[str], LanguageModel] | None = None,
        notes: Sequence[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        random_hex: Callable[[], str] = lambda: secrets.token_hex(_RANDOM_BYTES),
    ) -> None:
        self._store, self._settings = store, settings or HubSettings()
        self._routing, self._slimming, self._named = routing, slimming, named
        self._notes = tuple(notes)
        self._clock, self._random_hex = clock, random_hex
        router = Router(
            store, routing, prompt_chars=self._settings.prompt_chars, timeout_s=self._settings.routing_timeout_s
        )
        self._search = HubSearch(store, router)
        self._feedback = HubFeedback(store, routing, self._settings.writing_timeout_s)

    @property
    def provider(self) -> IKnowledgeProvider:
        """The active entries as documents."""
        return self._store.provider

    # Saving and reading

    def save(self, new: NewEntry, *, who: str = "", key: str = "") -> Entry:
        """Keeps what an agent has learned.

        Args:
            who: The agent that the caller's token stands for.
            key: Idempotency key: what was saved under it is answered, and not saved again.

        Raises:
            ConflictError: When the key stands for something else.
        """
        stamp = self._stamp(who or new.agent_id, "saved")
        day, timestamp = stamp.at[:10].replace("-", ""), stamp.at.replace(" ", "T")
        key_once = once(key, "save", new)
        for attempt in range(_DRAWS):
            entry = Entry(
                id=f"knowledge-{day}-{self._random_hex()}",
                message_id=new.message_id,
                tags=Tags(type=new.tags_type),
                scenario=new.scenario,
                content=new.content,
                source=EntrySource(
                    urls=new.urls,
                    agent_id=new.agent_id,
                    timestamp=timestamp,
                    token_agent=who,
                ),
                eval=Eval(score=new.score),
                created_at=stamp.at,
                updated_at=stamp.at,
            )
            try:
                return self._store.add(entry, stamp, key_once)
            except ConflictError:
                if attempt == _DRAWS - 1 or entry.id not in self._store.some([entry.id]):
                    raise
        raise AssertionError("unreachable")

    def get(self, entry_id: str) -> Entry:
        """An entry with its histories.

        Raises:
            NotFoundError: When there is none.
        """
        return self._store.get(entry_id)

    def listed(
        self, *, limit: int = 10, kinds: Sequence[Kind] = (), status: Status | None = "active", after: str = ""
    ) -> tuple[Entry, ...]:
        """Entries without their histories, the newest first.

        Args:
            after: Id of the last entry of the page before.
        """
        check_range("limit", limit, 1, MAX_LIST)
        return self._store.listed(limit, checked_kinds(kinds), status, after)

    def entries(self) -> Iterator[Entry]:
        """All active entries without their histories, in order of id; few at a time are in memory."""
        return self._store.texts()

    def search(self, query: str, *, top_k: int = 5, min_score: int = 3, kinds: Sequence[Kind] = ()) -> SearchAnswer:
        """The entries that help most with a question.

        First a model, or the words of the question, choose candidates; then those are out that are rated below
        `min_score` or whose feedback is bad. Of a model's choice the best rated come first; of the words' choice those
        with the best words.
        """
        return self._search.find(query, top_k=top_k, min_score=min_score, kinds=kinds)

    # Feedback

    def update(self, entry_id: str, update: EntryUpdate, *, who: str = "", key: str = "") -> Entry:
        """Adds feedback to an entry, rates it, and rewrites it, as the update says.

        What is counted stays counted when the model fails to rewrite. Under the same key it is not counted again, and
        rewritten if it was not yet.

        Raises:
            NotFoundError: When there is no such entry.
            InvalidArgumentError: When the update says nothing.
            NotSupportedError, UnavailableError, ProviderError, ConflictError: It was not rewritten, as they say.
        """
        return self._feedback.update(entry_id, update, self._stamp(who, "rated"), key)

    def batch_update(self, feedback: Sequence[Feedback], *, who: str = "", key: str = "") -> BatchAnswer:
        """Adds many feedbacks; ids that there are not are listed, and the others applied."""
        return self._feedback.batch(feedback, self._stamp(who, "rated"), key)

    # Versions

    def history(self, entry_id: str) -> tuple[Version, ...]:
        """All that an entry said, the present last, each with what changed.

        Raises:
            NotFoundError: When there is no such entry.
        """
        versions = self._store.versions(entry_id)
        changed = (later.model_copy(update={"diff": _diff(earlier, later)}) for earlier, later in pairwise(versions))
        return (versions[0], *changed)

    def ratings(self, entry_id: str) -> tuple[Rating, ...]:
        """Its ratings, the present last."""
        return self._store.ratings(entry_id)

    def revert(self, entry_id: str, version: int, *, who: str = "") -> Entry:
        """Lets an entry say again what it said as that version; the feedback on that counts again.

        Raises:
            NotFoundError: When there is no such entry or version.
            ConflictError: When that is what it says.
        """
        versions = {one.version: one for one in self._store.versions(entry_id)}
        wanted, present = versions.get(version), versions[max(versions)]
        if wanted is None:
            raise NotFoundError(
                f"There is no version {version}", mend=f"Name one from {min(versions)} to {present.version}."
            )
        if wanted.content_of == present.content_of:
            raise ConflictError(f"It says what version {version} says", mend="Nothing is left to do.")
        said = Said(wanted.scenario, wanted.content, wanted.tags, wanted.urls)
        stamp = self._stamp(who, f"reverted: to version {version}")
        return self._store.rewritten(entry_id, present.version, said, stamp, content_of=wanted.content_of)

    def retire(self, entry_id: str, *, who: str = "", why: str = "") -> Entry:
        """Takes an entry out of searches, without deleting it; `restore` brings it back.

        Raises:
            NotFoundError: When there is no such entry.
            ConflictError: When it is not active.
        """
        return self._store.retired(entry_id, self._stamp(who, f"retired: {why}" if why else "retired"))

    def restore(self, entry_id: str, *, who: str = "") -> Entry:
        """Brings a retired entry back.

        Raises:
            NotFoundError: When there is no such entry.
            ConflictError: When it is not retired.
        """
        return self._store.retired(entry_id, self._stamp(who, "restored"), back=True)

    def delete(self, entry_id: str, *, who: str = "") -> None:
        """Removes an entry with its history. What it stood for is active again.

        Raises:
            NotFoundError: When there is no such entry.
        """
        self._store.deleted(entry_id, self._stamp(who, "deleted"))

    # Slimming

    def plan_slim(self, *, model: str | None = None) -> SlimPlan:
        """What slimming would do. Changes nothing.

        Args:
            model: Name of the one that proposes merges; `none` for the rule. The default's name is taken as what is
                set up, which may be the rule.

        Raises:
            InvalidArgumentError: For a model that cannot be had.
        """
        chosen = self._slimming
        if model == NO_MODEL:
            chosen = None
        elif model not in (None, SLIMMING_MODEL, self._settings.slimming_model):
            chosen = self._model(str(model))
        return make_plan(self._store, chosen, timeout_s=self._settings.writing_timeout_s)

    def _model(self, name: str) -> LanguageModel:
        try:
            if self._named is None:
                raise ConfigurationError("This hub finds no models", mend="Leave the model out.")
            return self._named(name)
        except ConfigurationError as error:
            raise InvalidArgumentError(error.problem, mend="Name another model, or none.") from error

    def apply_slim(self, plan: SlimPlan, *, who: str = "", chosen: Collection[str] | None = None) -> SlimAnswer:
        """Applies a plan, merge by merge; what has changed since it was made is left alone and listed.

        Args:
            chosen: Ids of the entries that are kept by those merges that are wanted; None for all.
        """
        return apply_plan(self._store, plan, self._stamp(who, "merged"), chosen)

    def merges(self) -> tuple[Merged, ...]:
        """The merges that were applied, the latest first."""
        return self._store.merges()

    def undo_merge(self, merge_id: int, *, who: str = "") -> Entry:
        """Undoes one; the entry that had been kept.

        Raises:
            NotFoundError: When there is no such merge.
            ConflictError: When it was undone, or the entry says something else by now.
        """
        return self._store.unmerged(merge_id, self._stamp(who, f"unmerged: merge {merge_id}"))

    # All of it

    def export(self) -> Iterator[str]:
        """The hub as lines of JSON: a header, then an entry a line with all that is known of it."""
        return exported(self._store.dump())

    def import_lines(self, lines: Iterable[str | bytes], *, who: str = "") -> ImportAnswer:
        """Adds what was exported, or bare entries, one a line. All or nothing.

        Raises:
            InvalidArgumentError: Naming the first line that is none, and why.
            ConflictError: When there is another entry of an id.
        """
        with imported(lines) as records:
            added, same = self._store.load(records, self._stamp(who, "imported"))
        return ImportAnswer(added=added, same=same)

    def backup(self, path: str) -> None:
        """Copies the hub into a file while others read and write."""
        self._store.backup(path)

    def status(self) -> dict[str, JsonValue]:
        """How many entries there are, and who chooses among them."""
        everything, active = self._store.size()
        return {
            "entries": everything,
            "active": active,
            "router": "model" if self._routing else "lexical",
            "routing_model": self._routing.name if self._routing else None,
            "slimming_model": self._slimming.name if self._slimming else None,
            "notes": list(self._notes),
        }

    def close(self) -> None:
        """Lets go of the file."""
        self._store.close()

    def _stamp(self, who: str, why: str) -> Stamp:
        return Stamp(self._clock().astimezone(UTC).isoformat(" ", "seconds")[:19], who, why)


def _diff(earlier: Version, later: Version) -> str:
    def lines(one: Version) -> list[str]:
        head = [f"scenario: {one.scenario}", f"type: {', '.join(one.tags.type)}", *(f"url: {url}" for url in one.urls)]
        return [*head, "", *one.content.splitlines()]

    names = (f"version {earlier.version}", f"version {later.version}")
    return "\n".join(difflib.unified_diff(lines(earlier), lines(later), *names, lineterm=""))
