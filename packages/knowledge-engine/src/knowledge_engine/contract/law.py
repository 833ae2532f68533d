"""What a law is, and how a broken one is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeVar

T = TypeVar("T")

Level = Literal["read", "filters", "citations", "write", "durability", "parity"]
#: From the first that a backend has to reach to the last.
LEVELS: tuple[Level, ...] = ("read", "filters", "citations", "write", "durability", "parity")


@dataclass(frozen=True)
class Law:
    """Something that every backend must do; `check` raises when this one does not."""

    name: str
    level: Level
    #: What must hold, in a sentence.
    statement: str
    #: Where that is promised: a port's docstring, or a term of the design.
    source: str
    #: What to look at when it fails.
    hint: str
    #: Powers without which it says nothing; see `case.Powers`.
    needs: frozenset[str]
    check: Callable[[Any], None]
    #: Part of the profile's examples that it takes: some laws start threads.
    share: float = 1.0


class BrokenLawError(AssertionError):
    """A backend broke a law; the message names law, cause, source, hint and the smallest example found."""

    def __init__(self, law: Law, problem: str, example: str) -> None:
        super().__init__(
            f"law {law.name!r} ({law.level}) is broken: {problem}\n"
            f"  the law: {law.statement}\n  its source: {law.source}\n  look at: {law.hint}\n  smallest example:\n"
            + "\n".join(f"    {line}" for line in example.splitlines())
        )
        self.law = law
        self.problem = problem
        self.example = example


class Breach(AssertionError):  # noqa: N818 - it becomes a BrokenLawError, which knows the law
    """What `need` and its like raise."""


def law(
    level: Level, *, source: str, hint: str, needs: Collection[str] = (), share: float = 1.0
) -> Callable[[Callable[[Any], None]], Law]:
    """Makes a law of a function: its name with hyphens, its docstring as the statement."""

    def made(check: Callable[[Any], None]) -> Law:
        statement = (check.__doc__ or "").strip()
        return Law(check.__name__.replace("_", "-"), level, statement, source, hint, frozenset(needs), check, share)

    return made


def laws_in(*modules: ModuleType) -> dict[str, Law]:
    """The laws that modules define, by name, in order of level."""
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Law)]
    return {one.name: one for one in sorted(found, key=lambda one: LEVELS.index(one.level))}


def need(condition: object, problem: str) -> None:
    """An assertion that also holds under `python -O`."""
    if not condition:
        raise Breach(problem)


def same(actual: object, expected: object, what: str) -> None:
    """Needs two values to be equal."""
    if actual != expected:
        raise Breach(f"{what} is {shown(actual)}, not {shown(expected)}")


def refused(call: Callable[[], object], errors: type[Exception] | tuple[type[Exception], ...], what: str) -> Exception:
    """Needs a call to raise one of these errors; gives it back."""
    kinds = errors if isinstance(errors, tuple) else (errors,)
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        answer = call()
    except kinds as error:
        return error
    except Exception as error:
        raise Breach(f"{what} raised {type(error).__name__}: {error}, not {names}") from error
    raise Breach(f"{what} gave {shown(answer)} and did not raise {names}")


def shown(value: object, limit: int = 600) -> str:
    """A value in a message, not longer than people read."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text):,} characters)"


def unique(values: Iterable[T], what: str) -> list[T]:
    """Needs all values to be different; gives them back."""
    found = list(values)
    need(len(set(found)) == len(found), f"{what} has repeats: {shown(found)}")
    return found
