"""The life of a handle, and what hosts share through it."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from typing import Any

import pytest

from knowledge_engine.errors import BrokenPluginError, ConfigurationError
from knowledge_engine.registry import make_knowledge_resolver, resolve_knowledge_backend

# A backend that is one file of shelves; it keeps what it was opened with.
SHELF = """
    from knowledge_engine.hookspecs import hookimpl
    from knowledge_engine.models import Capabilities

    class Shelf:
        id = "shelf"
        capabilities = Capabilities()

        def __init__(self, url, settings, environ):
            self.opened_with = (url, settings, environ)

        def list_sources(self, *, filter=None, limit=100, cursor=None): ...
        def get_source(self, source_id): ...
        def read_source(self, source_id, span=None): ...
        def query(self, query): ...
        def health_check(self): ...
        def dispose(self): ...

    @hookimpl
    def knowledge_backend():
        return {
            "name": "Shelf",
            "description": "Books on a shelf.",
            "url_schemes": ["shelf", "https"],
            "settings": [
                {"name": "KNOWLEDGE_SHELF_ROOM", "description": "where it stands", "required": True, "in_url": True},
                {"name": "KNOWLEDGE_SHELF_KEY", "secret": True, "default": "factory-key"},
                {"name": "KNOWLEDGE_SHELF_WIDTH", "required": True, "default": "80"},
            ],
        }

    @hookimpl
    def knowledge_open(url, settings, environ):
        return Shelf(url, settings, environ)
"""


@pytest.fixture
def shelf(install_plugin: Any) -> None:
    install_plugin("shelf_plugin", SHELF, distribution="shelf-of-books", name="shelf")


def opened_with(provider: Any) -> Any:
    return provider.opened_with


@pytest.mark.usefixtures("shelf")
def test_all_callers_of_a_handle_share_one_provider_and_handles_share_none() -> None:
    handle = resolve_knowledge_backend("shelf", environ={}, room="attic")
    barrier, seen = threading.Barrier(8), []

    def take() -> None:
        barrier.wait()
        seen.append(handle.provider())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(map(id, seen))) == 1
    assert resolve_knowledge_backend("shelf", environ={}, room="attic").provider() is not seen[0]


def test_an_opening_that_failed_is_tried_again(install_plugin: Any) -> None:
    source = SHELF.replace(
        "return Shelf(url",
        "calls.append(1)\n        if len(calls) == 1: raise OSError('hush')\n        return Shelf(url",
    ).replace("class Shelf", "calls = []\n\n    class Shelf")
    install_plugin("flaky_plugin", source, name="shelf")
    handle = resolve_knowledge_backend("shelf:x", environ={})
    with pytest.raises(BrokenPluginError, match=r"failed in 'knowledge_open' \(OSError\)") as caught:
        handle.provider()
    assert "hush" not in str(caught.value)
    assert handle.provider() is handle.provider()


def test_a_closed_handle_disposes_once_and_opens_anew_when_it_is_used_again(install_plugin: Any) -> None:
    source = SHELF.replace(
        "def dispose(self): ...", "def dispose(self): self.disposed = getattr(self, 'disposed', 0) + 1"
    )
    install_plugin("shelf_plugin", source, name="shelf")
    with resolve_knowledge_backend("shelf:x", environ={}) as handle:
        handle.close()
        first: Any = handle.provider()
    handle.close()
    assert first.disposed == 1
    assert handle.provider() is not first


@pytest.mark.parametrize(
    ("failing", "says"), [("raise OSError('hush')", "failed in 'dispose' .OSError"), ("exit(3)", "SystemExit")]
)
def test_a_provider_that_cannot_be_disposed_of_is_forgotten_all_the_same(
    install_plugin: Any, failing: str, says: str
) -> None:
    source = SHELF.replace("def dispose(self): ...", f"def dispose(self): {failing}")
    install_plugin("shelf_plugin", source, name="shelf")
    handle = resolve_knowledge_backend("shelf:x", environ={})
    first = handle.provider()
    with pytest.raises(BrokenPluginError, match=says):
        handle.close()
    handle.close()
    assert handle.provider() is not first


def test_closing_waits_for_an_opening_and_disposes_of_what_it_gave(install_plugin: Any) -> None:
    source = SHELF.replace(
        "class Shelf:",
        "import threading\n    opening, go_on = threading.Event(), threading.Event()\n\n    class Shelf:",
    )
    source = source.replace("return Shelf(url", "opening.set()\n        go_on.wait(60)\n        return Shelf(url")
    source = source.replace("def dispose(self): ...", "def dispose(self): self.disposed = True")
    install_plugin("shelf_plugin", source, name="shelf")
    handle = resolve_knowledge_backend("shelf:x", environ={})
    seen: list[Any] = []
    opener = threading.Thread(target=lambda: seen.append(handle.provider()))
    opener.start()
    plugin = sys.modules["shelf_plugin"]
    plugin.opening.wait(60)
    closer = threading.Thread(target=handle.close)
    closer.start()
    plugin.go_on.set()
    opener.join()
    closer.join()
    assert seen[0].disposed


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_handle_is_neither_copied_nor_pickled(copying: Any) -> None:
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        copying(resolve_knowledge_backend("shelf", environ={}))


@pytest.mark.usefixtures("shelf")
def test_two_hosts_with_different_settings_share_no_state() -> None:
    environs = [{"KNOWLEDGE_SHELF_ROOM": "attic"}, {"KNOWLEDGE_SHELF_ROOM": "cellar"}]
    hosts = [make_knowledge_resolver(environ=environ) for environ in environs]
    handles = [host("shelf") for host in hosts]
    environs[0]["KNOWLEDGE_SHELF_ROOM"] = "changed later"
    one, other = (handle.provider() for handle in handles if handle is not None)
    assert opened_with(one)[2]["KNOWLEDGE_SHELF_ROOM"] == "attic"
    assert opened_with(other)[2]["KNOWLEDGE_SHELF_ROOM"] == "cellar"
    # What a plugin does with its copy reaches neither the host nor the other's.
    opened_with(one)[2].clear()
    handles[0].close()  # type: ignore[union-attr]
    assert handles[1].provider() is other  # type: ignore[union-attr]
    assert opened_with(handles[0].provider())[2] == {"KNOWLEDGE_SHELF_ROOM": "attic"}  # type: ignore[union-attr]


@pytest.mark.usefixtures("shelf")
def test_a_resolver_gives_none_for_what_is_unknown_and_a_handle_for_what_is_known(install_plugin: Any) -> None:
    install_plugin("bad_plugin", "import no_such_module_anywhere", name="bad")
    resolve = make_knowledge_resolver(environ={})
    assert resolve("shelve") is None
    assert resolve("gopher://host/") is None
    handle = resolve("shelf", room="attic")
    assert handle is not None
    assert handle.check() == ()
    with pytest.raises(BrokenPluginError, match="'bad'"):
        resolve("bad")
    with pytest.raises(ConfigurationError, match="no setting 'roof'"):
        resolve("shelf", roof="flat")
    with pytest.raises(ConfigurationError, match="not by int"):
        resolve(3)  # type: ignore[arg-type]


def test_a_resolver_may_be_held_to_some_backends(install_plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    install_plugin("shelf_plugin", SHELF, name="shelf")
    install_plugin("kin_plugin", SHELF, name="http", distribution="kin")
    resolve = make_knowledge_resolver(environ={}, slugs={"http"})
    assert resolve("shelf") is None
    assert resolve("shelf:x") is None
    assert resolve("https://host/") is not None
    assert resolve("https") is None
