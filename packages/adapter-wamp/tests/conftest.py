from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from wamp_bench.proxy import CuttingProxy
from wamp_bench.router import Router


@pytest.fixture(scope="session")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Router]:
    """A router for all tests together: they keep their names apart and leave it whole."""
    running = Router(tmp_path_factory.mktemp("router"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def own_router(tmp_path: Path) -> Iterator[Router]:
    """A running router for one test, which may end, halt and restart it."""
    running = Router(tmp_path / "own-router")
    running.start()
    yield running
    running.kill()


@pytest.fixture
def cutting_proxy() -> Iterator[Callable[[int], CuttingProxy]]:
    """Makes a running proxy in front of a port; all of them end with the test."""
    with ExitStack() as stack:
        yield lambda target: stack.enter_context(CuttingProxy(target))
