"""Joining a realm: each way to prove who one is, what is wrong with it, and that no secret is told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import txaio
from autobahn.wamp import auth
from autobahn.wamp.types import Challenge

from knowledge_engine.errors import ConfigurationError, KnowledgeError, UnavailableError
from knowledge_wamp import WampSettings
from knowledge_wamp import session as session_module
from knowledge_wamp.session import Session, open_session
from wamp_bench.node_config import Credentials
from wamp_bench.places import free_port
from wamp_bench.router import Router
from wamp_bench.servers import new_prefix, serving, until

#: Refusals come at once; this much is for a loaded machine.
PROMPTLY_S = 8.0
FIELDS = {"ticket": "ticket", "wampcra": "secret", "cryptosign": "private_key"}
each_method = pytest.mark.parametrize("method", FIELDS)
each_transport = pytest.mark.parametrize("transport", ["url", "rawsocket_url"])


def settings_for(router: Router, credentials: Credentials, transport: str = "url", **more: Any) -> WampSettings:
    given = {
        "url": getattr(router, transport),
        "realm": router.secured_realm,
        "authid": credentials.authid,
        FIELDS[credentials.method]: credentials.secret,
    }
    return WampSettings(**(given | more))


async def joins(settings: WampSettings) -> str:
    """The realm's idea of who joined."""
    session = await asyncio.wait_for(open_session(settings), PROMPTLY_S + session_module.CONNECT_TIMEOUT_S)
    details = session.joined.result()
    await session.close()
    return f"{details.authmethod} {details.authid}"


def refusal_of(settings: WampSettings) -> ConfigurationError:
    async def attempt() -> None:
        session = await asyncio.wait_for(open_session(settings), PROMPTLY_S)
        await session.close()

    with pytest.raises(ConfigurationError) as caught:
        asyncio.run(attempt())
    return caught.value


@each_transport
@each_method
def test_who_proves_himself_joins(router: Router, method: str, transport: str) -> None:
    credentials = getattr(router, method)
    joined = asyncio.run(joins(settings_for(router, credentials, transport)))
    assert joined == f"{method} {credentials.authid}"


@each_transport
@pytest.mark.parametrize("serializer", ["json", "msgpack", "cbor"])
def test_who_proves_nothing_joins_as_anonymous(router: Router, transport: str, serializer: str) -> None:
    settings = WampSettings(url=getattr(router, transport), realm=router.realm, serializers=(serializer,))
    assert asyncio.run(joins(settings)).startswith("anonymous ")


@each_method
def test_a_wrong_secret_is_refused_for_good(router: Router, method: str) -> None:
    right: Credentials = getattr(router, method)
    error = refusal_of(settings_for(router, Credentials(method, right.authid, "ab" * 32)))
    assert "The router does not" in str(error)
    assert "KNOWLEDGE_WAMP_" in error.mend


@each_method
def test_one_whom_the_router_does_not_know_is_refused_for_good(router: Router, method: str) -> None:
    right: Credentials = getattr(router, method)
    error = refusal_of(settings_for(router, Credentials(method, "nobody", right.secret)))
    assert "The router does not" in str(error)


def test_another_way_to_join_than_the_router_takes_is_refused_for_good(router: Router) -> None:
    stranger = Credentials("wampcra", router.ticket.authid, router.ticket.secret)
    assert "The router does not" in str(refusal_of(settings_for(router, stranger)))


def test_a_realm_that_is_not_there_is_named(router: Router) -> None:
    error = refusal_of(WampSettings(url=router.url, realm="no.such.realm"))
    assert "'no.such.realm'" in str(error)


@pytest.mark.parametrize("key", ["", "zz" * 32, "ab" * 31, "ab" * 33, "\N{SNOWMAN}" * 64])
def test_a_key_that_is_none_is_refused_before_connecting(key: str) -> None:
    settings = WampSettings(url="ws://127.0.0.1:1/ws", authid="a", private_key=key)  # type: ignore[arg-type]
    error = refusal_of(settings)
    assert "64 hexadecimal digits" in error.mend
    assert not key or key not in str(error)


def test_without_the_library_for_cryptosign_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "autobahn.wamp.cryptosign", None)
    settings = WampSettings(url="ws://127.0.0.1:1/ws", authid="a", private_key="ab" * 32)  # type: ignore[arg-type]
    assert "kpkit-wamp[cryptosign]" in refusal_of(settings).mend


def test_a_salted_secret_signs_with_the_key_that_is_derived_from_it() -> None:
    async def signed(extra: dict[str, Any]) -> Any:
        settings = WampSettings(url="ws://127.0.0.1:1", authid="a", secret="pepper")  # type: ignore[arg-type]
        return Session(settings, settings.proof()).onChallenge(Challenge("wampcra", extra))

    extra = {"challenge": "{}", "salt": "salt", "iterations": 100, "keylen": 16}
    key = auth.derive_key("pepper", "salt", 100, 16)
    assert key != b"pepper"
    assert asyncio.run(signed(extra)) == auth.compute_wcs(key, "{}").decode()
    assert asyncio.run(signed({"challenge": "{}"})) == auth.compute_wcs("pepper", "{}").decode()


@pytest.mark.parametrize("asked", ["ticket", "cryptosign", "scram"])
def test_a_secret_goes_out_by_no_other_way_than_the_one_that_is_set(asked: str) -> None:
    async def answer() -> Any:
        settings = WampSettings(url="ws://127.0.0.1:1", authid="a", secret="pepper")  # type: ignore[arg-type]
        return Session(settings, settings.proof()).onChallenge(Challenge(asked, {"challenge": "00" * 32}))

    with pytest.raises(ValueError, match="asks for") as caught:
        asyncio.run(answer())
    assert "pepper" not in str(caught.value)


# Secret files


def test_a_ticket_file_that_was_rewritten_is_read_anew(router: Router, tmp_path: Path) -> None:
    file = tmp_path / "ticket"
    settings = settings_for(router, router.ticket, ticket=None, ticket_file=str(file))
    file.write_text("an old one")
    assert "The router does not" in str(refusal_of(settings))
    file.write_text(f"\n{router.ticket.secret}\n")
    assert asyncio.run(joins(settings)) == f"ticket {router.ticket.authid}"


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"\xff\xfe\x00", b"x" * 100_001], ids=["empty", "blank", "binary", "huge"]
)
def test_a_ticket_file_without_a_ticket_is_named_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ticket"
    file.write_bytes(content)
    settings = WampSettings(url="ws://127.0.0.1:1", authid="a", ticket_file=str(file))
    error = refusal_of(settings)
    assert "KNOWLEDGE_WAMP_TICKET_FILE" in str(error)
    assert "holds no secret" in str(error)


def test_a_ticket_file_that_is_missing_or_a_folder_says_why(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        settings = WampSettings(url="ws://127.0.0.1:1", authid="a", ticket_file=str(path))
        error = refusal_of(settings)
        assert "KNOWLEDGE_WAMP_TICKET_FILE names cannot be read" in str(error)


# Secrets are not told


@pytest.fixture
def told_everything(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Logs of every logger at its lowest level, autobahn's included."""
    before = txaio.get_global_log_level()
    txaio.set_global_log_level("trace")
    with caplog.at_level(logging.DEBUG):
        yield caplog
    txaio.set_global_log_level(before)


@each_transport
@each_method
@pytest.mark.parametrize("right", [True, False])
def test_a_secret_is_in_no_log_no_error_and_no_file(
    router: Router,
    method: str,
    transport: str,
    right: bool,
    tmp_path: Path,
    told_everything: pytest.LogCaptureFixture,
) -> None:
    known: Credentials = getattr(router, method)
    secret = known.secret if right else "0f" * 32
    health = tmp_path / "health.json"
    settings = settings_for(
        router, Credentials(method, known.authid, secret), transport, health_file=str(health), prefix=new_prefix()
    )
    texts = [repr(settings), str(settings), settings.model_dump_json()]

    async def attempt() -> None:
        try:
            async with serving(settings) as server:
                texts.append(repr(server.health))
        except ConfigurationError as error:
            texts.extend([repr(error), str(error.__cause__), str(error.__context__)])
            assert not right

    asyncio.run(attempt())
    texts.append(health.read_text())
    texts.extend(told_everything.messages)
    texts.extend(str(vars(record)) for record in told_everything.records)
    assert any("WampRawSocketProtocol" in text or "WAMP-Transmit" in text for text in told_everything.messages)
    hidden = [secret, secret.encode().hex(), hashlib.sha256(secret.encode()).hexdigest()]
    assert [text for text in texts if any(form in text for form in hidden)] == []


# Connections


def test_a_port_where_nobody_listens_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="cannot be reached"):
        asyncio.run(joins(WampSettings(url=f"ws://127.0.0.1:{free_port()}/ws")))


def test_a_host_that_nobody_has_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="cannot be reached"):
        asyncio.run(joins(WampSettings(url="ws://no-such-host.invalid/ws")))


def test_a_host_that_cannot_be_one_is_refused_for_good() -> None:
    assert "host" in str(refusal_of(WampSettings(url=f"rs://{'a' * 80}..b:80")))


@asynccontextmanager
async def answering(answer: bytes | None) -> AsyncIterator[int]:
    """A port where whoever says something gets that answer and the end; with None, nothing ever."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("scheme", ["ws", "rs"])
@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0-something\r\n", b"HTTP/1.1 404 Not Found\r\n\r\n", b"\x7f\x10\x00\x00"]
)
def test_what_is_no_router_is_unavailable(scheme: str, answer: bytes) -> None:
    async def attempt() -> None:
        async with answering(answer) as port:
            await joins(WampSettings(url=f"{scheme}://127.0.0.1:{port}"))

    with pytest.raises(UnavailableError, match="ended the connection"):
        asyncio.run(attempt())


def test_the_answer_of_a_wrong_path_is_told() -> None:
    async def attempt() -> None:
        async with answering(b"HTTP/1.1 404 Not Found\r\n\r\n") as port:
            await joins(WampSettings(url=f"ws://127.0.0.1:{port}/wrong"))

    with pytest.raises(UnavailableError, match=r"404.*KNOWLEDGE_WAMP_URL"):
        asyncio.run(attempt())


@pytest.mark.parametrize("scheme", ["ws", "rs", "wss", "rss"])
def test_a_port_that_never_answers_is_given_up_and_its_connection_closed(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "CONNECT_TIMEOUT_S", 0.3)
    closed: list[bytes] = []

    async def attempt() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                await reader.read(-1)
            closed.append(b"")
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(UnavailableError, match=r"within 0\.3 s"):
                await open_session(WampSettings(url=f"{scheme}://127.0.0.1:{port}"))
            await until(lambda: closed)

    asyncio.run(attempt())


@pytest.mark.parametrize("scheme", ["ws", "rs"])
def test_who_gives_up_connecting_leaves_no_connection(scheme: str) -> None:
    closed: list[bytes] = []

    async def attempt() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            opened.set()
            with suppress(ConnectionError):
                await reader.read(-1)
            closed.append(b"")
            writer.close()

        opened = asyncio.Event()
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            opening = asyncio.create_task(open_session(WampSettings(url=f"{scheme}://127.0.0.1:{port}")))
            await opened.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await until(lambda: closed)

    asyncio.run(attempt())


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", "key.pem", "-out", "cert.pem"], cwd=folder, check=True, capture_output=True
    )
    return folder


@asynccontextmanager
async def tls_in_front(port: int, certificate: Path) -> AsyncIterator[int]:
    """A port that speaks TLS and passes on what is inside."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ssl.SSLError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(("scheme", "port"), [("wss", "port"), ("rss", "rawsocket_port")])
def test_a_certificate_is_trusted_only_where_it_is_named(
    router: Router, certificate: Path, scheme: str, port: str
) -> None:
    async def attempt(ca_file: str | None) -> str:
        async with tls_in_front(getattr(router, port), certificate) as there:
            url = f"{scheme}://127.0.0.1:{there}/ws"
            return await joins(settings_for(router, router.ticket, url=url, ca_file=ca_file))

    assert asyncio.run(attempt(str(certificate / "cert.pem"))) == f"ticket {router.ticket.authid}"
    with pytest.raises(UnavailableError, match="certificate verify failed"):
        asyncio.run(attempt(None))


def test_a_certificate_for_another_host_is_not_trusted(router: Router, certificate: Path) -> None:
    async def attempt() -> None:
        async with tls_in_front(router.port, certificate) as there:
            url = f"wss://localhost:{there}/ws"
            await joins(settings_for(router, router.ticket, url=url, ca_file=str(certificate / "cert.pem")))

    with pytest.raises(UnavailableError, match="certificate verify failed"):
        asyncio.run(attempt())


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_without_certificates_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    error = refusal_of(WampSettings(url="wss://127.0.0.1:1/ws", ca_file=str(file)))
    assert "KNOWLEDGE_WAMP_CA_FILE" in str(error)


def test_a_server_with_a_wrong_secret_ends_before_it_ever_served(router: Router, tmp_path: Path) -> None:
    health = tmp_path / "health.json"
    wrong = Credentials("ticket", router.ticket.authid, "wrong")
    settings = settings_for(router, wrong, health_file=str(health))

    async def attempt() -> KnowledgeError:
        with pytest.raises(ConfigurationError) as caught:
            async with serving(settings):
                raise AssertionError("it served")
        return caught.value

    error = asyncio.run(attempt())
    said = json.loads(health.read_text())
    assert said["state"] == "stopped"
    assert said["reason"] == str(error)
    assert os.listdir(tmp_path) == ["health.json"]
