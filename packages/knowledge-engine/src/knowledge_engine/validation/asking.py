"""Asking validators about snippets. They are an application's own code: they may raise, hang, or answer anything."""

from __future__ import annotations

import faulthandler
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from pathlib import PurePath
from traceback import extract_tb
from typing import Final

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import DocumentIssue
from knowledge_engine.validation.deadline import DeadlineError, call_within
from knowledge_engine.validation.parsers import DEFAULT_CHECKS, SnippetError
from knowledge_engine.validation.snippets import Snippet, language_name

#: Gets a snippet's text and gives what is wrong with it: texts, one text, or nothing.
SnippetValidator = Callable[[str], Iterable[str] | str | None]

#: How long a validator may look at one snippet.
SNIPPET_TIMEOUT_S: Final = 5.0
#: A validator that hung so often is not asked again.
MAX_HANGS: Final = 3
_MAX_ANSWERS: Final = 20
_MAX_CHARS: Final = 500
_MEND: Final = "Write the snippet so that it parses, or give its fence another language."


class _AnswerError(Exception):
    """What a validator gave is no answer."""


class SnippetChecks:
    """Validators by language, and how they behaved so far.

    Args:
        validators: In place of the defaults for their languages, or beside them; None switches a language off.
        timeout_s: For each snippet.
        exit_after_s: After so long with one snippet the whole process ends with code 1, and standard error has where it
            hung. None: it is waited for.

    Raises:
        ConfigurationError: For what cannot be called, and for a time that is none.
    """

    def __init__(
        self,
        validators: Mapping[str, SnippetValidator | None] | None,
        timeout_s: float,
        *,
        exit_after_s: float | None = None,
    ) -> None:
        if type(timeout_s) not in (int, float) or not 0 < timeout_s < math.inf:
            raise ConfigurationError(f"snippet_timeout_s is {timeout_s!r}", mend="Give a number of seconds above 0.")
        if validators is not None and not isinstance(validators, Mapping):
            raise ConfigurationError(
                f"snippet_validators is a {type(validators).__name__}", mend='Give them by language: {"yaml": check}.'
            )
        self._timeout_s, self._exit_after_s = timeout_s, exit_after_s
        self._checks: dict[str, Callable[[str], object]] = dict(DEFAULT_CHECKS)
        self._hangs: dict[str, int] = {}
        for language, validator in (validators or {}).items():
            if not isinstance(language, str):
                raise ConfigurationError(f"A language is a {type(language).__name__}", mend="Name it, such as yaml.")
            self._checks.pop(language_name(language), None)
            if validator is not None and not callable(validator):
                raise ConfigurationError(
                    f"The snippet validator of {language!r} is no function",
                    mend="Give a function of the snippet's text.",
                )
            if validator is not None:
                self._checks[language_name(language)] = validator

    def issues(self, path: str, snippet: Snippet) -> Iterator[DocumentIssue]:
        """What the validator of the snippet's language says; nothing where there is none."""
        language = snippet.language
        check = self._checks.get(language)
        if check is None:
            return
        try:
            # Standard output is the report's.
            with redirect_stdout(sys.stderr), self._bounded():
                answers = call_within(lambda: _answers(check(snippet.text)), self._timeout_s)
        except KeyboardInterrupt:
            raise
        except DeadlineError:
            yield self._hung(path, snippet)
        except _AnswerError as error:
            yield _issue("snippet-validator-failed", path, snippet.line, f"{_named(language)} {error}", _ANSWER)
        except BaseException as error:  # SystemExit too: it is this document's, not the end of all
            problem = f"{_named(language)} failed: {_told(error)}"
            yield _issue("snippet-validator-failed", path, snippet.line, problem, _FAILED)
        else:
            last = snippet.text.count("\n")  # what is missing at the end is missed on a line behind it
            for line, message in answers:
                yield _issue("snippet-invalid", path, snippet.line + min(line, last), f"{language}: {message}", _MEND)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """Ends the process where nothing else ends a validator: a loop in C, say, or one that catches all."""
        if self._exit_after_s is None:
            yield
            return
        faulthandler.dump_traceback_later(self._exit_after_s, exit=True, file=2)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _hung(self, path: str, snippet: Snippet) -> DocumentIssue:
        language = snippet.language
        self._hangs[language] = hangs = self._hangs.get(language, 0) + 1
        problem = f"{_named(language)} did not answer within {self._timeout_s:g} s"
        if hangs == MAX_HANGS:
            del self._checks[language]
            problem += f", for the {hangs}rd time: it is not asked again, and later {language} snippets are not checked"
        mend = "Make it faster, or the snippet smaller."
        return _issue("snippet-validator-timeout", path, snippet.line, problem, mend)


_ANSWER: Final = "Let it return a list of texts, empty for a snippet that is fine."
_FAILED: Final = "Let it return texts that say what is wrong, and raise nothing."


def _answers(answer: object) -> list[SnippetError]:
    """What a validator gave, as far as it is worth showing; run within the deadline, as it may be a generator."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise _AnswerError("is a coroutine function, and nothing awaits it here")
    if answer is None or isinstance(answer, str):
        return [SnippetError(0, _clean(answer))] if answer else []
    if isinstance(answer, Mapping | bytes | bytearray) or not isinstance(answer, Iterable):
        raise _AnswerError(f"gave a {type(answer).__name__} instead of texts")
    found: list[SnippetError] = []
    for each in islice(answer, _MAX_ANSWERS):
        if isinstance(each, SnippetError):
            found.append(SnippetError(each.line, _clean(each.message)))
        elif isinstance(each, str):
            found.append(SnippetError(0, _clean(each)))
        else:
            raise _AnswerError(f"gave a {type(each).__name__} among its texts")
    return found


def _clean(text: str) -> str:
    """Text that every front can show: not endless, and with no half of a character."""
    short = text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 3]}..."
    return str(short).encode("utf-8", "replace").decode().strip() or "it is not valid"


def _told(error: BaseException) -> str:
    """The exception and the line that raised it; no path of this machine."""
    try:
        text = _clean(str(error)) if str(error) else ""
    except Exception:
        text = ""
    place = extract_tb(error.__traceback__)[-1]
    where = f" ({PurePath(place.filename).name}:{place.lineno})"
    return f"{type(error).__name__}{f': {text}' if text else ''}{where}"


def _named(language: str) -> str:
    return f"The validator of {language} snippets"


def _issue(code: str, path: str, line: int, problem: str, mend: str) -> DocumentIssue:
    return DocumentIssue(code=code, severity="error", path=path, line=line, message=problem, mend=mend)
