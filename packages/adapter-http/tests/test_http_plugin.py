"""The backend and the transport as the registry finds them; nothing heavy is imported before it is asked."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import knowledge_http
from knowledge_engine.errors import ConfigurationError
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_http import HttpKnowledgeAdapter, extras, plugin
from knowledge_http.server import serving


def test_the_backend_is_found_by_its_name_and_by_its_urls() -> None:
    for name in ("http://127.0.0.1:9/", "https://kb.example/base/?backend=docs", "http"):
        handle = resolve_knowledge_backend(name, environ={"KNOWLEDGE_HTTP_URL": "http://127.0.0.1:9"})
        provider = handle.provider()
        assert (handle.slug, handle.name, provider.id) == ("http", "HTTP", "http")
        assert isinstance(provider, HttpKnowledgeAdapter)
        handle.close()


def test_a_wrong_url_or_setting_is_told_when_the_backend_is_opened() -> None:
    for url, environ in (("http://", {}), (None, {"KNOWLEDGE_HTTP_URL": "ftp://x"}), (None, {})):
        with pytest.raises(ConfigurationError):
            plugin.knowledge_open(url, environ)
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_HTTP_TIMEOUT_S"):
        plugin.knowledge_open("http://x", {"KNOWLEDGE_HTTP_TIMEOUT_S": "soon"})


def test_what_may_be_set_is_said() -> None:
    backend = {each["name"]: each for each in plugin.knowledge_backend()["settings"]}
    transport = {each["name"]: each for each in plugin.knowledge_transport()["settings"]}
    assert {name for name, each in {**backend, **transport}.items() if each.get("secret")} == {
        "KNOWLEDGE_HTTP_TOKEN",
        "KNOWLEDGE_HTTP_TOKENS",
    }
    assert {"KNOWLEDGE_HTTP_HOST", "KNOWLEDGE_HTTP_PORT", "KNOWLEDGE_HTTP_WRITABLE"} <= set(transport)


def test_serving_hands_over_the_settings_and_refuses_the_unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr(serving, "serve", lambda *given: served.append(given))
    plugin.knowledge_serve({}, {"KNOWLEDGE_HTTP_PORT": "9"})
    assert [settings.port for _, settings, _ in served] == [9]
    with pytest.raises(ConfigurationError, match="--insecure"):
        plugin.knowledge_serve({}, {"KNOWLEDGE_HTTP_HOST": "0.0.0.0"})


def test_without_the_libraries_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"kpkit-http\[client\]"):
        plugin.knowledge_open("http://x", {})
    with pytest.raises(ConfigurationError, match=r"kpkit-http\[server\]"):
        plugin.knowledge_serve({}, {})


def test_importing_the_package_imports_no_library_of_either_side() -> None:
    script = """
import sys, knowledge_http, knowledge_http.plugin
knowledge_http.plugin.knowledge_transport(); knowledge_http.plugin.knowledge_backend()
heavy = {"fastapi", "starlette", "uvicorn", "httpx2", "prometheus_client", "httptools"}
print(sorted({name.split(".")[0] for name in sys.modules} & heavy))
import knowledge_http.client
print(sorted({name.split(".")[0] for name in sys.modules} & heavy))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "[]\n['httpx2']\n"


def test_the_package_offers_what_it_lists_and_nothing_else() -> None:
    assert all(hasattr(knowledge_http, name) for name in knowledge_http.__all__)
    assert set(knowledge_http.__all__) <= set(dir(knowledge_http))
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        knowledge_http.other  # noqa: B018
