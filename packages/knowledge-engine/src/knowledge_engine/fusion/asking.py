"""Asking several backends at the same time: each in threads of its own, none for longer than agreed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from knowledge_engine.errors import (
    ConfigurationError,
    InvalidArgumentError,
    KnowledgeError,
    ProviderError,
    UnavailableError,
    wire_error,
)
from knowledge_engine.fusion.ids import check_name
from knowledge_engine.lanes import Lane, LaneCall, run_apart
from knowledge_engine.ports import IKnowledgeProvider

T = TypeVar("T")


@dataclass
class Answers(Generic[T]):
    """What came back, by backend, in the order in which they were given."""

    results: dict[str, T] = field(default_factory=dict)
    errors: dict[str, KnowledgeError] = field(default_factory=dict)

    def warnings(self) -> list[str]:
        """A sentence for each backend that did not answer."""
        return [f"The backend {name!r} is left out: {error}" for name, error in self.errors.items()]

    def need_one(self) -> Answers[T]:
        """These answers, if there is any.

        Raises:
            KnowledgeError: Else; the backends' own error where all have the same kind.
        """
        if self.results or not self.errors:
            return self
        errors = list(self.errors.values())
        if len({type(error) for error in errors}) == 1:
            raise errors[0]
        told = " ".join(f"{name}: {error}" for name, error in self.errors.items())
        raise UnavailableError(f"No backend answers. {told}", mend="Look at each of them.") from errors[0]


class Backends:
    """Named providers, each with a lane of its own.

    Args:
        timeout_s: How long a backend may take for one request, waiting for its turn included.
    """

    def __init__(
        self,
        providers: Mapping[str, IKnowledgeProvider],
        *,
        timeout_s: float,
        max_concurrent: int,
        max_abandoned: int,
    ) -> None:
        if not providers:
            raise ConfigurationError("There are no backends to ask", mend="Give at least one.")
        if not timeout_s > 0:
            raise InvalidArgumentError(f"timeout_s is {timeout_s!r}", mend="Use more than 0 seconds.")
        self.timeout_s = timeout_s
        self.providers = {check_name(name): provider for name, provider in providers.items()}
        self._lanes = {
            name: Lane(name, max_concurrent=max_concurrent, max_abandoned=max_abandoned) for name in providers
        }

    def ask(self, name: str, call: Callable[[IKnowledgeProvider], T]) -> T:
        """What the call returns or raises, for one backend.

        Raises:
            UnavailableError: When it does not answer in time.
            BusyError: When too many earlier calls hang.
            ProviderError: When it raises what is not one of our errors.
        """
        given = self._lanes[name].submit(partial(call, self.providers[name]))
        self._wait(name, given, time.monotonic() + self.timeout_s)
        try:
            return given.result()
        except KnowledgeError:
            raise
        except Exception as error:
            raise _coded(error) from error

    def ask_all(self, call: Callable[[str, IKnowledgeProvider], T], names: Iterable[str] | None = None) -> Answers[T]:
        """What the call returns for each backend, or why it does not."""
        asked: dict[str, LaneCall[T]] = {}
        answers = Answers[T]()
        names = list(self.providers if names is None else names)
        deadline = time.monotonic() + self.timeout_s
        for name in names:
            try:
                asked[name] = self._lanes[name].submit(partial(call, name, self.providers[name]))
            except KnowledgeError as error:
                answers.errors[name] = error
        for name, given in asked.items():
            try:
                self._wait(name, given, deadline)
                answers.results[name] = given.result()
            except KnowledgeError as error:
                answers.errors[name] = error
            except Exception as error:  # a backend is a plugin: whatever it raises, the others answer
                answers.errors[name] = _coded(error)
        answers.errors = {name: answers.errors[name] for name in names if name in answers.errors}
        return answers

    def dispose(self) -> None:
        """Disposes of all, waiting as long as for any request; then raises the first error that came up."""
        for lane in self._lanes.values():
            lane.close()
        calls = [run_apart(f"{name}-dispose", provider.dispose) for name, provider in self.providers.items()]
        wait(calls, self.timeout_s)
        for call in calls:
            if call.done():
                call.result()

    def _wait(self, name: str, given: LaneCall[T], deadline: float) -> None:
        wait([given], max(0.0, deadline - time.monotonic()))
        if not given.done():
            self._lanes[name].abandon(given)
            raise UnavailableError(
                f"The backend {name!r} did not answer within {self.timeout_s:g} s", mend="Try again later."
            )


def _coded(error: Exception) -> KnowledgeError:
    told = wire_error(error)
    found = ProviderError(told["message"], mend=told["mend"])
    found.__cause__ = error
    return found
