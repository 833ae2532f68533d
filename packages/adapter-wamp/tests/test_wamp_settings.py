"""Settings come from the environment and from URLs; what is wrong names its variable and says what to do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_engine.errors import ConfigurationError
from knowledge_wamp.setting_infos import setting_infos
from knowledge_wamp.settings import MAX_SECRET_BYTES, SCHEMES, WampSettings

URL = "ws://127.0.0.1:8080/ws"
SECRET = "correct-horse-battery"


def read(url: str | None = None, /, **variables: str) -> WampSettings:
    return WampSettings.from_env({f"KNOWLEDGE_WAMP_{name.upper()}": value for name, value in variables.items()}, url)


def refusal(url: str | None = None, /, **variables: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(url, **variables)
    return str(caught.value)


def test_a_url_is_enough() -> None:
    settings = read(url=URL)
    assert settings == read(URL)
    assert (settings.url, settings.realm, settings.prefix) == (URL, "realm1", "")
    assert (settings.timeout_s, settings.max_payload) == (30.0, 1_000_000)
    assert (settings.shared, settings.writable, settings.auth_method) == (False, False, "anonymous")
    assert settings.serializers == ("msgpack", "cbor", "json")
    assert settings.proof() == ""


def test_no_url_names_the_variable_and_an_example() -> None:
    assert "KNOWLEDGE_WAMP_URL is not set. Set it, such as ws://" in refusal()


def test_every_variable_is_read() -> None:
    settings = read(
        url=" wss://router.example/ws ",
        realm="plant.north",
        prefix="7.11.42.DEV.",
        authid="me",
        ticket=SECRET,
        serializer="JSON, cbor",
        ca_file="ca.pem",
        timeout_s="2.5",
        shared="TRUE",
        writable="on",
        health_file="health.json",
        max_payload="50000",
    )
    assert settings.url == "wss://router.example/ws"
    assert (settings.realm, settings.authid) == ("plant.north", "me")
    assert settings.procedure("app_knowledge.list") == "7.11.42.DEV.app_knowledge.list"
    assert settings.serializers == ("json", "cbor")
    assert (settings.ca_file, settings.health_file) == ("ca.pem", "health.json")
    assert (settings.timeout_s, settings.max_payload) == (2.5, 50_000)
    assert (settings.shared, settings.writable, settings.auth_method) == (True, True, "ticket")
    assert settings.proof() == SECRET


def test_without_a_prefix_a_procedure_is_its_topic() -> None:
    assert read(URL).procedure("app_knowledge.list") == "app_knowledge.list"
    assert read(URL, prefix="...").procedure("a.b") == "a.b"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_scheme_is_written_as_wamp_libraries_do(scheme: str) -> None:
    assert read(f"{scheme}://host:9000/path").url == f"{SCHEMES[scheme]}://host:9000/path"


def test_the_parameters_of_a_url_come_before_the_variables_and_are_not_sent() -> None:
    settings = read("wamp://host/ws?realm=plant&token=1&prefix=a.b&empty=", realm="other", prefix="x", url="rs://no:1")
    assert (settings.url, settings.realm, settings.prefix) == ("ws://host/ws?token=1&empty=", "plant", "a.b")


def test_an_empty_parameter_of_a_url_leaves_the_variable_in_force() -> None:
    assert read("ws://host/?realm=&prefix=", realm="other").realm == "other"


def test_the_part_behind_a_hash_is_not_sent() -> None:
    assert read("ws://host/ws#part").url == "ws://host/ws"


@pytest.mark.parametrize(
    "url",
    ["", "ws://", "http://host/ws", "host:8080", "ws://[::1/ws", "ws://host:99999/ws", "ws://host:x/ws", "ws:///ws",
     "ws://host/?x=\udcff", "//host/ws", "ws://\u2100/ws", "rs://host", "rss://host/"],
)  # fmt: skip
def test_a_url_that_leads_nowhere_is_refused_with_the_ways_to_write_one(url: str) -> None:
    assert "ws://HOST:PORT/PATH" in refusal(url)


def test_a_url_with_a_password_is_refused_and_not_shown() -> None:
    message = refusal(f"ws://me:{SECRET}@host/ws")
    assert "holds a user or a password" in message
    assert SECRET not in message


@given(st.text())
def test_any_text_is_a_url_or_a_configuration_error(text: str) -> None:
    with suppress(ConfigurationError):
        assert read(text).url.split(":")[0] in set(SCHEMES.values())


@given(
    name=st.sampled_from([*WampSettings.model_fields, "serializer"]),
    value=st.text(alphabet=st.one_of(st.characters(), st.sampled_from("1aetru.,:/-\udcff\0"))),
)
def test_any_value_of_a_variable_is_taken_or_a_configuration_error(name: str, value: str) -> None:
    with suppress(ConfigurationError):
        assert read(**{"url": URL, name: value}).url


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("serializer", "xml", "'xml'. Use some of msgpack, cbor, json"),
        ("serializer", "json,", "'json,'"),
        ("shared", "maybe", "'maybe'. Use true or false"),
        ("writable", "2", "'2'. Use true or false"),
        ("timeout_s", "soon", "'soon'. Use a number from"),
        ("timeout_s", "0", "'0'. Use a number from"),
        ("timeout_s", "nan", "'nan'. Use a number from"),
        ("timeout_s", "1e9", "'1e9'. Use a number from"),
        ("max_payload", "9999", "'9999'. Use a number from 10000"),
        ("max_payload", "inf", "'inf'. Use a number from"),
        ("realm", "a..b", "'a..b': it has an empty part"),
        ("prefix", "a b", "'a b': it has an empty part between dots, a blank"),
        ("prefix", "wamp.x", "belong to the router"),
        ("realm", "x\udcff", "no UTF-8"),
        ("authid", "x\udcff", "no UTF-8"),
        ("ticket", "x\udcff", "no UTF-8"),
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str, said: str) -> None:
    message = refusal(**{"url": URL, name: value})
    assert f"KNOWLEDGE_WAMP_{name.upper()}" in message
    assert said in message


@pytest.mark.parametrize("value", ["0", "false", "No", "OFF", "", " "])
def test_a_flag_can_be_said_to_be_off(value: str) -> None:
    assert read(URL, shared=value).shared is False


@pytest.mark.parametrize(
    ("name", "method"), [("ticket", "ticket"), ("secret", "wampcra"), ("private_key", "cryptosign")]
)
def test_what_is_set_says_how_to_join(name: str, method: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"  {SECRET}\n", encoding="utf-8")
    by_value, by_file = read(URL, authid="me", **{name: SECRET}), read(URL, authid="me", **{f"{name}_file": str(file)})
    assert (by_value.auth_method, by_value.proof()) == (method, SECRET)
    assert (by_file.auth_method, by_file.proof()) == (method, SECRET)
    assert SECRET not in f"{by_value!r}{by_value}{by_value.model_dump_json()}{by_file!r}"


def test_a_ticket_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "ticket"
    file.write_text("old", encoding="utf-8")
    settings = read(URL, authid="me", ticket_file=str(file))
    file.write_text("new", encoding="utf-8")
    assert settings.proof() == "new"


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe", b"x" * (MAX_SECRET_BYTES + 1)])
def test_a_file_without_a_secret_is_refused_by_its_variable(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "ticket"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_WAMP_TICKET_FILE names holds no secret") as caught:
        read(URL, authid="me", ticket_file=str(file)).proof()
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read_is_refused_by_its_variable(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_WAMP_SECRET_FILE names cannot be read"):
        read(URL, authid="me", secret_file=str(tmp_path / name)).proof()


def test_a_file_that_no_system_can_have_is_refused_by_its_variable() -> None:
    with pytest.raises(ConfigurationError, match="KNOWLEDGE_WAMP_SECRET_FILE names no file"):
        read(URL, authid="me", secret_file="a\0b").proof()


def test_two_ways_to_join_are_refused_by_their_names() -> None:
    message = refusal(URL, authid="me", ticket=SECRET, secret_file="f")
    assert "KNOWLEDGE_WAMP_TICKET, KNOWLEDGE_WAMP_SECRET_FILE" in message
    assert SECRET not in message


@pytest.mark.parametrize("name", ["ticket", "ticket_file", "secret", "secret_file"])
def test_a_proof_needs_to_know_whose_it_is(name: str) -> None:
    assert f"KNOWLEDGE_WAMP_{name.upper()} is set without KNOWLEDGE_WAMP_AUTHID" in refusal(URL, **{name: SECRET})


def test_a_key_says_itself_whose_it_is() -> None:
    assert read(URL, private_key="00" * 32).auth_method == "cryptosign"


def test_the_help_names_every_setting_and_no_other() -> None:
    described = {str(each["name"]).removeprefix("KNOWLEDGE_WAMP_").lower() for each in setting_infos(serving=True)}
    assert described == {"serializer" if name == "serializers" else name for name in WampSettings.model_fields}
    secrets = {each["name"] for each in setting_infos(serving=True) if each.get("secret")}
    assert secrets == {"KNOWLEDGE_WAMP_TICKET", "KNOWLEDGE_WAMP_SECRET", "KNOWLEDGE_WAMP_PRIVATE_KEY"}


def test_only_a_backend_takes_settings_from_its_url() -> None:
    def in_url(infos: list[Any]) -> set[str]:
        return {str(each["name"]) for each in infos if each.get("in_url")}

    assert in_url(setting_infos(serving=False)) == {f"KNOWLEDGE_WAMP_{name}" for name in ("URL", "REALM", "PREFIX")}
    assert in_url(setting_infos(serving=True)) == set()
    names = {each["name"] for each in setting_infos(serving=False)}
    assert "KNOWLEDGE_WAMP_WRITABLE" not in names
