"""What may be set, for the registry and `--help`; light, as both import it to say what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CLIENT_SETTINGS: Sequence[Mapping[str, Any]] = (
    {
        "name": "KNOWLEDGE_HTTP_URL",
        "description": "The server, such as https://host/ or http://127.0.0.1:8765/; ?backend=NAME for one of several",
        "required": True,
        "in_url": True,
    },
    {"name": "KNOWLEDGE_HTTP_TOKEN", "description": "The token to show to the server", "secret": True},
    {"name": "KNOWLEDGE_HTTP_CA_FILE", "description": "Certificates to trust, as a PEM file"},
    {"name": "KNOWLEDGE_HTTP_TIMEOUT_S", "description": "How long one call may take, in seconds", "default": "30"},
)
SERVER_SETTINGS: Sequence[Mapping[str, Any]] = (
    {"name": "KNOWLEDGE_HTTP_HOST", "description": "The address to listen at", "default": "127.0.0.1"},
    {"name": "KNOWLEDGE_HTTP_PORT", "description": "The port; 0 takes a free one", "default": "8765"},
    {
        "name": "KNOWLEDGE_HTTP_TOKENS",
        "description": "SECRET:SCOPE[:BACKEND[:NAME]], with commas in between; scopes are read, write, admin",
        "secret": True,
    },
    {
        "name": "KNOWLEDGE_HTTP_TOKENS_FILE",
        "description": "A file with one SECRET:SCOPE[:BACKEND[:NAME]] a line, read again when it changes",
    },
    {
        "name": "KNOWLEDGE_HTTP_WRITABLE",
        "description": "Without tokens: let callers store and delete documents, where the backend can",
        "flag": True,
    },
    {
        "name": "KNOWLEDGE_HTTP_INSECURE",
        "description": "Listen beyond this machine even without a token",
        "flag": True,
    },
    {
        "name": "KNOWLEDGE_HTTP_ALLOWED_HOSTS",
        "description": "Names under which the server may be asked besides its addresses, with commas; * for any",
    },
    {
        "name": "KNOWLEDGE_HTTP_CORS_ORIGINS",
        "description": "Sites whose pages may ask, such as https://app.example, with commas in between",
    },
    {"name": "KNOWLEDGE_HTTP_MAX_BODY", "description": "Bytes of the longest request body", "default": "16000000"},
    {"name": "KNOWLEDGE_HTTP_MAX_CONCURRENT", "description": "Calls to one backend that run at once", "default": "8"},
    {"name": "KNOWLEDGE_HTTP_TIMEOUT_S", "description": "How long one call may take, in seconds", "default": "30"},
    {
        "name": "KNOWLEDGE_HTTP_QUIET",
        "description": "Log no line for each request",
        "flag": True,
    },
)
