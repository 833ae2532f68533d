"""The backend and the transport as the registry finds them; nothing connects before it is asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec

import pytest

import knowledge_wamp
from knowledge_engine.errors import ConfigurationError
from knowledge_engine.models import Capabilities
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_engine.service import KnowledgeService
from knowledge_wamp import WampKnowledgeAdapter, WampSettings, client, create_standalone_wamp_adapter, plugin, serving
from wamp_bench.places import clean_environment, free_port

ENVIRON = {"KNOWLEDGE_WAMP_URL": "ws://127.0.0.1:9/ws", "KNOWLEDGE_WAMP_REALM": "plant"}


def test_the_backend_is_found_by_its_name_and_by_its_urls() -> None:
    handle = resolve_knowledge_backend("wamp", environ=ENVIRON)
    assert (handle.slug, handle.name) == ("wamp", "WAMP")
    provider = handle.provider()
    assert (provider.id, handle.provider()) == ("wamp", provider)
    provider.dispose()
    for scheme in ("wamp", "wamps", "ws", "wss", "rs", "rss"):
        by_url = resolve_knowledge_backend(f"{scheme}://host:1/ws?realm=plant&prefix=a.b", environ={})
        assert by_url.slug == "wamp"
        by_url.provider().dispose()


def test_a_wrong_setting_is_told_when_the_backend_is_opened() -> None:
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_WAMP_TIMEOUT_S"):
        plugin.knowledge_open(None, {**ENVIRON, "KNOWLEDGE_WAMP_TIMEOUT_S": "soon"})


def test_the_transport_says_what_may_be_set() -> None:
    described = plugin.knowledge_transport()
    assert {"KNOWLEDGE_WAMP_WRITABLE", "KNOWLEDGE_WAMP_URL"} <= {each["name"] for each in described["settings"]}
    assert plugin.knowledge_backend()["url_schemes"][0] == "wamp"


def test_serving_hands_over_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[Mapping[str, KnowledgeService], WampSettings]] = []
    monkeypatch.setattr(serving, "serve", lambda services, settings: served.append((services, settings)))
    plugin.knowledge_serve({}, ENVIRON)
    assert served == [({}, WampSettings.from_env(ENVIRON))]


def test_without_autobahn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none(name: str) -> ModuleSpec | None:
        assert name == "autobahn"
        return None

    monkeypatch.setattr(client, "find_spec", find_none)
    for attempt in (lambda: plugin.knowledge_open(None, ENVIRON), lambda: plugin.knowledge_serve({}, ENVIRON)):
        with pytest.raises(ConfigurationError, match=r"pip install 'kpkit-wamp\[client\]'"):
            attempt()


def test_importing_the_package_imports_no_client_library() -> None:
    script = """
import sys, knowledge_wamp, knowledge_wamp.plugin, knowledge_wamp.registering, knowledge_wamp.adapter
knowledge_wamp.plugin.knowledge_transport()
print(sorted({name.split(".")[0] for name in sys.modules} & {"autobahn", "txaio", "numpy", "twisted"}))
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=clean_environment(), timeout=60, check=True
    )
    assert ended.stdout == "[]\n"


def test_the_package_offers_what_it_lists_and_nothing_else() -> None:
    assert all(hasattr(knowledge_wamp, name) for name in knowledge_wamp.__all__)
    assert set(knowledge_wamp.__all__) <= set(dir(knowledge_wamp))
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        knowledge_wamp.other  # noqa: B018


def test_a_standalone_adapter_needs_the_environment_only() -> None:
    adapter = create_standalone_wamp_adapter({"KNOWLEDGE_WAMP_URL": f"ws://127.0.0.1:{free_port()}/ws"})
    assert isinstance(adapter, WampKnowledgeAdapter)
    assert adapter.capabilities == Capabilities()  # nobody is there, and it is not an error to ask
    assert adapter.health_check().status == "down"
    adapter.dispose()
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_WAMP_URL"):
        create_standalone_wamp_adapter({})
