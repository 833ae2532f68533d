"""Concepts by a language model: one question a section, several at once, finished ones never asked twice."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from knowledge_engine.errors import ConfigurationError, InvalidArgumentError, KnowledgeError, UnavailableError
from knowledge_engine.ports import LanguageModel
from knowledge_okf.extraction import Draft, Extraction, Task, producer
from knowledge_okf.headings import HeadingExtractor
from knowledge_okf.kept import sha256
from knowledge_okf.models import FailedSection, Rejected
from knowledge_okf.names import Names, slug
from knowledge_okf.prompts import INSTRUCTIONS, VERSION, build_prompt, parts_of
from knowledge_okf.replies import Reply, take
from knowledge_okf.sections import Outline
from knowledge_okf.sources import SourceText

#: Called with how many sections are done, how many there are, and how many of the former failed.
Progress = Callable[[int, int, int], None]
_MAX_CONCURRENCY: Final = 64


class AnswerStore(Protocol):
    """Keeps answers, so that work that was cut off goes on where it ended."""

    def get(self, key: str) -> list[Any] | None:
        """The items kept under a key."""
        ...

    def put(self, key: str, items: list[Any]) -> None:
        """Keeps the items of an answer."""
        ...


class LLMExtractor:
    """Asks a language model about each section.

    Args:
        model: The port.
        concurrency: How many questions are under way at once.
        timeout_s: For one question, all that the model's adapter does included.
        store: Where answers are kept; without one, nowhere.
        progress: Told after each section; from any thread, one call at a time.

    Raises:
        InvalidArgumentError: For a concurrency outside 1 to 64, or a time that is none.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        concurrency: int = 8,
        timeout_s: float = 120.0,
        store: AnswerStore | None = None,
        progress: Progress | None = None,
    ) -> None:
        if not 1 <= concurrency <= _MAX_CONCURRENCY or not timeout_s > 0:
            raise InvalidArgumentError(
                f"concurrency is {concurrency!r}, timeout_s {timeout_s!r}",
                mend=f"Use 1 to {_MAX_CONCURRENCY} and a number of seconds above 0.",
            )
        self.model = model
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._store = store
        self._progress = progress

    def extract(self, source: SourceText, outline: Outline, tasks: Sequence[Task]) -> Extraction:
        """See `Extractor`.

        Raises:
            ConfigurationError: When the model cannot be asked at all: no key, say.
        """
        # A heading above others, with no text of its own, is nothing to ask about.
        plain = [task for task in tasks if not task.section.text.strip()]
        asked = [task for task in tasks if task.section.text.strip()]
        found = _Run(self, source, outline, asked).result()
        drafts = [*found.drafts, *HeadingExtractor().extract(source, outline, plain).drafts]
        return found._replace(drafts=tuple(sorted(drafts, key=lambda draft: draft.task.place)))

    def items(self, task: Task, prompt: str, part: int) -> list[Any]:
        """The model's items for one prompt: kept ones, or fresh ones, which are kept then."""
        key = sha256(json.dumps([VERSION, self.model.name, task.hash, part]).encode())
        kept = self._store.get(key) if self._store else None
        if kept is not None:
            return kept
        reply = self.model.ask(prompt, Reply, instructions=INSTRUCTIONS, timeout_s=self._timeout_s)
        if self._store:
            self._store.put(key, reply.concepts)
        return reply.concepts

    def start(self, work: Callable[[], None], count: int) -> list[threading.Thread]:
        """Threads that do the work; daemons, so that an interrupted program does not wait for a slow model."""
        number = min(self._concurrency, count)
        threads = [threading.Thread(target=work, name="knowledge-okf", daemon=True) for _ in range(number)]
        for thread in threads:
            thread.start()
        return threads

    def tell(self, done: int, total: int, failed: int) -> None:
        """Says how far it is."""
        if self._progress:
            self._progress(done, total, failed)

    @property
    def patience(self) -> int:
        """How many questions in a row may find no model before the rest is not asked."""
        return 2 * self._concurrency


class _Run:
    """One extraction."""

    def __init__(self, extractor: LLMExtractor, source: SourceText, outline: Outline, tasks: Sequence[Task]) -> None:
        self._extractor, self._source, self._tasks = extractor, source, tasks
        self._titles = [each.title for each in outline.sections if each.title]
        names = Names()
        self._ids = [names.take(slug(task.section.title or outline.title)) for task in tasks]
        self._waiting = deque(range(len(tasks)))
        self._drafts: list[list[Draft]] = [[] for _ in tasks]
        self._rejected: list[list[Rejected]] = [[] for _ in tasks]
        self._failed: dict[int, KnowledgeError] = {}
        self._lock = threading.Lock()
        self._done = self._unreachable = 0
        self._fatal: BaseException | None = None

    def result(self) -> Extraction:
        for thread in self._extractor.start(self._work, len(self._tasks)):
            # In short steps, so that an interrupt is seen on every system.
            while thread.is_alive():
                thread.join(0.5)
        if self._fatal is not None:
            raise self._fatal
        failed = [_failure(self._tasks[at], self._failed[at]) for at in sorted(self._failed)]
        return Extraction(
            tuple(draft for drafts in self._drafts for draft in drafts),
            tuple(failed),
            tuple(each for rejected in self._rejected for each in rejected),
            producer(),
            frozenset(self._tasks[at].place for at in self._failed),
        )

    def _work(self) -> None:
        while self._fatal is None:
            try:
                at = self._waiting.popleft()
            except IndexError:
                return
            try:
                self._one(at)
                self._note(at, None)
            except ConfigurationError as error:
                self._fatal = error
            except KnowledgeError as error:
                self._note(at, error)
            except Exception as error:  # a model's adapter may be anybody's
                wrapped = KnowledgeError(f"The model failed ({type(error).__name__})", mend="Try another one.")
                self._note(at, wrapped)

    def _one(self, at: int) -> None:
        task = self._tasks[at]
        if self._unreachable >= self._extractor.patience:
            raise UnavailableError("The model cannot be reached, so it was not asked", mend="Update the bundle later.")
        parts = parts_of(task.section.text)
        drafts: list[Draft] = []
        rejected: list[Rejected] = []
        for number, text in enumerate(parts):
            prompt = build_prompt(self._ids[at], task.path, text, self._titles)
            items = self._extractor.items(task, prompt, number)
            taken, refused = take(task, self._source.raw, items, self._ids[at])
            drafts += taken
            rejected += refused
        self._rejected[at] = rejected
        if rejected and not drafts:
            raise KnowledgeError(
                f"Nothing of the answer can be proved by the section ({rejected[0].reason})", mend="Ask another model."
            )
        self._drafts[at] = drafts

    def _note(self, at: int, error: KnowledgeError | None) -> None:
        with self._lock:
            self._done += 1
            self._unreachable = self._unreachable + 1 if isinstance(error, UnavailableError) else 0
            if error is not None:
                self._failed[at] = error
            self._extractor.tell(self._done, len(self._tasks), len(self._failed))


def _failure(task: Task, error: KnowledgeError) -> FailedSection:
    path = task.path.encode("utf-8", "replace").decode()
    return FailedSection(section=path, code=error.code, message=str(error).encode("utf-8", "replace").decode())
