"""The format of a library's documents: what their frontmatter must hold, and how long their texts may be."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import DocumentIssue, Severity

#: Keys without which a document is not part of a library; their values are texts.
REQUIRED_KEYS: Final = ("id", "title", "kind", "summary")
#: Lengths are in characters (code points); those of a body leave the frontmatter out.
MAX_SUMMARY_CHARS: Final = 250
BODY_WARNING_CHARS: Final = 12_000
MAX_BODY_CHARS: Final = 16_000
MAX_ID_CHARS: Final = 200

#: For each key the values that it may have.
Vocabulary = Mapping[str, Collection[str]]

_NO_LINES: Final[Mapping[str, int]] = MappingProxyType({})
_MAX_NAMED = 20
# Comparing costs up to the cube of the lengths, for each value that is allowed.
_MAX_COMPARED = 500
_MAX_COMPARED_CHARS = 40


def missing_keys(metadata: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The required keys that have no text: absent, null, blank, or a value of another type.

    >>> missing_keys({"id": "a", "title": " ", "kind": None, "summary": ["x"]})
    ('title', 'kind', 'summary')
    """
    return tuple(key for key in REQUIRED_KEYS if not _is_text(metadata.get(key)))


def required_issues(
    path: str, metadata: Mapping[str, JsonValue], lines: Mapping[str, int] = _NO_LINES
) -> list[DocumentIssue]:
    """One error for each of `missing_keys`, in their order: `required-key`, or `wrong-type` for another type.

    `lines` tells where keys stand in the file; where it does not, an issue is on line 1.
    """
    found = []
    for key in missing_keys(metadata):
        value = metadata.get(key)
        if value is None or isinstance(value, str):
            what = "is missing" if value is None and key not in lines else "has no value"
            code, problem = "required-key", f"The required key {key!r} {what}"
        else:
            code, problem = "wrong-type", f"The value of {key!r} is {_kind(value)}, not a text"
        mend = f"Write `{key}: ...` with a text into the frontmatter."
        found.append(_issue(code, "error", path, lines.get(key, 1), problem, mend))
    return found


def vocabulary_issues(
    path: str, metadata: Mapping[str, JsonValue], vocab: Vocabulary, lines: Mapping[str, int] = _NO_LINES
) -> list[DocumentIssue]:
    """An error `vocabulary` for each value, or element of a list, that `vocab` does not allow for its key.

    A key without a value is no matter of the vocabulary; numbers and booleans count as what prints them.
    """
    found = []
    for key, allowed in vocab.items():
        values = metadata.get(key)
        names = {_text(each) for each in allowed}
        for value in values if isinstance(values, list) else [values]:
            text = _text(value)
            if value is None or text in names or (isinstance(value, str) and not value.strip()):
                continue
            shown = repr(_short(text)) if text else _kind(value)
            problem = f"The value {shown} of {_short(key)!r} is not in the vocabulary"
            found.append(_issue("vocabulary", "error", path, lines.get(key, 1), problem, _allowed(text, names)))
    return found


def id_issues(
    path: str, metadata: Mapping[str, JsonValue], lines: Mapping[str, int] = _NO_LINES
) -> list[DocumentIssue]:
    """What is wrong with the id as a name; letters of every script will do."""
    claimed = metadata.get("id")
    if not isinstance(claimed, str) or not claimed.strip():
        return []
    line = lines.get("id", 1)
    mend = "Build it of letters, digits, `.`, `_` and `-`, such as device.vendor.model."
    if len(claimed) > MAX_ID_CHARS:
        problem = f"The id has {len(claimed):,} characters; at most {MAX_ID_CHARS} are allowed"
        return [_issue("invalid-id", "error", path, line, problem, "Shorten it.")]
    if any(char.isspace() or unicodedata.category(char) in _UNSEEN for char in claimed):
        problem = f"The id {_short(claimed)!r} holds blanks or characters that nobody sees"
        return [_issue("invalid-id", "error", path, line, problem, mend)]
    odd = "".join(sorted({char for char in claimed if not _of_id(char)}))
    if odd:
        problem = f"The id {_short(claimed)!r} holds {_short(odd)!r}, which is hard to type or to quote"
        return [_issue("invalid-id", "warning", path, line, problem, mend)]
    if not claimed[0].isalnum():
        problem = f"The id {_short(claimed)!r} begins with a sign"
        return [_issue("invalid-id", "warning", path, line, problem, "Begin it with a letter or a digit.")]
    if claimed != (lower := claimed.lower()):
        problem = f"The id {_short(claimed)!r} holds capital letters, and ids are told apart by case"
        return [_issue("invalid-id", "warning", path, line, problem, f"Write {_short(lower)!r}.")]
    return []


def summary_issues(
    path: str, metadata: Mapping[str, JsonValue], lines: Mapping[str, int] = _NO_LINES
) -> list[DocumentIssue]:
    """An error `summary-too-long` over `MAX_SUMMARY_CHARS`, not counting blanks around it."""
    summary = metadata.get("summary")
    if not isinstance(summary, str) or (size := len(summary.strip())) <= MAX_SUMMARY_CHARS:
        return []
    problem = f"The summary has {size:,} characters; at most {MAX_SUMMARY_CHARS} are allowed"
    mend = "Shorten it: it is shown in every list."
    return [_issue("summary-too-long", "error", path, lines.get("summary", 1), problem, mend)]


def body_issues(path: str, chars: int, line: int) -> list[DocumentIssue]:
    """`body-too-long` over `MAX_BODY_CHARS`, else a warning `body-long` over `BODY_WARNING_CHARS`, at that line."""
    if chars <= BODY_WARNING_CHARS:
        return []
    over = chars > MAX_BODY_CHARS
    limit = f"at most {MAX_BODY_CHARS:,} are allowed" if over else f"more than {BODY_WARNING_CHARS:,} are a lot to read"
    problem = f"The body has {chars:,} characters; {limit}"
    mend = "Split the document, or take out what no reader needs."
    return [_issue("body-too-long" if over else "body-long", "error" if over else "warning", path, line, problem, mend)]


def check_vocabulary(vocab: object) -> None:
    """Refuses what is no `Vocabulary`, such as a text in place of a set of texts.

    Raises:
        ConfigurationError: Naming the key.
    """
    if not isinstance(vocab, Mapping):
        raise ConfigurationError("The vocabulary is not a mapping", mend=_VOCABULARY)
    for key, allowed in vocab.items():
        if isinstance(allowed, str | bytes) or not isinstance(allowed, Collection) or not allowed:
            raise ConfigurationError(f"The vocabulary of {_short(str(key))!r} is no set of values", mend=_VOCABULARY)


_VOCABULARY = "Write it like {'kind': {'device', 'guide'}}."
# Controls, format characters, lone surrogates; private and unassigned ones show as boxes at best.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def _of_id(char: str) -> bool:
    # Marks are letters' parts in many scripts.
    return char in "._-" or char.isalnum() or unicodedata.category(char).startswith("M")


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _text(value: object) -> str:
    """A scalar as it would be typed; empty for a list or a mapping."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value) if isinstance(value, int | float) else ""


def _allowed(text: str, names: Iterable[str]) -> str:
    known = sorted(names)
    like = sorted(known, key=lambda name: (abs(len(name) - len(text)), name))[:_MAX_COMPARED]
    folded = {name.casefold(): name for name in like if len(name) <= _MAX_COMPARED_CHARS}
    near = difflib.get_close_matches(text[:_MAX_COMPARED_CHARS].casefold(), folded, n=1)
    guess = f"Did you mean {folded[near[0]]!r}? " if near else ""
    rest = f" and {len(known) - _MAX_NAMED} more" if len(known) > _MAX_NAMED else ""
    return f"{guess}Allowed: {', '.join(map(_short, known[:_MAX_NAMED]))}{rest}."


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _kind(value: JsonValue) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "a boolean" if isinstance(value, bool) else "a number"


def _issue(code: str, severity: Severity, path: str, line: int, problem: str, mend: str) -> DocumentIssue:
    return DocumentIssue(code=code, severity=severity, path=path, line=line, message=problem, mend=mend)
