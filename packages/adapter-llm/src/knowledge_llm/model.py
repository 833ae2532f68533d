"""A language model by name: answers that fit a schema, within one deadline."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pydantic import BaseModel

from knowledge_engine.errors import InvalidArgumentError, ProviderError, UnavailableError
from knowledge_llm.cache import AnswerCache
from knowledge_llm.endpoints import Endpoint
from knowledge_llm.replies import ReplyProblem, read_reply
from knowledge_llm.settings import LlmSettings

if TYPE_CHECKING:
    from knowledge_llm.calling import Conversation, Reply

_log = logging.getLogger("knowledge_llm")
_Answer = TypeVar("_Answer", bound=BaseModel)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0
#: What may pass beyond the deadline, for what cannot be broken off: looking up an address, say.
_GRACE_S = 1.0
_LONGEST_S = 86_400.0


class Usage(NamedTuple):
    """What a model was asked so far, and what that took."""

    #: Requests that were answered, those for repairs among them.
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: Answers that did not fit and were asked for again.
    repairs: int = 0
    #: Requests that were sent again.
    repeats: int = 0
    #: Answers that were found in the cache.
    cached: int = 0


class LlmModel:
    """See `knowledge_engine.ports.LanguageModel`. Connects when it is asked; nothing stays open between questions.

    The first question of a process loads the libraries, which takes about two seconds that no deadline counts.

    Args:
        pause: Waits that many seconds between repeats.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        settings: LlmSettings | None = None,
        *,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._endpoint, self._settings, self._pause = endpoint, settings or LlmSettings(), pause
        folder = self._settings.cache
        self._cache = AnswerCache(folder, max_bytes=self._settings.cache_mb * 2**20) if folder else None
        self._usage = Usage()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<LlmModel {self.name!r}>"

    @property
    def name(self) -> str:
        """See `LanguageModel.name`."""
        return self._endpoint.name

    @property
    def usage(self) -> Usage:
        """What was used up so far, by all threads."""
        with self._lock:
            return self._usage

    def ask(self, prompt: str, schema: type[_Answer], *, instructions: str = "", timeout_s: float = 60.0) -> _Answer:
        """See `LanguageModel.ask`."""
        if not 0 < timeout_s <= _LONGEST_S:
            raise InvalidArgumentError(f"`timeout_s` is {timeout_s:g}", mend=f"Give up to {_LONGEST_S:g} seconds.")
        prompt, whole = _whole(prompt), _whole(_with_form(instructions, schema))
        question = json.dumps([self._endpoint.address, self._endpoint.model, self._settings.max_tokens, whole, prompt])
        if self._cache and (kept := self._cache.find(question)) is not None:
            try:
                answer = read_reply(kept, schema)
            except ReplyProblem:
                pass  # the schema's own checks have changed
            else:
                self._count(cached=1)
                return answer
        text, answer = _run(lambda: self._within(prompt, schema, whole, timeout_s), timeout_s, self._late)
        if self._cache:
            self._cache.keep(question, text)
        return answer

    async def _within(
        self, prompt: str, schema: type[_Answer], instructions: str, timeout_s: float
    ) -> tuple[str, _Answer]:
        from knowledge_llm.calling import Conversation
        from knowledge_llm.wire import http_client

        deadline = time.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s), http_client(self._settings.proxy) as client:
                talk = Conversation(self._endpoint, self._settings, client, prompt, instructions)
                return await self._repaired(talk, schema, deadline)
        except TimeoutError:
            pass
        raise self._late(timeout_s)

    async def _repaired(self, talk: Conversation, schema: type[_Answer], deadline: float) -> tuple[str, _Answer]:
        for left in reversed(range(self._settings.repairs + 1)):
            reply = await self._asked(talk, deadline)
            if reply.refused:
                raise ProviderError(f"The model {self._shown} refused to answer", mend="Ask otherwise, or another one.")
            try:
                return reply.text, read_reply(reply.text, schema)
            except ReplyProblem as found:
                problem = "it was cut off at its limit of length" if reply.cut_off else str(found)
            if left:
                self._count(repairs=1)
                talk.object(_objection(problem, cut_off=reply.cut_off))
        raise ProviderError(
            f"The answer of {self._shown} does not fit: {problem}", mend="Ask for less, or another one."
        )

    async def _asked(self, talk: Conversation, deadline: float) -> Reply:
        from knowledge_llm.calling import Again

        for attempt in range(self._settings.retries + 1):
            started = time.monotonic()
            try:
                reply = await talk.ask(max(deadline - started, 0.001))
            except Again as again:
                error, asked_s = again.error, again.pause_s
            else:
                self._count(requests=1, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)
                self._tell(reply, time.monotonic() - started)
                return reply
            own_s = min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S) * random.uniform(0.5, 1)  # noqa: S311 - no secret
            pause_s = max(own_s, asked_s or 0.0)
            if attempt == self._settings.retries or not pause_s < deadline - time.monotonic():
                break
            self._count(repeats=1)
            await self._pause(pause_s)
        raise error

    def _tell(self, reply: Reply, took_s: float) -> None:
        # Neither what was asked nor what was answered.
        told = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens, "ms": round(took_s * 1000)}
        _log.info("a model answered", extra={"model": self.name, **told})

    def _late(self, timeout_s: float) -> UnavailableError:
        return UnavailableError(
            f"The model {self._shown} did not answer within {timeout_s:g} s", mend="Try again, or allow more time."
        )

    @property
    def _shown(self) -> str:
        return repr(self.name[:60])

    def _count(self, **more: int) -> None:
        with self._lock:
            self._usage = self._usage._replace(
                **{key: getattr(self._usage, key) + number for key, number in more.items()}
            )


_Result = TypeVar("_Result")


def _run(
    work: Callable[[], Awaitable[_Result]], timeout_s: float, late: Callable[[float], UnavailableError]
) -> _Result:
    """Runs in a thread and a loop of its own: callers may have a loop themselves, and nothing outlives the question."""
    import knowledge_llm.calling  # noqa: F401 - loaded before the time runs

    done: list[_Result] = []
    failed: list[BaseException] = []

    async def main() -> None:
        done.append(await work())

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # it is raised where it was asked
            failed.append(error)

    thread = threading.Thread(target=run, name="knowledge-llm", daemon=True)
    thread.start()
    thread.join(timeout_s + _GRACE_S)
    if failed:
        raise failed[0]
    if not done:
        raise late(timeout_s)
    return done[0]


def _whole(text: str) -> str:
    """Text that can be sent: halves of surrogate pairs come together, or become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _with_form(instructions: str, schema: type[BaseModel]) -> str:
    shape = json.dumps(schema.model_json_schema(), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    form = (
        "Your answer is read by a program. Write one JSON value that is valid against this JSON schema, and nothing"
        f" before or after it:\n{shape}"
    )
    return f"{instructions}\n\n{form}" if instructions else form


def _objection(problem: str, *, cut_off: bool) -> str:
    shorter = " Be brief this time." if cut_off else ""
    return f"That answer cannot be used: {problem}. Write the whole JSON value again, and nothing else.{shorter}"
