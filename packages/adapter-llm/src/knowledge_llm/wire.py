"""The way to a service: nothing from the process's environment, no redirects, no answer without end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

MAX_ANSWER_BYTES = 16 * 2**20


class TooMuch(httpx2.TransportError):
    """The answer is longer than any answer should be, or packed."""


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = 0
        async for chunk in self._stream:
            held += len(chunk)
            if held > MAX_ANSWER_BYTES:
                raise TooMuch("the answer is too long")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Counts what comes, and takes nothing packed: a small packed answer may unpack to a huge one."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See `httpx2.AsyncBaseTransport`."""
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        if packed:
            await response.aclose()
            raise TooMuch("the answer is packed, which was not asked for")
        assert isinstance(response.stream, httpx2.AsyncByteStream), "an asynchronous client gives asynchronous streams"
        response.stream = _Counted(response.stream)
        return response


def http_client(proxy: str | None) -> httpx2.AsyncClient:
    """A client for one question."""
    return httpx2.AsyncClient(transport=BoundedTransport(proxy=proxy, trust_env=False), trust_env=False)
