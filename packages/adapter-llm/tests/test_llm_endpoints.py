"""Names of models: whose they are, where they are asked, and what is said where a key or an address is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import knowledge_llm
from knowledge_engine.errors import ConfigurationError
from knowledge_engine.language_models import find_model
from knowledge_llm import LlmSettings, find_endpoint

KEYS = {"OPENAI_API_KEY": "ko", "ANTHROPIC_API_KEY": "ka", "GEMINI_API_KEY": "kg"}
OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"
GEMINI, ROUTER = "https://generativelanguage.googleapis.com/v1beta/openai", "https://openrouter.ai/api/v1"
OLLAMA, OWN = "http://localhost:11434/v1", "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("name", "environ", "address", "model", "key"),
    [
        ("gpt-4o", KEYS, OPENAI, "gpt-4o", "ko"),
        ("openai:gpt-4o", KEYS, OPENAI, "gpt-4o", "ko"),
        ("openai/gpt-4o", KEYS, OPENAI, "gpt-4o", "ko"),
        ("OpenAI:o3", KEYS, OPENAI, "o3", "ko"),
        ("o4-mini", KEYS, OPENAI, "o4-mini", "ko"),
        ("anthropic/claude-sonnet-4.5", KEYS, ANTHROPIC, "claude-sonnet-4-5", "ka"),
        ("claude-sonnet-4-5", KEYS, ANTHROPIC, "claude-sonnet-4-5", "ka"),
        ("gemini-2.0-flash-001", KEYS, GEMINI, "gemini-2.0-flash-001", "kg"),
        ("google/gemini-2.0-flash-001", KEYS, GEMINI, "gemini-2.0-flash-001", "kg"),
        ("gemini-2.0-flash-001", {"GOOGLE_API_KEY": "k"}, GEMINI, "gemini-2.0-flash-001", "k"),
        ("ollama/llama3", {}, OLLAMA, "llama3", ""),
        ("ollama:llama3:8b", {}, OLLAMA, "llama3:8b", ""),
        ("ollama/llama3", {"OLLAMA_BASE_URL": f" {OWN}/ "}, OWN, "llama3", ""),
        ("openai:gpt-4o", {"OPENAI_BASE_URL": OWN}, OWN, "gpt-4o", ""),
        ("anthropic/claude-sonnet-4.5", {"OPENROUTER_API_KEY": "kr"}, ROUTER, "anthropic/claude-sonnet-4.5", "kr"),
        ("gemini-2.0-flash-001", {"OPENROUTER_API_KEY": "kr"}, ROUTER, "google/gemini-2.0-flash-001", "kr"),
        ("openrouter/meta/llama-3", {"OPENROUTER_API_KEY": "kr"}, ROUTER, "meta/llama-3", "kr"),
        ("openai:gpt-4o", {**KEYS, "KNOWLEDGE_LLM_BASE_URL": OWN}, OWN, "gpt-4o", "ko"),
        ("gpt-4o", {"KNOWLEDGE_LLM_BASE_URL": OWN, "KNOWLEDGE_LLM_API_KEY": "kk"}, OWN, "gpt-4o", "kk"),
        ("anthropic/claude-sonnet-4.5", {"KNOWLEDGE_LLM_BASE_URL": OWN}, OWN, "anthropic/claude-sonnet-4.5", ""),
        ("whatever", {"KNOWLEDGE_LLM_BASE_URL": OWN}, OWN, "whatever", ""),
        ("llama3:8b", {"KNOWLEDGE_LLM_BASE_URL": OWN}, OWN, "llama3:8b", ""),
    ],
)
def test_a_name_says_where_the_model_is_asked(
    name: str, environ: dict[str, str], address: str, model: str, key: str
) -> None:
    found = find_endpoint(name, environ)
    assert found is not None
    assert (found.name, found.address, found.model, found.key) == (name, address, model, key)
    assert not key or f"'{key}'" not in repr(found)


@pytest.mark.parametrize(
    "name", ["", " gpt-4o", "llama3", "nonsense:x", "openai:", "openai/", "gpt-4o\n", "x" * 300, "/", ":", "\ud800"]
)
def test_a_name_of_others_is_none_of_this_adapters(name: str) -> None:
    assert find_endpoint(name, KEYS) is None


@given(st.text(max_size=30))
def test_any_name_is_answered(name: str) -> None:
    found = find_endpoint(name, {"KNOWLEDGE_LLM_BASE_URL": OWN})
    assert found is None or found.model


def test_without_a_key_the_variables_are_named() -> None:
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY") as caught:
        find_endpoint("anthropic/claude-sonnet-4.5", {"OPENAI_API_KEY": "s3cret"})
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        find_model("gemini-2.0-flash-001", environ={})


def test_a_key_that_cannot_be_sent_is_named_by_its_variable() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY") as caught:
        find_endpoint("gpt-4o", {"OPENAI_API_KEY": "s3crét"})
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["ftp://h/v1", "http://", "h:80", "http://me:s3cret@h", "http://h/?key=s3cret", "http://h:99999", "http://[", "x"],
)
def test_an_address_that_is_none_is_named_by_its_variable(address: str) -> None:
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_LLM_BASE_URL") as caught:
        find_endpoint("gpt-4o", {"KNOWLEDGE_LLM_BASE_URL": address})
    assert "s3cret" not in str(caught.value)


def test_settings_come_from_their_variables() -> None:
    environ = {
        "KNOWLEDGE_LLM_RETRIES": "0",
        "KNOWLEDGE_LLM_REPAIRS": " 1 ",
        "KNOWLEDGE_LLM_MAX_TOKENS": "900",
        "KNOWLEDGE_LLM_CACHE": "answers",
        "KNOWLEDGE_LLM_CACHE_MB": "",
    }
    assert LlmSettings.from_env(environ) == LlmSettings(retries=0, repairs=1, max_tokens=900, cache="answers")
    assert LlmSettings.from_env({}) == LlmSettings()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KNOWLEDGE_LLM_RETRIES", "-1"),
        ("KNOWLEDGE_LLM_REPAIRS", "many"),
        ("KNOWLEDGE_LLM_MAX_TOKENS", "0"),
        ("KNOWLEDGE_LLM_CACHE", "a\0b"),
        ("KNOWLEDGE_LLM_CACHE_MB", "1e99"),
    ],
)
def test_a_wrong_setting_names_its_variable(variable: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=variable):
        LlmSettings.from_env({variable: value})


def test_the_registry_goes_on_where_a_name_is_none_of_this_adapters() -> None:
    with pytest.raises(ConfigurationError, match="no model 'nonsense'"):
        find_model("nonsense", environ={})


def test_making_a_model_loads_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys; from knowledge_engine.language_models import find_model;"
        "find_model('ollama/llama3', environ={});"
        "print([name for name in ('pydantic_ai', 'openai', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0)


def test_the_package_names_what_it_has() -> None:
    assert set(knowledge_llm.__all__) <= set(dir(knowledge_llm))
    assert knowledge_llm.Usage().requests == 0
    with pytest.raises(AttributeError):
        _ = knowledge_llm.nonsense
