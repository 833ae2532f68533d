"""The configuration of a test router, and who may join it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OPEN_REALM = "realm1"
SECURED_REALM = "secured"
DENIED_PREFIX = "denied."
SMALL_LIMIT = 64 * 1024
SERIALIZERS = ("json", "msgpack", "cbor")


@dataclass(frozen=True)
class Credentials:
    """Of one who may join `secured`. `secret` is the ticket, the shared secret, or the private key in hex."""

    method: str
    authid: str
    secret: str


@dataclass(frozen=True)
class IronflockIdentity:
    """The device and app that an IronFlock object of the tests speaks for."""

    swarm: int = 7
    device: int = 11
    app: int = 42
    env: str = "DEV"
    serial: str = "serial-of-the-test-device"

    @property
    def realm(self) -> str:
        return f"realm-{self.swarm}-{self.app}-{self.env.lower()}"

    @property
    def prefix(self) -> str:
        """Before the topic of each function that the object registers."""
        return f"{self.swarm}.{self.device}.{self.app}.{self.env}"

    @property
    def credentials(self) -> Credentials:
        return Credentials("wampcra", self.serial, self.serial)


TICKET = Credentials("ticket", "ticket-user", "a-ticket-for-tests-only")
WAMPCRA = Credentials("wampcra", "cra-user", "a-shared-secret-for-tests-only")
CRYPTOSIGN = Credentials("cryptosign", "key-user", "62656e63682d63727970746f7369676e2d6b65792d6f662d33322d6279746573")
_CRYPTOSIGN_PUBLIC = "bf971267dc03b3c6c44639243771f0f21b63cc1ba05c05e0fb50a2d9915d360a"
IRONFLOCK = IronflockIdentity()


def node_config(*, websocket: int, small: int, rawsocket: int) -> Mapping[str, Any]:
    """What crossbar reads at its start; the arguments are ports on loopback."""
    transports = [
        _transport("websocket", websocket),
        # Beyond its limit this one drops the connection of whoever sent the message.
        {**_transport("websocket", small), "options": {"max_message_size": SMALL_LIMIT}},
        _transport("rawsocket", rawsocket),
    ]
    realms = [
        _realm(OPEN_REALM, "anonymous"),
        _realm(SECURED_REALM, "app", no_register=[DENIED_PREFIX]),
        _realm(IRONFLOCK.realm, "device"),
    ]
    return {"version": 2, "workers": [{"type": "router", "realms": realms, "transports": transports}]}


def _transport(kind: str, port: int) -> dict[str, Any]:
    endpoint = {"type": "tcp", "interface": "127.0.0.1", "port": port, "backlog": 1024}
    return {"type": kind, "endpoint": endpoint, "serializers": list(SERIALIZERS), "auth": _auth()}


def _auth() -> Mapping[str, Any]:
    shared = {
        WAMPCRA.authid: {"secret": WAMPCRA.secret, "role": "app"},
        IRONFLOCK.serial: {"secret": IRONFLOCK.serial, "role": "device"},
    }
    return {
        "anonymous": {"type": "static", "role": "anonymous"},
        "ticket": {"type": "static", "principals": {TICKET.authid: {"ticket": TICKET.secret, "role": "app"}}},
        "wampcra": {"type": "static", "users": shared},
        "cryptosign": {
            "type": "static",
            "principals": {CRYPTOSIGN.authid: {"authorized_keys": [_CRYPTOSIGN_PUBLIC], "role": "app"}},
        },
    }


def _realm(name: str, role: str, no_register: Sequence[str] = ()) -> Mapping[str, Any]:
    permissions = [_permission("", register=True), *(_permission(prefix, register=False) for prefix in no_register)]
    return {"name": name, "roles": [{"name": role, "permissions": permissions}]}


def _permission(prefix: str, *, register: bool) -> Mapping[str, Any]:
    return {
        "uri": prefix,
        "match": "prefix",
        "allow": {"call": True, "register": register, "publish": True, "subscribe": True},
        "disclose": {"caller": False, "publisher": False},
        "cache": True,
    }
