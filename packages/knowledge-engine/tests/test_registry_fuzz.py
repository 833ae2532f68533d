"""Hostile names, URLs, settings and environments: a handle, or an error of ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import ConfigurationError, KnowledgeError
from knowledge_engine.extensions import collect_extensions
from knowledge_engine.language_models import find_model
from knowledge_engine.registry import make_knowledge_resolver, resolve_knowledge_backend
from knowledge_engine.transports import find_transport

ANYTHING = st.text(st.characters(), max_size=40)
NAMES = st.one_of(
    ANYTHING,
    st.sampled_from(
        ["", ":", "::", "files", "FILES", "files:", "Files:x", "files:\0", "files://", "files:///", "antigravity"]
    ),
    st.sampled_from(
        ["this", "os:system", "knowledge_files.plugin", "../files", "files ", "\ud800", "files:\udcff", "../.."]
    ),
    st.builds("{}:{}".format, st.sampled_from(["files", "https", "wss", "sqlite", "file", "javascript"]), ANYTHING),
    st.builds("files://{}@{}?{}#{}".format, ANYTHING, ANYTHING, ANYTHING, ANYTHING),
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    ANYTHING, st.none(), st.booleans(), st.integers(), st.floats(), st.binary(), st.lists(ANYTHING), st.builds(object),
    st.just(10**5000), st.builds(Path, st.text("abc/.")), st.just(10**9 * "x"[:0]), st.dictionaries(ANYTHING, ANYTHING),
)  # fmt: skip
SHORT = st.sampled_from(["root", "path", "exclude", "ranking", "language"])
SETTINGS = st.dictionaries(
    SHORT | SHORT.map(lambda name: f"KNOWLEDGE_FILES_{name.upper()}") | ANYTHING, VALUES, max_size=3
)
ENVIRON = st.dictionaries(SHORT.map(lambda name: f"KNOWLEDGE_FILES_{name.upper()}"), ANYTHING, max_size=3)

INSTALLED = ("files", "http", "sqlite", "wamp")
FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def usable(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "environ"}


@FUZZ
@given(NAMES, SETTINGS, ENVIRON)
def test_a_backend_opens_or_says_why_not(name: str, given: dict[str, Any], environ: dict[str, str]) -> None:
    resolve_knowledge_backend("files", environ={}).provider()
    resolve_knowledge_backend("ws://127.0.0.1:1", environ={}).provider()
    resolve_knowledge_backend("http://127.0.0.1:1", environ={}).provider()
    resolve_knowledge_backend("sqlite", environ={}).provider()
    before = {each for each in sys.modules if not each.startswith(("rank_bm25", "encodings", "stringprep"))}
    failure: KnowledgeError | None = None
    try:
        handle = resolve_knowledge_backend(name, environ=environ, **usable(given))
        assert handle.slug in INSTALLED
        assert handle.info()
        assert repr(handle)
        provider = handle.provider()
        if handle.slug == "files":  # the others would look for a host, or make a file, of that name
            provider.health_check()
        handle.close()
    except KnowledgeError as error:
        failure = error
    if failure:
        assert failure.mend
        assert len(str(failure)) < 2000
    after = {each for each in sys.modules if not each.startswith(("rank_bm25", "encodings", "stringprep"))}
    assert after == before


@FUZZ
@given(NAMES, SETTINGS)
def test_a_resolver_gives_a_handle_none_or_an_error_of_ours(name: str, given: dict[str, Any]) -> None:
    try:
        handle = make_knowledge_resolver(environ={})(name, **usable(given))
    except KnowledgeError:
        return
    assert handle is None or handle.slug in INSTALLED


@FUZZ
@given(NAMES, ENVIRON)
def test_any_name_of_a_transport_or_model_that_is_not_there_is_an_error_that_says_so(
    name: str, environ: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError, match="There is no transport"):
        find_transport(name)
    with pytest.raises(ConfigurationError, match="There is no model"):
        find_model(name, environ=environ)
    assert not collect_extensions({}, environ=environ).problems


@pytest.mark.parametrize(
    "name", ["x" * 10_000_000, "x:" * 5_000_000, "@" * 1_000_000 + ":", "files:" + "@?#&" * 500_000]
)
def test_huge_names_are_answered_with_few_words(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve_knowledge_backend(name, environ={})
    assert len(str(caught.value)) < 1000


class OddPath(os.PathLike[str]):
    def __fspath__(self) -> Any:
        raise RuntimeError("no path today")


@pytest.mark.parametrize("value", [OddPath(), pytest.param(10**5000, id="long"), "a\0b", Path("a\0b"), b"x", {1}, 1j])
def test_a_value_that_is_no_text_is_refused_by_the_settings_name(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="The setting 'root'"):
        resolve_knowledge_backend("files", environ={}, root=value)


def test_a_url_of_the_greatest_length_shows_little_of_itself() -> None:
    handle = resolve_knowledge_backend("files:" + "@?tok=a&#" * 2_200, environ={}, root="abcd" * 100_000)
    assert handle.url == "files:***"
    assert handle.info()["url"] == handle.url
