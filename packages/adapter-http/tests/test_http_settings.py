"""What the environment says, and what it must not be able to say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.errors import ConfigurationError
from knowledge_http import HttpSettings
from knowledge_http.grants import Grant, grant_of, parse_tokens
from knowledge_http.server.access import Tokens
from knowledge_http.settings import split_url


def from_env(**given: str) -> HttpSettings:
    return HttpSettings.from_env({f"KNOWLEDGE_HTTP_{name.upper()}": value for name, value in given.items()})


def test_an_empty_environment_is_a_server_for_this_machine_that_nobody_can_write() -> None:
    settings = HttpSettings.from_env({})
    assert (settings.host, settings.port, settings.writable, settings.has_tokens) == ("127.0.0.1", 8765, False, False)
    settings.check_serving()


def test_all_that_may_be_set_is_read() -> None:
    settings = from_env(
        host="0.0.0.0",
        port="0",
        tokens="a:read, b:write:docs",
        writable="true",
        insecure="yes",
        quiet="1",
        allowed_hosts="KB.example, other",
        cors_origins="https://App.example/, http://a:8080",
        max_body="20000",
        max_concurrent="3",
        timeout_s="1.5",
        url="https://host/base/?backend=docs",
        token="t",
    )
    assert settings.allowed_hosts == ("kb.example", "other")
    assert settings.cors_origins == ("https://app.example", "http://a:8080")
    assert [(each.scope, each.backend) for each in settings.tokens] == [("read", None), ("write", "docs")]
    assert (settings.url, settings.backend) == ("https://host/base", "docs")
    assert (settings.max_body, settings.max_concurrent, settings.timeout_s) == (20_000, 3, 1.5)
    assert settings.writable
    assert settings.insecure
    assert settings.quiet


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "65536"), ("port", "-1"), ("port", "80.5"), ("port", "http"), ("timeout_s", "0"), ("timeout_s", "nan"),
        ("timeout_s", "inf"), ("max_body", "9"), ("max_concurrent", "0"), ("writable", "perhaps"), ("host", "\udcff"),
        ("cors_origins", "app.example"), ("cors_origins", "https://a/path"), ("cors_origins", "*"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"KNOWLEDGE_HTTP_{name.upper()}") as caught:
        from_env(**{name: value})
    assert caught.value.mend


@pytest.mark.parametrize("text", ["", "  ", ",", ", ,"])
def test_tokens_that_are_set_to_nothing_open_nothing(text: str) -> None:
    with pytest.raises(ConfigurationError, match="holds no token"):
        from_env(tokens=text)


@pytest.mark.parametrize(
    "text",
    [
        *("secret", ":read", " :read", "secret:", "secret:all", "secret:read:", "se cret:read", "s\x7f:read"),
        *("s:read:a:", "s:read::", "s:read:a:b c", "s:read:a:b:c", "s:read::\u00fc"),
    ],
)
def test_a_malformed_token_is_an_error_that_does_not_show_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match="Token 2") as caught:
        from_env(tokens=f"good:read,{text}")
    assert "cret" not in str(caught.value)


def test_a_token_may_stand_for_somebody() -> None:
    tokens = parse_tokens("one:read:docs:crawler,one:write,two:admin::Chief@plant-1")
    one, two = grant_of(b"one", tokens), grant_of(b"two", tokens)
    assert one is not None
    assert two is not None
    assert (one.name, one.allows("write"), one.allows("admin")) == ("crawler", True, False)
    assert (two.name, two.allows("admin", "docs")) == ("Chief@plant-1", True)


def test_settings_show_no_secret() -> None:
    settings = from_env(tokens="hush-hush:read", token="whisper", url="http://host")
    assert "hush" not in repr(settings)
    assert "whisper" not in repr(settings)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "kb.example", ""])
def test_beyond_this_machine_there_must_be_a_token_or_a_word_that_there_need_not_be(host: str) -> None:
    with pytest.raises(ConfigurationError, match="--insecure"):
        HttpSettings(host=host).check_serving()
    HttpSettings(host=host, insecure=True).check_serving()
    HttpSettings(host=host, tokens=parse_tokens("a:read")).check_serving()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_an_address_of_this_machine_needs_no_token(host: str) -> None:
    HttpSettings(host=host).check_serving()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/", "http://", "http:///x", "https://host:port/", "https://me:pw@host/", "https://host/#part",
        "https://host/?token=x", "https://host/?backend=", "https://host/?backend=a&backend=b", "http://[::1", "\udcff",
        "http://a b/", "http://host/" + "x" * 3000,
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_server_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        split_url(url)
    assert "pw" not in str(caught.value)


# Grants


def test_a_scope_has_those_before_it() -> None:
    for scope, allowed in (("read", 1), ("write", 2), ("admin", 3)):
        grant = Grant(scope)  # type: ignore[arg-type]
        assert [grant.allows(each) for each in ("read", "write", "admin")] == [number < allowed for number in range(3)]


def test_what_a_secret_allows_at_several_backends_adds_up() -> None:
    tokens = parse_tokens("s:read,s:write:notes,other:admin")
    grant = grant_of(b"s", tokens)
    assert grant is not None
    assert (grant.allows("write"), grant.allows("write", "notes"), grant.allows("write", "docs")) == (
        False,
        True,
        False,
    )
    assert grant.visible(["docs", "notes"]) == ("docs", "notes")
    limited = grant_of(b"n", parse_tokens("n:read:notes,n:write:notes,n:read:notes"))
    assert limited is not None
    assert limited.visible(["docs", "notes"]) == ("notes",)
    assert (limited.allows("read"), limited.allows_somewhere("write"), limited.allows_somewhere("admin")) == (
        False, True, False,
    )  # fmt: skip
    assert grant_of(b"unknown", tokens) is None


@given(st.binary(max_size=40))
def test_no_bytes_but_those_of_a_secret_open_it(data: bytes) -> None:
    tokens = parse_tokens("größe:read")
    assert (grant_of(data, tokens) is not None) == (data == "größe".encode())


# The file of tokens


def tokens_of(file: Path, **more: str) -> Tokens:
    return Tokens(from_env(tokens_file=str(file), **more))


def allowed(tokens: Tokens, secret: str) -> bool:
    try:
        tokens.grant([(b"authorization", b"Bearer " + secret.encode())])
    except Exception:
        return False
    return True


def test_the_file_is_read_again_when_it_changes_and_closes_when_it_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# ours\none:read\n\ntwo:write:docs\n")
    tokens = tokens_of(file, tokens="fixed:read")
    assert [allowed(tokens, each) for each in ("one", "two", "three", "fixed")] == [True, True, False, True]
    file.write_text("three:read\nmalformed\nfour:admin\n")
    assert [allowed(tokens, each) for each in ("one", "three", "four", "fixed")] == [False, True, True, True]
    file.unlink()
    assert [allowed(tokens, each) for each in ("three", "fixed")] == [False, True]
    file.write_bytes(b"\xff\xff")
    assert [allowed(tokens, each) for each in ("three", "fixed")] == [False, True]
    file.write_text("one:read")
    assert allowed(tokens, "one")
    file.write_bytes(b"one:read\n" + b"#" * 1_000_001)
    assert not allowed(tokens, "one")


def test_without_a_token_in_the_file_nothing_starts(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    for content in (b"", b"# none\n", b"\xff:read", b"one:never\n"):
        file.write_bytes(content)
        with pytest.raises(ConfigurationError, match=r"TOKENS_FILE|Token 1"):
            tokens_of(file)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        tokens_of(tmp_path / "missing")
    with pytest.raises(ConfigurationError, match="names no file"):
        tokens_of(Path("a\0b"))
