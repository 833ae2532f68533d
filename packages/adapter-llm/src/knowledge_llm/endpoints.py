"""Whose model a name means, and where it is asked. All of them are spoken to as OpenAI's servers are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import urlsplit

from knowledge_engine.errors import ConfigurationError

BASE_URL, API_KEY = "KNOWLEDGE_LLM_BASE_URL", "KNOWLEDGE_LLM_API_KEY"
_MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Service:
    """Somebody who serves models."""

    address: str
    #: The variables that may hold its key; none where it needs no key.
    keys: tuple[str, ...]
    #: The variable that says another address.
    address_variable: str = ""


_OPENROUTER = "openrouter"
SERVICES: Mapping[str, Service] = MappingProxyType(
    {
        "openai": Service("https://api.openai.com/v1", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
        "anthropic": Service("https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",)),
        "gemini": Service(
            "https://generativelanguage.googleapis.com/v1beta/openai", ("GEMINI_API_KEY", "GOOGLE_API_KEY")
        ),
        _OPENROUTER: Service("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
        "ollama": Service("http://localhost:11434/v1", (), "OLLAMA_BASE_URL"),
        "deepseek": Service("https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
        "groq": Service("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
        "mistral": Service("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
        "together": Service("https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
        "xai": Service("https://api.x.ai/v1", ("XAI_API_KEY",)),
    }
)
_ALIASES = {"google": "gemini", "google-gla": "gemini", "together_ai": "together", "ollama_chat": "ollama"}
_FAMILIES = (
    (re.compile(r"(gpt-|chatgpt-|o[1-9](-|$))"), "openai"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-"), "gemini"),
)
#: How OpenRouter calls them.
_AUTHORS = {"gemini": "google", "xai": "x-ai", "mistral": "mistralai"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked, and what it is called there. Its key is in no `repr`."""

    name: str
    address: str
    model: str
    key: str = field(default="", repr=False)


def find_endpoint(name: str, environ: Mapping[str, str]) -> Endpoint | None:
    """The endpoint that a name means; None for a name that means none here.

    `KNOWLEDGE_LLM_BASE_URL` takes every name. Without it `openai:gpt-4o` and `openai/gpt-4o` name the service, and
    `gpt-4o`, `claude-...` and `gemini-...` are known by their beginnings. A service without a key is reached through
    OpenRouter, where there is a key for that.

    Raises:
        ConfigurationError: When the key is missing, or an address is none. Names the variable.
    """
    if not 0 < len(name) <= _MAX_NAME or not name.isprintable() or name != name.strip():
        return None
    service, model = _split(name)
    if address := _address(BASE_URL, environ):
        own = name if ":" not in name or not service else model
        return Endpoint(name, address, own, _key((API_KEY, "OPENAI_API_KEY"), environ))
    if not service or not model:
        return None
    return _at_service(name, service, model, environ)


def _split(name: str) -> tuple[str, str]:
    found = re.match(r"([A-Za-z_-]+)[:/](?=.)", name)
    if found:
        first = found[1].lower()
        service = _ALIASES.get(first, first)
        return (service, name[found.end() :]) if service in SERVICES else ("", name)
    return next((service for family, service in _FAMILIES if family.match(name)), ""), name


def _at_service(name: str, service: str, model: str, environ: Mapping[str, str]) -> Endpoint:
    about = SERVICES[service]
    address = (_address(about.address_variable, environ) if about.address_variable else "") or about.address
    key = _key(about.keys, environ)
    if key or not about.keys or address != about.address:
        if service == "anthropic":
            model = re.sub(r"(?<=\d)\.(?=\d)", "-", model)  # it writes 4-5 where others write 4.5
        return Endpoint(name, address, model, key)
    if key := _key(SERVICES[_OPENROUTER].keys, environ):
        return Endpoint(name, SERVICES[_OPENROUTER].address, f"{_AUTHORS.get(service, service)}/{model}", key)
    raise ConfigurationError(
        f"There is no key for the model {name!r}",
        mend=f"Set {' or '.join(about.keys)}, or {BASE_URL} to a server of your own.",
    )


def _key(variables: tuple[str, ...], environ: Mapping[str, str]) -> str:
    for variable in variables:
        if key := environ.get(variable, "").strip():
            if not (key.isascii() and key.isprintable()):
                raise ConfigurationError(f"{variable} holds no key", mend="Copy it again, in plain characters.")
            return key
    return ""


def _address(variable: str, environ: Mapping[str, str]) -> str:
    address = environ.get(variable, "").strip()
    if not address:
        return ""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    plain = address.isascii() and address.isprintable() and not (parts.query or parts.fragment or " " in address)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or not plain:
        raise ConfigurationError(
            f"{variable} is not the address of a server",
            mend="Write it like http://localhost:8000/v1, without user, password and parameters.",
        )
    return address.rstrip("/")
