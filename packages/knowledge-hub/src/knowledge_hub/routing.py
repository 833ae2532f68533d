"""The first stage of a search: which entries could be meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from knowledge_engine.errors import KnowledgeError
from knowledge_engine.ports import LanguageModel
from knowledge_hub.entries import Kind
from knowledge_hub.prompts import ROUTING, Routed, overview_line, routing_prompt
from knowledge_hub.store import EntryStore, Overview

#: A question goes into a prompt as far as that, in characters.
_QUESTION_CHARS = 2_000
#: Lexical candidates that are offered to a model where not all entries can be.
_OFFERED = 400
_READ_AT_ONCE = 10


class Candidates(NamedTuple):
    """Ids, the best first."""

    ids: Iterator[str]
    router: Literal["model", "lexical"]
    invented: int = 0
    warnings: tuple[str, ...] = ()


class Router:
    """Chooses candidates, by a model where there is one.

    Args:
        prompt_chars: The most that a prompt holds.
        timeout_s: How long a model may take.
    """

    def __init__(self, store: EntryStore, model: LanguageModel | None, *, prompt_chars: int, timeout_s: float) -> None:
        self._store, self._model = store, model
        self._prompt_chars, self._timeout_s = prompt_chars, timeout_s

    def candidates(self, query: str, kinds: Sequence[Kind], most: int) -> Candidates:
        """Entries that could help with a question: up to `most` by a model, or all that hold its words."""
        if self._model is None or not query.strip():
            return Candidates(self._lexical(query, kinds, most), "lexical")
        offered = self._offered(query, kinds)
        if not offered:
            return Candidates(iter(()), "model")
        prompt = routing_prompt(query[:_QUESTION_CHARS], list(offered.values()), most)
        try:
            answer = self._model.ask(prompt, Routed, instructions=ROUTING, timeout_s=self._timeout_s)
        except KnowledgeError as error:
            said = f"The model did not choose ({error.code}); the words of the question did."
            return Candidates(self._lexical(query, kinds, most), "lexical", warnings=(said,))
        wanted = list(dict.fromkeys(answer.ids))
        known = [one for one in wanted if one in offered]
        return Candidates(iter(known[:most]), "model", len(wanted) - len(known))

    def _lexical(self, query: str, kinds: Sequence[Kind], most: int) -> Iterator[str]:
        for one in self._store.ranked(query, kinds, max(most, _READ_AT_ONCE)):
            yield one.id

    def _offered(self, query: str, kinds: Sequence[Kind]) -> dict[str, str]:
        """Lines for the prompt by id: of all entries, if they fit; else of those that are most likely to help."""
        room = self._prompt_chars - len(ROUTING) - min(len(query), _QUESTION_CHARS) - 200
        everything = dict[str, str]()
        used = 0
        for one in self._store.overviews(kinds):
            everything[one.id] = line = overview_line(one)
            used += len(line) + 1
            if used > room:
                return self._likely(query, kinds, room)
        return everything

    def _likely(self, query: str, kinds: Sequence[Kind], room: int) -> dict[str, str]:
        """By turns: those with the question's words, the best rated, and the latest."""
        wanted = list(islice((one.id for one in self._store.ranked(query, kinds, _OFFERED)), _OFFERED))
        best = _Best(_OFFERED)
        lines = dict[str, str]()
        places = {one: place for place, one in enumerate(wanted)}
        for one in self._store.overviews(kinds):
            if one.id in places:
                lines[one.id] = overview_line(one)
            best.add(one)
        chosen, used = dict[str, str](), 0
        for one_id, line in (
            *((one, lines[one]) for one in wanted if one in lines),
            *((one.id, overview_line(one)) for one in best.by_turns()),
        ):
            if one_id in chosen:
                continue
            used += len(line) + 1
            if used > room:
                break
            chosen[one_id] = line
        return chosen


class _Best:
    """The best rated entries and the latest ones, of many that pass by; few are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rated: list[Overview] = []
        self._late: list[Overview] = []

    def add(self, one: Overview) -> None:
        self._rated.append(one)
        self._late.append(one)
        if len(self._rated) >= 4 * self._most:
            self._cut()

    def _cut(self) -> None:
        self._rated = sorted(self._rated, key=lambda one: (-one.quality, one.id))[: self._most]
        self._late = sorted(self._late, key=lambda one: (one.updated_at, one.id), reverse=True)[: self._most]

    def by_turns(self) -> Iterator[Overview]:
        self._cut()
        for pair in zip(self._rated, self._late, strict=True):
            yield from pair
