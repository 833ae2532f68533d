"""Keeping secrets out of what is shown: URLs, messages, exceptions and what they were caused by."""

from __future__ import annotations

import base64
import json
import re
import traceback
import unicodedata
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from knowledge_engine.errors import KnowledgeError

HIDDEN = "***"
#: Shorter values are not looked for: hiding each "a" of a message leaves nothing to read.
SHORTEST_SECRET = 4
_LONG = 1024

_SECRET_PARAMETER = re.compile(r"token|secret|pass|pwd|key|auth|sig|cred|ticket|code|jwt|session", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|TICKET|(API|ACCESS|PRIVATE)_?KEY")
# Not what ends in `=`: that may be the padding of Base64.
_SHOWN_PARAMETER = re.compile(r"[\w.%+-]{1,40}=(?=[^=])")
_PARAMETERS = re.compile(r"([?#&;])")


def redact_url(url: str) -> str:
    """`url` without what may be secret: all up to its last `@`, and all from the first parameter that looks it.

    People forget to quote, so too much is hidden rather than too little: all of it, where an `@` could belong to a
    password as well as to a parameter.

    >>> redact_url("https://me:pass/word@host/docs?realm=a&token=b")
    'https://***@host/docs?realm=a&token=***'
    >>> redact_url("files:./docs")
    'files:./docs'
    """
    scheme, colon, rest = url.partition(":")
    slashes = rest[: len(rest) - len(rest.lstrip("/"))]
    before, at, after = rest.rpartition("@")
    if _PARAMETERS.search(before):
        return f"{scheme}{colon}{slashes}{HIDDEN}"
    shown, *parts = _PARAMETERS.split(f"{HIDDEN}@{after}" if at else rest[len(slashes) :])
    for mark, parameter in zip(parts[::2], parts[1::2], strict=True):
        shown += mark + _shown(parameter)
        if _shown(parameter) != parameter:
            break
    return f"{scheme}{colon}{slashes}{shown}"


def url_secrets(url: str) -> Iterator[str]:
    """What `redact_url` hides, in the forms in which it may show up again."""
    rest = url.partition(":")[2].lstrip("/")
    userinfo, _, after = rest.rpartition("@")
    for each in (userinfo, *userinfo.split(":", 1)):
        yield from (each, unquote(each))
    # Where there are parameters before the `@`, all is hidden, and they may be what the URL means.
    _, *parts = _PARAMETERS.split(rest if _PARAMETERS.search(userinfo) else after)
    for index, parameter in enumerate(parts):
        if index % 2 and _shown(parameter) != parameter:
            for each in (parameter, "".join(parts[index:])):
                value = each.partition("=")[2]
                yield from (each, value, unquote(value), unquote_plus(value))


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable's name says that its value is secret.

    >>> is_secret_variable("OPENAI_API_KEY"), is_secret_variable("KNOWLEDGE_FILES_ROOT")
    (True, False)
    """
    return bool(_SECRET_VARIABLE.search(name.upper()))


class Secrets:
    """Values that must not be shown, and how to take them out of text and errors."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values for form in _forms(value) if len(form) >= SHORTEST_SECRET}
        # The longest first: a secret may be part of another.
        self._forms = sorted(forms, key=len, reverse=True)

    def __repr__(self) -> str:
        return "<Secrets>"

    def hide(self, text: str) -> str:
        """`text` with each secret replaced."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def scrub(self, error: Exception) -> Exception | None:
        """`error` when no secret is in it or in what caused it; else the same without them, or None if that fails.

        Causes that hold a secret are cut off: there is no way to change the message of every kind of exception.
        """
        if not self._shown_by(error):
            return error
        error.__cause__ = error.__context__ = None
        error.__suppress_context__ = True
        error.__notes__ = [self.hide(note) for note in getattr(error, "__notes__", ())]
        if isinstance(error, KnowledgeError):
            error.problem, error.mend = self.hide(error.problem), self.hide(error.mend)
            error.args = tuple(self.hide(each) if isinstance(each, str) else each for each in error.args)
        return None if self._shown_by(error) else error

    def _shown_by(self, error: BaseException) -> bool:
        return any(form in text for text in _texts(error) for form in self._forms)


def _texts(error: BaseException) -> Iterator[str]:
    """What a traceback or a pickle of `error` shows, without the lines of source."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield from traceback.format_exception_only(each)
        yield from (text for text in each.args if isinstance(text, str))
        yield from (repr(data)[2:-1] for data in each.args if isinstance(data, bytes))
        waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def _shown(parameter: str) -> str:
    name = _SHOWN_PARAMETER.match(parameter)
    if not name:
        return HIDDEN if parameter else ""
    return f"{name[0]}{HIDDEN}" if _SECRET_PARAMETER.search(unquote(name[0])) else parameter


def _forms(value: str) -> Iterator[str]:
    """A value as it is, and as it looks quoted in messages and URLs."""
    yield value
    yield value.strip()
    yield " ".join(value.split())
    yield repr(value)[1:-1]
    yield repr(repr(value))[2:-2]
    yield ascii(value)[1:-1]
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    raw = value.encode("utf-8", "surrogatepass")
    quoted = (quote(raw), quote(raw, safe=""), quote_plus(raw))
    yield from quoted
    if len(value) > _LONG:
        return  # a long value is no token that clients quote; each form costs a search of each text
    yield from (re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), one) for one in quoted)
    yield repr(raw)[2:-1]
    yield base64.b64encode(raw).decode().rstrip("=")
    yield base64.urlsafe_b64encode(raw).decode().rstrip("=")
    yield unicodedata.normalize("NFD", value)
    yield unicodedata.normalize("NFC", value)
