"""The agent tools as WAMP handlers: coroutines that never raise and answer plain dicts in bounded time and size."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from knowledge_engine.agent_tools import AgentTools, plain
from knowledge_engine.agent_tools.tools import NO_DOCUMENT, NO_DOCUMENTS, NO_HITS
from knowledge_engine.errors import ProviderError, TooLargeError, wire_error
from knowledge_engine.lanes import Lane, run_in_lane
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_engine.service import KnowledgeService
from knowledge_wamp.answers import Answer, KeptAnswers, call_key
from knowledge_wamp.wire import clean, clean_sized

Handler = Callable[..., Awaitable[Answer]]

TOOLS = ("list", "get", "query")
MAX_ANSWER_BYTES = 1_000_000
_DEFAULT_TIMEOUT_S = 30.0
_MAX_CONCURRENT = 8
_EMPTY = {"list": NO_DOCUMENTS, "get": NO_DOCUMENT, "query": NO_HITS}
#: By tool: the argument that says how much is wanted, its other names, and its place among the arguments.
_AMOUNTS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "list": (("limit",), 2),
    "query": (("top_k", "topK", "limit"), 1),
}


def make_lane(name: str) -> Lane:
    """Where the calls of one server run: they block, and the event loop must not."""
    return Lane(name, max_concurrent=_MAX_CONCURRENT, max_abandoned=_MAX_CONCURRENT)


@dataclass(frozen=True)
class ToolSet:
    """The tools of something, and what tells whether it is still what it was."""

    call: Callable[..., object]
    #: Equal as long as answers stay the same; None where nobody knows.
    version: Callable[[], object]
    #: Whether `version` may wait for something.
    blocks: bool


def find_tools(given: object) -> ToolSet:
    """The tools of a library, a service, a provider, or of `AgentTools` themselves.

    Raises:
        TypeError: For anything else.
    """
    if isinstance(given, KnowledgeService | IKnowledgeProvider):
        given = AgentTools(given if isinstance(given, KnowledgeService) else KnowledgeService(given))
    tools = given if isinstance(given, AgentTools) else getattr(given, "tools", None)
    if not isinstance(tools, AgentTools):
        raise TypeError(f"a {type(given).__name__} is no library and no provider")

    def call(name: str, /, *args: object, **kwargs: object) -> object:
        answer = getattr(tools, name)(*args, **kwargs)
        # AgentTools promise plain JSON; of a class of somebody else's nobody knows.
        return answer if type(tools) is AgentTools else plain(answer)

    version = getattr(given, "version", None)
    if callable(version):
        return ToolSet(call, version, blocks=False)
    return ToolSet(call, lambda: tools.service.revision() or None, blocks=True)


class ToolHandlers:
    """Makes handlers for the tools of one set. They share a lane, and the answers that were given.

    Args:
        timeout_s: How long one call may take.
        max_bytes: Of one answer, as JSON.
        recent_s: How long an answer that was given may be given again without asking whether it still holds.
    """

    def __init__(
        self,
        tools: ToolSet,
        lane: Lane,
        *,
        timeout_s: float = _DEFAULT_TIMEOUT_S,
        max_bytes: int = MAX_ANSWER_BYTES,
        recent_s: float = 0.0,
    ) -> None:
        self._tools, self._lane = tools, lane
        self._timeout_s, self._max_bytes, self._recent_s = timeout_s, max_bytes, recent_s
        self._kept = KeptAnswers()
        #: The version that was seen last, until when that is recent, and how often something had been written then.
        self._seen: tuple[object, float, int] = (None, 0.0, 0)
        self._writes = 0

    def forget(self) -> None:
        """Something was written: answers given before are not recent any more."""
        self._writes += 1

    def handler(self, name: str) -> Handler:
        """A handler for one tool. Arguments come by name, or as one object in the first place, or in the tool's order.

        It raises nothing but CancelledError, when its caller gave up.
        """

        async def handler(*args: object, **kwargs: object) -> Answer:
            try:
                key = call_key(name, args, kwargs)
                version = self._recent() if self._tools.blocks else self._tools.version()
                if (kept := self._kept.get(key, version)) is not None:
                    return kept
                return await run_in_lane(self._lane, partial(self._answer, name, key, args, kwargs), self._timeout_s)
            except Exception as error:
                return failure(name, error)

        return handler

    def _answer(self, name: str, key: str | None, args: tuple[object, ...], kwargs: dict[str, object]) -> Answer:
        version = self._version()
        if (kept := self._kept.get(key, version)) is not None:
            return kept
        args, kwargs = by_name(args, kwargs)
        answer, size = self._called(name, args, kwargs)
        while size > self._max_bytes:
            amount = _smaller_amount(name, answer)
            if amount is None:
                raise TooLargeError(f"The answer has {size} bytes", mend="Ask for less: a section, or fewer at once.")
            args, kwargs = _asking_for(amount, name, args, kwargs)
            answer, size = self._called(name, args, kwargs)
        # An error may pass, and changes while it was answered may be in it.
        if "error" not in answer and version == self._tools.version():
            self._kept.put(key, version, answer, size)
        return answer

    def _version(self) -> object:
        writes, until = self._writes, time.monotonic() + self._recent_s
        version = self._tools.version()
        self._seen = (version, until, writes)
        return version

    def _recent(self) -> object:
        """The version that was seen just now; None where none was, or where it may be the one before a write."""
        version, until, writes = self._seen
        return version if time.monotonic() < until and writes == self._writes else None

    def _called(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Answer, int]:
        answer = self._tools.call(name, *args, **kwargs)
        if not isinstance(answer, dict):
            raise ProviderError(f"A tool answered with a {type(answer).__name__}", mend="Report it to its makers.")
        return clean_sized(answer)


def failure(name: str, error: Exception) -> Answer:
    """The usual answer of a tool, without findings, that says what went wrong."""
    wire = wire_error(error)
    answer = {**_EMPTY[name], "error": wire["message"], "code": wire["code"], "mend": wire["mend"]}
    if wire["id"]:
        answer["error_id"] = wire["id"]
    return {key: clean(value) for key, value in answer.items()}


def by_name(args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[tuple[object, ...], dict[str, object]]:
    """Takes one object in the first place as the keywords, as clients write it that know none."""
    first = args[0] if len(args) == 1 else None
    if isinstance(first, Mapping) and all(isinstance(key, str) for key in first):
        return (), {**first, **kwargs}
    return args, kwargs


def _smaller_amount(name: str, answer: Answer) -> int | None:
    """How much to ask for, for an answer of about half the length; None where there is nothing to leave out."""
    found = answer.get("docs" if name == "list" else "hits")
    if name not in _AMOUNTS or not isinstance(found, list) or len(found) < 2:
        return None
    return len(found) // 2


def _asking_for(
    amount: int, name: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    names, place = _AMOUNTS[name]
    if len(args) > place:
        return (*args[:place], amount, *args[place + 1 :]), kwargs
    return args, {**{key: value for key, value in kwargs.items() if key not in names}, names[0]: amount}
