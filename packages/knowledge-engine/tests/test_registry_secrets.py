"""No secret leaves through what is shown of a backend: representations, errors, logs, pickles, tracebacks."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import traceback
import unicodedata
from io import StringIO
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from knowledge_engine.errors import ConfigurationError, KnowledgeError, wire_error
from knowledge_engine.redaction import HIDDEN, Secrets, redact_url, url_secrets
from knowledge_engine.registry import KnowledgeBackendHandle, resolve_knowledge_backend

# Fails in a way that the test picks, with all that it was handed in the message.
VAULT = """
    from knowledge_engine.hookspecs import hookimpl
    from knowledge_engine.errors import ConfigurationError

    fail = None

    @hookimpl
    def knowledge_backend():
        return {
            "url_schemes": ["vault"],
            "settings": [
                {"name": "KNOWLEDGE_VAULT_PIN", "secret": True},
                {"name": "KNOWLEDGE_VAULT_HOUSE", "secret": True, "default": "factory-set"},
                {"name": "KNOWLEDGE_VAULT_PLACE"},
            ],
        }

    @hookimpl
    def knowledge_open(url, settings, environ):
        fail(url, settings, environ)
"""

SECRETS = st.text(min_size=8).filter(lambda text: "\0" not in text and len(set(text)) > 3)


def raise_plain(*given: Any) -> None:
    raise ValueError(f"cannot use {given}", *given)


def raise_known(*given: Any) -> None:
    raise ConfigurationError(f"Cannot use {given}", mend=f"Do not use {given[0]} or {given[1]}.")


def raise_chained(*given: Any) -> None:
    try:
        raise_plain(*given)
    except ValueError as error:
        raise ConfigurationError("Not so", mend="Do else.") from error


def raise_while_handling(*given: Any) -> None:
    try:
        raise_plain(*given)
    except ValueError:
        raise ConfigurationError("Not so", mend="Do else.")  # noqa: B904


def raise_with_note(*given: Any) -> None:
    error = ConfigurationError("Not so", mend="Do else.")
    error.add_note(f"given were {given}")
    raise error


def raise_group(*given: Any) -> None:
    raise ExceptionGroup("several", [OSError(2, "no such", given[2].get("KNOWLEDGE_VAULT_PIN")), ValueError(given)])


class StubbornError(KnowledgeError):
    def __str__(self) -> str:
        return f"I say {self.said}"

    said = ""


def raise_stubborn(*given: Any) -> None:
    error = StubbornError("Not so", mend="Do else.")
    error.said = repr(given)
    raise error


FAILURES = [
    raise_plain,
    raise_known,
    raise_chained,
    raise_while_handling,
    raise_with_note,
    raise_group,
    raise_stubborn,
]


def forms(secret: str) -> list[str]:
    return [secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret.encode("utf-8", "surrogatepass"), "")]


def all_that_is_shown(handle: KnowledgeBackendHandle) -> str:
    log = StringIO()
    handler = logging.StreamHandler(log)
    logger = logging.getLogger("knowledge_engine")
    logger.addHandler(handler)
    shown = [repr(handle), str(handle), json.dumps(handle.info()), json.dumps(handle.info(), ensure_ascii=False)]
    shown += [repr(handle.check()), f"{handle._settings!r} {handle._plugin!r}"]
    try:
        handle.provider()
    except KnowledgeError as error:
        logger.warning("failed: %s", handle, exc_info=error)
        shown += [str(error), repr(error), error.problem, error.mend, json.dumps(wire_error(error))]
        shown += ["".join(traceback.format_exception(error)), repr(pickle.dumps(error, protocol=0)), repr(error.args)]
        shown += [repr(error.__context__), repr(error.__cause__)]
    else:
        raise AssertionError("it did not fail")
    finally:
        logger.removeHandler(handler)
    return "\n".join([*shown, log.getvalue()])


@pytest.fixture
def vault(install_plugin: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    install_plugin("vault_plugin", VAULT, name="vault")
    import vault_plugin  # type: ignore[import-not-found]

    # Text that is shown whatever the secret is, such as a class's name, is no secret.
    shown = ["https://host/docs?realm=a&token=b"]
    for vault_plugin.fail in FAILURES:
        for name, pin in (("vault:x", "\u2603" * 8), ("vault://me:\u2603\u2603\u2603\u2603@host/docs", "1234")):
            handle = resolve_knowledge_backend(name, environ={"THEIR_API_KEY": "\u2604" * 8}, pin=pin, place="x")
            shown.append(all_that_is_shown(handle))
    vault_plugin.ordinary = "".join(shown)
    return vault_plugin


@given(SECRETS, st.sampled_from(FAILURES))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_secret_setting_is_never_shown(vault: Any, secret: str, failure: Any) -> None:
    vault.fail = failure
    assume(not [form for form in (*forms(secret), *forms(secret[::-1])) if form in vault.ordinary])
    for handle in (
        resolve_knowledge_backend("vault", environ={}, pin=secret),
        resolve_knowledge_backend("vault:x", environ={"KNOWLEDGE_VAULT_PIN": secret, "THEIR_API_KEY": secret[::-1]}),
    ):
        shown = all_that_is_shown(handle)
        assert not [form for form in forms(secret) if form in shown]
        assert not [form for form in forms(secret[::-1]) if len(handle._settings.environ) > 1 and form in shown]
        assert "factory-set" not in shown


@given(SECRETS, st.sampled_from(FAILURES), st.integers(0, 5))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_secret_in_a_url_is_never_shown(vault: Any, secret: str, failure: Any, place: int) -> None:
    vault.fail = failure
    assume(not [form for form in forms(secret) if form in vault.ordinary])
    quoted = quote(secret.encode("utf-8", "surrogatepass"), safe="")
    url = [
        f"vault://{secret}@host/docs",
        f"vault://me:{secret}@host/docs",
        f"vault://me:{quoted}@host/docs",
        f"vault:{secret}@host",
        f"vault://host/docs?realm=a&token={quoted}",
        f"vault://host/docs?realm=a;%54oken={quoted}#b",
    ][place]
    shown = all_that_is_shown(resolve_knowledge_backend(url, environ={}))
    assert not [form for form in (*forms(secret), quoted) if form in shown]
    place_url = url.replace("vault:", "https:")
    shown = all_that_is_shown(resolve_knowledge_backend("vault", environ={}, place=place_url, pin="1234"))
    assert "://" not in place_url or not [form for form in (*forms(secret), quoted) if form in shown]


def test_an_error_without_a_secret_keeps_its_cause_and_its_words(vault: Any) -> None:
    def fail(*_: Any) -> None:
        raise OSError("the disk is gone")

    vault.fail = fail
    with pytest.raises(KnowledgeError) as caught:
        resolve_knowledge_backend("vault", environ={}, pin="hush-hush").provider()
    assert isinstance(caught.value.__cause__, OSError)
    assert "the disk is gone" in "".join(traceback.format_exception(caught.value))


def test_an_error_with_a_secret_keeps_the_rest_of_its_words(vault: Any) -> None:
    vault.fail = raise_known
    with pytest.raises(ConfigurationError, match=r"Cannot use .*KNOWLEDGE_VAULT_PIN': '\*\*\*'"):
        resolve_knowledge_backend("vault", environ={}, pin="hush-hush").provider()


def test_an_error_that_holds_on_to_its_secret_is_replaced(vault: Any) -> None:
    vault.fail = raise_stubborn
    with pytest.raises(KnowledgeError, match="and its message held a secret"):
        resolve_knowledge_backend("vault", environ={}, pin="hush-hush").provider()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("files:./docs", "files:./docs"),
        ("files", "files"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
        ("https://host:80/a?realm=b", "https://host:80/a?realm=b"),
        ("https://me@host/", f"https://{HIDDEN}@host/"),
        ("https://me:p/w@host/", f"https://{HIDDEN}@host/"),
        ("https://me:p?w@host/", f"https://{HIDDEN}"),
        ("https://host/?token=one@two", f"https://{HIDDEN}"),
        ("https://me:a@b@host/", f"https://{HIDDEN}@host/"),
        ("https://host/?Access_Token=x&a=1;sig=y", f"https://host/?Access_Token={HIDDEN}"),
        ("https://host/?bare", f"https://host/?{HIDDEN}"),
        ("https://host/?c2VjcmV0==", f"https://host/?{HIDDEN}"),
        ("https://host/?a=1#%6bey=b;c=d", f"https://host/?a=1#%6bey={HIDDEN}"),
        ("https://host/?", "https://host/?"),
        ("https://host/#frag&%6bey=1", f"https://host/#{HIDDEN}"),
    ],
)
def test_a_url_shows_without_what_may_be_secret(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@given(st.text() | st.text(st.sampled_from("ab:/@?#&;=%token7 "), max_size=40))
def test_any_text_can_be_redacted_and_nothing_that_was_hidden_is_left(url: str) -> None:
    shown = redact_url(url)
    assert redact_url(shown) == shown
    scheme = url.partition(":")[0]
    for secret in url_secrets(url):
        assert len(secret) < 8 or secret in scheme or secret not in shown


def test_short_values_are_left_alone_and_the_longest_secret_goes_first() -> None:
    assert Secrets(["abc"]).hide("abc abcd") == "abc abcd"
    assert Secrets(["hush", "hush-hush"]).hide("hush-hush hush") == f"{HIDDEN} {HIDDEN}"
    assert repr(Secrets(["hush"])) == "<Secrets>"


def test_causes_that_go_round_in_circles_are_followed_once() -> None:
    one, other = ValueError("one"), ValueError("hush-hush")
    one.__cause__, other.__context__ = other, one
    scrubbed = Secrets(["hush-hush"]).scrub(one)
    assert scrubbed is one
    assert scrubbed.__cause__ is None
    assert Secrets(["hush-hush"]).scrub(other) is None


@given(st.text("ab:/@?#&;=%tok7 ", min_size=8), st.sampled_from(["https://host/?a=1&token={}", "https://me:{}@host/"]))
def test_a_secret_that_was_not_quoted_is_not_shown_either(secret: str, url: str) -> None:
    assert secret not in redact_url(url.format(secret))
    assert secret in url_secrets(url.format(secret))


@pytest.mark.parametrize("form", ["bytes", "repr of bytes", "percent", "base64", "decomposed"])
def test_a_secret_is_hidden_in_the_forms_that_clients_show(form: str) -> None:
    secret = "s3cr3t-Tokén/€&x"
    raw = secret.encode()
    shown = {
        "bytes": repr(ValueError(raw)),
        "repr of bytes": f"bad {raw!r}",
        "percent": quote(raw).replace("%C3", "%c3").replace("%A9", "%a9").replace("%E2", "%e2").replace("%AC", "%ac"),
        "base64": "Basic " + base64.b64encode(raw).decode(),
        "decomposed": unicodedata.normalize("NFD", secret),
    }[form]
    assert Secrets([secret]).hide(shown) != shown
    assert "***" in Secrets([secret]).hide(shown)
