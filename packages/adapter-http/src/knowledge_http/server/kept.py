"""Answers that are given again, as long as the documents that they were made from stay the same."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress

from knowledge_http.server.rendering import Answer

MAX_ANSWERS = 1_000
MAX_BYTES = 32_000_000
#: How much longer than agreed an answer may be given while a look at the documents is under way.
_LOOK_S = 2.0


class KeptAnswers:
    """The last answers of one view.

    Whether the documents are still the same is asked of the backend every `fresh_for_s`, while there are callers; as
    for `KnowledgeService`, an answer may be that old, and older by that look. What asks first after a while is not
    answered from here.

    Args:
        revision: Takes in what changed, and names what there is; empty where the backend does not tell.
        fresh_for_s: 0: nothing is kept.
    """

    def __init__(self, revision: Callable[[], Awaitable[str]], fresh_for_s: float) -> None:
        self._ask = revision
        self._fresh_for_s = fresh_for_s
        self._answers: OrderedDict[Hashable, Answer] = OrderedDict()
        self._bytes = 0
        self._revision = ""
        #: When the last look began that knows of nothing newer.
        self._looked = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        #: Other than it was where what is being made now may be of what was before.
        self.generation = 0

    def find(self, key: Hashable) -> Answer | None:
        """The answer of that key, if it still holds."""
        if not self._fresh_for_s:
            return None
        age = time.monotonic() - self._looked
        if age > self._fresh_for_s and self._looking is None:
            self._looking = asyncio.create_task(self._look())
        if age > self._fresh_for_s + _LOOK_S:
            return None
        found = self._answers.get(key)
        if found is not None:
            self._answers.move_to_end(key)
        return found

    def put(self, key: Hashable, answer: Answer, generation: int) -> None:
        """Keeps an answer, whose making began in that generation."""
        if generation != self.generation or not self._revision or answer.status != 200 or not answer.keep:
            return
        size = len(answer.body)
        if size > MAX_BYTES // 8 or key in self._answers:
            return
        self._answers[key] = answer
        self._bytes += size
        while self._bytes > MAX_BYTES or len(self._answers) > MAX_ANSWERS:
            _, oldest = self._answers.popitem(last=False)
            self._bytes -= len(oldest.body)

    def forget(self) -> None:
        """Something was written."""
        self.generation += 1
        self._answers.clear()
        self._bytes = 0
        self._revision = ""
        self._looked = float("-inf")

    async def _look(self) -> None:
        began, generation = time.monotonic(), self.generation
        try:
            with suppress(Exception):  # whoever asks is told what is wrong
                revision = await self._ask()
                if generation == self.generation:
                    if revision != self._revision:
                        self.forget()
                        self._revision = revision
                    self._looked = began
        finally:
            self._looking = None
