"""The `http` backend: an `IKnowledgeProvider` over what `knowledge serve http` serves elsewhere."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, JsonValue, ValidationError

from knowledge_engine.errors import (
    ConfigurationError,
    InvalidArgumentError,
    InvalidIdError,
    KnowledgeError,
    NotFoundError,
    ProviderError,
    ReadOnlyError,
)
from knowledge_engine.filters import compile_filter
from knowledge_engine.models import (
    MAX_PAGE,
    ByteSpan,
    Capabilities,
    Health,
    IngestRequest,
    Provenance,
    Query,
    QueryResult,
    Source,
    SourceContent,
    SourcePage,
)
from knowledge_http.client.transport import Reply, Transport
from knowledge_http.settings import HttpSettings

Model = TypeVar("Model", bound=BaseModel)
_JSON = {"content-type": "application/json"}


class HttpKnowledgeAdapter:
    """A backend elsewhere, called over HTTP. Connects when it is first asked; any thread may call.

    What only reads is asked again where no answer came; what writes, only where it was never sent.

    Args:
        settings: With a `url`.

    Raises:
        ConfigurationError: When there is none.
    """

    def __init__(self, settings: HttpSettings, *, id: str = "http") -> None:
        if settings.url is None:
            raise ConfigurationError("KNOWLEDGE_HTTP_URL is not set", mend="Set it, such as https://host/.")
        self._settings = settings
        self._id = id
        self._transport = Transport(settings)
        self._capabilities: Capabilities | None = None
        self._asking = threading.Lock()

    @property
    def id(self) -> str:
        """The backend's name."""
        return self._id

    @property
    def capabilities(self) -> Capabilities:
        """Those of the other side, as the token allows; as long as it cannot be reached, no more than any has."""
        with self._asking:
            if self._capabilities is None:
                try:
                    self._status()
                except KnowledgeError:
                    return Capabilities()
            return self._capabilities or Capabilities()

    def list_sources(
        self, *, filter: Mapping[str, JsonValue] | None = None, limit: int = 100, cursor: str | None = None
    ) -> SourcePage:
        """See `IKnowledgeProvider.list_sources`."""
        compile_filter(filter)
        if type(limit) is not int or limit < 1:
            raise InvalidArgumentError(f"limit is {limit!r}", mend=f"Use a whole number from 1 to {MAX_PAGE}.")
        given = {"limit": min(limit, MAX_PAGE), "cursor": cursor, "filter": dict(filter) if filter else None}
        answer = self._post("/v1/list", given, reads=True).json()
        page = _model(SourcePage, _only(SourcePage, answer))
        if len(page.sources) > limit:
            raise _wrong("more sources than it was asked for")
        return page

    def get_source(self, source_id: str) -> Source:
        """See `IKnowledgeProvider.get_source`."""
        answer = self._get(_path(source_id), {"exact": "true", "detail": "false"}).json()
        source = _model(Source, answer.get("source") if isinstance(answer, dict) else None)
        if source.id != source_id:
            raise _wrong("another source than it was asked for")
        return source

    def read_source(self, source_id: str, span: ByteSpan | None = None) -> SourceContent:
        """See `IKnowledgeProvider.read_source`."""
        params = {"exact": "true"}
        if span is not None:
            params |= {"start": str(span.start), "end": str(span.end)}
        reply = self._get(f"{_path(source_id)}/content", params)
        found, total = _found_span(reply.headers.get("knowledge-span", ""))
        wanted = ByteSpan(start=0, end=total) if span is None else span
        start, end = min(wanted.start, total), min(wanted.end, total)
        if (found.start, found.end) != (start, max(start, end)) or len(reply.body) != found.end - found.start:
            raise _wrong("other bytes than it was asked for")
        return SourceContent(
            source_id=source_id,
            content=reply.body,
            span=found,
            total_bytes=total,
            content_hash=sha256(reply.body).hexdigest(),
        )

    def query(self, query: Query) -> QueryResult:
        """See `IKnowledgeProvider.query`."""
        compile_filter(query.filter)
        params = {} if query.query.strip() else {"blank": "true"}
        result = _model(QueryResult, self._post("/v1/query", _dumped(query), params=params, reads=True).json())
        if len(result.hits) > query.top_k:
            raise _wrong("more hits than it was asked for")
        return result

    def health_check(self) -> Health:
        """See `IKnowledgeProvider.health_check`. `down` where the other side cannot be reached."""
        try:
            return _model(Health, _only(Health, self._status()))
        except KnowledgeError as error:
            return Health(status="down", message=str(error))

    def dispose(self) -> None:
        """See `IKnowledgeProvider.dispose`."""
        self._transport.close()

    # IngestingProvider

    def ingest(self, request: IngestRequest) -> Source:
        """See `IngestingProvider.ingest`. Where no answer came, it may have been stored or not."""
        self._check_writable()
        if request.id is not None:
            _path(request.id)
        given = _dumped(request, exclude={"content", "if_match"})
        headers = {} if request.if_match is None else _if_match(request.if_match)
        if request.content is not None:
            given["content"] = base64.b64encode(request.content).decode()
        return _model(Source, self._post("/v1/sources", given, headers=headers, reads=False).json())

    def delete_source(self, source_id: str, *, if_match: str | None = None) -> None:
        """See `IngestingProvider.delete_source`."""
        self._check_writable()
        path = _path(source_id)
        headers = {} if if_match is None else _if_match(if_match)
        self._transport.call("DELETE", path, params=self._params(), headers=headers, reads=False)

    # SupersedingProvider

    def supersede(self, source_id: str, by: str) -> None:
        """See `SupersedingProvider.supersede`.

        Raises:
            NotSupportedError: When the backend behind the server has no such power.
        """
        self._check_writable()
        self._post("/v1/supersede", {"source_id": source_id, "by": by}, reads=False)

    # ExplainingProvider

    def explain(self, source_id: str) -> Provenance | None:
        """See `ExplainingProvider.explain`. Of a backend that does not explain, what its source itself says."""
        try:
            return _model(Provenance, self._get(f"{_path(source_id)}/provenance", {}).json())
        except (NotFoundError, InvalidIdError):
            return None

    # RefreshableProvider

    def refresh(self, paths: Sequence[str] | None = None) -> bool:
        """See `RefreshableProvider.refresh`. False where the server does not let the caller ask for it.

        The server looks by itself before it answers.
        """
        return self._refreshed({"paths": None if paths is None else list(paths)})

    def invalidate(self) -> None:
        """See `RefreshableProvider.invalidate`."""
        self._refreshed({"forget": True})

    # Inside

    def _refreshed(self, given: dict[str, Any]) -> bool:
        try:
            answer = self._post("/v1/refresh", given, reads=True).json()
        except ReadOnlyError:
            return False
        return isinstance(answer, dict) and answer.get("changed") is True

    def _status(self) -> dict[str, Any]:
        answer = self._get("/v1/status", {}).json()
        if not isinstance(answer, dict):
            raise _wrong("no object")
        self._capabilities = _model(Capabilities, answer.get("capabilities"))
        return answer

    def _check_writable(self) -> None:
        if not self.capabilities.writable:
            self._status()  # raises what is the matter, where it cannot be reached
        if not self.capabilities.writable:
            raise ReadOnlyError(
                "The server lets this caller only read", mend="Set KNOWLEDGE_HTTP_TOKEN to one that may write."
            )

    def _params(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        chosen = self._settings.backend
        return {**(more or {}), **({} if chosen is None else {"backend": chosen})}

    def _get(self, path: str, params: Mapping[str, str]) -> Reply:
        return self._transport.call("GET", path, params=self._params(params), reads=True)

    def _post(
        self,
        path: str,
        given: Mapping[str, Any],
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        reads: bool,
    ) -> Reply:
        try:
            body = json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            raise InvalidArgumentError(
                "Half a surrogate pair, a NaN, an infinity or a number of thousands of digits cannot be sent",
                mend="Write them otherwise.",
            ) from None
        return self._transport.call(
            "POST", path, params=self._params(params), body=body, headers={**_JSON, **(headers or {})}, reads=reads
        )


def create_standalone_http_adapter(environ: Mapping[str, str] = os.environ) -> HttpKnowledgeAdapter:
    """An adapter from `KNOWLEDGE_HTTP_*` alone.

    Raises:
        ConfigurationError: Naming the variable that is wrong.
    """
    return HttpKnowledgeAdapter(HttpSettings.from_env(environ))


def _path(source_id: str) -> str:
    """Where a document is.

    Raises:
        InvalidIdError: When its id cannot be written into a URL.
    """
    try:
        encoded = quote(source_id.encode(), safe="")
    except (AttributeError, UnicodeEncodeError):
        encoded = ""
    if not encoded:
        raise InvalidIdError("An id is some text that UTF-8 can hold", mend="List the sources to see what there is.")
    # Clients take single dots and pairs of them out of a path.
    return f"/v1/sources/{encoded.replace('.', '%2E') if not encoded.strip('.') else encoded}"


def _if_match(if_match: str) -> dict[str, str]:
    if not if_match:
        return {"if-none-match": "*"}
    if not if_match.isascii() or not if_match.isalnum():
        raise InvalidArgumentError("if_match is no content_hash", mend="Give the one of the source.")
    return {"if-match": f'"{if_match}"'}


def _found_span(header: str) -> tuple[ByteSpan, int]:
    span, _, total = header.partition("/")
    start, _, end = span.partition("-")
    try:
        return ByteSpan(start=int(start), end=int(end)), int(total)
    except ValueError:
        raise _wrong("no Knowledge-Span") from None


def _dumped(value: BaseModel, exclude: set[str] | None = None) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_none=True, exclude=exclude)


def _only(kind: type[BaseModel], answer: object) -> object:
    """What of an answer belongs to that model: the server has more to say."""
    return {key: answer[key] for key in kind.model_fields if key in answer} if isinstance(answer, dict) else answer


def _wrong(what: str) -> ProviderError:
    return ProviderError(f"The server sent {what}", mend="Ask whoever runs it.")


def _model(kind: type[Model], value: object) -> Model:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise ProviderError(
            f"The server sent what is no {kind.__name__}", mend="Check that both have the same version."
        ) from error
