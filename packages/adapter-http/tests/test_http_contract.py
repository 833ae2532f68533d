"""The contract over a real socket: a server in a thread, and the backend that calls it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from http_bench.servers import Switch, services
from knowledge_engine.contract import Opened, parity_contract, provider_contract
from knowledge_engine.memory import MemoryProvider
from knowledge_engine.ports import IKnowledgeProvider
from knowledge_http import HttpKnowledgeAdapter, HttpSettings, create_app

# The contract opens providers outside of any test's fixtures.
_switch = Switch()


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    yield
    _switch.close()


@contextmanager
def open_remote(docs: Mapping[str, bytes]) -> Iterator[Opened]:
    behind = MemoryProvider(docs)
    app = create_app(services(docs=behind), HttpSettings(writable=True, quiet=True), environ={})
    with _switch.serving(app) as url:
        adapters = [HttpKnowledgeAdapter(HttpSettings(url=url))]

        def reopen() -> IKnowledgeProvider:
            adapters.append(HttpKnowledgeAdapter(HttpSettings(url=url)))
            return adapters[-1]

        yield Opened(adapters[0], reopen)
        for adapter in adapters:
            adapter.dispose()


@contextmanager
def open_memory(docs: Mapping[str, bytes]) -> Iterator[MemoryProvider]:
    yield MemoryProvider(docs)


TestRemote = provider_contract(open_remote, max_examples=3)
TestParity = parity_contract(open_memory, open_remote, max_examples=3)
