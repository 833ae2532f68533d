from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from knowledge_engine.errors import ConfigurationError
from knowledge_engine.registry import resolve_knowledge_backend
from knowledge_sqlite import SqliteKnowledgeAdapter, SqliteSettings, create_standalone_sqlite_adapter
from knowledge_sqlite.plugin import knowledge_backend
from knowledge_sqlite.settings import path_of

P = "KNOWLEDGE_SQLITE_"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///kb.db", "kb.db"),
        ("sqlite:////srv/kb.db", "/srv/kb.db"),
        ("sqlite:kb.db", "kb.db"),
        ("sqlite:/srv/kb.db", "/srv/kb.db"),
        ("sqlite://:memory:", ":memory:"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite:///a b?c#d%20é.db", "a b?c#d%20é.db"),
    ],
)
def test_a_url_names_a_file(url: str, path: str) -> None:
    assert path_of(url) == path
    assert SqliteSettings.from_env({P + "PATH": "other.db"}, url).path == path


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite:////",
        "sqlite://host/kb.db",
        "sqlite:///a\0b",
        "sqlite:////tmp/\ud800",
    ],
)
def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="sqlite:///relative"):
        path_of(url)


def test_every_setting_comes_from_its_variable() -> None:
    environ = {
        P + "PATH": " kb.db ",
        P + "BUSY_TIMEOUT_S": "2.5",
        P + "READ_ONLY": "Yes",
        P + "SYNCHRONOUS": "FULL",
        P + "INDEXED_KEYS": " kind, owner.name,, kind,cafe\u0301 ",
        P + "WORKERS": " 3 ",
    }
    assert SqliteSettings.from_env(environ) == SqliteSettings(
        path="kb.db",
        busy_timeout_s=2.5,
        read_only=True,
        synchronous="full",
        indexed_keys=("kind", "owner.name", "caf\u00e9"),
        workers=3,
    )


@pytest.mark.parametrize("off", ["", "0", "false", "No", "off"])
def test_what_is_unset_or_empty_has_its_default(off: str) -> None:
    given = {P + "BUSY_TIMEOUT_S": "", P + "READ_ONLY": off, P + "SYNCHRONOUS": "", P + "WORKERS": ""}
    assert SqliteSettings.from_env(given) == SqliteSettings.from_env({}) == SqliteSettings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", " "),
        ("PATH", "a\0b"),
        ("PATH", "\ud800.db"),
        ("BUSY_TIMEOUT_S", "soon"),
        ("BUSY_TIMEOUT_S", "-1"),
        ("BUSY_TIMEOUT_S", "nan"),
        ("BUSY_TIMEOUT_S", "3601"),
        ("READ_ONLY", "maybe"),
        ("SYNCHRONOUS", "off"),
        ("WORKERS", "-1"),
        ("WORKERS", "65"),
        ("WORKERS", "two"),
        ("WORKERS", "\u0663"),
        ("INDEXED_KEYS", 'kind,a"b'),
        ("INDEXED_KEYS", "a\\"),
        ("INDEXED_KEYS", "a\nb"),
        ("INDEXED_KEYS", "\ud800"),
        ("INDEXED_KEYS", "k" * 201),
        ("INDEXED_KEYS", "." * 16),
        ("INDEXED_KEYS", ",".join(f"k{n}" for n in range(33))),
    ],
)
def test_a_wrong_value_names_its_variable_and_the_mend(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=P + name) as caught:
        SqliteSettings.from_env({P + name: value})
    assert caught.value.mend


@pytest.mark.parametrize("keys", [['a"'], ["ok", "\0"], [f"k{n}" for n in range(33)]])
def test_keys_that_cannot_be_indexed_are_refused_in_python_too(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="at most 32 keys"):
        SqliteSettings(indexed_keys=tuple(keys))


def test_indexed_keys_that_are_named_and_none_are_not_the_same_as_unnamed_ones() -> None:
    assert SqliteSettings.from_env({}).indexed_keys is None
    assert SqliteSettings.from_env({P + "INDEXED_KEYS": " , "}).indexed_keys == ()
    assert SqliteSettings(indexed_keys=("cafe\u0301", "caf\u00e9")).indexed_keys == ("caf\u00e9",)


def test_the_backend_is_found_by_name_and_url_and_by_itself() -> None:
    for name in ("sqlite", "sqlite://:memory:"):
        with resolve_knowledge_backend(name, environ={P + "PATH": ":memory:"}) as handle:
            assert isinstance(handle.provider(), SqliteKnowledgeAdapter)
            assert handle.info()["name"] == "SQLite"
    alone = create_standalone_sqlite_adapter({P + "PATH": ":memory:", P + "READ_ONLY": "1"})
    assert alone.capabilities.writable is False
    assert create_standalone_sqlite_adapter({P + "PATH": ":memory:"}).capabilities.writable is True


def test_the_package_lists_what_it_has() -> None:
    import knowledge_sqlite

    assert {"SqliteKnowledgeAdapter", "SqliteSettings", "create_standalone_sqlite_adapter"} <= set(
        dir(knowledge_sqlite)
    )
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = knowledge_sqlite.nothing_such


def test_the_code_in_the_documentation_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    page = Path(__file__).parents[3] / "docs" / "sqlite.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {}
    exec(code, scope)
    assert scope["adapter"].list_sources().total == 1000
    scope["adapter"].dispose()


def test_the_documentation_lists_every_setting_with_its_default() -> None:
    page = (Path(__file__).parents[3] / "docs" / "sqlite.md").read_text(encoding="utf-8")
    for setting in knowledge_backend()["settings"]:
        default = setting.get("default") or ("false" if setting.get("flag") else "")
        assert re.search(rf"\| `{setting['name']}` \| {re.escape(f'`{default}`' if default else '')} ?\|", page)
