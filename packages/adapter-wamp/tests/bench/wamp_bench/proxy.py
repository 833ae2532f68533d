"""A link that breaks when it is told to."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, TypeVar

from wamp_bench.places import free_port

T = TypeVar("T")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s: closing sends RST
_SECONDS = 20.0


class CuttingProxy:
    """Forwards connections on `port` of loopback to `target`; a context manager.

    Runs in a thread of its own: every method may be called from anywhere, in an event loop too, and has taken
    effect when it returns.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = free_port()
        self.url = f"ws://127.0.0.1:{self.port}/ws"
        self.rawsocket_url = f"rs://127.0.0.1:{self.port}"
        self._accepted = 0
        self._links: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="cutting-proxy", daemon=True)

    def __enter__(self) -> CuttingProxy:
        self._thread.start()
        self.resume()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    @property
    def accepted(self) -> int:
        """Connections since the start, whatever became of them."""
        return self._accepted

    @property
    def open(self) -> int:
        """Connections there are now."""
        return len(self._links)

    def cut(self) -> int:
        """Resets every connection, to both sides (RST); new ones are welcome. How many there were."""
        return self._do(self._cut)

    def stall(self) -> None:
        """A black hole: connections stay and are accepted, and nothing passes any more until `resume`."""
        self._do(self._stall)

    def refuse(self) -> None:
        """Lets go of the port: whoever connects is refused until `resume`. Connections there are go on."""
        self._do(self._refuse)

    def resume(self) -> None:
        """Ends `stall` and `refuse`. What was held back passes on."""
        self._do(self._resume)

    def _do(self, action: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await action()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_SECONDS)

    async def _cut(self) -> int:
        links = dict(self._links)
        for writers in links.values():
            for writer in writers:
                _reset(writer)
        if links:
            await asyncio.wait(links, timeout=_SECONDS)
        return len(links)

    async def _stall(self) -> None:
        self._flowing.clear()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _resume(self) -> None:
        self._flowing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)

    async def _close(self) -> None:
        await self._refuse()
        for task in list(self._links):
            task.cancel()
        await self._cut()
        await asyncio.sleep(0)  # the transports let go of their sockets one turn later

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: Any = asyncio.current_task()
        writers = [writer]
        self._links[task] = writers
        self._accepted += 1
        try:
            await self._flowing.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            writers.append(back)
            pumps = [asyncio.ensure_future(self._pump(reader, back)), asyncio.ensure_future(self._pump(there, writer))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            _reset(writer)  # nobody behind us, or the end of the test
        finally:
            for each in writers:
                each.close()
            del self._links[task]

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            await self._flowing.wait()
            sink.write(data)
            await sink.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    plain: socket.socket | None = writer.get_extra_info("socket")
    if plain is not None and plain.fileno() >= 0:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
