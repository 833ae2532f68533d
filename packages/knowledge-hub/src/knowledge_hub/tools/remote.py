"""A hub elsewhere as the tools' hub, over its routes."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import quote

import httpx2
from pydantic import JsonValue

from knowledge_engine.errors import (
    ConfigurationError,
    KnowledgeError,
    ProviderError,
    TooLargeError,
    UnavailableError,
    error_from_wire,
)
from knowledge_hub.entries import EntryUpdate, Feedback, Kind, NewEntry
from knowledge_hub.tools.ports import Answer
from knowledge_hub.tools.settings import TOKEN, URL, HubAddress

#: How long an answer may take, in seconds; a rewrite or a merge waits for a language model.
_TIMEOUT_S, _WRITING_TIMEOUT_S = 20.0, 300.0
_CONNECT_S = 5.0
_ATTEMPTS, _PAUSE_S, _LONGEST_PAUSE_S = 3, 0.25, 5.0
_MAX_ANSWER_BYTES = 32 * 2**20
_OVERLOADED = (429, 502, 503, 504)


class RemoteHub:
    """See `HubPort`. Connects when it is first asked, and follows no redirects: the token is for that server only.

    What failed on the way is sent again, with one idempotency key, so that it counts once.

    Args:
        pause: Waits that many seconds.
    """

    def __init__(self, address: HubAddress, *, pause: Callable[[float], object] = time.sleep) -> None:
        if not address.url:
            raise ConfigurationError("There is no address of a hub", mend=f"Set {URL}.")
        self._base = f"{address.url}/api/knowledge"
        self._token = address.token
        self._pause = pause
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None

    def search(self, query: str, *, top_k: int, min_score: int, kinds: tuple[Kind, ...]) -> Answer:
        """See `HubPort.search`."""
        given = {"q": query, "top_k": str(top_k), "min_score": str(min_score), **_tags(kinds)}
        return self._call("GET", "/search", params=given)

    def save(self, new: NewEntry) -> Answer:
        """See `HubPort.save`."""
        return self._call("POST", "", body=new.model_dump(mode="json"))

    def update(self, entry_id: str, update: EntryUpdate) -> Answer:
        """See `HubPort.update`."""
        body = update.model_dump(mode="json", exclude_none=True)
        timeout_s = _WRITING_TIMEOUT_S if update.evolve_feedback else _TIMEOUT_S
        return self._call("PUT", f"/{quote(entry_id, safe='')}", body=body, timeout_s=timeout_s)

    def batch_update(self, feedback: tuple[Feedback, ...]) -> Answer:
        """See `HubPort.batch_update`."""
        given: list[JsonValue] = [one.model_dump(mode="json") for one in feedback]
        timeout_s = _WRITING_TIMEOUT_S if any(one.feedback for one in feedback) else _TIMEOUT_S
        return self._call("POST", "/batch_update", body={"feedback_list": given}, timeout_s=timeout_s)

    def listed(self, *, limit: int, kinds: tuple[Kind, ...]) -> Answer:
        """See `HubPort.listed`."""
        return self._call("GET", "", params={"limit": str(limit), **_tags(kinds)})

    def slim(self, *, model: str) -> Answer:
        """See `HubPort.slim`."""
        # Never sent again: what was merged by a first one is gone from the answer of a second.
        return self._call("POST", "/slim", body={"model": model}, timeout_s=_WRITING_TIMEOUT_S, attempts=1)

    def close(self) -> None:
        """See `HubPort.close`. Asked again, it connects again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Answer | None = None,
        timeout_s: float = _TIMEOUT_S,
        attempts: int = _ATTEMPTS,
    ) -> Answer:
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        if body is not None:
            headers |= {"content-type": "application/json", "idempotency-key": secrets.token_hex(16)}
        url = f"{self._base}{path}{f'?{httpx2.QueryParams(dict(params))}' if params else ''}"
        content = None if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + timeout_s
        for attempt in range(attempts):
            pause = _PAUSE_S * 2**attempt
            try:
                response, raw = self._sent(method, url, content, headers, deadline)
            except UnavailableError:
                if attempt + 1 == attempts or time.monotonic() + pause > deadline:
                    raise
            else:
                pause = max(pause, _asked_pause(response))
                last = attempt + 1 == attempts or pause > _LONGEST_PAUSE_S or time.monotonic() + pause > deadline
                if response.status_code not in _OVERLOADED or last:
                    return _read(response.status_code, raw)
            self._pause(pause)
        raise AssertionError("the last attempt returns or raises")

    def _sent(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], deadline: float
    ) -> tuple[httpx2.Response, bytes]:
        left = max(deadline - time.monotonic(), 0.001)
        timeout = httpx2.Timeout(left, connect=min(left, _CONNECT_S))
        try:
            with self._opened().stream(method, url, content=content, headers=headers, timeout=timeout) as response:
                held = bytearray()
                for part in response.iter_bytes():
                    held += part
                    if len(held) > _MAX_ANSWER_BYTES:
                        raise TooLargeError("The hub's answer is too long", mend="Ask for less at once.")
                    if time.monotonic() > deadline:
                        raise UnavailableError("The hub did not answer in time", mend="Try again later.")
                return response, bytes(held)
        except httpx2.TimeoutException:
            raise UnavailableError("The hub did not answer in time", mend="Try again later.") from None
        except httpx2.TransportError as error:
            # Neither the address nor what was sent is shown: this text goes to a model.
            kind = type(error).__name__
            raise UnavailableError(f"The hub cannot be reached ({kind})", mend=f"Look whether {URL} runs.") from None
        except (httpx2.InvalidURL, httpx2.DecodingError, UnicodeError) as error:
            kind = type(error).__name__
            raise ProviderError(f"The call to the hub failed ({kind})", mend=f"Check {URL}.") from None

    def _opened(self) -> httpx2.Client:
        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(follow_redirects=False, trust_env=False)
            return self._client


def _tags(kinds: tuple[Kind, ...]) -> dict[str, str]:
    return {"tags_type": ",".join(kinds)} if kinds else {}


def _asked_pause(response: httpx2.Response) -> float:
    asked = response.headers.get("retry-after", "")
    return float(asked) if asked.isascii() and asked.isdigit() and len(asked) < 7 else 0.0


def _read(status: int, raw: bytes) -> Answer:
    try:
        value: Any = json.loads(raw, parse_constant=_no_number)
        if rb"\ud" in raw.lower():
            # Halves of surrogate pairs: no text that could be sent or kept.
            text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
            value = json.loads(text.decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        value = None
    if 200 <= status < 300 and isinstance(value, dict):
        return value
    raise _error(status, value)


def _error(status: int, value: Any) -> KnowledgeError:
    wire = value.get("error") if isinstance(value, dict) else None
    if status in (401, 403):
        return ConfigurationError(f"The hub does not take the token for that ({status})", mend=f"Correct {TOKEN}.")
    if isinstance(wire, dict) and wire.get("code"):
        return error_from_wire(wire)
    if status in _OVERLOADED:
        return UnavailableError(f"The hub is overloaded or down ({status})", mend="Try again later.")
    return ProviderError(f"What answers is no hub ({status})", mend=f"Check {URL}.")


def _no_number(_: str) -> NoReturn:
    raise ValueError("no JSON")
