"""What may be set, for the registry and `--help`; light, as both import it to say what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SETTINGS: Sequence[Mapping[str, Any]] = (
    {
        "name": "KNOWLEDGE_WAMP_URL",
        "description": "The router: ws://, wss://, rs:// or rss:// with host and port",
        "required": True,
        "in_url": True,
    },
    {"name": "KNOWLEDGE_WAMP_REALM", "description": "The realm to join", "default": "realm1", "in_url": True},
    {
        "name": "KNOWLEDGE_WAMP_PREFIX",
        "description": "What stands before app_knowledge in the procedures, such as swarm.device.app.env",
        "in_url": True,
    },
    {"name": "KNOWLEDGE_WAMP_AUTHID", "description": "Whom to join as"},
    {"name": "KNOWLEDGE_WAMP_TICKET", "description": "The ticket to join with", "secret": True},
    {"name": "KNOWLEDGE_WAMP_TICKET_FILE", "description": "The file that holds the ticket, read at each connection"},
    {"name": "KNOWLEDGE_WAMP_SECRET", "description": "The WAMP-CRA secret to join with", "secret": True},
    {"name": "KNOWLEDGE_WAMP_SECRET_FILE", "description": "The file that holds the WAMP-CRA secret"},
    {
        "name": "KNOWLEDGE_WAMP_PRIVATE_KEY",
        "description": "The Ed25519 key to join with by cryptosign, 64 hexadecimal digits",
        "secret": True,
    },
    {"name": "KNOWLEDGE_WAMP_PRIVATE_KEY_FILE", "description": "The file that holds the key for cryptosign"},
    {
        "name": "KNOWLEDGE_WAMP_SERIALIZER",
        "description": "msgpack, cbor or json; by default the first of them that the router takes",
    },
    {"name": "KNOWLEDGE_WAMP_CA_FILE", "description": "Certificates to trust for wss:// and rss://, as a PEM file"},
    {"name": "KNOWLEDGE_WAMP_TIMEOUT_S", "description": "How long one call may take, in seconds", "default": "30"},
)
_SERVE_SETTINGS: Sequence[Mapping[str, Any]] = (
    {
        "name": "KNOWLEDGE_WAMP_SHARED",
        "description": "Share the procedures with other servers of the same prefix, which take calls in turn",
        "flag": True,
    },
    {
        "name": "KNOWLEDGE_WAMP_WRITABLE",
        "description": "Let callers store and delete documents, where the backend can",
        "flag": True,
    },
    {
        "name": "KNOWLEDGE_WAMP_HEALTH_FILE",
        "description": "A file to keep the state in as JSON, for health checks",
    },
    {
        "name": "KNOWLEDGE_WAMP_MAX_PAYLOAD",
        "description": "Bytes of the longest answer; longer ones are cut or refused",
        "default": "1000000",
    },
)


def setting_infos(*, serving: bool) -> list[Mapping[str, Any]]:
    """What a plugin says of its settings; those of a server have some more, and no URL to say them instead."""
    if not serving:
        return [*_SETTINGS]
    return [{key: value for key, value in each.items() if key != "in_url"} for each in (*_SETTINGS, *_SERVE_SETTINGS)]
